//! Reading hints back, and giving them up.

use super::{GROUP_BYTES, Logs, SEGMENT_BYTES, SEGMENT_SLACK_BYTES, Segment, newest_unix_ms};
use crate::hints::statistics::{End, HintsWaiting};
use base::{Entry, Timestamp};
use cluster::NodeNumber;
use lsm::Error;

/// The hints of one segment, read.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The segment's number, by which it is given up.
    pub(crate) segment: u64,
    /// The size of its file.
    pub(crate) bytes: u64,
    /// The hints, in the order in which they were kept.
    pub(crate) entries: Vec<Entry>,
}

impl Batch {
    /// Whether the segment is longer than any that holds short values only.
    pub(crate) fn is_long(&self) -> bool {
        self.bytes > SEGMENT_BYTES + SEGMENT_SLACK_BYTES + GROUP_BYTES as u64
    }

    /// Whether the segment had room for many more hints.
    pub(crate) fn is_short(&self) -> bool {
        self.bytes < SEGMENT_BYTES / 4
    }
}

impl Logs {
    /// Reads a segment; see [`crate::hints::HintStore::next_batch`].
    pub(in crate::hints) fn next_batch(
        &mut self,
        peer: NodeNumber,
        after: u64,
    ) -> Result<Option<Batch>, Error> {
        self.make_room(0);
        let mut unread = None;
        for segment in self.in_turn(peer, after) {
            self.retire_where(|active| active.segment == segment);
            match self.read_segment(peer, segment) {
                Ok(batch) => return Ok(Some(batch)),
                Err(error @ (Error::Corrupt { .. } | Error::Invalid(_))) => {
                    let peer = &*self.peers[peer.index()].name;
                    tracing::error!(%error, peer, "dropping a damaged segment of hints");
                    self.end(segment, End::Damaged);
                }
                // It may be read another time.
                Err(error) => unread = Some(error),
            }
        }
        unread.map_or(Ok(None), Err)
    }

    /// The segments of a peer that have hints: those numbered above `after`,
    /// then the others, oldest first.
    fn in_turn(&self, peer: NodeNumber, after: u64) -> Vec<u64> {
        let of_peer = |(number, segment): (&u64, &Segment)| {
            (segment.peer == peer && segment.hints > 0).then_some(*number)
        };
        let mut segments: Vec<u64> = self.segments.iter().filter_map(of_peer).collect();
        let first = segments.partition_point(|number| *number <= after);
        segments.rotate_left(first);
        segments
    }

    fn read_segment(&mut self, peer: NodeNumber, number: u64) -> Result<Batch, Error> {
        let file = self.folder.read(number)?;
        let entries = file.entries(self.peers[peer.index()].secret)?;
        if let Some(segment) = self.segments.get_mut(&number) {
            let read = entries.len() as u64;
            let lost = segment.hints.saturating_sub(read);
            if lost > 0 {
                tracing::error!(
                    segment = number,
                    lost,
                    "a segment of hints has lost its end"
                );
                segment.hints = read;
                let lost = HintsWaiting {
                    hints: lost,
                    bytes: 0,
                };
                self.waiting.subtract(peer, lost);
                self.counters.ended(End::Damaged, lost.hints);
            }
        }
        Ok(Batch {
            segment: number,
            bytes: file.bytes(),
            entries,
        })
    }

    /// Gives up a segment whose hints were all delivered.
    pub(in crate::hints) fn delivered(&mut self, segment: u64) {
        if !self.is_closed {
            self.end(segment, End::Delivered);
        }
    }

    /// Drops the hints for versions above `limit`. The others of their segments
    /// are written anew, as old as they are.
    pub(super) fn drop_above(&mut self, limit: Timestamp) {
        let listed: Vec<(u64, NodeNumber)> = self
            .segments
            .iter()
            .map(|(number, segment)| (*number, segment.peer))
            .collect();
        for (number, peer) in listed {
            // What cannot be read is dealt with when it is to be delivered.
            let Ok(Batch { entries, .. }) = self.read_segment(peer, number) else {
                continue;
            };
            let kept: Vec<&Entry> = entries
                .iter()
                .filter(|hint| hint.timestamp() <= limit)
                .collect();
            let dropped = entries.len() - kept.len();
            if dropped == 0 {
                continue;
            }
            let newest = newest_unix_ms(kept.iter().copied(), self.clock.unix_ms());
            let is_written = match newest {
                Some(newest) => !self.write(peer, &kept, newest).contains(&false),
                None => true,
            };
            let peer = &*self.peers[peer.index()].name;
            if is_written {
                tracing::warn!(peer, dropped, "hints from the future are dropped");
                self.unlist(number);
            } else {
                tracing::error!(
                    peer,
                    "there is no room to write hints without those from the future"
                );
            }
        }
    }

    /// Gives up a segment whose hints were delivered but for those `left`,
    /// which go to the end of the log as what they are: they do not get younger.
    pub(in crate::hints) fn put_back(&mut self, segment: u64, left: &[Entry]) {
        let Some(listed) = self.segments.get(&segment).filter(|_| !self.is_closed) else {
            return;
        };
        let (peer, hints) = (listed.peer, listed.hints);
        let now_unix_ms = self.clock.unix_ms();
        let age_ms = |hint: &Entry| now_unix_ms.saturating_sub(hint.timestamp().unix_ms());
        let young: Vec<&Entry> = left
            .iter()
            .filter(|hint| age_ms(hint) <= self.limits.age_ms_max)
            .collect();
        let newest = newest_unix_ms(young.iter().copied(), now_unix_ms);
        let is_written = match newest {
            Some(newest) => !self.write(peer, &young, newest).contains(&false),
            None => true,
        };
        // Else all of them are delivered once more.
        if is_written && self.unlist(segment).is_some() {
            let aged = (left.len() - young.len()) as u64;
            let delivered = hints.saturating_sub(left.len() as u64);
            self.counters.ended(End::Delivered, delivered);
            self.counters.ended(End::ForAge, aged);
        }
    }
}
