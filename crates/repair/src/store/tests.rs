//! The store's side of sessions, with a store in memory.

use super::*;
use base::{BootId, Expiry, ManualClock, SeededRandom};
use cluster::layout::{Change, ClusterId, MemberList};
use cluster::repair::ShownBelow;
use cluster::{Epoch, Layout, Member, Members, NodeId, NodeSet, NodeUrl, Replicas};
use lsm::Options;
use lsm_testing::{BlockingWrite, Fault, FaultyDisk, MemoryDisk, StepExecutor, environment};
use membership::{Layouts, MembershipEnvironment, StoreCount};
use std::cell::Cell;
use std::io::ErrorKind;
use std::path::Path;

const GC_GRACE_MS: u64 = 10_000;
pub(crate) const NOW_UNIX_MS: u64 = 1_800_000_000_000;
/// How long before now what others name is at least.
const LATEST_NAMED: u64 = 5_000;
pub(crate) const TOKEN: Token = Token {
    session: 1 << 32 | 7,
    attempt: 0,
};
pub(crate) fn begin() -> SessionRequest {
    let epoch = Epoch::default();
    SessionRequest::Begin { epoch }
}

/// A node's disk.
pub(crate) struct TestNode {
    memory: Arc<MemoryDisk>,
    pub(crate) disk: Arc<FaultyDisk>,
    is_trusted: Arc<AtomicBool>,
    /// Whether an operator drops what is from the future.
    drops_future: Cell<bool>,
}

pub(crate) struct Opened {
    pub(crate) side: Arc<StoreSide>,
    pub(crate) engine: Engine,
    pub(crate) membership: Membership,
    pub(crate) executor: Arc<StepExecutor>,
}

pub(crate) fn at(ms_before_now: u64) -> Timestamp {
    Timestamp::from_unix_ms(NOW_UNIX_MS - ms_before_now)
}

pub(crate) fn closing(below: Timestamp) -> SessionRequest {
    SessionRequest::Close {
        gc_threshold: Timestamp::ZERO,
        below,
        are_all: true,
    }
}

fn value(timestamp: Timestamp) -> Entry {
    Entry::value(b"key", timestamp, b"value", Expiry::NEVER, 3)
}

pub(crate) fn members() -> Members {
    let url = |port: u16| -> NodeUrl { format!("http://127.0.0.1:{port}").parse().unwrap() };
    let named = [("a", 1), ("b", 2), ("c", 3)];
    let nodes = named.map(|(name, port)| Member::named(name, url(port)).unwrap());
    Members::new(nodes.into(), &url(1)).unwrap()
}

impl TestNode {
    pub(crate) fn new() -> Self {
        Self::on(MemoryDisk::new())
    }

    fn on(memory: MemoryDisk) -> Self {
        let memory = Arc::new(memory);
        Self {
            disk: Arc::new(FaultyDisk::new(Arc::clone(&memory) as Arc<dyn Disk>)),
            memory,
            is_trusted: Arc::new(AtomicBool::new(true)),
            drops_future: Cell::new(false),
        }
    }

    /// A node with what a power cut leaves now.
    fn after_crash(&self) -> Self {
        Self::on(self.memory.clone_synced())
    }

    fn stored(&self) -> StoreRecord {
        let stored = StoreFile::load(&*self.memory, Path::new("/store"));
        stored.unwrap().record
    }

    pub(crate) fn open(&self) -> Opened {
        let disk = Arc::clone(&self.disk) as Arc<dyn Disk>;
        let (environment, executor) = environment(Arc::clone(&disk));
        let folder = Path::new("/store");
        let engine = Engine::open(environment, Options::default()).unwrap().0;
        let membership = MembershipEnvironment {
            folder: folder.into(),
            disk: Arc::clone(&disk),
            random: Arc::new(SeededRandom::new(1)),
            executor: Arc::clone(&executor) as Arc<dyn Executor>,
            boot_id: Some(BootId(1)),
            syncs_commits: true,
            now_unix_ms: NOW_UNIX_MS,
            acknowledged: StoreCount {
                at_open: 0,
                now: Box::new(|| 0),
            },
            is_outdated: Arc::default(),
            are_all_whole: Arc::default(),
            default_pair: Replicas::quorum(3),
            restored_for: 0,
            waits: false,
            is_cluster_of_one: false,
            zone: None,
        };
        let layouts = Layouts::new(Layout::founding(members()));
        let membership =
            Membership::open(membership, layouts.clone(), engine.store_id(), false).unwrap();
        let is_trusted = Arc::clone(&self.is_trusted);
        let environment = StoreSideEnvironment {
            folder: folder.into(),
            disk,
            executor: Arc::clone(&executor) as Arc<dyn Executor>,
            engine: engine.clone(),
            membership: membership.clone(),
            gc_grace: Duration::from_millis(GC_GRACE_MS),
            layouts,
            present: self.drops_future.get().then(|| Box::new(|| at(0)) as _),
            trusted_unix_ms: Box::new(move || is_trusted.load(Relaxed).then_some(NOW_UNIX_MS)),
            latest_named: Box::new(|| at(LATEST_NAMED)),
            clock: Arc::new(ManualClock::new(NOW_UNIX_MS)),
        };
        Opened {
            side: StoreSide::open(environment, Arc::default()).unwrap(),
            engine,
            membership,
            executor,
        }
    }
}

