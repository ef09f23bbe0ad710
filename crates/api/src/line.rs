//! Entities as lines of JSON, as scans return them and imports take them:
//!
//! ```text
//! {"key":"k","value":"v","version":"9"}
//! {"key_base64":"/w==","value_base64":"//4=","version":"9","expires":"2026-11-22T16:00:00Z"}
//! {"key":"k","version":"9"}
//! ```
//!
//! Bytes that are not UTF-8 are written in base64 under another name. The last line is that of
//! a scan without values. An import ignores the version, because the cluster gives each write a
//! new one.

use crate::fields::{Fields, bytes_of};
use crate::rfc3339;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::borrow::Cow;

/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 4096;

/// The fields that a line may have.
const NAMES: &[&str] = &[
    "key",
    "key_base64",
    "value",
    "value_base64",
    "version",
    "expires",
];

/// The fields that a line of a scan by a delimiter may have.
const LISTED_NAMES: &[&str] = &[
    "key",
    "key_base64",
    "value",
    "value_base64",
    "version",
    "expires",
    "prefix",
    "prefix_base64",
];

/// A line to write, but for its value.
#[derive(Clone, Copy, Debug)]
pub struct EntityLine<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The version, a decimal number.
    pub version: Option<&'a str>,
    /// When the entity expires (RFC 3339), if it does.
    pub expires: Option<&'a str>,
}

impl EntityLine<'_> {
    /// Appends the line, with its end.
    pub fn write(&self, value: Option<&[u8]>, out: &mut Vec<u8>) {
        self.begin(out);
        if let Some(value) = value {
            out.push(b',');
            put_bytes(out, "value", value);
        }
        self.end(out);
    }

    /// Appends the line up to the first character of its value, and returns what follows the
    /// last one. It is for long values, which are written piece by piece: as JSON text without
    /// its quotes if `is_text`, otherwise in base64.
    pub fn write_around_value(&self, is_text: bool, out: &mut Vec<u8>) -> Vec<u8> {
        self.begin(out);
        let name: &[u8] = if is_text {
            b",\"value\":\""
        } else {
            b",\"value_base64\":\""
        };
        out.extend_from_slice(name);
        let mut end = vec![b'"'];
        self.end(&mut end);
        end
    }

    fn begin(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        put_bytes(out, "key", self.key);
    }

    fn end(&self, out: &mut Vec<u8>) {
        if let Some(version) = self.version {
            put_text(out, ",\"version\":", version);
        }
        put_expires(out, self.expires);
        out.extend_from_slice(b"}\n");
    }
}

/// An entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entity {
    /// The key, 1 to 4096 bytes.
    pub key: Vec<u8>,
    /// The value; `None` where a scan leaves values out.
    pub value: Option<Vec<u8>>,
    /// The version, a decimal number.
    pub version: Option<String>,
    /// When it expires (RFC 3339), if it does.
    pub expires: Option<String>,
}

impl Entity {
    /// Reads a line, with or without its end.
    ///
    /// # Errors
    /// What is wrong with the line, and what to do.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        Self::of(Fields::read(line, NAMES)?)
    }

    fn of(fields: Fields<'_>) -> Result<Self, String> {
        let key = bytes_of("key", fields.key, fields.key_base64)?;
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
        let is_time = |text: &str| rfc3339::unix_ms_of(text).is_some();
        if fields.expires.as_deref().is_some_and(|text| !is_time(text)) {
            return Err(rfc3339::NO_TIME.to_owned());
        }
        let value = bytes_of("value", fields.value, fields.value_base64)?;
        Ok(Self {
            key: key.into_owned(),
            value: value.map(Cow::into_owned),
            version: fields.version.map(Cow::into_owned),
            expires: fields.expires.map(Cow::into_owned),
        })
    }

    /// Appends the line of the entity, with its end.
    pub fn write_line(&self, has_version: bool, out: &mut Vec<u8>) {
        let line = EntityLine {
            key: &self.key,
            version: self.version.as_deref().filter(|_| has_version),
            expires: self.expires.as_deref(),
        };
        line.write(self.value.as_deref(), out);
    }

    /// Appends the line of a batch that puts the entity, with its end.
    pub fn write_put(&self, out: &mut Vec<u8>) {
        self.write_put_if(None, out);
    }

    /// The same, on the condition that the key still has this version.
    pub fn write_put_if(&self, version: Option<&str>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"op\":\"put\",");
        put_bytes(out, "key", &self.key);
        out.push(b',');
        // A node takes lines of four thirds of the longest value; escapes can be longer.
        let value = self.value.as_deref().unwrap_or_default();
        put_bytes_within(out, "value", value, value.len() / 3 * 4 + 4);
        put_expires(out, self.expires.as_deref());
        if let Some(version) = version {
            put_text(out, ",\"if_version\":", version);
        }
        out.extend_from_slice(b"}\n");
    }

    /// Appends the line of a batch that deletes the key, with its end.
    pub fn write_delete(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"op\":\"delete\",");
        put_bytes(out, "key", &self.key);
        out.extend_from_slice(b"}\n");
    }
}

