//! When the store of a node becomes a voter.

use super::*;
use cluster::STARTS_MAX;

#[test]
fn a_new_store_is_a_voter_once_all_peers_remember_it() {
    let [a, b, c] = [(); 3].map(|()| Folder::new());
    let (a, b, c) = (start("a", &a, 1), start("b", &b, 2), start("c", &c, 3));
    assert!(shake_hands(&a, &b));
    for node in [&a, &b] {
        assert!(!node.membership.is_voter(), "a majority is not enough");
        assert_eq!(node.word(), "starting");
    }
    assert!(shake_hands(&c, &a));
    assert!(a.membership.is_voter(), "both peers remember it");
    assert!(!b.membership.is_voter() && !c.membership.is_voter());
    assert!(shake_hands(&c, &b));
    assert!(b.membership.is_voter() && c.membership.is_voter());
}

#[test]
fn a_peer_that_was_met_counts_only_once_it_durably_remembers_the_store() {
    let folder = Folder::new();
    let node = folder.open(1);
    assert_eq!(folder.record(&node, "b", &hello(2), None), Some(true));
    assert_eq!(folder.record(&node, "c", &hello(3), None), Some(true));
    assert!(!node.is_voter(), "the peers may forget it in a crash");
    node.remembered_by(id_of("b"));
    node.remembered_by(id_of("c"));
    assert!(!node.is_voter(), "the node may forget it in a crash");
    folder.executor.run_all_due();
    assert!(node.is_voter());
    assert_eq!(
        folder.after_crash().open(1).replica_state().word(),
        "starting"
    );
}

#[test]
fn a_peer_that_says_that_it_remembers_the_store_counts() {
    let folder = Folder::new();
    let first = folder.open(1);
    let known = Some(Remembered {
        store_id: 1,
        start: first.starts()[0],
        acknowledged: 0,
    });
    drop(first);
    let node = folder.open(1);
    for peer in ["b", "c"] {
        assert!(!node.is_voter());
        let hello = Hello {
            remembered: known,
            ..hello(2)
        };
        folder.record(&node, peer, &hello, None);
    }
    assert!(node.is_voter());
}

#[test]
fn a_returning_voter_waits_for_all_peers_that_can_be_reached() {
    let [a, b, c] = voters();
    let node = start("a", &a, 1);
    assert_eq!(node.word(), "starting");
    assert!(!node.membership.is_settled());
    assert!(shake_hands(&node, &start("b", &b, 2)));
    assert!(
        !node.membership.is_voter(),
        "`c` may remember a later start"
    );
    node.membership.unreachable(id_of("c"));
    assert!(node.membership.is_voter() && node.membership.is_settled());
    drop(node);
    // It is not the first start, so it needs no peer to be reachable.
    let node = start("a", &a, 1);
    node.membership.unreachable(id_of("b"));
    node.membership.unreachable(id_of("c"));
    assert!(node.membership.is_voter());
    assert!(shake_hands(&node, &start("c", &c, 3)));
    assert!(node.membership.is_voter());
}

#[test]
fn a_new_store_waits_for_peers_that_cannot_be_reached() {
    let folder = Folder::new();
    let node = folder.open(1);
    node.unreachable(id_of("b"));
    node.unreachable(id_of("c"));
    assert!(!node.is_voter());
}

#[test]
fn a_node_without_peers_is_a_voter_at_once() {
    let folder = Folder::new();
    let alone = |name| {
        Members::single_node(Member::named(name, "http://[::1]:1".parse().unwrap()).unwrap())
    };
    let node = folder.open_as(alone("a"), 1, false).unwrap();
    assert!(node.is_voter() && node.is_settled());
    // It may change its name, because no key is placed by it.
    assert!(folder.open_as(alone("z"), 1, false).unwrap().is_voter());
}

#[test]
fn a_peer_that_missed_many_starts_still_recognises_the_store() {
    let [a, b, c] = voters();
    let node_b = start("b", &b, 2);
    for _ in 0..STARTS_MAX - 2 {
        drop(start("a", &a, 1));
    }
    let last = start("a", &a, 1);
    assert_eq!(last.membership.starts().len(), STARTS_MAX);
    assert!(shake_hands(&last, &node_b));
    assert_eq!(last.word(), "starting");
    last.membership.unreachable(id_of("c"));
    assert_eq!(last.word(), "voter");
    // After one more start, `c` does not recognise it, which is safe.
    let one_more = start("a", &a, 1);
    assert!(shake_hands(&one_more, &start("c", &c, 3)));
    assert_eq!(one_more.word(), "learner");
}

#[test]
fn a_folder_with_another_store_than_its_file_names_is_a_learner() {
    let [a, _b, _c] = voters();
    assert_eq!(a.open(5).replica_state().word(), "learner");
}
