//! The frames that a connection has yet to send.
//!
//! Frames are encoded straight into the buffer that will be written, many frames
//! into one buffer. The connection's task is woken once, and writes after all tasks that
//! were already awake have had their turn and the runtime has polled for events once more
//! ([`Outgoing::poll_gather`]). Each batch has, in this order: urgent frames (heartbeats),
//! short frames in the order in which they were pushed, and one piece of each of a few
//! long values. A batch is bounded: it has about [`CHUNK_BYTES`] of short frames and at
//! most [`LONG_VALUES_MAX`] pieces. So a heartbeat waits for at most one batch, and long
//! values delay short frames by a few pieces a batch at most.
//!
//! A long value stays in its entry until its next piece is to be sent.
//!
//! Writes that follow each other share a frame, and so do the answers to them, if both
//! sides have the feature [`MANY`](crate::MANY). Such a frame is open while it is the last
//! one: it gets its length and its checksum when another frame follows, or when it is
//! written.

use super::assembly::LONG_VALUES_MAX;
use crate::Stream;
use crate::wire::frame::{HEADER_BYTES, PAYLOAD_BYTES_MAX, PIECE_BYTES, end_frame};
use crate::wire::message;
use base::Entry;
use base::{NewerVersion, Reservation, Timestamp, TraceId};
use cluster::repair::SessionId;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::task::yield_now;

/// The size of a write of short frames, roughly, in bytes.
const CHUNK_BYTES: usize = 64 << 10;

/// The most bytes of encoded frames that may wait.
const ENCODED_BYTES_MAX: usize = 8 << 20;

/// The most bytes of long values that may wait; a single value may be longer.
const LONG_BYTES_MAX: usize = 64 << 20;

/// A message with a long value, which is yet to be sent.
pub(crate) struct LongMessage {
    /// Whether it is a write or an answer.
    pub(crate) kind: LongMessageKind,
    /// The call that it belongs to.
    pub(crate) call: u64,
    /// Until when it is worth sending, on the monotonic clock.
    pub(crate) deadline: Duration,
    /// The version.
    pub(crate) entry: Entry,
    /// The trace that it is part of, if the other side is to know.
    pub(crate) trace: Option<TraceId>,
    /// The value's reservation, until it is sent.
    pub(crate) _reservation: Option<Reservation>,
}

/// Why a long value is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LongMessageKind {
    /// To be stored.
    Write,
    /// To be stored, for a repair session.
    RepairWrite(SessionId),
    /// To be stored, as a repair with what a store has answered that has named this GC threshold.
    Repair(Timestamp),
    /// To be stored, if the promise of this ballot is kept.
    Accept(Timestamp),
    /// As the answer to a read.
    Found {
        /// What the store named when it was read.
        named: Option<Timestamp>,
    },
    /// As the answer to a request to stream a range. The entry has no key, and the
    /// run as its value.
    Run {
        /// As in a [`Run`](crate::Run).
        is_last: bool,
        /// As in a [`Run`](crate::Run).
        position_permille: u16,
    },
    /// As a page of a scan. The entry has as its key where the next page begins, and the items
    /// as its value.
    Page {
        /// Whether more follows.
        has_next: bool,
        /// Whether the answer counts.
        counts: bool,
    },
}

/// What the items of a frame of many are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ManyKind {
    /// Writes whose dialler waits for so many milliseconds.
    Writes { remaining_ms: u32 },
    /// Newer-version checks.
    NewerVersions,
}

/// The last frame of the last chunk, while further items may follow in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpenFrame {
    kind: ManyKind,
    /// Where it begins in its chunk.
    begin: usize,
}

/// A frame of many has at most so many bytes, unless it has one item only.
const MANY_BYTES_MAX: usize = 16 << 10;

/// The most bytes of an item beside its key and its value.
const ITEM_BYTES_MAX: usize = 32;

/// A long value whose first pieces are sent.
struct Sending {
    long: LongMessage,
    sent: usize,
}

