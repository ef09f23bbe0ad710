//! A line of a batch as an operation:
//!
//! ```text
//! {"op":"put","key":"k","value":"v"}
//! {"op":"put","key_base64":"/w==","value_base64":"//4=","ttl":60}
//! {"op":"put","key":"k","value":"v","expires":"2026-11-22T16:00:00Z"}
//! {"op":"get","key":"k"}
//! {"op":"delete","key":"k"}
//! ```
//!
//! A field that is unknown, given twice, or no part of the operation makes the line
//! malformed: a typing error must not change what is stored. Text without escapes is a part
//! of a line whose memory counts. Otherwise it is copied, because a part would keep all of what
//! hyper has read at a time, of which the line may be the least.

mod fields;

use crate::http::query::keys::check_key;
use crate::http::resources::entity::TTL_SECONDS_MAX;
use crate::http::rfc3339;
use crate::metrics::OperationKind;
use base::Share;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use fields::{Fields, Text};
use node::Expires;
use std::borrow::Cow;
use tokens::Need;

/// An operation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Operation {
    /// The key.
    pub(super) key: Bytes,
    /// What is done with it.
    pub(super) action: Action,
}

/// What an operation does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Writes a value.
    Put {
        /// The value.
        value: Bytes,
        /// When the version expires.
        expires: Expires,
    },
    /// Reads the value.
    Get,
    /// Deletes the key.
    Delete,
}

/// Where the text of an operation lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextMemory {
    /// In the line.
    Line,
    /// In memory of its own.
    Own,
}

impl TextMemory {
    /// Where that of an operation lies whose line has this share.
    pub(super) fn of(share: Option<&Share>) -> Self {
        match share {
            Some(_) => Self::Line,
            None => Self::Own,
        }
    }
}

/// Why a line is no operation.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineError {
    /// It is malformed.
    Malformed(String),
    /// Its value is longer than the node allows.
    ValueTooLong,
}

impl Text<'_> {
    /// The bytes of the text, which is a part of `line` or a copy.
    fn into_bytes(self, line: &Bytes, memory: TextMemory) -> Bytes {
        match (self.0, memory) {
            (Cow::Borrowed(text), TextMemory::Line) => line.slice_ref(text.as_bytes()),
            (Cow::Borrowed(text), TextMemory::Own) => Bytes::copy_from_slice(text.as_bytes()),
            (Cow::Owned(text), _) => Bytes::from(text),
        }
    }
}

impl Operation {
    /// The read of a key.
    pub(super) fn get(key: Bytes) -> Self {
        Self {
            key,
            action: Action::Get,
        }
    }

    /// Its kind, for the metrics.
    pub(super) fn kind(&self) -> OperationKind {
        match self.action {
            Action::Put { .. } => OperationKind::Put,
            Action::Get => OperationKind::Get,
            Action::Delete => OperationKind::Delete,
        }
    }

    /// The right that it needs for its key.
    pub(super) fn need(&self) -> Need {
        match self.action {
            Action::Put { .. } | Action::Delete => Need::Write,
            Action::Get => Need::Read,
        }
    }

    /// How many bytes it writes.
    pub(super) fn written_bytes(&self) -> usize {
        match &self.action {
            Action::Put { value, .. } => self.key.len() + value.len(),
            Action::Get => 0,
            Action::Delete => self.key.len(),
        }
    }

    /// Reads a line. A value may have up to `value_bytes_max` bytes.
    ///
    /// # Errors
    /// Why the line is no operation.
    pub(super) fn read(
        line: &Bytes,
        value_bytes_max: usize,
        memory: TextMemory,
    ) -> Result<Self, LineError> {
        // Serde's error would repeat all of a string.
        let kind = match line.trim_ascii_start().first() {
            Some(b'[') => Some("an array"),
            Some(b'"') => Some("a string"),
            _ => None,
        };
        if let Some(kind) = kind {
            return Err(malformed(format!(
                "it is {kind}: write an object, {{\"op\":…,\"key\":…}}"
            )));
        }
        let fields: Fields<'_> =
            serde_json::from_slice(line).map_err(|error| malformed(shown(&error)))?;
        let bytes_of = |name, text, base64| bytes_of(name, text, base64, line, memory);
        let key = bytes_of("key", fields.key, fields.key_base64)?
            .ok_or_else(|| malformed("it has no key: give `key` or `key_base64`"))?;
        check_key("key", key.len()).map_err(|error| malformed(error.detail))?;
        let action = match &*fields.op.0 {
            "put" => {
                let expires = expires_of(fields.ttl, fields.expires.as_ref())?;
                let value = bytes_of("value", fields.value, fields.value_base64)?
                    .ok_or_else(|| malformed("it has no value: give `value` or `value_base64`"))?;
                if value.len() > value_bytes_max {
                    return Err(LineError::ValueTooLong);
                }
                Action::Put { value, expires }
            }
            name @ ("get" | "delete") => {
                let is_put = fields.value.is_some()
                    || fields.value_base64.is_some()
                    || fields.ttl.is_some()
                    || fields.expires.is_some();
                if is_put {
                    return Err(malformed(format!(
                        "a {name} has no value and no expiry: leave them out"
                    )));
                }
                match name {
                    "get" => Action::Get,
                    _ => Action::Delete,
                }
            }
            _ => return Err(malformed("`op` is not put, get or delete")),
        };
        Ok(Self { key, action })
    }
}

fn malformed(detail: impl Into<String>) -> LineError {
    LineError::Malformed(detail.into())
}

/// What is wrong with the JSON of a line. Serde counts lines, too, but it sees only this one.
fn shown(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let what = text.strip_suffix(&place).unwrap_or(&text);
    format!("{what} at column {}", error.column())
}

/// The bytes of a field that is given as text or as base64.
fn bytes_of(
    name: &str,
    text: Option<Text<'_>>,
    base64: Option<Text<'_>>,
    line: &Bytes,
    memory: TextMemory,
) -> Result<Option<Bytes>, LineError> {
    match (text, base64) {
        (Some(text), None) => Ok(Some(text.into_bytes(line, memory))),
        (None, Some(base64)) => match BASE64.decode(&*base64.0) {
            Ok(bytes) => Ok(Some(Bytes::from(bytes))),
            Err(error) => Err(malformed(format!("`{name}_base64` is no base64: {error}"))),
        },
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(malformed(format!(
            "it has `{name}` and `{name}_base64`: give one of them"
        ))),
    }
}

fn expires_of(ttl: Option<u64>, expires: Option<&Text<'_>>) -> Result<Expires, LineError> {
    match (ttl, expires) {
        (None, None) => Ok(Expires::Never),
        (Some(seconds @ 1..=TTL_SECONDS_MAX), None) => Ok(Expires::AfterSeconds(seconds)),
        (Some(_), None) => Err(malformed(format!(
            "`ttl` is out of range: give 1 to {TTL_SECONDS_MAX} seconds"
        ))),
        (None, Some(text)) => rfc3339::unix_ms_of(&text.0)
            .map(Expires::AtUnixMs)
            .ok_or_else(|| {
                malformed("`expires` is no instant of RFC 3339, such as 2026-11-22T16:00:00Z")
            }),
        (Some(_), Some(_)) => Err(malformed("it has `ttl` and `expires`: give one of them")),
    }
}

#[cfg(test)]
mod tests;
