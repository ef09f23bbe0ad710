//! Stores that a full session rebuilds, and what that changes.

use super::*;

#[test]
fn a_lost_store_counts_once_a_full_session_has_rebuilt_it_and_that_is_durable() {
    let [_lost, b, c] = voters();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &c, 3));
    let a = Folder::new();
    let node_a = start("a", &a, 9);
    connect([&node_a, &node_b, &node_c]);
    assert_eq!(node_a.word(), "learner");
    node_a.full_session(1, &["b"]);
    assert_eq!(
        node_a.word(),
        "learner",
        "`c` may have what only it and the lost one had"
    );
    let session = token(2, 0);
    node_a.membership.session_began(session);
    node_a
        .membership
        .session_ended(session, &[id_of("b"), id_of("c")], &[]);
    assert!(!node_a.membership.is_voter(), "a crash would forget it");
    a.executor.run_all_due();
    assert_eq!(node_a.word(), "voter");
    // Its peers learn of it by the next handshake.
    assert_ne!(node_b.remembered("a").unwrap().store_id, 9);
    assert!(shake_hands(&node_a, &node_b));
    assert_eq!(node_b.remembered("a").unwrap().store_id, 9);
    drop(node_a);
    let a = a.after_crash();
    let node_a = start("a", &a, 9);
    assert_eq!(node_a.word(), "starting");
    connect([&node_a, &node_b, &node_c]);
    assert_eq!(node_a.word(), "voter");
}

#[test]
fn an_outdated_store_is_filled_too_and_may_timestamp_again() {
    let [a, b, c] = voters();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &c, 3));
    let yesterday = a.copy();
    let today = start("a", &a, 1);
    connect([&today, &node_b, &node_c]);
    a.acknowledge(10);
    node_b.hear(&today, &node_b.connect(&today));
    drop(today);
    let node_a = start("a", &yesterday, 1);
    connect([&node_a, &node_b, &node_c]);
    assert!(node_a.membership.is_outdated());
    node_a.full_session(1, &["b", "c"]);
    assert_eq!(node_a.word(), "voter");
    assert!(!node_a.membership.is_outdated());
    assert!(node_a.membership.durable_acknowledged() >= 10);
    connect([&node_a, &node_b, &node_c]);
    drop(node_a);
    let node_a = start("a", &yesterday, 1);
    connect([&node_a, &node_b, &node_c]);
    assert_eq!(node_a.word(), "voter", "no peer speaks against it any more");
    // Now the original is the one that lacks a start.
    drop(node_a);
    let today = start("a", &a, 1);
    assert!(shake_hands(&today, &node_c));
    assert_eq!(today.word(), "learner");
}

#[test]
fn stores_that_are_all_outdated_become_voters_together() {
    let folders = voters();
    let copies = folders.each_ref().map(Folder::copy);
    {
        let [a, b, c] = &folders;
        connect([&start("a", a, 1), &start("b", b, 2), &start("c", c, 3)]);
    }
    let [a, b, c] = &copies;
    let (node_a, node_b, node_c) = (start("a", a, 1), start("b", b, 2), start("c", c, 3));
    connect([&node_a, &node_b, &node_c]);
    let later = start("b", &folders[1], 2);
    drop(node_b);
    let node_b = later;
    connect([&node_a, &node_b, &node_c]);
    assert_eq!(
        [&node_a, &node_b, &node_c].map(Started::word),
        ["learner"; 3]
    );
    node_a.full_session(1, &["b", "c"]);
    node_b.full_session(1, &["a", "c"]);
    node_c.full_session(1, &["a", "b"]);
    connect([&node_a, &node_b, &node_c]);
    assert_eq!([&node_a, &node_b, &node_c].map(Started::word), ["voter"; 3]);
}

#[test]
fn a_rollback_after_the_store_was_filled_is_noticed() {
    let [_lost, b, c] = voters();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &c, 3));
    let a = Folder::new();
    let node_a = start("a", &a, 9);
    connect([&node_a, &node_b, &node_c]);
    let before = a.copy();
    node_a.full_session(1, &["b", "c"]);
    connect([&node_a, &node_b, &node_c]);
    let after = a.copy();
    drop(node_a);
    drop(start("a", &before, 9));
    connect([&start("a", &a, 9), &node_b, &node_c]);
    for copy in [before, after] {
        let node_a = start("a", &copy, 9);
        assert!(shake_hands(&node_a, &node_b));
        assert_eq!(node_a.word(), "learner");
    }
}