impl Opened {
    fn ask(&self, request: SessionRequest) -> Option<SessionAnswer> {
        self.ask_by(TOKEN, request)
    }

    pub(crate) fn ask_by(&self, token: Token, request: SessionRequest) -> Option<SessionAnswer> {
        let mut answer = self.side.asked(token, request);
        self.executor.run_all_due();
        answer.try_recv().ok()
    }

    fn hear(&self, gc_threshold: Timestamp) {
        self.side.heard("b", gc_threshold, true);
        self.executor.run_all_due();
    }

    /// Writes a value, as it was admitted.
    fn write(&self, timestamp: Timestamp, admission: lsm::Admission) -> Result<(), Error> {
        let mut ingest = self.engine.begin_ingest(admission)?;
        ingest.push(&value(timestamp))?;
        ingest.commit().map(|_| ())
    }

    fn refuses(&self, timestamp: Timestamp) -> bool {
        let written = self.write(timestamp, lsm::Admission::Ordinary);
        matches!(written, Err(Error::Obsolete { .. }))
    }

    fn close(self) {
        self.side.close();
        self.membership.close();
        self.engine.close().unwrap();
    }
}

#[test]
fn what_was_answered_holds_after_a_restart() {
    let node = TestNode::new();
    let opened = node.open();
    let below = at(GC_GRACE_MS + 5);
    assert!(matches!(
        opened.ask(begin()),
        Some(SessionAnswer::Begun { latest, .. }) if latest == at(GC_GRACE_MS)
    ));
    assert_eq!(node.stored().token, TOKEN);
    assert_eq!(
        opened.ask(closing(below)),
        Some(SessionAnswer::Closed(below))
    );
    assert!(opened.refuses(at(GC_GRACE_MS + 6)) && !opened.refuses(below));
    let finished = opened.ask(SessionRequest::Finish { below });
    assert_eq!(finished, Some(SessionAnswer::Synced { may_raise: true }));
    let before = opened.side.record();
    let crashed = node.after_crash();
    opened.close();
    for node in [node, crashed] {
        let opened = node.open();
        assert_eq!(opened.side.record(), before);
        assert!(opened.refuses(at(GC_GRACE_MS + 6)));
        // It takes part in no attempt that it has forgotten, but hears how the last one ended.
        assert!(matches!(
            opened.ask(SessionRequest::Open { range: 1 }),
            Some(SessionAnswer::Refused { greatest: TOKEN })
        ));
        let outcome = SessionRequest::Outcome {
            gc_threshold: below,
        };
        assert_eq!(opened.ask(outcome), Some(SessionAnswer::Done));
        assert_eq!(node.stored().gc_threshold, below);
        assert_eq!(opened.side.shared().non_owned_below(), below);
        assert!(!opened.membership.replica_state().lacks());
        opened.close();
    }
}

#[test]
fn a_clock_that_is_not_trusted_closes_nothing() {
    let node = TestNode::new();
    node.is_trusted.store(false, Relaxed);
    let opened = node.open();
    opened.ask(begin());
    let closed = opened.ask(closing(at(GC_GRACE_MS)));
    assert_eq!(closed, Some(SessionAnswer::Closed(Timestamp::ZERO)));
}

