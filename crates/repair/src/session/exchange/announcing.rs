//! Offers versions to nodes that do not compare them with this one:
//! - a non-owned copy, to the replicas of its version. A copy that no pair compares would
//!   survive the tombstone that hides it;
//! - in an incremental session, a version to a node that is no replica of it but may keep an older
//!   one; see [`cluster::comparison::RangeItems::announced_to`].
//!
//! An offer says all about a version but its value. So a copy that stays where it is costs
//! some bytes a session, however long its value is.

use crate::session::part::{OfferReply, RangeId, UnknownRange, report_unreadable};
use crate::session::worker::RepairWorker;
use bytes::Bytes;
use cluster::NodeId;
use peer::{OFFER_BYTES_MAX, OFFERS_MAX, Offer, RepairAnswer, RepairRequest};

impl RepairWorker {
    /// Offers versions of a range to all nodes that they concern, and sends those that
    /// are wanted.
    pub(in crate::session) async fn announce(&self, range: RangeId) -> RepairAnswer {
        let (mut sent, mut below_cut) = (0, 0);
        let mut not_told = Vec::new();
        let layout = self.peers.layout();
        for node in layout.members().peers() {
            let offers = self.in_background(move |own| own.offers(range, node)).await;
            let Some(Ok(offers)) = offers else {
                return self.refusal();
            };
            let mut rest = offers.as_slice();
            while !rest.is_empty() {
                let (batch, later) = rest.split_at(batch_length(rest));
                rest = later;
                match self.offer(range, node, batch).await {
                    Some(told) => {
                        sent += told.sent;
                        below_cut += told.below_cut;
                    }
                    None => {
                        not_told.push(node);
                        break;
                    }
                }
            }
        }
        let record = &self.sessions.record;
        record.count(|counts| counts.non_owned_offered += u64::from(sent));
        RepairAnswer::Announced {
            below_cut,
            not_told,
        }
    }

    /// Offers some versions. [`None`] if the node may still lack one of them, or this one
    /// a newer one.
    async fn offer(&self, range: RangeId, node: NodeId, offers: &[Offer]) -> Option<Told> {
        let request = RepairRequest::Offer {
            session: range.0,
            range: range.1,
            asker: self.peers.own(),
            offers: offers.to_vec(),
        };
        let answer = self.ask_peer(node, request).await;
        let Ok(RepairAnswer::Wanted {
            all: true,
            below_cut,
            wanted,
            ..
        }) = answer
        else {
            return None;
        };
        let keys = wanted.iter().filter_map(|index| {
            let offer = offers.get(usize::from(*index));
            offer.map(|offer| offer.key.clone())
        });
        let keys: Vec<Bytes> = keys.collect();
        let sent = self.send_newest(range, node, keys).await;
        sent.all.then_some(Told {
            sent: sent.stored,
            below_cut: below_cut + sent.below_cut,
        })
    }

    /// Says which of the versions that a peer offers this node wants, and sends the newer
    /// ones that it has.
    pub(in crate::session) async fn answer_offers(
        &self,
        range: RangeId,
        asker: NodeId,
        offers: Vec<Offer>,
    ) -> RepairAnswer {
        let reply = self.in_background(move |own| own.offered(range, &offers));
        let reply = match reply.await {
            Some(Ok(Ok(reply))) => reply,
            Some(Ok(Err(error))) => {
                report_unreadable(&error);
                return self.refusal();
            }
            Some(Err(UnknownRange)) | None => return self.refusal(),
        };
        let OfferReply {
            wanted,
            newer,
            below_cut,
        } = reply;
        let sent = self.send_newest(range, asker, newer).await;
        RepairAnswer::Wanted {
            all: sent.all,
            sent: sent.stored,
            below_cut: below_cut + sent.below_cut,
            wanted,
        }
    }
}

/// The result of offers that were all answered.
struct Told {
    sent: u32,
    below_cut: u32,
}

/// How many offers fit a request; at least one.
fn batch_length(offers: &[Offer]) -> usize {
    let mut bytes = 0;
    let fits = |offer: &&Offer| {
        bytes += offer.bytes();
        bytes <= OFFER_BYTES_MAX
    };
    let fitting = offers.iter().take(OFFERS_MAX).take_while(fits).count();
    fitting.max(1).min(offers.len())
}
