//! Stamping on a disk in memory, by a clock and an executor that are told what to do.

use super::*;
use cluster::Member;
use lsm::disk::Fault;
use lsm::{FaultyDisk, MemoryDisk, StepExecutor};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const FOLDER: &str = "/store";
const BOUND: Duration = Duration::from_secs(3600);
const BOUND_MS: u64 = 3_600_000;
/// The wall clock's first moment, in milliseconds since the Unix epoch.
const START_MS: u64 = 1_700_000_000_000;
const PEER: NodeNumber = NodeNumber::new(0);
const OTHER: NodeNumber = NodeNumber::new(2);

/// The executor's clock, with a wall clock that can be set.
struct SetClock {
    inner: Arc<base::ManualClock>,
    /// What it is ahead, modulo 2^64.
    ahead_ms: AtomicU64,
}

impl Clock for SetClock {
    fn unix_ms(&self) -> u64 {
        self.inner
            .unix_ms()
            .wrapping_add(self.ahead_ms.load(Relaxed))
    }

    fn monotonic(&self) -> Duration {
        self.inner.monotonic()
    }
}

/// A machine, over the starts of its node.
struct Machine {
    memory: Arc<MemoryDisk>,
    disk: Arc<FaultyDisk>,
    clock: Arc<SetClock>,
    executor: Arc<StepExecutor>,
    members: Members,
}

impl Machine {
    fn on(memory: MemoryDisk, clock: Arc<base::ManualClock>, members: Members) -> Self {
        memory.create_folder(Path::new(FOLDER)).unwrap();
        let memory = Arc::new(memory);
        Self {
            disk: Arc::new(FaultyDisk::new(Arc::clone(&memory) as Arc<dyn Disk>)),
            memory,
            executor: Arc::new(StepExecutor::new(Arc::clone(&clock))),
            clock: Arc::new(SetClock {
                inner: clock,
                ahead_ms: AtomicU64::new(0),
            }),
            members,
        }
    }

    /// The machine of a node alone.
    fn alone() -> Self {
        let members = Members::alone("http://a:1".parse().unwrap());
        Self::on(MemoryDisk::new(), clock(), members)
    }

    /// The machine of the second of three nodes.
    fn of_three() -> Self {
        let nodes: Vec<Member> = ["http://a:1", "http://b:1", "http://c:1"]
            .map(|url| url.parse().unwrap())
            .into();
        let members = Members::new(nodes, &"http://b:1".parse().unwrap()).unwrap();
        Self::on(MemoryDisk::new(), clock(), members)
    }

    /// The machine after a power cut that keeps only what was synced.
    fn after_crash(&self) -> Self {
        let memory = self.memory.clone_synced();
        let machine = Self::on(memory, Arc::clone(&self.clock.inner), self.members.clone());
        machine.set_ahead_ms(self.clock.ahead_ms.load(Relaxed) as i64);
        machine
    }

    fn set_ahead_ms(&self, ahead_ms: i64) {
        self.clock.ahead_ms.store(ahead_ms as u64, Relaxed);
    }

    fn now(&self) -> u64 {
        self.clock.unix_ms()
    }

    fn closed(&self) -> Arc<Stamping> {
        Stamping::new(
            Arc::clone(&self.clock) as Arc<dyn Clock>,
            Arc::clone(&self.executor) as Arc<dyn Executor>,
            &self.members,
            BOUND,
        )
    }

    /// A start, of which no peer has heard yet.
    fn open(&self, greatest_stored: Timestamp) -> Arc<Stamping> {
        let stamping = self.closed();
        stamping
            .open(&*self.disk, Path::new(FOLDER), greatest_stored, None)
            .unwrap();
        stamping
    }

    /// A start that a peer has vouched for.
    fn open_near(&self) -> Arc<Stamping> {
        let stamping = self.open(Timestamp::ZERO);
        stamping.introduced(PEER, self.now(), Timestamp::ZERO);
        stamping
    }

