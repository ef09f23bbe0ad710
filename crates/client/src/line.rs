//! Entities as lines of JSON, as ranges give them and imports take them:
//!
//! ```text
//! {"key":"k","value":"v","version":"9"}
//! {"key_base64":"/w==","value_base64":"//4=","expires":"2026-11-22T16:00:00Z"}
//! ```
//!
//! An import ignores the version, because the cluster gives each write a new one.

use crate::text::{base64_form, parse_base64};
use jiff::fmt::temporal::Pieces;
use serde::Deserialize;
use serde_json::Value;

/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 4096;

/// An entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entity {
    /// The key, 1 to 4096 bytes.
    pub key: Vec<u8>,
    /// The value; `None` where a range leaves values out.
    pub value: Option<Vec<u8>>,
    /// The version, a decimal number.
    pub version: Option<String>,
    /// When it expires (RFC 3339), if it does.
    pub expires: Option<String>,
}

/// A line as JSON. A member that is unknown makes the line wrong: a typing error must not
/// lose an expiry.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Members {
    key: Option<String>,
    key_base64: Option<String>,
    value: Option<String>,
    value_base64: Option<String>,
    version: Option<Value>,
    expires: Option<String>,
}

impl Entity {
    /// Reads a line, with or without its end.
    ///
    /// # Errors
    /// What is wrong with the line, and what to do.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        // Serde would also take an array, with the members in their order.
        if line.trim_ascii_start().first() == Some(&b'[') {
            return Err("it is an array: write an object, {\"key\":…,\"value\":…}".to_owned());
        }
        let members: Members = serde_json::from_slice(line).map_err(|error| shown(&error))?;
        let key = bytes_of("key", members.key, members.key_base64)?;
        let key = key.ok_or("it has no key: give `key` or `key_base64`")?;
        match key.len() {
            0 => return Err("its key is empty: give 1 to 4096 bytes".to_owned()),
            1..=KEY_BYTES_MAX => {}
            bytes => {
                return Err(format!(
                    "its key has {bytes} bytes: give 1 to {KEY_BYTES_MAX}"
                ));
            }
        }
        if members
            .expires
            .as_deref()
            .is_some_and(|text| !is_instant(text))
        {
            let problem = "`expires` is no instant of RFC 3339, such as 2026-11-22T16:00:00Z";
            return Err(problem.to_owned());
        }
        Ok(Self {
            key,
            value: bytes_of("value", members.value, members.value_base64)?,
            version: members.version.map(|version| match version {
                Value::String(text) => text,
                other => other.to_string(),
            }),
            expires: members.expires,
        })
    }

    /// Appends the line of the entity, with its end.
    pub fn write_line(&self, has_version: bool, out: &mut Vec<u8>) {
        out.push(b'{');
        put_bytes(out, "key", &self.key, usize::MAX);
        if let Some(value) = &self.value {
            out.push(b',');
            put_bytes(out, "value", value, usize::MAX);
        }
        if let Some(version) = self.version.as_ref().filter(|_| has_version) {
            put_text(out, ",\"version\":", version);
        }
        if let Some(expires) = &self.expires {
            put_text(out, ",\"expires\":", expires);
        }
        out.extend_from_slice(b"}\n");
    }

    /// Appends the line of a batch that puts the entity, with its end.
    pub(crate) fn write_put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"op\":\"put\",");
        put_bytes(out, "key", &self.key, usize::MAX);
        out.push(b',');
        // A node takes lines of four thirds of the longest value; escapes can be longer.
        let value = self.value.as_deref().unwrap_or_default();
        put_bytes(out, "value", value, value.len() / 3 * 4 + 4);
        if let Some(expires) = &self.expires {
            put_text(out, ",\"expires\":", expires);
        }
        out.extend_from_slice(b"}\n");
    }
}

/// Whether a text names an instant. It may be the last second of the year 9999, which is
/// none for `jiff::Timestamp`. A node, which reads it next, is stricter about its form.
fn is_instant(text: &str) -> bool {
    let pieces = Pieces::parse(text).ok();
    let offset = pieces.and_then(|pieces| pieces.time().and(pieces.to_numeric_offset()));
    offset.is_some_and(|offset| offset.seconds().abs() < 24 * 3600)
}

/// Appends a member of bytes: as text if they are UTF-8 and that is no longer than
/// `text_bytes_max`, otherwise in base64 under another name.
fn put_bytes(out: &mut Vec<u8>, name: &str, bytes: &[u8], text_bytes_max: usize) {
    let begin = out.len();
    if let Ok(text) = str::from_utf8(bytes) {
        put_text(out, &format!("\"{name}\":"), text);
        // The name, the colon and four quotes.
        if out.len() - begin - name.len() - 5 <= text_bytes_max {
            return;
        }
        out.truncate(begin);
    }
    put_text(out, &format!("\"{name}_base64\":"), &base64_form(bytes));
}

