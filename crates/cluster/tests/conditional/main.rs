//! Conditional writes beside plain writes and reads, in random schedules.
//!
//! The replicas keep promises as the engine does, and wait with what a promise holds back. Messages
//! arrive in any order or are lost, coordinators crash at any step, stores are lost and rebuilt.
//! Each rule of the protocol has a planted bug that breaks it, and the schedules find it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod history;
mod replica;
mod schedule;
mod steps;
mod world;

use replica::Bug;
use schedule::{Mode, run, trace};

const MODES: [Mode; 3] = [Mode::Conditional, Mode::Mixed, Mode::Faults];

/// How many schedules of each mode run.
fn runs() -> u64 {
    let asked = std::env::var("CONDITIONAL_RUNS").ok();
    asked.map_or(4_000, |runs| runs.parse().unwrap())
}

#[test]
fn schedules_keep_what_is_promised() {
    let mut applied = 0;
    let mut refused = 0;
    let mut settled = 0;
    for mode in MODES {
        for seed in 0..runs() {
            let world = run(seed, mode, None);
            if let Some(violation) = world.history.violation(mode.is_linearizable()) {
                let trace = trace(seed, mode);
                panic!(
                    "{mode:?}, seed {seed}: {violation}\n{}\n{trace}",
                    world.history
                );
            }
            applied += world.history.conditional_writes();
            refused += world.refused;
            settled += world.settled;
        }
    }
    // The schedules reach what they are to test.
    let runs = runs() as usize;
    assert!(
        applied > runs,
        "{applied} conditional writes in {runs} runs"
    );
    assert!(refused > runs, "{refused} refusals in {runs} runs");
    assert!(
        settled > runs / 20,
        "{settled} versions written anew in {runs} runs"
    );
}

#[test]
fn planted_bugs_are_found() {
    let planted = [
        (Bug::StoresBelowPromise, Mode::Mixed, 1_000),
        (Bug::HeldIsNewer, Mode::Mixed, 2_000),
        (Bug::OvertakenIsNewer, Mode::Mixed, 2_000),
        (Bug::AcceptsWithoutPromise, Mode::Faults, 40_000),
        (Bug::PromisesWhatDiffers, Mode::Mixed, 1_000),
        (Bug::ReleasesWithout, Mode::Mixed, 20_000),
        (Bug::LearnersCount, Mode::Faults, 40_000),
        (Bug::RestartForgets, Mode::Mixed, 20_000),
        (Bug::ForgetsBallots, Mode::Mixed, 40_000),
        (Bug::MinorityIsEnough, Mode::Mixed, 1_000),
        (Bug::DeletesAreEqual, Mode::Mixed, 40_000),
        (Bug::SettlesHastily, Mode::Mixed, 40_000),
        (Bug::NothingAnew, Mode::Faults, 40_000),
    ];
    for (bug, mode, seeds) in planted {
        let found = (0..seeds).find(|seed| {
            let world = run(*seed, mode, Some(bug));
            world.history.violation(mode.is_linearizable()).is_some()
        });
        assert!(found.is_some(), "{bug:?} is not found in {seeds} runs");
    }
}