    /// A stamp; the ceiling is raised for it if it must be.
    fn stamp(&self, stamping: &Arc<Stamping>) -> Timestamp {
        match stamping.stamp() {
            Err(NoStamp::Ceiling) => {
                self.executor.run_all_due();
                stamping.stamp().map(|stamp| stamp.timestamp()).unwrap()
            }
            stamp => stamp.unwrap().timestamp(),
        }
    }

    fn pass(&self, time: Duration) {
        self.executor.run_for(time);
    }
}

fn clock() -> Arc<base::ManualClock> {
    Arc::new(base::ManualClock::new(START_MS))
}

fn at(unix_ms: u64) -> Timestamp {
    Timestamp::from_unix_ms(unix_ms)
}

fn refusal(stamping: &Arc<Stamping>) -> NoStamp {
    stamping.stamp().err().unwrap()
}

const HOUR: Duration = Duration::from_secs(3600);
const MS: Duration = Duration::from_millis(1);

#[test]
fn nothing_is_stamped_or_dropped_before_the_store_is_open() {
    let machine = Machine::alone();
    let stamping = machine.closed();
    assert_eq!(refusal(&stamping), NoStamp::Closed);
    assert!(!stamping.observe(at(5)));
    assert_eq!(stamping.drop_bound(), Timestamp::ZERO);
}

#[test]
fn stamps_are_above_what_the_store_holds_and_carry_the_number() {
    let machine = Machine::of_three();
    let stored = at(START_MS + 2_000);
    let stamping = machine.open(stored);
    stamping.introduced(PEER, START_MS, Timestamp::ZERO);
    let stamp = machine.stamp(&stamping);
    assert!(stamp > stored);
    assert_eq!(stamp.node(), 2);
}

#[test]
fn the_bound_is_the_least_pending_stamp_then_the_greatest_given() {
    let machine = Machine::alone();
    let stamping = machine.open(Timestamp::ZERO);
    machine.stamp(&stamping);
    let first = stamping.stamp().ok().unwrap();
    let second = stamping.stamp().ok().unwrap();
    let (least, greatest) = (first.timestamp(), second.timestamp());
    assert_eq!(stamping.drop_bound(), least);
    drop(second);
    assert_eq!(stamping.drop_bound(), least, "the first is still pending");
    drop(first);
    assert_eq!(stamping.drop_bound(), greatest);
}

#[test]
fn stamps_that_end_together_are_pending_no_more_in_whatever_order() {
    let machine = Machine::alone();
    let stamping = machine.open(Timestamp::ZERO);
    machine.stamp(&stamping);
    for order in [[0, 2], [2, 0]] {
        let mut stamps: Vec<_> = (0..4).map(|_| stamping.stamp().ok()).collect();
        let between = stamps[1].as_ref().unwrap().timestamp();
        let ended: Vec<_> = order.map(|number| stamps[number].take().unwrap()).into();
        Stamp::end_all(ended.into_iter());
        assert_eq!(stamping.drop_bound(), between);
        Stamp::end_all(stamps.into_iter().flatten());
        assert_eq!(stamping.drop_bound(), stamping.greatest());
    }
}

#[test]
fn no_crash_and_no_step_of_the_clock_gives_a_stamp_twice() {
    for alone in [true, false] {
        let mut random = fastrand::Rng::with_seed(11);
        let mut given = BTreeSet::new();
        let mut machine = if alone {
            Machine::alone()
        } else {
            Machine::of_three()
        };
        for _ in 0..60 {
            // It keeps no copy of what it stamps, so its store says nothing.
            let stamping = machine.open(Timestamp::ZERO);
            for _ in 0..20 {
                machine.set_ahead_ms(random.i64(-3_000..3_000));
                stamping.introduced(PEER, machine.now(), Timestamp::ZERO);
                for _ in 0..random.usize(0..4) {
                    if let Ok(stamp) = stamping.stamp() {
                        assert!(given.insert(stamp.timestamp()), "given twice");
                    }
                }
                machine.pass(Duration::from_millis(random.u64(0..40)));
            }
            if random.bool() {
                stamping.close();
            }
            machine = machine.after_crash();
        }
        assert!(given.len() > 500, "{}", given.len());
    }
}

