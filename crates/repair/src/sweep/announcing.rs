//! Offers versions to nodes that compare nothing with this one where those versions are
//! concerned:
//! - a surplus copy, to the replicas of its version. A copy that no pair compares would
//!   survive the tombstone that hides it;
//! - in a recent pass, a version to a node that is no replica of it but may keep an older
//!   one; see [`cluster::sweep::RangeItems::announced_to`].
//!
//! An offer says all about a version but its value. So a copy that stays where it is costs
//! some bytes a pass, however long its value is.

use super::Sweeper;
use super::exchange::RangeId;
use super::participant::{Participant, UnknownRange};
use super::pass_state::newest_of;
use base::Entry;
use bytes::Bytes;
use cluster::NodeId;
use cluster::sweep::{Item, PassKind};
use lsm::Error;
use peer::{OFFER_BYTES_MAX, OFFERS_MAX, Offer, SweepAnswer, SweepRequest};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a node answers to offers.
#[derive(Debug, Default)]
pub(super) struct OfferReply {
    /// The offers that it wants, by their place in the list.
    pub(super) wanted: Vec<u16>,
    /// The keys of which it has something newer than what was offered.
    pub(super) newer: Vec<Bytes>,
    /// The offers to this node as a replica of which its own scan of the range has not
    /// shown that it has the version, or that are older than what it has.
    pub(super) unsettled: u32,
    /// How many of these are below the fence, but for those of which the node has a version
    /// that is not.
    pub(super) below_fence: u32,
}

impl Participant {
    /// What this node offers to a peer of a range.
    ///
    /// # Errors
    /// [`UnknownRange`].
    pub(super) fn offers(
        &mut self,
        (pass, number): RangeId,
        peer: NodeId,
    ) -> Result<Vec<Offer>, UnknownRange> {
        let (own, placement) = (
            self.environment.own,
            Arc::clone(&self.environment.placement),
        );
        let state = self.state(pass).ok_or(UnknownRange)?;
        let items = &state.range(number).ok_or(UnknownRange)?.items;
        let comparison = state.comparison(&placement, own);
        let announced = items.announced_to(&comparison, peer);
        let offers = announced.map(|(key, item, copies)| Offer {
            key: Bytes::copy_from_slice(key),
            timestamp: item.timestamp,
            content_hash: item.content_hash,
            copies,
        });
        Ok(offers.collect())
    }

    /// Compares what a peer offers with what this node has.
    ///
    /// # Errors
    /// [`UnknownRange`]; within, that of the store.
    pub(super) fn offered(
        &mut self,
        (pass, number): RangeId,
        offers: &[Offer],
    ) -> Result<Result<OfferReply, Error>, UnknownRange> {
        let (own, engine) = (self.environment.own, self.environment.engine.clone());
        let placement = Arc::clone(&self.environment.placement);
        let fence = self.environment.bounds.bounds().fence;
        let state = self.state(pass).ok_or(UnknownRange)?;
        let range = state.range(number).ok_or(UnknownRange)?;
        let key_hash_of = |offer: &Offer| Item::key_hash_of(&offer.key);
        // A recent pass does not read all that this node has.
        let is_full = state.kind == PassKind::Full;
        let key_hashes = offers.iter().map(key_hash_of);
        let scanned: BTreeMap<u64, Item> = range
            .items
            .find(key_hashes.collect())
            .map(|(_, item)| (item.key_hash, item))
            .collect();
        let mut reply = OfferReply::default();
        for (index, offer) in (0..).zip(offers) {
            let is_replica = placement.replicas(&offer.key, offer.copies).contains(&own);
            let offered = Item {
                key_hash: key_hash_of(offer),
                timestamp: offer.timestamp,
                content_hash: offer.content_hash,
            };
            let is_scanned = scanned.get(&offered.key_hash) == Some(&offered);
            let is_settled = is_full && is_scanned;
            // What the store still gives of the key, as from a block that is cached, may
            // be gone once the damage counts as mended.
            let may_be_lost = !is_scanned && engine.is_damaged(&offer.key);
            let is_unsettled = is_replica && !is_settled;
            reply.unsettled += u32::from(is_unsettled);
            let held = match newest_of(&engine, range, &offer.key) {
                Ok(held) => held,
                Err(error) => return Ok(Err(error)),
            };
            // What is newer than the fence hides nothing whose tombstone may go after this
            // pass.
            let newest = held.as_ref().map_or(offer.timestamp, Entry::timestamp);
            let is_old = newest.max(offer.timestamp) < fence;
            reply.below_fence += u32::from(is_unsettled && is_old);
            let Some(held) = held else {
                if is_replica || may_be_lost {
                    reply.wanted.push(index);
                }
                continue;
            };
            let own_item = Item::of(held.lend(), state.cut);
            let is_other = own_item.content_hash != offered.content_hash;
            match own_item.timestamp.cmp(&offered.timestamp) {
                Ordering::Less => reply.wanted.push(index),
                Ordering::Greater => reply.newer.push(offer.key.clone()),
                // Both choose the same of two contents of one timestamp.
                Ordering::Equal if is_other => {
                    reply.wanted.push(index);
                    reply.newer.push(offer.key.clone());
                }
                Ordering::Equal if may_be_lost => reply.wanted.push(index),
                Ordering::Equal => {}
            }
        }
        Ok(Ok(reply))
    }
}

