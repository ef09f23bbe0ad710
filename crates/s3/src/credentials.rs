//! The rights to a bucket, as a file names them.

use std::fmt;
use std::str::FromStr;

/// The names of settings, as every program for S3 reads them from its environment.
const ID: &str = "AWS_ACCESS_KEY_ID";
const SECRET: &str = "AWS_SECRET_ACCESS_KEY";
const TOKEN: &str = "AWS_SESSION_TOKEN";

/// Who may use a bucket.
#[derive(Clone, PartialEq, Eq)]
pub struct S3Credentials {
    pub(crate) id: String,
    pub(crate) secret: String,
    pub(crate) token: Option<String>,
}

/// Why a file names no rights. It quotes nothing of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// It has something else.
    #[error("line {0} is none of {ID}=…, {SECRET}=… and {TOKEN}=…")]
    Line(usize),
    /// It has not what is needed.
    #[error("{ID} or {SECRET} is missing")]
    Missing,
}

impl fmt::Debug for S3Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("S3Credentials")
            .finish_non_exhaustive()
    }
}

impl FromStr for S3Credentials {
    type Err = CredentialsError;

    /// Reads lines `NAME=value`; empty ones and those that begin with `#` say nothing.
    fn from_str(text: &str) -> Result<Self, CredentialsError> {
        let (mut id, mut secret, mut token) = (None, None, None);
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = CredentialsError::Line(number);
            let (name, value) = line.split_once('=').ok_or(wrong)?;
            let place = match name.trim() {
                ID => &mut id,
                SECRET => &mut secret,
                TOKEN => &mut token,
                _ => return Err(wrong),
            };
            *place = Some(value.trim().to_owned());
        }
        match (id, secret) {
            (Some(id), Some(secret)) => Ok(Self { id, secret, token }),
            _ => Err(CredentialsError::Missing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_an_id_and_a_secret_and_errors_quote_neither() {
        let text = "# of the bucket\nAWS_ACCESS_KEY_ID=me\n\n AWS_SECRET_ACCESS_KEY = a=b/+ \n";
        let read: S3Credentials = text.parse().unwrap();
        assert_eq!((read.id.as_str(), read.secret.as_str()), ("me", "a=b/+"));
        assert_eq!(read.token, None);
        assert!(!format!("{read:?}").contains("a=b"));
        let token = format!("{text}AWS_SESSION_TOKEN=t");
        let read: S3Credentials = token.parse().unwrap();
        assert_eq!(read.token.as_deref(), Some("t"));
        for (text, error) in [
            ("", CredentialsError::Missing),
            ("AWS_ACCESS_KEY_ID=me", CredentialsError::Missing),
            ("#\nsecret", CredentialsError::Line(2)),
            ("secret=x", CredentialsError::Line(1)),
        ] {
            assert_eq!(text.parse::<S3Credentials>(), Err(error));
            assert!(!error.to_string().contains("secret"));
        }
    }
}
