//! Many operations in one request. Each succeeds or fails alone: there is no transaction.
//!
//! A batch that writes is repeated only if a node has done nothing of it. An answer that ends early
//! leaves the outcome of the operations unknown that it does not tell.

use crate::client::{Client, Repeat};
use crate::connection::LINES_TYPE;
use crate::error::Error;
use crate::error::refusal::Refusal;
use crate::import::batch::read_answers;
use crate::query::{Replicas, Target};
use api::{Problem, text_or_base64};
use bytes::Bytes;
use hyper::Method;
use hyper::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};

/// The longest answer to an operation, in bytes: the longest value, in base64 or with escapes.
pub(crate) const LINE_BYTES_MAX: usize = 128 << 20;

/// An operation of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchOperation {
    line: Vec<u8>,
    is_read: bool,
}

/// What must hold of a key for a write of a batch to take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchCondition<'a> {
    /// The key has the value with this version, a decimal number.
    Version(&'a str),
    /// The key has no value.
    Absent,
}

/// What an operation of a batch has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchAnswer {
    /// The status: 200, 201 or 202.
    pub status: u16,
    /// The version that was read or written, a decimal number.
    pub version: Option<String>,
    /// The value that was read.
    pub value: Option<Vec<u8>>,
    /// When the value that was read expires (RFC 3339), if it does.
    pub expires: Option<String>,
}

/// An operation as it is sent.
#[derive(Default, Serialize)]
#[serde(default)]
struct Line<'a> {
    op: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    touch: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    if_version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    if_absent: Option<bool>,
}

impl<'a> Line<'a> {
    fn new(op: &'static str, key: &'a [u8], condition: Option<BatchCondition<'a>>) -> Self {
        let (key, key_base64) = text_or_base64(key);
        let (if_version, if_absent) = match condition {
            None => (None, None),
            Some(BatchCondition::Version(version)) => (Some(version), None),
            Some(BatchCondition::Absent) => (None, Some(true)),
        };
        Self {
            op,
            key,
            key_base64,
            if_version,
            if_absent,
            ..Self::default()
        }
    }

    fn operation(&self) -> BatchOperation {
        // Texts and numbers always have a JSON form.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        BatchOperation {
            line,
            is_read: self.op == "get",
        }
    }
}

impl BatchOperation {
    /// Reads a key.
    #[must_use]
    pub fn get(key: &[u8]) -> Self {
        Line::new("get", key, None).operation()
    }

    /// Gives a key a value, which expires after `ttl_seconds` if that is given.
    #[must_use]
    pub fn put(
        key: &[u8],
        value: &[u8],
        ttl_seconds: Option<u64>,
        condition: Option<BatchCondition<'_>>,
    ) -> Self {
        let (value, value_base64) = text_or_base64(value);
        let line = Line {
            value,
            value_base64,
            ttl: ttl_seconds,
            ..Line::new("put", key, condition)
        };
        line.operation()
    }

    /// Keeps the value of a key, which expires after `ttl_seconds` from now on, or never.
    #[must_use]
    pub fn touch(
        key: &[u8],
        ttl_seconds: Option<u64>,
        condition: Option<BatchCondition<'_>>,
    ) -> Self {
        let line = Line {
            touch: Some(true),
            ttl: ttl_seconds,
            ..Line::new("put", key, condition)
        };
        line.operation()
    }

    /// Deletes a key.
    #[must_use]
    pub fn delete(key: &[u8], condition: Option<BatchCondition<'_>>) -> Self {
        Line::new("delete", key, condition).operation()
    }
}

/// An answer as it comes.
#[derive(Deserialize)]
pub(crate) struct AnswerLine {
    status: u16,
    version: Option<String>,
    value: Option<String>,
    value_base64: Option<String>,
    expires: Option<String>,
    problem: Option<Problem>,
}

impl AnswerLine {
    /// What it says of an operation at this node.
    pub(crate) fn into_answer(self, node: &str) -> Result<BatchAnswer, Error> {
        if let Some(problem) = self.problem {
            return Err(Error::Refused(Box::new(Refusal {
                node: node.to_owned(),
                status: self.status,
                problem,
                version: self.version,
                etag: None,
                retry_after: None,
            })));
        }
        let base64 = self.value_base64.map(Into::into);
        let value = api::bytes_of("value", self.value.map(Into::into), base64)
            .map_err(|problem| Error::other_server(node, problem))?;
        Ok(BatchAnswer {
            status: self.status,
            version: self.version,
            value: value.map(std::borrow::Cow::into_owned),
            expires: self.expires,
        })
    }
}

/// The lines of operations.
pub(crate) fn lines_of(operations: &[BatchOperation]) -> Bytes {
    let bytes = operations.iter().map(|operation| operation.line.len());
    let mut lines = Vec::with_capacity(bytes.sum());
    for operation in operations {
        lines.extend_from_slice(&operation.line);
    }
    Bytes::from(lines)
}