#[test]
fn a_session_does_not_rebuild_a_store_that_has_lost_something_since_it_began() {
    let [a, b, c] = voters();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &c, 3));
    let yesterday = a.copy();
    assert!(shake_hands(&start("a", &a, 1), &node_b));
    let node_a = start("a", &yesterday, 1);
    node_a.membership.session_began(token(1, 0));
    connect([&node_a, &node_b, &node_c]);
    assert_eq!(node_a.word(), "learner");
    let all = [id_of("b"), id_of("c")];
    node_a
        .membership
        .session_ended(token(1, 0), &all, &[2, 3, 0]);
    yesterday.executor.run_all_due();
    assert_eq!(node_a.word(), "learner");
    // Nor does one that began before this start.
    node_a.membership.session_ended(token(2, 0), &all, &[]);
    yesterday.executor.run_all_due();
    assert_eq!(node_a.word(), "learner");
}

#[test]
fn a_session_does_not_rebuild_a_store_before_it_has_observed_the_timestamps_of_all_peers() {
    let [_lost, b, c] = voters();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &c, 3));
    let a = Folder::new();
    let node_a = start("a", &a, 9);
    assert!(shake_hands(&node_a, &node_b));
    // A session that `b` coordinates may compare `a` with `c`, which find no difference.
    let why = || node_a.membership.learner_because();
    assert_eq!(why(), None);
    node_a.full_session(1, &["b"]);
    assert!(
        why().unwrap().ends_with("everything from c"),
        "{why:?}",
        why = why()
    );
    node_a.full_session(2, &["b", "c"]);
    assert_eq!(node_a.word(), "learner");
    assert!(
        why().unwrap().contains("clock and that of c"),
        "{why:?}",
        why = why()
    );
    assert!(shake_hands(&node_a, &node_c));
    node_a.full_session(3, &["b", "c"]);
    assert_eq!((node_a.word(), why()), ("voter", None));
}

#[test]
fn the_connections_of_a_store_go_on_when_it_is_rebuilt() {
    let [_lost, b, c] = voters();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &c, 3));
    let a = Folder::new();
    let node_a = start("a", &a, 9);
    connect([&node_a, &node_b, &node_c]);
    let watch = node_b.connect(&node_a);
    a.acknowledge(5);
    node_b.hear(&node_a, &watch);
    assert_eq!(
        node_b.remembered("a").unwrap().acknowledged,
        0,
        "of the lost store"
    );
    assert!(!watch.is_remembered());
    node_a.full_session(1, &["b", "c"]);
    connect([&node_a, &node_b, &node_c]);
    assert!(watch.is_remembered() && !watch.is_superseded());
    node_b.hear(&node_a, &watch);
    assert_eq!(node_b.remembered("a").unwrap().acknowledged, 5);
    // A later start ends them.
    drop(node_a);
    assert!(shake_hands(&start("a", &a, 9), &node_b));
    assert!(watch.is_superseded());
}

#[test]
fn a_store_that_lacks_something_waits_until_the_remembered_one_is_gone() {
    let [a, b, _c] = voters();
    let node_b = start("b", &b, 2);
    let yesterday = a.copy();
    let today = start("a", &a, 1);
    assert!(shake_hands(&today, &node_b));
    let watch = node_b.connect(&today);
    let lost = Folder::new();
    let (restored, empty) = (start("a", &yesterday, 1), start("a", &lost, 9));
    for live in [watch.mark_live(), watch.mark_heard()] {
        for other in [&restored, &empty] {
            assert!(!shake_hands(other, &node_b));
            assert_eq!(other.word(), "starting");
        }
        drop(live);
    }
    for other in [&restored, &empty] {
        assert!(shake_hands(other, &node_b));
        assert_eq!(other.word(), "learner");
    }
    // A sound restart does not wait for what a cut connection may still bring.
    let heard = watch.mark_heard();
    assert!(shake_hands(&start("a", &a, 1), &node_b));
    drop(heard);
}
