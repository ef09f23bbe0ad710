//! Where a bucket is, as people write it.

use std::fmt;
use std::str::FromStr;

/// The name before the bucket.
const SCHEME: &str = "s3://";

/// A bucket, and a folder in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct S3Place {
    /// The bucket.
    pub bucket: String,
    /// The folder in it; empty if objects lie at its top.
    pub folder: String,
    /// The region; that of the environment if none is named.
    pub region: Option<String>,
    /// The URL of a server other than that of AWS.
    pub endpoint: Option<String>,
    /// The file with the rights to it; those of the environment if none is named.
    pub credentials: Option<String>,
}

/// Why a text names no bucket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}: write s3://BUCKET/FOLDER, and then ?, with & in between: region=NAME, endpoint=URL for another \
     server than that of AWS, credentials=FILE"
)]
pub struct PlaceError(String);

impl S3Place {
    /// Whether a text means a bucket, and no folder of this machine.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(SCHEME)
    }
}

impl FromStr for S3Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let wrong = |what: String| PlaceError(what);
        let rest = text.strip_prefix(SCHEME);
        let rest = rest.ok_or_else(|| wrong("it does not begin with s3://".to_owned()))?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (bucket, folder) = path.split_once('/').unwrap_or((path, ""));
        let is_plain = |text: &str, more: &str| {
            let mut signs = text.chars();
            signs.all(|sign| sign.is_ascii_alphanumeric() || more.contains(sign))
        };
        if !(3..=63).contains(&bucket.len()) || !is_plain(bucket, "-.") {
            return Err(wrong(format!("{bucket:?} is no name of a bucket")));
        }
        let folder = folder.trim_end_matches('/');
        let mut parts = folder.split('/');
        let is_name = |part: &str| !part.is_empty() && !matches!(part, "." | "..");
        let is_folder = parts.all(is_name) && is_plain(folder, "/-_.");
        if !folder.is_empty() && !is_folder {
            return Err(wrong(format!("{folder:?} is no folder of a bucket")));
        }
        let mut place = Self {
            bucket: bucket.to_owned(),
            folder: folder.to_owned(),
            ..Self::default()
        };
        for parameter in query.split('&').filter(|it| !it.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let known = match name {
                "region" => &mut place.region,
                "endpoint" => &mut place.endpoint,
                "credentials" => &mut place.credentials,
                _ => return Err(wrong(format!("{name:?} is no setting of a bucket"))),
            };
            let is_url = value.starts_with("http://") || value.starts_with("https://");
            let is_path = value.starts_with('/');
            let is_wrong = match name {
                "endpoint" => !is_url,
                "credentials" => !is_path,
                _ => false,
            };
            if value.is_empty() || known.is_some() || is_wrong {
                return Err(wrong(format!("{parameter:?} is no {name}")));
            }
            *known = Some(value.to_owned());
        }
        Ok(place)
    }
}

impl fmt::Display for S3Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{SCHEME}{}/{}", self.bucket, self.folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_bucket_a_folder_and_a_server() {
        let text = "s3://backups/kvorum/one?region=eu-1&endpoint=http://[::1]:9000\
                    &credentials=/etc/kvorum/s3";
        let place: S3Place = text.parse().unwrap();
        assert_eq!(place.bucket, "backups");
        assert_eq!(place.folder, "kvorum/one");
        assert_eq!(place.region.as_deref(), Some("eu-1"));
        assert_eq!(place.endpoint.as_deref(), Some("http://[::1]:9000"));
        assert_eq!(place.credentials.as_deref(), Some("/etc/kvorum/s3"));
        assert_eq!(place.to_string(), "s3://backups/kvorum/one");
        let short: S3Place = "s3://backups/".parse().unwrap();
        assert_eq!((short.folder.as_str(), short.endpoint), ("", None));
        for text in [
            "/mnt/backups",
            "s3:/backups",
            "s3://",
            "s3://x/folder",
            "s3://backups/a/../b",
            "s3://backups//a",
            "s3://backups/a b",
            "s3://user:secret@host/x",
            "s3://backups?region=",
            "s3://backups?endpoint=minio",
            "s3://backups?credentials=s3",
            "s3://backups?region=a&region=b",
            "s3://backups?secret=x",
        ] {
            assert!(text.parse::<S3Place>().is_err(), "{text}");
        }
    }
}
