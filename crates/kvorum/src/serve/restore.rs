//! `kvorum restore`: makes the data folder of one node of a new cluster of a backup.

use super::values::{BackupPlace, open_bucket};
use crate::failure::Failure;
use crate::files;
use crate::values::{member, url};
use backup::{BackupId, FolderTarget, Restore, Restored, Target};
use base::{OsRandom, Random, SystemClock};
use clap::Args;
use cli::progress::{Progress, Stage};
use cluster::{Member, Members, NodeUrl};
use lsm::RealDisk;
use std::path::PathBuf;
use std::sync::Arc;
use units::{bytes, counted};

/// The greatest share that is shown before the end.
const SHARE_MAX: f64 = 0.99;

pub(crate) const HELP: &str = "\
Examples:
  kvorum restore --from /mnt/backups --data /var/lib/kvorum --url http://10.0.1.5:8080 \
--cluster http://10.0.1.5:8080,http://10.0.1.6:8080,http://10.0.1.7:8080

Restore all nodes of one backup, with the same --cluster, then start them with the same options. A \
restore that was cut off is repeated with the same command.";

/// The options of `restore`.
#[derive(Args, Clone, Debug)]
pub(crate) struct RestoreOptions {
    /// Where the backup lies: the folder or the bucket of a --backup-target
    #[arg(long = "from", value_name = "PLACE")]
    from_place: BackupPlace,
    /// Which backup, as 'kvorum admin backup list' names it [default: the newest]
    #[arg(long, value_name = "ID")]
    backup: Option<String>,
    /// The data folder of the node: it must be empty or not exist
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The node's own URL, as it will be given to 'kvorum serve'
    #[arg(long, value_parser = url, value_name = "URL")]
    url: NodeUrl,
    /// All nodes of the new cluster, including this one, as they will be given to 'kvorum serve' [default: this node alone]
    #[arg(long, value_parser = member, value_name = "[NAME=]URL", value_delimiter = ',')]
    cluster: Vec<Member>,
    /// Which attempt it is to restore this backup to these nodes: the same number on all of them, so that they refuse what is left of an earlier one
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    attempt: u32,
}

/// Restores a node.
///
/// # Errors
/// A folder that is not empty; a backup that is not there or is damaged.
pub(crate) fn run(options: &RestoreOptions) -> Result<(), Failure> {
    let members = if options.cluster.is_empty() {
        Members::single_node(Member::unnamed(options.url.clone()))
    } else {
        Members::new(options.cluster.clone(), &options.url)
            .map_err(|error| Failure::usage(format!("--cluster: {error}")))?
    };
    let id = options.backup.as_deref().map(|name| {
        let what = "'kvorum admin backup list' prints the names of backups";
        let id = BackupId::parse(name);
        id.ok_or_else(|| Failure::usage(format!("--backup: {name} is none: {what}")))
    });
    let random = OsRandom::new()
        .map_err(|error| Failure::failed(format!("cannot draw random numbers: {error}")))?;
    let disk = Arc::new(RealDisk::default());
    let target: Arc<dyn Target> = match &options.from_place {
        BackupPlace::Folder(folder) => {
            let opened = FolderTarget::open(Arc::clone(&disk) as _, folder, random.next_u64());
            let opened = opened.map_err(|error| {
                Failure::failed(format!("cannot read {}: {error}", folder.display()))
            })?;
            Arc::new(opened)
        }
        BackupPlace::Bucket(bucket) => {
            let opened = open_bucket(bucket, &files::read);
            Arc::new(opened.map_err(Failure::failed)?)
        }
    };
    let restore = Restore {
        target,
        backup: id.transpose()?,
        members: members.names().map(str::to_owned).collect(),
        own: members.own_name().to_owned(),
        purpose: purpose(&members, options.attempt),
        folder: options.data.clone(),
        disk,
        random: Arc::new(random),
        clock: Arc::new(SystemClock::new()),
    };
    let mut progress = Progress::new();
    let restored = restore.run(&mut |done, all| {
        let (done, all) = (done as f64, all as f64);
        progress.show(|_| Stage {
            share: (all > 0.0).then(|| (done / all).min(SHARE_MAX)),
            text: format!("{} of {} restored", bytes(done), bytes(all)),
        });
    });
    progress.clear();
    let restored = restored.map_err(|error| Failure::failed(error.to_string()))?;
    crate::stdout::print_lines(lines(&restored, members.own_name()))
}

/// What tells this restore from others: where its nodes are, and which attempt it is.
fn purpose(members: &Members, attempt: u32) -> String {
    let mut urls: Vec<String> = members.iter().map(|(_, it)| it.url().to_string()).collect();
    urls.sort_unstable();
    format!("{} {attempt}", urls.join(" "))
}

fn lines(restored: &Restored, own: &str) -> Vec<String> {
    let (id, cut) = (&restored.backup.id, restored.backup.contents.cut_unix_ms);
    let what = if restored.same_nodes {
        "its own tables".to_owned()
    } else {
        format!(
            "{} of which it is a replica now",
            counted(restored.versions, "version")
        )
    };
    let mut lines = vec![format!(
        "{own} has {what}, of the backup {id} of {}: restore all other nodes of the new cluster, too, \
         before you start it",
        units::moment(cut)
    )];
    let missing = &restored.backup.contents.missing;
    if !missing.is_empty() {
        lines.push(format!(
            "the backup lacks the stores of {}",
            missing.join(", ")
        ));
    }
    lines
}