#[test]
fn a_stamp_above_the_ceiling_waits_until_that_is_durable() {
    let machine = Machine::alone();
    let stamping = machine.open(Timestamp::ZERO);
    machine
        .disk
        .arm(Fault::at(0, std::io::ErrorKind::Other).lasting());
    assert!(stamping.stamp().is_ok(), "the start has reserved some");
    machine.pass(RESERVE_MAX + MS);
    assert_eq!(refusal(&stamping), NoStamp::Ceiling);
    machine.executor.run_all_due();
    assert_eq!(refusal(&stamping), NoStamp::Ceiling, "it is not durable");
    machine.disk.heal();
    machine.pass(RETRY_DELAY);
    let stamp = stamping.stamp().ok().unwrap();
    assert!(stamp.timestamp() <= stamping.status().ceiling);
    let found = machine.after_crash().open(Timestamp::ZERO).greatest();
    assert!(stamp.timestamp() <= found, "what is durable covers it");
}

#[test]
fn in_the_steady_state_no_stamp_waits() {
    let machine = Machine::alone();
    let stamping = machine.open(Timestamp::ZERO);
    machine.stamp(&stamping);
    machine.disk.heal();
    for step_ms in 0..60_000 {
        assert!(stamping.stamp().is_ok(), "after {step_ms} ms");
        machine.pass(MS);
    }
    // Now and then one, as long as the ceiling is kept ahead.
    for _ in 0..10 {
        for _ in 0..80 {
            machine.pass(Duration::from_millis(250));
            stamping.watch();
        }
        assert!(stamping.stamp().is_ok());
    }
    let calls = machine.disk.calls();
    assert!(calls < 150, "{calls} calls of the disk in four minutes");
    machine.pass(KEPT_WARM);
    machine.disk.heal();
    for _ in 0..1_000 {
        stamping.watch();
        machine.pass(Duration::from_millis(250));
    }
    assert_eq!(
        machine.disk.calls(),
        0,
        "an idle node leaves its disk alone"
    );
}

#[test]
fn an_orderly_stop_skips_nothing_and_a_crash_no_more_than_was_reserved() {
    let machine = Machine::alone();
    let stamping = machine.open(Timestamp::ZERO);
    for _ in 0..3_000 {
        machine.stamp(&stamping);
        machine.pass(MS * 10);
    }
    let last = machine.stamp(&stamping);
    let after_crash = machine.after_crash().open(Timestamp::ZERO).greatest();
    assert!(after_crash > last);
    let skipped_ms = after_crash.unix_ms() - last.unix_ms();
    assert!(skipped_ms <= RESERVE_MAX.as_millis() as u64, "{skipped_ms}");
    stamping.close();
    assert_eq!(refusal(&stamping), NoStamp::Closed);
    machine.executor.run_all_due();
    let after_stop = machine.after_crash().open(Timestamp::ZERO).greatest();
    assert_eq!(after_stop, last);
}

#[test]
fn a_full_disk_does_not_end_the_stamps() {
    let machine = Machine::alone();
    let stamping = machine.open(Timestamp::ZERO);
    machine.memory.set_capacity(0);
    for _ in 0..100 {
        machine.stamp(&stamping);
        machine.pass(Duration::from_secs(1));
    }
}

