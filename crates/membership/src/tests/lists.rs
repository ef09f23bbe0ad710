//! The list of members: what is durable before it counts, whom a node answers in a change, and which
//! lists it takes.

use super::*;
use cluster::layout::paxos::{AcceptedList, Ballot, VoteAnswer, VoteRequest};
use cluster::layout::{Change, ClusterId, JoinedStore, Joiner, MemberList, MemberReport};
use cluster::{Epoch, NodeSet, Replicas};
use peer::ListReport;

/// The list of the three nodes.
fn founding() -> MemberList {
    let all = members("a", &NODES);
    let nodes = all.iter().map(|(_, node)| node.clone()).collect();
    MemberList::founding(ClusterId::new(7), nodes, Replicas::quorum(3)).unwrap()
}

/// The list with which `d` begins to join, with a store of this number.
fn copying(founding: &MemberList, store_id: u64) -> MemberList {
    let joiner = Joiner {
        member: members("d", &["d"]).iter().next().unwrap().1.clone(),
        zone: None,
        store: JoinedStore { store_id, start: 1 },
    };
    let change = Change::Members {
        join: vec![joiner],
        leave: Vec::new(),
        are_dead: false,
    };
    founding.plan(&change, NodeSet::default()).unwrap()
}

impl Started<'_> {
    /// Its list. The nodes have met, so `a` has drawn the number of the cluster.
    fn list(&self) -> MemberList {
        (*self.membership.list().unwrap()).clone()
    }

    /// Takes a list, durably.
    fn take(&self, list: &MemberList) {
        self.membership.take_list(list);
        self.folder.executor.run_all_due();
    }

    /// Asks for a vote; the answer is there once it may be sent.
    fn ask(&self, request: VoteRequest) -> Arc<Mutex<Option<VoteAnswer>>> {
        let answer = Arc::new(Mutex::new(None));
        let cell = Arc::clone(&answer);
        self.membership
            .vote(request, move |answer| *cell.lock().unwrap() = Some(answer));
        answer
    }

    /// The vote.
    fn vote(&self, request: VoteRequest) -> VoteAnswer {
        let answer = self.ask(request);
        self.folder.executor.run_all_due();
        answer.lock().unwrap().take().unwrap()
    }

    fn is_barred(&self, peer: &str) -> bool {
        let state = lock(&self.membership.inner.state);
        state.lists.is_barred(id_of(peer))
    }

    /// Hears that a peer has reported an epoch.
    fn hear_epoch(&self, peer: &str, start: &StartWatch, epoch: Epoch) {
        let member = MemberReport {
            epoch,
            ..MemberReport::default()
        };
        let report = StoreReport {
            acknowledged: 0,
            gc_threshold: Timestamp::ZERO,
            list: ListReport {
                cluster: self.list().cluster().as_u64(),
                epoch,
                member,
            },
        };
        self.membership.heard_report(id_of(peer), start, report);
    }
}

fn prepare(on: &MemberList, ballot: Ballot) -> VoteRequest {
    let on = on.clone();
    VoteRequest::Prepare { on, ballot }
}

/// Three ballots, the least first.
fn ballots() -> [Ballot; 3] {
    let first = Ballot::default().next_of(id_of("b"));
    let second = first.next_of(id_of("c"));
    [first, second, second.next_of(id_of("b"))]
}

#[test]
fn a_vote_is_answered_once_it_is_durable_and_outlives_the_process() {
    let folders = voters();
    let [of_a, of_b, of_c] = &folders;
    let start_all = || {
        (
            start("a", of_a, 1),
            start("b", of_b, 2),
            start("c", of_c, 3),
        )
    };
    let [low, middle, high] = ballots();
    let (founding, list) = {
        let (a, b, c) = start_all();
        connect([&a, &b, &c]);
        let founding = a.list();
        let list = copying(&founding, 9);
        let answer = a.ask(prepare(&founding, middle));
        assert_eq!(*answer.lock().unwrap(), None, "it is not durable yet");
        of_a.executor.run_all_due();
        assert_eq!(*answer.lock().unwrap(), Some(VoteAnswer::Promised(None)));
        let accept = VoteRequest::Accept {
            ballot: middle,
            list: list.clone(),
        };
        assert_eq!(a.vote(accept), VoteAnswer::Accepted);
        (founding, list)
    };
    let (a, b, c) = start_all();
    connect([&a, &b, &c]);
    assert_eq!(
        a.vote(prepare(&founding, low)),
        VoteAnswer::Outvoted(middle)
    );
    let accepted = AcceptedList {
        ballot: middle,
        list,
    };
    let promised = VoteAnswer::Promised(Some(Box::new(accepted)));
    assert_eq!(a.vote(prepare(&founding, high)), promised);
}

