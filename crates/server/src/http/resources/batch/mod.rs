//! `/v0/batch`: many puts, gets and deletes, as lines of JSON.
//!
//! A batch has its own task (`task`), so that it continues and returns its permits even if its
//! client does not read:
//!
//! ```text
//! body --lines--> operations --window--> answers --output--> connection
//! ```
//!
//! - `input` is the body, `lines` splits it, `line_memory` waits for the memory of a line,
//!   `operation` reads it.
//! - `window` holds the operations until they are answered, within bounds.
//! - `key_order` runs operations on one key one after another.
//! - `answer` is an answer, `answer_writer` writes them, `output` hands them to the
//!   connection.
//!
//! A client that sends `Content-Length` may send everything before it reads anything, so the node
//! first receives the whole body; [`BATCH_BODY_BYTES_MAX`] bounds both body and answer. The head of
//! the answer goes with its first line, in one write. A chunked batch may be endless, and flows in
//! both directions at a time: the node stops reading while too many operations run or too many
//! answers wait. It is one of the chunked batches of the node, whose number bounds what they hold
//! beside the quotas; the clients of one address have half of them at most. What the other batches
//! hold counts once their clients do not read, as other answers do.

mod answer;
mod answer_writer;
mod fuzzing;
mod input;
mod key_order;
mod line_memory;
mod lines;
mod operation;
mod output;
mod parameters;
mod task;
mod window;

pub(crate) use fuzzing::{fuzz_batch, fuzz_operation};

use crate::config::bounds::{BATCH_BODY_BYTES_MAX, BATCH_STREAM_BYTES};
use crate::http::exchange::{Answer, HttpExchange};
use crate::http::lasting_caller::LastingCaller;
use crate::http::problem::Problem;
use crate::http::response::body::ResponseBody;
use crate::http::response::headers::SANDBOX;
use crate::net::channel::READ_BUFFER_BYTES;
use base::{LONG_VALUE_BYTES, Refused};
use hyper::Response;
use hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use input::Input;
use output::{AnswerStream, Output};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use task::Batch;
use tokens::RequestedKeys;

/// What hyper may have read of a chunked batch: its buffer, and what it has handed over.
const RECEIVED_BYTES_MAX: usize = 4 * READ_BUFFER_BYTES;

/// What counts as one chunked batch.
const _: () = assert!(
    RECEIVED_BYTES_MAX
        + lines::FREE_BYTES
        + window::FREE_BYTES
        + output::OUTPUT_BYTES_MAX
        + answer_writer::CHUNK_BYTES
        + LONG_VALUE_BYTES
        <= BATCH_STREAM_BYTES
);

/// Runs the operations of a batch.
pub(super) async fn answer(exchange: HttpExchange<'_>) -> Answer {
    let replicas = parameters::read(exchange.query(), exchange.replica_rules())?;
    exchange.authorize(RequestedKeys::NoKey)?;
    let (listener, progress) = (exchange.listener, &exchange.channel.progress);
    let is_chunked = exchange.body.is_chunked();
    let stream = if is_chunked {
        let client = exchange.channel.client().ok_or(Refused)?;
        Some(listener.batch_streams().admit(client.ip())?)
    } else {
        None
    };
    let (input, reservation) = if is_chunked {
        let mut first = VecDeque::new();
        if exchange.body.expects_continue() {
            // Only before the head of the answer can hyper tell the client to continue.
            progress.body_begins();
            let body = &mut *exchange.body;
            first.extend(poll_fn(|cx| body.poll_next(cx, progress)).await?);
            progress.body_ends();
        }
        (Input::new(first, Some(exchange.body.take_over())), None)
    } else {
        if exchange.body.is_announced_longer_than(BATCH_BODY_BYTES_MAX) {
            return Err(Problem::batch_too_long(BATCH_BODY_BYTES_MAX));
        }
        let (blocks, reservation) = exchange
            .body
            .read_blocks(listener.uploads(), progress)
            .await?;
        (Input::new(blocks, None), reservation)
    };
    let uncounted = stream.is_none().then(|| Rc::clone(progress));
    let output = Rc::new(Output::new(stream));
    let caller = LastingCaller::of(&exchange);
    let batch = Batch::new(
        listener,
        progress,
        caller,
        replicas,
        input,
        reservation,
        &output,
    );
    let task = tokio::task::spawn_local(batch.run());
    let mut stream = AnswerStream::new(output, task, Rc::clone(listener), uncounted);
    if !is_chunked {
        // Its client has sent everything, and waits for the answers. One that still sends may
        // wait for the head first.
        poll_fn(|cx| stream.poll_start(cx)).await;
    }
    let mut response = Response::new(ResponseBody::stream(Box::new(stream)));
    let headers = response.headers_mut();
    let lines = HeaderValue::from_static("application/x-ndjson");
    headers.insert(CONTENT_TYPE, lines);
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
    Ok(response)
}
