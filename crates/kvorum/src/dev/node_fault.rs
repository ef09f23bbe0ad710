//! The faults that can be set and cleared on a running node. A restarted node has none.

use std::time::Duration;

/// How far ahead a node's clock is set: beyond the bound of an hour, at which the node
/// accepts no writes of its own any more, and below twice the bound, at which it would take none.
const CLOCK_AHEAD: Duration = Duration::from_secs(90 * 60);

/// How late what its peers send reaches a slow node. It is long enough to be felt, and short
/// enough that nobody takes the node for dead: the case that no failure detector sees.
const DELAY: Duration = Duration::from_millis(250);

/// A fault of a running node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeFault {
    /// Its clock is beyond the bound.
    ClockAhead,
    /// It and the other nodes do not reach each other; clients reach it.
    CutOff,
    /// It hears the other nodes late, so that they wait for its answers.
    Slow,
}

impl NodeFault {
    /// The word for a node that has it, for the console.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::ClockAhead => "skewed",
            Self::CutOff => "cut-off",
            Self::Slow => "slow",
        }
    }

    /// The line that gives it to a node over its stdin, or takes it away.
    pub(super) fn line(self, is_set: bool) -> String {
        let (word, number) = match self {
            Self::ClockAhead => ("clock", CLOCK_AHEAD.as_millis()),
            Self::CutOff => ("cut", 1),
            Self::Slow => ("delay", DELAY.as_millis()),
        };
        format!("{word} {}\n", if is_set { number } else { 0 })
    }

    /// What the user reads once `name` has it, or is rid of it.
    pub(super) fn told(self, name: &str, is_set: bool) -> String {
        match (self, is_set) {
            (Self::ClockAhead, true) => {
                let minutes = CLOCK_AHEAD.as_secs() / 60;
                format!("the clock of {name} is {minutes} minutes ahead")
            }
            (Self::ClockAhead, false) => format!("the clock of {name} is correct"),
            (Self::CutOff, true) => {
                format!("{name} is cut off from the other nodes; clients still reach it")
            }
            (Self::CutOff, false) => format!("{name} and the other nodes reach each other again"),
            (Self::Slow, true) => {
                format!("{name} hears the other nodes {} ms late", DELAY.as_millis())
            }
            (Self::Slow, false) => format!("{name} hears the other nodes in time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_a_line_that_the_node_reads() {
        for (fault, set, cleared) in [
            (NodeFault::ClockAhead, "clock 5400000\n", "clock 0\n"),
            (NodeFault::CutOff, "cut 1\n", "cut 0\n"),
            (NodeFault::Slow, "delay 250\n", "delay 0\n"),
        ] {
            assert_eq!(fault.line(true), set);
            assert_eq!(fault.line(false), cleared);
        }
    }
}
