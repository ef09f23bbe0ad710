//! Fences and the forget bound of a store in memory.

mod mends;

use super::*;
use base::{Entry, Expiry};
use lsm::{Admission, Options};
use lsm_testing::{Fault, FaultyDisk, MemoryDisk, environment};
use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const GRACE_MS: u64 = 10_000;
const NOW_UNIX_MS: u64 = 1_800_000_000_000;
/// How long before now what others name is at least.
const LATEST_NAMED: u64 = 5_000;
const PASS: PassId = PassId(7);

/// A node's disk, and its clock.
struct TestNode {
    disk: Arc<MemoryDisk>,
    is_trusted: Arc<AtomicBool>,
    /// Whether an operator drops what is from the future.
    drops_future: Cell<bool>,
    /// The list of nodes.
    members_hash: Cell<u64>,
}

struct Opened {
    forgetting: Arc<Forgetting>,
    shared: Arc<SharedBounds>,
    engine: Engine,
    run_jobs: Box<dyn Fn()>,
    run_for: Box<dyn Fn(Duration)>,
}

fn at(ms_before_now: u64) -> Timestamp {
    Timestamp::from_unix_ms(NOW_UNIX_MS - ms_before_now)
}

fn value(timestamp: Timestamp) -> Entry {
    Entry::value(b"key", timestamp, b"value", Expiry::NEVER, 3)
}

impl TestNode {
    fn new() -> Self {
        Self {
            disk: Arc::new(MemoryDisk::new()),
            is_trusted: Arc::new(AtomicBool::new(true)),
            drops_future: Cell::new(false),
            members_hash: Cell::new(1),
        }
    }

    fn open(&self) -> Opened {
        self.open_on(Arc::clone(&self.disk) as Arc<dyn Disk>)
    }

    fn open_on(&self, disk: Arc<dyn Disk>) -> Opened {
        let (environment, executor) = environment(Arc::clone(&disk));
        let folder = Path::new("/store");
        let stored = ForgetFile::load(&*disk, folder).unwrap();
        let options = Options {
            closed_timestamp: stored.bounds.fence,
            ..Options::default()
        };
        let engine = Engine::open(environment, options).unwrap().0;
        let is_trusted = Arc::clone(&self.is_trusted);
        let shared = Arc::<SharedBounds>::default();
        let later = Arc::clone(&executor);
        let environment = ForgettingEnvironment {
            folder: folder.into(),
            disk,
            executor: Arc::clone(&executor) as Arc<dyn Executor>,
            engine: engine.clone(),
            grace: Duration::from_millis(GRACE_MS),
            members_hash: self.members_hash.get(),
            present: self.drops_future.get().then(|| Box::new(|| at(0)) as _),
            trusted_unix_ms: Box::new(move || is_trusted.load(Relaxed).then_some(NOW_UNIX_MS)),
            latest_named: Box::new(|| at(LATEST_NAMED)),
            clock: Arc::new(base::ManualClock::new(NOW_UNIX_MS)),
        };
        Opened {
            forgetting: Forgetting::open(environment, Arc::clone(&shared)).unwrap(),
            shared,
            engine,
            run_jobs: Box::new(move || {
                executor.run_all_due();
            }),
            run_for: Box::new(move |span| later.run_for(span)),
        }
    }
}

impl Opened {
    fn raise(&self, fence: Timestamp) -> Raised {
        let mut raised = self.forgetting.raise(fence);
        (self.run_jobs)();
        raised.try_recv().unwrap()
    }

    fn hear(&self, bound: Timestamp, replica_state: ReplicaState) -> Option<oneshot::Receiver<()>> {
        let heard = Heard {
            forgotten: bound,
            fence: bound,
        };
        self.forgetting.hear(heard, replica_state)
    }

    fn refuses(&self, timestamp: Timestamp) -> bool {
        let outcome = self.engine.begin_ingest(Admission::Ordinary);
        let mut ingest = outcome.unwrap();
        ingest.push(&value(timestamp)).unwrap();
        matches!(ingest.commit(), Err(Error::Obsolete { .. }))
    }
}

#[test]
fn a_fence_is_durable_and_holds_after_a_restart() {
    let node = TestNode::new();
    let opened = node.open();
    let fence = at(GRACE_MS);
    let raised = opened.raise(fence);
    let before = Timestamp::ZERO;
    assert_eq!(raised, Raised { before, fence });
    assert!(opened.refuses(at(GRACE_MS + 1)));
    assert!(!opened.refuses(fence));
    opened.forgetting.close();
    opened.engine.close().unwrap();
    drop(opened);
    let opened = node.open();
    assert_eq!(opened.forgetting.bounds().fence, fence);
    assert!(opened.refuses(at(GRACE_MS + 1)));
    // A lower fence changes nothing.
    let raised = opened.raise(at(GRACE_MS + 9));
    let before = fence;
    assert_eq!(raised, Raised { before, fence });
}

