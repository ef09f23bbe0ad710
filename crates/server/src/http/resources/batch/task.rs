//! The task of a batch.
//!
//! An operation is in the window from its line to its answer:
//!
//! ```text
//!         +-- another on its key runs --> waits --+
//! line ---+                                       v
//!         +------------------------------> ready --permit--> runs --> ended --> answer
//! ```
//!
//! Answers are written in the order of the lines, so an operation that has ended stays in
//! the window until all before it have. What a batch holds is bounded: the operations in
//! the window, the bytes that they write, the reads that run, and the answers that wait
//! for the client. A read runs only if its value has room, of which all batches of the node
//! share a budget; the oldest operation of a batch needs none, so that each batch goes on.

use super::answer::OperationAnswer;
use super::key_order::{KeyHash, KeyOrder};
use super::lines::{Line, LineText, Lines};
use super::operation::{Action, LineError, Operation};
use super::output::{End, Output};
use crate::config::bounds::BATCH_BODY_BYTES_MAX;
use crate::door::slow_clients::{Phase, Progress};
use crate::door::{BatchPermits, Door};
use crate::http::body_chunk::{BodyChunk, ChunkMemory};
use crate::http::problem::Problem;
use crate::http::request_body::RequestBody;
use crate::metrics::OperationKind;
use base::{LONG_VALUE_BYTES, Share};
use bytes::{Buf, Bytes};
use cluster::{Fate, Miss, Replicas};
use hyper::StatusCode;
use node::{Change, Ended, Failure, Operations};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// How many operations may be between their lines and their answers.
const WINDOW_OPERATIONS_MAX: usize = 512;

/// How many bytes those that have not ended may write; a single one may write more.
const WINDOW_BYTES_MAX: usize = 1 << 20;

/// How many reads run at a time.
const READS_MAX: usize = 32;

/// About how many bytes of answers make a chunk.
const CHUNK_BYTES: usize = 16 << 10;

/// A line may be longer than the longest value in base64, by a key, names and punctuation.
const LINE_EXTRA_BYTES: usize = 32 << 10;

/// Where the body comes from: what is here already, and then what arrives.
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

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        progress: &Progress,
    ) -> Poll<Result<Option<Bytes>, Problem>> {
        if let Some(block) = self.blocks.pop_front() {
            return Poll::Ready(Ok(Some(block)));
        }
        match &mut self.arriving {
            Some(body) => body.poll_next(cx, progress),
            None => Poll::Ready(Ok(None)),
        }
    }
}

/// An operation in the window.
struct Slot {
    kind: OperationKind,
    /// None for a line that is no operation.
    key: Option<KeyHash>,
    state: SlotState,
    /// The room for the value of a read.
    room: Option<Share>,
    /// Whether it is a read that has run once and found no memory for its value.
    is_repeated: bool,
}

enum SlotState {
    /// It waits for its key, or for a permit.
    Waiting(Operation, Option<Share>),
    /// It writes so many bytes. The key is that of a read.
    Running {
        bytes: usize,
        key: Bytes,
    },
    /// A read that found no memory for its value runs again once it is the oldest and the
    /// client has taken all answers before.
    Repeated(Bytes),
    Ended(OperationAnswer),
}

/// A batch that runs.
pub(super) struct Batch {
    door: Rc<Door>,
    progress: Rc<Progress>,
    replicas: Replicas,
    input: Input,
    lines: Lines,
    line_bytes_max: usize,
    /// The operations between their lines and their answers, in the order of the lines.
    window: VecDeque<Slot>,
    /// The number of the first operation in the window.
    first: u64,
    /// How many bytes the operations in the window that have not ended write.
    window_bytes: usize,
    key_order: KeyOrder,
    /// The operations that may run as soon as there are permits.
    ready: VecDeque<u64>,
    permits: BatchPermits,
    operations: Operations,
    reads: usize,
    output: Rc<Output>,
    /// How many bytes the answer may still have.
    answer_bytes_left: Option<usize>,
    end: End,
}

/// Ends the output with its task, whatever ends that.
struct EndOnDrop(Rc<Output>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end(End::Cut);
    }
}

