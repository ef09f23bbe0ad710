//! The interface between an import and its caller: options, progress, errors.

use crate::error::Error;
use crate::query::Replicas;
use serde::{Deserialize, Serialize};
use std::io;
use std::num::NonZeroUsize;
use std::time::Duration;

/// What is done with the key of each line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImportOperation {
    /// It gets the value of the line.
    #[default]
    Put,
    /// It gets the value of the line if it still has the version of the line: what has changed since
    /// stays as it is.
    PutIfUnchanged,
    /// It is deleted; a value is ignored.
    Delete,
}

/// How lines are imported.
#[derive(Clone, Copy, Debug)]
pub struct ImportSettings {
    /// What is done with each line.
    pub operation: ImportOperation,
    /// How many replicas must answer.
    pub replicas: Replicas,
    /// How many batches to send at a time.
    pub shards: NonZeroUsize,
    /// How long a batch is repeated while none of its lines is stored.
    pub patience: Duration,
    /// Whether a line that cannot be stored is reported and passed over, rather than the
    /// end of the import.
    pub passes_over: bool,
}

/// How far an import is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportProgress {
    /// All lines before it are stored, or were reported.
    pub position: Position,
    /// How many lines this run has stored.
    pub stored: u64,
}

/// Lines that are sent again and again, because no node stores them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The number of the first line, from 1.
    pub line: u64,
    /// How many more lines of its batch are not stored.
    pub more: usize,
    /// How long they were tried.
    pub waited: Duration,
    /// What the nodes say.
    pub problem: String,
}

impl Waiting {
    /// The lines as the beginning of a sentence.
    pub fn lines(&self) -> String {
        match self.more {
            0 => format!("line {} is", self.line),
            more => format!("line {} and {more} more are", self.line),
        }
    }
}

/// A line that is not stored, and never will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineFailure {
    /// Its number, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub problem: String,
}

/// Hears of the progress of an import, now and then and at its end.
pub trait ImportObserver {
    /// The import is so far; `is_last` tells its end.
    ///
    /// # Errors
    /// The position cannot be kept: the import ends.
    fn progress(&mut self, progress: &ImportProgress, is_last: bool) -> io::Result<()>;

    /// A line was passed over. Not all of them may be told.
    fn passed_over(&mut self, failure: &LineFailure);

    /// Some lines are sent again at this moment. Of all such lines these were tried the longest.
    fn waits(&mut self, waiting: &Waiting);
}

/// Why an import has ended early. The position says from where on to go on.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The input cannot be read.
    #[error("cannot read the input: {0}")]
    Input(io::Error),
    /// The input does not begin with what stands before the position.
    #[error(
        "the input differs from the one whose position was kept, within its first {} bytes",
        .0.bytes
    )]
    OtherInput(Position),
    /// A line cannot be stored.
    #[error("line {}: {}", .0.line, .0.problem)]
    Line(LineFailure),
    /// The nodes refuse batches.
    #[error("{0}")]
    Refused(Error),
    /// No node has stored a line of a batch for too long.
    #[error(
        "{} not stored after {} s: {}",
        .0.lines(), .0.waited.as_secs(), .0.problem
    )]
    GaveUp(Waiting),
    /// The observer cannot keep the position.
    #[error("cannot save the position: {0}")]
    Observer(io::Error),
}

/// A place between two lines of an input, with what identifies the input up to there.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Position {
    /// How many lines stand before it.
    pub lines: u64,
    /// How many bytes stand before it.
    pub bytes: u64,
    /// Their checksum.
    pub crc32c: u32,
    /// How many of the lines were passed over, because they cannot be stored.
    pub passed_over: u64,
}