/// Where a call to the disk fails, the state is what it was and nobody is answered; what is on the
/// disk then is the old record or the next one.
#[test]
fn a_step_that_cannot_be_done_changes_nothing() {
    let below = at(GC_GRACE_MS);
    let outcome = SessionRequest::Outcome {
        gc_threshold: below,
    };
    let steps = [
        begin(),
        closing(below),
        SessionRequest::Finish { below },
        outcome,
    ];
    for (number, step) in steps.into_iter().enumerate() {
        for failing in 0.. {
            let node = TestNode::new();
            let opened = node.open();
            for step in &steps[..number] {
                assert!(opened.ask(*step).is_some());
            }
            let before = opened.side.shared().state();
            let of_record = |_, path: &Path| path.to_string_lossy().contains("TOMBSTONE_GC");
            let fault = Fault::at(failing, ErrorKind::Other);
            node.disk.arm(fault.only(of_record));
            let answer = opened.ask(step);
            let has_failed = node.disk.failed() > 0;
            node.disk.heal();
            if answer.is_some() {
                assert_eq!(node.after_crash().stored(), opened.side.record());
                if has_failed {
                    continue;
                }
                assert!(failing > 0, "{step:?} stores nothing");
                break;
            }
            assert!(has_failed);
            assert_eq!(opened.side.shared().state(), before);
            let on_disk = node.stored();
            let answer = opened.ask(step);
            assert!(answer.is_some(), "{step:?}, call {failing}");
            let after = *opened.side.shared().state().record();
            assert!(on_disk == *before.record() || on_disk == after);
            opened.close();
        }
    }
}

#[test]
fn a_store_that_is_behind_is_a_learner_durably_before_it_takes_the_threshold_over() {
    let threshold = at(GC_GRACE_MS);
    for failing in 0.. {
        let node = TestNode::new();
        let opened = node.open();
        let of_records = |_, path: &Path| {
            let path = path.to_string_lossy();
            path.contains("TOMBSTONE_GC") || path.contains("CLUSTER")
        };
        let fault = Fault::at(failing, ErrorKind::Other);
        node.disk.arm(fault.only(of_records));
        opened.hear(threshold);
        let has_failed = node.disk.failed() > 0;
        node.disk.heal();
        let crashed = node.after_crash();
        if node.stored().gc_threshold == threshold {
            let restarted = crashed.open();
            let replica_state = restarted.membership.replica_state();
            assert_eq!(replica_state, ReplicaState::Learner, "call {failing}");
        }
        assert!(opened.side.greatest_known() == threshold);
        if opened.side.record().gc_threshold < threshold {
            assert!(has_failed);
            assert!(opened.side.shared().is_behind());
            // It is named again with the next heartbeat.
            opened.hear(threshold);
        }
        let record = opened.side.record();
        assert_eq!(record.gc_threshold, threshold, "call {failing}");
        assert_eq!(record.token.attempt, u32::MAX);
        assert_eq!(opened.membership.replica_state(), ReplicaState::Learner);
        let written = opened.write(at(GC_GRACE_MS + 1), lsm::Admission::Ordinary);
        assert!(
            matches!(written, Err(Error::Obsolete { .. })),
            "call {failing}: {written:?}"
        );
        if !has_failed {
            break;
        }
    }
}

#[test]
fn a_voter_sets_nothing_aside_by_the_word_of_a_store_that_lacks_something() {
    let node = TestNode::new();
    let opened = node.open();
    let old = at(GC_GRACE_MS + 9);
    opened.write(old, lsm::Admission::Ordinary).unwrap();
    opened.side.heard("b", at(GC_GRACE_MS), false);
    opened.executor.run_all_due();
    assert!(opened.side.shared().is_behind());
    assert_eq!(opened.side.record(), StoreRecord::default());
    assert!(!opened.membership.replica_state().lacks());
    // A learner does.
    opened.membership.fall_behind().unwrap();
    opened.side.heard("b", at(GC_GRACE_MS), false);
    opened.executor.run_all_due();
    assert_eq!(opened.side.record().gc_threshold, at(GC_GRACE_MS));
    assert_eq!(opened.engine.get(b"key").unwrap(), None);
}

#[test]
fn a_store_that_has_answered_for_a_threshold_keeps_what_it_has() {
    let node = TestNode::new();
    let opened = node.open();
    let (old, below) = (at(GC_GRACE_MS + 9), at(GC_GRACE_MS));
    opened.write(old, lsm::Admission::Ordinary).unwrap();
    opened.ask(begin());
    opened.ask(closing(below));
    opened.ask(SessionRequest::Finish { below });
    opened.hear(below);
    assert_eq!(opened.side.record().gc_threshold, below);
    assert_eq!(opened.membership.replica_state(), ReplicaState::Starting);
    assert!(opened.engine.get(b"key").unwrap().is_some());
}

