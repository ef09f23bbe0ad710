//! Why a command ends without success, as one line and an exit code.

use crate::text;
use clap::error::ErrorKind;
use std::process::ExitCode;

/// The exit code of a command that a node does not trust, or that does not trust a node.
const DENIED_CODE: u8 = 5;

/// The exit code of a command whose output nobody reads any more: that of a process that SIGPIPE
/// ended.
const UNREAD_CODE: u8 = 141;

/// One line that says what is wrong and what to do, and the code to exit with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    code: u8,
    line: String,
}

impl Failure {
    /// A wrong command line: exit code 2.
    pub fn usage(line: impl Into<String>) -> Self {
        Self {
            code: 2,
            line: line.into(),
        }
    }

    /// A key that has no value: exit code 1.
    pub fn absent(line: impl Into<String>) -> Self {
        Self {
            code: 1,
            line: line.into(),
        }
    }

    /// Too few replicas, or no node, could serve a request on entities: exit code 3.
    pub fn unavailable(line: impl Into<String>) -> Self {
        Self {
            code: 3,
            line: line.into(),
        }
    }

    /// A command on entities that failed in another way: exit code 4.
    pub fn other(line: impl Into<String>) -> Self {
        Self {
            code: 4,
            line: line.into(),
        }
    }

    /// A node and the command do not trust each other, because of a certificate or a token:
    /// exit code 5.
    pub fn denied(line: impl Into<String>) -> Self {
        Self {
            code: DENIED_CODE,
            line: line.into(),
        }
    }

    /// A command of any other kind that failed: exit code 1.
    pub fn failed(line: impl Into<String>) -> Self {
        Self {
            code: 1,
            line: line.into(),
        }
    }

    /// A state that needs attention soon and is no failure yet: exit code 6.
    pub fn warning(line: impl Into<String>) -> Self {
        Self {
            code: 6,
            line: line.into(),
        }
    }

    /// The condition of a write does not hold, so nothing was written: exit code 6.
    pub fn not_matched(line: impl Into<String>) -> Self {
        Self {
            code: 6,
            line: line.into(),
        }
    }

    /// A conditional write may have taken effect, or not: exit code 7.
    pub fn unknown(line: impl Into<String>) -> Self {
        Self {
            code: 7,
            line: line.into(),
        }
    }

    /// A signal ended the command early. `code` is the exit code of a process
    /// that the signal ended.
    pub fn stopped(code: u8, signal: &str) -> Self {
        Self {
            code,
            line: format!("stopped by {signal}"),
        }
    }

    /// Nobody reads stdout any more. Whoever has closed it knows, so nothing is said.
    pub fn unread() -> Self {
        Self {
            code: UNREAD_CODE,
            line: "nobody reads stdout any more".to_owned(),
        }
    }

    /// A refusal of the option parser, which writes paragraphs. The message,
    /// the possible values and the tips are kept, the usage is dropped.
    pub fn from_clap(error: &clap::Error) -> Self {
        let text = error.to_string();
        let is_put = text.contains("Usage: kvorum put ");
        let lines = text
            .lines()
            .map(str::trim)
            .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
            // Only the value of `put` may stand behind `--`; two dashes are a wrong option.
            .filter(|line| {
                let is_of_value = is_put && !line.starts_with("tip: to pass '--");
                !line.starts_with("tip: to pass '-") || is_of_value
            });
        let mut line = String::new();
        for part in lines.filter(|line| !line.is_empty()) {
            let part = part.strip_prefix("error: ").unwrap_or(part);
            if !line.is_empty() {
                let goes_on = part.starts_with('[') || line.ends_with(':');
                line.push_str(if goes_on { " " } else { "; " });
            }
            line.push_str(part);
        }
        let begins_with_dash = line
            .split_once("unexpected argument '-")
            .is_some_and(|(_, rest)| rest.starts_with(|first: char| first.is_ascii_digit()));
        if begins_with_dash {
            line.push_str("; no option takes a negative value");
        }
        if text.contains("unrecognized subcommand 'set'") {
            line = "unrecognized subcommand 'set'; 'kvorum put' gives a key a value".to_owned();
        }
        let below_admin = [
            "status",
            "members",
            "repair",
            "compact",
            "set-aside",
            "token",
        ];
        if let Some(name) = below_admin
            .into_iter()
            .find(|name| line.starts_with(&format!("unrecognized subcommand '{name}'")))
        {
            line.push_str(&format!("; 'kvorum admin {name}' is a command"));
        }
        // What has no tip gets a pointer to `--help`.
        let lists = match error.kind() {
            ErrorKind::UnknownArgument => Some("the options"),
            ErrorKind::InvalidSubcommand => Some("the commands"),
            ErrorKind::MissingRequiredArgument => Some("what there is"),
            _ => None,
        };
        if let Some(lists) = lists
            && !line.contains("tip: ")
            && !begins_with_dash
        {
            let usage = text.lines().find_map(|line| line.strip_prefix("Usage: "));
            let words = usage.into_iter().flat_map(|usage| usage.split(' '));
            let command: Vec<&str> = words.take_while(|word| is_command(word)).collect();
            let command = command.join(" ");
            if !command.is_empty() {
                line.push_str(&format!("; '{command} --help' lists {lists}"));
            }
            // Options of the nodes are what most often follows `dev`.
            if command == "kvorum dev" {
                line.push_str(", and options of 'serve' follow behind '--'");
            }
        }
        Self::usage(line)
    }

    /// The failure with its origin in front of its line.
    pub fn with_origin(mut self, origin: &str) -> Self {
        self.line = format!("{origin}: {}", self.line);
        self
    }

    /// The failure with more to know behind its line.
    pub fn with_more(mut self, more: &str) -> Self {
        self.line = format!("{}; {more}", self.line);
        self
    }

    /// Whether a node and the command do not trust each other.
    pub fn is_denied(&self) -> bool {
        self.code == DENIED_CODE
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// The line.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// Writes the line to stderr, unless nobody reads the output, and returns the exit code.
    pub fn report(&self) -> ExitCode {
        if self.code != UNREAD_CODE {
            text::report_line(&self.line);
        }
        ExitCode::from(self.code)
    }
}

/// Whether a word of a usage line is a command rather than a placeholder.
fn is_command(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_lowercase())
}
