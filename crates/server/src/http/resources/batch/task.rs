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
//! What a batch holds is bounded: its window, the reads that run, and the answers that wait for the
//! client. A read runs only if there is memory for its value, from a quota that all batches of the
//! node share; the oldest operation of a batch needs none, so that each batch makes progress. A
//! long value also needs memory that all readers of the node share. If the oldest operation of a
//! batch finds none, the batch releases all that it holds of it and tries again, so batches cannot
//! block each other.

use super::answer::OperationAnswer;
use super::answer_writer::AnswerWriter;
use super::input::Input;
use super::key_order::{KeyHash, KeyOrder};
use super::line_memory::LineMemory;
use super::lines::{Line, LineText, Lines};
use super::operation::{Action, LineError, Operation, TextMemory};
use super::output::{End, Output};
use super::window::{Repeat, Slot, Window};
use crate::config::bounds::{BATCH_BODY_BYTES_MAX, line_bytes_max};
use crate::http::lasting_caller::LastingCaller;
use crate::http::problem::Problem;
use crate::http::request::condition::any_value;
use crate::logs::slow_requests::{EndedOperation, OperationTimes};
use crate::metrics::OperationKind;
use crate::net::Listener;
use crate::net::slow_clients::{ConnectionProgress, Phase};
use base::{BatchPermits, LONG_VALUE_BYTES, Reservation};
use cluster::Replicas;
use hyper::StatusCode;
use node::{Change, ConditionalChange, Ended, Operations, Terms, Written};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokens::RequestedKeys;
use tokio::time::{Sleep, sleep};

/// How many reads run at a time.
const READS_MAX: usize = 32;

/// How long a read that has found no memory pauses before it asks again, where others hold it.
const MEMORY_PAUSE: Duration = Duration::from_millis(50);

/// A batch that runs.
pub(super) struct Batch {
    listener: Rc<Listener>,
    progress: Rc<ConnectionProgress>,
    caller: LastingCaller,
    replicas: Replicas,
    input: Input,
    lines: Lines,
    line_bytes_max: usize,
    window: Window,
    key_order: KeyOrder,
    /// The operations that may run as soon as there are permits.
    ready: VecDeque<u64>,
    permits: BatchPermits,
    operations: Operations,
    reads: usize,
    /// Waits for memory for the line that is arriving, if there is too little.
    line_memory: LineMemory,
    /// The pause before the oldest operation, a read, asks again for memory that others hold.
    pause: Option<Pin<Box<Sleep>>>,
    answers: AnswerWriter,
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
    /// A batch that leaves its answers in `output`. `reservation` covers a body that is all here.
    pub(super) fn new(
        listener: &Rc<Listener>,
        progress: &Rc<ConnectionProgress>,
        caller: LastingCaller,
        replicas: Replicas,
        input: Input,
        reservation: Option<Reservation>,
        output: &Rc<Output>,
    ) -> Self {
        let value_bytes_max = listener.value_bytes_max();
        let line_bytes_max = line_bytes_max(value_bytes_max);
        let trace = caller.trace;
        let answer_bytes_max = input.is_complete().then_some(BATCH_BODY_BYTES_MAX);
        Self {
            progress: Rc::clone(progress),
            caller,
            replicas,
            input,
            lines: Lines::new(line_bytes_max, reservation),
            line_bytes_max,
            window: Window::new(listener.batch_windows()),
            key_order: KeyOrder::default(),
            ready: VecDeque::new(),
            permits: BatchPermits::new(&listener.permits),
            operations: Operations::new(listener.worker.coordinator()),
            reads: 0,
            line_memory: LineMemory::default(),
            pause: None,
            answers: AnswerWriter::new(output, &listener.metrics, answer_bytes_max, trace),
            end: End::Whole,
            listener: Rc::clone(listener),
        }
    }

