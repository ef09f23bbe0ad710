//! Options that the commands share.

use crate::access::AccessOptions;
use crate::failure::Failure;
use crate::values::{TimeSpan, count, span, url};
use clap::Args;
use cli::progress::Progress;
use client::{Client, Condition, Limits, Replicas, Settings};
use cluster::NodeUrl;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// How long connecting to a node may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long a node may be silent, unless the user says otherwise.
const TIMEOUT: Duration = Duration::from_secs(15);

/// What `--timeout` may be.
const TIMEOUTS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(24 * 3600);

/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 4096;

/// The nodes to ask.
#[derive(Args, Clone, Debug)]
pub(super) struct NodeOptions {
    /// A node; several with commas, or with the option repeated. Every node serves every request:
    /// when one does not answer, or answers 503, the next one is asked [default: KVORUM_URL, or
    /// http://127.0.0.1:8080]
    #[arg(long = "url", value_parser = url, value_name = "URL", value_delimiter = ',',
        help_heading = "Nodes")]
    urls: Vec<NodeUrl>,
    /// How long a node may be silent [default: 15s]
    #[arg(long, value_parser = span(TIMEOUTS), value_name = "TIME", help_heading = "Nodes")]
    timeout: Option<TimeSpan>,
    /// How often to ask all nodes again after each has failed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = count(0..=1000_u32),
        help_heading = "Nodes")]
    retries: u32,
    #[command(flatten)]
    access: AccessOptions,
}

impl NodeOptions {
    /// The URLs of the nodes.
    ///
    /// # Errors
    /// See [`AccessOptions::reach`].
    fn urls(&self) -> Result<Vec<String>, Failure> {
        let (nodes, _) = self.access.reach(&self.urls)?;
        Ok(nodes.iter().map(ToString::to_string).collect())
    }

    /// The URLs of the nodes, and a client of them. `repeats_writes` says whether it repeats a write
    /// whose outcome is unknown.
    ///
    /// # Errors
    /// Those of [`AccessOptions::reach`].
    pub(super) fn urls_and_client(
        &self,
        repeats_writes: bool,
    ) -> Result<(Vec<NodeUrl>, Client), Failure> {
        let (urls, access) = self.access.reach(&self.urls)?;
        let nodes: Result<_, Failure> = urls.iter().map(|url| access.node(url)).collect();
        let given = self.timeout.map(|span| span.0);
        let timeout = given.unwrap_or(TIMEOUT);
        let settings = Settings {
            limits: Limits {
                connect_max: CONNECT_MAX.min(timeout),
                silence_max: timeout,
            },
            scan_silence_max: given,
            retries: self.retries,
            repeats_writes,
            ..Settings::default()
        };
        let client = Client::new(nodes?, settings);
        let client = client.ok_or_else(|| Failure::usage("--url: name a node"))?;
        Ok((urls, client))
    }

    /// The client alone.
    ///
    /// # Errors
    /// See [`Self::urls_and_client`].
    pub(super) fn client(&self, repeats_writes: bool) -> Result<Client, Failure> {
        Ok(self.urls_and_client(repeats_writes)?.1)
    }
}

/// How many replicas must answer.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct ReplicaOptions {
    /// How many replicas must answer [default: more than half of FROM]
    #[arg(long, value_name = "ACK", value_parser = count(1..=u8::MAX), help_heading = "Replicas")]
    ack: Option<u8>,
    /// How many replicas the key has [default: the number of nodes]
    #[arg(long, value_name = "FROM", value_parser = count(1..=u8::MAX), help_heading = "Replicas")]
    from: Option<u8>,
}

impl From<ReplicaOptions> for Replicas {
    fn from(options: ReplicaOptions) -> Self {
        Self {
            ack: options.ack,
            from: options.from,
        }
    }
}

