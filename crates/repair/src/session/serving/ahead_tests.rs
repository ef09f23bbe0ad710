//! What a node does beside the requests of a session, with a store in memory.

use crate::RepairSizes;
use crate::session::ChangeView;
use crate::session::checkpoint::CheckpointEnvironment;
use crate::session::part::{Advance, Agreed, StreamedKeys};
use crate::session::worker::{RepairEnvironment, RepairSessions};
use crate::store::tests::{NOW_UNIX_MS, Opened, TOKEN, TestNode, at, begin, closing, members};
use base::{Clock, Entry, Expiry, ManualClock, SeededRandom, Timestamp};
use bytes::Bytes;
use cluster::comparison::KeyBounds;
use cluster::repair::{SessionId, Token};
use cluster::{Epoch, Layout};
use lsm::{Admission, Disk, Executor, JobClass};
use lsm_testing::{BlockingWrite, Call, Fault};
use membership::Layouts;
use profile::lock;
use replica::background::Background;
use replica::timestamps::TimestampAllocator;
use replica::{ExpiryBound, OwnClock};
use std::io::ErrorKind;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const SESSION: SessionId = SessionId::Full(TOKEN);

/// Values of a KiB, and ranges of half a MiB.
const VALUE_BYTES: usize = 1 << 10;
const SIZES: RepairSizes = RepairSizes {
    range_bytes: 1 << 20,
    range_keys: 1 << 20,
    checkpoint_ranges: 1,
    checkpoint_period: Duration::ZERO,
};

/// A node that takes part in a full session, and scans.
struct Scanning {
    node: TestNode,
    opened: Opened,
    sessions: Arc<RepairSessions>,
}

impl Scanning {
    fn with(entries: &[Entry]) -> Self {
        let node = TestNode::new();
        let opened = node.open();
        for entry in entries {
            opened.engine.write(entry.clone()).unwrap();
        }
        opened.engine.flush().unwrap();
        let disk = Arc::clone(&node.disk) as Arc<dyn Disk>;
        let sessions = sessions_of(&opened, disk);
        let below = at(10_005);
        for request in [begin(), closing(below)] {
            assert!(opened.ask_by(TOKEN, request).is_some());
        }
        let mut own = lock(&sessions.participant);
        let incarnation = opened.membership.incarnation();
        own.begin(SESSION, Epoch::default(), incarnation).unwrap();
        own.close(SESSION, b"", Admission::Ordinary).unwrap();
        let agreed = Agreed {
            cut: Timestamp::MAX,
            gc_threshold: Timestamp::ZERO,
            reaches: vec![3; 3],
            bounds: vec![KeyBounds::everything(); 3],
        };
        own.agree(SESSION, agreed).unwrap();
        drop(own);
        Self {
            node,
            opened,
            sessions,
        }
    }

    /// The end of the range that begins at `start`.
    fn reach(&self, start: &[u8]) -> Option<Bytes> {
        loop {
            let mut own = lock(&self.sessions.participant);
            match self.sessions.scan_step(&mut own, SESSION, start).unwrap() {
                Advance::GoOn => {}
                Advance::Reached(end) => return end,
                Advance::Unknown => panic!("the session is not known"),
            }
        }
    }

    fn run(&self, class: JobClass) {
        self.opened.executor.run_class(class);
    }

    /// From where on the scan goes on, and where it ends.
    fn keys_ahead(&self) -> Option<(Bytes, Option<Bytes>)> {
        lock(&self.sessions.participant).keys_ahead(SESSION)
    }

    /// Has a version streamed of a range.
    fn take(&self, range: u32, entry: &Entry) {
        let mut own = lock(&self.sessions.participant);
        let taken = own.take_run(
            (SESSION, range),
            &StreamedKeys::default(),
            vec![entry.clone()],
        );
        assert_eq!(taken.unwrap().keys, 1);
    }

    fn holds(&self, entry: &Entry) -> bool {
        let held = self.opened.engine.get(entry.key()).unwrap();
        held.as_ref() == Some(entry)
    }
}

fn sessions_of(opened: &Opened, disk: Arc<dyn Disk>) -> Arc<RepairSessions> {
    let clock = Arc::new(ManualClock::new(NOW_UNIX_MS)) as Arc<dyn Clock>;
    let executor = Arc::clone(&opened.executor) as Arc<dyn Executor>;
    let drift_max = Duration::from_secs(1);
    let timestamps = TimestampAllocator::new(
        Arc::clone(&clock),
        Arc::clone(&executor),
        &members(),
        drift_max,
    );
    let proven = OwnClock::ByPeers(Box::new(|| Some(0)));
    let environment = RepairEnvironment {
        layouts: Layouts::new(Layout::founding(members())),
        engine: opened.engine.clone(),
        clock: Arc::clone(&clock),
        random: Arc::new(SeededRandom::new(1)),
        executor,
        timestamps,
        membership: opened.membership.clone(),
        store_side: Arc::clone(&opened.side),
        background: Background::new(clock),
        // Each range is committed once its tables are written.
        ingest_bytes_max: 1,
        expiry: Arc::new(ExpiryBound::new(proven, drift_max)),
        timeout: drift_max,
        interval: None,
        full_interval: None,
        gc_grace: drift_max,
        sizes: SIZES,
        change: ChangeView::none(),
    };
    let files = CheckpointEnvironment {
        folder: "/store".into(),
        disk,
    };
    RepairSessions::open(environment, files)
}

