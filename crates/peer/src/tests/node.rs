//! A node, as the tests of handshakes and links have it.

use super::*;

/// A node, as handshakes see it.
#[derive(Clone)]
pub(crate) struct TestNode {
    /// What it says of itself; the replica state and the times are filled in.
    pub(crate) hello: Hello,
    pub(crate) secrets: Vec<&'static [u8]>,
    pub(crate) members: Vec<&'static str>,
    pub(crate) replica_state: Rc<Cell<ReplicaState>>,
    /// What it reports of itself, and what was reported to it.
    pub(crate) report: Rc<Cell<StoreReport>>,
    pub(crate) reports: Rc<RefCell<Vec<StoreReport>>>,
    /// The hellos that it has recorded.
    pub(crate) recorded: Rc<RefCell<Vec<Hello>>>,
    /// The present start of the other nodes.
    pub(crate) start: Rc<RefCell<Arc<PeerStart>>>,
    /// The nodes that durably remember this one, and those that could not be reached.
    pub(crate) remembered_by: Rc<RefCell<Vec<String>>>,
    pub(crate) dialled_by: Rc<RefCell<Vec<String>>>,
    pub(crate) unreachable: Rc<RefCell<Vec<String>>>,
    /// Whether the previous starts of other nodes still have live links.
    pub(crate) is_previous_start_live: Rc<Cell<bool>>,
    /// The greatest GC threshold that it believes.
    pub(crate) believed_max: Timestamp,
    /// Whether its disk never finishes recording a hello.
    pub(crate) records_nothing: bool,
}

impl TestNode {
    pub(crate) fn named(name: &str) -> Self {
        Self {
            hello: Hello {
                protocol: Protocol::OWN,
                name: name.to_owned(),
                members_hash: 77,
                store_id: 1_000 + name.len() as u64,
                starts: [1, 2, 3].into(),
                is_accepted: false,
                replica_state: ReplicaState::Voter,
                remembered: None,
                remembered_starts: [].into(),
                acknowledged: Some(0),
                greatest_seen: Timestamp::ZERO,
                unix_ms: 0,
                gc_threshold: Timestamp::ZERO,
                cluster: 0,
                list: ListReport::default(),
                waits: false,
            },
            believed_max: Timestamp::MAX,
            secrets: vec![b"secret"],
            members: vec!["asker", "replica", "third"],
            replica_state: Rc::new(Cell::new(ReplicaState::Voter)),
            report: Rc::new(Cell::new(StoreReport {
                acknowledged: 0,
                gc_threshold: Timestamp::ZERO,
                list: ListReport::default(),
            })),
            reports: Rc::default(),
            recorded: Rc::default(),
            start: Rc::default(),
            remembered_by: Rc::default(),
            dialled_by: Rc::default(),
            unreachable: Rc::default(),
            is_previous_start_live: Rc::default(),
            records_nothing: false,
        }
    }

    pub(crate) fn environment(self, unix_ms: u64) -> PeerEnvironment {
        let clock = TokioClock::new(unix_ms);
        PeerEnvironment {
            log: Arc::new(PeerLog::new(Arc::clone(&clock) as Arc<dyn Clock>)),
            clock,
            random: Arc::new(SeededRandom::new(unix_ms)),
            policy: Rc::new(self),
            incoming: Quota::new(256 << 20),
            runtimes: 1,
            only_lists: false,
        }
    }
}

impl HandshakePolicy for TestNode {
    fn believes_threshold(&self, _name: &str, gc_threshold: Timestamp) -> bool {
        gc_threshold <= self.believed_max
    }

    fn secrets(&self) -> Vec<Arc<[u8]>> {
        self.secrets
            .iter()
            .map(|secret| Arc::from(*secret))
            .collect()
    }

    fn is_member(&self, name: &str) -> bool {
        self.members.contains(&name)
    }

    fn protocol(&self) -> Protocol {
        self.hello.protocol
    }

    fn hello_to(&self, _name: Option<&str>, unix_ms: u64) -> Hello {
        Hello {
            replica_state: self.replica_state.get(),
            greatest_seen: Timestamp::from_u64(unix_ms + 1),
            unix_ms,
            ..self.hello.clone()
        }
    }

    fn replica_state(&self) -> ReplicaState {
        self.replica_state.get()
    }

    fn report(&self) -> StoreReport {
        self.report.get()
    }

    fn heard_report(&self, _name: &str, start: &StartWatch, report: StoreReport) {
        assert!(start.is_of(&self.start.borrow()));
        self.reports.borrow_mut().push(report);
    }

    fn is_previous_start_live(&self, _theirs: &Hello) -> bool {
        self.is_previous_start_live.get()
    }

    fn record_peer(
        &self,
        theirs: &Hello,
        _ours: &Hello,
    ) -> Pin<Box<dyn Future<Output = Option<StartWatch>>>> {
        self.recorded.borrow_mut().push(theirs.clone());
        if self.records_nothing {
            return Box::pin(std::future::pending());
        }
        let watch = StartWatch::new(Arc::clone(&self.start.borrow()));
        Box::pin(ready(Some(watch)))
    }

    fn has_dialled(&self, name: &str) {
        self.dialled_by.borrow_mut().push(name.to_owned());
    }

    fn remembered_by(&self, name: &str) {
        self.remembered_by.borrow_mut().push(name.to_owned());
    }

    fn unreachable(&self, name: &str) {
        self.unreachable.borrow_mut().push(name.to_owned());
    }
}
