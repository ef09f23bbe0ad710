//! A recording, from its start to its profile. There is at most one in the
//! process.

mod flame_graph;
mod profile;
mod spans;
mod symbols;

pub use profile::Profile;
pub use spans::SpanRecording;

use crate::recorder::{self, ProfileKind};
use crate::{allocator, cpu, waits};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Whether there is a [`SoleRecording`].
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The right to record, which one recording of any kind has at a time.
#[derive(Debug)]
pub(crate) struct SoleRecording(());

impl SoleRecording {
    /// Takes it, until it is dropped.
    ///
    /// # Errors
    /// [`RecordingError::Busy`].
    pub(crate) fn take() -> Result<Self, RecordingError> {
        if TAKEN.swap(true, Ordering::SeqCst) {
            Err(RecordingError::Busy)
        } else {
            Ok(Self(()))
        }
    }
}

impl Drop for SoleRecording {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::SeqCst);
    }
}

/// Why a recording cannot start.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// Another recording of any kind is running.
    #[error("another profile is being recorded: try again when it is done")]
    Busy,
    /// Allocations do not pass through [`crate::Allocator`].
    #[error("this program was built without the sampling allocator")]
    NoAllocator,
    /// The system refused the timer or the signal handler.
    #[error("the system cannot sample: {0}")]
    System(#[from] io::Error),
}

/// A running recording, until it is [finished](Recording::finish) or dropped.
#[derive(Debug)]
pub struct Recording {
    kind: ProfileKind,
    began: Instant,
    /// Given back when the recording is dropped, after it has stopped.
    _sole: SoleRecording,
}

impl Recording {
    /// Starts recording in all threads of the process. May take some
    /// milliseconds the first time.
    ///
    /// # Errors
    /// See [`RecordingError`].
    pub fn start(kind: ProfileKind) -> Result<Self, RecordingError> {
        // Dropping the recording allows the next one.
        let recording = Self {
            _sole: SoleRecording::take()?,
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

    /// Ends the recording and turns it into a profile. Blocks for about a
    /// second, because addresses are looked up in the debug information of the
    /// program.
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
    }
}