impl Client {
    /// Does many operations in one request, which has at most 16 MiB of lines. Those on one key take
    /// effect in their order, others in any. Returns for each what it has done, or the error that the
    /// operation alone would have had; a key without a value is a refusal with status 404.
    ///
    /// A batch that writes is never repeated after an unknown outcome. If its answer ends early, the
    /// operations that it does not tell have an error for which [`Error::is_unknown`] holds. To load
    /// many batches over one connection, see [`Client::pipeline`].
    ///
    /// # Errors
    /// [`Error`], if there is an answer to none of them.
    pub async fn batch(
        &self,
        operations: &[BatchOperation],
        replicas: Replicas,
    ) -> Result<Vec<Result<BatchAnswer, Error>>, Error> {
        if operations.is_empty() {
            return Ok(Vec::new());
        }
        let is_read = operations.iter().all(|operation| operation.is_read);
        let repeat = if is_read {
            Repeat::Always
        } else {
            Repeat::IfNotDone
        };
        let target = Target::new("/v0/batch").with_replicas(replicas);
        let mut message = self.message(Method::POST, target);
        message.headers = vec![(CONTENT_TYPE.as_str(), LINES_TYPE.into())];
        message.body = lines_of(operations);
        let limits = self.settings().limits;
        self.ask(repeat, async |node| {
            let mut exchange = self.send(limits, node, &message).await?;
            exchange.answer.expect_lines()?;
            let mut lines: Vec<AnswerLine> = Vec::new();
            let answer = &mut exchange.answer;
            let read = read_answers(answer, operations.len(), LINE_BYTES_MAX, &mut lines).await;
            let of_line = |line: AnswerLine| line.into_answer(node.url());
            let mut answers: Vec<_> = lines.into_iter().map(of_line).collect();
            match read {
                Ok(()) => exchange.finish(),
                Err(error) if is_read || answers.is_empty() => return Err(error),
                Err(error) => answers.resize_with(operations.len(), || Err(error.clone())),
            }
            Ok(answers)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SETTINGS, Script, TestNode, client_of};

    const NONE: Replicas = Replicas {
        ack: None,
        from: None,
    };

    fn lines(lines: &[&str], is_whole: bool) -> Script {
        let mut answer = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\
                          Transfer-Encoding: chunked\r\n\r\n"
            .to_owned();
        for line in lines {
            answer += &format!("{:x}\r\n{line}\n\r\n", line.len() + 1);
        }
        if is_whole {
            Script::Answer((answer + "0\r\n\r\n").into_bytes())
        } else {
            Script::Cut(answer.into_bytes())
        }
    }

    #[tokio::test]
    async fn each_operation_has_an_answer_or_an_error() {
        let node = TestNode::new(vec![lines(
            &[
                r#"{"status":201,"version":"7"}"#,
                r#"{"status":200,"version":"7","value_base64":"/w==","expires":"2126-01-01T00:00:00Z"}"#,
                r#"{"status":404,"problem":{"type":"urn:kvorum:problem:no-such-entity"}}"#,
                r#"{"status":412,"version":"9","problem":{"type":"urn:kvorum:problem:other-version"}}"#,
                r#"{"status":202,"version":"8"}"#,
            ],
            true,
        )]);
        let client = client_of(vec![node.node.clone()], SETTINGS);
        let operations = [
            BatchOperation::put(b"a\xff", b"\xff", Some(60), Some(BatchCondition::Absent)),
            BatchOperation::get(b"a\xff"),
            BatchOperation::get(b"none"),
            BatchOperation::touch(b"b", None, Some(BatchCondition::Version("5"))),
            BatchOperation::delete(b"\"", None),
        ];
        let answers = client.batch(&operations, NONE).await.unwrap();
        let asked = node.requests().next().unwrap();
        assert_eq!(asked.target, "/v0/batch");
        let sent = String::from_utf8(asked.body).unwrap();
        let expected = [
            r#"{"op":"put","key_base64":"Yf8=","value_base64":"/w==","ttl":60,"if_absent":true}"#,
            r#"{"op":"get","key_base64":"Yf8="}"#,
            r#"{"op":"get","key":"none"}"#,
            r#"{"op":"put","key":"b","touch":true,"if_version":"5"}"#,
            r#"{"op":"delete","key":"\""}"#,
        ];
        assert_eq!(sent.lines().collect::<Vec<_>>(), expected);
        let read = answers[1].as_ref().unwrap();
        assert_eq!(
            (read.status, read.value.as_deref()),
            (200, Some(&b"\xff"[..]))
        );
        assert_eq!(read.expires.as_deref(), Some("2126-01-01T00:00:00Z"));
        let refused = |place: usize| answers[place].as_ref().unwrap_err().refusal().unwrap();
        assert_eq!(refused(2).status, 404);
        assert_eq!(refused(3).version.as_deref(), Some("9"));
        assert_eq!(answers[4].as_ref().unwrap().version.as_deref(), Some("8"));
        assert!(client.batch(&[], NONE).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_batch_that_writes_is_not_repeated_and_keeps_what_was_answered() {
        let cut = || lines(&[r#"{"status":200,"version":"7","value":"v"}"#], false);
        let whole = [r#"{"status":200,"version":"8","value":"w"}"#; 2];
        let get = BatchOperation::get(b"a");
        let put = BatchOperation::put(b"b", b"v", None, None);
        for (second, is_read) in [(get.clone(), true), (put, false)] {
            let (one, other) = (
                TestNode::new(vec![cut()]),
                TestNode::new(vec![lines(&whole, true)]),
            );
            let client = client_of(vec![one.node.clone(), other.node.clone()], SETTINGS);
            let answers = client.batch(&[get.clone(), second], NONE).await.unwrap();
            assert_eq!(other.lines().len(), usize::from(is_read));
            assert!(answers[0].is_ok());
            let last = answers[1].as_ref();
            assert_eq!(last.is_err_and(Error::is_unknown), !is_read);
        }
    }
}