#[test]
fn a_node_fences_itself_only_by_its_own_trusted_clock() {
    let node = TestNode::new();
    let opened = node.open();
    node.is_trusted.store(false, Relaxed);
    assert_eq!(opened.forgetting.next_fence(), None);
    assert_eq!(opened.raise(at(GRACE_MS)).fence, Timestamp::ZERO);
    assert!(!opened.refuses(at(GRACE_MS + 1)));
    node.is_trusted.store(true, Relaxed);
    assert_eq!(opened.forgetting.next_fence(), Some(at(GRACE_MS)));
    // The clock of the driver is ahead.
    assert_eq!(opened.raise(at(1)).fence, at(GRACE_MS));
}

#[test]
fn a_bound_from_the_future_is_not_believed_and_stops_no_write() {
    let node = TestNode::new();
    let opened = node.open();
    let heard = |bound| Heard {
        forgotten: bound,
        fence: bound,
    };
    let future = [at(LATEST_NAMED - 1), at(0), Timestamp::MAX];
    for replica_state in ReplicaState::ALL {
        for bound in future {
            let hear = opened
                .forgetting
                .hear_from("c", heard(bound), replica_state);
            assert!(hear.is_none());
        }
        (opened.run_jobs)();
        assert_eq!(opened.forgetting.greatest(), Timestamp::ZERO);
        assert_eq!(opened.forgetting.bounds(), Bounds::default());
        assert!(!opened.refuses(at(60_000)));
    }
    let replica_state = ReplicaState::Voter;
    opened.raise(at(GRACE_MS));
    for bound in [at(GRACE_MS), at(LATEST_NAMED)] {
        let _fenced = opened
            .forgetting
            .hear_from("c", heard(bound), replica_state);
        assert_eq!(opened.forgetting.greatest(), bound);
    }
    for bound in future {
        assert!(!opened.forgetting.believes("c", bound));
    }
}

#[test]
fn nothing_is_dropped_before_the_forget_bound_is_durable() {
    let node = TestNode::new();
    let opened = node.open();
    let bound = at(GRACE_MS);
    opened.raise(bound);
    opened.hear(bound, ReplicaState::Voter);
    assert_eq!(opened.forgetting.greatest(), bound);
    assert_eq!(opened.shared.forgotten(), Timestamp::ZERO);
    (opened.run_jobs)();
    assert_eq!(opened.shared.forgotten(), bound);
    let stored = ForgetFile::load(&*node.disk, Path::new("/store")).unwrap();
    assert_eq!(stored.bounds.forgotten, bound);
    opened.engine.close().unwrap();
    drop(opened);
    assert_eq!(node.open().shared.forgotten(), bound);
}

#[test]
fn surplus_goes_below_the_bound_of_a_pass_that_has_ended_here_with_the_same_list_of_nodes() {
    let node = TestNode::new();
    let opened = node.open();
    let (forgetting, bound) = (&opened.forgetting, at(GRACE_MS + 5));
    let hear_of = |opened: &Opened, pass: PassId, bound| {
        opened.raise(bound);
        opened.forgetting.shown(pass, bound);
        opened.hear(bound, ReplicaState::Voter);
        (opened.run_jobs)();
        opened.shared.surplus_below()
    };
    // F is known, but not from a pass that has ended in this node.
    assert_eq!(hear_of(&opened, PASS, at(GRACE_MS + 9)), Timestamp::ZERO);
    forgetting.set_ended_pass(Some(PassId(8)));
    assert_eq!(hear_of(&opened, PASS, at(GRACE_MS + 8)), Timestamp::ZERO);
    forgetting.set_ended_pass(Some(PASS));
    forgetting.set_ended_pass(None);
    assert_eq!(hear_of(&opened, PASS, at(GRACE_MS + 7)), Timestamp::ZERO);
    forgetting.set_ended_pass(Some(PASS));
    // It is durable before compaction goes by it.
    opened.raise(bound);
    forgetting.shown(PASS, bound);
    opened.hear(bound, ReplicaState::Voter);
    assert_eq!(opened.shared.surplus_below(), Timestamp::ZERO);
    (opened.run_jobs)();
    assert_eq!(opened.shared.surplus_below(), bound);
    assert_eq!(forgetting.status().surplus_below, bound);
    opened.engine.close().unwrap();
    drop(opened);
    assert_eq!(node.open().shared.surplus_below(), bound);
    // Other nodes are the replicas now, and the bound has shown nothing of those.
    node.members_hash.set(2);
    let opened = node.open();
    assert_eq!(opened.shared.forgotten(), bound);
    assert_eq!(opened.shared.surplus_below(), Timestamp::ZERO);
    let later = at(GRACE_MS);
    opened.raise(later);
    opened.hear(later, ReplicaState::Voter);
    (opened.run_jobs)();
    assert_eq!(opened.shared.forgotten(), later);
    assert_eq!(opened.shared.surplus_below(), Timestamp::ZERO);
    opened.forgetting.set_ended_pass(Some(PASS));
    assert_eq!(hear_of(&opened, PASS, later), later);
}

