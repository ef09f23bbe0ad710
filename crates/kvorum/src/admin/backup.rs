//! `kvorum admin backup`: backups of the cluster, at targets that the nodes know by name.

use super::target::{ANSWER_BYTES_MAX, Target, query_form};
use super::waiting::show_backup;
use crate::access::Access;
use crate::failure::Failure;
use crate::node_client::{NodeRequest, refusal};
use crate::stdout::{print_json, print_lines};
use crate::text::report_line;
use crate::values::{TimeSpan, count, span};
use base::{Clock, SystemClock};
use clap::{Args, Subcommand};
use client::SingleResponse;
use cluster::NodeUrl;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use units::{bytes, counted, rough_span};

/// How long a node may send nothing while it makes or reads a backup.
const BACKUP_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long a node may take for a list.
const LIST_MAX: Duration = Duration::from_secs(300);

/// How long a schedule waits after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(60);

/// How often backups may be made.
const EVERY: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(60)..=Duration::from_secs(366 * 24 * 3600);

/// The options of `admin backup`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct BackupOptions {
    #[command(subcommand)]
    command: Option<BackupCommand>,
    #[command(flatten)]
    make: MakeOptions,
}

/// What to do with backups that are there.
#[derive(Clone, Debug, Subcommand)]
enum BackupCommand {
    /// List the complete backups at a target, the newest first
    List(ListOptions),
    /// Read all of a backup, and compare it with its checksums
    Verify(VerifyOptions),
    /// Remove all but the newest backups, and what only they needed
    Prune(PruneOptions),
}