/// The frames that a connection has yet to send.
#[derive(Default)]
pub(crate) struct Outgoing {
    queue: RefCell<Queue>,
    /// How many bytes were ever written.
    written_bytes: Cell<u64>,
    waker: RefCell<Option<Waker>>,
    /// Whether the writing task is going to check the queue anyway.
    is_awake: Cell<bool>,
    /// Whether the writing task waits for one poll for events before it writes.
    is_gathering: Cell<bool>,
    /// Whether the stream took no more at the last write.
    is_blocked: Cell<bool>,
}

#[derive(Default)]
struct Queue {
    urgent: Vec<u8>,
    /// Short frames; each chunk holds whole frames.
    chunks: VecDeque<Vec<u8>>,
    open: Option<OpenFrame>,
    waiting: VecDeque<LongMessage>,
    /// [`LONG_VALUES_MAX`] at most.
    sending: VecDeque<Sending>,
    /// What is being written, and how many bytes of it are written.
    batch: Vec<u8>,
    written: usize,
    /// An empty buffer for the next chunk.
    spare: Vec<u8>,
    /// Bytes of all frames that are encoded but not written.
    encoded_bytes: usize,
    /// Bytes of long values that are not encoded yet.
    long_bytes: usize,
}

impl Outgoing {
    /// How many bytes were ever written.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes.get()
    }

    /// Whether the stream took no more at the last write.
    pub(crate) fn is_blocked(&self) -> bool {
        self.is_blocked.get()
    }

    /// Whether a short frame with this key may be appended.
    pub(crate) fn has_room_for_key(&self, key: &[u8]) -> bool {
        self.queue.borrow().encoded_bytes + key.len() <= ENCODED_BYTES_MAX
    }

    /// Whether a frame of any length may be appended.
    pub(crate) fn has_room_for_frame(&self) -> bool {
        self.queue.borrow().encoded_bytes + PAYLOAD_BYTES_MAX <= ENCODED_BYTES_MAX
    }

    /// Whether a message with this entry may be appended.
    pub(crate) fn has_room_for(&self, entry: &Entry) -> bool {
        let queue = self.queue.borrow();
        if message::is_long(entry) {
            let value_bytes = entry.value_bytes().len();
            queue.long_bytes == 0 || queue.long_bytes + value_bytes <= LONG_BYTES_MAX
        } else {
            queue.encoded_bytes + entry.data_bytes() <= ENCODED_BYTES_MAX
        }
    }

    /// Whether there is room for the answers to further requests.
    pub(crate) fn has_room_for_answers(&self) -> bool {
        self.queue.borrow().encoded_bytes <= ENCODED_BYTES_MAX / 2
    }

    /// Appends a short frame; `encode` encodes it.
    pub(crate) fn push(&self, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut queue = self.queue.borrow_mut();
        queue.close_frame();
        queue.append(encode);
        drop(queue);
        self.wake();
    }

    /// Appends a write with a short value to a frame of many.
    pub(crate) fn push_write(&self, call: u64, remaining: Duration, entry: &Entry) {
        let remaining_ms = message::remaining_ms(remaining);
        let kind = ManyKind::Writes { remaining_ms };
        let item_bytes = ITEM_BYTES_MAX + entry.data_bytes();
        self.push_item(kind, item_bytes, |out| {
            message::put_write_item(out, call, entry);
        });
    }

    /// Appends the answer that a write is stored to a frame of many.
    pub(crate) fn push_newer_version(&self, call: u64, newer_version: NewerVersion) {
        let put = |out: &mut Vec<u8>| message::put_newer_version_item(out, call, newer_version);
        self.push_item(ManyKind::NewerVersions, ITEM_BYTES_MAX, put);
    }

    fn push_item(&self, kind: ManyKind, item_bytes: usize, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut queue = self.queue.borrow_mut();
        let end = queue.chunks.back().map_or(0, Vec::len) + item_bytes;
        let fits = |open: OpenFrame| open.kind == kind && end - open.begin <= MANY_BYTES_MAX;
        if !queue.open.is_some_and(fits) {
            queue.close_frame();
            let begin = queue.append(|out| match kind {
                ManyKind::Writes { remaining_ms } => message::begin_writes(out, remaining_ms),
                ManyKind::NewerVersions => message::begin_newer_versions(out),
            });
            queue.open = Some(OpenFrame { kind, begin });
        }
        queue.append_to_last(encode);
        drop(queue);
        self.wake();
    }

    /// Sends frames before all others. If urgent ones are already waiting, these are
    /// dropped: two late heartbeats say no more than one. Returns whether they are sent.
    pub(crate) fn push_urgent(&self, encode: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut queue = self.queue.borrow_mut();
        let has_room = queue.urgent.is_empty();
        if has_room {
            encode(&mut queue.urgent);
            queue.encoded_bytes += queue.urgent.len();
        }
        drop(queue);
        self.wake();
        has_room
    }

    /// Appends a message with a long value.
    pub(crate) fn push_long(&self, long: LongMessage) {
        let mut queue = self.queue.borrow_mut();
        queue.long_bytes += long.entry.value_bytes().len();
        queue.waiting.push_back(long);
        drop(queue);
        self.wake();
    }

    /// Drops everything, because the connection has ended.
    pub(crate) fn clear(&self) {
        // Reservations are returned outside of the borrow.
        let queue = std::mem::take(&mut *self.queue.borrow_mut());
        drop(queue);
        self.is_blocked.set(false);
    }

    /// Drops what is not partly sent, because no request waits for it any more.
    pub(crate) fn clear_waiting(&self) {
        let mut queue = self.queue.borrow_mut();
        queue.open = None;
        let chunks = std::mem::take(&mut queue.chunks);
        let waiting = std::mem::take(&mut queue.waiting);
        queue.encoded_bytes -= chunks.iter().map(Vec::len).sum::<usize>();
        let long_bytes = waiting.iter().map(|long| long.entry.value_bytes().len());
        queue.long_bytes -= long_bytes.sum::<usize>();
        drop(queue);
    }

    /// Notes that the writing task has begun its turn. It writes at the end of the
    /// turn, so until then it need not be woken.
    pub(crate) fn begin_turn(&self) {
        self.is_awake.set(true);
    }

    /// Notes that the turn has ended. What is pushed from now on wakes the task, unless it
    /// gathers and is going to be woken anyway.
    pub(crate) fn end_turn(&self, waker: &Waker) {
        self.is_awake.set(self.is_gathering.get());
        let mut remembered = self.waker.borrow_mut();
        match &*remembered {
            Some(known) if known.will_wake(waker) => {}
            _ => *remembered = Some(waker.clone()),
        }
    }

    /// Wakes the writing task.
    pub(crate) fn wake(&self) {
        if !self.is_awake.replace(true)
            && let Some(waker) = &*self.waker.borrow()
        {
            waker.wake_by_ref();
        }
    }

    /// Lets the writing task wait for one poll for events if less than a chunk is to be
    /// written: it is pending then, and the task is woken after that poll. Ready in the turn
    /// after it, and if nothing is to be written.
    pub(crate) fn poll_gather(&self, cx: &mut Context<'_>) -> Poll<()> {
        let is_little = (1..CHUNK_BYTES).contains(&self.queue.borrow().encoded_bytes);
        let gathers = is_little && !self.is_gathering.get();
        self.is_gathering.set(gathers);
        if !gathers {
            return Poll::Ready(());
        }
        // The runtime polls for events before it wakes a task that has yielded.
        pin!(yield_now()).poll(cx)
    }

    /// Writes until nothing is left, or the stream takes no more. It is ready if
    /// nothing is left. `now` is on the monotonic clock.
    pub(crate) fn poll_flush(
        &self,
        cx: &mut Context<'_>,
        stream: &mut dyn Stream,
        now: Duration,
    ) -> Poll<io::Result<()>> {
        let mut queue = self.queue.borrow_mut();
        loop {
            if queue.written == queue.batch.len() {
                queue.next_batch(now);
                if queue.batch.is_empty() {
                    drop(queue);
                    return Pin::new(stream).poll_flush(cx);
                }
            }
            let unwritten = &queue.batch[queue.written..];
            let written = Pin::new(&mut *stream).poll_write(cx, unwritten);
            self.is_blocked.set(written.is_pending());
            let bytes = ready!(written)?;
            if bytes == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            queue.written += bytes;
            self.written_bytes.update(|sum| sum + bytes as u64);
            queue.encoded_bytes -= bytes;
        }
    }
}

