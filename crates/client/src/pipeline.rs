//! Batches in a pipeline: over one connection to one node, a batch is sent while those before it
//! wait for their answers, which come in the order of the batches.
//!
//! The connection has one request, whose body and answer flow at the same time and do not end
//! before the pipeline does. So one connection keeps a node as busy as many, and its store gathers
//! the writes of several batches in a commit.

use crate::batch::{AnswerLine, BatchAnswer, BatchOperation, LINE_BYTES_MAX, lines_of};
use crate::client::pool::Exchange;
use crate::client::{Client, Message, Repeat};
use crate::connection::{LINES_TYPE, RequestBody};
use crate::error::Error;
use crate::import::batch::ArrivedLines;
use crate::query::{Replicas, Target};
use bytes::Bytes;
use hyper::Method;
use hyper::header::CONTENT_TYPE;
use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroUsize;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// For each operation of a batch what it has done, or its error.
pub type BatchAnswers = Vec<Result<BatchAnswer, Error>>;

/// A pipeline of batches. Dropping it gives up the answers that wait.
pub struct Pipeline<'a> {
    node: String,
    /// The request; `None` once it is broken.
    running: Option<Running<'a>>,
    batches_max: NonZeroUsize,
    /// How many operations each batch has that was sent and is not answered.
    waiting: VecDeque<usize>,
    /// The answers that have come to the first of them.
    partial: BatchAnswers,
    /// The answers to batches that nobody has taken.
    answered: VecDeque<BatchAnswers>,
}

/// The request of a pipeline.
struct Running<'a> {
    exchange: Exchange<'a>,
    body: UnboundedSender<Bytes>,
    lines: ArrivedLines,
}

impl fmt::Debug for Pipeline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("node", &self.node)
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Opens a pipeline of batches to the node that served the last request, or to the next one that
    /// can be reached. `batches_max` of its batches wait for their answers at most.
    ///
    /// # Errors
    /// [`Error`], if no node takes it.
    pub async fn pipeline(
        &self,
        replicas: Replicas,
        batches_max: NonZeroUsize,
    ) -> Result<Pipeline<'_>, Error> {
        let target = Target::new("/v0/batch").with_replicas(replicas);
        let mut message = self.message(Method::POST, target);
        message.headers = vec![(CONTENT_TYPE.as_str(), LINES_TYPE.into())];
        self.ask(Repeat::Always, async |node| {
            let running = self.open_pipeline(node, &message).await?;
            Ok(Pipeline {
                node: node.url().to_owned(),
                running: Some(running),
                batches_max,
                waiting: VecDeque::new(),
                partial: Vec::new(),
                answered: VecDeque::new(),
            })
        })
        .await
    }

    async fn open_pipeline(
        &self,
        node: &crate::Node,
        message: &Message,
    ) -> Result<Running<'_>, Error> {
        let (body, pieces) = unbounded_channel();
        let request = message.request_with(node, RequestBody::arriving(pieces))?;
        let limits = self.settings().limits;
        let exchange = self.send_request(limits, node, request, 200).await?;
        exchange.answer.expect_lines()?;
        Ok(Running {
            exchange,
            body,
            lines: ArrivedLines::default(),
        })
    }
}

impl Pipeline<'_> {
    /// Sends a batch. If as many wait as may, it first waits until the oldest one is answered, and
    /// keeps its answers for [`Self::answered`].
    ///
    /// # Errors
    /// The pipeline is broken, and nothing of this batch is done. The others have their answers:
    /// open another pipeline for what is left.
    pub async fn send(&mut self, operations: &[BatchOperation]) -> Result<(), Error> {
        while self.waiting.len() >= self.batches_max.get() {
            self.await_oldest().await;
        }
        let body = self.running.as_ref().map(|running| &running.body);
        let is_sent = body.is_some_and(|body| {
            // Without operations it sends nothing, and is answered in its turn.
            operations.is_empty() || body.send(lines_of(operations)).is_ok()
        });
        if !is_sent {
            return Err(Error::Unreachable {
                node: self.node.clone(),
                problem: Some("the pipeline to it is broken".to_owned()),
            });
        }
        self.waiting.push_back(operations.len());
        Ok(())
    }

    /// The answers to the next batch, in the order in which they were sent, if they are here
    /// already.
    pub fn answered(&mut self) -> Option<BatchAnswers> {
        self.answered.pop_front()
    }

    /// Waits for the answers to the next batch; `None` if none was sent that is not answered.
    ///
    /// If the pipeline breaks, the operations that have no answer have an error for which
    /// [`Error::is_unknown`] holds: each of them may be done, or not. None is sent again.
    pub async fn next(&mut self) -> Option<BatchAnswers> {
        if self.answered.is_empty() && !self.waiting.is_empty() {
            self.await_oldest().await;
        }
        self.answered.pop_front()
    }

    /// Ends a pipeline: the connection serves other requests again. Answers that nobody has waited
    /// for are lost.
    pub async fn finish(mut self) {
        while self.next().await.is_some() {}
        let Some(Running {
            mut exchange, body, ..
        }) = self.running
        else {
            return;
        };
        drop(body);
        if matches!(exchange.answer.next().await, Ok(None)) {
            exchange.finish();
        }
    }

    /// Waits for the answers to the oldest batch that has none.
    async fn await_oldest(&mut self) {
        let Some(operations) = self.waiting.front().copied() else {
            return;
        };
        while self.partial.len() < operations {
            match self.next_answer().await {
                Ok(answer) => self.partial.push(answer),
                Err(error) => return self.fail(&error),
            }
        }
        self.waiting.pop_front();
        self.answered.push_back(std::mem::take(&mut self.partial));
    }

    async fn next_answer(&mut self) -> Result<Result<BatchAnswer, Error>, Error> {
        let cut = || Error::Cut {
            node: self.node.clone(),
        };
        let Running {
            exchange, lines, ..
        } = self.running.as_mut().ok_or_else(cut)?;
        let line = lines.next::<AnswerLine>(&mut exchange.answer, LINE_BYTES_MAX);
        Ok(line.await?.ok_or_else(cut)?.into_answer(&self.node))
    }

    /// Gives all operations that wait this error.
    fn fail(&mut self, error: &Error) {
        self.running = None;
        for operations in std::mem::take(&mut self.waiting) {
            let mut answers = std::mem::take(&mut self.partial);
            answers.resize_with(operations, || Err(error.clone()));
            self.answered.push_back(answers);
        }
    }
}

#[cfg(test)]
mod tests;