    /// Runs the batch until its last answer is left in the output.
    pub(super) async fn run(mut self) {
        let output = EndOnDrop(Rc::clone(self.answers.output()));
        poll_fn(|cx| self.poll(cx)).await;
        if self.input.is_open() {
            // The client may still send. It is to receive the answers nevertheless.
            self.progress.linger();
        }
        output.0.end(self.end);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.answers.output().remember(cx);
        if self.listener.is_stopping() && !self.input.is_ended() {
            self.input.end();
            self.end = End::Cut;
        }
        loop {
            self.take_ended(cx);
            self.answers.write(&mut self.window, cx);
            while let Some(key) = self.window.take_ended_turn() {
                self.ready.extend(self.key_order.leave(key));
            }
            let awaits_client = self.read_lines(cx);
            let has_started = self.start(cx);
            if self.input.is_ended() && self.window.is_empty() {
                return Poll::Ready(());
            }
            let has_ended = self.window.has_oldest_ended();
            if has_started || (has_ended && self.answers.output().has_room()) {
                // What was started may have ended at once.
                continue;
            }
            self.note_phase(awaits_client);
            return Poll::Pending;
        }
    }

    /// Says what the node does with the batch, so that a client that stalls is found.
    fn note_phase(&self, awaits_client: bool) {
        if self.input.is_complete() {
            return;
        }
        let is_idle = self.window.is_empty() && self.answers.output().is_empty();
        self.progress.continue_batch(match awaits_client {
            true if self.lines.is_counting() => Phase::LongLine,
            true if is_idle => Phase::Lines,
            _ => Phase::Request,
        });
    }

    /// Reads lines into the window while it has room. Returns whether the client is to send
    /// the next one.
    fn read_lines(&mut self, cx: &mut Context<'_>) -> bool {
        while !self.input.is_ended() && self.window.has_room() {
            if let Some(line) = self.lines.next(self.listener.uploads()) {
                self.take_line(line);
                continue;
            }
            if self.lines.waiting_bytes().is_some() {
                match self
                    .line_memory
                    .poll(&mut self.lines, self.listener.uploads(), cx)
                {
                    Poll::Ready(()) => continue,
                    // The client need not send more.
                    Poll::Pending => return false,
                }
            }
            match self.input.poll_next(cx, &self.progress) {
                Poll::Pending => return true,
                Poll::Ready(Ok(Some(piece))) => self.lines.push(piece),
                Poll::Ready(Ok(None)) => {
                    if let Some(line) = self.lines.last() {
                        self.take_line(line);
                    }
                }
                Poll::Ready(Err(_)) => self.end = End::Cut,
            }
        }
        self.line_memory.leave();
        false
    }

    /// Adds a line to the window.
    fn take_line(&mut self, line: Line) {
        let (text, reservation) = match line.text {
            LineText::Whole(text, reservation) => (text, reservation),
            LineText::TooLong => {
                let problem = Problem::line_too_long(line.number, self.line_bytes_max);
                return self.refuse_line(problem);
            }
            LineText::Refused => return self.refuse_line(Problem::overloaded()),
        };
        let value_bytes_max = self.listener.value_bytes_max();
        let memory = TextMemory::of(reservation.as_ref());
        let operation = match Operation::read(&text, value_bytes_max, memory) {
            Ok(operation) => operation,
            Err(LineError::ValueTooLong) => {
                let problem = Problem::line_value_too_long(line.number, value_bytes_max);
                return self.refuse_line(problem);
            }
            Err(LineError::Malformed(detail)) => {
                self.input.end();
                return self.refuse_line(Problem::bad_line(line.number, &detail));
            }
        };
        let (need, asked) = (operation.need(), RequestedKeys::Key(&operation.key));
        if let Err(problem) = self.caller.authorize(self.listener.trust(), need, asked) {
            return self.refuse_line(problem);
        }
        let number = self.window.next_number();
        let key = KeyHash::of(&operation.key);
        if self.key_order.enter(key, number) {
            self.ready.push_back(number);
        }
        let times = self.listener.shared().slow_requests.as_ref().map(|_| {
            let now = self.listener.clock().monotonic();
            Box::new(OperationTimes::new(line.number, &operation.key, now))
        });
        let mut slot = Slot::of(operation, key, text.len(), reservation);
        slot.times = times;
        self.window.push(slot);
    }

