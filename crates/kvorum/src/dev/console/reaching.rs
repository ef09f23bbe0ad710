//! How the console reaches the nodes on behalf of its user.
//!
//! Whoever has the console's token runs the cluster, or was given it by that person. So if the
//! nodes require tokens, a request without one is forwarded with the cluster's own token, which has
//! all rights. Nodes with TLS are verified by the cluster's authority.

use crate::dev::layout::{ClusterLayout, NodeLayout};
use crate::failure::Failure;
use crate::files;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long connecting to a node may take. A frozen node answers nothing.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// A stream to a node, plain or sealed.
pub(super) trait NodeStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> NodeStream for T {}

/// A node of the cluster.
#[derive(Clone)]
pub(super) struct ReachedNode {
    pub(super) name: String,
    pub(super) address: SocketAddr,
}

impl ReachedNode {
    fn of(node: &NodeLayout) -> Self {
        Self {
            name: node.name.clone(),
            address: node.address,
        }
    }
}

/// How the nodes are reached.
#[derive(Clone)]
pub(super) struct Reach {
    pub(super) nodes: Vec<ReachedNode>,
    /// None without TLS.
    tls: Option<TlsConnector>,
    /// The value of `authorization`; none without tokens.
    pub(super) authorization: Option<String>,
}

impl Reach {
    /// How the nodes of a cluster are reached, whose files are made. `tls` trusts its
    /// authority.
    ///
    /// # Errors
    /// The file of the token cannot be read.
    pub(super) fn of(
        layout: &ClusterLayout,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<Self, Failure> {
        let token_file = layout.admin_token.as_ref().map(|token| &token.token_file);
        let token = token_file.map(|file| {
            files::read(file).map_err(|error| {
                Failure::failed(format!("cannot read {}: {error}", file.display()))
            })
        });
        let token = token.transpose()?;
        Ok(Self {
            nodes: layout.nodes.iter().map(ReachedNode::of).collect(),
            tls: tls.map(|config| TlsConnector::from(Arc::clone(config))),
            authorization: token.map(|token| format!("Bearer {}", token.trim())),
        })
    }

    /// Connects to a node.
    ///
    /// # Errors
    /// It does not answer, or is not who it should be.
    pub(super) async fn connect(&self, node: &ReachedNode) -> io::Result<Box<dyn NodeStream>> {
        let connecting = async {
            let stream = TcpStream::connect(node.address).await?;
            let Some(connector) = &self.tls else {
                let stream: Box<dyn NodeStream> = Box::new(stream);
                return Ok(stream);
            };
            let host = ServerName::from(node.address.ip());
            let stream = connector.connect(host, stream).await?;
            Ok(Box::new(stream) as Box<dyn NodeStream>)
        };
        tokio::time::timeout(CONNECT_MAX, connecting).await?
    }
}
