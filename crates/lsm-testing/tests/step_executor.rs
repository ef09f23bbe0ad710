//! An executor that runs the jobs that a test picks.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use base::{Clock, ManualClock};
use lsm::{Executor, JobClass};
use lsm_testing::StepExecutor;
use std::sync::{Arc, Mutex};
use std::time::Duration;

struct Fixture {
    clock: Arc<ManualClock>,
    executor: Arc<StepExecutor>,
    log: Arc<Mutex<Vec<&'static str>>>,
}

impl Fixture {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(0));
        Self {
            executor: Arc::new(StepExecutor::new(Arc::clone(&clock))),
            clock,
            log: Arc::default(),
        }
    }

    fn spawn(&self, class: JobClass, delay_ms: u64, name: &'static str) {
        let log = Arc::clone(&self.log);
        let job = Box::new(move || log.lock().unwrap().push(name));
        self.executor
            .spawn(class, Duration::from_millis(delay_ms), job);
    }

    fn take_log(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}

#[test]
fn the_caller_picks_among_the_first_due_jobs_of_the_classes() {
    let fixture = Fixture::new();
    fixture.spawn(JobClass::Compaction, 0, "compaction");
    fixture.spawn(JobClass::Commit, 0, "first commit");
    fixture.spawn(JobClass::Commit, 0, "second commit");
    fixture.spawn(JobClass::Flush, 1, "flush");
    let mut offered = Vec::new();
    for wanted in [1, 0, 3] {
        assert!(fixture.executor.run_one(|count| {
            offered.push(count);
            wanted
        }));
    }
    assert!(!fixture.executor.run_one(|_| unreachable!("nothing is due")));
    assert_eq!(offered, [2, 1, 1]);
    assert_eq!(
        fixture.take_log(),
        ["compaction", "first commit", "second commit"]
    );
    fixture.clock.advance(Duration::from_millis(1));
    assert_eq!(fixture.executor.run_all_due(), 1);
    assert_eq!(fixture.take_log(), ["flush"]);
}

#[test]
fn time_moves_on_to_the_next_job() {
    let fixture = Fixture::new();
    fixture.spawn(JobClass::Commit, 30, "late");
    fixture.spawn(JobClass::Commit, 10, "early");
    let executor = Arc::clone(&fixture.executor);
    let log = Arc::clone(&fixture.log);
    let outer = Box::new(move || {
        let job = Box::new(move || log.lock().unwrap().push("spawned by a job"));
        executor.spawn(JobClass::Flush, Duration::from_millis(5), job);
    });
    fixture
        .executor
        .spawn(JobClass::Flush, Duration::from_millis(20), outer);
    fixture.executor.run_until_idle();
    assert_eq!(fixture.take_log(), ["early", "spawned by a job", "late"]);
    assert_eq!(fixture.clock.monotonic(), Duration::from_millis(30));
}

#[test]
fn a_stopped_executor_drops_its_jobs() {
    let fixture = Fixture::new();
    fixture.spawn(JobClass::Commit, 0, "before");
    fixture.executor.stop();
    fixture.spawn(JobClass::Commit, 0, "after");
    fixture.executor.run_until_idle();
    assert!(fixture.take_log().is_empty());
}
