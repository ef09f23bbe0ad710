//! How the console reaches the nodes on behalf of its user.
//!
//! Whoever has the console's token runs the cluster, or was given it by that person. So if the
//! nodes require tokens, a request without one is forwarded with the cluster's own token, which has
//! all rights. Nodes with TLS are verified by the cluster's authority.

use super::body::ConsoleBody;
use super::stream::HyperStream;
use crate::dev::actions::Supervisor;
use crate::dev::layout::ClusterLayout;
use crate::failure::Failure;
use crate::files;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
use hyper::{Method, Request, Uri};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// How long connecting to a node may take. A frozen node answers nothing.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// A stream to a node, plain or encrypted.
trait NodeStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> NodeStream for T {}

/// What sends requests to a node, and what moves their bytes until it is dropped.
pub(super) type NodeConnection = (SendRequest<ConsoleBody>, JoinSet<()>);

/// A node of the cluster.
#[derive(Clone)]
pub(super) struct ReachedNode {
    pub(super) name: String,
    pub(super) address: SocketAddr,
}

impl From<Supervisor> for ReachedNode {
    fn from(node: Supervisor) -> Self {
        Self {
            name: node.name,
            address: node.address,
        }
    }
}

/// How the nodes are reached.
#[derive(Clone)]
pub(super) struct Reach {
    /// None without TLS.
    tls: Option<TlsConnector>,
    /// The value of `authorization`; none without tokens.
    authorization: Option<HeaderValue>,
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
        let authorization = token.transpose()?.map(|token| {
            HeaderValue::try_from(format!("Bearer {}", token.trim()))
                .map_err(|error| Failure::failed(format!("the cluster's token is none: {error}")))
        });
        Ok(Self {
            tls: tls.map(|config| TlsConnector::from(Arc::clone(config))),
            authorization: authorization.transpose()?,
        })
    }

    /// A request to a node, which shows the cluster's token.
    ///
    /// # Errors
    /// None: methods, targets and addresses are valid.
    pub(super) fn request(
        &self,
        node: &ReachedNode,
        method: Method,
        target: Uri,
        body: ConsoleBody,
    ) -> Result<Request<ConsoleBody>, hyper::http::Error> {
        let request = Request::builder().method(method).uri(target);
        let mut request = request.header(HOST, node.address.to_string()).body(body)?;
        if let Some(value) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, value.clone());
        }
        Ok(request)
    }

    /// Connects to a node.
    ///
    /// # Errors
    /// It does not answer, or is not who it should be.
    pub(super) async fn connect(&self, node: &ReachedNode) -> io::Result<NodeConnection> {
        let opened = tokio::time::timeout(CONNECT_MAX, self.open(node)).await??;
        let handshake = http1::handshake(HyperStream(opened)).await;
        let (sender, connection) = handshake.map_err(io::Error::other)?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // A request that is under way learns of the error.
            let _ended = connection.await;
        });
        Ok((sender, driver))
    }

    async fn open(&self, node: &ReachedNode) -> io::Result<Box<dyn NodeStream>> {
        let stream = TcpStream::connect(node.address).await?;
        let Some(connector) = &self.tls else {
            return Ok(Box::new(stream));
        };
        let host = ServerName::from(node.address.ip());
        Ok(Box::new(connector.connect(host, stream).await?))
    }
}
