//! Requests, each on a connection of its own.

use async_trait::async_trait;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

/// How long a connection may take, its handshake included.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// How long the head of an answer may take, and the request before it.
const ANSWER_MAX: Duration = Duration::from_secs(40);

/// Makes the client for requests.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    pub(crate) resolver: Arc<dial::Resolver>,
    /// Whom to trust; `None` for a server without TLS.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

fn late(what: &'static str) -> HttpError {
    HttpError::new(HttpErrorKind::Timeout, io::Error::other(what))
}

impl Connector {
    async fn open(&self, host: &str, port: u16) -> io::Result<Box<dyn Stream>> {
        // An address of version 6 is in brackets.
        let name = host.trim_start_matches('[').trim_end_matches(']');
        let addresses = self.resolver.addresses(name, port).await?;
        let socket = dial::connect(&addresses).await?;
        socket.set_nodelay(true)?;
        let Some(tls) = &self.tls else {
            return Ok(Box::new(socket));
        };
        let name = ServerName::try_from(name.to_owned());
        let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let connector = TlsConnector::from(Arc::clone(tls));
        let connected = connector.connect(name, socket).await;
        let explain = |error: io::Error| io::Error::new(error.kind(), tls::explain(&error));
        Ok(Box::new(connected.map_err(explain)?))
    }
}

#[async_trait]
impl HttpService for Connector {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let uri = request.uri().clone();
        let default_port = if self.tls.is_some() { 443 } else { 80 };
        let (host, port) = (
            uri.host().unwrap_or_default(),
            uri.port_u16().unwrap_or(default_port),
        );
        let opened = tokio::time::timeout(CONNECT_MAX, self.open(host, port)).await;
        let stream = opened
            .map_err(|_| late("the server takes no connection"))?
            .map_err(|error| HttpError::new(HttpErrorKind::Connect, error))?;
        let failed = |error| HttpError::new(HttpErrorKind::Request, error);
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(failed)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to a target of backups broke");
            }
        });
        // A signature covers the host.
        if let Some(authority) = uri.authority()
            && let Ok(value) = HeaderValue::from_str(authority.as_str())
        {
            request.headers_mut().entry(HOST).or_insert(value);
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        if let Ok(path) = path.parse() {
            *request.uri_mut() = path;
        }
        let answered = tokio::time::timeout(ANSWER_MAX, sender.send_request(request)).await;
        let answer = answered
            .map_err(|_| late("the server does not answer"))?
            .map_err(failed)?;
        let (head, body) = answer.into_parts();
        let body = HttpResponseBody::new(Body(body));
        Ok(HttpResponse::from_parts(head, body))
    }
}

/// The body of an answer.
struct Body(hyper::body::Incoming);

impl hyper::body::Body for Body {
    type Data = bytes::Bytes;
    type Error = HttpError;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<bytes::Bytes>, HttpError>>> {
        let body = std::pin::Pin::new(&mut self.get_mut().0);
        let failed = |error| HttpError::new(HttpErrorKind::Interrupted, error);
        body.poll_frame(cx)
            .map(|frame| frame.map(|frame| frame.map_err(failed)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.0.size_hint()
    }
}
