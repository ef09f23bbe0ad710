//! A recording of spans, from its start to its text.

use super::{RecordingError, SoleRecording};
use crate::{recorder, spans};

/// A running recording of spans, until it is [finished](SpanRecording::finish) or dropped.
#[derive(Debug)]
pub struct SpanRecording {
    /// Given back when the recording is dropped, after it has stopped.
    _sole: SoleRecording,
}

impl SpanRecording {
    /// Starts recording in all threads of the process.
    ///
    /// # Errors
    /// [`RecordingError::Busy`]: another recording is running.
    pub fn start() -> Result<Self, RecordingError> {
        let recording = Self {
            _sole: SoleRecording::take()?,
        };
        recorder::wait_for_quiet();
        spans::clear();
        recorder::begin_spans();
        Ok(recording)
    }

    /// Ends the recording and gives it as text. Each line is one of these, in no order:
    ///
    /// ```text
    /// span BEGAN ENDED THREAD TAG NAME OF THE SITE
    /// steps CONNECTION THREAD TAG TIME TIME …
    /// left-out SPANS REQUESTS
    /// ```
    #[must_use]
    pub fn finish(self) -> String {
        recorder::end();
        recorder::wait_for_quiet();
        spans::text()
    }
}

impl Drop for SpanRecording {
    fn drop(&mut self) {
        recorder::end();
        recorder::wait_for_quiet();
        spans::clear();
    }
}