#[test]
fn a_start_stamps_nothing_until_a_near_peer_vouches_for_its_clock() {
    let machine = Machine::of_three();
    let stamping = machine.open(Timestamp::ZERO);
    assert_eq!(refusal(&stamping), NoStamp::Unmet);
    let far_ms = machine.now() - 10 * BOUND_MS;
    stamping.introduced(PEER, far_ms, Timestamp::ZERO);
    assert_eq!(refusal(&stamping), NoStamp::Unmet);
    stamping.introduced(OTHER, far_ms, Timestamp::ZERO);
    assert_eq!(refusal(&stamping), NoStamp::Far);
    // The clock is set right: what it said before is believed now.
    machine.set_ahead_ms(-10 * BOUND_MS as i64);
    stamping.watch();
    let stamp = machine.stamp(&stamping);
    assert!(stamp < at(far_ms + BOUND_MS));
}

#[test]
fn a_start_stamps_above_what_near_peers_have_seen() {
    let machine = Machine::of_three();
    let stamping = machine.open(Timestamp::ZERO);
    let seen = Timestamp::new(START_MS + 60_000, 7, 2);
    stamping.introduced(PEER, machine.now(), seen);
    assert!(machine.stamp(&stamping) > seen);
    // Not above what comes from a clock that was wrong.
    stamping.introduced(OTHER, machine.now(), at(START_MS + 3 * BOUND_MS));
    assert!(machine.stamp(&stamping) < at(START_MS + BOUND_MS));
}

#[test]
fn a_wrong_clock_at_a_start_binds_no_later_one() {
    let machine = Machine::of_three();
    machine.set_ahead_ms(10 * BOUND_MS as i64);
    let stamping = machine.open(Timestamp::ZERO);
    for _ in 0..20 {
        stamping.introduced(PEER, START_MS, Timestamp::ZERO);
        assert!(stamping.stamp().is_err());
        machine.pass(Duration::from_secs(1));
    }
    let machine = machine.after_crash();
    machine.set_ahead_ms(0);
    let stamping = machine.open_near();
    assert!(machine.stamp(&stamping) < at(START_MS + BOUND_MS));
}

#[test]
fn a_clock_that_leaps_away_from_the_others_stamps_nothing_until_it_is_back() {
    let machine = Machine::of_three();
    let stamping = machine.open_near();
    stamping.introduced(OTHER, machine.now(), Timestamp::ZERO);
    let before = machine.stamp(&stamping);
    for hours in [10, -10] {
        machine.set_ahead_ms(hours * BOUND_MS as i64);
        assert_eq!(refusal(&stamping), NoStamp::Far);
        assert_eq!(stamping.status().refusal, Some(NoStamp::Far));
        assert!(!stamping.status().is_proven);
        assert_eq!(stamping.proven_unix_ms(), None);
        assert_eq!(
            stamping.status().peers_ahead_ms,
            Some(-hours * BOUND_MS as i64)
        );
    }
    machine.set_ahead_ms(0);
    let after = machine.stamp(&stamping);
    assert!(before < after && after.unix_ms() < START_MS + 1_000);
    assert_eq!(stamping.proven_unix_ms(), Some(START_MS));
}

/// One of two peers is down, so who is far from the other one may be either.
#[test]
fn of_two_nodes_that_are_up_the_one_whose_clock_leaps_stops() {
    let machine = Machine::of_three();
    let stamping = machine.open_near();
    machine.stamp(&stamping);
    stamping.introduced(PEER, machine.now() + 10 * BOUND_MS, Timestamp::ZERO);
    machine.stamp(&stamping);
    stamping.introduced(PEER, machine.now(), Timestamp::ZERO);
    machine.set_ahead_ms(10 * BOUND_MS as i64);
    stamping.watch();
    assert_eq!(refusal(&stamping), NoStamp::Unmet);
    // The other one leaps after it: they agree.
    stamping.introduced(PEER, machine.now(), Timestamp::ZERO);
    machine.stamp(&stamping);
}

