//! Records spans: waits one by one, each with its beginning and its end, rather than their
//! sums. They show what a single request waited for.
//!
//! Beside the waits of all wait sites a recording has:
//! - how long a runtime was busy between two waits for events, and how much of that time it
//!   had a processor ([`thread_wakes`], [`thread_parks`]);
//! - requests: when each reached its steps ([`record_steps`]).
//!
//! All times are those of the system's monotonic clock, so recordings of several processes
//! of one machine fit together.
//!
//! Memory is bounded: a recording holds a number of spans and of requests, counts what is
//! beyond, and gives all memory back at its end. Spans without a tag that are too short to
//! matter are left out.

use crate::recorder;
use crate::system::{monotonic_ns, thread_cpu_ns, thread_number};
use std::cell::Cell;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The most spans of a recording: 32 MiB.
const SPANS_MAX: usize = 1 << 20;

/// The most requests of a recording: 64 MiB.
const STEPS_MAX: usize = 1 << 19;

/// How many records are allocated at a time, so that none is ever moved.
const BLOCK_RECORDS: usize = 4096;

/// A span without a tag is left out if it is shorter, in nanoseconds.
const UNTAGGED_NS_MIN: u64 = 20_000;

/// The most steps of a request.
pub const STEPS: usize = 10;

/// The name of the spans of busy runtimes. Their tag is the CPU time that the runtime had
/// meanwhile, in nanoseconds.
const BUSY: &str = "runtime;busy";

/// A wait, from its beginning to its end.
#[derive(Clone, Copy, Debug)]
struct Span {
    began_ns: u64,
    ended_ns: u64,
    /// What waited, by a number that other spans of it have as well; 0 for none.
    tag: u64,
    /// The thread that ended the wait.
    thread: u32,
    /// The number of the wait site.
    site: u32,
}

/// The steps of a request.
#[derive(Clone, Copy, Debug)]
struct Steps {
    /// The connection and the version, by which it is found among others.
    connection: u32,
    tag: u64,
    thread: u32,
    at_ns: [u64; STEPS],
}

/// Records in the order in which they came, up to a number.
struct Log<T> {
    blocks: Vec<Vec<T>>,
    left_out: u64,
}

impl<T> Log<T> {
    const fn new() -> Self {
        Self {
            blocks: Vec::new(),
            left_out: 0,
        }
    }

    fn push(&mut self, record: T, records_max: usize) {
        let is_full = self.blocks.len() * BLOCK_RECORDS >= records_max;
        match self.blocks.last_mut() {
            Some(block) if block.len() < BLOCK_RECORDS => block.push(record),
            _ if is_full => self.left_out += 1,
            _ => {
                let mut block = Vec::with_capacity(BLOCK_RECORDS);
                block.push(record);
                self.blocks.push(block);
            }
        }
    }

    fn records(&self) -> impl Iterator<Item = &T> {
        self.blocks.iter().flatten()
    }
}

static SPANS: Mutex<Log<Span>> = Mutex::new(Log::new());
static REQUESTS: Mutex<Log<Steps>> = Mutex::new(Log::new());
/// The names of wait sites, by their numbers.
static SITE_NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of the wait site with this name.
pub(crate) fn site_number(name: &str) -> u32 {
    let mut names = locked(&SITE_NAMES);
    let known = names.iter().position(|known| known == name);
    let number = known.unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    });
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Whether spans are recorded. Costs one relaxed load.
#[inline]
#[must_use]
pub fn records_spans() -> bool {
    recorder::records_spans()
}

/// Records a wait that ends now. Called while spans are recorded.
pub(crate) fn push(site: u32, began_ns: u64, tag: u64) {
    let ended_ns = monotonic_ns();
    if tag == 0 && ended_ns.saturating_sub(began_ns) < UNTAGGED_NS_MIN {
        return;
    }
    push_span(Span {
        began_ns,
        ended_ns,
        tag,
        thread: thread_number(),
        site,
    });
}

fn push_span(span: Span) {
    locked(&SPANS).push(span, SPANS_MAX);
}

/// Records when a request reached its steps, in nanoseconds of [`monotonic_ns`], 0 for a
/// step that it did not reach. `connection` is the client's port, and `tag` is that of the
/// spans that belong to the request, such as the version of a write.
pub fn record_steps(connection: u16, tag: u64, at_ns: [u64; STEPS]) {
    recorder::during_spans(|| {
        let steps = Steps {
            connection: connection.into(),
            tag,
            thread: thread_number(),
            at_ns,
        };
        locked(&REQUESTS).push(steps, STEPS_MAX);
    });
}

thread_local! {
    /// When the runtime of this thread woke, and the CPU time of the thread then.
    static WOKE: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
}

/// Notes that the runtime of this thread has events to handle.
#[inline]
pub fn thread_wakes() {
    if records_spans() {
        WOKE.set(Some((monotonic_ns(), thread_cpu_ns())));
    }
}

/// Notes that the runtime of this thread has nothing left to do, and waits for events.
#[inline]
pub fn thread_parks() {
    if let Some((woke_ns, cpu_before_ns)) = WOKE.take() {
        recorder::during_spans(|| {
            let ended_ns = monotonic_ns();
            if ended_ns.saturating_sub(woke_ns) >= UNTAGGED_NS_MIN {
                static NUMBER: OnceLock<u32> = OnceLock::new();
                push_span(Span {
                    began_ns: woke_ns,
                    ended_ns,
                    tag: thread_cpu_ns().saturating_sub(cpu_before_ns),
                    thread: thread_number(),
                    site: *NUMBER.get_or_init(|| site_number(BUSY)),
                });
            }
        });
    }
}

/// Everything that was recorded, as lines of text.
pub(crate) fn text() -> String {
    let mut text = String::new();
    let names = locked(&SITE_NAMES).clone();
    let spans = locked(&SPANS);
    for span in spans.records() {
        let name = names.get(span.site as usize).map_or("", String::as_str);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "span {} {} {} {} {name}",
            span.began_ns, span.ended_ns, span.thread, span.tag
        );
    }
    let requests = locked(&REQUESTS);
    for steps in requests.records() {
        let _ = write!(
            text,
            "steps {} {} {}",
            steps.connection, steps.thread, steps.tag
        );
        for at_ns in steps.at_ns {
            let _ = write!(text, " {at_ns}");
        }
        text.push('\n');
    }
    let _ = writeln!(text, "left-out {} {}", spans.left_out, requests.left_out);
    text
}

/// Forgets everything, and frees its memory.
pub(crate) fn clear() {
    *locked(&SPANS) = Log::new();
    *locked(&REQUESTS) = Log::new();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_bounded_and_counts_what_is_beyond() {
        let mut log = Log::new();
        for number in 0..BLOCK_RECORDS * 2 + 5 {
            log.push(number, BLOCK_RECORDS + 1);
        }
        // Whole blocks.
        assert!(log.records().copied().eq(0..BLOCK_RECORDS * 2));
        assert_eq!(log.left_out, 5);
    }

    #[test]
    fn a_site_keeps_its_number() {
        let numbers = ["a test;one", "a test;two", "a test;one"].map(site_number);
        assert_eq!(numbers[0], numbers[2]);
        assert_ne!(numbers[0], numbers[1]);
    }
}
