//! Checks who can reach the node, and what they may do.

use super::{LogKeys, ServerConfig};
use node::ConfigError;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Who may do what.
#[derive(Clone, Debug, Default)]
pub struct TrustConfig {
    /// The file of the tokens that clients need. `None`: they need none.
    pub tokens_file: Option<PathBuf>,
    /// Whether tokens may cross a network in clear. Default: no.
    pub tokens_in_clear: bool,
    /// Whether the node may be reached from other machines although clients need no token.
    /// Default: no.
    pub open: bool,
    /// Where the audit log goes. `None`: there is none.
    pub audit_log: Option<AuditTarget>,
    /// How keys appear in logs.
    pub log_keys: LogKeys,
}

/// Where the audit log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditTarget {
    /// To stderr, where the log goes, too.
    Stderr,
    /// To a file, which is opened again on SIGHUP.
    File(PathBuf),
}

impl ServerConfig {
    /// Checks that the options for trust go together.
    ///
    /// # Errors
    /// The one that does not, and what to do.
    pub(super) fn validate_trust(&self) -> Result<(), ConfigError> {
        let (trust, node) = (&self.trust, &self.node);
        if trust.tokens_file.is_none() {
            return Ok(());
        }
        if trust.open {
            return Err(ConfigError::new(
                "open",
                "it lets everyone in, and --tokens-file only clients with a token: omit one of \
                 the two",
            ));
        }
        if !node.is_alone() && node.cluster_secret.is_none() {
            return Err(ConfigError::new(
                "tokens_file",
                "without a secret whoever can connect can pass for a node, and nodes need no \
                 token: give --cluster-secret-file, too",
            ));
        }
        Ok(())
    }

    /// Whether the node takes no connection without TLS.
    fn is_never_in_clear(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| !tls.is_optional)
    }

    /// Checks that only those reach the node on these addresses whom the operator means
    /// to let in.
    ///
    /// # Errors
    /// The address that others reach, and what to do.
    pub(crate) fn check_exposure(&self, addresses: &[SocketAddr]) -> Result<(), ConfigError> {
        let is_beyond = |address: &&SocketAddr| !address.ip().to_canonical().is_loopback();
        let Some(address) = addresses.iter().find(is_beyond) else {
            return Ok(());
        };
        let trust = &self.trust;
        match trust.tokens_file {
            None if trust.open => Ok(()),
            None => Err(ConfigError::new(
                "open",
                format!(
                    "other machines can reach {address}, and without tokens they may read, write \
                     and delete everything: give --tokens-file (kvorum admin token new --append makes \
                     one), or --open if everyone who can reach the node may do that, or \
                     --listen 127.0.0.1:{}",
                    address.port()
                ),
            )),
            Some(_) if trust.tokens_in_clear || self.is_never_in_clear() => Ok(()),
            Some(_) => Err(ConfigError::new(
                "tokens_in_clear",
                format!(
                    "tokens would cross the network to {address} in the clear, where others can \
                     read and use them: give --tls-cert and --tls-key without --tls-optional, or \
                     --tokens-in-clear if something else encrypts that network or the cluster is \
                     moving to TLS, or --listen 127.0.0.1:{}",
                    address.port()
                ),
            )),
        }
    }
}
