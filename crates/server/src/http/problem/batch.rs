//! Problems of batches and of their lines.

use super::Problem;
use api::problem_type::{ANSWER_TOO_LONG, BAD_LINE, BATCH_TOO_LONG, LINE_TOO_LONG, VALUE_TOO_LONG};

impl Problem {
    /// A batch whose length is announced is longer than that.
    pub(crate) fn batch_too_long(bytes_max: usize) -> Self {
        Self::new(
            &BATCH_TOO_LONG,
            format!(
                "a batch with Content-Length may have {bytes_max} bytes: send several, or send \
                 it chunked and read the answers meanwhile"
            ),
        )
    }

    /// A line of a batch is no operation, so the batch ends with it.
    pub(crate) fn bad_line(line: u64, detail: &str) -> Self {
        let mut problem = Self::new(
            &BAD_LINE,
            format!(
                "line {line} is no operation: {detail}. The batch ends here: correct the line, \
                 and send it and those after it again"
            ),
        );
        problem.line = Some(line);
        problem
    }

    /// A line of a batch is longer than any operation.
    pub(crate) fn line_too_long(line: u64, bytes_max: usize) -> Self {
        let mut problem = Self::new(
            &LINE_TOO_LONG,
            format!(
                "line {line} is longer than {bytes_max} bytes, so it was passed over: send a \
                 shorter value, in base64 if it has many characters that JSON escapes"
            ),
        );
        problem.line = Some(line);
        problem
    }

    /// The value of a line of a batch is longer than a value may be.
    pub(crate) fn line_value_too_long(line: u64, value_bytes_max: usize) -> Self {
        let mut problem = Self::new(
            &VALUE_TOO_LONG,
            format!(
                "line {line} has a value of more than {value_bytes_max} bytes, so it was passed \
                 over: send a shorter value"
            ),
        );
        problem.line = Some(line);
        problem
    }

    /// The answer to a batch whose length is announced has no room for a value.
    pub(crate) fn answer_too_long(bytes_max: usize) -> Self {
        Self::new(
            &ANSWER_TOO_LONG,
            format!(
                "the answer to a batch with Content-Length has {bytes_max} bytes at most, and \
                 this value is beyond: get it alone, or send the batch chunked"
            ),
        )
    }
}