#[test]
fn no_stamp_is_given_that_a_peer_would_not_take() {
    let machine = Machine::of_three();
    let stamping = machine.open_near();
    // As far as a peer within the bound may be ahead of one that is, too.
    let dragged = at(START_MS + 2 * BOUND_MS - 1);
    assert!(stamping.observe(dragged));
    assert!(machine.stamp(&stamping) > dragged);
    assert!(!stamping.observe(at(START_MS + 2 * BOUND_MS + 1)));
    // The whole cluster's clocks were wrong, and are set back.
    machine.set_ahead_ms(-8 * BOUND_MS as i64);
    stamping.introduced(PEER, machine.now(), Timestamp::ZERO);
    stamping.introduced(OTHER, machine.now(), Timestamp::ZERO);
    let why = refusal(&stamping);
    assert!(matches!(why, NoStamp::Ahead { .. }), "{why}");
    assert!(why.to_string().contains("--drop-future-versions"), "{why}");
    assert_eq!(stamping.status().refusal, Some(why));
    // Its time comes.
    machine.pass(HOUR * 9);
    stamping.introduced(PEER, machine.now(), Timestamp::ZERO);
    machine.stamp(&stamping);
}

#[test]
fn a_store_from_the_future_does_not_drag_the_clock_along() {
    let machine = Machine::of_three();
    let stamping = machine.open(at(START_MS + 10 * BOUND_MS));
    stamping.introduced(PEER, START_MS, Timestamp::ZERO);
    assert!(machine.stamp(&stamping) < at(START_MS + 1_000));
}

#[test]
fn a_start_that_drops_the_future_lowers_the_ceiling() {
    let machine = Machine::of_three();
    machine.set_ahead_ms(10 * BOUND_MS as i64);
    let stamping = machine.open_near();
    machine.stamp(&stamping);
    machine.set_ahead_ms(0);
    let machine = machine.after_crash();
    let stamping = machine.open_near();
    let why = refusal(&stamping);
    assert!(matches!(why, NoStamp::Ahead { .. }), "{why}");
    drop(stamping);
    let limit = at(START_MS + BOUND_MS);
    for drop_above in [Some(limit), None] {
        let stamping = machine.closed();
        stamping
            .open(
                &*machine.disk,
                Path::new(FOLDER),
                Timestamp::ZERO,
                drop_above,
            )
            .unwrap();
        stamping.introduced(PEER, machine.now(), Timestamp::ZERO);
        assert!(
            machine.stamp(&stamping) > limit,
            "what may have been given stays below"
        );
        stamping.close();
    }
}

#[test]
fn a_node_alone_stamps_above_all_it_holds_whatever_its_clock_says() {
    let machine = Machine::alone();
    let stored = at(START_MS + 10 * BOUND_MS);
    let stamping = machine.open(stored);
    assert!(machine.stamp(&stamping) > stored);
    machine.set_ahead_ms(-5 * BOUND_MS as i64);
    assert!(machine.stamp(&stamping) > stored);
    assert_eq!(stamping.status().refusal, None);
    assert_eq!(
        stamping.proven_unix_ms(),
        None,
        "there is nobody to prove it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_waits_for_the_ceiling_and_for_a_first_peer_but_not_for_ever() {
    let machine = Machine::of_three();
    let stamping = machine.open(Timestamp::ZERO);
    let deadline = HOUR;
    let waits = tokio::spawn({
        let stamping = Arc::clone(&stamping);
        async move {
            stamping
                .stamp_by(deadline)
                .await
                .map(|stamp| stamp.timestamp())
        }
    });
    tokio::task::yield_now().await;
    stamping.introduced(PEER, machine.now(), Timestamp::ZERO);
    tokio::task::yield_now().await;
    machine.executor.run_all_due();
    waits.await.unwrap().unwrap();

    let lonely = Machine::of_three().open(Timestamp::ZERO);
    let began = tokio::time::Instant::now();
    let refused = lonely.stamp_by(deadline).await.err();
    assert_eq!(refused, Some(NoStamp::Unmet));
    assert_eq!(began.elapsed(), FIRST_MEETING_MAX);
}
