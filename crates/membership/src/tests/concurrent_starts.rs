//! Two starts of one store at the same time: restarts, and copies of a folder.

use super::*;

#[test]
fn only_one_of_a_store_and_its_running_copy_counts() {
    let [a, b, c] = voters();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &c, 3));
    let original = start("a", &a, 1);
    assert!(shake_hands(&original, &node_b) && shake_hands(&original, &node_c));
    assert!(original.membership.is_voter());
    let watches = [&node_b, &node_c].map(|peer| peer.connect(&original));
    let links = watches.each_ref().map(StartWatch::mark_live);

    // A copy of a running node's folder looks like the store's next start. So peers
    // refuse it until the previous start ends, and it counts nowhere.
    let folder = a.copy();
    let clone = start("a", &folder, 1);
    for peer in [&node_b, &node_c] {
        assert!(!shake_hands(&clone, peer));
        assert!(shake_hands(&original, peer));
    }
    assert!(watches.iter().all(|watch| !watch.is_superseded()));
    assert_eq!(clone.word(), "starting");
    assert_eq!(original.word(), "voter");

    // An operator cannot accept it while the original is running.
    let accepted = start_accepting("a", &folder, 1);
    assert!(!shake_hands(&accepted, &node_b));
    assert_eq!(original.word(), "voter");

    // Once the original is gone, the first copy that connects takes its place.
    drop(links);
    let folder = a.copy();
    let first = start("a", &folder, 1);
    assert!(shake_hands(&first, &node_b) && shake_hands(&first, &node_c));
    assert_eq!(first.word(), "voter");
    assert!(watches.iter().all(StartWatch::is_superseded));
    for late in [&original, &clone] {
        assert!(shake_hands(late, &node_c), "it keeps what it is sent");
        assert_eq!(late.word(), "learner");
    }
}

#[test]
fn a_restart_waits_only_for_live_links_of_the_previous_start() {
    let [a, b, _c] = voters();
    let node_b = start("b", &b, 2);
    let before = start("a", &a, 1);
    assert!(shake_hands(&before, &node_b));
    let watch = node_b.connect(&before);
    let several = [watch.mark_live(), watch.mark_live()];
    let after = start("a", &a, 1);
    assert!(!shake_hands(&after, &node_b));
    let [one, other] = several;
    drop(one);
    assert!(
        !shake_hands(&after, &node_b),
        "another runtime still has a live link"
    );
    drop(other);
    assert!(shake_hands(&after, &node_b));
    // A link to another store does not keep the remembered start alive.
    let lost = Folder::new();
    let watch = node_b.connect(&start("a", &lost, 9));
    let _live = watch.mark_live();
    assert!(shake_hands(&start("a", &a, 1), &node_b));
    assert!(watch.is_superseded());
}

#[test]
fn a_connection_is_not_used_if_a_hello_of_its_handshake_is_out_of_date() {
    let [a, b, _c] = voters();
    let node_b = start("b", &b, 2);
    let original = start("a", &a, 1);
    // `b` has told the original that it remembers an earlier start …
    let hello = original.hello_to(&node_b);
    let sent = node_b.remembered("a");
    let folder = a.copy();
    // … and meets a copy before the handshake with the original ends.
    assert!(shake_hands(&start("a", &folder, 1), &node_b));
    let is_used = b.record(&node_b.membership, "a", &hello, sent);
    assert_eq!(is_used, Some(false));
    assert!(
        shake_hands(&original, &node_b),
        "with a hello that is up to date"
    );
    assert_eq!(original.word(), "learner");
}
