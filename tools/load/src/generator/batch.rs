//! Batches: many operations in one request, and the answers to them.
//!
//! ```text
//! {"op":"put","key":"000000012345k---","value_base64":"…"}   {"status":201,"version":"…"}
//! {"op":"get","key":"000000012345k---"}                      {"status":200,"version":"…","value_base64":"…"}
//! ```

use super::recorder::FailureKind;
use crate::plan::Operation;
use crate::workload::values::Verifier;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use std::borrow::Cow;
use std::io::Write as _;

/// Operations, with the numbers of their keys.
pub(super) type Operations = Vec<(Operation, u64)>;

/// The operations of a batch that is on its way, and the answers to them.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    /// The operations.
    pub(super) operations: Operations,
    /// The lines that have arrived.
    pub(super) answers: Vec<u8>,
}

/// Appends the lines of a batch to a request that does not end.
pub(super) fn put_chunk(lines: &[u8], to: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = write!(to, "{:x}\r\n", lines.len());
    to.extend_from_slice(lines);
    to.extend_from_slice(b"\r\n");
}

/// What the answers to a batch say.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct BatchResult {
    /// Why the first operation that failed did.
    pub(super) failure: Option<FailureKind>,
    /// How many reads found nothing.
    pub(super) missing: u64,
}

/// Appends the line of an operation; `value` is that of a put.
pub(super) fn put_line(
    operation: Operation,
    key: &[u8],
    value: &[u8],
    ttl_seconds: Option<u64>,
    to: &mut Vec<u8>,
) {
    let name: &[u8] = match operation {
        Operation::Put | Operation::Insert => b"put",
        Operation::Delete => b"delete",
        _ => b"get",
    };
    to.extend_from_slice(b"{\"op\":\"");
    to.extend_from_slice(name);
    to.extend_from_slice(b"\",\"key\":\"");
    to.extend_from_slice(key);
    if name == b"put" {
        to.extend_from_slice(b"\",\"value_base64\":\"");
        let begin = to.len();
        to.resize(begin + value.len().div_ceil(3) * 4, 0);
        // There is room for all of it.
        let _ = BASE64.encode_slice(value, &mut to[begin..]);
        if let Some(seconds) = ttl_seconds {
            // Writing to memory does not fail.
            let _ = writeln!(to, "\",\"ttl\":{seconds}}}");
            return;
        }
    }
    to.extend_from_slice(b"\"}\n");
}

/// An answer with a value.
#[derive(Deserialize)]
struct Found<'a> {
    #[serde(borrow, default)]
    value: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    value_base64: Option<Cow<'a, str>>,
}

impl Batch {
    /// Where the lines end that answer its operations, once they are all here.
    pub(super) fn answers_end(&self) -> Option<usize> {
        let mut ends = memchr::memchr_iter(b'\n', &self.answers);
        Some(ends.nth(self.operations.len().checked_sub(1)?)? + 1)
    }

    /// Judges the answers. `verifier` gives the verifier of the value of a key, if values
    /// are verified.
    pub(super) fn judge(
        &self,
        may_be_empty: bool,
        mut verifier: impl FnMut(u64) -> Option<Verifier>,
    ) -> BatchResult {
        let mut result = BatchResult::default();
        let mut lines = self.answers.split_inclusive(|byte| *byte == b'\n');
        for (operation, number) in &self.operations {
            let Some(status) = lines.next().and_then(|line| Some((status_of(line)?, line))) else {
                result.failure.get_or_insert(FailureKind::BadResponse);
                break;
            };
            let (status, line) = status;
            let reads = matches!(operation, Operation::Get | Operation::GetMissing);
            let mut is_verified = || match operation {
                Operation::GetMissing => false,
                Operation::Get => {
                    verifier(*number).is_none_or(|verifier| is_right(line, verifier, may_be_empty))
                }
                _ => true,
            };
            let failure = match status {
                404 if reads => {
                    result.missing += 1;
                    continue;
                }
                status if status != operation.success_status() => FailureKind::Status(status),
                _ if is_verified() => continue,
                _ => FailureKind::WrongValue,
            };
            result.failure.get_or_insert(failure);
        }
        if result.failure.is_none() && lines.next().is_some() {
            result.failure = Some(FailureKind::BadResponse);
        }
        result
    }
}

