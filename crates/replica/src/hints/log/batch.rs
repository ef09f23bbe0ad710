//! Reading segments for delivery, and removing them afterwards.

use super::{GROUP_BYTES, HintLogs, SEGMENT_BYTES, SEGMENT_SLACK_BYTES, Segment, newest_unix_ms};
use crate::hints::statistics::{HintsWaiting, SegmentEnd};
use base::{Entry, Timestamp};
use cluster::NodeId;
use lsm::Error;

/// The hints of one segment in memory.
#[derive(Debug)]
pub struct HintBatch {
    /// The number of the segment.
    pub segment: u64,
    /// The size of its file.
    pub bytes: u64,
    /// The hints, in the order in which they were kept.
    pub entries: Vec<Entry>,
}

impl HintBatch {
    /// Whether the segment is longer than a segment of short values can be.
    pub fn is_long(&self) -> bool {
        self.bytes > SEGMENT_BYTES + SEGMENT_SLACK_BYTES + GROUP_BYTES as u64
    }

    /// Whether the segment had room for many more hints.
    pub fn is_short(&self) -> bool {
        self.bytes < SEGMENT_BYTES / 4
    }
}

impl HintLogs {
    /// Reads a segment; see [`crate::hints::HintStore::next_batch`].
    pub(in crate::hints) fn next_batch(
        &mut self,
        peer: NodeId,
        after: u64,
    ) -> Result<Option<HintBatch>, Error> {
        self.make_room(0);
        let mut unread = None;
        for segment in self.in_turn(peer, after) {
            self.retire_where(|active| active.segment == segment);
            match self.read_segment(peer, segment) {
                Ok(batch) => return Ok(Some(batch)),
                Err(error @ (Error::Corrupt { .. } | Error::Invalid(_))) => {
                    let peer = &*self.name_of(peer);
                    tracing::error!(%error, peer, "dropping a damaged segment of hints");
                    self.end(segment, SegmentEnd::Damaged);
                }
                // A later attempt may succeed.
                Err(error) => unread = Some(error),
            }
        }
        unread.map_or(Ok(None), Err)
    }

    /// The segments of a peer that have hints, in ascending order: first those with
    /// numbers above `after`, then the others.
    fn in_turn(&self, peer: NodeId, after: u64) -> Vec<u64> {
        let of_peer = |(number, segment): (&u64, &Segment)| {
            (segment.peer == peer && segment.hints > 0).then_some(*number)
        };
        let mut segments: Vec<u64> = self.segments.iter().filter_map(of_peer).collect();
        let first = segments.partition_point(|number| *number <= after);
        segments.rotate_left(first);
        segments
    }

    fn read_segment(&mut self, peer: NodeId, number: u64) -> Result<HintBatch, Error> {
        let file = self.folder.read(number)?;
        let entries = file.entries(self.secret_of(peer))?;
        if let Some(segment) = self.segments.get_mut(&number) {
            let read = entries.len() as u64;
            let lost = segment.hints.saturating_sub(read);
            if lost > 0 {
                tracing::error!(
                    segment = number,
                    lost,
                    "the end of a segment of hints is missing: its last hints are lost"
                );
                segment.hints = read;
                let lost = HintsWaiting {
                    hints: lost,
                    bytes: 0,
                };
                self.waiting.subtract(peer, lost);
                self.counters.ended(SegmentEnd::Damaged, lost.hints);
            }
        }
        Ok(HintBatch {
            segment: number,
            bytes: file.bytes(),
            entries,
        })
    }

    /// Removes a segment after all of its hints were delivered, except so many that were
    /// obsolete.
    pub(in crate::hints) fn delivered(&mut self, segment: u64, obsolete: u64) {
        if self.is_closed {
            return;
        }
        if let Some(ended) = self.unlist(segment) {
            self.count_sent(ended.hints, obsolete);
        }
    }

    /// Drops the hints for versions above `limit`. The other hints of their segments
    /// are rewritten and keep their age.
    pub(super) fn drop_above(&mut self, limit: Timestamp) {
        let listed: Vec<(u64, NodeId)> = self
            .segments
            .iter()
            .map(|(number, segment)| (*number, segment.peer))
            .collect();
        for (number, peer) in listed {
            // The delivery handles segments that cannot be read.
            let Ok(HintBatch { entries, .. }) = self.read_segment(peer, number) else {
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
            let peer = &*self.name_of(peer);
            if is_written {
                tracing::warn!(peer, dropped, "dropped hints for versions from the future");
                self.unlist(number);
            } else {
                tracing::error!(
                    peer,
                    "hints for versions from the future stay, because there is no room to rewrite their segment"
                );
            }
        }
    }

    /// Removes a segment after all of its hints were delivered except `left`, which go
    /// to the end of the log and keep their age, and so many that were obsolete.
    pub(in crate::hints) fn put_back(&mut self, segment: u64, left: &[Entry], obsolete: u64) {
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
        // If the hints could not be written, the segment stays and all of its hints are
        // delivered again.
        if is_written && self.unlist(segment).is_some() {
            let aged = (left.len() - young.len()) as u64;
            let sent = hints.saturating_sub(left.len() as u64);
            self.count_sent(sent, obsolete);
            self.counters.ended(SegmentEnd::ForAge, aged);
        }
    }

    /// Counts hints that the peer has stored, but for those that were obsolete.
    fn count_sent(&self, sent: u64, obsolete: u64) {
        self.counters.dropped_obsolete(obsolete);
        self.counters
            .ended(SegmentEnd::Delivered, sent.saturating_sub(obsolete));
    }
}