fn put_expires(out: &mut Vec<u8>, expires: Option<&str>) {
    if let Some(expires) = expires {
        put_text(out, ",\"expires\":", expires);
    }
}

/// A line of a scan by a delimiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListedLine {
    /// An entity.
    Entity(Entity),
    /// A prefix that keys have in common.
    Prefix(Vec<u8>),
}

impl ListedLine {
    /// Reads a line, with or without its end.
    ///
    /// # Errors
    /// What is wrong with the line.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        let mut fields = Fields::read(line, LISTED_NAMES)?;
        let prefix = bytes_of("prefix", fields.prefix.take(), fields.prefix_base64.take())?;
        match prefix {
            None => Entity::of(fields).map(Self::Entity),
            Some(prefix) if prefix.is_empty() => Err("its prefix is empty".to_owned()),
            Some(prefix) => Ok(Self::Prefix(prefix.into_owned())),
        }
    }
}

/// Appends the line of a common prefix of keys, with its end.
pub fn write_prefix_line(prefix: &[u8], out: &mut Vec<u8>) {
    out.push(b'{');
    put_bytes(out, "prefix", prefix);
    out.extend_from_slice(b"}\n");
}

/// Bytes as text if they are UTF-8, otherwise in base64.
#[must_use]
pub fn text_or_base64(bytes: &[u8]) -> (Option<&str>, Option<String>) {
    match str::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(_) => (None, Some(BASE64.encode(bytes))),
    }
}

/// Appends a member of bytes: as text if they are UTF-8, otherwise in base64 under another name.
fn put_bytes(out: &mut Vec<u8>, name: &str, bytes: &[u8]) {
    put_bytes_within(out, name, bytes, usize::MAX);
}

/// The same, as text only if that is no longer than `text_bytes_max`.
fn put_bytes_within(out: &mut Vec<u8>, name: &str, bytes: &[u8], text_bytes_max: usize) {
    let begin = out.len();
    if let Ok(text) = str::from_utf8(bytes) {
        put_text(out, &format!("\"{name}\":"), text);
        // The name, the colon and four quotes.
        if out.len() - begin - name.len() - 5 <= text_bytes_max {
            return;
        }
        out.truncate(begin);
    }
    put_text(out, &format!("\"{name}_base64\":"), &BASE64.encode(bytes));
}

/// Appends a text as JSON behind what stands before it.
fn put_text(out: &mut Vec<u8>, before: &str, text: &str) {
    out.extend_from_slice(before.as_bytes());
    // Writing to memory does not fail, and strings always have a JSON form.
    let _ = serde_json::to_writer(&mut *out, text);
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
    fn a_line_around_its_value_is_the_same_line() {
        let line = EntityLine {
            key: b"k",
            version: Some("9"),
            expires: Some("2026-11-22T16:00:00Z"),
        };
        for (is_text, value, characters) in
            [(true, &b"v"[..], &b"v"[..]), (false, b"\xff\xfe", b"//4=")]
        {
            let (mut whole, mut pieces) = (Vec::new(), Vec::new());
            line.write(Some(value), &mut whole);
            let end = line.write_around_value(is_text, &mut pieces);
            pieces.extend_from_slice(characters);
            pieces.extend_from_slice(&end);
            assert_eq!(pieces, whole);
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
            ("", "not a line of JSON: it ends too early"),
            ("{x", "not a line of JSON: see column 2"),
            (r#"{"key":"k","value":"v""#, "ends too early"),
            (r#"{"value":"v"}"#, "no key"),
            (r#"{"key":null,"value":"v"}"#, "no key"),
            (r#" ["k",null,"v",null,null,null]"#, "array"),
            (r#"{"key":"","value":"v"}"#, "empty"),
            (&long, "4097 bytes"),
            (
                r#"{"key":"k","key_base64":"aw==","value":"v"}"#,
                "give one of them",
            ),
            (r#"{"key":"k","value_base64":"aw"}"#, "base64"),
            (
                r#"{"key":"k","value":"v","ttl":5}"#,
                "give the time itself in `expires`",
            ),
            (r#"{"key":"k","value":"v","value":"w"}"#, "`value` twice"),
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
            (
                r#"{"key":"k","value":5}"#,
                "`value` has to be a string (column 20)",
            ),
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

    #[test]
    fn a_common_prefix_is_read_as_it_was_written() {
        for prefix in [&b"user/1/"[..], b"\xff/"] {
            let mut line = Vec::new();
            write_prefix_line(prefix, &mut line);
            let read = ListedLine::parse(&line);
            assert_eq!(read, Ok(ListedLine::Prefix(prefix.to_vec())));
            assert!(Entity::parse(&line).is_err(), "an import takes none");
        }
        let entity = ListedLine::parse(br#"{"key":"k","version":"9"}"#);
        assert!(matches!(entity, Ok(ListedLine::Entity(_))), "{entity:?}");
        assert!(ListedLine::parse(br#"{"prefix":""}"#).is_err());
    }
}
