//! `kvorum admin token`: makes, lists and revokes tokens.
//!
//! - `shared`: those that all nodes share.
//! - `append`: adds the part of one to the tokens file of a node, for which no node is asked.
//!
//! A token is printed once and kept nowhere: nodes have its hash. The line with the token is the first
//! of stdout, and unless `--print` is given the only one, for scripts.

mod append;
mod shared;

use super::target::Target;
use crate::failure::Failure;
use crate::stdout::{print, print_lines};
use crate::values::{TimeSpan, span};
use base::{Clock, OsRandom, SystemClock};
use clap::{Args, Subcommand};
use shared::SharedByAll;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;
use tokens::{NewToken, Stanza};

/// How long a token may be in force, if not for ever.
const EXPIRIES: RangeInclusive<Duration> =
    Duration::from_secs(60)..=Duration::from_secs(10 * 365 * 24 * 3600);

/// What to do with tokens.
#[derive(Clone, Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Make a token, and print it once; all nodes of the cluster, or a tokens file, get its hash
    New(Box<NewTokenOptions>),
    /// List the tokens that all nodes of the cluster share
    List(ListOptions),
    /// Revoke a token on all nodes of the cluster
    Revoke(RevokeOptions),
    /// Give each node of the cluster what it lacks of the tokens and revocations that others have
    Sync(SyncOptions),
}

/// The options of `admin token list`.
#[derive(Args, Clone, Debug)]
pub(super) struct ListOptions {
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// The options of `admin token revoke`.
#[derive(Args, Clone, Debug)]
pub(super) struct RevokeOptions {
    /// The name of the token
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    target: Target,
}

/// The options of `admin token sync`.
#[derive(Args, Clone, Debug)]
pub(super) struct SyncOptions {
    #[command(flatten)]
    target: Target,
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
    /// From when on it is not in force any more: this long from now
    #[arg(long, value_name = "TIME", value_parser = span(EXPIRIES))]
    expires: Option<TimeSpan>,
    /// Append its part to this tokens file instead of asking nodes; the file is created if it does not
    /// exist
    #[arg(long, value_name = "FILE", conflicts_with = "print")]
    append: Option<PathBuf>,
    /// Print its part of a tokens file instead of asking nodes
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    target: Target,
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
    match command {
        TokenCommand::New(options) => make(options),
        TokenCommand::List(options) => SharedByAll::ask(&options.target)?.print(options.json),
        TokenCommand::Revoke(options) => revoke(options),
        TokenCommand::Sync(options) => {
            SharedByAll::ask(&options.target)?.send()?;
            print_lines(["all nodes share the same tokens"])
        }
    }
}

fn make(options: &NewTokenOptions) -> Result<(), Failure> {
    let random = OsRandom::new().map_err(|error| {
        Failure::failed(format!("the system provides no random numbers: {error}"))
    })?;
    let token = NewToken::draw(&random);
    let stanza = options.stanza(&token)?;
    if options.print {
        return print(&format!(
            "{}\n\n# Append this to the tokens file of each node:\n{stanza}",
            token.text()
        ));
    }
    if let Some(file) = &options.append {
        append::append(file, &stanza.to_string())?;
        return print(&format!("{}\n", token.text()));
    }
    let mut shared = SharedByAll::ask(&options.target)?;
    if shared.in_force(&stanza.name).is_some() || shared.is_in_a_file(&stanza.name) {
        return Err(Failure::failed(format!(
            "there is a token {} already: give another name, and revoke that one when no client uses it",
            stanza.name
        )));
    }
    shared.add(shared::record_of(&stanza));
    let sent = shared.send();
    // It is of use on the nodes that have it, also if others could not be reached.
    if !sent.as_ref().is_err_and(Failure::is_denied) {
        print(&format!("{}\n", token.text()))?;
    }
    sent
}

fn revoke(options: &RevokeOptions) -> Result<(), Failure> {
    let name = &options.name;
    let mut shared = SharedByAll::ask(&options.target)?;
    let Some(token) = shared.in_force(name) else {
        let line = if shared.is_in_a_file(name) {
            format!("{name} is in the tokens files of nodes: remove it there")
        } else {
            format!("the nodes share no token {name}")
        };
        return Err(Failure::failed(line));
    };
    let revocation = shared::revocation_of(token);
    shared.add(revocation);
    shared.send()?;
    print_lines([format!("{name} is revoked on all nodes")])
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
            expires_unix_s: self.expires.map(|span| {
                let now = Duration::from_millis(SystemClock::new().unix_ms());
                i64::try_from((now + span.0).as_secs()).unwrap_or(i64::MAX)
            }),
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
    fn a_token_expires_after_the_time_that_is_given() {
        let token = NewToken::draw(&base::SeededRandom::new(1));
        let now_ms = SystemClock::new().unix_ms();
        let stanza = options(&["--name", "a", "--read", "--expires", "90d"]).stanza(&token);
        let table = tokens::read(&stanza.unwrap().to_string()).unwrap();
        let left = table.next_expiry_unix_ms().unwrap() - now_ms / 1000 * 1000;
        let days = 24 * 3600 * 1000;
        assert!((90 * days..90 * days + 60_000).contains(&left), "{left}");
        let ever = options(&["--name", "a", "--read"]).stanza(&token).unwrap();
        assert_eq!(
            tokens::read(&ever.to_string())
                .unwrap()
                .next_expiry_unix_ms(),
            None
        );
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
