//! Problems of what operators ask for: repairs, compactions, profiles, and whether the node is
//! ready.

use super::Problem;
use api::problem_type::{
    BACKUP_FAILED, BACKUP_RUNNING, CHANGE_NOT_DECIDED, CHANGE_REFUSED, CLIENT_LEFT,
    COMPACTION_FAILED, COPY_NOT_COMPARED, NO_OTHER_NODES, NO_SUCH_BACKUP, NO_SUCH_COPY, NOT_READY,
    PROFILE_FAILED, PROFILE_RUNNING, PROFILE_UNAVAILABLE, SET_ASIDE_FAILED,
};
use node::{BackupError, ChangeRefusal};
use std::borrow::Cow;

impl Problem {
    /// A repair on a node alone.
    pub(crate) fn no_other_nodes() -> Self {
        Self::new(
            &NO_OTHER_NODES,
            "a repair compares the nodes of a cluster, and this node is alone: there is nothing \
             to do",
        )
    }

    /// A compaction that an operator asked for did not end well.
    pub(super) fn compaction_failed(error: &lsm::Error) -> Self {
        Self::new(
            &COMPACTION_FAILED,
            format!(
                "the compaction failed, but nothing is lost: {error}. Fix the cause, then order \
                 it again"
            ),
        )
    }

    /// A copy to restore that is not set aside, or not needed.
    pub(crate) fn no_such_copy() -> Self {
        Self::new(
            &NO_SUCH_COPY,
            "this node has set aside no copy of this key that is needed: either it has none, or a \
             node holds the same version or a newer one",
        )
    }

    /// A copy to restore that not all nodes could be asked about.
    pub(crate) fn copy_not_compared() -> Self {
        Self::new(
            &COPY_NOT_COMPARED,
            "a node that did not answer may hold a newer version of this key: nothing was written. \
             Try again once all nodes are up and none is being rebuilt",
        )
    }

    /// What was set aside could not be read or discarded.
    pub(super) fn set_aside_failed(error: &lsm::Error) -> Self {
        Self::new(
            &SET_ASIDE_FAILED,
            format!("the store cannot read or discard what it has set aside: {error}"),
        )
    }

    /// A backup that was ordered has failed.
    pub(crate) fn backup_failed(why: &str) -> Self {
        Self::new(
            &BACKUP_FAILED,
            format!("the backup failed, and earlier ones are as they were: {why}"),
        )
    }

    /// Backups cannot be made, listed, verified or removed.
    pub(crate) fn of_backup(error: &BackupError) -> Self {
        let detail = error.to_string();
        match error {
            BackupError::Busy(_) => Self::new(&BACKUP_RUNNING, detail),
            BackupError::NotFound(_) | BackupError::NoTarget(_) => {
                Self::new(&NO_SUCH_BACKUP, detail)
            }
            _ => Self::new(&BACKUP_FAILED, detail),
        }
    }

    /// The list of members is not changed, or perhaps not.
    pub(crate) fn of_member_change(refusal: &ChangeRefusal) -> Self {
        let detail = refusal.to_string();
        match refusal {
            ChangeRefusal::NoMajority => Self::new(&CHANGE_NOT_DECIDED, detail),
            _ => Self::new(&CHANGE_REFUSED, detail),
        }
    }

    /// A change of the members would fill the disk of a node.
    pub(crate) fn full_disk(name: &str, percent: u64) -> Self {
        let detail = format!(
            "{percent}% of the disk of {name} would be taken: give it a larger one, or let more \
             nodes join in the same change. 'full_disks=true' (--force) makes the change all the \
             same"
        );
        Self::new(&CHANGE_REFUSED, detail)
    }

    /// A token that the nodes share was not changed.
    pub(crate) fn token_not_shared(why: &str) -> Self {
        Self::new(&CHANGE_REFUSED, format!("the token is not changed: {why}"))
    }

    /// Another profile is being recorded.
    pub(super) fn profile_running(detail: String) -> Self {
        Self::new(&PROFILE_RUNNING, detail)
    }

    /// The program cannot record this kind of profile.
    pub(super) fn profile_unavailable(detail: String) -> Self {
        Self::new(&PROFILE_UNAVAILABLE, detail)
    }

    /// The profile was lost, or the system refused to record it.
    pub(crate) fn profile_failed(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(&PROFILE_FAILED, detail)
    }

    /// The client left while its profile was recorded, or its digest or count made.
    pub(crate) fn client_left() -> Self {
        Self::new(
            &CLIENT_LEFT,
            "the client closed its side, which ends a profile, a digest or a count: keep the connection open",
        )
    }

    /// The node should get no requests now.
    pub(crate) fn not_ready(reasons: &[String]) -> Self {
        Self::new(&NOT_READY, reasons.join("; "))
    }
}