fn put_text(out: &mut Vec<u8>, before: &str, text: &str) {
    out.extend_from_slice(before.as_bytes());
    // Writing to memory does not fail, and strings always have a JSON form.
    let _ = serde_json::to_writer(&mut *out, text);
}

/// The bytes of a member that is given as text or in base64.
fn bytes_of(
    name: &str,
    text: Option<String>,
    base64: Option<String>,
) -> Result<Option<Vec<u8>>, String> {
    match (text, base64) {
        (Some(text), None) => Ok(Some(text.into_bytes())),
        (None, Some(base64)) => match parse_base64(base64.as_bytes()) {
            Some(bytes) => Ok(Some(bytes)),
            None => Err(format!("`{name}_base64` is not base64 with padding")),
        },
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(format!(
            "it has `{name}` and `{name}_base64`: give one of them"
        )),
    }
}

/// What is wrong with the JSON of a line. Serde counts lines, too, but sees only this one.
fn shown(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let what = text.strip_suffix(&place).unwrap_or(&text);
    format!("{what} at column {}", error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(entity: &Entity, has_version: bool) -> String {
        let mut out = Vec::new();
        entity.write_line(has_version, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_are_read_and_written_the_same() {
        for line in [
            r#"{"key":"k","value":"v","version":"9"}"#,
            r#"{"key":"k\n\u0001\"ä","value":""}"#,
            r#"{"key_base64":"/w==","value_base64":"//4=","version":"9","expires":"2026-11-22T16:00:00.001Z"}"#,
            r#"{"key":"k","value":"v","expires":"9999-12-31T23:59:59Z"}"#,
            r#"{"key":"k","value":"v","expires":"9999-12-31T23:59:59.999Z"}"#,
            r#"{"key":"k","version":"9"}"#,
        ] {
            let entity = Entity::parse(line.as_bytes()).unwrap();
            assert_eq!(written(&entity, true), format!("{line}\n"));
            assert!(!written(&entity, false).contains("version"));
        }
    }

    #[test]
    fn every_byte_survives_a_line() {
        let every: Vec<u8> = (0..=u8::MAX).collect();
        for bytes in [every.clone(), every[..128].to_vec(), b"\r\n\0\\".to_vec()] {
            let entity = Entity {
                key: bytes.clone(),
                value: Some(bytes),
                version: None,
                expires: None,
            };
            let line = written(&entity, false);
            assert_eq!(line.matches('\n').count(), 1);
            assert_eq!(Entity::parse(line.as_bytes()).unwrap(), entity);
        }
    }

    #[test]
    fn a_wrong_line_says_what_is_wrong() {
        let long = format!(r#"{{"key":"{}","value":""}}"#, "k".repeat(4097));
        for (line, word) in [
            ("", "EOF"),
            ("{", "column 1"),
            (r#"{"key":"k","value":"v""#, "EOF"),
            (r#"{"value":"v"}"#, "no key"),
            (r#" ["k",null,"v",null,null,null]"#, "array"),
            (r#"{"key":"","value":"v"}"#, "empty"),
            (&long, "4097 bytes"),
            (
                r#"{"key":"k","key_base64":"aw==","value":"v"}"#,
                "give one of them",
            ),
            (r#"{"key":"k","value_base64":"aw"}"#, "base64"),
            (r#"{"key":"k","value":"v","ttl":5}"#, "ttl"),
            (r#"{"key":"k","value":"v","value":"w"}"#, "duplicate"),
            (r#"{"key":"k","value":"v","expires":"soon"}"#, "RFC 3339"),
            (
                r#"{"key":"k","value":"v","expires":"2026-11-22T16:00:00"}"#,
                "RFC 3339",
            ),
            (
                r#"{"key":"k","value":"v","expires":"2026-11-22"}"#,
                "RFC 3339",
            ),
            (
                r#"{"key":"k","value":"v","expires":"2026-11-22T16:00:00+25:00"}"#,
                "RFC 3339",
            ),
            (r#"{"key":"k","value":5}"#, "string"),
        ] {
            let problem = Entity::parse(line.as_bytes()).unwrap_err();
            assert!(problem.contains(word), "{line}: {problem}");
        }
    }

    #[test]
    fn a_put_takes_the_shorter_form_of_a_value() {
        let put = |value: &[u8]| {
            let mut out = Vec::new();
            let entity = Entity {
                key: b"k".to_vec(),
                value: Some(value.to_vec()),
                expires: Some("2026-11-22T16:00:00Z".to_owned()),
                ..Entity::default()
            };
            entity.write_put(&mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            put(b"v"),
            "{\"op\":\"put\",\"key\":\"k\",\"value\":\"v\",\"expires\":\"2026-11-22T16:00:00Z\"}\n"
        );
        let controls = put(&[1; 3000]);
        assert!(
            controls.contains("value_base64") && controls.len() < 4200,
            "{controls}"
        );
    }
}
