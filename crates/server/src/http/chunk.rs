//! A chunk of an answer, as hyper takes it: parts that are nowhere put together.

use crate::http::json_line::{JsonLine, ValuePieces};
use base::Share;
use bytes::{Buf, Bytes};
use node::Allotment;
use std::io::IoSlice;
use std::rc::Rc;

/// A piece of an answer: `head`, then `tail`, then `rest`. Parts, so that a
/// chunk of a range can be a key and a long value that is nowhere copied.
pub(crate) struct BodyChunk {
    head: Bytes,
    tail: Bytes,
    /// What is made only as it is written.
    rest: Option<Box<UnwrittenPieces>>,
    /// What the piece counts for, until it has been written.
    share: Option<ChunkMemory>,
}

/// What a chunk counts for. The chunks of a batch share its allotment, which
/// is given back with the last of them.
pub(crate) enum ChunkMemory {
    /// A long value.
    Value { _share: Share },
    /// A batch of a range.
    Batch { _allotment: Rc<Allotment> },
}

/// A long line of JSON on its way: one piece of it at a time.
struct UnwrittenPieces {
    pieces: ValuePieces,
    /// Never empty while bytes remain.
    piece: Bytes,
    remaining: usize,
}

impl BodyChunk {
    /// A piece of two parts.
    pub(crate) fn new(head: Bytes, tail: Bytes) -> Self {
        Self {
            head,
            tail,
            rest: None,
            share: None,
        }
    }

    /// A line of JSON. Its length must be known before it is written, so the
    /// pieces of a long one are made twice.
    pub(crate) fn of_line(line: JsonLine) -> Self {
        let mut chunk = Self::new(line.head, Bytes::new());
        if let Some(mut pieces) = line.rest {
            let remaining = pieces.clone().map(|piece| piece.len()).sum();
            let piece = pieces.next().unwrap_or_default();
            chunk.rest = Some(Box::new(UnwrittenPieces {
                pieces,
                piece,
                remaining,
            }));
        }
        chunk
    }

    /// The same piece, which counts for `share` until it is written.
    pub(crate) fn counted(mut self, share: Option<ChunkMemory>) -> Self {
        self.share = share;
        self
    }

    /// Whether it counts for something.
    pub(crate) fn is_counted(&self) -> bool {
        self.share.is_some()
    }

    /// Adds all its bytes to a checksum.
    pub(crate) fn append_crc32c(&self, crc32c: u32) -> u32 {
        let mut sum = crc32c;
        for part in [&self.head, &self.tail] {
            sum = crc32c::crc32c_append(sum, part);
        }
        if let Some(rest) = &self.rest {
            sum = crc32c::crc32c_append(sum, &rest.piece);
            for piece in rest.pieces.clone() {
                sum = crc32c::crc32c_append(sum, &piece);
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
        let rest = self.rest.as_ref().map_or(0, |rest| rest.remaining);
        self.head.len() + self.tail.len() + rest
    }

    fn chunk(&self) -> &[u8] {
        let parts = [&self.head, &self.tail];
        match parts.into_iter().find(|part| !part.is_empty()) {
            Some(part) => part,
            None => self.rest.as_ref().map_or(&[], |rest| &rest.piece),
        }
    }

    fn advance(&mut self, count: usize) {
        let of_head = count.min(self.head.len());
        self.head.advance(of_head);
        let of_tail = (count - of_head).min(self.tail.len());
        self.tail.advance(of_tail);
        if let Some(rest) = &mut self.rest {
            rest.advance(count - of_head - of_tail);
        }
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let piece = self.rest.as_ref().map(|rest| &rest.piece);
        let parts = [&self.head, &self.tail].into_iter().chain(piece);
        let parts = parts.filter(|part| !part.is_empty());
        let mut count = 0;
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
            count += 1;
        }
        let has_more = piece.is_some_and(|piece| {
            let rest = self.rest.as_ref().map_or(0, |rest| rest.remaining);
            rest > piece.len()
        });
        if has_more {
            // Whoever finds room left takes these slices for all there is,
            // and puts what comes behind this chunk there.
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
