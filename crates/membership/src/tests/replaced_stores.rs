//! Stores that were lost, restored from a copy, or accepted by an operator.

use super::*;

#[test]
fn a_store_that_replaces_a_lost_one_is_no_voter_until_it_is_accepted() {
    let [_lost, b, c] = voters();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &c, 3));
    let lost = node_b.remembered("a");

    let a = Folder::new();
    let node_a = start("a", &a, 9);
    assert!(shake_hands(&node_a, &node_b), "it keeps what it is sent");
    assert_eq!(node_a.word(), "learner");
    assert_eq!(
        node_b.remembered("a"),
        lost,
        "the peer still remembers the lost store"
    );
    // A peer that remembers nothing does not outweigh one that does.
    a.record(&node_a.membership, "c", &hello(3), None);
    assert!(!node_a.membership.is_voter());
    let a = a.after_crash();
    let node_a = start("a", &a, 9);
    assert_eq!(
        node_a.word(),
        "learner",
        "the next start knows it from the file"
    );
    drop(node_a);

    // An operator accepts the store, which is durable before a peer learns of it.
    drop(start_accepting("a", &a, 9));
    let a = a.after_crash();
    let node_a = start("a", &a, 9);
    assert_eq!(node_a.word(), "forced_voter");
    assert!(node_a.membership.is_voter());
    assert!(shake_hands(&node_a, &node_b));
    let known = node_b.remembered("a").unwrap();
    assert_eq!(known.store_id, 9);
    let late_hello = Hello {
        remembered: lost,
        ..hello(2)
    };
    a.record(&node_a.membership, "b", &late_hello, None);
    assert!(
        node_a.membership.is_voter(),
        "the peer may have sent it before it learned that the store is accepted"
    );
    assert!(shake_hands(&node_a, &node_c));
    drop(node_a);
    // After that it is a store like any other.
    let a = a.after_crash();
    let node_a = start("a", &a, 9);
    assert_eq!(node_a.word(), "starting");
    assert!(shake_hands(&node_a, &node_b) && shake_hands(&node_a, &node_c));
    assert_eq!(node_a.word(), "voter");
    a.record(&node_a.membership, "b", &late_hello, None);
    assert_eq!(node_a.word(), "learner");
}

#[test]
fn both_sides_notice_a_restored_folder_at_each_of_its_starts() {
    let [a, b, c] = voters();
    let yesterday = a.copy();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &c, 3));
    // The store starts once more, and then the copy replaces its folder.
    let today = start("a", &a, 1);
    assert!(shake_hands(&today, &node_b) && shake_hands(&today, &node_c));
    let known = node_b.remembered("a");
    drop(today);
    for _ in 0..2 {
        let restored = start("a", &yesterday, 1);
        assert!(shake_hands(&restored, &node_b));
        assert_eq!(restored.word(), "learner");
        assert_eq!(node_b.remembered("a"), known);
    }
    // The peer still remembers it after a crash.
    let b = b.after_crash();
    let node_b = start("b", &b, 2);
    assert_eq!(node_b.remembered("a"), known);

    // An operator accepts the restored folder.
    let accepted = start_accepting("a", &yesterday, 1);
    assert!(shake_hands(&accepted, &node_b) && shake_hands(&accepted, &node_c));
    assert_eq!(accepted.word(), "forced_voter");
    // Now the original folder is the one that lacks a start.
    let today = start("a", &a, 1);
    assert!(shake_hands(&today, &node_c));
    assert_eq!(today.word(), "learner");
}

#[test]
fn a_peer_that_missed_a_start_does_not_outweigh_one_that_remembers_it() {
    let [a, b, c] = voters();
    let yesterday = a.copy();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &c, 3));
    assert!(
        shake_hands(&start("a", &a, 1), &node_b),
        "`c` is unreachable"
    );
    let restored = start("a", &yesterday, 1);
    assert!(shake_hands(&restored, &node_c));
    assert!(
        !restored.membership.is_voter(),
        "`b` has yet to say what it remembers"
    );
    assert!(shake_hands(&restored, &node_b));
    assert_eq!(restored.word(), "learner");
    // The same if `b` can be reached only later.
    let restored = start("a", &yesterday.copy(), 1).membership;
    drop(restored);
    let late = yesterday.copy();
    let late = start("a", &late, 1);
    late.membership.unreachable(id_of("b"));
    assert!(shake_hands(&late, &node_b));
    assert_eq!(late.word(), "learner");
}

#[test]
fn a_restored_store_is_outdated_and_a_new_one_is_not() {
    let [a, b, c] = voters();
    let yesterday = a.copy();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &c, 3));
    assert!(shake_hands(&start("a", &a, 1), &node_b));
    let restored = start("a", &yesterday, 1);
    assert!(!restored.membership.is_outdated());
    assert!(shake_hands(&restored, &node_b));
    assert!(restored.membership.is_outdated());
    // A restart does not forget it, and a peer that knows less does not change it.
    let yesterday = yesterday.after_crash();
    let restored = start("a", &yesterday, 1);
    assert!(restored.membership.is_outdated());
    assert!(shake_hands(&restored, &node_c));
    assert!(restored.membership.is_outdated());
    let accepted = start_accepting("a", &yesterday, 1);
    assert!(!accepted.membership.is_outdated());
    assert!(shake_hands(&accepted, &node_b) && shake_hands(&accepted, &node_c));
    assert!(!accepted.membership.is_outdated());
    // A new store allocates no timestamp that another has issued.
    let empty = Folder::new();
    let empty = start("a", &empty, 9);
    assert!(shake_hands(&empty, &node_b));
    assert_eq!(empty.word(), "learner");
    assert!(!empty.membership.is_outdated());
}

#[test]
fn peers_that_know_of_an_acceptance_notice_a_later_rollback() {
    let [a, b, c] = voters();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &c, 3));
    drop(a);
    let a = Folder::new();
    let accepted = start_accepting("a", &a, 9);
    assert!(
        shake_hands(&accepted, &node_b),
        "`c` has yet to learn of it"
    );
    drop(accepted);
    let copy = a.copy();
    let next = start("a", &a, 9);
    assert_eq!(next.word(), "forced_voter");
    assert!(shake_hands(&next, &node_b));
    let restored = start("a", &copy, 9);
    assert!(shake_hands(&restored, &node_b));
    assert_eq!(restored.word(), "learner");
    drop(restored);
    assert!(
        shake_hands(&next, &node_c),
        "a peer that had yet to learn of it takes the accepted store"
    );
    assert_eq!(next.word(), "forced_voter");
}
