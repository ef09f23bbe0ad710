//! Recordings of work whose profile is known. A process has one recording at a
//! time, so the tests take turns.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use profile::{
    Allocator, Profile, ProfileKind, Recording, RecordingError, STEPS, SpanRecording, Stopwatch,
    WaitSite, lock, monotonic_ns, record_steps, records_spans, thread_parks, thread_wakes,
};
use std::alloc::System;
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Allocator<System> = Allocator::new(System);

static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sum of the stacks that contain all these names in this order.
fn sum_of(profile: &Profile, names: &[&str]) -> u64 {
    let has_all = |frames: &str| {
        let mut rest = frames;
        names.iter().all(|name| match rest.split_once(name) {
            Some((_, behind)) => {
                rest = behind;
                true
            }
            None => false,
        })
    };
    let folded = profile.folded();
    let lines = folded.lines().map(|line| line.rsplit_once(' ').unwrap());
    let weights = lines.filter(|(frames, _)| has_all(frames));
    weights
        .map(|(_, weight)| weight.parse::<u64>().unwrap())
        .sum()
}

/// How long the thread has used the processor whose `schedstat` this is. It allocates
/// nothing, which would be in profiles of the test.
fn processor_time(schedstat: &File) -> Duration {
    let mut text = [0; 64];
    schedstat.read_at(&mut text, 0).unwrap();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    Duration::from_nanos(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// Uses the processor for this long, however long a busy machine takes to give so much.
#[inline(never)]
fn grind(time: Duration) -> u64 {
    let schedstat = File::open("/proc/thread-self/schedstat").unwrap();
    let end = processor_time(&schedstat) + time;
    let mut number = 1_u64;
    while processor_time(&schedstat) < end {
        for _ in 0..1_000_000 {
            number = black_box(number.wrapping_mul(6_364_136_223_846_793_005) ^ 1);
        }
    }
    number
}

#[inline(never)]
fn grind_in_a_caller(time: Duration) -> u64 {
    grind(time) ^ 1
}

#[test]
fn cpu_time_is_found_where_it_is_spent() {
    let _turn = turn();
    let recording = Recording::start(ProfileKind::Cpu).unwrap();
    let worker = std::thread::Builder::new().name("grinder-7".to_owned());
    let worker = worker
        .spawn(|| grind_in_a_caller(Duration::from_secs(1)))
        .unwrap();
    black_box(worker.join().unwrap());
    let profile = recording.finish();
    let found = sum_of(&profile, &["grinder;", "grind_in_a_caller", "grind"]);
    assert!(found >= 5, "{}", profile.folded());
    assert!(found * 10 >= profile.total() * 8, "{}", profile.folded());
    let svg = profile.flame_graph();
    assert!(
        svg.contains("<svg") && svg.contains("grind_in_a_caller"),
        "{svg}"
    );
    // The frames that capture the stack are removed.
    assert_eq!(
        sum_of(&profile, &["backtrace::"]),
        0,
        "{}",
        profile.folded()
    );
    assert_eq!(sum_of(&profile, &["profile::"]), 0, "{}", profile.folded());
}

#[inline(never)]
fn ask_for_memory(times: usize, bytes: usize) {
    for _ in 0..times {
        black_box(Vec::<u8>::with_capacity(bytes));
    }
}

#[test]
fn allocated_bytes_are_counted_by_caller() {
    let _turn = turn();
    for (times, bytes) in [(1 << 20, 100), (1 << 16, 2000), (40, 4 << 20)] {
        let recording = Recording::start(ProfileKind::Allocations).unwrap();
        ask_for_memory(times, bytes);
        let profile = recording.finish();
        let found = sum_of(&profile, &["ask_for_memory"]) as f64;
        let asked = (times * bytes) as f64;
        // At least 800 samples, so a standard deviation is below 4%.
        assert!(
            (asked * 0.75..asked * 1.25).contains(&found),
            "{found} of {asked} bytes\n{}",
            profile.folded()
        );
    }
}

#[inline(never)]
fn take_lock(mutex: &Mutex<u64>) -> u64 {
    *lock(mutex)
}

#[test]
fn a_lock_that_is_waited_for_is_found() {
    let _turn = turn();
    // A busy machine may let the waiter run only once the lock is free again.
    assert!((0..100).any(|_| is_wait_for_lock_found()));
}

fn is_wait_for_lock_found() -> bool {
    let recording = Recording::start(ProfileKind::Waits).unwrap();
    let mutex = Mutex::new(3);
    let ready = Barrier::new(2);
    let held = Duration::from_millis(200);
    std::thread::scope(|scope| {
        let guard = mutex.lock().unwrap();
        let waiter = scope.spawn(|| {
            ready.wait();
            take_lock(&mutex)
        });
        ready.wait();
        // The other thread has to wait for this long.
        std::thread::sleep(held);
        drop(guard);
        assert_eq!(waiter.join().unwrap(), 3);
    });
    // Taking a free lock is not a wait.
    drop(lock(&mutex));
    let profile = recording.finish();
    let waited = Duration::from_nanos(sum_of(&profile, &["lock;", "take_lock"]));
    let lines = profile.folded().lines().count();
    assert!(lines <= 1, "{}", profile.folded());
    lines == 1 && waited > Duration::from_millis(1)
}

#[test]
fn a_wait_counts_at_its_site_and_in_its_recording() {
    let _turn = turn();
    static SITE: WaitSite = WaitSite::new("queue;of the test");
    let unrecorded = Stopwatch::start();
    let recording = Recording::start(ProfileKind::Waits).unwrap();
    unrecorded.stop(&SITE);
    let earlier = Stopwatch::start();
    assert_eq!(recording.finish().folded(), "");

    let recording = Recording::start(ProfileKind::Waits).unwrap();
    earlier.stop(&SITE);
    let waiting = Stopwatch::start();
    let other = Stopwatch::start();
    waiting.stop(&SITE);
    other.stop(&WaitSite::named("queue;of the test".to_owned()));
    let profile = recording.finish();
    assert!(profile.total() > 0);
    assert_eq!(sum_of(&profile, &["queue;of the test"]), profile.total());
    assert_eq!(profile.folded().lines().count(), 1, "{}", profile.folded());
}

#[test]
fn there_is_one_recording_at_a_time() {
    let _turn = turn();
    let first = Recording::start(ProfileKind::Waits).unwrap();
    for kind in [
        ProfileKind::Cpu,
        ProfileKind::Allocations,
        ProfileKind::Waits,
    ] {
        assert!(matches!(Recording::start(kind), Err(RecordingError::Busy)));
    }
    drop(first);
    let second = Recording::start(ProfileKind::Cpu).unwrap();
    assert!(matches!(
        Recording::start(ProfileKind::Waits),
        Err(RecordingError::Busy)
    ));
    drop(second.finish());
    // An empty recording has a picture too.
    let nothing = Recording::start(ProfileKind::Waits).unwrap().finish();
    assert_eq!(nothing.folded(), "");
    assert!(nothing.flame_graph().contains("Nothing was recorded"));
}

#[test]
fn threads_that_end_are_recorded_to_their_end() {
    let _turn = turn();
    let recording = Recording::start(ProfileKind::Allocations).unwrap();
    let asked = AtomicUsize::new(0);
    for _ in 0..64 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                ask_for_memory(1000, 1000);
                asked.fetch_add(1_000_000, Ordering::Relaxed);
            });
        });
    }
    let profile = recording.finish();
    let found = sum_of(&profile, &["ask_for_memory"]) as f64;
    let asked = asked.into_inner() as f64;
    // Each thread starts a new countdown, which must not bias the sum.
    assert!(
        (asked * 0.75..asked * 1.25).contains(&found),
        "{found} of {asked}"
    );
}

