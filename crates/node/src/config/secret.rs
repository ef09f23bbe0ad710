//! The secrets that only the nodes of a cluster know.

use super::ConfigError;
use profile::lock;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

/// The secret by which the nodes of a cluster recognise each other. Logs and `Debug`
/// never show it.
#[derive(Clone, PartialEq, Eq)]
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

    /// The secret itself, shared.
    pub(crate) fn shared_bytes(&self) -> Arc<[u8]> {
        Arc::clone(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The secrets of a cluster: one, or two while it changes. A node proves that it knows
/// the first, and accepts the proof of either. Clones share them, so that they can be
/// replaced while the node runs.
#[derive(Clone)]
pub struct Secrets(Arc<Mutex<Vec<Secret>>>);

impl Secrets {
    /// The most secrets at a time: the new one and the one before.
    pub const MAX: usize = 2;

    /// These secrets, the first of which is proved.
    ///
    /// # Errors
    /// None, or too many.
    pub fn new(secrets: Vec<Secret>) -> Result<Self, ConfigError> {
        match secrets.len() {
            1..=Self::MAX => Ok(Self(Arc::new(Mutex::new(secrets)))),
            count => Err(ConfigError::new(
                "cluster_secret",
                format!("there are {count} secrets: give one, or two while it changes"),
            )),
        }
    }

    /// Replaces the secrets by others, from the next handshake on. Returns whether they
    /// differ.
    pub fn replace(&self, others: &Self) -> bool {
        let others = lock(&others.0).clone();
        let mut secrets = lock(&self.0);
        let differ = !secrets.iter().eq(&others);
        *secrets = others;
        differ
    }

    /// The secrets themselves.
    #[must_use]
    pub fn list(&self) -> Vec<Secret> {
        lock(&self.0).clone()
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(…)")
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

    #[test]
    fn there_are_one_or_two_secrets_which_all_clones_share() {
        let secret = |byte| Secret::new(&[byte; 16]).unwrap();
        for count in [0, 3] {
            assert!(Secrets::new(vec![secret(b'k'); count]).is_err());
        }
        let secrets = Secrets::new(vec![secret(b'k')]).unwrap();
        assert!(!format!("{secrets:?}").contains('k'));
        let shared = secrets.clone();
        let both = Secrets::new(vec![secret(b'l'), secret(b'k')]).unwrap();
        assert!(secrets.replace(&both));
        assert!(!secrets.replace(&both));
        assert_eq!(shared.list(), both.list());
    }
}