/// The status of an answer, which stands first.
fn status_of(line: &[u8]) -> Option<u16> {
    let digits = line.strip_prefix(b"{\"status\":")?.first_chunk::<3>()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Whether the value in an answer is right.
fn is_right(line: &[u8], mut verifier: Verifier, may_be_empty: bool) -> bool {
    let Ok(found) = serde_json::from_slice::<Found<'_>>(line) else {
        return false;
    };
    match (found.value, found.value_base64) {
        (Some(text), None) => verifier.take(text.as_bytes()),
        (None, Some(base64)) => match BASE64.decode(&*base64) {
            Ok(value) => verifier.take(&value),
            Err(_) => return false,
        },
        _ => return false,
    }
    verifier.is_right(may_be_empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::values;

    fn batch(operations: &[Operation], answers: &str) -> Batch {
        Batch {
            operations: operations.iter().map(|operation| (*operation, 7)).collect(),
            answers: answers.as_bytes().to_vec(),
        }
    }

    #[test]
    fn operations_are_lines_as_a_node_expects_them() {
        for (operation, value, ttl, line) in [
            (
                Operation::Put,
                &b"\xff\xfe"[..],
                None,
                r#"{"op":"put","key":"k","value_base64":"//4="}"#,
            ),
            (
                Operation::Insert,
                b"",
                Some(9),
                r#"{"op":"put","key":"k","value_base64":"","ttl":9}"#,
            ),
            (Operation::Get, b"", Some(9), r#"{"op":"get","key":"k"}"#),
            (
                Operation::GetMissing,
                b"",
                None,
                r#"{"op":"get","key":"k"}"#,
            ),
            (Operation::Delete, b"", None, r#"{"op":"delete","key":"k"}"#),
        ] {
            let mut to = Vec::new();
            put_line(operation, b"k", value, ttl, &mut to);
            assert_eq!(String::from_utf8(to).unwrap(), format!("{line}\n"));
        }
    }

    #[test]
    fn a_batch_fails_with_the_first_operation_that_does() {
        use Operation::{Delete, Get, GetMissing, Put};
        let written = "{\"status\":201,\"version\":\"1\"}\n";
        let deleted = "{\"status\":202,\"version\":\"1\"}\n";
        let absent = "{\"status\":404,\"problem\":{}}\n";
        let found = "{\"status\":200,\"version\":\"1\",\"value\":\"v\"}\n";
        let failed = "{\"status\":504,\"problem\":{}}\n";
        let status = |status| Some(FailureKind::Status(status));
        for (operations, answers, failure, missing) in [
            (&[][..], String::new(), None, 0),
            (&[Put, Delete], format!("{written}{deleted}"), None, 0),
            (&[Get, GetMissing], absent.repeat(2), None, 2),
            (&[Get], found.to_owned(), None, 0),
            (
                &[GetMissing],
                found.to_owned(),
                Some(FailureKind::WrongValue),
                0,
            ),
            (&[Put, Put], format!("{written}{failed}"), status(504), 0),
            (&[Put, Get], format!("{found}{found}"), status(200), 0),
            (&[Delete], written.to_owned(), status(201), 0),
            (&[Delete], absent.to_owned(), status(404), 0),
            (
                &[Put, Put],
                written.to_owned(),
                Some(FailureKind::BadResponse),
                0,
            ),
            (&[Put], written.repeat(2), Some(FailureKind::BadResponse), 0),
            (
                &[Put],
                "nonsense\n".to_owned(),
                Some(FailureKind::BadResponse),
                0,
            ),
        ] {
            let result = batch(operations, &answers).judge(false, |_| None);
            assert_eq!(result, BatchResult { failure, missing }, "{answers}");
        }
    }

    #[test]
    fn values_are_verified() {
        let mut value = Vec::new();
        values::write(b"key", 20, &mut fastrand::Rng::with_seed(1), &mut value);
        let line = format!(
            "{{\"status\":200,\"version\":\"1\",\"value_base64\":\"{}\"}}\n",
            BASE64.encode(&value)
        );
        let found = batch(&[Operation::Get], &line);
        let with = |key: &'static [u8]| found.judge(false, |_| Some(Verifier::new(key)));
        assert_eq!(with(b"key").failure, None);
        assert_eq!(with(b"kex").failure, Some(FailureKind::WrongValue));
    }
}