/// The numbers and the name of the spans of a recording.
fn spans_of(text: &str) -> Vec<(Vec<u64>, String)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("span "));
    lines
        .map(|line| {
            let words: Vec<&str> = line.splitn(5, ' ').collect();
            let numbers = words[..4].iter().map(|word| word.parse().unwrap());
            (numbers.collect(), words[4].to_owned())
        })
        .collect()
}

#[test]
fn spans_are_kept_one_by_one_with_their_times() {
    static SITE: WaitSite = WaitSite::new("queue;of spans");
    let _turn = turn();
    Stopwatch::start().stop_tagged(&SITE, 1);
    record_steps(1, 1, [1; STEPS]);
    let recording = SpanRecording::start().unwrap();
    let before = monotonic_ns();
    for tag in [7, 8, 0] {
        // The last one has no tag, and is too short to be kept.
        Stopwatch::start().stop_tagged(&SITE, tag);
    }
    let long = Stopwatch::start();
    while monotonic_ns() - before < 1_000_000 {}
    long.stop(&SITE);
    record_steps(5_000, 7, [3; STEPS]);
    thread_wakes();
    black_box(grind(Duration::from_millis(5)));
    thread_parks();
    let after = monotonic_ns();
    let text = recording.finish();
    let spans = spans_of(&text);
    let tags: Vec<u64> = spans.iter().map(|(numbers, _)| numbers[3]).collect();
    assert_eq!(tags[..3], [7, 8, 0], "{text}");
    assert!(spans[..3].iter().all(|(_, site)| site == "queue;of spans"));
    for (numbers, _) in &spans {
        assert!(before <= numbers[0] && numbers[0] <= numbers[1] && numbers[1] <= after);
    }
    // The CPU time of the thread lies within the time that it was busy.
    let (busy, site) = &spans[3];
    assert_eq!((spans.len(), site.as_str()), (4, "runtime;busy"));
    assert!(busy[3] > 0 && busy[3] <= busy[1] - busy[0], "{text}");
    let steps = text
        .lines()
        .find(|line| line.starts_with("steps "))
        .unwrap();
    assert!(steps.starts_with("steps 5000 ") && steps.ends_with(" 7 3 3 3 3 3 3 3 3 3 3"));
    assert!(text.ends_with("\nleft-out 0 0\n"), "{text}");
    assert!(!records_spans());
}

#[test]
fn spans_wait_for_their_turn_and_leave_nothing() {
    static SITE: WaitSite = WaitSite::new("queue;of another recording");
    let _turn = turn();
    let spans = SpanRecording::start().unwrap();
    assert!(matches!(
        Recording::start(ProfileKind::Waits),
        Err(RecordingError::Busy)
    ));
    assert!(matches!(SpanRecording::start(), Err(RecordingError::Busy)));
    Stopwatch::start().stop_tagged(&SITE, 9);
    drop(spans);
    assert_eq!(SpanRecording::start().unwrap().finish(), "left-out 0 0\n");
    // What waits while spans are recorded is in no sum.
    assert_eq!(
        Recording::start(ProfileKind::Waits)
            .unwrap()
            .finish()
            .folded(),
        ""
    );
}
