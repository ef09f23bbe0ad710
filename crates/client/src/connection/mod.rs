//! A connection to a node, and its answers.
//!
//! hyper speaks HTTP/1.1; this module adds a bound on silence. A request fails when no byte has
//! moved in either direction for [`Limits::silence_max`]: a long upload that makes progress is not
//! silent. An answer without a length or chunks is refused, because a truncated one would look
//! complete.
//!
//! `transport` carries the bytes: a `socket`, or TLS over one.

mod answer;
mod body;
mod socket;
mod transport;

pub(crate) use answer::{Answer, LINES_TYPE};
pub(crate) use body::RequestBody;

use crate::error::Error;
use crate::node::Node;
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use rustls::AlertDescription;
use socket::{Activity, Probe};
use std::error::Error as _;
use std::future::Future;
use std::io;
use std::time::{Duration, Instant};
use tls::HandshakeFailure;
use tokio::task::JoinHandle;
use transport::{SpeaksTls, Transport};

/// How long a client waits for a node.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For a connection, once the addresses of the node are known.
    pub connect_max: Duration,
    /// For the next byte.
    pub silence_max: Duration,
}

/// A connection to a node.
#[derive(Debug)]
pub(crate) struct Connection {
    node: Node,
    sender: SendRequest<RequestBody>,
    probe: Probe,
    driver: Driver,
}

/// The task that moves the bytes of a connection. It ends with its last owner.
#[derive(Debug)]
struct Driver {
    task: JoinHandle<()>,
    activity: Activity,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    /// Connects to a node.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Distrusted`].
    pub(crate) async fn open(node: &Node, limits: Limits) -> Result<Self, Error> {
        let unreachable = |error: io::Error| {
            if tls_error(&error).is_some() {
                return distrusted(node, &error);
            }
            Error::Unreachable {
                node: node.url().to_owned(),
                problem: match error.kind() {
                    io::ErrorKind::ConnectionRefused => None,
                    _ => Some(tls::explain(&error)),
                },
            }
        };
        // A slow resolver takes none of the time that the node has.
        let addresses = node.addresses().await.map_err(unreachable)?;
        let opened = Transport::open(node, &addresses);
        let opened = tokio::time::timeout(limits.connect_max, opened);
        let transport = match opened.await {
            Ok(transport) => transport.map_err(unreachable)?,
            Err(_) => return Err(unreachable(io::ErrorKind::TimedOut.into())),
        };
        let activity = transport.activity();
        let probe = transport.probe().map_err(unreachable)?;
        let (sender, connection) = http1::handshake(transport)
            .await
            .map_err(|error| unreachable(io::Error::other(error)))?;
        let task = tokio::spawn(async move {
            // A request that is under way learns of the error.
            let _ = connection.await;
        });
        Ok(Self {
            node: node.clone(),
            sender,
            probe,
            driver: Driver { task, activity },
        })
    }

    /// Whether it leads to a node as this one is reached.
    pub(crate) fn is_to(&self, node: &Node) -> bool {
        self.node.is_reached_as(node)
    }

    /// Whether nothing has come since the last answer, not even the end of the connection.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.sender.is_closed() && self.probe.is_quiet()
    }

    /// Waits until it takes another request, once the answer to the last one is read.
    /// Returns whether it ever does.
    pub(crate) async fn wait_until_ready(&mut self, limits: Limits) -> bool {
        let ready = tokio::time::timeout(limits.connect_max, self.sender.ready());
        matches!(ready.await, Ok(Ok(())))
    }

    /// Sends a request and waits for the head of its answer. With [`Answer::finish`] the
    /// connection can be used again.
    ///
    /// # Errors
    /// [`Error::Silent`], [`Error::Cut`], [`Error::OtherServer`].
    pub(crate) async fn send(
        mut self,
        request: Request<RequestBody>,
        limits: Limits,
    ) -> Result<Answer, Error> {
        let response = self.sender.try_send_request(request);
        let response = self.driver.within(&self.node, limits, response).await?;
        let response = response.map_err(|error| match error.message() {
            None => error_of(&self.node, error.error()),
            // It comes back if nothing of it was sent.
            Some(_) => Error::Unreachable {
                node: self.node.url().to_owned(),
                problem: Some("the connection ended before the request was sent".to_owned()),
            },
        })?;
        Answer::new(self, response, limits)
    }
}

impl Driver {
    /// Waits for something, as long as bytes move now and then.
    async fn within<T>(
        &self,
        node: &Node,
        limits: Limits,
        awaited: impl Future<Output = T>,
    ) -> Result<T, Error> {
        self.activity.note();
        let mut awaited = std::pin::pin!(awaited);
        loop {
            let silent_at = self.activity.last() + limits.silence_max;
            match tokio::time::timeout_at(silent_at.into(), &mut awaited).await {
                Ok(done) => return Ok(done),
                Err(_) if self.activity.last() + limits.silence_max > Instant::now() => {}
                Err(_) => {
                    return Err(Error::Silent {
                        node: node.url().to_owned(),
                        waited: limits.silence_max,
                    });
                }
            }
        }
    }
}

fn distrusted(node: &Node, error: &io::Error) -> Error {
    Error::Distrusted {
        node: node.url().to_owned(),
        failure: HandshakeFailure::of(error),
        problem: tls::explain(error),
    }
}

/// The error of TLS in one of a connection.
fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// The error of a connection that its node has ended for reasons of TLS, before it served a
/// request. What else goes wrong with TLS may come later.
fn late_distrust(node: &Node, error: &hyper::Error) -> Option<Error> {
    let error: &io::Error = error.source()?.downcast_ref()?;
    if error.get_ref()?.is::<SpeaksTls>() {
        return Some(Error::Distrusted {
            node: node.url().to_owned(),
            failure: HandshakeFailure::Plain,
            problem: SpeaksTls.to_string(),
        });
    }
    // With TLS 1.3 a node judges a client's certificate after the client's handshake is over.
    use AlertDescription as Alert;
    matches!(
        tls_error(error)?,
        rustls::Error::AlertReceived(
            Alert::CertificateRequired
                | Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::UnknownCA
                | Alert::AccessDenied
                | Alert::DecryptError
        )
    )
    .then(|| distrusted(node, error))
}

/// What an error of hyper says about the node.
fn error_of(node: &Node, error: &hyper::Error) -> Error {
    if let Some(error) = late_distrust(node, error) {
        return error;
    }
    let node = node.url().to_owned();
    if error.is_parse() {
        Error::other_server(&node, error.to_string())
    } else {
        Error::Cut { node }
    }
}

#[cfg(test)]
mod tests;
