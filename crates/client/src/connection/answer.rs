//! The answer to a request, read piece by piece.

use super::{Connection, Limits, error_of};
use crate::error::Error;
use crate::error::refusal::{PROBLEM_BYTES_MAX, Refusal};
use api::Problem;
use bytes::Bytes;
use http_body::Body;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, RETRY_AFTER};
use hyper::{HeaderMap, Response, Version};
use serde::de::DeserializeOwned;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

/// The type of lines of JSON, in requests and answers.
pub(crate) const LINES_TYPE: &str = "application/x-ndjson";

/// An answer whose head is here.
pub(crate) struct Answer {
    connection: Connection,
    status: u16,
    headers: HeaderMap,
    body: Incoming,
    trailers: Option<HeaderMap>,
    /// Whether the body was read to its end.
    is_whole: bool,
    limits: Limits,
}

impl Answer {
    /// Takes the answer to the last request of a connection.
    ///
    /// # Errors
    /// [`Error::OtherServer`] if a cut answer would look whole.
    pub(super) fn new(
        connection: Connection,
        response: Response<Incoming>,
        limits: Limits,
    ) -> Result<Self, Error> {
        let (head, body) = response.into_parts();
        let other = |problem: &str| Error::other_server(connection.node.url(), problem);
        if head.version != Version::HTTP_11 {
            return Err(other("it answers in another version of HTTP"));
        }
        let has_end = head.headers.contains_key("content-length")
            || head.headers.contains_key("transfer-encoding")
            || body.is_end_stream();
        if !has_end {
            return Err(other("its answer does not say where it ends"));
        }
        Ok(Self {
            connection,
            status: head.status.as_u16(),
            headers: head.headers,
            body,
            trailers: None,
            is_whole: false,
            limits,
        })
    }

    /// The URL of the node.
    pub(crate) fn node(&self) -> &str {
        self.connection.node.url()
    }

    /// The answer, if it has the status of success that the API names for its request. A
    /// proxy, or a server that is none of the store, may answer `200` to anything.
    ///
    /// # Errors
    /// [`Error::Refused`] for any other status.
    pub(crate) async fn expect(mut self, status: u16) -> Result<Self, Error> {
        self.check(status).await?;
        Ok(self)
    }

    /// As [`Self::expect`]. The body of another answer is read.
    ///
    /// # Errors
    /// As [`Self::expect`].
    pub(crate) async fn check(&mut self, status: u16) -> Result<(), Error> {
        if self.status == status {
            Ok(())
        } else {
            Err(self.error().await)
        }
    }

    /// Whether its connection can be used again.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether its body is lines of JSON.
    ///
    /// # Errors
    /// [`Error::OtherServer`].
    pub(crate) fn expect_lines(&self) -> Result<(), Error> {
        // A proxy may have added parameters.
        let media_type = self.header(CONTENT_TYPE.as_str()).unwrap_or_default();
        let media_type = media_type.split(';').next().unwrap_or_default().trim();
        if media_type.eq_ignore_ascii_case(LINES_TYPE) {
            Ok(())
        } else {
            Err(self.other("these are not lines of JSON"))
        }
    }

    /// The error of an answer that no node gives.
    pub(crate) fn other(&self, problem: impl Into<String>) -> Error {
        Error::other_server(self.node(), problem)
    }

    /// The status.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// A field of the head, as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// A field behind the body, as text, once the body is read.
    pub(crate) fn trailer(&self, name: &str) -> Option<&str> {
        self.trailers.as_ref()?.get(name)?.to_str().ok()
    }

    /// The next piece of the body; `None` at its end.
    ///
    /// # Errors
    /// [`Error::Silent`], [`Error::Cut`].
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let Self {
            connection, body, ..
        } = self;
        loop {
            let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
            let frame = connection
                .driver
                .within(&connection.node, self.limits, frame);
            match frame.await? {
                None => {
                    self.is_whole = true;
                    return Ok(None);
                }
                Some(Err(error)) => return Err(error_of(&connection.node, &error)),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) if piece.is_empty() => {}
                    Ok(piece) => return Ok(Some(piece)),
                    Err(frame) => self.trailers = frame.into_trailers().ok(),
                },
            }
        }
    }

    /// The whole body.
    ///
    /// # Errors
    /// As [`Self::next`], and [`Error::TooLong`].
    pub(crate) async fn read_all(&mut self, bytes_max: u64) -> Result<Vec<u8>, Error> {
        let mut all = Vec::new();
        while let Some(piece) = self.next().await? {
            if (all.len() + piece.len()) as u64 > bytes_max {
                return Err(Error::TooLong {
                    node: self.node().to_owned(),
                    bytes_max,
                });
            }
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }

    /// What its body, which is here, says as JSON.
    ///
    /// # Errors
    /// [`Error::OtherServer`].
    #[expect(
        clippy::needless_pass_by_value,
        reason = "it is what a caller of `fetch` does"
    )]
    pub(crate) fn json<T: DeserializeOwned>(&self, body: Vec<u8>) -> Result<T, Error> {
        serde_json::from_slice(&body).map_err(|error| self.other(error.to_string()))
    }

    /// The error that an answer without success stands for. The body is read for it.
    async fn error(&mut self) -> Error {
        let body = match self.read_all(PROBLEM_BYTES_MAX).await {
            Ok(body) => body,
            Err(error) => return error,
        };
        let retry_after = self.header(RETRY_AFTER.as_str());
        let retry_after = retry_after.and_then(|seconds| seconds.parse().ok());
        Error::Refused(Box::new(Refusal {
            node: self.node().to_owned(),
            status: self.status,
            problem: Problem::parse(&body),
            version: self.header("kvorum-version").map(str::to_owned),
            etag: self.header("etag").map(str::to_owned),
            retry_after: retry_after.map(Duration::from_secs),
        }))
    }

    /// The connection, once the body is read.
    pub(crate) fn finish(self) -> Connection {
        self.connection
    }
}
