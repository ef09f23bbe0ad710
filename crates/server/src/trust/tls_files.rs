//! The TLS files of a node: read at the start, and again when they change.

use crate::config::ServerConfig;
use crate::trust::reloading::Reload;
use base::Clock;
use cluster::{Members, NodeUrl};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tls::{Expected, MaterialError, NodeTls};

/// The permission bit with which all users of a machine may read a file.
const MODE_OF_ALL_READERS: u32 = 0o004;

/// Reads the files of TLS, if the node is to speak it. The certificate of a node that
/// others verify must be for the host of its URL, and of an authority that they trust.
///
/// # Errors
/// Which file cannot be used, and why.
pub(crate) fn load(
    config: &ServerConfig,
    clock: &dyn Clock,
) -> Result<Option<Arc<NodeTls>>, MaterialError> {
    let Some(tls) = &config.tls else {
        return Ok(None);
    };
    let now_unix_s = clock.unix_ms() / 1000;
    let node_tls = NodeTls::load(
        tls.files.clone(),
        expected_of(&config.node.members),
        now_unix_s,
    )?;
    warn_of_open_key(&tls.files.key);
    let expires = expiry_of(&node_tls);
    if node_tls.status().expires_unix_s < now_unix_s {
        tracing::error!(
            file = %tls.files.certificate.display(),
            expires,
            "the certificate has expired, so clients refuse it: renew it; the node reads the file \
             again when it changes"
        );
    } else {
        tracing::info!(expires, optional = tls.is_optional, "the node speaks TLS");
    }
    Ok(Some(Arc::new(node_tls)))
}

/// What the others of these members expect of the certificate of this one. While a cluster
/// moves to TLS and all its links are plain, no node looks at it.
fn expected_of(members: &Members) -> Expected {
    let is_dialled = members.own_url().is_https() && !members.is_single_node();
    let mut peers = members.others().map(|(_, peer)| peer.url());
    Expected {
        host: is_dialled.then(|| members.own_url().host().to_owned()),
        is_verified: is_dialled || peers.any(NodeUrl::is_https),
    }
}

/// Says that all users of the machine can read the key. It is no refusal, because some
/// systems hand out keys in this way to a container that has no other users.
fn warn_of_open_key(key: &Path) {
    let mode = std::fs::metadata(key).map(|metadata| metadata.permissions().mode());
    if mode.is_ok_and(|mode| mode & MODE_OF_ALL_READERS != 0) {
        tracing::warn!(
            file = %key.display(),
            "all users of this machine can read the node's private key, and impersonate the node: \
             run chmod o= on the file"
        );
    }
}

/// Reads the files of TLS again.
pub(crate) struct TlsReload {
    node_tls: Arc<NodeTls>,
    clock: Arc<dyn Clock>,
}

impl TlsReload {
    /// Reads the files of `node_tls` again.
    pub(crate) fn new(node_tls: Arc<NodeTls>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { node_tls, clock })
    }
}

impl Reload for TlsReload {
    fn reload(&self, is_ordered: bool) {
        let now_unix_s = self.clock.unix_ms() / 1000;
        match self.node_tls.reload(now_unix_s, is_ordered) {
            Ok(false) => {}
            Ok(true) => {
                warn_of_open_key(&self.node_tls.files().key);
                tracing::info!(
                    expires = expiry_of(&self.node_tls),
                    "the TLS files have changed: new connections use them"
                );
            }
            Err(error) => tracing::error!(
                problem = %error,
                "the TLS files have changed but cannot be used: the node keeps the previous ones"
            ),
        }
    }
}

/// When the certificate of a node expires, as people write it.
pub(crate) fn expiry_of(node_tls: &NodeTls) -> String {
    let unix_s = i64::try_from(node_tls.status().expires_unix_s).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(unix_s).map_or_else(|_| "never".to_owned(), |at| at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::Member;

    #[test]
    fn a_certificate_is_verified_once_a_link_uses_it() {
        let (plain, tls) = ("http://a:1", "https://a:1");
        let (plain_peer, tls_peer) = ("http://b:1", "https://b:1");
        for (urls, host, is_verified) in [
            (&[tls][..], None, false),
            (&[plain, plain_peer], None, false),
            (&[plain, tls_peer], None, true),
            (&[tls, plain_peer], Some("a"), true),
            (&[tls, tls_peer], Some("a"), true),
        ] {
            let urls: Vec<NodeUrl> = urls.iter().map(|url| url.parse().unwrap()).collect();
            let nodes = urls.iter().cloned().map(Member::unnamed).collect();
            let members = Members::new(nodes, &urls[0]).unwrap();
            let host = host.map(str::to_owned);
            assert_eq!(
                expected_of(&members),
                Expected { host, is_verified },
                "{urls:?}"
            );
        }
    }
}