/// What the commands for many entities have in common.
#[derive(Args, Clone, Debug)]
pub(super) struct TransferOptions {
    /// Show progress also where stderr is not a terminal
    #[arg(long)]
    progress: bool,
    #[command(flatten)]
    replicas: ReplicaOptions,
    #[command(flatten)]
    nodes: NodeOptions,
}

impl TransferOptions {
    /// Shows how far the transfer is, on a terminal that it does not write to.
    pub(super) fn progress(&self, writes_to_stdout: bool) -> Progress {
        Progress::with(self.progress, writes_to_stdout)
    }

    /// The URLs of the nodes.
    ///
    /// # Errors
    /// See [`AccessOptions::reach`].
    pub(super) fn urls(&self) -> Result<Vec<String>, Failure> {
        self.nodes.urls()
    }

    /// How many replicas must answer.
    pub(super) fn replicas(&self) -> Replicas {
        self.replicas.into()
    }

    /// A client of the nodes. What is transferred is read, or repeated line by line.
    ///
    /// # Errors
    /// See [`NodeOptions::client`].
    pub(super) fn client(&self) -> Result<Client, Failure> {
        self.nodes.client(false)
    }
}

/// How keys are written on the command line.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct KeyForm {
    /// Keys are written in base64
    #[arg(long, help_heading = "Keys")]
    key_base64: bool,
    /// Keys are written in percent form: %00 is a zero byte, %25 is a percent sign
    #[arg(long, conflicts_with = "key_base64", help_heading = "Keys")]
    key_percent: bool,
}

impl KeyForm {
    /// The bytes of a key, or of a bound of a range; `name` is its argument.
    ///
    /// # Errors
    /// A text in another form, or a key that is empty or too long.
    pub(super) fn parse(self, name: &str, text: &OsStr) -> Result<Vec<u8>, Failure> {
        let text = text.as_bytes();
        let key = if self.key_base64 {
            client::parse_base64(text).ok_or("is not base64 with padding, as --key-base64 asks for")
        } else if self.key_percent {
            client::parse_percent(text)
                .ok_or("has a broken percent escape: write % and two hexadecimal digits")
        } else {
            Ok(text.to_vec())
        };
        let key = key.map_err(|problem| Failure::usage(format!("{name} {problem}")))?;
        match key.len() {
            0 => Err(Failure::usage(format!(
                "{name} is empty: give at least 1 byte"
            ))),
            1..=KEY_BYTES_MAX => Ok(key),
            bytes => Err(Failure::usage(format!(
                "{name} has {bytes} bytes: give at most {KEY_BYTES_MAX}"
            ))),
        }
    }
}

/// The key of a command for one key.
#[derive(Args, Clone, Debug)]
pub(super) struct KeyOptions {
    /// The key, byte for byte unless --key-base64 or --key-percent is given
    #[arg(value_name = "KEY")]
    key: OsString,
    #[command(flatten)]
    form: KeyForm,
}

impl KeyOptions {
    /// The bytes of the key.
    ///
    /// # Errors
    /// See [`KeyForm::parse`].
    pub(super) fn bytes(&self) -> Result<Vec<u8>, Failure> {
        self.form.parse("KEY", &self.key)
    }
}

/// The key of a command, or all keys with a prefix.
#[derive(Args, Clone, Debug)]
pub(super) struct PrefixOptions {
    /// The key, byte for byte unless --key-base64 or --key-percent is given
    #[arg(
        value_name = "KEY",
        required_unless_present = "prefix",
        conflicts_with = "prefix"
    )]
    key: Option<OsString>,
    /// All keys of the cluster that begin with PREFIX
    #[arg(long, value_name = "PREFIX", help_heading = "Keys")]
    prefix: Option<OsString>,
    #[command(flatten)]
    form: KeyForm,
}

impl PrefixOptions {
    /// The bytes of the key; `None` where a prefix is given.
    ///
    /// # Errors
    /// See [`KeyForm::parse`].
    pub(super) fn key(&self) -> Result<Option<Vec<u8>>, Failure> {
        let key = self.key.as_ref();
        key.map(|key| self.form.parse("KEY", key)).transpose()
    }

