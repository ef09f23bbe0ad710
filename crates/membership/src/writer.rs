//! Writes the file `CLUSTER` in the background, and reports what is durable.

use super::MembershipInner;
use lsm::{Error, JobClass};
use profile::lock;
use std::sync::Arc;
use std::time::Duration;

/// After how long a write that failed is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// How long what peers have acknowledged is only in memory, at most. It changes with
/// each write, and a crash that forgets some of it makes a rollback harder to notice, no
/// more.
const COUNT_WRITE_DELAY: Duration = Duration::from_secs(10);

impl MembershipInner {
    /// Schedules a write after `delay`. At most one write is scheduled at a time;
    /// see [`FileVersions::schedule_write`](super::file_versions::FileVersions::schedule_write).
    pub(super) fn spawn_write(self: &Arc<Self>, delay: Duration) {
        let inner = Arc::downgrade(self);
        let job = Box::new(move || {
            if let Some(inner) = inner.upgrade() {
                // It is tried again.
                let _is_written = inner.write();
            }
        });
        self.environment.executor.spawn(JobClass::Owner, delay, job);
    }

    /// Makes all changes durable, and calls what waits for them. Blocks.
    ///
    /// # Errors
    /// As [`ClusterFile::store`](super::cluster_file::ClusterFile::store). It is tried again then.
    pub(super) fn write(self: &Arc<Self>) -> Result<(), Error> {
        let is_closed = lock(&self.is_file_closed);
        let (file, version) = {
            let mut state = lock(&self.state);
            let version = state.versions.begin_write();
            (state.next_file(&self.own, false), version)
        };
        let result = if *is_closed {
            Err(Error::Closed)
        } else {
            file.store(&*self.environment.disk, &self.environment.folder)
        };
        let is_retried = !*is_closed && result.is_err();
        drop(is_closed);
        // A write that was on its way when the node stopped has failed, too, and nothing is
        // missing: the last write holds all.
        if is_retried && let Err(error) = &result {
            tracing::error!(
                %error,
                "cannot write the file CLUSTER, so peers that have restarted cannot connect; \
                 trying again in a few seconds"
            );
        }
        let (ended, schedule) = {
            let mut state = lock(&self.state);
            let ended = state.versions.end_write(version, result.is_ok());
            if result.is_ok() {
                if state.became_durable(version, &file) {
                    self.list_changed.notify_one();
                }
                self.publish(&state);
            }
            let schedule = is_retried && state.versions.schedule_retry();
            (ended, schedule)
        };
        if schedule {
            self.spawn_write(RETRY_DELAY);
        }
        for on_durable in ended {
            on_durable(result.is_ok());
        }
        result
    }

    /// Schedules a job that has the counts of the peers written.
    pub(super) fn spawn_count_write(self: &Arc<Self>) {
        let inner = Arc::downgrade(self);
        let job = Box::new(move || {
            let Some(inner) = inner.upgrade() else { return };
            let schedule = {
                let mut state = lock(&inner.state);
                state.change_counts();
                state.versions.schedule_write()
            };
            if schedule {
                inner.spawn_write(Duration::ZERO);
            }
        });
        let executor = &self.environment.executor;
        executor.spawn(JobClass::Owner, COUNT_WRITE_DELAY, job);
    }

    /// Writes the file for the last time: the store is closed. Blocks.
    ///
    /// # Errors
    /// As [`ClusterFile::store`](super::cluster_file::ClusterFile::store).
    pub(super) fn write_closed(&self) -> Result<(), Error> {
        let file = lock(&self.state).next_file(&self.own, true);
        file.store(&*self.environment.disk, &self.environment.folder)
    }

    /// Ends the writing of changes. Blocks while a write is running.
    /// Returns whether it had not ended before.
    pub(super) fn close_file(&self) -> bool {
        !std::mem::replace(&mut *lock(&self.is_file_closed), true)
    }
}
