//! The rests that follow from the share, and what the probes measure.

use super::controller::SHARE_MIN;
use super::{Background, ClientsSeen, Pacer, REST_MAX, WorkKind};
use base::{Clock, ManualClock};
use lsm_testing::StepExecutor;
use profile::lock;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const STEP: Duration = Duration::from_millis(100);

/// A budget at its floor: its runtimes are always busy.
pub fn overloaded(clock: &Arc<ManualClock>) -> Arc<Background> {
    let background = Background::new(Arc::clone(clock) as _);
    let busy = Arc::clone(clock);
    background.see_clients_by(Box::new(move || ClientsSeen {
        busy: vec![busy.monotonic()],
        ..ClientsSeen::default()
    }));
    for _ in 0..20 {
        clock.advance(STEP);
        background.decide();
    }
    assert_eq!(background.status().share, SHARE_MIN);
    background
}

fn overloaded_now() -> (Arc<Background>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(0));
    (overloaded(&clock), clock)
}

#[test]
fn work_rests_so_long_that_it_used_its_share() {
    let (background, _clock) = overloaded_now();
    let took = Duration::from_micros(500);
    for kind in WorkKind::ALL {
        let rest = background.rest_after(kind, took);
        let share = took.as_secs_f64() / (took + rest).as_secs_f64();
        assert!((share - SHARE_MIN).abs() < 1e-6, "{share}");
        assert_eq!(background.times(kind), (took, rest));
    }
}

#[test]
fn the_floor_of_overdue_work_is_doubled_up_to_a_bound_and_no_other_is() {
    let (background, _clock) = overloaded_now();
    let took = Duration::from_micros(500);
    for (doublings, share) in [(1, 0.04), (2, 0.08), (3, 0.16), (u32::MAX, 0.16), (0, 0.02)] {
        background.set_overdue(WorkKind::Repair, doublings);
        let rest = background.rest_after(WorkKind::Repair, took);
        let used = took.as_secs_f64() / (took + rest).as_secs_f64();
        assert!((used - share).abs() < 1e-6, "{used} {share}");
        assert_eq!(background.floor(WorkKind::Hints), SHARE_MIN);
    }
    // What clients leave may be more.
    let background = Background::new(Arc::new(ManualClock::new(0)));
    background.set_overdue(WorkKind::Repair, 3);
    assert_eq!(
        background.rest_after(WorkKind::Repair, took),
        Duration::ZERO
    );
}

#[test]
fn a_rest_is_bounded_and_shorter_the_more_urgent_the_work_is() {
    let (background, _clock) = overloaded_now();
    let kind = WorkKind::Compaction;
    let long = Duration::from_secs(60);
    assert_eq!(background.rest_after(kind, long), REST_MAX);
    let half = background.rest_after_urgent(kind, long, 0.5);
    assert_eq!(half, REST_MAX / 2);
    assert_eq!(
        background.rest_after_urgent(kind, long, 1.0),
        Duration::ZERO
    );
}

#[test]
fn work_on_an_idle_machine_does_not_rest() {
    let background = Background::new(Arc::new(ManualClock::new(0)));
    let long = Duration::from_secs(1);
    assert_eq!(
        background.rest_after(WorkKind::Repair, long),
        Duration::ZERO
    );
}

#[test]
fn one_late_probe_is_no_queue() {
    let (background, clock) = overloaded_now();
    let late = Duration::from_millis(500);
    background.note_delay(late);
    clock.advance(STEP);
    background.decide();
    assert_eq!(background.status().queueing_delay.0, Duration::ZERO);
    background.note_delay(late);
    background.note_delay(late);
    clock.advance(STEP);
    background.decide();
    assert_eq!(background.status().queueing_delay.0, late);
}

/// A job class of repairs whose jobs take two milliseconds, and note when they end.
struct JobClass {
    background: Arc<Background>,
    clock: Arc<ManualClock>,
    executor: Arc<StepExecutor>,
    pacer: Arc<Pacer>,
    ends: Arc<Mutex<Vec<Duration>>>,
}

const TOOK: Duration = Duration::from_millis(2);

impl JobClass {
    fn new() -> Self {
        let (background, clock) = overloaded_now();
        let executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
        let (kind, class) = (WorkKind::Repair, lsm::JobClass::Scan);
        Self {
            pacer: Pacer::new(
                Arc::clone(&background),
                kind,
                Arc::clone(&executor) as _,
                class,
            ),
            background,
            clock,
            executor,
            ends: Arc::default(),
        }
    }

