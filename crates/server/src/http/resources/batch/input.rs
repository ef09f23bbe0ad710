//! The source of a batch's body: the part that has arrived already, and then the rest.

use crate::http::problem::Problem;
use crate::http::request::body::RequestBody;
use crate::net::slow_clients::ConnectionProgress;
use bytes::Bytes;
use std::collections::VecDeque;
use std::task::{Context, Poll};

/// The pieces of a body.
pub(super) struct Input {
    blocks: VecDeque<Bytes>,
    arriving: Option<RequestBody>,
    is_ended: bool,
}

impl Input {
    /// These blocks, and then the rest of a body.
    pub(super) fn new(blocks: VecDeque<Bytes>, arriving: Option<RequestBody>) -> Self {
        Self {
            blocks,
            arriving,
            is_ended: false,
        }
    }

    /// Whether all of the body is here.
    pub(super) fn is_complete(&self) -> bool {
        self.arriving.is_none()
    }

    /// Whether nothing more is wanted of it.
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Gives up what is left.
    pub(super) fn end(&mut self) {
        self.is_ended = true;
    }

    /// Whether the client may still send.
    pub(super) fn is_open(&self) -> bool {
        !self.is_ended || self.arriving.as_ref().is_some_and(|body| !body.is_ended())
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// The body is broken or late.
    pub(super) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        progress: &ConnectionProgress,
    ) -> Poll<Result<Option<Bytes>, Problem>> {
        if let Some(block) = self.blocks.pop_front() {
            return Poll::Ready(Ok(Some(block)));
        }
        let next = match &mut self.arriving {
            Some(body) => std::task::ready!(body.poll_next(cx, progress)),
            None => Ok(None),
        };
        self.is_ended |= !matches!(next, Ok(Some(_)));
        Poll::Ready(next)
    }
}
