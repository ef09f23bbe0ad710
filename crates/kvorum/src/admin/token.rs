//! `kvorum admin token new`: makes a token and its lines in the tokens file.
//!
//! The token is printed once and kept nowhere: the file has its hash. The line with the
//! token is the first of stdout, and with `--append` the only one, for scripts.

use super::append_token;
use super::target::print;
use crate::failure::Failure;
use base::OsRandom;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use tokens::{NewToken, Stanza};

/// What to do with tokens.
#[derive(Clone, Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Make a token, and print it once; the tokens file gets its hash
    New(NewTokenOptions),
}

/// The options of `admin token new`.
#[derive(Args, Clone, Debug)]
pub(super) struct NewTokenOptions {
    /// Its name, which logs show: letters, digits and any of -_.:@/
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Let it read keys
    #[arg(long)]
    read: bool,
    /// Let it write and delete keys
    #[arg(long)]
    write: bool,
    /// Limit --read and --write to the keys that begin with this text; can be given several times
    #[arg(long, value_name = "TEXT")]
    prefix: Vec<String>,
    /// Like --prefix, with the bytes in base64
    #[arg(long, value_name = "BASE64", value_parser = base64)]
    prefix_base64: Vec<Bytes>,
    /// Let it start repairs and compactions, and record profiles
    #[arg(long)]
    admin: bool,
    /// Let it read /metrics and /v0/history, and the load and disks in /v0/cluster
    #[arg(long)]
    metrics: bool,
    /// Append the lines to this tokens file instead of printing them; the file is created if it
    /// does not exist
    #[arg(long, value_name = "FILE")]
    append: Option<PathBuf>,
}

/// The bytes of an option.
type Bytes = std::sync::Arc<[u8]>;

fn base64(text: &str) -> Result<Bytes, String> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text);
    bytes
        .map(Bytes::from)
        .map_err(|error| format!("it is not base64: {error}"))
}

/// Does what the options say.
///
/// # Errors
/// A name or prefixes that no file may have; a file that cannot be read or written.
pub(super) fn run(command: &TokenCommand) -> Result<(), Failure> {
    let TokenCommand::New(options) = command;
    let random = OsRandom::new().map_err(|error| {
        Failure::failed(format!("the system provides no random numbers: {error}"))
    })?;
    let token = NewToken::draw(&random);
    let stanza = options.stanza(&token)?;
    match &options.append {
        None => print(&format!(
            "{}\n\n# Append this to the tokens file of each node:\n{stanza}",
            token.text()
        )),
        Some(file) => {
            append_token::append(file, &stanza.to_string())?;
            print(&format!("{}\n", token.text()))
        }
    }
}

impl NewTokenOptions {
    fn stanza(&self, token: &NewToken) -> Result<Stanza, Failure> {
        let refuse = |option: &str, problem: &dyn std::fmt::Display| {
            Failure::usage(problem.to_string()).with_origin(option)
        };
        tokens::check_name(&self.name).map_err(|error| refuse("--name", &error))?;
        let texts = self.prefix.iter().map(|prefix| prefix.clone().into_bytes());
        let bytes = self.prefix_base64.iter().map(|prefix| prefix.to_vec());
        let prefixes: Vec<Vec<u8>> = texts.chain(bytes).collect();
        if !(self.read || self.write || self.admin || self.metrics) {
            return Err(Failure::usage(
                "the token would have no right: give some of --read, --write, --admin, --metrics",
            ));
        }
        let limits_nothing = !(self.read || self.write);
        if limits_nothing && !prefixes.is_empty() {
            return Err(refuse(
                "--prefix",
                &"it limits --read and --write: give one of them",
            ));
        }
        let stanza = Stanza {
            name: self.name.clone(),
            hash: token.hash(),
            read: self.read,
            write: self.write,
            prefixes,
            admin: self.admin,
            metrics: self.metrics,
        };
        tokens::read(&stanza.to_string()).map_err(|error| refuse("--prefix", &error))?;
        Ok(stanza)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{Cli, Command};
    use clap::Parser;
    use tokens::{Need, RequestedKeys, TokenHash};

    fn options(words: &[&str]) -> NewTokenOptions {
        let all = ["kvorum", "admin", "token", "new"].iter().chain(words);
        let Command::Admin(admin) = Cli::try_parse_from(all).unwrap().command else {
            panic!("these words should parse as admin");
        };
        admin.new_token().unwrap().clone()
    }

    #[test]
    fn the_lines_give_the_rights_that_the_options_name() {
        let random = base::SeededRandom::new(1);
        let token = NewToken::draw(&random);
        let allowed = |words: &[&str], need, key: &[u8]| {
            let stanza = options(words).stanza(&token).unwrap();
            let table = tokens::read(&stanza.to_string()).unwrap();
            let found = table.find(&TokenHash::of(token.text().as_bytes())).unwrap();
            found.rights.allow(need, RequestedKeys::Key(key))
        };
        let limited = [
            "--name",
            "a",
            "--read",
            "--prefix",
            "a/",
            "--prefix-base64",
            "/w==",
        ];
        assert!(allowed(&limited, Need::Read, b"a/1"));
        assert!(allowed(&limited, Need::Read, b"\xff1"));
        assert!(!allowed(&limited, Need::Read, b"b"));
        assert!(!allowed(&limited, Need::Write, b"a/1"));
        let all = ["--name", "a", "--write", "--admin", "--metrics"];
        assert!(allowed(&all, Need::Write, b"b"));
        assert!(allowed(&all, Need::Admin, b"") && allowed(&all, Need::Metrics, b""));
        assert!(!allowed(&all, Need::Read, b"b"));
    }

    #[test]
    fn options_that_make_no_token_are_refused_in_a_line() {
        let random = base::SeededRandom::new(1);
        let token = NewToken::draw(&random);
        for (words, part) in [
            (&["--name", "a"][..], "no right"),
            (&["--name", "a b", "--read"], "--name"),
            (&["--name", "a", "--admin", "--prefix", "b"], "--prefix"),
            (&["--name", "a", "--read", "--prefix", ""], "empty"),
        ] {
            let failure = options(words).stanza(&token).unwrap_err();
            assert!(failure.line().contains(part), "{}", failure.line());
        }
    }
}