    /// Adds the answer to a line that is not run.
    fn refuse_line(&mut self, problem: Problem) {
        let problem = problem.in_trace(self.caller.trace);
        let answer = OperationAnswer::Problem(None, problem);
        self.window.push(Slot::refused(answer));
    }

    /// Lets the oldest operation run again if it is a read that found no memory, once the
    /// answers before it have given theirs back, no other read may take it, and its pause is
    /// over.
    fn repeat_oldest(&mut self, cx: &mut Context<'_>) {
        if let Some(pause) = &mut self.pause {
            if pause.as_mut().poll(cx).is_pending() {
                return;
            }
            self.pause = None;
        }
        if self.reads == 0 && self.answers.output().is_empty() && self.window.repeat_oldest() {
            self.ready.push_front(self.window.first());
        }
    }

    /// Lets the oldest operation run next if it is ready: it alone needs no room, so the
    /// others may wait for it.
    fn prefer_oldest(&mut self) {
        let oldest = self.window.first();
        if self.ready.front() == Some(&oldest) || !self.window.does_oldest_wait() {
            return;
        }
        if let Some(index) = self.ready.iter().position(|number| *number == oldest) {
            self.ready.remove(index);
            self.ready.push_front(oldest);
        }
    }

    /// Starts operations while there are permits. Returns whether any was started.
    fn start(&mut self, cx: &mut Context<'_>) -> bool {
        self.repeat_oldest(cx);
        self.prefer_oldest();
        // Also where none is wanted any more: then others get what this batch was granted.
        let permits = self.permits.poll_take(cx, self.startable());
        if permits == 0 {
            return false;
        }
        let deadline = self
            .listener
            .deadline_after(self.listener.clock().monotonic());
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
        // The oldest one alone, where it is read again.
        let reads_max = if self.window.is_oldest_repeated() {
            usize::from(self.window.does_oldest_wait())
        } else {
            READS_MAX
        };
        let may_run = |number: &&u64| {
            let is_read = self.kind(**number) == Some(OperationKind::Get);
            reads += usize::from(is_read);
            !is_read || reads <= reads_max
        };
        self.ready.iter().take_while(may_run).count()
    }

    /// Starts an operation. Returns `false` if there is no room for its answer yet.
    fn start_one(&mut self, number: u64, deadline: Duration) -> bool {
        let is_oldest = number == self.window.first();
        let is_all_written = self.answers.output().is_empty();
        let Some(slot) = self.window.get_mut(number) else {
            return true;
        };
        if slot.kind == OperationKind::Get {
            slot.answer_reservation = self
                .listener
                .batch_answers()
                .try_reserve(LONG_VALUE_BYTES)
                .ok();
            // Only one value at a time has none, so the answers before it go first.
            if slot.answer_reservation.is_none() && !(is_oldest && is_all_written) {
                return false;
            }
            self.reads += 1;
        }
        let Some((operation, reservation)) = slot.run() else {
            return true;
        };
        let watch = slot.times.as_mut().map(|times| {
            times.begins(self.listener.clock().monotonic());
            Rc::clone(&times.replicas)
        });
        let terms = Terms {
            replicas: self.replicas,
            deadline,
            // A peer would get a frame of its own for each.
            trace: self.caller.trace.filter(|_| watch.is_some()),
            watch,
        };
        let (operations, key) = (&mut self.operations, operation.key);
        let (change, reservation) = match operation.action {
            Action::Get => {
                operations.read(number, key, terms);
                return true;
            }
            Action::Touch { expires } => {
                let change = ConditionalChange::Touch(expires);
                let condition = operation.condition.map_or_else(any_value, |given| *given);
                operations.write_if(number, key, change, condition, reservation, terms);
                return true;
            }
            Action::Delete => (Change::Delete, None),
            Action::Put { value, expires } => (Change::Put { value, expires }, reservation),
        };
        match operation.condition {
            None => operations.write(number, key, change, reservation, terms),
            Some(condition) => {
                let change = ConditionalChange::Write(change);
                operations.write_if(number, key, change, *condition, reservation, terms);
            }
        }
        true
    }

