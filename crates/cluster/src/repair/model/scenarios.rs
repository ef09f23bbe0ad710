//! The scenarios that are explored, and the broken rules that must be found in them.

use super::rules::Bug;
use super::scenario::{NOTHING_LEFT, PLAIN, Scenario};
use super::state::{AGAIN, BETWEEN, CLOSED, FUTURE, LATER, Left, TOMBSTONE};

/// A search goes on until it has seen all states.
pub(super) const SCENARIOS: [Scenario; 27] = [
    Scenario {
        name: "late writes and read repairs",
        left: Left {
            read_repairs: 1,
            ..NOTHING_LEFT
        },
        ..PLAIN
    },
    Scenario {
        name: "a later value",
        writes: &[TOMBSTONE, LATER],
        has_late_value: false,
        ..PLAIN
    },
    Scenario {
        name: "a power cut before repair writes are synced",
        left: Left {
            crashes: 1,
            ..NOTHING_LEFT
        },
        ..PLAIN
    },
    Scenario {
        name: "a power cut before anything is synced",
        left: Left {
            crashes: 1,
            ..NOTHING_LEFT
        },
        has_synced_writes: false,
        has_late_value: false,
        ..PLAIN
    },
    Scenario {
        name: "power cuts after the threshold has risen",
        has_synced_writes: false,
        sessions: &[CLOSED, 0],
        left: Left {
            crashes: 2,
            ..NOTHING_LEFT
        },
        has_late_value: false,
        is_sequential: true,
        is_asked_at_once: true,
        is_large: true,
        ..PLAIN
    },
    Scenario {
        name: "a lost folder",
        left: Left {
            losses: 1,
            read_repairs: 1,
            ..NOTHING_LEFT
        },
        has_late_value: false,
        ..PLAIN
    },
    Scenario {
        name: "a lost folder and a slow clock",
        sessions: &[],
        left: Left {
            losses: 1,
            ..NOTHING_LEFT
        },
        writes: &[TOMBSTONE, LATER],
        ..PLAIN
    },
    Scenario {
        name: "a lost folder and a late write",
        left: Left {
            losses: 1,
            ..NOTHING_LEFT
        },
        ..PLAIN
    },
    Scenario {
        name: "a lost folder, and a session that closes nothing",
        sessions: &[0],
        left: Left {
            losses: 1,
            ..NOTHING_LEFT
        },
        has_late_value: false,
        ..PLAIN
    },
    Scenario {
        name: "restored folders",
        sessions: &[CLOSED, 0],
        left: Left {
            rollbacks: 2,
            ..NOTHING_LEFT
        },
        has_late_value: false,
        is_sequential: true,
        is_asked_at_once: true,
        is_large: true,
        ..PLAIN
    },
    Scenario {
        name: "a folder that was restored from before the threshold",
        sessions: &[0],
        writes: &[],
        has_late_value: false,
        has_one_behind: true,
        ..PLAIN
    },
    Scenario {
        name: "a folder restored from a copy that was taken in a session",
        left: Left {
            copies: 1,
            rollbacks: 1,
            resumes: 1,
            ..NOTHING_LEFT
        },
        has_late_value: false,
        is_sequential: true,
        is_asked_at_once: true,
        is_large: true,
        ..PLAIN
    },
    Scenario {
        name: "a damaged block",
        sessions: &[CLOSED, 0],
        left: Left {
            damages: 1,
            ..NOTHING_LEFT
        },
        has_late_value: false,
        is_sequential: true,
        is_asked_at_once: true,
        ..PLAIN
    },
    Scenario {
        name: "a clock that jumps years",
        has_jumped_clock: true,
        sessions: &[FUTURE],
        writes: &[TOMBSTONE, LATER],
        has_late_value: false,
        ..PLAIN
    },
    Scenario {
        name: "two sessions",
        sessions: &[CLOSED, AGAIN],
        has_late_value: false,
        is_large: true,
        ..PLAIN
    },
    Scenario {
        name: "a power cut after a checkpoint",
        left: Left {
            crashes: 1,
            resumes: 1,
            ..NOTHING_LEFT
        },
        has_late_value: false,
        is_sequential: true,
        is_asked_at_once: true,
        is_large: true,
        ..PLAIN
    },
    Scenario {
        name: "a copy beyond the replicas of a value, and a lost folder",
        value_copies: 2,
        writes: &[],
        left: Left {
            losses: 1,
            read_repairs: 1,
            ..NOTHING_LEFT
        },
        ..PLAIN
    },
    Scenario {
        name: "a copy beyond the replicas of a value that is deleted",
        value_copies: 2,
        left: Left {
            read_repairs: 1,
            ..NOTHING_LEFT
        },
        ..PLAIN
    },
    Scenario {
        name: "another list of nodes",
        value_copies: 1,
        writes: &[],
        has_late_value: false,
        left: Left {
            read_repairs: 1,
            relists: 1,
            resumes: 1,
            ..NOTHING_LEFT
        },
        ..PLAIN
    },
    Scenario {
        name: "a late read repair from below the threshold while it rises once more",
        sessions: &[BETWEEN, CLOSED],
        has_bystander: true,
        has_late_value: false,
        left: Left {
            read_repairs: 1,
            ..NOTHING_LEFT
        },
        is_sequential: true,
        is_asked_at_once: true,
        ..PLAIN
    },
    Scenario {
        name: "a tombstone of fewer copies",
        left: Left {
            crashes: 1,
            ..NOTHING_LEFT
        },
        has_late_value: true,
        ..SHORT
    },
    Scenario {
        name: "a late read repair and a tombstone of fewer copies",
        left: Left {
            read_repairs: 1,
            misses: 1,
            crashes: 1,
            resumes: 1,
            ..NOTHING_LEFT
        },
        is_large: true,
        ..SHORT
    },
    Scenario {
        name: "a stray repair write and a tombstone of fewer copies",
        left: Left {
            strays: 1,
            resumes: 1,
            ..NOTHING_LEFT
        },
        ..SHORT
    },
    Scenario {
        name: "a stray repair write, two sessions and a tombstone of fewer copies",
        sessions: &[CLOSED, AGAIN],
        left: Left {
            strays: 1,
            ..NOTHING_LEFT
        },
        is_large: true,
        ..SHORT
    },
    Scenario {
        name: "a late read repair and a session that goes on after another one",
        sessions: &[CLOSED, AGAIN],
        left: Left {
            crashes: 1,
            resumes: 1,
            ..NOTHING_LEFT
        },
        is_asked_at_once: true,
        has_compared: true,
        is_large: true,
        ..SHORT
    },
    Scenario {
        name: "a late read repair, a late request and two sessions",
        sessions: &[CLOSED, AGAIN],
        left: Left {
            misses: 1,
            late_requests: 1,
            ..NOTHING_LEFT
        },
        has_compared: true,
        is_large: true,
        ..SHORT
    },
    Scenario {
        name: "a lost folder, a tombstone of fewer copies, and a session that closes nothing",
        sessions: &[0],
        left: Left {
            losses: 1,
            ..NOTHING_LEFT
        },
        ..SHORT
    },
];

