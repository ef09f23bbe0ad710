//! Problems of batches and of their lines.

use super::Problem;
use api::problem_type::{ANSWER_TOO_LONG, BAD_LINE, BATCH_TOO_LONG, LINE_TOO_LONG, VALUE_TOO_LONG};

impl Problem {
    /// A batch whose length is announced is longer than that.
    pub(crate) fn batch_too_long(bytes_max: usize) -> Self {
        Self::new(
            &BATCH_TOO_LONG,
            format!(
                "a batch with Content-Length may have at most {bytes_max} bytes: send several \
                 batches, or send it chunked and read the answers meanwhile"
            ),
        )
    }

    /// A line of a batch is no operation, so the batch ends with it.
    pub(crate) fn bad_line(line: u64, detail: &str) -> Self {
        let mut problem = Self::new(
            &BAD_LINE,
            format!(
                "line {line} is not an operation: {detail}. The batch ends here: correct the \
                 line, then send it and the lines after it again"
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
                "line {line} is longer than {bytes_max} bytes, so it was skipped: send a shorter \
                 value, or send it in base64 if JSON escapes many of its characters"
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
                "line {line} has a value of more than {value_bytes_max} bytes, so it was skipped: \
                 send a shorter value"
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
                "this value does not fit into the answer, which has at most {bytes_max} bytes for \
                 a batch with Content-Length: get it alone, or send the batch chunked"
            ),
        )
    }
}