fn polled<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// A value that is not below the closed timestamp.
fn put(key: &str, value_bytes: usize) -> Entry {
    let value = vec![b'v'; value_bytes];
    Entry::value(key.as_bytes(), at(0), &value, Expiry::NEVER, 3)
}

fn three_mib() -> Vec<Entry> {
    let entry = |number: usize| put(&format!("{number:06}"), VALUE_BYTES);
    (0..3_000).map(entry).collect()
}

#[test]
fn a_node_scans_on_while_a_range_is_compared_for_one_range_and_its_session() {
    let node = Scanning::with(&three_mib());
    let end = node.reach(b"").unwrap();
    let mut digest = pin!(node.sessions.digest((SESSION, 0), Some(end.clone())));
    assert!(polled(digest.as_mut()).is_none());
    node.run(JobClass::Scan);
    let summary = polled(digest.as_mut()).unwrap().unwrap().unwrap();
    assert!(summary.digests[1].items > 0);
    // Nobody has asked for more so far.
    let before = node.keys_ahead();
    node.run(JobClass::Scan);
    let ahead = node.keys_ahead();
    assert_ne!(ahead, before);
    let next_end = node.reach(&end).unwrap();
    assert_eq!(node.keys_ahead(), ahead, "it was read before");
    // A store that takes part in another session reads nothing for this one.
    let mut digest = pin!(node.sessions.digest((SESSION, 1), Some(next_end)));
    assert!(polled(digest.as_mut()).is_none());
    node.run(JobClass::Scan);
    assert!(polled(digest.as_mut()).is_some());
    let before = node.keys_ahead();
    node.opened.side.abandoned(TOKEN);
    let other = Token {
        session: TOKEN.session + 1,
        ..TOKEN
    };
    assert!(node.opened.ask_by(other, begin()).is_some());
    node.run(JobClass::Scan);
    assert_eq!(node.keys_ahead(), before);
}

#[test]
fn the_tables_of_a_range_are_written_while_the_next_one_is_streamed_and_a_third_one_waits() {
    let node = Scanning::with(&[]);
    let [a, b, c] = ["a", "b", "c"].map(|key| put(key, 10));
    let end = |entry: &Entry| Some(Bytes::from([entry.key(), &[0]].concat()));
    assert_eq!(node.reach(b""), None);
    let digest =
        |number, entry: &Entry| Box::pin(node.sessions.digest((SESSION, number), end(entry)));
    for (number, entry) in [(0, &a), (1, &b)] {
        let mut digest = digest(number, entry);
        assert!(polled(digest.as_mut()).is_none());
        node.run(JobClass::Scan);
        assert!(polled(digest.as_mut()).is_some(), "range {number}");
        // The range before waits for its tables meanwhile.
        node.take(number, entry);
        assert!(!node.holds(&a));
    }
    let mut third = digest(2, &c);
    assert!(polled(third.as_mut()).is_none());
    node.run(JobClass::Scan);
    assert!(polled(third.as_mut()).is_none(), "two ranges are in memory");
    node.run(JobClass::Ingest);
    assert!(node.holds(&a) && !node.holds(&b));
    assert!(polled(third.as_mut()).is_none());
    node.run(JobClass::Scan);
    assert!(polled(third.as_mut()).is_some());
    node.take(2, &c);
    // A checkpoint waits for all of them.
    let mut commit = pin!(node.sessions.commit_streamed(SESSION));
    assert!(polled(commit.as_mut()).is_none());
    node.run(JobClass::Scan);
    assert!(polled(commit.as_mut()).is_none());
    assert!(!node.holds(&b) && !node.holds(&c));
    node.run(JobClass::Ingest);
    assert_eq!(polled(commit.as_mut()), Some(true));
    assert!(node.holds(&b) && node.holds(&c));
}

#[test]
fn a_node_leaves_a_session_whose_tables_it_cannot_write() {
    let node = Scanning::with(&[]);
    let [a, b] = ["a", "b"].map(|key| put(key, 10));
    assert_eq!(node.reach(b""), None);
    let end = Some(Bytes::from_static(b"a\0"));
    for (number, end) in [(0, end), (1, None)] {
        let mut digest = pin!(node.sessions.digest((SESSION, number), end));
        assert!(polled(digest.as_mut()).is_none());
        node.run(JobClass::Scan);
        assert!(polled(digest.as_mut()).is_some());
        node.take(number, if number == 0 { &a } else { &b });
    }
    let creates = Fault::at(0, ErrorKind::Other).only(|call, _| call == Call::Create);
    node.node.disk.arm(creates);
    node.run(JobClass::Ingest);
    assert_eq!(node.node.disk.failed(), 1);
    node.node.disk.heal();
    assert!(!lock(&node.sessions.participant).takes_part(SESSION));
    let mut commit = pin!(node.sessions.commit_streamed(SESSION));
    assert!(polled(commit.as_mut()).is_none());
    node.run(JobClass::Scan);
    assert_eq!(polled(commit.as_mut()), Some(false));
    assert!(!node.holds(&a) && !node.holds(&b));
}