impl Sweeper {
    /// Offers versions of a range to all nodes that they concern, and sends those that
    /// are wanted.
    pub(super) async fn announce(&self, range: RangeId) -> SweepAnswer {
        let (mut sent, mut unsettled, mut below_fence) = (0, 0, 0);
        let mut not_told = Vec::new();
        for node in self.sweeps.environment.members.peers() {
            let offers = self.in_background(move |own| own.offers(range, node)).await;
            let Some(Ok(offers)) = offers else {
                return SweepAnswer::Unknown;
            };
            let mut rest = offers.as_slice();
            while !rest.is_empty() {
                let (batch, later) = rest.split_at(batch_length(rest));
                rest = later;
                match self.offer(range, node, batch).await {
                    Some(told) => {
                        sent += told.sent;
                        unsettled += told.unsettled;
                        below_fence += told.below_fence;
                    }
                    None => {
                        not_told.push(node);
                        break;
                    }
                }
            }
        }
        self.sweeps.record.non_owned_offered(sent);
        SweepAnswer::Announced {
            sent,
            unsettled,
            below_fence,
            not_told,
        }
    }

    /// Offers some versions. [`None`] if the node may still lack one of them, or this one
    /// a newer one.
    async fn offer(&self, range: RangeId, node: NodeId, offers: &[Offer]) -> Option<Told> {
        let request = SweepRequest::Offer {
            pass: range.0,
            range: range.1,
            asker: self.sweeps.environment.members.own(),
            offers: offers.to_vec(),
        };
        let answer = self.ask_peer(node, request).await;
        let Ok(SweepAnswer::Wanted {
            all: true,
            unsettled,
            below_fence,
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
            sent: sent.mends,
            unsettled,
            below_fence: below_fence + sent.below_fence,
        })
    }

    /// Says which of the versions that a peer offers this node wants, and sends the newer
    /// ones that it has.
    pub(super) async fn answer_offers(
        &self,
        range: RangeId,
        asker: NodeId,
        offers: Vec<Offer>,
    ) -> SweepAnswer {
        let reply = self.in_background(move |own| own.offered(range, &offers));
        let reply = match reply.await {
            Some(Ok(Ok(reply))) => reply,
            Some(Ok(Err(error))) => {
                super::report_unreadable(&error);
                return SweepAnswer::Unknown;
            }
            Some(Err(UnknownRange)) | None => return SweepAnswer::Unknown,
        };
        let sent = self.send_newest(range, asker, reply.newer).await;
        SweepAnswer::Wanted {
            all: sent.all,
            sent: sent.mends,
            unsettled: reply.unsettled,
            below_fence: reply.below_fence + sent.below_fence,
            wanted: reply.wanted,
        }
    }
}

/// The result of offers that were all answered.
struct Told {
    sent: u32,
    unsettled: u32,
    below_fence: u32,
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