#[test]
fn what_held_the_bound_back_is_forgotten_once_it_rises() {
    let opened = TestNode::new().open();
    let forgetting = &opened.forgetting;
    forgetting.set_held_back(Some(HeldBack::Interrupted));
    opened.raise(at(GRACE_MS));
    assert_eq!(forgetting.status().held_back, Some(HeldBack::Interrupted));
    opened.hear(at(GRACE_MS), ReplicaState::Voter);
    (opened.run_jobs)();
    assert_eq!(forgetting.status().forgotten, at(GRACE_MS));
    assert_eq!(forgetting.status().held_back, None);
}

#[test]
fn a_store_that_was_not_fenced_keeps_its_bound() {
    let node = TestNode::new();
    let opened = node.open();
    opened.raise(at(GRACE_MS + 5));
    opened.hear(at(GRACE_MS), ReplicaState::Voter);
    (opened.run_jobs)();
    let status = opened.forgetting.status();
    assert_eq!(status.forgotten, Timestamp::ZERO);
    assert_eq!(status.fence, at(GRACE_MS + 5));
    assert_eq!(status.greatest, at(GRACE_MS));
}

#[test]
fn a_store_that_lacks_data_takes_over_the_fence_and_forgets_once_it_is_filled() {
    let node = TestNode::new();
    let opened = node.open();
    let bound = at(GRACE_MS);
    let mut fenced = opened.hear(bound, ReplicaState::Learner).unwrap();
    // A handshake waits until the fence is durable.
    assert!(fenced.try_recv().is_err());
    (opened.run_jobs)();
    fenced.try_recv().unwrap();
    assert_eq!(opened.forgetting.bounds().fence, bound);
    assert!(opened.refuses(at(GRACE_MS + 1)));
    assert!(opened.hear(bound, ReplicaState::Learner).is_none());
    // Even if the peers believe the store, it was not compared with all of them.
    opened.hear(bound, ReplicaState::Voter);
    (opened.run_jobs)();
    assert_eq!(opened.shared.forgotten(), Timestamp::ZERO);
    assert_eq!(opened.shared.receives_below(), bound);
    assert!(opened.forgetting.is_receiver(ReplicaState::Voter));
    let mut filled = opened.forgetting.fill();
    (opened.run_jobs)();
    filled.try_recv().unwrap();
    assert_eq!(opened.shared.forgotten(), bound);
    assert_eq!(opened.shared.receives_below(), Timestamp::ZERO);
    assert!(!opened.forgetting.is_receiver(ReplicaState::Voter));
}

#[test]
fn a_store_that_an_operator_has_accepted_only_receives_until_it_is_filled() {
    let node = TestNode::new();
    let bound = at(GRACE_MS);
    {
        let opened = node.open();
        opened.hear(bound, ReplicaState::ForcedVoter);
        (opened.run_jobs)();
        opened.engine.close().unwrap();
    }
    // From its next start on the peers believe it.
    let opened = node.open();
    opened
        .forgetting
        .set_replica_state(ReplicaState::Voter)
        .unwrap();
    assert_eq!(opened.shared.receives_below(), bound);
    assert_eq!(opened.shared.forgotten(), Timestamp::ZERO);
    assert!(opened.forgetting.is_receiver(ReplicaState::Voter));
}

#[test]
fn a_store_that_was_accepted_counts_as_any_other_once_it_is_filled() {
    let opened = TestNode::new().open();
    let (bound, later) = (at(GRACE_MS + 9), at(GRACE_MS));
    opened.hear(bound, ReplicaState::ForcedVoter);
    (opened.run_jobs)();
    assert!(opened.forgetting.is_receiver(ReplicaState::ForcedVoter));
    let mut filled = opened.forgetting.fill();
    (opened.run_jobs)();
    filled.try_recv().unwrap();
    // The operator's word lasts as long as the process.
    opened
        .forgetting
        .hear(Heard::default(), ReplicaState::ForcedVoter);
    (opened.run_jobs)();
    assert_eq!(opened.shared.receives_below(), Timestamp::ZERO);
    assert!(!opened.forgetting.is_receiver(ReplicaState::ForcedVoter));
    assert!(opened.forgetting.lacks_nothing(ReplicaState::ForcedVoter));
    // So do requests see it, which decide about repairs.
    let replica_state = || opened.shared.replica_state_of(ReplicaState::ForcedVoter);
    assert_eq!(replica_state(), ReplicaState::Voter);
    // It takes part when F rises.
    opened.raise(later);
    opened.hear(later, ReplicaState::ForcedVoter);
    (opened.run_jobs)();
    assert_eq!(opened.shared.forgotten(), later);
    // What it loses now it lacks again.
    opened.hear(later, ReplicaState::Learner);
    opened.hear(later, ReplicaState::ForcedVoter);
    (opened.run_jobs)();
    assert_eq!(opened.shared.receives_below(), later);
    assert!(opened.forgetting.is_receiver(ReplicaState::ForcedVoter));
    assert_eq!(replica_state(), ReplicaState::ForcedVoter);
}

