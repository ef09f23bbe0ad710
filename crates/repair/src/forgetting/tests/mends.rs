//! Which mends a store takes, and what is noted of them.

use super::*;
use replica::Taken;

#[test]
fn that_an_old_version_came_in_behind_a_scan_is_known_after_a_restart() {
    let node = TestNode::new();
    let opened = node.open();
    let (fence, later) = (at(GRACE_MS + 5), at(GRACE_MS));
    let is_noted = |opened: &Opened| {
        let rules = opened.forgetting.mend_rules(PASS, ReplicaState::Voter);
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
        let rules = opened.forgetting.mend_rules(PASS, ReplicaState::Voter);
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
    let admit = |replica_state, is_damaged| {
        let rules = forgetting.mend_rules(PASS, replica_state);
        rules.admit(&old, is_damaged).is_ok()
    };
    assert!(!admit(ReplicaState::Voter, false));
    forgetting.set_passes([(PASS, PassKind::Full)].into_iter());
    assert!(admit(ReplicaState::Voter, false));
    // Below F all replicas are equal, so only a store that lacks something takes it, from when
    // the node hears of F: the store has it a moment later.
    opened.hear(at(GRACE_MS), ReplicaState::Voter);
    assert!(!admit(ReplicaState::Voter, false));
    assert!(admit(ReplicaState::Voter, true));
    (opened.run_jobs)();
    assert!(!admit(ReplicaState::Voter, false));
    assert!(admit(ReplicaState::Voter, true));
    assert!(admit(ReplicaState::Learner, false));
    // The store takes it only while F stays where it is.
    let rules = forgetting.mend_rules(PASS, ReplicaState::Learner);
    let mend = Admission::Late {
        gc_threshold: at(GRACE_MS),
        barrier: lsm::Barrier::first(lsm::LateSource::Comparison),
    };
    assert_eq!(rules.admit(&old, false), Ok(Taken::AtOnce(mend)));
    let dead = Entry::tombstone(b"key", at(GRACE_MS + 1), 3);
    let rules = forgetting.mend_rules(PASS, ReplicaState::Learner);
    assert!(rules.admit(&dead, false).is_err());
    forgetting.set_passes(std::iter::empty());
    assert!(!admit(ReplicaState::Learner, false));
}

/// What hides such a version may be from above F.
#[test]
fn what_a_store_takes_below_the_bound_counts_as_old_and_waits_once_it_is_sealed() {
    const LATER: PassId = PassId(9);
    let opened = TestNode::new().open();
    let forgetting = &opened.forgetting;
    let (bound, fence) = (at(GRACE_MS + 5), at(GRACE_MS + 2));
    opened.raise(bound);
    opened.hear(bound, ReplicaState::Voter);
    (opened.run_jobs)();
    opened.raise(fence);
    let old = value(at(GRACE_MS + 6));
    let lacking = [
        (ReplicaState::Learner, false, true),
        (ReplicaState::ForcedVoter, false, true),
        (ReplicaState::Voter, true, true),
        (ReplicaState::Voter, false, false),
    ];
    for pass in [PASS, LATER] {
        forgetting.set_passes([(pass, PassKind::Recent)].into_iter());
        for (replica_state, is_damaged, is_taken) in lacking {
            let rules = forgetting.mend_rules(pass, replica_state);
            let taken = rules.admit(&old, is_damaged);
            assert_eq!(
                rules.is_old(&old, is_damaged),
                is_taken,
                "{replica_state:?}"
            );
            assert_eq!(taken.is_ok(), is_taken, "{replica_state:?}");
            assert!(!matches!(taken, Ok(Taken::OnceCompared { .. })));
        }
        let _sealed = forgetting.seal(fence);
        (opened.run_jobs)();
        for (replica_state, is_damaged, _) in lacking.into_iter().filter(|(_, _, it)| *it) {
            let taken = forgetting
                .mend_rules(pass, replica_state)
                .admit(&old, is_damaged);
            assert!(
                matches!(taken, Ok(Taken::OnceCompared { .. })),
                "{replica_state:?}"
            );
        }
    }
    forgetting.set_passes([(PassId(10), PassKind::Recent)].into_iter());
    let taken = forgetting
        .mend_rules(PassId(10), ReplicaState::Learner)
        .admit(&old, false);
    assert!(matches!(taken, Ok(Taken::AtOnce(_))));
}

#[test]
fn a_sealed_store_compares_what_is_from_before_its_fence_before_it_takes_it() {
    let node = TestNode::new();
    let opened = node.open();
    let (fence, later) = (at(GRACE_MS + 5), at(GRACE_MS));
    let (old, new) = (at(GRACE_MS + 6), at(GRACE_MS + 4));
    let taken_by = |opened: &Opened, replica_state, timestamp, is_damaged| {
        let passes = [(PASS, PassKind::Full)];
        opened.forgetting.set_passes(passes.into_iter());
        let rules = opened.forgetting.mend_rules(PASS, replica_state);
        rules.admit(&value(timestamp), is_damaged)
    };
    let taken =
        |opened: &Opened, timestamp| taken_by(opened, ReplicaState::Voter, timestamp, false);
    let admission = Admission::Late {
        gc_threshold: Timestamp::ZERO,
        barrier: lsm::Barrier::first(lsm::LateSource::Comparison),
    };
    let (at_once, once_compared) = (
        Ok(Taken::AtOnce(admission)),
        Ok(Taken::OnceCompared {
            admission,
            greatest: Timestamp::ZERO,
        }),
    );
    opened.raise(fence);
    assert_eq!(taken(&opened, old), at_once);
    let mut sealed = opened.forgetting.seal(fence);
    assert!(sealed.try_recv().is_err());
    (opened.run_jobs)();
    sealed.try_recv().unwrap();
    assert_eq!(taken(&opened, old), once_compared);
    assert_eq!(taken(&opened, new), at_once);
    // What is behind that fence is the business of later passes.
    opened.raise(later);
    assert_eq!(taken(&opened, old), once_compared);
    assert_eq!(taken(&opened, new), at_once);
    // However long it takes until it hears of the bound.
    (opened.run_for)(Duration::from_secs(3600));
    opened.forgetting.close();
    opened.engine.close().unwrap();
    drop(opened);
    let opened = node.open();
    assert_eq!(taken(&opened, old), once_compared);
    // These reads do not count yet, and an operator's word is no comparison.
    assert_eq!(
        taken_by(&opened, ReplicaState::Learner, old, false),
        at_once
    );
    assert_eq!(taken_by(&opened, ReplicaState::Voter, old, true), at_once);
    assert_eq!(
        taken_by(&opened, ReplicaState::ForcedVoter, old, false),
        once_compared
    );
    opened.hear(fence, ReplicaState::Voter);
    assert!(taken(&opened, old).is_err());
    assert_eq!(taken(&opened, new), at_once);
    // An answer that cannot be kept must not be given.
    opened.forgetting.close();
    let mut sealed = opened.forgetting.seal(later);
    (opened.run_jobs)();
    assert!(sealed.try_recv().is_err());
}

#[test]
fn a_store_compares_what_a_pass_that_has_gone_back_brings_from_before_its_fence() {
    let opened = TestNode::new().open();
    let (old, new) = (at(GRACE_MS + 6), at(GRACE_MS + 4));
    opened.raise(at(GRACE_MS + 5));
    let forgetting = &opened.forgetting;
    let is_compared = |pass, timestamp| {
        let rules = forgetting.mend_rules(pass, ReplicaState::Voter);
        let taken = |rules: MendRules| rules.admit(&value(timestamp), false).unwrap();
        // What the store has asked for itself is of the pass since it has gone back.
        assert!(matches!(taken(rules.for_answers()), Taken::AtOnce(_)));
        matches!(taken(rules), Taken::OnceCompared { .. })
    };
    let other = PassId(8);
    let passes = [(PASS, PassKind::Full), (other, PassKind::Recent)];
    forgetting.set_passes(passes.into_iter());
    assert!(!is_compared(PASS, old));
    forgetting.set_passes_gone_back([PASS].into_iter());
    assert!(is_compared(PASS, old));
    assert!(!is_compared(PASS, new) && !is_compared(other, old));
    forgetting.set_passes_gone_back(std::iter::empty());
    assert!(!is_compared(PASS, old));
}
