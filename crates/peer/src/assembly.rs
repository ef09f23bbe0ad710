//! LongMessage values on their way in, piece by piece.
//!
//! A long value's length is known before its first byte comes, so it takes its
//! memory once, from the node's budget. One that the budget has no room for is
//! thrown away as it comes, and the request is answered as overloaded: its
//! pieces are on their way already.
//!
//! A connection has a few long values under way at a time ([`LONG_VALUES_MAX`]), none
//! longer than the node's longest value. More, or longer, is an error that
//! closes the connection.

use super::frame::{Frame, FrameError, PIECE_BYTES};
use super::message::EntryHead;
use base::{Budget, Share};
use base::{Entry, Expiry, Timestamp};
use smallvec::SmallVec;
use std::sync::Arc;

/// So many long values are under way in one direction at a time: enough that
/// one of a hundred kilobytes need not wait for one of megabytes, few enough
/// that they bound the memory of a connection.
pub(super) const LONG_VALUES_MAX: usize = 4;

/// The long values of a connection. `T` is what the replies keeps with each.
pub(super) struct Assembler<T> {
    budget: Arc<Budget>,
    value_bytes_max: usize,
    lanes: SmallVec<[Lane<T>; LONG_VALUES_MAX]>,
}

struct Lane<T> {
    call: u64,
    context: T,
    timestamp: Timestamp,
    expiry: Expiry,
    copies: u8,
    key_bytes: usize,
    missing_bytes: usize,
    /// Key and value, as far as it has come; nothing if it is thrown away.
    data: Vec<u8>,
    share: Option<Share>,
}

/// A long value that is complete.
pub(super) struct Assembled<T> {
    /// What the replies kept with it.
    pub(super) context: T,
    /// The entry and its share of the budget; `None` if there was no room.
    pub(super) entry: Option<(Entry, Share)>,
}

impl<T> Assembler<T> {
    /// No long values yet.
    pub(super) fn new(budget: Arc<Budget>, value_bytes_max: usize) -> Self {
        Self {
            budget,
            value_bytes_max,
            lanes: SmallVec::new(),
        }
    }

    /// Begins a long value.
    ///
    /// # Errors
    /// One value too many, too long, or two for one call.
    pub(super) fn begin(
        &mut self,
        frame: Frame<'_>,
        head: &EntryHead<'_>,
        context: T,
    ) -> Result<(), FrameError> {
        if head.value_bytes > self.value_bytes_max {
            return Err(frame.malformed("too long a value"));
        }
        if self.lanes.len() == LONG_VALUES_MAX {
            return Err(frame.malformed("one long value too many"));
        }
        if self.lanes.iter().any(|lane| lane.call == frame.call) {
            return Err(frame.malformed("a second value for one call"));
        }
        let share = self.budget.take(head.value_bytes).ok();
        let mut data = Vec::new();
        if share.is_some() {
            data.reserve_exact(head.key.len() + head.value_bytes);
            data.extend_from_slice(head.key);
        }
        self.lanes.push(Lane {
            call: frame.call,
            context,
            timestamp: head.timestamp,
            expiry: head.expiry,
            copies: head.copies,
            key_bytes: head.key.len(),
            missing_bytes: head.value_bytes,
            data,
            share,
        });
        Ok(())
    }

    /// Takes the next piece of a value; gives what it completes.
    ///
    /// # Errors
    /// A piece of nothing, or of the wrong size.
    pub(super) fn piece(
        &mut self,
        frame: Frame<'_>,
        piece: &[u8],
    ) -> Result<Option<Assembled<T>>, FrameError> {
        let number = self.lanes.iter().position(|lane| lane.call == frame.call);
        let Some(number) = number else {
            return Err(frame.malformed("a piece of no value"));
        };
        let lane = &mut self.lanes[number];
        if piece.len() != lane.missing_bytes.min(PIECE_BYTES) {
            return Err(frame.malformed("a piece of the wrong size"));
        }
        lane.missing_bytes -= piece.len();
        if lane.share.is_some() {
            lane.data.extend_from_slice(piece);
        }
        if lane.missing_bytes > 0 {
            return Ok(None);
        }
        let lane = self.lanes.swap_remove(number);
        let (key_bytes, timestamp) = (lane.key_bytes, lane.timestamp);
        let entry = lane.share.map(|share| {
            let entry = Entry::value_in(lane.data, key_bytes, timestamp, lane.expiry, lane.copies);
            (entry, share)
        });
        Ok(Some(Assembled {
            context: lane.context,
            entry,
        }))
    }
}