#[test]
fn a_store_that_was_lost_votes_once_it_has_the_votes_of_the_others() {
    let folders = voters();
    let [_, of_b, of_c] = &folders;
    let empty = Folder::new();
    let (a, b, c) = (
        start("a", &empty, 9),
        start("b", of_b, 2),
        start("c", of_c, 3),
    );
    connect([&a, &b, &c]);
    assert_eq!(a.word(), "learner");
    let list = a.list();
    b.take(&list);
    let [low, middle, _] = ballots();
    assert_eq!(a.vote(prepare(&list, middle)), VoteAnswer::Missed);
    a.full_session(1, &["b", "c"]);
    assert_eq!(a.word(), "voter");
    assert_eq!(a.vote(prepare(&list, middle)), VoteAnswer::Missed);
    assert_eq!(b.vote(prepare(&list, middle)), VoteAnswer::Promised(None));
    let acceptor = b.membership.exchange_lists(None).acceptor;
    a.membership.take_over_votes(list.epoch(), &[acceptor]);
    assert_eq!(a.vote(prepare(&list, low)), VoteAnswer::Outvoted(middle));
}

/// In a change, a node takes part in sessions once it has reported the change, and then answers no
/// peer that has not, or that was started again since.
#[test]
fn a_peer_of_an_earlier_list_is_barred_from_the_first_session_on() {
    let folders = voters();
    let [of_a, of_b, of_c] = &folders;
    {
        let (a, b, c) = (
            start("a", of_a, 1),
            start("b", of_b, 2),
            start("c", of_c, 3),
        );
        connect([&a, &b, &c]);
        let change = copying(&a.list(), 9);
        assert!(a.membership.raise_floor(), "there is no change");
        a.take(&change);
        assert!(
            !a.membership.raise_floor(),
            "it has not reported the change"
        );
        assert!(!a.is_barred("b"));
        a.membership.report_epoch(change.epoch());
        assert!(a.membership.raise_floor());
        assert!(a.is_barred("b"));
        let watch = a.connect(&b);
        a.hear_epoch("b", &watch, Epoch::default());
        assert!(a.is_barred("b"));
        a.hear_epoch("b", &watch, change.epoch());
        assert!(!a.is_barred("b"));
        assert!(a.is_barred("c"));
        // What the store of another start goes by is not known.
        a.connect(&b);
        assert!(a.is_barred("b"));
    }
    // Sessions of the run before may have taken part in the change.
    let a = start("a", of_a, 1);
    assert!(a.is_barred("b"));
}

/// A node that waits to join is a voter with the store that the list names, which is empty, and a
/// learner with any other.
#[test]
fn a_node_joins_as_a_voter_only_with_the_store_that_has_waited() {
    for (store_id, word) in [(9, "starting"), (8, "learner")] {
        let folder = Folder::new();
        let environment = MembershipEnvironment {
            waits: true,
            ..folder.environment(store_id)
        };
        let layouts = Layouts::new(Layout::founding(members("d", &["d"])));
        let membership = Membership::open(environment, layouts, 9, false).unwrap();
        membership.take_list(&founding());
        folder.executor.run_all_due();
        assert!(membership.list().is_none(), "it does not have the node");
        membership.take_list(&copying(&founding(), store_id));
        folder.executor.run_all_due();
        assert_eq!(membership.list().unwrap().epoch(), Epoch::new(1));
        let state = lock(&membership.inner.state).confirmation.replica_state();
        let is_learner = state == ReplicaState::Learner;
        assert_eq!(is_learner, word == "learner", "{state:?}");
    }
}

/// A list of another cluster is ignored, unless an operator has forced it on members of this one.
#[test]
fn a_list_that_was_forced_is_taken_by_those_who_are_left() {
    let folders = voters();
    let [of_a, ..] = &folders;
    let a = start("a", of_a, 1);
    let founding = a.list();
    let forced = |from: &MemberList, names: &[&str], cluster| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let cluster = ClusterId::new(cluster);
        from.forced(&names, cluster, NodeSet::default()).unwrap()
    };
    let cluster = || a.membership.list().unwrap().cluster().as_u64();
    let other = forced(&forced(&founding, &["a"], 20), &["a"], 21);
    a.take(&other);
    assert_eq!(
        cluster(),
        founding.cluster().as_u64(),
        "that was forced on another cluster"
    );
    a.take(&forced(&founding, &["a", "b"], 30));
    assert_eq!(cluster(), 30);
    assert!(!a.membership.is_removed());
    a.take(&forced(&founding, &["a", "c"], 31));
    assert_eq!(cluster(), 30, "the cluster is another one by now");
    let list = a.list();
    a.take(&forced(&list, &["b"], 32));
    assert!(a.membership.is_removed());
}

/// They were shown about what the store has lost since. Neither its peers nor its own driver of the
/// change may go by them.
#[test]
fn a_store_that_loses_something_has_no_facts_any_more() {
    let folders = voters();
    let [of_a, of_b, of_c] = &folders;
    let (a, b, c) = (
        start("a", of_a, 1),
        start("b", of_b, 2),
        start("c", of_c, 3),
    );
    connect([&a, &b, &c]);
    let change = copying(&a.list(), 9);
    a.take(&change);
    let facts = || {
        let state = lock(&a.membership.inner.state);
        let own = state.lists.reports().of(id_of("a"));
        [own, state.lists.report().member].map(|report| report.equal_with)
    };
    let others = NodeSet::from_iter([id_of("b"), id_of("c")]);
    a.membership.set_facts(change.change(), others);
    assert_eq!(facts(), [others; 2]);
    a.membership.fall_behind().unwrap();
    assert_eq!(facts(), [NodeSet::default(); 2]);
}
