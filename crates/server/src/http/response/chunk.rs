//! A chunk of an answer in several parts, which hyper can send without copying them together.

use crate::admission::batch_streams::BatchStream;
use crate::http::response::json_line::{JsonLine, ValuePieces};
use base::Reservation;
use bytes::{Buf, Bytes};
use node::BatchMemory;
use std::cell::Cell;
use std::io::IoSlice;
use std::rc::Rc;
use std::task::Waker;

/// A chunk of an answer: `head`, then `tail`, then `unwritten`. A chunk of a scan is
/// a key as its head and a long value as its tail, which is not copied.
pub(crate) struct BodyChunk {
    head: Bytes,
    tail: Bytes,
    /// Pieces that are made only when they are written.
    unwritten: Option<Box<UnwrittenPieces>>,
    /// The memory that the chunk counts for, until it is written.
    memory: Option<ChunkMemory>,
}

/// The memory that a chunk counts for. The chunks of a batch share its memory,
/// which is free again when the last of them is written.
pub(crate) enum ChunkMemory {
    /// A long value.
    Value { _reservation: Reservation },
    /// Answers to operations of a batch. The reservation is given back before the task learns.
    Answers {
        _reservation: Option<Reservation>,
        _unwritten: UnwrittenAnswers,
    },
    /// A batch of a scan.
    Batch { _memory: Rc<BatchMemory> },
}

/// How many bytes of the answers of a batch are not written, in the batch and in hyper.
#[derive(Default)]
pub(crate) struct Unwritten {
    all: Cell<usize>,
    /// How much memory they hold that no quota counts.
    uncounted: Cell<usize>,
    /// A chunked batch, which runs until nothing of it is left.
    _stream: Option<BatchStream>,
}

/// Some answers, which count until they are written. Then the task is woken that made them.
pub(crate) struct UnwrittenAnswers {
    unwritten: Rc<Unwritten>,
    bytes: usize,
    /// How much memory they hold that no quota counts.
    uncounted: usize,
    task: Waker,
}

impl Unwritten {
    /// Nothing yet, for a batch that is `stream`, if it is chunked.
    pub(crate) fn new(stream: Option<BatchStream>) -> Self {
        Self {
            _stream: stream,
            ..Self::default()
        }
    }

    /// All of them.
    pub(crate) fn bytes(&self) -> usize {
        self.all.get()
    }

    /// How much memory they hold that no quota counts.
    pub(crate) fn uncounted_bytes(&self) -> usize {
        self.uncounted.get()
    }
}

impl UnwrittenAnswers {
    /// Adds answers of `bytes`, of whose memory no quota counts `uncounted` bytes.
    pub(crate) fn new(
        unwritten: &Rc<Unwritten>,
        bytes: usize,
        uncounted: usize,
        task: &Waker,
    ) -> Self {
        unwritten.all.update(|all| all + bytes);
        unwritten.uncounted.update(|all| all + uncounted);
        Self {
            unwritten: Rc::clone(unwritten),
            bytes,
            uncounted,
            task: task.clone(),
        }
    }
}

impl Drop for UnwrittenAnswers {
    fn drop(&mut self) {
        self.unwritten.all.update(|all| all - self.bytes);
        let uncounted = &self.unwritten.uncounted;
        uncounted.update(|all| all - self.uncounted);
        self.task.wake_by_ref();
    }
}

/// The end of a long line of JSON, of which one piece exists at a time.
struct UnwrittenPieces {
    pieces: ValuePieces,
    /// Never empty while bytes remain.
    piece: Bytes,
    remaining: usize,
}

impl BodyChunk {
    /// A chunk of two parts.
    pub(crate) fn new(head: Bytes, tail: Bytes) -> Self {
        Self {
            head,
            tail,
            unwritten: None,
            memory: None,
        }
    }

    /// A line of JSON. Hyper needs its length before it writes it, so the pieces of a
    /// long line are made twice, but for the first.
    pub(crate) fn of_line(line: JsonLine) -> Self {
        let mut chunk = Self::new(line.head, Bytes::new());
        if let Some(mut pieces) = line.value_pieces {
            let piece = pieces.next().unwrap_or_default();
            let others = pieces.clone().map(|piece| piece.len());
            let remaining = piece.len() + others.sum::<usize>();
            chunk.unwritten = Some(Box::new(UnwrittenPieces {
                pieces,
                piece,
                remaining,
            }));
        }
        chunk
    }

