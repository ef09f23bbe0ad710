//! What the answers of nodes mean to a full session.

use crate::session::coordinator::comparing::Lost;
use cluster::NodeId;
use cluster::repair::{SessionAnswer, SessionEvent};
use peer::RepairAnswer;

/// What the answers of nodes mean to a session.
pub(super) fn events_of(answers: Vec<Lost>) -> Vec<SessionEvent> {
    let answers = answers.into_iter();
    answers
        .map(|(node, answer)| event_of(node, answer.as_ref()))
        .collect()
}

fn event_of(node: NodeId, answer: Option<&RepairAnswer>) -> SessionEvent {
    let answer = match answer.cloned() {
        Some(RepairAnswer::Begun {
            gc_threshold,
            closed,
            latest,
            may_raise,
            ..
        }) => SessionAnswer::Begun {
            gc_threshold,
            closed,
            latest,
            may_raise,
        },
        Some(RepairAnswer::Closed(closed)) => SessionAnswer::Closed(closed),
        Some(RepairAnswer::Synced { may_raise }) => SessionAnswer::Synced { may_raise },
        Some(RepairAnswer::Done) => SessionAnswer::Done,
        Some(RepairAnswer::Refused { greatest }) => SessionAnswer::Refused { greatest },
        _ => return SessionEvent::Missed { node },
    };
    SessionEvent::Answered { node, answer }
}
