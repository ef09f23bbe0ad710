//! Frames: the units that peers send each other.
//!
//! ```text
//! frame   = crc32c u32 of the rest | payload bytes u32 | kind u8 | call u64 | payload
//! ```
//!
//! All numbers are little-endian. `message/` draws the kinds and their payloads;
//! the files in `handshake/` draw those of the handshake. `call` says to which
//! request an answer or a piece belongs; the dialler chooses it.
//!
//! A payload has at most [`PAYLOAD_BYTES_MAX`] bytes, so that no frame delays the
//! next ones for long. A longer value travels in pieces.
//!
//! If a frame is damaged, the beginning of the next one is unknown, so the connection is closed.

use crate::Stream;
use base::KEY_BYTES_MAX;
use bytes::{Buf, BytesMut};
use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};
use tokio::io::AsyncReadExt;

/// The size of a piece. A longer value travels in pieces, so that a short frame
/// never waits for more than a few of them.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// The most bytes of a run: sorted entries, as they are streamed to a store that is rebuilt. It
/// may be longer than the longest value of a node.
pub const RUN_BYTES_MAX: usize = 1 << 20;

/// The bytes of a frame before its payload.
pub(crate) const HEADER_BYTES: usize = 17;

/// The most bytes of a payload besides a key and a piece of a value.
pub(crate) const FIELDS_BYTES_MAX: usize = 64;

/// The longest payload.
pub(crate) const PAYLOAD_BYTES_MAX: usize = FIELDS_BYTES_MAX + KEY_BYTES_MAX + PIECE_BYTES;

/// The room that a buffer gets before a read, in bytes.
const READ_BYTES: usize = 64 << 10;

/// A buffer with less room than this gets more before a read.
const READ_BYTES_MIN: usize = 16 << 10;

/// What is wrong with the bytes of a connection, which is closed because of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    /// The payload is longer than allowed.
    #[error("a frame of {0} bytes, which is too long")]
    TooLong(usize),
    /// The bytes are not those that were sent.
    #[error("a frame with a wrong checksum")]
    Checksum,
    /// The payload is malformed.
    #[error("a frame of kind {kind} with {what}")]
    Malformed {
        /// The kind of the frame.
        kind: u8,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// A frame that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// Its kind.
    pub(crate) kind: u8,
    /// The number of the call that it belongs to.
    pub(crate) call: u64,
    /// Its payload.
    pub(crate) payload: &'a [u8],
}

impl Frame<'_> {
    /// The error that says what is wrong with this frame.
    pub(crate) fn malformed(&self, what: &'static str) -> FrameError {
        FrameError::Malformed {
            kind: self.kind,
            what,
        }
    }
}

/// Appends a frame; `write` appends its payload.
pub(crate) fn put_frame(out: &mut Vec<u8>, kind: u8, call: u64, write: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    begin_frame(out, kind, call);
    write(out);
    end_frame(out, begin);
}

/// Appends the header of a frame, which [`end_frame`] completes behind its payload.
pub(crate) fn begin_frame(out: &mut Vec<u8>, kind: u8, call: u64) {
    // Room for the checksum and the length, which are known at the end.
    out.extend_from_slice(&[0; 8]);
    out.push(kind);
    out.extend_from_slice(&call.to_le_bytes());
}