/// The options of `admin backup TARGET`.
#[derive(Args, Clone, Debug)]
struct MakeOptions {
    /// The name of a --backup-target of the nodes
    #[arg(value_name = "TARGET", required = true)]
    backup_target: Option<String>,
    /// Go on, and make one whenever the newest at the target is older than TIME
    #[arg(long, value_name = "TIME", value_parser = span(EVERY))]
    every: Option<TimeSpan>,
    /// After each, remove all but the newest COUNT
    #[arg(long, value_name = "COUNT", value_parser = count(1..=100_000_usize))]
    keep: Option<usize>,
    /// How many nodes may be missing: with more, what only they have acknowledged may be missing, too
    #[arg(long, value_name = "COUNT", value_parser = count(0..=254_usize), default_value_t = 0)]
    missing_max: usize,
    /// Take the target over from the cluster that it belongs to, which must be gone: for a cluster that was restored from it
    #[arg(long, conflicts_with = "every")]
    adopt: bool,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// The options of `admin backup list`.
#[derive(Args, Clone, Debug)]
struct ListOptions {
    /// The name of a --backup-target of the nodes
    #[arg(value_name = "TARGET")]
    backup_target: String,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// The options of `admin backup verify`.
#[derive(Args, Clone, Debug)]
struct VerifyOptions {
    /// The name of a --backup-target of the nodes
    #[arg(value_name = "TARGET")]
    backup_target: String,
    /// Which backup, as `list` names it [default: the newest]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// The options of `admin backup prune`.
#[derive(Args, Clone, Debug)]
struct PruneOptions {
    /// The name of a --backup-target of the nodes
    #[arg(value_name = "TARGET")]
    backup_target: String,
    /// How many backups to keep
    #[arg(long, value_name = "COUNT", value_parser = count(1..=100_000_usize))]
    keep: usize,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
struct Backups {
    #[serde(skip_serializing_if = "Option::is_none")]
    running: Option<RunningBackup>,
    backups: Vec<Backup>,
    #[serde(default)]
    unreadable: Vec<UnreadableBackup>,
}

#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
struct UnreadableBackup {
    id: String,
    why: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
struct RunningBackup {
    target: String,
    began: String,
    bytes: u64,
    done_bytes: u64,
}

#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
struct Backup {
    id: String,
    cut: String,
    completed: String,
    members: Vec<String>,
    missing: Vec<String>,
    bytes: u64,
    new_bytes: u64,
    nodes: Vec<NodeBackup>,
}

#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
struct NodeBackup {
    name: String,
    tables: u64,
    bytes: u64,
    new_bytes: u64,
}

#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
struct Ordered {
    joined: bool,
    state: String,
    backup: Option<Backup>,
}

#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
struct Pruned {
    backups: Vec<String>,
    tables: u64,
    bytes: u64,
}

#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
struct Verified {
    backup: Backup,
    tables: u64,
    bytes: u64,
}

/// Does what the options say.
///
/// # Errors
/// The node cannot be reached or refuses; a backup that failed or is damaged.
pub(super) fn run(options: &BackupOptions) -> Result<(), Failure> {
    match &options.command {
        None => make(&options.make),
        Some(BackupCommand::List(options)) => list(options),
        Some(BackupCommand::Verify(options)) => verify(options),
        Some(BackupCommand::Prune(options)) => prune(options),
    }
}

fn make(options: &MakeOptions) -> Result<(), Failure> {
    let name = options.backup_target.as_deref().unwrap_or_default();
    match options.every {
        None => make_one(options, name),
        Some(every) => make_forever(options, name, every.0),
    }
}

/// Makes a backup whenever the newest is older than `every`. What is at the target decides, so a
/// schedule can start anew at any time, and several of them make no more backups than one.
fn make_forever(options: &MakeOptions, name: &str, every: Duration) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start a runtime: {error}")))?;
    let wait = |time| runtime.block_on(async { tokio::time::sleep(time).await });
    // A clock that is behind that of the node which made it must not make one after the other.
    let mut has_just_made = false;
    loop {
        let due = time_to_next(options, name, every);
        let due = due.map(|due| due.or(has_just_made.then_some(every)));
        let made = due.and_then(|due| match due {
            None => make_one(options, name).map(|()| None),
            Some(time) => {
                report_line(&format!(
                    "the next backup is due in {}",
                    rough_span(time.as_secs())
                ));
                Ok(Some(time))
            }
        });
        has_just_made = matches!(made, Ok(None));
        match made {
            Ok(due) => wait(due.unwrap_or_default()),
            // A node that is down for a while must not end the schedule, but a wrong option does.
            Err(failure) if failure.code() == 2 => return Err(failure),
            Err(failure) => {
                report_line(failure.line());
                wait(RETRY_DELAY.min(every));
            }
        }
    }
}

/// How long it is until the newest backup is older than `every`; `None` if it is.
fn time_to_next(
    options: &MakeOptions,
    name: &str,
    every: Duration,
) -> Result<Option<Duration>, Failure> {
    let (node, access) = options.target.choose()?;
    let target = format!("/v0/admin/backups?target={}", query_form(name));
    let listed: Backups = ask(&node, &access, "GET", &target, LIST_MAX)?;
    let newest = listed.backups.first();
    let cut = newest.and_then(|newest| api::rfc3339::unix_ms_of(&newest.cut));
    Ok(cut.and_then(|cut| time_left(cut, SystemClock::new().unix_ms(), every)))
}

/// How long it is until `cut` is longer ago than `every`. One of the future counts as just made.
fn time_left(cut_unix_ms: u64, now_unix_ms: u64, every: Duration) -> Option<Duration> {
    let age = Duration::from_millis(now_unix_ms.saturating_sub(cut_unix_ms));
    let left = every.saturating_sub(age);
    (!left.is_zero()).then_some(left)
}

fn make_one(options: &MakeOptions, name: &str) -> Result<(), Failure> {
    let (node, access) = options.target.choose()?;
    let missing_max = options.missing_max;
    let adopt = options.adopt;
    let target = format!(
        "/v0/admin/backups?target={}&missing_max={missing_max}&adopt={adopt}&wait=true",
        query_form(name)
    );
    let request = request(&node, &access, "POST", &target, BACKUP_MAX);
    let answer = request.send_beside(show_backup(&node, &access))?;
    let ordered: Ordered = read(&node, &answer)?;
    let Some(backup) = ordered.backup else {
        return Err(Failure::failed(format!(
            "{node} stopped before the backup was complete: there is none"
        )));
    };
    if options.json {
        print_json(&backup)?;
    } else {
        print_lines([describe(&backup)])?;
    }
    if let Some(keep) = options.keep {
        let pruned = prune_at(&node, &access, name, keep);
        let pruned = pruned.map_err(|failure| {
            failure.with_more("the backup is complete, but older ones are still there")
        })?;
        if !options.json && !pruned.backups.is_empty() {
            print_lines([describe_pruned(&pruned)])?;
        }
    }
    Ok(())
}

fn list(options: &ListOptions) -> Result<(), Failure> {
    let (node, access) = options.target.choose()?;
    let target = format!(
        "/v0/admin/backups?target={}",
        query_form(&options.backup_target)
    );
    let listed: Backups = ask(&node, &access, "GET", &target, LIST_MAX)?;
    if options.json {
        return print_json(&listed);
    }
    let running = listed.running.iter().map(|running| {
        format!(
            "a backup at {} runs since {}: {} of {}",
            running.target,
            running.began,
            bytes(running.done_bytes as f64),
            bytes(running.bytes as f64)
        )
    });
    let mut lines: Vec<String> = running.collect();
    lines.extend(listed.backups.iter().map(describe));
    let unreadable = listed.unreadable.iter();
    lines.extend(unreadable.map(|it| format!("{} is none any more: {}", it.id, it.why)));
    if lines.is_empty() {
        lines.push(format!("there is no backup at {}", options.backup_target));
    }
    print_lines(lines)
}

fn verify(options: &VerifyOptions) -> Result<(), Failure> {
    let (node, access) = options.target.choose()?;
    let mut target = format!(
        "/v0/admin/backups/verify?target={}",
        query_form(&options.backup_target)
    );
    if let Some(id) = &options.id {
        target.push_str("&id=");
        target.push_str(&query_form(id));
    }
    let verified: Verified = ask(&node, &access, "POST", &target, BACKUP_MAX)?;
    if options.json {
        return print_json(&verified);
    }
    print_lines([format!(
        "{}: all {} with {} are as they were stored",
        verified.backup.id,
        counted(verified.tables, "table"),
        bytes(verified.bytes as f64)
    )])
}

fn prune(options: &PruneOptions) -> Result<(), Failure> {
    let (node, access) = options.target.choose()?;
    let pruned = prune_at(&node, &access, &options.backup_target, options.keep)?;
    if options.json {
        return print_json(&pruned);
    }
    print_lines([describe_pruned(&pruned)])
}

fn prune_at(node: &NodeUrl, access: &Access, name: &str, keep: usize) -> Result<Pruned, Failure> {
    let name = query_form(name);
    let target = format!("/v0/admin/backups?target={name}&keep={keep}");
    ask(node, access, "DELETE", &target, BACKUP_MAX)
}

fn ask<T: DeserializeOwned>(
    node: &NodeUrl,
    access: &Access,
    method: &str,
    target: &str,
    time_max: Duration,
) -> Result<T, Failure> {
    read(
        node,
        &request(node, access, method, target, time_max).send()?,
    )
}

fn request<'a>(
    node: &'a NodeUrl,
    access: &'a Access,
    method: &'a str,
    target: &'a str,
    time_max: Duration,
) -> NodeRequest<'a> {
    NodeRequest {
        node,
        access,
        is_named: true,
        method,
        target,
        headers: &[("Content-Type", "application/json")],
        time_max,
        answer_bytes_max: ANSWER_BYTES_MAX,
    }
}

fn read<T: DeserializeOwned>(node: &NodeUrl, answer: &SingleResponse) -> Result<T, Failure> {
    if !matches!(answer.status, 200 | 202) {
        return Err(refusal(node, answer.status, &answer.body));
    }
    serde_json::from_slice(&answer.body).map_err(|error| {
        Failure::failed(format!("{node} does not answer as a Kvorum node: {error}"))
    })
}

fn describe(backup: &Backup) -> String {
    let missing = if backup.missing.is_empty() {
        String::new()
    } else {
        format!("; it lacks {}", backup.missing.join(", "))
    };
    format!(
        "{} of {}: {} of {}, {} of them new{missing}",
        backup.id,
        backup.cut,
        bytes(backup.bytes as f64),
        counted(backup.nodes.len() as u64, "node"),
        bytes(backup.new_bytes as f64)
    )
}

fn describe_pruned(pruned: &Pruned) -> String {
    if pruned.backups.is_empty() && pruned.tables == 0 {
        return "nothing to remove".to_owned();
    }
    format!(
        "removed {} and {} with {}",
        counted(pruned.backups.len() as u64, "backup"),
        counted(pruned.tables, "table"),
        bytes(pruned.bytes as f64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        options: BackupOptions,
    }

    fn parse(words: &[&str]) -> Result<BackupOptions, clap::Error> {
        let words = ["backup"].iter().chain(words);
        Program::try_parse_from(words).map(|program| program.options)
    }

    #[test]
    fn a_target_alone_makes_a_backup_and_commands_do_the_rest() {
        let options = parse(&["nas", "--every", "1h", "--keep", "24"]).unwrap();
        assert!(options.command.is_none());
        assert_eq!(options.make.backup_target.as_deref(), Some("nas"));
        assert_eq!(options.make.keep, Some(24));
        for words in [
            &["list", "nas"][..],
            &["verify", "nas", "--id", "20261129T140000Z-89abcdef"],
            &["prune", "nas", "--keep", "3"],
        ] {
            assert!(parse(words).unwrap().command.is_some(), "{words:?}");
        }
        for words in [
            &[][..],
            &["nas", "--every", "1s"],
            &["nas", "--keep", "0"],
            &["prune", "nas"],
            &["list"],
        ] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn the_next_backup_is_due_once_the_newest_is_old_enough() {
        const HOUR: Duration = Duration::from_secs(3600);
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let of = |age: Duration| time_left(10_000_000, 10_000_000 + age.as_millis() as u64, HOUR);
        assert_eq!(of(minutes(0)), Some(HOUR));
        assert_eq!(of(minutes(59)), Some(minutes(1)));
        assert_eq!(of(minutes(60)), None);
        assert_eq!(of(minutes(600)), None);
        assert_eq!(time_left(10_000_000, 1, HOUR), Some(HOUR));
    }

    #[test]
    fn a_backup_is_a_line() {
        let backup = Backup {
            id: "20261129T140000Z-89abcdef".to_owned(),
            cut: "2026-11-29T14:00:00.1Z".to_owned(),
            completed: String::new(),
            members: Vec::new(),
            missing: vec!["c".to_owned()],
            bytes: 3 << 20,
            new_bytes: 1 << 20,
            nodes: vec![
                NodeBackup {
                    name: "a".to_owned(),
                    tables: 1,
                    bytes: 3 << 20,
                    new_bytes: 1 << 20,
                };
                2
            ],
        };
        assert_eq!(
            describe(&backup),
            "20261129T140000Z-89abcdef of 2026-11-29T14:00:00.1Z: 3.00 MiB of 2 nodes, 1.00 MiB of \
             them new; it lacks c"
        );
        assert_eq!(query_form("a/b-ä"), "a%2Fb-%C3%A4");
    }
}