impl Batch {
    /// A batch that leaves its answers in `output`. `share` covers a body that is all here.
    pub(super) fn new(
        door: &Rc<Door>,
        progress: &Rc<Progress>,
        replicas: Replicas,
        input: Input,
        share: Option<Share>,
        output: &Rc<Output>,
    ) -> Self {
        let value_bytes_max = door.value_bytes_max();
        let line_bytes_max = value_bytes_max.div_ceil(3) * 4 + LINE_EXTRA_BYTES;
        let is_bounded = input.arriving.is_none();
        Self {
            progress: Rc::clone(progress),
            replicas,
            input,
            lines: Lines::new(line_bytes_max, share),
            line_bytes_max,
            window: VecDeque::new(),
            first: 0,
            window_bytes: 0,
            key_order: KeyOrder::default(),
            ready: VecDeque::new(),
            permits: BatchPermits::new(&door.gate),
            operations: Operations::new(door.worker.coordinator()),
            reads: 0,
            output: Rc::clone(output),
            answer_bytes_left: is_bounded.then_some(BATCH_BODY_BYTES_MAX),
            end: End::Whole,
            door: Rc::clone(door),
        }
    }

    /// Runs the batch until its last answer is left in the output.
    pub(super) async fn run(mut self) {
        let output = EndOnDrop(Rc::clone(&self.output));
        poll_fn(|cx| self.poll(cx)).await;
        if !self.input.is_ended
            || self
                .input
                .arriving
                .as_ref()
                .is_some_and(|body| !body.is_ended())
        {
            // The client may still send. It is to receive the answers nevertheless.
            self.progress.linger();
        }
        output.0.end(self.end);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.door.is_stopping() && !self.input.is_ended {
            self.input.is_ended = true;
            self.end = End::Cut;
        }
        loop {
            self.take_ended(cx);
            self.write_answers(cx);
            let awaits_client = self.read_lines(cx);
            let has_started = self.start(cx);
            if self.input.is_ended && self.window.is_empty() {
                return Poll::Ready(());
            }
            let has_ended = matches!(
                self.window.front(),
                Some(Slot {
                    state: SlotState::Ended(_),
                    ..
                })
            );
            if has_started || (has_ended && self.output.has_room(cx)) {
                // What was started may have ended at once.
                continue;
            }
            self.note_phase(awaits_client);
            return Poll::Pending;
        }
    }

    /// Says what the node does with the batch, so that a client that stalls is found.
    fn note_phase(&self, awaits_client: bool) {
        if self.input.arriving.is_none() {
            return;
        }
        let is_idle = self.window.is_empty() && self.output.is_empty();
        self.progress.continue_batch(match awaits_client {
            true if self.lines.is_counting() => Phase::LongLine,
            true if is_idle => Phase::Lines,
            _ => Phase::Request,
        });
    }

    /// Reads lines into the window while it has room. Returns whether the client is to send
    /// the next one.
    fn read_lines(&mut self, cx: &mut Context<'_>) -> bool {
        while !self.input.is_ended
            && self.window.len() < WINDOW_OPERATIONS_MAX
            && self.window_bytes < WINDOW_BYTES_MAX
        {
            if let Some(line) = self.lines.next(self.door.uploads()) {
                self.take_line(line);
                continue;
            }
            match self.input.poll_next(cx, &self.progress) {
                Poll::Pending => return true,
                Poll::Ready(Ok(Some(piece))) => self.lines.push(piece),
                Poll::Ready(Ok(None)) => {
                    self.input.is_ended = true;
                    if let Some(line) = self.lines.last(self.door.uploads()) {
                        self.take_line(line);
                    }
                }
                Poll::Ready(Err(_)) => {
                    self.input.is_ended = true;
                    self.end = End::Cut;
                }
            }
        }
        false
    }

    /// Adds a line to the window.
    fn take_line(&mut self, line: Line) {
        let (text, share) = match line.text {
            LineText::Whole(text, share) => (text, share),
            LineText::TooLong => {
                let problem = Problem::line_too_long(line.number, self.line_bytes_max);
                return self.refuse_line(problem);
            }
            LineText::Refused => return self.refuse_line(Problem::overloaded()),
        };
        let value_bytes_max = self.door.value_bytes_max();
        let operation = match Operation::read(&text, value_bytes_max) {
            Ok(operation) => operation,
            Err(LineError::ValueTooLong) => {
                return self.refuse_line(Problem::value_too_long(value_bytes_max));
            }
            Err(LineError::Malformed(detail)) => {
                self.input.is_ended = true;
                return self.refuse_line(Problem::bad_line(line.number, &detail));
            }
        };
        let number = self.first + self.window.len() as u64;
        let key = KeyHash::of(&operation.key);
        if self.key_order.enter(key, number) {
            self.ready.push_back(number);
        }
        self.window_bytes += operation.written_bytes();
        self.window.push_back(Slot {
            kind: operation.kind(),
            key: Some(key),
            state: SlotState::Waiting(operation, share),
            room: None,
            is_repeated: false,
        });
    }

    /// Adds the answer to a line that is no operation.
    fn refuse_line(&mut self, problem: Problem) {
        self.window.push_back(Slot {
            kind: OperationKind::None,
            key: None,
            state: SlotState::Ended(OperationAnswer::Problem(None, problem)),
            room: None,
            is_repeated: false,
        });
    }