    /// The same chunk, which counts for `memory` until it is written.
    pub(crate) fn counted(mut self, memory: Option<ChunkMemory>) -> Self {
        self.memory = memory;
        self
    }

    /// Whether a quota counts the chunk.
    pub(crate) fn is_counted(&self) -> bool {
        self.memory.is_some()
    }

    /// How much memory it holds, in bytes. The text of a long line is longer than that.
    pub(crate) fn held_bytes(&self) -> usize {
        let unwritten = self.unwritten.as_ref().map_or(0, |unwritten| {
            unwritten.pieces.value_bytes() + unwritten.piece.len()
        });
        self.head.len() + self.tail.len() + unwritten
    }

    /// Adds all its bytes to a checksum.
    pub(crate) fn append_crc32c(&self, crc32c: u32) -> u32 {
        let mut sum = crc32c;
        for part in [&self.head, &self.tail] {
            sum = base::crc32c_append(sum, part);
        }
        if let Some(unwritten) = &self.unwritten {
            sum = base::crc32c_append(sum, &unwritten.piece);
            for piece in unwritten.pieces.clone() {
                sum = base::crc32c_append(sum, &piece);
            }
        }
        sum
    }
}

impl UnwrittenPieces {
    fn advance(&mut self, mut count: usize) {
        self.remaining = self.remaining.saturating_sub(count);
        while count >= self.piece.len() {
            count -= self.piece.len();
            match self.pieces.next() {
                Some(piece) => self.piece = piece,
                None => {
                    self.piece = Bytes::new();
                    return;
                }
            }
        }
        self.piece.advance(count);
    }
}

impl Buf for BodyChunk {
    fn remaining(&self) -> usize {
        let unwritten = self.unwritten.as_ref();
        let unwritten_bytes = unwritten.map_or(0, |unwritten| unwritten.remaining);
        self.head.len() + self.tail.len() + unwritten_bytes
    }

    fn chunk(&self) -> &[u8] {
        let parts = [&self.head, &self.tail];
        match parts.into_iter().find(|part| !part.is_empty()) {
            Some(part) => part,
            None => self
                .unwritten
                .as_ref()
                .map_or(&[], |unwritten| &unwritten.piece),
        }
    }

    fn advance(&mut self, count: usize) {
        let of_head = count.min(self.head.len());
        self.head.advance(of_head);
        let of_tail = (count - of_head).min(self.tail.len());
        self.tail.advance(of_tail);
        if let Some(unwritten) = &mut self.unwritten {
            unwritten.advance(count - of_head - of_tail);
        }
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let piece = self.unwritten.as_ref().map(|unwritten| &unwritten.piece);
        let parts = [&self.head, &self.tail].into_iter().chain(piece);
        let parts = parts.filter(|part| !part.is_empty());
        let mut count = 0;
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
            count += 1;
        }
        let has_more = piece.is_some_and(|piece| {
            let unwritten = self.unwritten.as_ref();
            unwritten.map_or(0, |unwritten| unwritten.remaining) > piece.len()
        });
        if has_more {
            // A caller that finds a slice unused takes the others for the whole
            // chunk, and puts the next chunk there. So no slice may stay unused.
            slices[count..].fill(IoSlice::new(&[]));
            count = slices.len();
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_its_head_then_its_tail() {
        let mut chunk = BodyChunk::new(Bytes::from_static(b"key\n"), Bytes::from_static(b"value"));
        let mut slices = [IoSlice::new(&[]); 4];
        assert_eq!(chunk.chunks_vectored(&mut slices), 2);
        assert_eq!(chunk.chunks_vectored(&mut slices[..1]), 1);
        chunk.advance(6);
        assert_eq!((chunk.remaining(), chunk.chunk()), (3, &b"lue"[..]));
        let mut slices = [IoSlice::new(&[]); 4];
        assert_eq!(chunk.chunks_vectored(&mut slices), 1);
        chunk.advance(3);
        assert!(!chunk.has_remaining());
    }
}