/// One store has a tombstone that is for two stores, another one the value, and the third nothing.
const SHORT: Scenario = Scenario {
    has_short_tombstone: true,
    has_late_value: false,
    writes: &[],
    ..PLAIN
};

const LATE: usize = 0;
const UNSYNCED: usize = 2;
const LOST: usize = 5;
const SLOW: usize = 6;
const LOST_OPEN: usize = 8;
const RESTORED: usize = 9;
const BEHIND: usize = 10;
const COPIED: usize = 11;
const DAMAGED: usize = 12;
const CLOCK: usize = 13;
const CHECKPOINT: usize = 15;
const NON_OWNED: usize = 16;
const LISTS: usize = 18;
const TWO_RISES: usize = 19;
const FEWER: usize = 20;
const LATE_REPAIR: usize = 21;
const STRAY: usize = 22;
const STRAY_OF_ANOTHER: usize = 23;
const AFTER_ANOTHER: usize = 24;
const LATE_REQUEST: usize = 25;
const LOST_FEWER: usize = 26;

/// Each rule once broken, and the scenario in which that must be found.
pub(super) const BUGS: [(Bug, usize); 36] = [
    (Bug::TombstonesDroppedByAge, LATE),
    (Bug::HintsPass, LATE),
    (Bug::WritesPass, LATE),
    (Bug::RaisedWithoutAStore, LATE_REPAIR),
    (Bug::RaisedWithoutAPair, STRAY),
    (Bug::ClosedWhileScanning, LATE),
    (Bug::FinishedBeforeSync, UNSYNCED),
    (Bug::ClocksTrusted, CLOCK),
    (Bug::LearnerCounts, SLOW),
    (Bug::RaisedThresholdIgnoredByReadRepairs, LATE),
    (Bug::ReadRepairNamesAnyThreshold, LATE),
    (Bug::NoReadRepairBelowClosed, LATE),
    (Bug::DeadNotIgnored, LATE),
    (Bug::ThresholdBelievedByAStoreThatIsBehind, RESTORED),
    (Bug::LostStoreGoesOn, COPIED),
    (Bug::AcksOutliveTheirStore, LOST_OPEN),
    (Bug::MovedIsNotComparedAgain, FEWER),
    (Bug::MovedIsNotComparedAgain, LOST_FEWER),
    (Bug::NonOwnedDroppedAboveThreshold, NON_OWNED),
    (Bug::NonOwnedBoundOfAnotherListBelieved, LISTS),
    (Bug::NonOwnedShownBySessionOfAnotherList, LISTS),
    (Bug::TicketOfEarlierAttemptTaken, STRAY),
    (Bug::TicketOfEarlierSessionTaken, STRAY_OF_ANOTHER),
    (Bug::DeadReadRepairVoidsNothing, LOST),
    (Bug::ReadRepairBehindScanVoidsNothing, LATE_REPAIR),
    (Bug::ReadRepairBehindScanVoidsNothing, TWO_RISES),
    (Bug::VoidedStoreAnswers, LATE_REPAIR),
    (Bug::ReadRepairTakenWhileUndecided, LATE_REPAIR),
    (Bug::AnswerNotDurable, LATE_REPAIR),
    (Bug::UndecidedForgottenBySomeMembers, LATE_REQUEST),
    (Bug::OutcomeOfEarlierSessionTaken, LATE_REQUEST),
    (Bug::SetAsideIsKept, BEHIND),
    (Bug::SetAsideReturns, BEHIND),
    (Bug::DamageNotSetAside, DAMAGED),
    (Bug::DamageSetAsideBelowThresholdOnly, DAMAGED),
    (Bug::CheckpointBeforeSync, CHECKPOINT),
];

/// Those that take more than a second to be found.
pub(super) const SLOW_BUGS: [(Bug, usize); 6] = [
    (Bug::SessionsMixed, AFTER_ANOTHER),
    (Bug::SessionNotForgottenDurably, AFTER_ANOTHER),
    (Bug::ResumedAfterAnotherSession, AFTER_ANOTHER),
    (Bug::VoidNotDurable, LATE_REPAIR),
    (Bug::ResumedAfterVoid, LATE_REPAIR),
    (Bug::QuestionOfEarlierAttemptForgotten, LATE_REPAIR),
];
