//! Asks nodes of a local cluster whether they are up.

use super::layout::NodeLayout;
use client::{Limits, Node, SingleRequest};
use rustls::ClientConfig;
use std::sync::Arc;
use std::time::Duration;

/// How often a starting node is asked.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// How long an answer may take before the node is asked again.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The longest answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 1 << 16;

/// Who asks.
pub(super) struct Probe {
    /// Trusts the authority of the cluster; none without TLS.
    tls: Option<Arc<ClientConfig>>,
}

impl Probe {
    /// Asks by `https` if there is something to trust.
    pub(super) fn new(tls: Option<Arc<ClientConfig>>) -> Self {
        Self { tls }
    }

    /// What it trusts; none without TLS.
    pub(super) fn tls(&self) -> Option<&Arc<ClientConfig>> {
        self.tls.as_ref()
    }

    /// Waits until a node serves requests.
    pub(super) async fn wait_until_up(&self, node: &NodeLayout) {
        while !self.is_up(node).await {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Whether a node answers that it serves, for which it wants no token.
    async fn is_up(&self, node: &NodeLayout) -> bool {
        let plain = Node::new(&node.address.ip().to_string(), node.address.port());
        let node = match &self.tls {
            None => Ok(plain),
            Some(config) => plain.with_tls(Arc::clone(config)),
        };
        let Ok(node) = node else { return false };
        let asked = SingleRequest {
            method: "GET",
            target: "/health/live",
            headers: &[],
            limits: Limits {
                connect_max: ANSWER_MAX,
                silence_max: ANSWER_MAX,
            },
            bytes_max: ANSWER_BYTES_MAX,
        };
        let page = client::fetch(&node, &asked).await;
        page.is_ok_and(|page| page.status == 200)
    }
}
