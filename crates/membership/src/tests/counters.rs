//! What stores have acknowledged, and stores that come back with less.

use super::*;

#[test]
fn a_store_that_comes_back_with_fewer_writes_than_a_peer_has_heard_of_is_outdated() {
    let [a, b, c] = voters();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &c, 3));
    let running = start("a", &a, 1);
    assert!(shake_hands(&running, &node_b) && shake_hands(&running, &node_c));
    let watch = node_b.connect(&running);
    a.acknowledge(4);
    let copy = a.copy();
    a.acknowledge(6);
    node_b.hear(&running, &watch);
    drop(running);

    // The copy has the very start that the peers remember.
    for before in ["starting", "learner"] {
        let restored = start("a", &copy, 1);
        assert!(shake_hands(&restored, &node_c));
        assert_eq!(restored.word(), before, "`c` has heard of nothing");
        // What it stores now does not make up for what it lacks.
        copy.acknowledge(100);
        assert!(shake_hands(&restored, &node_b));
        assert_eq!(restored.word(), "learner");
        assert!(restored.membership.is_outdated());
        copy.acknowledged.store(4, Ordering::SeqCst);
    }
    // The original has all of them.
    let original = start("a", &a, 1);
    assert!(shake_hands(&original, &node_b) && shake_hands(&original, &node_c));
    assert_eq!(original.word(), "learner", "`c` has met the copy since");
}

#[test]
fn what_a_peer_has_heard_in_this_start_does_not_speak_against_the_store() {
    let [a, b, c] = voters();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &c, 3));
    let node = start("a", &a, 1);
    assert!(shake_hands(&node, &node_b) && shake_hands(&node, &node_c));
    a.acknowledge(10);
    node_b.hear(&node, &node_b.connect(&node));
    assert!(shake_hands(&node, &node_b));
    assert_eq!(node.word(), "voter");
    assert_eq!(node_b.remembered("a").unwrap().acknowledged, 10);
    // A restart that lost nothing has them all.
    drop(node);
    let node = start("a", &a, 1);
    assert!(shake_hands(&node, &node_b) && shake_hands(&node, &node_c));
    assert_eq!(node.word(), "voter");
    assert_eq!(node_b.remembered("a").unwrap().acknowledged, 10);
}

#[test]
fn a_handshake_that_the_store_does_not_finish_does_not_hide_what_it_lacks() {
    let [a, b, _c] = voters();
    let node_b = start("b", &b, 2);
    let running = start("a", &a, 1);
    assert!(shake_hands(&running, &node_b));
    a.acknowledge(4);
    let copy = a.copy();
    a.acknowledge(6);
    node_b.hear(&running, &node_b.connect(&running));
    drop(running);
    let restored = start("a", &copy, 1);
    let hello = restored.hello_to(&node_b);
    let sent = node_b.remembered("a");
    b.record(&node_b.membership, "a", &hello, sent);
    assert_eq!(
        node_b.remembered("a"),
        sent,
        "the peer remembers what it did"
    );
    assert!(shake_hands(&restored, &node_b));
    assert_eq!(restored.word(), "learner");
}

#[test]
fn what_peers_acknowledge_is_written_from_time_to_time_and_at_the_end() {
    let [a, b, _c] = voters();
    let node_a = start("a", &a, 1);
    let node_b = start("b", &b, 2);
    assert!(shake_hands(&node_a, &node_b));
    let watch = node_b.connect(&node_a);
    let durable = |b: &Folder| {
        let b = b.after_crash();
        start("b", &b, 2).remembered("a").unwrap().acknowledged
    };
    let before = b.disk.calls();
    for _ in 0..100 {
        a.acknowledge(1);
        node_b.hear(&node_a, &watch);
    }
    assert_eq!(b.disk.calls(), before, "it is written later");
    assert_eq!(node_b.remembered("a").unwrap().acknowledged, 100);
    assert_eq!(durable(&b), 0);
    b.executor.run_until_idle();
    assert_eq!(durable(&b), 100);
    a.acknowledge(1);
    node_b.hear(&node_a, &watch);
    assert!(node_b.membership.close());
    node_b.membership.mark_closed().unwrap();
    assert_eq!(durable(&b), 101);
}

#[test]
fn a_release_that_does_not_count_is_not_judged_by_its_count() {
    let [_, b, _] = voters();
    let node_b = start("b", &b, 2);
    let known = node_b.remembered("a").unwrap();
    let counting = Hello {
        starts: [known.start, 50].into(),
        acknowledged: Some(9),
        ..hello(1)
    };
    let record = |hello: &Hello| {
        let sent = node_b.remembered("a");
        b.record(&node_b.membership, "a", hello, sent)
    };
    // A store that an older release opens, and a newer one after it.
    assert_eq!(record(&counting), Some(true));
    let older = Hello {
        starts: [known.start, 50, 60].into(),
        acknowledged: None,
        ..hello(1)
    };
    assert_eq!(record(&older), Some(true));
    assert_eq!(node_b.remembered("a").unwrap().start, 60);
}