impl Queue {
    /// Appends to the last chunk, or to a new one if that is full. Returns where in it.
    fn append(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> usize {
        let last = self.chunks.back();
        if last.is_none_or(|chunk| chunk.len() >= CHUNK_BYTES) {
            self.chunks.push_back(std::mem::take(&mut self.spare));
        }
        self.append_to_last(encode)
    }

    fn append_to_last(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> usize {
        let Some(chunk) = self.chunks.back_mut() else {
            return 0;
        };
        let before = chunk.len();
        encode(chunk);
        self.encoded_bytes += chunk.len() - before;
        before
    }

    /// Completes the frame that is open, if one is.
    fn close_frame(&mut self) {
        if let Some(open) = self.open.take()
            && let Some(chunk) = self.chunks.back_mut()
        {
            end_frame(chunk, open.begin);
        }
    }

    /// Gathers the next batch.
    fn next_batch(&mut self, now: Duration) {
        self.close_frame();
        self.written = 0;
        self.batch.clear();
        let used = std::mem::take(&mut self.batch);
        if used.capacity() <= CHUNK_BYTES * 2 {
            self.spare = used;
        }
        let chunk = self.chunks.pop_front();
        if self.urgent.is_empty() {
            self.batch = chunk.unwrap_or_default();
        } else {
            self.batch = std::mem::take(&mut self.urgent);
            self.batch.extend(chunk.unwrap_or_default());
        }
        self.begin_long(now);
        // One value alone has all the pieces: a large write wakes the other side less often.
        for _ in 0..LONG_VALUES_MAX {
            self.next_piece();
        }
    }

    /// Begins to send long values, up to as many as may be sent at a time.
    fn begin_long(&mut self, now: Duration) {
        while self.sending.len() < LONG_VALUES_MAX
            && let Some(long) = self.waiting.pop_front()
        {
            if long.deadline <= now {
                self.long_bytes -= long.entry.value_bytes().len();
                continue;
            }
            let before = self.batch.len();
            if let Some(trace) = long.trace {
                message::put_trace(&mut self.batch, long.call, trace);
            }
            let remaining = long.deadline.saturating_sub(now);
            match long.kind {
                LongMessageKind::Write => {
                    message::put_write(&mut self.batch, long.call, remaining, &long.entry);
                }
                LongMessageKind::RepairWrite(session) => {
                    let batch = &mut self.batch;
                    message::put_repair_write(batch, long.call, remaining, session, &long.entry);
                }
                LongMessageKind::Repair(gc_threshold) => {
                    let batch = &mut self.batch;
                    message::put_repair(batch, long.call, remaining, gc_threshold, &long.entry);
                }
                LongMessageKind::Accept(ballot) => {
                    let batch = &mut self.batch;
                    message::put_accept(batch, long.call, remaining, ballot, &long.entry);
                }
                LongMessageKind::Found { named } => {
                    if let Some(named) = named {
                        message::put_gc_threshold(&mut self.batch, long.call, named);
                    }
                    message::put_found(&mut self.batch, long.call, &long.entry);
                }
                LongMessageKind::Run {
                    is_last,
                    position_permille,
                } => {
                    let (batch, run) = (&mut self.batch, long.entry.value_bytes());
                    message::put_run(batch, long.call, is_last, position_permille, run);
                }
                LongMessageKind::Page { has_next, counts } => {
                    let (batch, flags) = (&mut self.batch, (has_next, counts));
                    message::put_paged(batch, long.call, flags, &long.entry);
                }
            }
            self.encoded_bytes += self.batch.len() - before;
            self.sending.push_back(Sending { long, sent: 0 });
        }
    }

    /// Appends a piece of the first long value, which then goes to the end of the
    /// queue.
    fn next_piece(&mut self) {
        let Some(mut first) = self.sending.pop_front() else {
            return;
        };
        let value = first.long.entry.value_bytes();
        let end = value.len().min(first.sent + PIECE_BYTES);
        let piece = &value[first.sent..end];
        message::put_piece(&mut self.batch, first.long.call, piece);
        self.encoded_bytes += HEADER_BYTES + piece.len();
        self.long_bytes -= piece.len();
        first.sent = end;
        if end < value.len() {
            self.sending.push_back(first);
        }
    }
}
