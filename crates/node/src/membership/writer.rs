//! Writes the file `CLUSTER` in the background, and reports what is durable.

use super::MembershipInner;
use lsm::{Error, Lane};
use profile::lock;
use std::sync::Arc;
use std::time::Duration;

/// After how long a write that failed is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(5);

impl MembershipInner {
    /// Schedules a write after `delay`. At most one write is scheduled at a time;
    /// see [`FileVersions::schedule_write`](super::file_versions::FileVersions::schedule_write).
    pub(super) fn spawn_write(self: &Arc<Self>, delay: Duration) {
        let inner = Arc::downgrade(self);
        let job = Box::new(move || {
            if let Some(inner) = inner.upgrade() {
                inner.write();
            }
        });
        self.environment.executor.spawn(Lane::Owner, delay, job);
    }

    /// The write job: makes all changes durable, and calls what waits for them.
    fn write(self: &Arc<Self>) {
        let is_closed = lock(&self.is_file_closed);
        let (file, version) = {
            let mut state = lock(&self.state);
            let version = state.versions.begin_write();
            (state.to_file(&self.own), version)
        };
        let result = if *is_closed {
            Err(Error::Closed)
        } else {
            file.store(&*self.environment.disk, &self.environment.folder)
        };
        let is_retried = !*is_closed && result.is_err();
        drop(is_closed);
        if let Err(error) = &result {
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
                state.became_durable(version, file.standing);
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
    }

    /// Ends all writing to the folder. Blocks while a write is running.
    pub(super) fn close_file(&self) {
        *lock(&self.is_file_closed) = true;
    }
}
