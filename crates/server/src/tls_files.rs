//! The files of TLS at a node: read at the start, and again when they change.

use crate::config::ServerConfig;
use crate::trust::reloading::Reload;
use base::Clock;
use std::sync::Arc;
use tls::{MaterialError, NodeTls};

/// Reads the files of TLS, if the node is to speak it. The certificate of a node that
/// others verify must be for the host of its URL.
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
    let members = &config.node.members;
    let is_verified = members.own_url().is_https() && !members.is_single_node();
    let host = is_verified.then(|| members.own_url().host().to_owned());
    let node_tls = NodeTls::load(tls.files.clone(), host)?;
    let expires = expiry_of(&node_tls);
    if node_tls.status().expires_unix_s < clock.unix_ms() / 1000 {
        tracing::error!(
            file = %tls.files.certificate.display(),
            expires,
            "the certificate has expired, so clients and peers refuse it: renew it; the node \
             reads the file again when it changes"
        );
    } else {
        tracing::info!(expires, optional = tls.is_optional, "the node speaks TLS");
    }
    Ok(Some(Arc::new(node_tls)))
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
            Ok(true) => tracing::info!(
                expires = expiry_of(&self.node_tls),
                "the files of TLS have changed: new connections use them"
            ),
            Err(error) => tracing::error!(
                problem = %error,
                "the files of TLS have changed and cannot be used: the node goes on with those \
                 that it has"
            ),
        }
    }
}

/// When the certificate of a node expires, as people write it.
fn expiry_of(node_tls: &NodeTls) -> String {
    let unix_s = i64::try_from(node_tls.status().expires_unix_s).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(unix_s).map_or_else(|_| "never".to_owned(), |at| at.to_string())
}
