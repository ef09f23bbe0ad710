//! The secret that only the nodes of a cluster know.

use super::ConfigError;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The secret by which the nodes of a cluster recognise each other. Logs and `Debug`
/// never show it.
#[derive(Clone)]
pub struct Secret(Arc<[u8]>);

impl Secret {
    /// How long a secret may be, in bytes: too long to be guessed, and short enough to
    /// exclude most files that were named by mistake.
    pub const BYTES: RangeInclusive<usize> = 16..=4096;

    /// These bytes as a secret.
    ///
    /// # Errors
    /// Too few or too many bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, ConfigError> {
        if Self::BYTES.contains(&bytes.len()) {
            return Ok(Self(bytes.into()));
        }
        let (least, most) = (Self::BYTES.start(), Self::BYTES.end());
        let problem = format!(
            "the secret has {} bytes: give {least} to {most}",
            bytes.len()
        );
        Err(ConfigError::new("cluster_secret", problem))
    }

    /// The secret itself.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_long_enough_and_is_not_shown() {
        for bytes in [16, 17, 4096] {
            let secret = Secret::new(&vec![b'k'; bytes]).unwrap();
            assert_eq!(secret.as_bytes().len(), bytes);
            assert!(!format!("{secret:?}").contains('k'));
        }
        for bytes in [0, 15, 4097] {
            let error = Secret::new(&vec![b'k'; bytes]).unwrap_err();
            assert_eq!(error.field, "cluster_secret");
            assert!(!error.problem.contains("kkk"), "{error}");
        }
    }
}