#[test]
fn a_store_that_is_behind_sets_aside_what_it_has_below_the_threshold() {
    let node = TestNode::new();
    let opened = node.open();
    opened
        .write(at(GC_GRACE_MS + 9), lsm::Admission::Ordinary)
        .unwrap();
    let before = opened.side.shared().before_read();
    opened.hear(at(GC_GRACE_MS));
    assert_eq!(opened.engine.get(b"key").unwrap(), None);
    // A read that has begun before may have found it.
    assert!(opened.side.shared().was_set_aside_since(before));
}

/// The layout while the members change.
fn changing() -> Layout {
    let nodes = members();
    let all = nodes.iter().map(|(_, node)| node.clone()).collect();
    let list = MemberList::founding(ClusterId::new(1), all, Replicas::quorum(2)).unwrap();
    let leave = Change::Members {
        join: Vec::new(),
        leave: vec!["c".to_owned()],
        are_dead: false,
    };
    let list = list.plan(&leave, NodeSet::default()).unwrap();
    Layout::of(&list, nodes.own()).unwrap()
}

/// A node that has just joined has nothing that could have been deleted. Any other one that has not
/// helped to raise a threshold may have, in a change of the members as well.
#[test]
fn only_an_empty_store_in_a_change_falls_behind_no_threshold() {
    let threshold = at(GC_GRACE_MS);
    for (is_changing, has_something, counts) in [
        (true, false, true),
        (true, true, false),
        (false, false, false),
    ] {
        let node = TestNode::new();
        let opened = node.open();
        if is_changing {
            let layouts = &opened.side.environment.layouts;
            layouts.put_in_force(Arc::new(changing()));
        }
        if has_something {
            let old = at(GC_GRACE_MS + 9);
            opened.write(old, lsm::Admission::Ordinary).unwrap();
        }
        opened.hear(threshold);
        assert_eq!(opened.side.record().gc_threshold, threshold);
        assert!(!opened.side.shared().is_behind());
        let lacks = opened.membership.replica_state().lacks();
        assert_eq!(
            lacks, !counts,
            "changing: {is_changing}, holds: {has_something}"
        );
    }
}

/// A flush may take seconds, and requests wait for other jobs of the owner.
#[test]
fn what_is_to_be_set_aside_is_flushed_before_by_a_job_for_which_nobody_waits() {
    let node = TestNode::new();
    let opened = node.open();
    opened.engine.write(value(at(GC_GRACE_MS + 9))).unwrap();
    assert_eq!(opened.engine.statistics().memtable_entries, 1);
    opened.side.heard("b", at(GC_GRACE_MS), true);
    opened.executor.run_class(JobClass::Owner);
    assert_eq!(opened.engine.statistics().memtable_entries, 1);
    opened.executor.run_class(JobClass::Scan);
    assert_eq!(opened.engine.statistics().memtable_entries, 0);
    assert!(opened.engine.get(b"key").unwrap().is_some());
    opened.executor.run_all_due();
    assert_eq!(opened.engine.get(b"key").unwrap(), None);
}

#[test]
fn a_session_that_is_voided_does_not_raise_the_threshold_after_a_restart_either() {
    let node = TestNode::new();
    let opened = node.open();
    let below = at(GC_GRACE_MS);
    opened.ask(begin());
    opened.ask(closing(below));
    let mut noted = opened.side.void_session();
    assert!(noted.try_recv().is_err());
    opened.executor.run_all_due();
    noted.try_recv().unwrap();
    assert!(!node.stored().may_raise);
    assert_eq!(opened.side.status().voided_by_read_repairs, 1);
    let finished = opened.ask(SessionRequest::Finish { below });
    assert_eq!(finished, Some(SessionAnswer::Synced { may_raise: false }));
    opened.close();
    let opened = node.open();
    let resumed = opened.ask_by(TOKEN.next_attempt(), begin());
    assert!(matches!(
        resumed,
        Some(SessionAnswer::Begun {
            may_raise: false,
            ..
        })
    ));
}

