//! Runs that ended without being stopped, on a machine that was started since, or not.

use super::*;

/// How the store of `a` stands after a run with `syncs_commits`, which was closed or not,
/// and a start under this boot.
fn after_run(syncs_commits: bool, is_closed: bool, boot_id: Option<BootId>) -> &'static str {
    let [a, b, c] = voters();
    a.syncs_commits.set(syncs_commits);
    let node_a = start("a", &a, 1);
    assert!(shake_hands(&node_a, &start("b", &b, 2)) && shake_hands(&node_a, &start("c", &c, 3)));
    assert_eq!(node_a.word(), "voter");
    if is_closed {
        assert!(node_a.membership.close());
        node_a.membership.mark_closed().unwrap();
    }
    let a = a.after_crash();
    a.boot_id.set(boot_id);
    // What counts is how the last run acknowledged.
    a.syncs_commits.set(!syncs_commits);
    start("a", &a, 1).word()
}

#[test]
fn a_power_cut_unfills_a_store_whose_commits_are_not_synced() {
    let (same, another) = (Some(BootId(1)), Some(BootId(2)));
    let cases = [
        // `os` or `interval`: the process was killed, the power failed, nobody knows.
        (false, false, same, "starting"),
        (false, false, another, "learner"),
        (false, false, None, "learner"),
        // The node was stopped before.
        (false, true, same, "starting"),
        (false, true, another, "starting"),
        (false, true, None, "starting"),
        // `sync`.
        (true, false, same, "starting"),
        (true, false, another, "starting"),
        (true, false, None, "starting"),
        (true, true, another, "starting"),
    ];
    for (syncs_commits, is_closed, boot_id, word) in cases {
        assert_eq!(
            after_run(syncs_commits, is_closed, boot_id),
            word,
            "syncs {syncs_commits}, closed {is_closed}, {boot_id:?}"
        );
    }
}

#[test]
fn the_mark_of_a_store_that_is_closed_is_gone_before_it_takes_a_write() {
    let [a, _b, _c] = voters();
    a.syncs_commits.set(false);
    let node = a.open(1);
    assert!(node.close());
    node.mark_closed().unwrap();
    // Started once more, and the power fails at once.
    let a = a.after_crash();
    drop(a.open(1));
    let a = a.after_crash();
    a.boot_id.set(Some(BootId(2)));
    assert_eq!(a.open(1).replica_state().word(), "learner");
    // The store is still a learner after it was stopped in good order.
    let node = a.open(1);
    assert!(node.close());
    node.mark_closed().unwrap();
    let a = a.after_crash();
    assert_eq!(a.open(1).replica_state().word(), "learner");
}

#[test]
fn a_store_that_lost_the_power_may_timestamp_because_its_bound_is_durable() {
    let [a, _b, _c] = voters();
    a.syncs_commits.set(false);
    drop(a.open(1));
    let a = a.after_crash();
    a.boot_id.set(Some(BootId(2)));
    let node = a.open(1);
    assert_eq!(node.replica_state().word(), "learner");
    assert!(!node.is_outdated());
}

#[test]
fn a_power_cut_does_not_unfill_a_node_alone_or_a_store_that_never_counted() {
    let alone =
        || Members::single_node(Member::named("a", "http://[::1]:1".parse().unwrap()).unwrap());
    let folder = Folder::new();
    folder.syncs_commits.set(false);
    drop(folder.open_as(alone(), 1, false).unwrap());
    folder.boot_id.set(Some(BootId(2)));
    assert!(folder.open_as(alone(), 1, false).unwrap().is_voter());
    let folder = Folder::new();
    folder.syncs_commits.set(false);
    drop(folder.open(1));
    folder.boot_id.set(Some(BootId(2)));
    assert_eq!(folder.open(1).replica_state().word(), "starting");
}

#[test]
fn each_loss_makes_another_incarnation() {
    let [a, b, _c] = voters();
    a.syncs_commits.set(false);
    let before = a.open(1).incarnation();
    assert_eq!((before.store_id, before.last_loss), (1, 0));
    a.boot_id.set(Some(BootId(2)));
    let after = a.open(1).incarnation();
    assert_ne!(after, before);
    assert_eq!(a.open(1).incarnation(), after, "it is the same loss");
    let a = a.after_crash();
    assert_eq!(a.open(1).incarnation(), after, "it is durable");
    // What a peer says is a loss, too.
    let lost = Folder::new();
    let node = start("a", &lost, 9);
    assert_eq!(node.membership.incarnation().last_loss, 0);
    assert!(shake_hands(&node, &start("b", &b, 2)));
    assert_ne!(node.membership.incarnation().last_loss, 0);
}

#[test]
fn stores_that_are_restored_twice_from_one_copy_are_two_incarnations() {
    let [a, b, _c] = voters();
    let copy = a.copy();
    let b = start("b", &b, 2);
    assert!(shake_hands(&start("a", &a, 1), &b));
    let restored = || {
        let folder = copy.copy();
        let node = start("a", &folder, 1);
        assert!(shake_hands(&node, &b));
        assert_eq!(node.word(), "learner");
        node.membership.incarnation()
    };
    assert_ne!(restored(), restored());
    // So are two that each lose the power.
    let without_power = || {
        let folder = copy.copy();
        folder.syncs_commits.set(false);
        drop(folder.open(1));
        folder.boot_id.set(Some(BootId(2)));
        folder.open(1).incarnation()
    };
    assert_ne!(without_power(), without_power());
}
