//! Counts the changes to the contents of the file `CLUSTER`, and which of them are durable.

/// Called once, from any thread, with whether a change is durable. If it is not,
/// the connection that waits for the change must not be used.
pub(crate) type OnDurable = Box<dyn FnOnce(bool) + Send>;

/// Versions of the file's content. Each change makes a new version, and a write
/// makes all versions up to its own durable.
#[derive(Default)]
pub(super) struct FileVersions {
    current: u64,
    durable: u64,
    is_write_scheduled: bool,
    /// What waits for a version to become durable.
    waiting: Vec<(u64, OnDurable)>,
}

impl FileVersions {
    /// Counts a change; returns the version that has it.
    pub(super) fn change(&mut self) -> u64 {
        self.current += 1;
        self.current
    }

    /// The version that has all changes so far.
    pub(super) fn latest(&self) -> u64 {
        self.current
    }

    /// Whether a version is durable.
    pub(super) fn is_durable(&self, version: u64) -> bool {
        version <= self.durable
    }

    /// Calls `on_durable` when a write of this version has succeeded or failed.
    pub(super) fn wait_for(&mut self, version: u64, on_durable: OnDurable) {
        self.waiting.push((version, on_durable));
    }

    /// Whether to schedule a write now: there are changes to write, and no write
    /// is scheduled. If so, a write counts as scheduled from now on.
    pub(super) fn schedule_write(&mut self) -> bool {
        self.durable < self.current && self.schedule_retry()
    }

    /// Whether to schedule a write after one that failed: no write is scheduled.
    pub(super) fn schedule_retry(&mut self) -> bool {
        !std::mem::replace(&mut self.is_write_scheduled, true)
    }

    /// The version that a write which begins now makes durable.
    pub(super) fn begin_write(&mut self) -> u64 {
        self.is_write_scheduled = false;
        self.current
    }

    /// Ends a write of this version; returns what waited for it.
    pub(super) fn end_write(&mut self, version: u64, succeeded: bool) -> Vec<OnDurable> {
        if succeeded {
            self.durable = version;
        }
        let (ended, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|(wanted, _)| *wanted <= version);
        self.waiting = waiting;
        let ended: Vec<(u64, OnDurable)> = ended;
        ended
            .into_iter()
            .map(|(_, on_durable)| on_durable)
            .collect()
    }
}
