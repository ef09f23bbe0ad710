//! Asks nodes of a local cluster whether they are up, and operates them.

use super::layout::NodeLayout;
use api::Problem;
use client::{Limits, Node, SingleRequest, SingleResponse, Token};
use rustls::ClientConfig;
use serde::de::DeserializeOwned;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How often a starting node is asked.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// How long an answer may take before the node is asked again.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The longest answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// How long a node may take to do what it is told.
const ORDER_MAX: Duration = Duration::from_secs(30);

/// Who asks.
pub(super) struct Probe {
    /// Trusts the authority of the cluster; none without TLS.
    tls: Option<Arc<ClientConfig>>,
    /// The token with all rights; none if the nodes want none.
    token: Option<Token>,
}

impl Probe {
    /// Asks by `https` if there is something to trust.
    pub(super) fn new(tls: Option<Arc<ClientConfig>>, token: Option<Token>) -> Self {
        Self { tls, token }
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
        let page = self.ask(node.address, "GET", "/health/live", ANSWER_MAX);
        page.await.is_ok_and(|page| page.status == 200)
    }

    /// The page of a node.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn page<T: DeserializeOwned>(
        &self,
        node: SocketAddr,
        target: &str,
    ) -> Result<T, String> {
        let page = self.ask(node, "GET", target, ANSWER_MAX).await;
        read(&page.map_err(|error| error.to_string())?)
    }

    /// Has a node do something. Gives what it answers.
    ///
    /// # Errors
    /// Why it does not do it.
    pub(super) async fn order<T: DeserializeOwned>(
        &self,
        node: SocketAddr,
        target: &str,
    ) -> Result<T, String> {
        let answer = self.ask(node, "POST", target, ORDER_MAX).await;
        read(&answer.map_err(|error| error.to_string())?)
    }

    async fn ask(
        &self,
        address: SocketAddr,
        method: &str,
        target: &str,
        silence_max: Duration,
    ) -> Result<SingleResponse, Box<dyn std::error::Error + Send + Sync>> {
        let mut node = Node::new(&address.ip().to_string(), address.port());
        if let Some(config) = &self.tls {
            node = node.with_tls(Arc::clone(config))?;
        }
        if let Some(token) = &self.token {
            node = node.with_token(token.clone());
        }
        let asked = SingleRequest {
            method,
            target,
            headers: &[("Content-Type", "application/json")],
            limits: Limits {
                connect_max: ANSWER_MAX,
                silence_max,
            },
            bytes_max: ANSWER_BYTES_MAX,
        };
        Ok(client::fetch(&node, &asked).await?)
    }
}

/// What an answer holds, or the problem that it names.
fn read<T: DeserializeOwned>(answer: &SingleResponse) -> Result<T, String> {
    if !(200..300).contains(&answer.status) {
        let problem = Problem::parse(&answer.body).detail;
        return Err(if problem.is_empty() {
            format!("the node answers {}", answer.status)
        } else {
            problem
        });
    }
    serde_json::from_slice(&answer.body)
        .map_err(|error| format!("the node answers something else: {error}"))
}