    fn spawn(&self) {
        let (clock, ends) = (Arc::clone(&self.clock), Arc::clone(&self.ends));
        self.pacer.spawn(move || {
            clock.advance(TOOK);
            lock(&ends).push(clock.monotonic());
        });
    }

    /// How long after one job the next one ended.
    fn gaps(&self) -> Vec<Duration> {
        let ends = lock(&self.ends);
        ends.windows(2).map(|two| two[1] - two[0]).collect()
    }
}

/// The thread is free while the job class rests.
#[test]
fn jobs_of_a_busy_class_are_put_off_and_not_blocked() {
    let class = JobClass::new();
    class.spawn();
    let began = class.clock.monotonic();
    class.executor.run_all_due();
    assert_eq!(class.clock.monotonic(), began + TOOK, "the thread is free");
    class.spawn();
    assert_eq!(class.executor.run_all_due(), 0, "the class rests");
    class.executor.run_until_idle();
    assert_eq!(class.gaps(), [TOOK.mul_f64(1.0 / SHARE_MIN)]);
}

/// Where clients take the processors, a job class of low priority waits for most of the time that
/// its jobs take. If that counted as work, the jobs would take far longer than the floor allows.
#[test]
fn a_job_class_does_not_rest_for_the_time_that_it_waits_for_a_processor() {
    let class = JobClass::new();
    class.spawn();
    class.executor.run_until_idle();
    let waits = 8 * TOOK;
    let clock = Arc::clone(&class.clock);
    let worked = class.background.times(WorkKind::Repair).0;
    class.pacer.spawn(move || clock.wait_for_processor(waits));
    class.executor.run_until_idle();
    assert_eq!(class.background.times(WorkKind::Repair).0, worked);
    class.spawn();
    class.executor.run_until_idle();
    assert_eq!(class.gaps(), [TOOK.mul_f64(1.0 / SHARE_MIN) + waits]);
}

#[test]
fn jobs_that_ran_in_a_row_leave_their_rests_up_to_a_bound() {
    let class = JobClass::new();
    for _ in 0..100 {
        class.spawn();
    }
    class.executor.run_until_idle();
    assert_eq!(class.gaps(), [TOOK; 99], "they waited for no rest");
    class.spawn();
    class.executor.run_until_idle();
    assert_eq!(class.gaps()[99], 4 * REST_MAX + TOOK);
}

/// Runs jobs in any order.
#[derive(Default)]
struct Jobs(Mutex<Vec<lsm::Job>>);

impl lsm::Executor for Jobs {
    fn spawn(&self, _: lsm::JobClass, _: Duration, job: lsm::Job) {
        lock(&self.0).push(job);
    }
}

#[test]
fn jobs_run_in_their_order_and_go_with_their_executor() {
    let (background, _clock) = overloaded_now();
    let executor = Arc::new(Jobs::default());
    let (kind, class) = (WorkKind::Repair, lsm::JobClass::Scan);
    let pacer = Pacer::new(background, kind, Arc::clone(&executor) as _, class);
    let ran: Arc<Mutex<Vec<u32>>> = Arc::default();
    let spawn = |number| {
        let ran = Arc::clone(&ran);
        pacer.spawn(move || lock(&ran).push(number))
    };
    let mut done: Vec<_> = (0..5).map(spawn).collect();
    for turn in lock(&executor.0).drain(..).rev() {
        turn();
    }
    assert_eq!(*lock(&ran), [0, 1, 2, 3, 4]);
    assert!(done.iter_mut().all(|done| done.try_recv().is_ok()));
    let mut dropped = spawn(5);
    lock(&executor.0).clear();
    let ended = tokio::sync::oneshot::error::TryRecvError::Closed;
    assert_eq!(dropped.try_recv(), Err(ended));
}

/// The other tasks of the runtime are busy whenever the probe wakes.
#[test]
fn a_probe_measures_how_long_tasks_wait_for_their_turn() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let clock = Arc::new(ManualClock::new(0));
    let background = Background::new(Arc::clone(&clock) as _);
    let (period, busy) = (Duration::from_millis(25), Duration::from_millis(7));
    tokio::task::LocalSet::new().block_on(&runtime, async {
        tokio::task::spawn_local(Arc::clone(&background).probe_forever(false));
        for _ in 0..20 {
            tokio::time::sleep(period).await;
            clock.advance(period + busy);
        }
    });
    let delays = lock(&background.delays);
    let is_busy = |delay: &Duration| (busy / 2..2 * busy).contains(delay);
    assert!(
        delays.len() > 10 && delays.iter().all(is_busy),
        "{delays:?}"
    );
}
