//! One recording at a time, in the whole process: from its start to its profile.

use crate::profile::Profile;
use crate::recorder::{self, ProfileKind};
use crate::{allocator, cpu, symbols, waits};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Whether there is a [`Recording`].
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Why a recording cannot be.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// There is one already, of whatever kind.
    #[error("another profile is being recorded: try again when it is done")]
    Busy,
    /// Allocations do not pass through [`crate::Allocator`].
    #[error("this program was built without the allocator that counts")]
    NoAllocator,
    /// The system refused a timer or a signal handler.
    #[error("the system cannot sample: {0}")]
    System(#[from] io::Error),
}

/// What is being recorded, until it is [finished](Recording::finish) or dropped.
#[derive(Debug)]
pub struct Recording {
    kind: ProfileKind,
    began: Instant,
}

impl Recording {
    /// Begins to record, in all threads of the process. May take some
    /// milliseconds the first time.
    ///
    /// # Errors
    /// See [`RecordingError`].
    pub fn start(kind: ProfileKind) -> Result<Self, RecordingError> {
        if TAKEN.swap(true, Ordering::SeqCst) {
            return Err(RecordingError::Busy);
        }
        // From here on its drop lets the next one in.
        let recording = Self {
            kind,
            began: Instant::now(),
        };
        recorder::clear();
        waits::clear();
        recorder::begin(kind);
        match kind {
            ProfileKind::Cpu => cpu::start()?,
            ProfileKind::Allocations if !allocator::is_installed() => {
                return Err(RecordingError::NoAllocator);
            }
            ProfileKind::Allocations | ProfileKind::Waits => {}
        }
        Ok(recording)
    }

    /// Ends the recording and makes a profile of it. Blocks, for a second or
    /// so: addresses are looked up in the debugging information of the program.
    #[must_use]
    pub fn finish(self) -> Profile {
        self.stop();
        let took = self.began.elapsed();
        let (sums, lost) = recorder::sums();
        let mut lines = symbols::fold(self.kind, &sums);
        for (frames, weight) in waits::sums() {
            *lines.entry(frames).or_default() += weight;
        }
        if lost > 0 {
            lines.insert("(stacks beyond what a recording holds)".to_owned(), lost);
        }
        Profile::new(self.kind, took, lines)
    }

    fn stop(&self) {
        recorder::end();
        if self.kind == ProfileKind::Cpu {
            cpu::stop();
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.stop();
        TAKEN.store(false, Ordering::SeqCst);
    }
}
