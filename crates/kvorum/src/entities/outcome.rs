//! Which exit code (`exit_codes`) and which line each failure of a request becomes.

use super::output;
use crate::access;
use crate::failure::Failure;
use api::Problem;
use api::problem_type::NO_SUCH_ENTITY;
use client::{Condition, Error, Remedy};
use serde::Serialize;

/// A failure as `--json` prints it.
#[derive(Serialize)]
struct FailureDocument<'a> {
    /// What stands on stderr.
    error: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a Problem>,
}

/// The failure that an error becomes.
pub(super) fn failure_of(error: &Error) -> Failure {
    let line = access::line_of(error);
    if let Error::Refused(refusal) = error
        && refusal.problem.is(&NO_SUCH_ENTITY)
    {
        return Failure::absent("the key has no value");
    }
    if let Error::Refused(refusal) = error
        && refusal.status == 412
    {
        return Failure::not_matched(line);
    }
    match error.remedy() {
        Remedy::Correct => Failure::usage(line),
        Remedy::Wait => Failure::unavailable(line),
        Remedy::Identify => access::denied(error),
        Remedy::Other => Failure::other(line),
    }
}

/// Whether a write whose outcome is unknown is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteRepeats {
    /// Never: it has a condition, so a repeat could find the first attempt.
    Never,
    /// Not unless the user asks for it.
    IfAsked,
    /// The user has asked for it.
    Asked,
}

impl WriteRepeats {
    /// What holds for a write with this condition.
    pub(super) fn of(condition: &Condition, is_asked: bool) -> Self {
        match (condition.is_empty(), is_asked) {
            (false, _) => Self::Never,
            (true, false) => Self::IfAsked,
            (true, true) => Self::Asked,
        }
    }
}

/// The failure that the error of a write becomes: it says what is known of the write, and how to
/// have it repeated, if it may be and was not already.
pub(super) fn failure_of_write(error: &Error, repeats: WriteRepeats) -> Failure {
    let failure = failure_of(error);
    if !error.is_unknown() {
        return failure;
    }
    let repeated = match repeats {
        WriteRepeats::Never => {
            let line = failure.line();
            return Failure::unknown(if line.contains("may have taken effect") {
                line.to_owned()
            } else {
                format!("{line}; the write may have taken effect, or may still: read the key")
            });
        }
        WriteRepeats::IfAsked => false,
        WriteRepeats::Asked => true,
    };
    // A receipt says so itself.
    let says_so = failure.line().contains("may still take effect");
    match (says_so, repeated) {
        (true, true) => failure,
        (true, false) => failure.with_more("--retry-writes repeats the write"),
        (false, true) => failure.with_more("the write may still take effect: read the key"),
        (false, false) => failure.with_more(
            "the write may still take effect: read the key, or repeat the write with \
             --retry-writes",
        ),
    }
}

