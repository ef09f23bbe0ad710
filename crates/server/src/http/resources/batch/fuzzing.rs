//! What fuzzers do with the lines of a batch: see `crate::fuzzing`.

use super::lines::{LineText, Lines};
use super::operation::{Action, Operation, TextMemory};
use crate::admission::Uploads;
use api::rfc3339;
use base::{KEY_BYTES_MAX, LONG_VALUE_BYTES};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use cluster::Matches;
use node::Expires;
use serde_json::{Value, json};
use std::time::Duration;

/// The longest line, and so the longest value, in bytes.
const LINE_BYTES_MAX: usize = 1 << 10;

/// The memory for lines that arrive in pieces: enough for any of them.
const MEMORY_BYTES: usize = 1 << 20;

/// Takes bytes as the body of a batch, whose first byte says in which pieces the rest
/// arrives. The lines do not depend on that, and an operation is what it is read as: written
/// again it is the same.
pub(crate) fn fuzz_batch(bytes: &[u8]) {
    let Some((piece_bytes, body)) = bytes.split_first() else {
        return;
    };
    let whole = lines_of(body, body.len().max(1));
    let pieces = lines_of(body, usize::from(*piece_bytes) + 1);
    assert_eq!(
        whole, pieces,
        "the lines depend on the sizes in which their bytes arrive"
    );
    for (_, line) in whole {
        if let Some(line) = line {
            fuzz_operation(&Bytes::from(line));
        }
    }
}

/// Takes bytes as a line. Returns whether it is an operation.
pub(crate) fn fuzz_operation(line: &Bytes) -> bool {
    let Ok(operation) = Operation::read(line, line.len(), TextMemory::Line) else {
        return false;
    };
    assert!((1..=KEY_BYTES_MAX).contains(&operation.key.len()));
    if let Some(line) = line_of(&operation) {
        assert_eq!(
            Operation::read(&Bytes::from(line), usize::MAX, TextMemory::Own),
            Ok(operation)
        );
    }
    true
}

/// The numbers and the bytes of the lines of a body; none of a line that is too long.
fn lines_of(body: &[u8], piece_bytes: usize) -> Vec<(u64, Option<Vec<u8>>)> {
    let uploads = Uploads::new((LONG_VALUE_BYTES, MEMORY_BYTES), 0, Duration::ZERO);
    let mut lines = Lines::new(LINE_BYTES_MAX, None);
    let mut found = Vec::new();
    for piece in body.chunks(piece_bytes) {
        lines.push(Bytes::copy_from_slice(piece));
        while let Some(line) = lines.next(&uploads) {
            found.push(line);
        }
    }
    found.extend(lines.last());
    let found = found.into_iter().map(|line| match line.text {
        LineText::Whole(text, _) => (line.number, Some(text.to_vec())),
        LineText::TooLong | LineText::Refused => (line.number, None),
    });
    let found = found.collect();
    assert_eq!(uploads.used(), 0, "what a line took is free again");
    found
}

/// An operation as a line; `None` for an expiry that no line can say.
fn line_of(operation: &Operation) -> Option<String> {
    let mut line = json!({"key_base64": BASE64.encode(&operation.key)});
    let mut set = |name: &str, value: Value| line[name] = value;
    let expires = match &operation.action {
        Action::Get => {
            set("op", "get".into());
            Expires::Never
        }
        Action::Delete => {
            set("op", "delete".into());
            Expires::Never
        }
        Action::Touch { expires } => {
            set("op", "put".into());
            set("touch", true.into());
            *expires
        }
        Action::Put { value, expires } => {
            set("op", "put".into());
            set("value_base64", BASE64.encode(value).into());
            *expires
        }
    };
    match expires {
        Expires::Never => {}
        Expires::AfterSeconds(seconds) => set("ttl", seconds.into()),
        Expires::AtUnixMs(unix_ms) => {
            let text = rfc3339::of_unix_ms(unix_ms);
            // A year above 9999 is written as the last one.
            if rfc3339::unix_ms_of(&text) != Some(unix_ms) {
                return None;
            }
            set("expires", text.into());
        }
    }
    match operation.condition.as_deref().map(|given| &given.matches) {
        Some(Some(Matches::Versions(versions))) => {
            set("if_version", versions[0].to_string().into());
        }
        Some(_) => set("if_absent", true.into()),
        None => {}
    }
    Some(line.to_string())
}