#[test]
fn a_loss_forgets_the_session() {
    let node = TestNode::new();
    let opened = node.open();
    opened.ask(begin());
    opened.membership.fall_behind().unwrap();
    let refused = opened.ask(closing(at(GC_GRACE_MS)));
    let greatest = Token {
        attempt: u32::MAX,
        ..TOKEN
    };
    assert_eq!(refused, Some(SessionAnswer::Refused { greatest }));
    assert_eq!(node.stored().token, greatest);
    // It is forgotten once, and not again at each start.
    let next = Token::first_after(greatest, NodeId::new(0), 5);
    opened.ask_by(next, begin());
    opened.close();
    let opened = node.open();
    assert_eq!(opened.side.record().token, next);
}

#[test]
fn what_was_admitted_for_a_session_is_refused_once_that_has_ended() {
    let node = TestNode::new();
    let opened = node.open();
    let below = at(GC_GRACE_MS);
    opened.ask(begin());
    opened.ask(closing(below));
    let old = value(at(GC_GRACE_MS + 1));
    let admit = |token| opened.side.admits(&old, false, token);
    let early = admit(TOKEN).unwrap();
    assert!(matches!(early, lsm::Admission::Late { .. }));
    assert_eq!(admit(TOKEN.next_attempt()), Err(Miss::Refused));
    opened.write(old.timestamp(), early).unwrap();
    opened.ask(SessionRequest::Finish { below });
    assert_eq!(admit(TOKEN), Err(Miss::Refused));
    let written = opened.write(at(GC_GRACE_MS + 2), early);
    assert!(matches!(written, Err(Error::Overloaded)), "{written:?}");
    let new = value(below);
    let admission = opened.side.admits(&new, false, TOKEN);
    assert_eq!(admission, Ok(lsm::Admission::Ordinary));
}

#[test]
fn a_step_of_the_scan_ends_what_read_repairs_were_admitted_before() {
    let node = TestNode::new();
    let opened = node.open();
    opened.ask(begin());
    opened.side.set_ahead(b"a", None);
    opened.ask(closing(at(GC_GRACE_MS)));
    let admission = lsm::Admission::Late {
        gc_threshold: Timestamp::ZERO,
        generation: opened.engine.generation(LateSource::ReadRepair),
    };
    opened.side.scan_begins().unwrap();
    let written = opened.write(at(GC_GRACE_MS + 1), admission);
    assert!(matches!(written, Err(Error::Overloaded)), "{written:?}");
}

#[test]
fn a_threshold_from_the_future_is_not_believed_and_an_operator_can_lower_the_own_one() {
    let node = TestNode::new();
    let opened = node.open();
    opened.hear(at(LATEST_NAMED - 1));
    assert_eq!(opened.side.greatest_known(), Timestamp::ZERO);
    opened.close();
    let future = Timestamp::from_unix_ms(NOW_UNIX_MS + 1);
    let record = StoreRecord {
        closed: future,
        gc_threshold: future,
        ..StoreRecord::default()
    };
    let stored = StoreFile { record, loss: 0 };
    stored.store(&*node.memory, Path::new("/store")).unwrap();
    node.drops_future.set(true);
    let opened = node.open();
    let record = opened.side.record();
    assert_eq!(
        (record.closed, record.gc_threshold),
        (at(0), at(GC_GRACE_MS))
    );
    assert_eq!(node.stored(), record);
}

/// Each node takes the moment of its start for the present, so the thresholds to which they are
/// lowered differ.
#[test]
fn nodes_that_lower_their_thresholds_at_different_moments_are_not_behind_each_other() {
    let future = Timestamp::from_unix_ms(NOW_UNIX_MS + 1);
    let answered = ShownBelow {
        below: future,
        epoch: Epoch::default(),
    };
    let record = StoreRecord {
        closed: future,
        gc_threshold: future,
        answered,
        ..StoreRecord::default()
    };
    let node = TestNode::new();
    node.open().close();
    let stored = StoreFile { record, loss: 0 };
    stored.store(&*node.memory, Path::new("/store")).unwrap();
    node.drops_future.set(true);
    let opened = node.open();
    assert_eq!(opened.side.record().gc_threshold, at(GC_GRACE_MS));
    let of_later_node = at(GC_GRACE_MS - 20);
    opened.hear(of_later_node);
    assert_eq!(opened.side.record().gc_threshold, of_later_node);
    assert!(!opened.membership.replica_state().lacks());
}
