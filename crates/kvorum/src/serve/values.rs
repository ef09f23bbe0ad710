//! Values of options that only `serve` has.

use crate::files::ReadFile;
use crate::private_file;
use crate::values::{TimeSpan, span};
use clap::ValueEnum;
use s3::{S3Credentials, S3Place, S3Target};
use server::LogKeys;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// What `interval=` of `--durability` may be: a power cut takes what was written within it.
const DURABILITY_INTERVALS: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(3600);

/// When a write is acknowledged: `sync`, `os`, `interval=100ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DurabilityOption(pub(crate) lsm::Durability);

impl FromStr for DurabilityOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let durability = match text {
            "sync" => lsm::Durability::Sync,
            "os" => lsm::Durability::Os,
            _ => match text.strip_prefix("interval=") {
                Some(text) => lsm::Durability::Interval(span(DURABILITY_INTERVALS)(text)?.0),
                None => return Err("choose sync, interval=TIME (interval=100ms) or os".to_owned()),
            },
        };
        Ok(Self(durability))
    }
}

impl fmt::Display for DurabilityOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            lsm::Durability::Sync => f.write_str("sync"),
            lsm::Durability::Interval(span) => write!(f, "interval={}", TimeSpan(span)),
            lsm::Durability::Os => f.write_str("os"),
        }
    }
}

/// The false-positive rate of filters: `0.01`, or `none` for no filters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FilterOption(pub(crate) Option<f64>);

impl FromStr for FilterOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        match text.parse::<f64>() {
            Ok(rate) if rate > 0.0 && rate < 1.0 => Ok(Self(Some(rate))),
            _ => Err("write a share between 0 and 1, such as 0.01, or none".to_owned()),
        }
    }
}

impl fmt::Display for FilterOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(rate) => write!(f, "{rate}"),
            None => f.write_str("none"),
        }
    }
}

/// How data blocks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressionOption {
    Lz4,
    None,
}

impl From<lsm::Compression> for CompressionOption {
    fn from(compression: lsm::Compression) -> Self {
        match compression {
            lsm::Compression::Lz4 => Self::Lz4,
            lsm::Compression::None => Self::None,
        }
    }
}

impl From<CompressionOption> for lsm::Compression {
    fn from(compression: CompressionOption) -> Self {
        match compression {
            CompressionOption::Lz4 => Self::Lz4,
            CompressionOption::None => Self::None,
        }
    }
}

/// How keys appear in logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogKeysOption {
    Plain,
    Hash,
    Off,
}

impl From<LogKeysOption> for LogKeys {
    fn from(option: LogKeysOption) -> Self {
        match option {
            LogKeysOption::Plain => Self::Plain,
            LogKeysOption::Hash => Self::Hash,
            LogKeysOption::Off => Self::Off,
        }
    }
}

/// Where a target of backups lies, as people write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BackupPlace {
    Folder(PathBuf),
    Bucket(S3Place),
}

impl FromStr for BackupPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !S3Place::is_meant(text) {
            return Ok(Self::Folder(text.into()));
        }
        let bucket = text.parse();
        bucket
            .map(Self::Bucket)
            .map_err(|error: s3::PlaceError| error.to_string())
    }
}

/// Opens a bucket, with the rights in its file or in the environment. Sends nothing yet.
///
/// # Errors
/// A sentence that names the file and never its contents.
pub(super) fn open_bucket(place: &S3Place, read_file: ReadFile<'_>) -> Result<S3Target, String> {
    let credentials = match &place.credentials {
        None => None,
        Some(file) => {
            let text = private_file::read(Path::new(file), read_file)?;
            let read = text.parse::<S3Credentials>();
            Some(read.map_err(|error| format!("{file} cannot be used: {error}"))?)
        }
    };
    S3Target::new(place, credentials).map_err(|error| format!("{place}: {error}"))
}

/// Parses a target of backups: `nas=/mnt/backups`, `cloud=s3://bucket/folder`.
pub(super) fn backup_target(text: &str) -> Result<(String, BackupPlace), String> {
    let example = "write a name and a folder or a bucket, such as nas=/mnt/backups or \
                   cloud=s3://bucket/folder";
    let (name, place) = text.split_once('=').ok_or(example)?;
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-_.".contains(sign);
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
        return Err("the name of a target has 1 to 64 letters, digits, -, _ and .".to_owned());
    }
    let place: BackupPlace = place.parse()?;
    if matches!(&place, BackupPlace::Folder(folder) if !folder.is_absolute()) {
        return Err(format!("{example}: the folder begins with /"));
    }
    Ok((name.to_owned(), place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durabilities() {
        assert_eq!("sync".parse(), Ok(DurabilityOption(lsm::Durability::Sync)));
        assert_eq!("os".parse(), Ok(DurabilityOption(lsm::Durability::Os)));
        let interval = lsm::Durability::Interval(Duration::from_millis(100));
        assert_eq!("interval=100ms".parse(), Ok(DurabilityOption(interval)));
        for text in [
            "",
            "fsync",
            "interval",
            "interval=",
            "interval=0ms",
            "interval=2h",
        ] {
            assert!(text.parse::<DurabilityOption>().is_err(), "{text}");
        }
    }

    #[test]
    fn filters() {
        assert_eq!("none".parse(), Ok(FilterOption(None)));
        assert_eq!("0.01".parse(), Ok(FilterOption(Some(0.01))));
        for text in ["", "0", "1", "-0.1", "NaN", "inf", "off"] {
            assert!(text.parse::<FilterOption>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_displayed_value_parses_to_itself() {
        for text in ["sync", "os", "interval=2s"] {
            assert_eq!(text.parse::<DurabilityOption>().unwrap().to_string(), text);
        }
        for text in ["none", "0.01"] {
            assert_eq!(text.parse::<FilterOption>().unwrap().to_string(), text);
        }
    }
}
