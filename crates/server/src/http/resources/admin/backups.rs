//! `/v0/admin/backups`: backups of the cluster. `GET` lists those at a target, or without one says
//! only how far the backup is that this node makes; `POST` makes one,
//! `DELETE` removes all but the newest. `POST /v0/admin/backups/verify` reads all of one.
//!
//! A target is a name from the configuration of the node: no request says where backups lie.

use super::{CHECK_PERIOD, is_still_waiting};
use crate::http::exchange::{Answer, HttpExchange};
use crate::http::problem::Problem;
use crate::http::query::{ParameterError, number_of, pairs, set, switch_of, unknown};
use crate::http::request::verb::Verb;
use crate::http::response::page;
use api::rfc3339;
use hyper::StatusCode;
use node::{BackupContents, BackupId, EndedBackup, Listed, Listing};
use schemars::JsonSchema;
use serde::Serialize;
use tokens::RequestedKeys;
use tokio::time::sleep;

/// The longest name of a target, in bytes.
const TARGET_BYTES_MAX: usize = 64;

/// The complete backups at a target, the newest first.
#[derive(Serialize, JsonSchema)]
pub(in crate::http::resources) struct Backups {
    /// The backup that this node makes now, at any target; left out if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    running: Option<RunningBackup>,
    backups: Vec<Backup>,
    /// What was complete and cannot be read: it is damaged, or of a later release.
    unreadable: Vec<UnreadableBackup>,
}

/// What is called a backup, and cannot be read.
#[derive(Serialize, JsonSchema)]
struct UnreadableBackup {
    id: String,
    /// Why, for people.
    why: String,
}

/// A backup under way.
#[derive(Serialize, JsonSchema)]
struct RunningBackup {
    target: String,
    began: String,
    /// The bytes of all tables, as far as they are known.
    bytes: u64,
    /// The bytes of those that are at the target.
    done_bytes: u64,
}

/// A complete backup.
#[derive(Serialize, JsonSchema)]
struct Backup {
    id: String,
    /// The moment of which it is, by the clock of the node that made it.
    cut: String,
    completed: String,
    members: Vec<String>,
    /// The members whose stores it lacks.
    missing: Vec<String>,
    /// The bytes of its tables.
    bytes: u64,
    /// What was stored for it; the rest was there before.
    new_bytes: u64,
    nodes: Vec<NodeBackup>,
}

/// The store of a node in a backup.
#[derive(Serialize, JsonSchema)]
struct NodeBackup {
    name: String,
    tables: u64,
    bytes: u64,
    new_bytes: u64,
}

/// A backup that was ordered.
#[derive(Serialize, JsonSchema)]
pub(in crate::http::resources) struct OrderedBackup {
    /// Whether it had begun before this request.
    joined: bool,
    #[schemars(extend("enum" = ["running", "ended"]))]
    state: &'static str,
    /// Left out before its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<Backup>,
}

/// What was removed.
#[derive(Serialize, JsonSchema)]
pub(in crate::http::resources) struct PrunedBackups {
    backups: Vec<String>,
    tables: u64,
    bytes: u64,
}

/// A backup of which everything was read.
#[derive(Serialize, JsonSchema)]
pub(in crate::http::resources) struct VerifiedBackup {
    backup: Backup,
    /// The tables that were read: those that stores share count once.
    tables: u64,
    bytes: u64,
}