    /// Lets the oldest operation run again if it is a read that found no memory.
    fn repeat_oldest(&mut self) {
        let is_alone = self.output.is_empty();
        if let Some(slot) = self.window.front_mut().filter(|_| is_alone)
            && let SlotState::Repeated(key) = &mut slot.state
        {
            let key = std::mem::take(key);
            let action = Action::Get;
            slot.state = SlotState::Waiting(Operation { key, action }, None);
            self.ready.push_front(self.first);
        }
    }

    /// Lets the oldest operation run next if it is ready: it alone needs no room, so the
    /// others may wait for it.
    fn prefer_oldest(&mut self) {
        let waits = |slot: &Slot| matches!(slot.state, SlotState::Waiting(..));
        if self.ready.front() == Some(&self.first) || !self.window.front().is_some_and(waits) {
            return;
        }
        if let Some(index) = self.ready.iter().position(|number| *number == self.first) {
            self.ready.remove(index);
            self.ready.push_front(self.first);
        }
    }

    /// Starts operations while there are permits. Returns whether any was started.
    fn start(&mut self, cx: &mut Context<'_>) -> bool {
        self.repeat_oldest();
        self.prefer_oldest();
        let wanted = self.startable();
        if wanted == 0 {
            return false;
        }
        let permits = self.permits.poll_take(cx, wanted);
        if permits == 0 {
            return false;
        }
        let deadline = self.door.deadline_after(self.door.clock().monotonic());
        let mut started = 0;
        while started < permits
            && let Some(number) = self.ready.pop_front()
        {
            if !self.start_one(number, deadline) {
                self.ready.push_front(number);
                break;
            }
            started += 1;
        }
        self.permits.release(permits - started);
        started > 0
    }

    /// How many of the operations that are ready may run at a time, as far as their kind
    /// says.
    fn startable(&self) -> usize {
        let mut reads = self.reads;
        let may_run = |number: &&u64| {
            let slot = self.slot(**number);
            let is_read = slot.is_some_and(|slot| slot.kind == OperationKind::Get);
            reads += usize::from(is_read);
            !is_read || reads <= READS_MAX
        };
        self.ready.iter().take_while(may_run).count()
    }

    /// Starts an operation. Returns `false` if there is no room for its answer yet.
    fn start_one(&mut self, number: u64, deadline: Duration) -> bool {
        let is_oldest = number == self.first;
        let Some(slot) = self.window.get_mut((number - self.first) as usize) else {
            return true;
        };
        if slot.kind == OperationKind::Get {
            slot.room = self.door.batch_answers().take(LONG_VALUE_BYTES).ok();
            if slot.room.is_none() && !is_oldest {
                return false;
            }
            self.reads += 1;
        }
        let running = SlotState::Running {
            bytes: 0,
            key: Bytes::new(),
        };
        let (operation, share) = match std::mem::replace(&mut slot.state, running) {
            SlotState::Waiting(operation, share) => (operation, share),
            _ => return true,
        };
        slot.state = SlotState::Running {
            bytes: operation.written_bytes(),
            key: match operation.action {
                Action::Get => operation.key.clone(),
                _ => Bytes::new(),
            },
        };
        let (operations, replicas) = (&mut self.operations, self.replicas);
        let key = operation.key;
        match operation.action {
            Action::Get => operations.read(number, key, replicas, deadline),
            Action::Delete => {
                operations.write(number, key, Change::Delete, None, replicas, deadline);
            }
            Action::Put { value, expires } => {
                let change = Change::Put { value, expires };
                operations.write(number, key, change, share, replicas, deadline);
            }
        }
        true
    }

    fn slot(&self, number: u64) -> Option<&Slot> {
        self.window.get((number - self.first) as usize)
    }

    /// Takes the results of operations that have ended, and returns their permits.
    fn take_ended(&mut self, cx: &mut Context<'_>) {
        let mut ended = 0;
        while let Poll::Ready((number, result)) = self.operations.poll_ended(cx) {
            ended += 1;
            let is_oldest = number == self.first;
            let lacks_memory = lacks_memory(&result);
            let answer = self.answer_of(number, result);
            let Some(slot) = self.window.get_mut((number - self.first) as usize) else {
                continue;
            };
            self.reads -= usize::from(slot.kind == OperationKind::Get);
            if let SlotState::Running { bytes, key } = &mut slot.state {
                self.window_bytes -= *bytes;
                if lacks_memory && !is_oldest && !slot.is_repeated {
                    slot.is_repeated = true;
                    slot.room = None;
                    slot.state = SlotState::Repeated(std::mem::take(key));
                    continue;
                }
            }
            if let Some(room) = &mut slot.room {
                // A long value has a share of its own.
                let value_bytes = answer.value_bytes();
                room.shrink_to(if value_bytes > LONG_VALUE_BYTES {
                    0
                } else {
                    value_bytes
                });
            }
            slot.state = SlotState::Ended(answer);
            let next = slot.key.and_then(|key| self.key_order.leave(key));
            self.ready.extend(next);
        }
        self.permits.release(ended);
    }