/// Prints the failure of a request with `--json`.
///
/// # Errors
/// Stdout takes nothing.
pub(super) fn print_failure(error: &Error, failure: &Failure) -> Result<(), Failure> {
    let refusal = error.refusal();
    output::print_json(&FailureDocument {
        error: failure.line(),
        version: refusal.and_then(|refusal| refusal.version.as_deref()),
        etag: refusal.and_then(|refusal| refusal.etag.as_deref()),
        problem: refusal.map(|refusal| &refusal.problem),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::Refusal;
    use std::time::Duration;
    use tls::HandshakeFailure;

    fn refused(status: u16, name: &str) -> Error {
        Error::Refused(Box::new(Refusal {
            node: "http://h:1".to_owned(),
            status,
            problem: Problem {
                r#type: format!("urn:kvorum:problem:{name}"),
                status,
                detail: "why".to_owned(),
                ..Problem::default()
            },
            version: None,
            etag: None,
            retry_after: None,
        }))
    }

    #[test]
    fn each_failure_has_its_exit_code() {
        let node = || "http://h:1".to_owned();
        let unreachable = || Error::Unreachable {
            node: node(),
            problem: None,
        };
        let distrusted = |failure| Error::Distrusted {
            node: node(),
            failure,
            problem: "p".to_owned(),
        };
        let waited = Duration::from_secs(1);
        for (error, code, word) in [
            (refused(404, "no-such-entity"), 1, "no value"),
            (refused(404, "unknown"), 4, "why"),
            (refused(400, "bad-parameter"), 2, "why"),
            (refused(400, "unknown-path"), 4, "why"),
            (refused(401, "no-token"), 5, "--token-file"),
            (refused(403, "no-right"), 5, "why"),
            (refused(400, "tls-required"), 5, "why"),
            (refused(412, "other-version"), 6, "why"),
            (refused(413, "value-too-long"), 4, "why"),
            (refused(500, "scan-failed"), 4, "why"),
            (refused(503, "overloaded"), 3, "why"),
            (refused(504, "not-enough-replicas"), 3, "why"),
            (refused(507, "disk-full"), 4, "why"),
            (unreachable(), 3, "start the node"),
            (unreachable(), 3, "KVORUM_URL"),
            (
                Error::Silent {
                    node: node(),
                    waited,
                },
                3,
                "frozen",
            ),
            (Error::Cut { node: node() }, 3, "the node's log"),
            (distrusted(HandshakeFailure::Certificate), 5, "--ca"),
            (distrusted(HandshakeFailure::Refused), 5, "--client-cert"),
            (distrusted(HandshakeFailure::Plain), 5, "p"),
            (
                Error::OtherServer {
                    node: node(),
                    problem: "p".into(),
                },
                4,
                "may not be a Kvorum node",
            ),
            (
                Error::TooLong {
                    node: node(),
                    bytes_max: 5,
                },
                4,
                "longer than 5",
            ),
            (
                Error::Damaged {
                    node: node(),
                    problem: "p".into(),
                },
                4,
                "try again",
            ),
            (
                Error::AllFailed(vec![unreachable(), refused(503, "overloaded")]),
                3,
                "why",
            ),
        ] {
            let failure = failure_of(&error);
            assert_eq!(failure.code(), code, "{error:?}");
            assert!(failure.line().contains(word), "{}", failure.line());
        }
    }

    #[test]
    fn a_write_that_may_have_happened_says_so_and_names_the_option_that_helps() {
        let cut = || Error::Cut {
            node: "http://h:1".to_owned(),
        };
        let line = |error: &Error, repeated| {
            let repeats = WriteRepeats::of(&Condition::default(), repeated);
            failure_of_write(error, repeats).line().to_owned()
        };
        for error in [
            cut(),
            refused(504, "not-enough-replicas"),
            Error::AllFailed(vec![refused(503, "overloaded"), cut()]),
        ] {
            for repeated in [false, true] {
                let line = line(&error, repeated);
                assert!(line.contains("may still take effect"), "{line}");
                assert_eq!(line.contains("--retry-writes"), !repeated, "{line}");
            }
            assert!(!failure_of(&error).line().contains("may still take effect"));
        }
        for error in [
            refused(503, "overloaded"),
            refused(507, "disk-full"),
            Error::AllFailed(vec![refused(503, "overloaded")]),
        ] {
            let line = line(&error, false);
            assert!(!line.contains("may still take effect"), "{line}");
            assert!(!line.contains("--retry-writes"), "{line}");
        }
    }

    #[test]
    fn a_conditional_write_that_may_have_happened_has_a_code_of_its_own() {
        let repeats = WriteRepeats::of(&Condition::absent(), false);
        assert_eq!(repeats, WriteRepeats::Never);
        let cut = Error::Cut {
            node: "http://h:1".to_owned(),
        };
        for error in [cut, refused(504, "not-enough-replicas")] {
            let failure = failure_of_write(&error, repeats);
            assert_eq!(failure.code(), 7);
            let line = failure.line();
            assert!(line.contains("may have taken effect"), "{line}");
            assert!(!line.contains("--retry-writes"), "{line}");
        }
        let mut not_applied = refused(504, "not-enough-replicas");
        if let Error::Refused(refusal) = &mut not_applied {
            refusal.problem.outcome = Some(api::NOT_APPLIED.to_owned());
        }
        for error in [not_applied, refused(503, "overloaded")] {
            assert_eq!(failure_of_write(&error, repeats).code(), 3, "{error}");
        }
        let changed = refused(412, "other-version");
        assert_eq!(failure_of_write(&changed, repeats).code(), 6);
    }
}