impl From<Listed> for Backup {
    fn from(Listed { id, contents }: Listed) -> Self {
        let (bytes, new_bytes) = (contents.bytes(), contents.new_bytes());
        let BackupContents {
            members,
            missing,
            cut_unix_ms,
            completed_unix_ms,
            nodes,
            ..
        } = contents;
        let nodes = nodes.into_iter().map(|node| NodeBackup {
            name: node.name,
            tables: node.tables,
            bytes: node.bytes,
            new_bytes: node.new_bytes,
        });
        Self {
            id: id.to_string(),
            cut: rfc3339::of_unix_ms(cut_unix_ms),
            completed: rfc3339::of_unix_ms(completed_unix_ms),
            members,
            missing,
            bytes,
            new_bytes,
            nodes: nodes.collect(),
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct BackupParameters {
    target: Option<String>,
    id: Option<BackupId>,
    keep: Option<usize>,
    missing_max: Option<usize>,
    adopt: Option<bool>,
    wait: Option<bool>,
}

/// Reads the query of a method, which takes `target` and the parameters of these names.
///
/// # Errors
/// The first parameter that is not valid.
fn parameters(query: Option<&str>, names: &[&str]) -> Result<BackupParameters, ParameterError> {
    let mut read = BackupParameters::default();
    for parameter in pairs(query) {
        let (name, value) = parameter?;
        let is_known = |known: &&str| known.as_bytes() == name.as_slice();
        if !is_known(&"target") && !names.iter().any(is_known) {
            return Err(unknown(&name));
        }
        match name.as_slice() {
            b"target" => set(&mut read.target, "target", target_of(&value)?)?,
            b"id" => set(&mut read.id, "id", id_of(&value)?)?,
            b"keep" => set(&mut read.keep, "keep", count_of("keep", &value, 1)?)?,
            b"missing_max" => {
                let count = count_of("missing_max", &value, 0)?;
                set(&mut read.missing_max, "missing_max", count)?;
            }
            b"adopt" => set(&mut read.adopt, "adopt", switch_of("adopt", &value)?)?,
            _ => set(&mut read.wait, "wait", switch_of("wait", &value)?)?,
        }
    }
    Ok(read)
}

impl BackupParameters {
    fn target(&self) -> Result<&str, ParameterError> {
        let missing = "is missing: give the name of a --backup-target of the node";
        let target = self.target.as_deref();
        target.ok_or_else(|| ParameterError::new("target", missing))
    }
}

fn target_of(value: &[u8]) -> Result<String, ParameterError> {
    let name = std::str::from_utf8(value).ok();
    let name = name.filter(|name| (1..=TARGET_BYTES_MAX).contains(&name.len()));
    let name = name.filter(|name| !name.contains(['/', ':']));
    let detail = "is no name of a target: a request cannot say where backups lie";
    name.map(str::to_owned)
        .ok_or_else(|| ParameterError::new("target", detail))
}

fn id_of(value: &[u8]) -> Result<BackupId, ParameterError> {
    let id = std::str::from_utf8(value).ok().and_then(BackupId::parse);
    let detail = "is no name of a backup: GET /v0/admin/backups lists them";
    id.ok_or_else(|| ParameterError::new("id", detail))
}

fn count_of(name: &'static str, value: &[u8], least: usize) -> Result<usize, ParameterError> {
    let count = number_of(name, value)?;
    let count = usize::try_from(count).ok().filter(|it| *it >= least);
    let detail = format_args!("is out of range: give at least {least}");
    count.ok_or_else(|| ParameterError::new(name, detail))
}

/// `GET`, `HEAD`, `POST` and `DELETE` of `/v0/admin/backups`.
pub(in crate::http::resources) async fn answer(exchange: HttpExchange<'_>) -> Answer {
    let names: &[&str] = match exchange.verb {
        Verb::Post => &["missing_max", "adopt", "wait"],
        Verb::Delete => &["keep"],
        Verb::Get | Verb::Head | Verb::Put => &[],
    };
    let parameters = parameters(exchange.query(), names)?;
    exchange.authorize(RequestedKeys::NoKey)?;
    exchange.check_body_limit()?;
    let node = exchange.listener.worker.node();
    match exchange.verb {
        Verb::Get | Verb::Head => {
            let listed = match &parameters.target {
                Some(target) => node.list_backups(target).await,
                None => Ok(Listing::default()),
            };
            let listed = listed.map_err(|error| Problem::of_backup(&error))?;
            let unreadable = listed.unreadable.into_iter().map(|it| UnreadableBackup {
                id: it.id.to_string(),
                why: it.why,
            });
            let running = node.running_backup().map(|running| RunningBackup {
                target: running.target,
                began: rfc3339::of_unix_ms(running.began_unix_ms),
                bytes: running.bytes,
                done_bytes: running.done_bytes,
            });
            Ok(page::json(&Backups {
                running,
                backups: listed.backups.into_iter().map(Backup::from).collect(),
                unreadable: unreadable.collect(),
            }))
        }
        Verb::Post => order(&exchange, &parameters).await,
        Verb::Delete => {
            let missing = "is missing: give how many backups to keep";
            let keep = parameters
                .keep
                .ok_or_else(|| ParameterError::new("keep", missing))?;
            let pruned = node.prune_backups(parameters.target()?, keep).await;
            let pruned = pruned.map_err(|error| Problem::of_backup(&error))?;
            Ok(page::json(&PrunedBackups {
                backups: pruned.backups.iter().map(ToString::to_string).collect(),
                tables: pruned.tables,
                bytes: pruned.bytes,
            }))
        }
        // The table of resources does not let it through.
        Verb::Put => Err(Problem::method_not_allowed("GET, HEAD, POST, DELETE")),
    }
}

async fn order(exchange: &HttpExchange<'_>, parameters: &BackupParameters) -> Answer {
    let missing_max = parameters.missing_max.unwrap_or(0);
    let worker = &exchange.listener.worker;
    let adopts = parameters.adopt == Some(true);
    let ordered = worker.order_backup(parameters.target()?, missing_max, adopts);
    let (number, is_new) = ordered.map_err(|error| Problem::of_backup(&error))?;
    let end = if parameters.wait == Some(true) {
        wait(exchange, number).await
    } else {
        None
    };
    let backup = match end.map(|ended| ended.result) {
        None => None,
        Some(Ok(backup)) => Some(Backup::from(backup)),
        Some(Err(why)) => return Err(Problem::backup_failed(&why)),
    };
    let (state, status) = match &backup {
        Some(_) => ("ended", StatusCode::OK),
        None => ("running", StatusCode::ACCEPTED),
    };
    let mut page = page::json(&OrderedBackup {
        joined: !is_new,
        state,
        backup,
    });
    *page.status_mut() = status;
    Ok(page)
}

/// Waits for the end of a backup. `None`: the client has left, or the node stops.
async fn wait(exchange: &HttpExchange<'_>, number: u64) -> Option<EndedBackup> {
    let node = exchange.listener.worker.node();
    while is_still_waiting(exchange.listener, exchange.channel).await {
        if let Some(end) = node.backup_end(number) {
            return Some(end);
        }
        sleep(CHECK_PERIOD).await;
    }
    None
}

/// `POST /v0/admin/backups/verify`.
pub(in crate::http::resources) async fn verify(exchange: HttpExchange<'_>) -> Answer {
    let parameters = parameters(exchange.query(), &["id"])?;
    exchange.authorize(RequestedKeys::NoKey)?;
    exchange.check_body_limit()?;
    let node = exchange.listener.worker.node();
    let goes_on = async || is_still_waiting(exchange.listener, exchange.channel).await;
    let target = parameters.target()?;
    let verified = node.verify_backup(target, parameters.id.clone(), goes_on);
    let verified = verified.await.map_err(|error| Problem::of_backup(&error))?;
    let (backup, verified) = verified;
    Ok(page::json(&VerifiedBackup {
        backup: backup.into(),
        tables: verified.tables,
        bytes: verified.bytes,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_a_target_and_no_place() {
        let all = ["id", "keep", "missing_max", "adopt", "wait"];
        let query = "target=nas&keep=24&missing_max=1&adopt=true&wait=true";
        let read = parameters(Some(query), &all);
        let read = read.unwrap();
        assert_eq!(read.target(), Ok("nas"));
        assert_eq!((read.keep, read.missing_max), (Some(24), Some(1)));
        assert_eq!((read.adopt, read.wait), (Some(true), Some(true)));
        let long = format!("target={}", "n".repeat(TARGET_BYTES_MAX + 1));
        for query in ["", "keep=3"] {
            let read = parameters(Some(query), &all).unwrap();
            assert!(read.target().is_err(), "{query}");
        }
        for query in [
            "target=",
            "target=%2Fetc",
            "target=..%2Fx",
            "target=s3:x",
            "target=%FF",
            "target=a&target=b",
            &long,
            "target=a&keep=0",
            "target=a&keep=-1",
            "target=a&id=latest",
            "target=a&wait",
            "target=a&other=1",
        ] {
            assert!(parameters(Some(query), &all).is_err(), "{query}");
        }
        assert!(parameters(Some("target=a&keep=3"), &["wait"]).is_err());
    }
}
