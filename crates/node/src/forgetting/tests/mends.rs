//! Which mends a store takes, and what is noted of them.

use super::*;

#[test]
fn that_an_old_version_came_in_behind_a_scan_is_known_after_a_restart() {
    let node = TestNode::new();
    let opened = node.open();
    let (fence, later) = (at(GRACE_MS + 5), at(GRACE_MS));
    let is_noted = |opened: &Opened| {
        let rules = opened.forgetting.mend_rules(PASS, Standing::Witness);
        rules.is_noted_as_disturbed()
    };
    opened.raise(fence);
    let mut noted = opened.forgetting.disturb();
    assert!(!is_noted(&opened) && noted.try_recv().is_err());
    (opened.run_jobs)();
    noted.try_recv().unwrap();
    assert!(is_noted(&opened));
    opened.forgetting.close();
    opened.engine.close().unwrap();
    drop(opened);
    let opened = node.open();
    assert_eq!(opened.forgetting.disturbed(), fence);
    // The next fence stands for passes that begin behind it.
    opened.raise(later);
    assert!(!is_noted(&opened));
    assert_eq!(opened.forgetting.disturbed(), fence);
    // Without the note the version must not come.
    opened.forgetting.close();
    let mut noted = opened.forgetting.disturb();
    (opened.run_jobs)();
    assert!(noted.try_recv().is_err());
}

#[test]
fn another_full_pass_does_not_expect_what_a_pass_brings() {
    const FULL: PassKind = PassKind::Full;
    let opened = TestNode::new().open();
    let other = PassId(8);
    let is_only = |passes: &[(PassId, PassKind)]| {
        opened.forgetting.set_passes(passes.iter().copied());
        let rules = opened.forgetting.mend_rules(PASS, Standing::Witness);
        rules.is_only_full_pass()
    };
    assert!(is_only(&[(PASS, FULL)]));
    assert!(is_only(&[(PASS, FULL), (other, PassKind::Recent)]));
    assert!(!is_only(&[(PASS, FULL), (other, FULL)]));
    assert!(!is_only(&[(other, FULL)]));
    assert!(!is_only(&[]));
}

#[test]
fn only_mends_of_a_present_pass_come_in_below_the_fence() {
    let node = TestNode::new();
    let opened = node.open();
    let forgetting = &opened.forgetting;
    opened.raise(at(GRACE_MS));
    let old = value(at(GRACE_MS + 1));
    let admit = |standing, is_damaged| {
        let rules = forgetting.mend_rules(PASS, standing);
        rules.admit(&old, is_damaged).is_ok()
    };
    assert!(!admit(Standing::Witness, false));
    forgetting.set_passes([(PASS, PassKind::Full)].into_iter());
    assert!(admit(Standing::Witness, false));
    // Below F all replicas are equal, so only a store that lacks something takes it.
    opened.hear(at(GRACE_MS), Standing::Witness);
    (opened.run_jobs)();
    assert!(!admit(Standing::Witness, false));
    assert!(admit(Standing::Witness, true));
    assert!(admit(Standing::Unfilled, false));
    // The store takes it only while F stays where it is.
    let rules = forgetting.mend_rules(PASS, Standing::Unfilled);
    let mend = Admission::Mend {
        drop_bound: at(GRACE_MS),
    };
    assert_eq!(rules.admit(&old, false), Ok(mend));
    let dead = Entry::tombstone(b"key", at(GRACE_MS + 1), 3);
    let rules = forgetting.mend_rules(PASS, Standing::Unfilled);
    assert!(rules.admit(&dead, false).is_err());
    forgetting.set_passes(std::iter::empty());
    assert!(!admit(Standing::Unfilled, false));
}

#[test]
fn a_sealed_store_takes_nothing_from_before_its_fence_until_it_hears_of_the_bound() {
    let opened = TestNode::new().open();
    let forgetting = &opened.forgetting;
    let (fence, later) = (at(GRACE_MS + 5), at(GRACE_MS));
    opened.raise(fence);
    forgetting.set_passes([(PASS, PassKind::Full)].into_iter());
    let takes = |timestamp| {
        let rules = forgetting.mend_rules(PASS, Standing::Witness);
        rules.admit(&value(timestamp), false).is_ok()
    };
    let (old, new) = (at(GRACE_MS + 6), at(GRACE_MS + 4));
    assert!(takes(old));
    forgetting.seal(fence);
    assert!(!takes(old) && takes(new));
    // What is behind that fence is the business of later passes.
    opened.raise(later);
    assert!(!takes(old) && takes(new));
    forgetting.unseal();
    assert!(takes(old));
    forgetting.seal(fence);
    (opened.run_for)(Duration::from_secs(9));
    forgetting.seal(fence);
    (opened.run_for)(Duration::from_secs(9));
    assert!(!takes(old));
    (opened.run_for)(Duration::from_secs(1));
    assert!(takes(old));
    forgetting.seal(fence);
    opened.hear(fence, Standing::Witness);
    (opened.run_jobs)();
    assert!(!takes(old) && takes(new));
}
