//! Batches of writes over one persistent connection.

use crate::client::Message;
use crate::connection::{Answer, Connection, LINES_TYPE, Limits};
use crate::error::Error;
use crate::node::Node;
use crate::query::{Replicas, Target};
use api::Problem;
use bytes::Bytes;
use hyper::Method;
use hyper::header::CONTENT_TYPE;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The longest body that is sent with its length. A node takes 16 MiB; longer ones are sent
/// in chunks.
const BODY_BYTES_MAX: usize = 8 << 20;

/// The longest answer to an operation, in bytes: far above any receipt.
const LINE_BYTES_MAX: usize = 1 << 20;

/// What became of an operation.
#[derive(Debug, Deserialize)]
pub(crate) struct OperationAnswer {
    /// Its status.
    pub(crate) status: u16,
    /// Why it has failed.
    pub(crate) problem: Option<Problem>,
}

impl OperationAnswer {
    /// Whether nothing is left to do: the write is stored, which is `201` for a put and `202` for a
    /// delete, or its condition does not hold.
    pub(crate) fn is_success(&self) -> bool {
        matches!(self.status, 201 | 202 | 412)
    }

    /// Whether the operation may succeed when it is repeated. What another answer says
    /// about the line, any node would say.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self.status, 408 | 429 | 500 | 502..=504 | 507)
    }
}

/// Sends batches to one node at a time.
#[derive(Default)]
pub(crate) struct BatchSender {
    /// The connection of the last batch, and its node.
    kept: Option<(usize, Connection)>,
}

impl BatchSender {
    /// Sends a batch of `operations` lines. Returns the answers that came, in the order of
    /// the lines, and an error if they are not all.
    pub(crate) async fn send(
        &mut self,
        (index, node): (usize, &Node),
        replicas: Replicas,
        body: Bytes,
        operations: usize,
        limits: Limits,
    ) -> (Vec<OperationAnswer>, Result<(), Error>) {
        let mut answers = Vec::with_capacity(operations);
        let begun = self.begin(index, node, replicas, body, limits).await;
        let mut answer = match begun {
            Ok(answer) => answer,
            Err(error) => return (answers, Err(error)),
        };
        let read = read_answers(&mut answer, operations, LINE_BYTES_MAX, &mut answers).await;
        if read.is_ok() {
            self.kept = Some((index, answer.finish()));
        }
        (answers, read)
    }

    async fn begin(
        &mut self,
        index: usize,
        node: &Node,
        replicas: Replicas,
        body: Bytes,
        limits: Limits,
    ) -> Result<Answer, Error> {
        let target = Target::new("/v0/batch").with_replicas(replicas);
        let mut message = Message::new(Method::POST, target);
        message.headers = vec![(CONTENT_TYPE.as_str(), LINES_TYPE.into())];
        message.is_chunked = body.len() > BODY_BYTES_MAX;
        message.body = body;
        let mut kept = self.kept.take().filter(|(at, _)| *at == index);
        if let Some((_, connection)) = &mut kept
            && !connection.wait_until_ready(limits).await
        {
            kept = None;
        }
        let connection = match kept {
            Some((_, connection)) => connection,
            None => Connection::open(node, limits).await?,
        };
        let answer = connection.send(message.request(node)?, limits).await?;
        let answer = answer.expect(message.success_status()).await?;
        answer.expect_lines()?;
        Ok(answer)
    }
}

/// What has arrived of an answer of lines.
#[derive(Debug, Default)]
pub(crate) struct ArrivedLines {
    bytes: Vec<u8>,
    /// How many of them were taken.
    taken: usize,
}

impl ArrivedLines {
    /// Takes the next line of an answer; `None` at its end.
    ///
    /// # Errors
    /// Those of [`Answer::next`], and [`Error::OtherServer`] for a line that is no such answer.
    pub(crate) async fn next<T: DeserializeOwned>(
        &mut self,
        answer: &mut Answer,
        line_bytes_max: usize,
    ) -> Result<Option<T>, Error> {
        let mut searched = self.taken;
        loop {
            if let Some(length) = memchr::memchr(b'\n', &self.bytes[searched..]) {
                let line = &self.bytes[self.taken..searched + length];
                let line = serde_json::from_slice(line);
                self.taken = searched + length + 1;
                return line
                    .map(Some)
                    .map_err(|error| answer.other(error.to_string()));
            }
            self.bytes.drain(..std::mem::take(&mut self.taken));
            searched = self.bytes.len();
            if searched > line_bytes_max {
                return Err(answer.other("the answer to an operation is too long"));
            }
            match answer.next().await? {
                Some(piece) => self.bytes.extend_from_slice(&piece),
                None => return Ok(None),
            }
        }
    }
}

/// Reads a line for each operation, and the end behind them. A line has at most `line_bytes_max`.
pub(crate) async fn read_answers<T: DeserializeOwned>(
    answer: &mut Answer,
    operations: usize,
    line_bytes_max: usize,
    answers: &mut Vec<T>,
) -> Result<(), Error> {
    let mut lines = ArrivedLines::default();
    while let Some(line) = lines.next(answer, line_bytes_max).await? {
        if answers.len() == operations {
            return Err(answer.other("it answers more operations than were sent"));
        }
        answers.push(line);
    }
    if answers.len() == operations {
        Ok(())
    } else {
        // A malformed line ends the answers; the line before the end says so.
        Err(Error::Cut {
            node: answer.node().to_owned(),
        })
    }
}