#[test]
fn a_store_from_before_its_fence_is_found_out_until_it_is_filled() {
    let node = TestNode::new();
    let (fence, bound) = (at(GRACE_MS + 9), at(GRACE_MS + 5));
    let is_found_out = |opened: &Opened| {
        assert!(opened.shared.is_from_before_fence());
        assert!(opened.forgetting.is_receiver(ReplicaState::Voter));
        assert!(!opened.forgetting.lacks_nothing(ReplicaState::Voter));
        assert_eq!(opened.shared.forgotten(), Timestamp::ZERO);
        // What is late must not come in behind the next pass.
        assert!(opened.refuses(at(GRACE_MS + 6)));
        assert!(!opened.refuses(bound));
    };
    {
        let opened = node.open();
        opened.raise(fence);
        let mut fenced = opened.hear(bound, ReplicaState::Voter).unwrap();
        assert!(fenced.try_recv().is_err(), "a handshake waits until then");
        (opened.run_jobs)();
        fenced.try_recv().unwrap();
        is_found_out(&opened);
        // A pass wants to fence it.
        assert_eq!(opened.raise(at(GRACE_MS)).fence, fence);
        is_found_out(&opened);
        opened.engine.close().unwrap();
    }
    let opened = node.open();
    opened
        .forgetting
        .set_replica_state(ReplicaState::Voter)
        .unwrap();
    is_found_out(&opened);
    let mut filled = opened.forgetting.fill();
    (opened.run_jobs)();
    filled.try_recv().unwrap();
    assert!(!opened.shared.is_from_before_fence());
    assert!(opened.forgetting.lacks_nothing(ReplicaState::Voter));
    assert_eq!(opened.shared.forgotten(), bound);
    assert_eq!(opened.raise(at(GRACE_MS)).fence, at(GRACE_MS));
}

#[test]
fn a_fence_that_cannot_be_written_is_written_later() {
    let node = TestNode::new();
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&node.disk) as Arc<dyn Disk>));
    let opened = node.open_on(Arc::clone(&faulty) as Arc<dyn Disk>);
    let bound = at(GRACE_MS);
    opened.raise(bound);
    faulty.arm(Fault::at(0, std::io::ErrorKind::StorageFull));
    opened.hear(bound, ReplicaState::Voter);
    (opened.run_jobs)();
    assert_eq!(opened.shared.forgotten(), Timestamp::ZERO);
    // What is heard meanwhile writes nothing.
    opened.hear(bound, ReplicaState::Voter);
    (opened.run_jobs)();
    assert_eq!(opened.shared.forgotten(), Timestamp::ZERO);
    (opened.run_for)(RETRY_DELAY);
    assert_eq!(opened.shared.forgotten(), bound);
}

#[test]
fn bounds_from_the_future_go_with_the_versions_from_there() {
    let node = TestNode::new();
    let future = Timestamp::from_unix_ms(NOW_UNIX_MS + 1_000_000_000);
    let file = ForgetFile {
        bounds: Bounds {
            fence: future,
            forgotten: future,
        },
        greatest: future,
        ..ForgetFile::default()
    };
    node.disk.create_folder(Path::new("/store")).unwrap();
    file.store(&*node.disk, Path::new("/store")).unwrap();
    node.drops_future.set(true);
    let opened = node.open();
    let status = opened.forgetting.status();
    assert_eq!((status.fence, status.forgotten), (at(0), at(GRACE_MS)));
    assert_eq!(status.greatest, at(GRACE_MS));
    // A peer that was not started like this yet tells it again.
    let heard = Heard {
        forgotten: future,
        fence: future,
    };
    opened.forgetting.hear(heard, ReplicaState::Voter);
    (opened.run_jobs)();
    assert_eq!(opened.forgetting.status(), status);
    // What other nodes have shown since is believed.
    opened.hear(at(GRACE_MS - 1), ReplicaState::Voter);
    (opened.run_jobs)();
    assert_eq!(opened.forgetting.status().forgotten, at(GRACE_MS - 1));
    opened.engine.close().unwrap();
    drop(opened);
    node.drops_future.set(false);
    let status = node.open().forgetting.status();
    assert_eq!((status.fence, status.forgotten), (at(0), at(GRACE_MS - 1)));
}
