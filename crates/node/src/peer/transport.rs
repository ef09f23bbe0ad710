//! The transport seam.

use std::future::Future;
use std::io;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes to and from another node.
pub trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

/// Where a node is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// Its host: a name or an address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// A connection on its way.
pub type Dialing = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>>>>;

/// How nodes are reached.
pub trait Transport: Send + Sync {
    /// Connects to a node, up to where the peer protocol begins.
    fn dial(&self, address: &PeerAddress) -> Dialing;
}
