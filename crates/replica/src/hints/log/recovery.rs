//! Opening the segments of an earlier run.

use super::{HintLogs, Segment, newest_unix_ms};
use cluster::NodeId;
use lsm::SegmentOwner;

impl HintLogs {
    /// Lists a segment of an earlier run, or removes it.
    pub(super) fn recover(&mut self, segment: u64) {
        let (peers, secrets): (Vec<NodeId>, Vec<u64>) = self
            .peers
            .iter()
            .map(|(peer, log)| (peer, log.secret))
            .unzip();
        let file = match self.folder.read(segment) {
            Ok(file) => file,
            Err(error) => {
                tracing::error!(%error, "hints cannot be read: they are left for the next start");
                return;
            }
        };
        let (peer, secret) = match file.owner(&secrets) {
            Ok(SegmentOwner::Log(index)) => (peers[index], secrets[index]),
            Ok(SegmentOwner::Other) => {
                tracing::warn!(
                    segment,
                    "dropping hints for a node that is no longer a member"
                );
                return self.remove(segment);
            }
            Ok(SegmentOwner::Unknown) => {
                tracing::warn!(
                    segment,
                    "dropping a segment of hints without a complete header"
                );
                return self.remove(segment);
            }
            Err(error) => {
                tracing::error!(%error, "hints cannot be read: they are left for the next start");
                return;
            }
        };
        let entries = match file.entries(secret) {
            Ok(entries) => entries,
            Err(error) => {
                let peer = &*self.name_of(peer);
                tracing::error!(%error, peer, "dropping a damaged segment of hints");
                return self.remove(segment);
            }
        };
        let Some(newest) = newest_unix_ms(&entries, self.clock.unix_ms()) else {
            return self.remove(segment);
        };
        let recovered = Segment {
            peer,
            bytes: file.bytes(),
            hints: entries.len() as u64,
            newest_append_unix_ms: newest,
        };
        self.waiting.add(peer, recovered.waiting());
        self.segments.insert(segment, recovered);
    }
}
