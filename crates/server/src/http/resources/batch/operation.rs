//! A line of a batch as an operation:
//!
//! ```text
//! {"op":"put","key":"k","value":"v"}
//! {"op":"put","key_base64":"/w==","value_base64":"//4=","ttl":60}
//! {"op":"put","key":"k","value":"v","expires":"2026-11-22T16:00:00Z"}
//! {"op":"get","key":"k"}
//! {"op":"delete","key":"k"}
//! {"op":"put","key":"k","value":"v","if_absent":true}
//! {"op":"delete","key":"k","if_version":"228111136384352257"}
//! {"op":"put","key":"k","touch":true,"ttl":60,"if_version":"228111136384352257"}
//! ```
//!
//! A field that is unknown, given twice, or not part of the operation makes the line malformed: a
//! typo must not change what is stored. Text without escapes is a slice of a line whose memory
//! counts. Otherwise it is copied, because a slice would keep the whole buffer that hyper read, of
//! which the line may be a small part.

use crate::http::query::keys::check_key;
use crate::http::resources::entity::TTL_SECONDS_MAX;
use crate::metrics::OperationKind;
use api::{Fields, rfc3339};
use base::{Reservation, Timestamp};
use bytes::Bytes;
use cluster::Condition;
use node::Expires;
use std::borrow::Cow;
use tokens::Need;

/// The fields that a line may have.
const NAMES: &[&str] = &[
    "op",
    "key",
    "key_base64",
    "value",
    "value_base64",
    "ttl",
    "expires",
    "if_version",
    "if_absent",
    "touch",
];

/// An operation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Operation {
    /// The key.
    pub(super) key: Bytes,
    /// What is done with it.
    pub(super) action: Action,
    /// What must hold of the key for a write to take effect.
    pub(super) condition: Option<Box<Condition>>,
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
    /// Keeps the value, and changes when it expires.
    Touch {
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
    /// Where that of an operation lies whose line has this reservation.
    pub(super) fn of(reservation: Option<&Reservation>) -> Self {
        match reservation {
            Some(_) => Self::Line,
            None => Self::Own,
        }
    }

    /// These bytes, which are a part of `line` or a copy.
    fn bytes_of(self, bytes: Cow<'_, [u8]>, line: &Bytes) -> Bytes {
        match (bytes, self) {
            (Cow::Borrowed(bytes), Self::Line) => line.slice_ref(bytes),
            (Cow::Borrowed(bytes), Self::Own) => Bytes::copy_from_slice(bytes),
            (Cow::Owned(bytes), _) => Bytes::from(bytes),
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

impl Operation {
    /// The read of a key.
    pub(super) fn get(key: Bytes) -> Self {
        Self {
            key,
            action: Action::Get,
            condition: None,
        }
    }

    /// Its kind, for the metrics.
    pub(super) fn kind(&self) -> OperationKind {
        match self.action {
            Action::Put { .. } | Action::Touch { .. } => OperationKind::Put,
            Action::Get => OperationKind::Get,
            Action::Delete => OperationKind::Delete,
        }
    }

    /// The right that it needs for its key.
    pub(super) fn need(&self) -> Need {
        match self.action {
            Action::Put { .. } | Action::Touch { .. } | Action::Delete => Need::Write,
            Action::Get => Need::Read,
        }
    }

    /// How many bytes it writes.
    pub(super) fn written_bytes(&self) -> usize {
        match &self.action {
            Action::Put { value, .. } => self.key.len() + value.len(),
            Action::Get => 0,
            Action::Touch { .. } | Action::Delete => self.key.len(),
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
        let fields = Fields::read(line, NAMES).map_err(malformed)?;
        let bytes_of = |name, text, base64| {
            let bytes = api::bytes_of(name, text, base64).map_err(malformed)?;
            Ok(bytes.map(|bytes| memory.bytes_of(bytes, line)))
        };
        let key: Bytes = bytes_of("key", fields.key, fields.key_base64)?
            .ok_or_else(|| malformed("it has no key: give `key` or `key_base64`"))?;
        check_key("key", key.len()).map_err(|error| malformed(error.detail))?;
        let condition = condition_of(fields.if_version.as_deref(), fields.if_absent)?;
        let is_touch = fields.touch == Some(true);
        let action = match fields.op.as_deref().unwrap_or_default() {
            "put" if is_touch => {
                if fields.value.is_some() || fields.value_base64.is_some() {
                    return Err(malformed(
                        "with `touch` a put keeps the value: leave one of them out",
                    ));
                }
                let expires = expires_of(fields.ttl, fields.expires.as_deref())?;
                Action::Touch { expires }
            }
            "put" => {
                let expires = expires_of(fields.ttl, fields.expires.as_deref())?;
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
                    || fields.expires.is_some()
                    || is_touch;
                if is_put {
                    return Err(malformed(format!(
                        "a {name} has no value and no expiry: leave them out"
                    )));
                }
                match name {
                    "get" if condition.is_some() => {
                        return Err(malformed("a get has no condition: leave it out"));
                    }
                    "get" => Action::Get,
                    _ => Action::Delete,
                }
            }
            _ => return Err(malformed("`op` is not put, get or delete")),
        };
        Ok(Self {
            key,
            action,
            condition: condition.map(Box::new),
        })
    }
}

/// The condition of a line; `None` if it has none.
fn condition_of(
    if_version: Option<&str>,
    if_absent: Option<bool>,
) -> Result<Option<Condition>, LineError> {
    match (if_version, if_absent) {
        (None, None | Some(false)) => Ok(None),
        (None, Some(true)) => Ok(Some(Condition::absent())),
        (Some(digits), None | Some(false)) => {
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            let version = digits.parse().ok().filter(|_| is_number);
            let version = version.map(Timestamp::from_u64);
            version
                .map(|version| Some(Condition::version(version)))
                .ok_or_else(|| malformed("`if_version` is not a version: give its decimal number"))
        }
        (Some(_), Some(true)) => Err(malformed(
            "it has `if_version` and `if_absent`: give one of them",
        )),
    }
}

fn malformed(detail: impl Into<String>) -> LineError {
    LineError::Malformed(detail.into())
}

fn expires_of(ttl: Option<u64>, expires: Option<&str>) -> Result<Expires, LineError> {
    match (ttl, expires) {
        (None, None) => Ok(Expires::Never),
        (Some(seconds @ 1..=TTL_SECONDS_MAX), None) => Ok(Expires::AfterSeconds(seconds)),
        (Some(_), None) => Err(malformed(format!(
            "`ttl` is out of range: give 1 to {TTL_SECONDS_MAX} seconds"
        ))),
        (None, Some(text)) => rfc3339::unix_ms_of(text)
            .map(Expires::AtUnixMs)
            .ok_or_else(|| malformed(rfc3339::NO_TIME)),
        (Some(_), Some(_)) => Err(malformed("it has `ttl` and `expires`: give one of them")),
    }
}

#[cfg(test)]
mod tests;
