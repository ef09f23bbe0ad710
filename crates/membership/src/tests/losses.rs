//! What may be lost, as the nodes tell it that are left.

use super::*;
use cluster::PossibleLoss;

/// What a node says may be lost: the nodes, how many writes at most, whether there is an
/// unknown part, and whether it is over.
fn told(node: &Started<'_>) -> Option<(Vec<String>, u64, bool, bool)> {
    let report = node.membership.loss_report()?;
    let loss = report.loss;
    Some((
        report.nodes,
        loss.writes_max(),
        loss.has_unknown,
        report.is_over,
    ))
}

fn some(
    names: &[&str],
    writes_max: u64,
    is_unknown: bool,
    is_over: bool,
) -> Option<(Vec<String>, u64, bool, bool)> {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Some((names, writes_max, is_unknown, is_over))
}

/// `c` hears what another node has acknowledged.
fn hear(node_c: &Started<'_>, other: &Started<'_>, writes: u64) {
    other.folder.acknowledge(writes);
    node_c.hear(other, &node_c.connect(other));
}

#[test]
fn of_several_lost_stores_the_writes_since_the_last_full_session_may_be_lost() {
    let [a, b, c] = voters();
    {
        let (node_a, node_b, node_c) = (start("a", &a, 1), start("b", &b, 2), start("c", &c, 3));
        for other in [&node_a, &node_b] {
            assert!(shake_hands(other, &node_c));
            hear(&node_c, other, 100);
        }
        // What is acknowledged while the session runs may have missed it.
        node_c.membership.session_began(token(1, 0));
        hear(&node_c, &node_a, 3);
        let all = [id_of("a"), id_of("b")];
        node_c
            .membership
            .session_ended(token(1, 0), &all, &[2, 3, 0]);
        hear(&node_c, &node_a, 4);
        hear(&node_c, &node_b, 5);
        c.executor.run_until_idle();
    }
    let c = c.after_crash();
    let node_c = start("c", &c, 3);
    assert_eq!(told(&node_c), None);
    let (a, b) = (Folder::new(), Folder::new());
    let (node_a, node_b) = (start("a", &a, 7), start("b", &b, 8));
    assert!(shake_hands(&node_a, &node_c));
    assert_eq!(
        told(&node_c),
        some(&["a"], 2, false, false),
        "its single copies"
    );
    assert!(shake_hands(&node_b, &node_c));
    assert_eq!(told(&node_c), some(&["a", "b"], 17, false, false));
    let text = node_c.membership.loss_report().unwrap().to_string();
    assert!(
        text.starts_with("up to 17 acknowledged writes may be lost: a, b "),
        "{text}"
    );
    // One is rebuilt, then the other.
    assert!(shake_hands(&node_a, &node_b));
    for node in [&node_a, &node_b] {
        let others: Vec<&str> = NODES
            .into_iter()
            .filter(|name| *name != node.name)
            .collect();
        node.full_session(2, &others);
        assert!(shake_hands(node, &node_c));
        let is_over = node.name == "b";
        assert_eq!(told(&node_c), some(&["a", "b"], 17, false, is_over));
        assert!(node_c.membership.is_voter());
        assert_eq!(c.are_all_whole.load(Ordering::SeqCst), is_over);
    }
}

/// A loss of some stores, of which two are known.
fn report(
    names: &[&str],
    single_copies: u64,
    since_full_session: u64,
    has_unknown: bool,
) -> String {
    let report = LossReport {
        nodes: names.iter().map(|name| (*name).to_owned()).collect(),
        loss: PossibleLoss {
            single_copies,
            since_full_session,
            has_unknown,
        },
        is_over: false,
    };
    report.to_string()
}

#[test]
fn a_report_claims_no_more_than_is_known() {
    let of_one = report(&["a"], 0, 0, false);
    let begin = "no write that a second store acknowledged is lost: a came back";
    assert!(of_one.starts_with(begin), "{of_one}");
    for text in [of_one, report(&["a"], 3, 0, false)] {
        assert!(
            text.ends_with("(from=1 or ack=1) are not counted"),
            "{text}"
        );
        assert!(!text.contains("acknowledged since"), "{text}");
    }
    let of_two = report(&["a", "b"], 0, 0, false);
    assert!(of_two.starts_with("no acknowledged write is lost: a, b "));
    assert!(report(&["a", "b"], 1, 0, true).contains("There may be more"));
    let unknown = report(&["a", "b"], 0, 0, true);
    assert!(unknown.starts_with("acknowledged writes may be lost"));
    assert!(!unknown.contains('0') && unknown.contains("How many is not known"));
}

#[test]
fn a_session_that_went_on_after_a_restart_leaves_the_earlier_count() {
    let [a, b, c] = voters();
    {
        let (node_a, node_b, node_c) = (start("a", &a, 1), start("b", &b, 2), start("c", &c, 3));
        for other in [&node_a, &node_b] {
            assert!(shake_hands(other, &node_c));
            hear(&node_c, other, 100);
        }
        let all = [id_of("a"), id_of("b")];
        for (session, single_copies) in [(token(1, 0), [9, 9, 0]), (token(2, 1), [2, 3, 0])] {
            node_c.membership.session_began(session);
            node_c
                .membership
                .session_ended(session, &all, &single_copies);
            hear(&node_c, &node_a, 4);
        }
        c.executor.run_until_idle();
    }
    let c = c.after_crash();
    let node_c = start("c", &c, 3);
    let (a, b) = (Folder::new(), Folder::new());
    let (node_a, node_b) = (start("a", &a, 7), start("b", &b, 8));
    assert!(shake_hands(&node_a, &node_c));
    assert!(shake_hands(&node_b, &node_c));
    assert_eq!(told(&node_c), some(&["a", "b"], 13, false, false));
}

#[test]
fn a_store_that_lost_the_power_does_not_say_how_much() {
    let [a, b, _c] = voters();
    a.syncs_commits.set(false);
    drop(a.open(1));
    a.boot_id.set(Some(BootId(2)));
    let (node_a, node_b) = (start("a", &a, 1), start("b", &b, 2));
    assert_eq!(told(&node_a), None, "the others know better");
    assert!(shake_hands(&node_a, &node_b));
    assert_eq!(told(&node_b), some(&["a"], 0, true, false));
}

#[test]
fn what_a_node_lacked_that_has_left_concerns_nobody() {
    let [a, _b, _c] = voters();
    let node_a = start("a", &a, 1);
    let lost = Folder::new();
    let node_c = start("c", &lost, 9);
    assert!(shake_hands(&node_c, &node_a));
    let is_over = || node_a.membership.loss_report().map(|report| report.is_over);
    assert_eq!(is_over(), Some(false));
    let left = Layout::founding(members("a", &["a", "b"]));
    node_a.membership.follow(&left);
    assert_eq!(is_over(), Some(true));
}
