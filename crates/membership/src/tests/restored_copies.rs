//! What a store that was put back to an earlier state says of the stores of others.

use super::*;

/// Node `b` loses its disk after `c` was copied, and is rebuilt by the others.
#[test]
fn a_store_that_was_filled_has_all_starts_that_its_peers_have_heard_of() {
    let [a, b, c] = voters();
    let (node_a, node_c) = (start("a", &a, 1), start("c", &c, 3));
    // It remembers the first start of `b`. As `c` is not started again, it is no older state.
    let copy = c.copy();
    let restarted = start("b", &b, 2);
    connect([&node_a, &restarted, &node_c]);
    let a = a.after_crash();
    drop((node_a, restarted));
    let (lost, node_a) = (Folder::new(), start("a", &a, 1));
    let starts_of_b = node_a.membership.starts_of(id_of("b"));
    assert_eq!(starts_of_b.len(), 2, "from the file");
    let node_b = start("b", &lost, 9);
    connect([&node_a, &node_b, &node_c]);
    assert_eq!(node_b.word(), "learner");
    node_b.full_session(1, &["a", "c"]);
    connect([&node_a, &node_b, &node_c]);
    assert_eq!(node_b.word(), "voter");
    drop(node_c);
    let node_c = start("c", &copy, 3);
    connect([&node_a, &node_b, &node_c]);
    let words = [&node_a, &node_b, &node_c].map(Started::word);
    assert_eq!(words, ["voter"; 3]);
}

/// Nobody knows of a store that an operator has accepted that it includes another one.
#[test]
fn an_older_state_does_not_speak_against_a_store_that_replaced_another_since() {
    let [a, _lost, c] = voters();
    let copy = c.copy();
    let (node_a, node_c) = (start("a", &a, 1), start("c", &c, 3));
    let b = Folder::new();
    let node_b = start_accepting("b", &b, 9);
    connect([&node_a, &node_b, &node_c]);
    drop(node_b);
    let node_b = start("b", &b, 9);
    connect([&node_a, &node_b, &node_c]);
    assert_eq!(node_b.word(), "voter");
    drop(node_c);
    for _ in 0..2 {
        let node_c = start("c", &copy, 3);
        assert!(shake_hands(&node_b, &node_c));
        assert_eq!([node_b.word(), node_c.word()], ["voter", "learner"]);
        assert_eq!(node_c.remembered("b").unwrap().store_id, 9);
        connect([&node_a, &node_b, &node_c]);
    }
    // It is rebuilt like any other, and nobody speaks against anybody.
    let node_c = start("c", &copy, 3);
    connect([&node_a, &node_b, &node_c]);
    node_c.full_session(1, &["a", "b"]);
    connect([&node_a, &node_b, &node_c]);
    let words = [&node_a, &node_b, &node_c].map(Started::word);
    assert_eq!(words, ["voter"; 3]);
}

/// The peer may be the only one that has met the start that is gone.
#[test]
fn an_older_state_that_names_a_later_start_of_the_same_store_is_believed() {
    let [_a, b, c] = voters();
    let restored = c.copy();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &c, 3));
    assert!(shake_hands(&node_b, &node_c));
    drop((node_b, node_c));
    let before = b.copy();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &restored, 3));
    assert!(shake_hands(&node_b, &node_c));
    assert_eq!([node_b.word(), node_c.word()], ["starting", "learner"]);
    drop(node_b);
    let node_b = start("b", &before, 2);
    assert!(shake_hands(&node_b, &node_c));
    assert_eq!(node_b.word(), "learner");
}

/// It connects again and again, if its own handshakes fail.
#[test]
fn an_older_state_that_is_not_believed_is_told_of_once_for_each_start() {
    let [_a, _lost, c] = voters();
    let copy = c.copy();
    let (b, node_c) = (Folder::new(), start("c", &c, 3));
    let node_b = start_accepting("b", &b, 9);
    assert!(shake_hands(&node_b, &node_c));
    let sent = node_b.remembered("c");
    let lines = Arc::new(AtomicU64::new(0));
    let written = Arc::clone(&lines);
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(move || {
            written.fetch_add(1, Ordering::Relaxed);
            std::io::sink()
        })
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        for _ in 0..2 {
            let hello = start("c", &copy, 3).hello_to(&node_b);
            let record = || b.record(&node_b.membership, "c", &hello, sent);
            let before = lines.load(Ordering::Relaxed);
            record();
            let told = lines.load(Ordering::Relaxed);
            assert!(told > before);
            for _ in 0..10 {
                record();
            }
            assert_eq!(lines.load(Ordering::Relaxed), told);
        }
    });
}