    /// The answer to an operation that has ended with this result.
    fn answer_of(&self, number: u64, result: Ended) -> OperationAnswer {
        let failed = |failure| {
            let problem = Problem::of_failure(failure, self.replicas);
            OperationAnswer::Problem(None, problem)
        };
        match result {
            Ended::Write(Ok(written)) => {
                let is_delete = self.slot(number).is_some_and(|slot| {
                    // What was put has been created.
                    slot.kind == OperationKind::Delete
                });
                let status = match is_delete {
                    true => StatusCode::ACCEPTED,
                    false => StatusCode::CREATED,
                };
                OperationAnswer::Written(status, written.timestamp)
            }
            Ended::Read(Ok(found)) => match found.entry {
                Some(entry) if self.door.is_live(&entry) => {
                    OperationAnswer::Found(entry, found.share)
                }
                Some(entry) => OperationAnswer::Problem(Some(entry.timestamp()), Problem::absent()),
                None => OperationAnswer::Problem(None, Problem::absent()),
            },
            Ended::Write(Err(failure)) | Ended::Read(Err(failure)) => failed(failure),
        }
    }

    /// Writes the answers of the oldest operations that have ended, while the output has
    /// room.
    fn write_answers(&mut self, cx: &Context<'_>) {
        let mut text = Vec::new();
        let mut room: Option<Share> = None;
        while self.output.has_room(cx) && text.len() < CHUNK_BYTES * 4 {
            let Some(Slot {
                state: SlotState::Ended(_),
                ..
            }) = self.window.front()
            else {
                break;
            };
            let Some(slot) = self.window.pop_front() else {
                break;
            };
            self.first += 1;
            let SlotState::Ended(answer) = slot.state else {
                break;
            };
            if let Some(of_slot) = slot.room {
                match &mut room {
                    Some(room) => room.join(of_slot),
                    None => room = Some(of_slot),
                }
            }
            if let Some((chunk, share)) = self.write_answer(slot.kind, answer, &mut text) {
                self.flush(&mut text, &mut room);
                let memory = share.map(|share| ChunkMemory::Value { _share: share });
                self.output.push(chunk.counted(memory));
            } else if text.len() >= CHUNK_BYTES {
                self.flush(&mut text, &mut room);
            }
        }
        self.flush(&mut text, &mut room);
    }

    /// Appends an answer to `text`, or gives the end of it as a chunk.
    fn write_answer(
        &mut self,
        kind: OperationKind,
        answer: OperationAnswer,
        text: &mut Vec<u8>,
    ) -> Option<(BodyChunk, Option<Share>)> {
        let begin = text.len();
        let (mut status, has_value) = (answer.status(), answer.value_bytes() > 0);
        let mut end = answer.encode(text);
        if let Some(left) = self.answer_bytes_left {
            let bytes = |text: &[u8], end: &Option<(BodyChunk, Option<Share>)>| {
                let end_bytes = end.as_ref().map_or(0, |(chunk, _)| chunk.remaining());
                text.len() - begin + end_bytes
            };
            if has_value && bytes(text, &end) > left {
                text.truncate(begin);
                let problem = Problem::answer_too_long(BATCH_BODY_BYTES_MAX);
                status = problem.status();
                end = OperationAnswer::Problem(None, problem).encode(text);
            }
            self.answer_bytes_left = Some(left.saturating_sub(bytes(text, &end)));
        }
        self.door.metrics.operations.ended(kind, status);
        end
    }

    fn flush(&self, text: &mut Vec<u8>, room: &mut Option<Share>) {
        if text.is_empty() {
            return;
        }
        let chunk = BodyChunk::new(Bytes::from(std::mem::take(text)), Bytes::new());
        let memory = room
            .take()
            .map(|share| ChunkMemory::Value { _share: share });
        self.output.push(chunk.counted(memory));
    }
}

/// Whether a read found no memory for its value, at this node or at a replica.
fn lacks_memory(result: &Ended) -> bool {
    match result {
        Ended::Read(Err(Failure::Overloaded)) => true,
        Ended::Read(Err(Failure::NotEnoughReplicas(receipt))) => receipt
            .replicas
            .iter()
            .any(|line| line.outcome == Fate::Missed(Miss::Overloaded)),
        _ => false,
    }
}