    fn kind(&self, number: u64) -> Option<OperationKind> {
        self.window.get(number).map(|slot| slot.kind)
    }

    /// Takes the results of operations that have ended, and returns their permits.
    fn take_ended(&mut self, cx: &mut Context<'_>) {
        let mut ended = 0;
        while let Poll::Ready((number, result)) = self.operations.poll_ended(cx) {
            ended += 1;
            let Some(slot) = self.window.get_mut(number) else {
                continue;
            };
            let times = slot.times.take();
            self.reads -= usize::from(slot.kind == OperationKind::Get);
            // Even the oldest: answers before it may have held the memory.
            let kind = slot.kind;
            if lacks_memory(&result) && self.repeat_later(number) {
                if let Some(slot) = self.window.get_mut(number) {
                    slot.times = times;
                }
                continue;
            }
            let answer = self.answer_of(number, result);
            if let Some(times) = times {
                self.note_times(&times, kind, &answer);
            }
            // A long value may have to be read again: the next operation on its key waits.
            let turn = if answer.is_long() {
                None
            } else {
                self.window.get_mut(number).and_then(|slot| slot.key.take())
            };
            self.window.end(number, answer);
            self.ready
                .extend(turn.and_then(|key| self.key_order.leave(key)));
        }
        self.permits.release(ended);
    }

    /// Has a read run again that has found no memory. Returns whether it does.
    fn repeat_later(&mut self, number: u64) -> bool {
        let now = self.listener.clock().monotonic();
        let waits_until = self.listener.deadline_after(now);
        let repeat = self.window.repeat_later(number, now, waits_until);
        if repeat == Some(Repeat::AfterPause) {
            self.pause = Some(Box::pin(sleep(MEMORY_PAUSE)));
        }
        repeat.is_some()
    }

    /// Logs an operation that has ended if it was slow.
    fn note_times(&self, times: &OperationTimes, kind: OperationKind, answer: &OperationAnswer) {
        if let Some(slow_requests) = &self.listener.shared().slow_requests {
            let operation = EndedOperation {
                kind: kind.word(),
                status: answer.status().as_u16(),
                trace: self.caller.trace,
                ended: self.listener.clock().monotonic(),
            };
            let layout = || self.listener.worker.layout();
            slow_requests.note_operation(layout, times, &operation);
        }
    }

    /// The answer to an operation that has ended with this result.
    fn answer_of(&self, number: u64, result: Ended) -> OperationAnswer {
        let failed = |failure| {
            let problem = Problem::of_failure(failure, self.replicas);
            OperationAnswer::Problem(None, problem.in_trace(self.caller.trace))
        };
        let done = |written: Written| {
            // What was put has been created.
            let status = match self.kind(number) {
                Some(OperationKind::Delete) => StatusCode::ACCEPTED,
                _ => StatusCode::CREATED,
            };
            OperationAnswer::Written(status, written.timestamp)
        };
        match result {
            Ended::Write(Ok(written)) => done(written),
            Ended::Conditional(reply) => match Problem::of_conditional(reply, self.replicas) {
                Ok(written) => done(written),
                Err(problem) => {
                    let version = problem.version();
                    OperationAnswer::Problem(version, problem.in_trace(self.caller.trace))
                }
            },
            Ended::Read(Ok(found)) => match found.entry {
                Some(entry) if self.listener.is_live(&entry) => {
                    OperationAnswer::Found(entry, found.reservation)
                }
                entry => {
                    let version = entry.map(|entry| entry.timestamp());
                    let problem = Problem::absent().in_trace(self.caller.trace);
                    OperationAnswer::Problem(version, problem)
                }
            },
            Ended::Write(Err(failure)) | Ended::Read(Err(failure)) => failed(failure),
        }
    }
}

/// Whether a read found no memory for its value, at this node or at a replica.
fn lacks_memory(result: &Ended) -> bool {
    matches!(result, Ended::Read(Err(failure)) if failure.lacks_memory())
}