    /// The bytes of the prefix, and how it is written for people.
    ///
    /// # Errors
    /// See [`KeyForm::parse`].
    pub(super) fn prefix(&self) -> Result<Vec<u8>, Failure> {
        let prefix = self.prefix.as_deref().unwrap_or_default();
        self.form.parse("--prefix", prefix)
    }
}

/// What may be done with a write whose outcome is unknown.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct WriteOptions {
    /// Repeat a write whose outcome is unknown (504, or a cut connection). The repeat is a new
    /// write: it also replaces what others have written meanwhile
    #[arg(long, help_heading = "Nodes")]
    pub(super) retry_writes: bool,
}

/// What must hold of the key for a write to take effect.
#[derive(Args, Clone, Debug)]
pub(super) struct ConditionOptions {
    /// Write only if the key's value has this ETag, which get --json and each write print; * stands
    /// for any value. Otherwise the exit code is 6, and nothing is written
    #[arg(long, value_name = "ETAG", value_parser = entity_tag, conflicts_with = "retry_writes",
        help_heading = "Conditions")]
    if_match: Option<String>,
    /// Write only if the key has no value with this ETag; * stands for any value, so that only a key
    /// without a value is written
    #[arg(long, value_name = "ETAG", value_parser = entity_tag, conflicts_with = "retry_writes",
        help_heading = "Conditions")]
    if_none_match: Option<String>,
}

impl From<&ConditionOptions> for Condition {
    fn from(options: &ConditionOptions) -> Self {
        Self {
            if_match: options.if_match.clone(),
            if_none_match: options.if_none_match.clone(),
        }
    }
}

/// Reads an entity tag, whose quotes a shell may have taken away.
pub(super) fn entity_tag(text: &str) -> Result<String, String> {
    let is_of_tag = |character: char| !character.is_control() && character != ' ';
    if text.is_empty() || !text.chars().all(is_of_tag) {
        return Err("give an ETag, or *".to_owned());
    }
    if text == "*" || text.contains('"') {
        return Ok(text.to_owned());
    }
    Ok(format!("\"{text}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entity_tag_may_come_without_its_quotes() {
        for (text, tag) in [
            ("*", "*"),
            ("0a-1b", "\"0a-1b\""),
            ("\"0a-1b\"", "\"0a-1b\""),
            ("W/\"0a-1b\"", "W/\"0a-1b\""),
        ] {
            assert_eq!(entity_tag(text).as_deref(), Ok(tag));
        }
        for text in ["", "a b", "a\n"] {
            assert!(entity_tag(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn keys_are_read_or_refused() {
        let plain = KeyForm {
            key_base64: false,
            key_percent: false,
        };
        let base64 = KeyForm {
            key_base64: true,
            ..plain
        };
        let percent = KeyForm {
            key_percent: true,
            ..plain
        };
        let longest = "k".repeat(KEY_BYTES_MAX);
        let too_long = "k".repeat(KEY_BYTES_MAX + 1);
        for (form, text, read) in [
            (plain, "a%20b", Ok(&b"a%20b"[..])),
            (plain, "", Err("empty")),
            (plain, &longest, Ok(longest.as_bytes())),
            (plain, &too_long, Err("4097 bytes")),
            (base64, "/wA=", Ok(b"\xff\0")),
            (base64, "/wA", Err("base64")),
            (base64, "", Err("empty")),
            (percent, "%FF%00+", Ok(b"\xff\0+")),
            (percent, "5%", Err("two hexadecimal digits")),
        ] {
            let parsed = form.parse("KEY", OsStr::new(text));
            match (parsed, read) {
                (Ok(parsed), Ok(read)) => assert_eq!(parsed, read),
                (Err(failure), Err(word)) => {
                    assert_eq!(failure.code(), 2);
                    assert!(failure.line().contains(word), "{}", failure.line());
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
