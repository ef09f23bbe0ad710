//! How commands ask one node: blocking, over a connection of their own.

use crate::access::{self, Access};
use crate::failure::Failure;
use api::Problem;
use client::{Error, Limits, Refusal, Remedy, SingleRequest, SingleResponse};
use cluster::NodeUrl;
use std::convert::Infallible;
use std::time::Duration;

/// How long connecting to the node may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// A request to a node, without a body.
pub(crate) struct NodeRequest<'a> {
    pub(crate) node: &'a NodeUrl,
    /// Whom the command trusts, and how it shows who it is.
    pub(crate) access: &'a Access,
    /// Whether the user has named the node, rather than another node.
    pub(crate) is_named: bool,
    pub(crate) method: &'a str,
    /// The path and the query.
    pub(crate) target: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    /// How long the node may send nothing.
    pub(crate) time_max: Duration,
    /// The longest response that is read, in bytes.
    pub(crate) answer_bytes_max: u64,
}

impl NodeRequest<'_> {
    /// Sends the request and waits for the whole response.
    ///
    /// # Errors
    /// A node that cannot be reached, or does not answer as HTTP asks for.
    pub(crate) fn send(&self) -> Result<SingleResponse, Failure> {
        self.send_beside(std::future::pending())
    }

    /// The same; meanwhile `beside` shows how far the node is.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(crate) fn send_beside(
        &self,
        beside: impl Future<Output = Infallible>,
    ) -> Result<SingleResponse, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::failed(format!("cannot start a runtime: {error}")))?;
        runtime.block_on(async {
            tokio::select! {
                response = self.fetch() => response,
                never = beside => match never {},
            }
        })
    }

    /// The same, where others run beside it.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(crate) async fn fetch(&self) -> Result<SingleResponse, Failure> {
        let asked = SingleRequest {
            method: self.method,
            target: self.target,
            headers: self.headers,
            limits: Limits {
                connect_max: CONNECT_MAX,
                silence_max: self.time_max,
            },
            bytes_max: self.answer_bytes_max,
        };
        let node = self.access.node(self.node)?;
        let response = client::fetch(&node, &asked).await;
        response.map_err(|error| {
            if error.remedy() == Remedy::Identify {
                return access::denied(&error);
            }
            Failure::failed(match &error {
                Error::Unreachable {
                    problem: None,
                    node,
                } if !self.is_named => format!("{node} refuses connections"),
                error => access::line_of(error),
            })
        })
    }
}

/// The failure for an unsuccessful response.
pub(crate) fn refusal(url: &NodeUrl, status: u16, body: &[u8]) -> Failure {
    let error = Error::Refused(Box::new(Refusal {
        node: url.to_string(),
        status,
        problem: Problem::parse(body),
        version: None,
        etag: None,
        retry_after: None,
    }));
    match error.remedy() {
        Remedy::Identify => access::denied(&error),
        Remedy::Correct => Failure::usage(error.to_string()),
        Remedy::Wait | Remedy::Other => Failure::failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::AccessOptions;
    use std::net::TcpListener;

    /// What a request to a node says that does not answer.
    fn line_of(url: &str, time_max: Duration) -> String {
        let (nodes, access) = AccessOptions::default()
            .reach(&[url.parse().unwrap()])
            .unwrap();
        let asked = NodeRequest {
            node: &nodes[0],
            access: &access,
            is_named: true,
            method: "GET",
            target: "/v0/status",
            headers: &[],
            time_max,
            answer_bytes_max: 1000,
        };
        asked.send().unwrap_err().line().to_owned()
    }

    #[test]
    fn a_node_that_takes_connections_and_does_not_answer_is_told_apart() {
        // The system takes connections for a listener that accepts nothing.
        let node = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", node.local_addr().unwrap());
        let line = line_of(&url, Duration::from_millis(1));
        assert!(line.contains("takes connections but has not"), "{line}");
        assert!(line.contains("frozen or overloaded"), "{line}");
    }

    #[test]
    fn each_refusal_has_the_exit_code_that_the_page_gives_it() {
        let url: NodeUrl = "http://127.0.0.1:1".parse().unwrap();
        for (status, name, code) in [
            (400, "tls-required", 5),
            (400, "bad-parameter", 2),
            (400, "unknown-path", 1),
            (401, "no-token", 5),
            (403, "no-right", 5),
            (503, "overloaded", 1),
        ] {
            let body = format!(r#"{{"type":"urn:kvorum:problem:{name}","detail":"why"}}"#);
            let failure = refusal(&url, status, body.as_bytes());
            assert_eq!(failure.code(), code, "{name}");
            assert!(failure.line().contains("refuses: why"), "{failure:?}");
        }
    }

    #[test]
    fn a_node_that_is_not_there_is_told_with_the_option_that_names_it() {
        let node = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", node.local_addr().unwrap());
        drop(node);
        let line = line_of(&url, Duration::from_secs(60));
        let end = "refuses connections: start the node, or name another one with --url, \
                   KVORUM_URL or a context";
        assert!(line.ends_with(end), "{line}");
    }
}
