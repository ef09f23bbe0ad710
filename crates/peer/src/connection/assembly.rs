//! Assembles long values that arrive in pieces.
//!
//! The length of a long value arrives before its first byte, so the value takes its memory once,
//! from the node's quota. If the quota is exhausted, the pieces are already on their way: the
//! node discards them as they arrive, and answers the request as overloaded.
//!
//! A value that is longer than the whole quota gets memory beside it, one value at a time: nodes
//! may have different bounds for values, and a store may hold values from before its bound was
//! lowered.
//!
//! A connection receives at most [`LONG_VALUES_MAX`] long values at a time, none longer than the
//! longest value of any store, or the longest run. If a peer exceeds this, the connection is
//! closed.

use crate::wire::frame::{Frame, FrameError, PIECE_BYTES};
use crate::wire::message::{EntryHead, RunHead};
use crate::wire::page::PagedHead;
use base::{Entry, Expiry, Timestamp, VALUE_BYTES_MAX};
use base::{Quota, Reservation};
use smallvec::SmallVec;
use std::sync::Arc;

/// The most long values under way at a time in one direction. They are enough that
/// a value of a hundred kilobytes need not wait for one of megabytes, and few
/// enough to bound the memory of a connection.
pub(crate) const LONG_VALUES_MAX: usize = 4;

/// The incoming long values of a connection. `T` is what the caller keeps with each.
pub(crate) struct Assembler<T> {
    quota: Arc<Quota>,
    values: SmallVec<[PartialValue<T>; LONG_VALUES_MAX]>,
}

/// A long value of which some pieces are still missing.
struct PartialValue<T> {
    call: u64,
    context: T,
    timestamp: Timestamp,
    expiry: Expiry,
    copies: u8,
    key_bytes: usize,
    missing_bytes: usize,
    /// The key, and the value as far as it has arrived; empty if it is thrown away.
    data: Vec<u8>,
    reservation: Option<Reservation>,
}

/// A long value that is complete.
pub(crate) struct Assembled<T> {
    /// What the caller kept with it.
    pub(crate) context: T,
    /// The entry and its reservation; `None` if there was no room.
    pub(crate) entry: Option<(Entry, Reservation)>,
}

impl<T> Assembler<T> {
    /// An assembler without values.
    pub(crate) fn new(quota: Arc<Quota>) -> Self {
        Self {
            quota,
            values: SmallVec::new(),
        }
    }

    /// Begins a long value.
    ///
    /// # Errors
    /// The value is one too many, too long, or the second one for its call.
    pub(crate) fn begin(
        &mut self,
        frame: Frame<'_>,
        head: &EntryHead<'_>,
        context: T,
    ) -> Result<(), FrameError> {
        if head.value_bytes > VALUE_BYTES_MAX {
            return Err(frame.malformed("a value that is too long"));
        }
        self.add(frame, head, context)
    }

    /// Begins a run, which becomes an entry without a key.
    ///
    /// # Errors
    /// As [`Assembler::begin`]. The decoder has checked the length.
    pub(crate) fn begin_run(
        &mut self,
        frame: Frame<'_>,
        head: &RunHead<'_>,
        context: T,
    ) -> Result<(), FrameError> {
        self.add(frame, &EntryHead::of_run(head.run_bytes), context)
    }

    /// Begins a page, which becomes an entry: its key is where the next page begins.
    ///
    /// # Errors
    /// As [`Assembler::begin`]. The decoder has checked the length.
    pub(crate) fn begin_page(
        &mut self,
        frame: Frame<'_>,
        head: &PagedHead<'_>,
        context: T,
    ) -> Result<(), FrameError> {
        self.add(frame, &EntryHead::of_page(head), context)
    }

    fn add(
        &mut self,
        frame: Frame<'_>,
        head: &EntryHead<'_>,
        context: T,
    ) -> Result<(), FrameError> {
        if self.values.len() == LONG_VALUES_MAX {
            return Err(frame.malformed("more long values than allowed at a time"));
        }
        if self.values.iter().any(|value| value.call == frame.call) {
            return Err(frame.malformed("a second value for one call"));
        }
        let reservation = self.quota.try_reserve_oversized(head.value_bytes).ok();
        let mut data = Vec::new();
        if reservation.is_some() {
            data.reserve_exact(head.key.len() + head.value_bytes);
            data.extend_from_slice(head.key);
        }
        self.values.push(PartialValue {
            call: frame.call,
            context,
            timestamp: head.timestamp,
            expiry: head.expiry,
            copies: head.copies,
            key_bytes: head.key.len(),
            missing_bytes: head.value_bytes,
            data,
            reservation,
        });
        Ok(())
    }

    /// Takes the next piece of a value; returns the value if that completes it.
    ///
    /// # Errors
    /// The piece belongs to no value, or has the wrong size.
    pub(crate) fn piece(
        &mut self,
        frame: Frame<'_>,
        piece: &[u8],
    ) -> Result<Option<Assembled<T>>, FrameError> {
        let index = self
            .values
            .iter()
            .position(|value| value.call == frame.call);
        let Some(index) = index else {
            return Err(frame.malformed("a piece of no value"));
        };
        let value = &mut self.values[index];
        if piece.len() != value.missing_bytes.min(PIECE_BYTES) {
            return Err(frame.malformed("a piece of the wrong size"));
        }
        value.missing_bytes -= piece.len();
        if value.reservation.is_some() {
            value.data.extend_from_slice(piece);
        }
        if value.missing_bytes > 0 {
            return Ok(None);
        }
        let value = self.values.swap_remove(index);
        let (key_bytes, timestamp) = (value.key_bytes, value.timestamp);
        let entry = value.reservation.map(|reservation| {
            let entry =
                Entry::value_in(value.data, key_bytes, timestamp, value.expiry, value.copies);
            (entry, reservation)
        });
        Ok(Some(Assembled {
            context: value.context,
            entry,
        }))
    }
}