/// Completes the frame that begins at `begin` and ends with `out`.
pub(crate) fn end_frame(out: &mut [u8], begin: usize) {
    let payload_bytes = out.len() - begin - HEADER_BYTES;
    debug_assert!(
        payload_bytes <= PAYLOAD_BYTES_MAX,
        "the other side would close the connection"
    );
    out[begin + 4..begin + 8].copy_from_slice(&(payload_bytes as u32).to_le_bytes());
    let crc = base::crc32c(&out[begin + 4..]);
    out[begin..begin + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Finds frames in the bytes of a connection as they arrive.
pub(crate) struct Decoder {
    buffer: BytesMut,
    /// Where the next frame begins.
    next: usize,
    payload_bytes_max: usize,
}

impl Decoder {
    /// A decoder that begins with the bytes in `rest`, and accepts payloads of
    /// up to `payload_bytes_max`.
    pub(crate) fn new(rest: &[u8], payload_bytes_max: usize) -> Self {
        Self {
            buffer: BytesMut::from(rest),
            next: 0,
            payload_bytes_max,
        }
    }

    /// Accepts payloads of up to `bytes` from now on.
    pub(crate) fn allow(&mut self, bytes: usize) {
        self.payload_bytes_max = bytes;
    }

    /// The next frame, if all of it has arrived.
    ///
    /// # Errors
    /// See [`FrameError`]; no further frame can be found then.
    pub(crate) fn next(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        let bytes = &self.buffer[self.next..];
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let [c0, c1, c2, c3, l0, l1, l2, l3, kind, call @ ..] = *header;
        let payload_bytes = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if payload_bytes > self.payload_bytes_max {
            return Err(FrameError::TooLong(payload_bytes));
        }
        let Some(payload) = rest.get(..payload_bytes) else {
            return Ok(None);
        };
        let end = HEADER_BYTES + payload_bytes;
        if base::crc32c(&bytes[4..end]) != u32::from_le_bytes([c0, c1, c2, c3]) {
            return Err(FrameError::Checksum);
        }
        self.next += end;
        Ok(Some(Frame {
            kind,
            call: u64::from_le_bytes(call),
            payload,
        }))
    }

    /// Reads what has arrived; returns the number of bytes, 0 at the end.
    pub(crate) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut dyn Stream,
    ) -> Poll<io::Result<usize>> {
        self.make_room();
        pin!(stream.read_buf(&mut self.buffer)).poll(cx)
    }

    /// Waits for more bytes; returns their number, 0 at the end.
    pub(crate) async fn fill(&mut self, stream: &mut dyn Stream) -> io::Result<usize> {
        self.make_room();
        stream.read_buf(&mut self.buffer).await
    }

    fn make_room(&mut self) {
        self.buffer.advance(self.next);
        self.next = 0;
        if self.buffer.capacity() - self.buffer.len() < READ_BYTES_MIN {
            self.buffer.reserve(READ_BYTES);
        }
    }

    /// Appends bytes as if they had been read.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.advance(self.next);
        self.next = 0;
        self.buffer.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded() -> Vec<u8> {
        let mut bytes = Vec::new();
        let call = 0x0102_0304_0506_0708;
        put_frame(&mut bytes, 7, call, |out| {
            out.extend_from_slice(b"payload");
        });
        put_frame(&mut bytes, 8, u64::MAX, |_| {});
        bytes
    }

    #[test]
    fn a_frame_is_as_drawn() {
        let mut bytes = Vec::new();
        put_frame(&mut bytes, 3, 0x0807_0605_0403_0201, |out| out.push(0xab));
        assert_eq!(bytes[4..], [1, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 0xab]);
        assert_eq!(bytes[..4], base::crc32c(&bytes[4..]).to_le_bytes());
    }

    #[test]
    fn frames_are_whole_however_their_bytes_arrive() {
        for size in 1..=encoded().len() {
            let mut decoder = Decoder::new(&[], 7);
            let mut frames = Vec::new();
            for bytes in encoded().chunks(size) {
                decoder.push(bytes);
                while let Some(frame) = decoder.next().unwrap() {
                    frames.push((frame.kind, frame.call, frame.payload.to_vec()));
                }
            }
            let first = (7, 0x0102_0304_0506_0708, b"payload".to_vec());
            assert_eq!(frames, [first, (8, u64::MAX, Vec::new())], "{size}");
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let sound = encoded();
        let first = HEADER_BYTES + 7;
        for bit in 0..first * 8 {
            let mut bytes = sound.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            // A flipped length can also make it wait for bytes that never arrive.
            let found = Decoder::new(&bytes, PAYLOAD_BYTES_MAX)
                .next()
                .map(|frame| frame.is_some());
            assert_ne!(found, Ok(true), "bit {bit}");
        }
    }

    #[test]
    fn a_length_past_the_bound_is_refused_before_the_payload_comes() {
        let header = encoded()[..HEADER_BYTES].to_vec();
        assert_eq!(Decoder::new(&header, 6).next(), Err(FrameError::TooLong(7)));
        assert_eq!(Decoder::new(&header, 7).next(), Ok(None));
    }
}
