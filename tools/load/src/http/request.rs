//! Writes requests.

use crate::plan::Plan;
use std::io::Write as _;

/// Writes the requests for one target. It has no `Debug`, because a token is in its bytes.
#[derive(Clone)]
pub(crate) struct RequestWriter {
    /// The bytes after the key of an entity: the replicas, and the head up to
    /// the part that differs by method.
    after_key: Vec<u8>,
    /// The same for a `PUT`, with the time to live before it.
    after_put_key: Vec<u8>,
    /// The bytes after the start key of a scan.
    after_start: Vec<u8>,
    /// The head of a batch up to what says how long it is.
    batch: Vec<u8>,
}

impl RequestWriter {
    /// Creates a writer for the node at `authority`.
    pub(crate) fn new(plan: &Plan, authority: &str) -> Self {
        let replicas = plan
            .replicas
            .map(|(ack, from)| format!("&ack={ack}&from={from}"))
            .unwrap_or_default();
        let limit = plan.scan_limit;
        let token = plan
            .access
            .token
            .as_ref()
            .map(|token| format!("Authorization: Bearer {token}\r\n"))
            .unwrap_or_default();
        let rest = format!(" HTTP/1.1\r\nHost: {authority}\r\n{token}");
        let ttl = plan
            .ttl_seconds
            .map(|seconds| format!("&ttl={seconds}"))
            .unwrap_or_default();
        let pair = plan
            .replicas
            .map(|(ack, from)| format!("?ack={ack}&from={from}"))
            .unwrap_or_default();
        Self {
            batch: format!("POST /v0/batch{pair}{rest}Content-Type: application/x-ndjson\r\n")
                .into_bytes(),
            after_put_key: format!("{ttl}{replicas}{rest}").into_bytes(),
            after_key: format!("{replicas}{rest}").into_bytes(),
            after_start: format!("&limit={limit}{rest}").into_bytes(),
        }
    }

    /// Appends the head of a `PUT`; the caller appends its body of `bytes`
    /// bytes.
    pub(crate) fn put(&self, key: &[u8], bytes: usize, to: &mut Vec<u8>) {
        to.extend_from_slice(b"PUT /v0/entity?id=");
        to.extend_from_slice(key);
        to.extend_from_slice(&self.after_put_key);
        // Writing to memory does not fail.
        let _ = write!(to, "Content-Length: {bytes}\r\n\r\n");
    }

    /// The same, if the value still has this tag; without one, if there is no value.
    pub(crate) fn put_if(&self, key: &[u8], etag: Option<&[u8]>, bytes: usize, to: &mut Vec<u8>) {
        to.extend_from_slice(b"PUT /v0/entity?id=");
        to.extend_from_slice(key);
        to.extend_from_slice(&self.after_put_key);
        match etag {
            Some(etag) => {
                to.extend_from_slice(b"If-Match: ");
                to.extend_from_slice(etag);
            }
            None => to.extend_from_slice(b"If-None-Match: *"),
        }
        // Writing to memory does not fail.
        let _ = write!(to, "\r\nContent-Length: {bytes}\r\n\r\n");
    }

    /// Appends a batch of these lines.
    pub(crate) fn batch(&self, lines: &[u8], to: &mut Vec<u8>) {
        to.extend_from_slice(&self.batch);
        // Writing to memory does not fail.
        let _ = write!(to, "Content-Length: {}\r\n\r\n", lines.len());
        to.extend_from_slice(lines);
    }

    /// Appends the head of a request of batches that does not end.
    pub(crate) fn pipeline(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.batch);
        to.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
    }

    /// Appends a `GET`.
    pub(crate) fn get(&self, key: &[u8], to: &mut Vec<u8>) {
        to.extend_from_slice(b"GET /v0/entity?id=");
        to.extend_from_slice(key);
        to.extend_from_slice(&self.after_key);
        to.extend_from_slice(b"\r\n");
    }

    /// Appends a `DELETE`.
    pub(crate) fn delete(&self, key: &[u8], to: &mut Vec<u8>) {
        to.extend_from_slice(b"DELETE /v0/entity?id=");
        to.extend_from_slice(key);
        to.extend_from_slice(&self.after_key);
        to.extend_from_slice(b"\r\n");
    }

    /// Appends a `GET` of a scan.
    pub(crate) fn scan(&self, start: &[u8], to: &mut Vec<u8>) {
        to.extend_from_slice(b"GET /v0/entities?start=");
        to.extend_from_slice(start);
        to.extend_from_slice(&self.after_start);
        to.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Operation, Rate};

    #[test]
    fn requests_have_the_form_that_a_node_expects() {
        let plan = Plan {
            replicas: Some((2, 3)),
            scan_limit: 10,
            ..Plan::new("http://h:1", Operation::Get, Rate::Max)
        };
        let writer = RequestWriter::new(&plan, "h:1");
        let expiring = RequestWriter::new(
            &Plan {
                ttl_seconds: Some(9),
                ..plan
            },
            "h:1",
        );
        let written = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut to = Vec::new();
            write(&mut to);
            String::from_utf8(to).unwrap()
        };
        assert_eq!(
            written(&|to| writer.put(b"key", 5, to)),
            "PUT /v0/entity?id=key&ack=2&from=3 HTTP/1.1\r\nHost: h:1\r\nContent-Length: 5\r\n\r\n"
        );
        assert_eq!(
            written(&|to| expiring.put(b"key", 5, to)),
            "PUT /v0/entity?id=key&ttl=9&ack=2&from=3 HTTP/1.1\r\nHost: h:1\r\nContent-Length: 5\r\n\r\n"
        );
        for (etag, condition) in [
            (Some(&b"\"a\""[..]), "If-Match: \"a\""),
            (None, "If-None-Match: *"),
        ] {
            assert_eq!(
                written(&|to| writer.put_if(b"key", etag, 5, to)),
                format!(
                    "PUT /v0/entity?id=key&ack=2&from=3 HTTP/1.1\r\nHost: h:1\r\n{condition}\r\n\
                     Content-Length: 5\r\n\r\n"
                )
            );
        }
        assert_eq!(
            written(&|to| writer.batch(b"{}\n", to)),
            "POST /v0/batch?ack=2&from=3 HTTP/1.1\r\nHost: h:1\r\n\
             Content-Type: application/x-ndjson\r\nContent-Length: 3\r\n\r\n{}\n"
        );
        assert_eq!(
            written(&|to| expiring.delete(b"key", to)),
            written(&|to| writer.delete(b"key", to)),
        );
        assert_eq!(
            written(&|to| writer.delete(b"key", to)),
            "DELETE /v0/entity?id=key&ack=2&from=3 HTTP/1.1\r\nHost: h:1\r\n\r\n"
        );
        assert_eq!(
            written(&|to| writer.get(b"key", to)),
            "GET /v0/entity?id=key&ack=2&from=3 HTTP/1.1\r\nHost: h:1\r\n\r\n"
        );
        let mut plan = Plan::new("http://h:1", Operation::Get, Rate::Max);
        plan.access.token = Some("t".to_owned());
        let showing = RequestWriter::new(&plan, "h:1");
        assert_eq!(
            written(&|to| showing.get(b"key", to)),
            "GET /v0/entity?id=key HTTP/1.1\r\nHost: h:1\r\nAuthorization: Bearer t\r\n\r\n"
        );
        // A scan is served by one node, so it has no replicas.
        assert_eq!(
            written(&|to| writer.scan(b"key", to)),
            "GET /v0/entities?start=key&limit=10 HTTP/1.1\r\nHost: h:1\r\n\r\n"
        );
    }
}
