//! Offers: which versions a node names to nodes that do not compare them, and what such a node
//! answers.

use super::state::newest_of;
use super::{Participant, RangeId, UnknownRange};
use base::Entry;
use bytes::Bytes;
use cluster::NodeId;
use cluster::comparison::{Item, RepairKind};
use lsm::Error;
use peer::Offer;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// What a node answers to offers.
#[derive(Debug, Default)]
pub(in crate::session) struct OfferReply {
    /// The offers that it wants, by their place in the list.
    pub(in crate::session) wanted: Vec<u16>,
    /// The keys of which it has something newer than what was offered.
    pub(in crate::session) newer: Vec<Bytes>,
    /// The offers to this node as a replica of which its own scan of the range has not
    /// shown that it has the version, if neither they nor the version that it has are above the
    /// cut.
    pub(in crate::session) below_cut: u32,
}

impl Participant {
    /// What this node offers to a peer of a range.
    ///
    /// # Errors
    /// [`UnknownRange`].
    pub(in crate::session) fn offers(
        &mut self,
        (session, number): RangeId,
        peer: NodeId,
    ) -> Result<Vec<Offer>, UnknownRange> {
        let part = self.part(session).ok_or(UnknownRange)?;
        let items = part.range(number).ok_or(UnknownRange)?.items();
        let comparison = part.comparison();
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
    pub(in crate::session) fn offered(
        &mut self,
        (session, number): RangeId,
        offers: &[Offer],
    ) -> Result<Result<OfferReply, Error>, UnknownRange> {
        let engine = self.environment.engine.clone();
        let part = self.part(session).ok_or(UnknownRange)?;
        let own = part.layout.members().own();
        let range = part.range(number).ok_or(UnknownRange)?;
        let key_hash_of = |offer: &Offer| Item::key_hash_of(&offer.key);
        // An incremental session does not read all that this node has.
        let is_full = part.kind == RepairKind::Full;
        let key_hashes = offers.iter().map(key_hash_of);
        let scanned: BTreeMap<u64, Item> = range
            .items()
            .find(key_hashes.collect())
            .map(|(_, item)| (item.key_hash, item))
            .collect();
        let mut reply = OfferReply::default();
        for (index, offer) in (0..).zip(offers) {
            let is_replica = part.layout.is_replica(own, &offer.key, offer.copies);
            let offered = Item {
                key_hash: key_hash_of(offer),
                timestamp: offer.timestamp,
                content_hash: offer.content_hash,
            };
            let is_scanned = scanned.get(&offered.key_hash) == Some(&offered);
            let is_settled = is_full && is_scanned;
            // What the store still gives of the key, as from a block that is cached, may
            // be gone once the damage counts as repaired.
            let may_be_lost = !is_scanned && engine.is_damaged(&offer.key);
            let held = match newest_of(&engine, range, &offer.key) {
                Ok(held) => held,
                Err(error) => return Ok(Err(error)),
            };
            // What is newer than the cut hides nothing that was there when this session began.
            let newest = held.as_ref().map_or(offer.timestamp, Entry::timestamp);
            let is_old = newest.max(offer.timestamp) <= part.cut;
            reply.below_cut += u32::from(is_replica && !is_settled && is_old);
            let Some(held) = held else {
                if is_replica || may_be_lost {
                    reply.wanted.push(index);
                }
                continue;
            };
            let own_item = Item::of(held.lend(), part.cut);
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
