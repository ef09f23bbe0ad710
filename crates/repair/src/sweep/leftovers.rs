//! What becomes of versions that a store holds only because it has missed their tombstones.
//!
//! Below the forget bound F the stores that count are equal. A store that lacked something,
//! or a key that a damaged block may have held, may still have a version below F that was
//! deleted, and whose tombstone the others have forgotten: a **leftover**. Nobody can see
//! that from the version itself. So in a full pass:
//!
//! 1. The driver names F, and what each member can say about versions below it
//!    ([`Vouching`]), before the first scan.
//! 2. A store [withholds] what it has below F if a replica can say more about it: it does not
//!    send it, and takes note of those that lack it.
//! 3. Once a range was compared with all, a version that all [vouchers] lack is a leftover.
//!    The vouchers are asked again whether they are what they were. Then the leftover is
//!    **buried** under a tombstone of its own timestamp, which nobody sees below F and which
//!    compaction drops. It becomes part of the store before the pass is clean.
//!
//! If vouchers disagree, or one has changed, this node gives the pass up, and so remains
//! learner until the next one. They do not disagree about a version that has expired by all
//! clocks, which some may have freed already, nor about one below a newer version that the pass
//! has brought: a voucher that has that one lacks the version, too.
//!
//! In a pass of which nobody has named that, as in all recent ones, and in full ones from which
//! a member is missing, a store that lacks something sends nothing below the greatest F that
//! it knows. Those that lack something, too, would believe it, and vouch for it in the next
//! full pass if they remember F. The two are not clean then. Stores that lack nothing do send,
//! so that a lost one has most of its data before all members are there.

use super::Sweeper;
use super::participant::Participant;
use super::pass_state::newest_of;
use base::{Entry, EntryRef, Kind, Timestamp};
use bytes::Bytes;
use cluster::forgetting::{Vouching, is_leftover, vouchers, withholds};
use cluster::sweep::PassId;
use cluster::{Miss, NodeId, Placement, ReplicaState};
use lsm::Error;
use peer::{PeerAnswer, PeerRequest, SweepAnswer, SweepRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a pass knows of leftovers on this node.
#[derive(Default)]
pub(super) struct Leftovers {
    /// F, as the driver has named it; [`Timestamp::ZERO`] before, and in recent passes.
    below: Timestamp,
    /// By node number: what each member can say.
    vouching: Vec<Vouching>,
    /// By key: what was withheld of the ranges that are being compared.
    withheld: BTreeMap<Bytes, Withheld>,
}

/// Whether a version is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sends {
    /// It is.
    Now,
    /// It is not: it may be a leftover, and this pass shows whether it is.
    Withheld,
    /// It is not: it may be a leftover, and this pass cannot show that.
    NotInThisPass,
}

/// What makes a node doubt a version below F.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    /// The greatest F that it knows.
    pub(super) greatest: Timestamp,
    /// Whether its store only receives below.
    pub(super) is_receiver: bool,
    /// Whether a damaged block may have held the key.
    pub(super) is_damaged: bool,
}

/// A version that was not sent.
struct Withheld {
    timestamp: Timestamp,
    copies: u8,
    /// The nodes that lack it.
    lacking: BTreeSet<NodeId>,
}

/// What a comparison with all has shown.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdicts {
    /// The leftovers.
    pub(super) bury: Vec<(Bytes, Timestamp)>,
    /// Those who vouch that they are.
    pub(super) vouchers: BTreeSet<NodeId>,
    /// Those of them that lack something themselves, with the keys.
    pub(super) doubtful: Vec<(NodeId, Bytes)>,
    /// Whether those who vouch for a version disagree.
    pub(super) are_at_odds: bool,
}

impl Leftovers {
    /// Takes note of what the driver names.
    pub(super) fn name(&mut self, below: Timestamp, vouching: Vec<Vouching>) {
        (self.below, self.vouching) = (below, vouching);
    }

    /// Whether this node sends a version, of which a damaged block may have held the
    /// tombstone. `greatest` is the greatest F that this node knows, and `is_receiver` says that
    /// its store lacks something below.
    pub(super) fn sends(
        &self,
        entry: EntryRef<'_>,
        placement: &Placement,
        own: NodeId,
        doubt: Doubt,
    ) -> Sends {
        let timestamp = entry.timestamp();
        if timestamp < self.below {
            let replicas = placement.replicas(entry.key(), entry.copies());
            return if withholds(own, &replicas, self.says(own, doubt.is_damaged)) {
                Sends::Withheld
            } else {
                Sends::Now
            };
        }
        if timestamp < doubt.greatest && (doubt.is_receiver || doubt.is_damaged) {
            Sends::NotInThisPass
        } else {
            Sends::Now
        }
    }

    /// What each node can say about a key. In a damaged block this node may have lost its
    /// tombstone.
    fn says(&self, own: NodeId, is_damaged: bool) -> impl Fn(NodeId) -> Vouching {
        move |node| {
            if node == own && is_damaged {
                Vouching::Nothing
            } else {
                self.vouching.get(node.index()).copied().unwrap_or_default()
            }
        }
    }

    fn note(&mut self, entry: &Entry, lacking: NodeId) {
        let (timestamp, copies) = (entry.timestamp(), entry.copies());
        let key = Bytes::copy_from_slice(entry.key());
        let withheld = self.withheld.entry(key).or_insert_with(|| Withheld {
            timestamp,
            copies,
            lacking: BTreeSet::new(),
        });
        if withheld.timestamp == timestamp {
            withheld.lacking.insert(lacking);
        }
    }
}

impl Participant {
    /// Takes note of what all leave out, and of who vouches for what. All nodes are fenced.
    ///
    /// If no store lacks anything, the pass fills no store. Then what comes behind the last key that
    /// this store has now need not be compared: a scan of keys that come in ascending order
    /// would otherwise run after them for ever. It is nothing from before the fence, but for
    /// what another store had at that time, which that one compares; and the next recent pass
    /// compares all that has come since this one began.
    pub(super) fn disregard(
        &mut self,
        pass: PassId,
        below: Timestamp,
        vouching: Vec<Vouching>,
    ) -> SweepAnswer {
        let nodes = self.environment.placement.nodes();
        let engine = self.environment.engine.clone();
        match self.state(pass) {
            Some(state) if vouching.len() == nodes => {
                state.is_fenced = true;
                if vouching.iter().all(|of_node| *of_node == Vouching::All) {
                    let last_key = engine.last_key();
                    let behind = last_key.map(|last| [&last[..], &[0]].concat());
                    state.scan_end = Some(behind.unwrap_or_default());
                }
                state.forgotten = state.forgotten.max(below);
                state.leftovers.name(below, vouching);
                SweepAnswer::Done
            }
            _ => SweepAnswer::Unknown,
        }
    }

    /// What makes this node doubt a version of a key, at this moment.
    pub(super) fn doubts(&self) -> impl Fn(&[u8]) -> Doubt + use<> {
        let (greatest, is_receiver) = (
            self.environment.bounds.greatest(),
            (self.environment.is_receiver)(),
        );
        let engine = self.environment.engine.clone();
        move |key| Doubt {
            greatest,
            is_receiver,
            is_damaged: engine.is_damaged(key),
        }
    }

    /// Takes out of versions that a node lacks those that this one does not send it. Returns
    /// whether the two are equal once the rest is sent, or this pass shows that what was taken
    /// out was deleted.
    #[must_use]
    pub(super) fn withhold(
        &mut self,
        pass: PassId,
        lacking: NodeId,
        entries: &mut Vec<Entry>,
    ) -> bool {
        let (own, placement, doubts) = (
            self.environment.own,
            Arc::clone(&self.environment.placement),
            self.doubts(),
        );
        let Some(state) = self.state(pass) else {
            return false;
        };
        let leftovers = &mut state.leftovers;
        let mut is_equal = true;
        entries.retain(|entry| {
            let sends = leftovers.sends(entry.lend(), &placement, own, doubts(entry.key()));
            match sends {
                Sends::Now => {}
                Sends::Withheld => leftovers.note(entry, lacking),
                Sends::NotInThisPass => is_equal = false,
            }
            sends == Sends::Now
        });
        is_equal
    }

    /// What has become of all that was withheld, now that its ranges were compared.
    pub(super) fn verdicts(&mut self, pass: PassId) -> Verdicts {
        let (own, placement, engine) = (
            self.environment.own,
            Arc::clone(&self.environment.placement),
            self.environment.engine.clone(),
        );
        let mut verdicts = Verdicts::default();
        let expired_before = self.environment.expiry.expired_before_unix_ms();
        let Some(state) = self.state(pass) else {
            return verdicts;
        };
        for (key, withheld) in std::mem::take(&mut state.leftovers.withheld) {
            let replicas = placement.replicas(&key, withheld.copies);
            let is_damaged = engine.is_damaged(&key);
            let counted = vouchers(&replicas, state.leftovers.says(own, is_damaged));
            let held = counted.difference(&withheld.lacking).count();
            // Of a surplus copy its only replica can tell.
            let is_surplus = !replicas.contains(&own);
            let copies = withheld.copies.max(1 + u8::from(is_surplus));
            let greatest = state.leftovers.below;
            if is_leftover(withheld.timestamp, copies, held > 0, greatest) {
                let says = state.leftovers.says(own, is_damaged);
                let doubtful = counted.iter().filter(|node| says(**node) < Vouching::All);
                let doubtful = doubtful.map(|node| (*node, key.clone()));
                verdicts.doubtful.extend(doubtful);
                verdicts.vouchers.extend(counted);
                verdicts.bury.push((key, withheld.timestamp));
            } else if held < counted.len() {
                let range = state.range_of(&key);
                let newest = range.map(|range| newest_of(&engine, range, &key));
                verdicts.are_at_odds |= match newest {
                    Some(Ok(Some(newest))) => {
                        let is_it = newest.timestamp() == withheld.timestamp;
                        is_it && newest.is_live(expired_before)
                    }
                    Some(Ok(None)) => false,
                    // Nobody can say by now what has become of it.
                    Some(Err(_)) | None => true,
                };
            }
        }
        verdicts
    }

    /// The leftover of a key, if it is still the newest version and its range is known.
    ///
    /// # Errors
    /// That of the store.
    fn leftover(
        &mut self,
        pass: PassId,
        (key, timestamp): &(Bytes, Timestamp),
    ) -> Result<Option<Entry>, Error> {
        let engine = self.environment.engine.clone();
        let range = self.state(pass).and_then(|state| state.range_of(key));
        let Some(range) = range else {
            return Ok(None);
        };
        let newest = newest_of(&engine, range, key)?;
        // A newer one may have come meanwhile.
        let is_it = |held: &Entry| held.timestamp() == *timestamp && held.kind() == Kind::Value;
        Ok(newest.filter(is_it))
    }

    /// Buries leftovers. Returns whether the pass still knows their ranges.
    ///
    /// # Errors
    /// That of the store.
    pub(super) fn bury(
        &mut self,
        pass: PassId,
        leftovers: Vec<(Bytes, Timestamp)>,
    ) -> Result<bool, Error> {
        let engine = self.environment.engine.clone();
        let Some(state) = self.state(pass) else {
            return Ok(false);
        };
        let Some((first, _)) = leftovers.first() else {
            return Ok(true);
        };
        let Some(range) = state.range_of(first) else {
            return Ok(false);
        };
        let mut tombstones = Vec::with_capacity(leftovers.len());
        for (key, timestamp) in leftovers {
            if !range.contains(&key) {
                return Ok(false);
            }
            let newest = newest_of(&engine, range, &key)?;
            // A newer one may have come meanwhile.
            let is_it = |held: &&Entry| held.timestamp() == timestamp && held.kind() == Kind::Value;
            let leftover = newest.as_ref().filter(is_it);
            tombstones.extend(leftover.map(|it| Entry::tombstone(&key, timestamp, it.copies())));
        }
        range.bury(tombstones);
        Ok(true)
    }
}

impl Sweeper {
    /// Buries the leftovers of the ranges that were compared so far.
    pub(super) async fn bury_leftovers(&self, pass: PassId) {
        let Some(verdicts) = self.in_background(move |own| own.verdicts(pass)).await else {
            return;
        };
        if verdicts == Verdicts::default() {
            return;
        }
        let Verdicts {
            bury,
            vouchers,
            doubtful,
            are_at_odds,
        } = verdicts;
        let count = bury.len();
        if !are_at_odds
            && self.do_all_refuse(pass, &bury, doubtful).await
            && self.do_vouch(pass, vouchers).await
        {
            match self.in_background(move |own| own.bury(pass, bury)).await {
                Some(Ok(true)) => {
                    self.sweeps.record.leftovers_buried(count);
                    tracing::debug!(
                        count,
                        "deleted versions that the other nodes have forgotten"
                    );
                    return;
                }
                Some(Ok(false)) | None => {}
                Some(Err(error)) => super::report_unreadable(&error),
            }
        }
        tracing::warn!(
            are_at_odds,
            "this node leaves a repair, because it cannot tell which of its old versions were \
             deleted: the next full repair with all nodes tries again"
        );
        let _is_over = self.in_background(move |own| own.give_up(pass)).await;
    }

    /// Whether the vouchers that have damage and lack nothing else refuse the leftovers. Such a store
    /// takes a version whose key a damaged block may have held, because it may be the last copy
    /// of what it has lost. No other voucher would, as it has forgotten what is deleted.
    async fn do_all_refuse(
        &self,
        pass: PassId,
        bury: &[(Bytes, Timestamp)],
        doubtful: Vec<(NodeId, Bytes)>,
    ) -> bool {
        for (voucher, key) in doubtful {
            match self.replica_state_of(voucher) {
                None | Some(ReplicaState::Voter) => {}
                // Once it was compared with all others it is as good as a voter, which no peer
                // can see before its next start.
                Some(ReplicaState::ForcedVoter) => match self.may_have_lost(voucher, &key).await {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(_) => return false,
                },
                // It only receives, so that it would take anything. Without damage, as a store
                // that can say something has it, it has lost nothing of this.
                Some(ReplicaState::Starting | ReplicaState::Learner) => continue,
            }
            let Some(leftover) = bury.iter().find(|(of, _)| *of == key).cloned() else {
                continue;
            };
            let entry = self.in_background(move |own| own.leftover(pass, &leftover));
            let Some(Ok(entry)) = entry.await else {
                return false;
            };
            let Some(entry) = entry else {
                continue;
            };
            let call = self.start_call(voucher, PeerRequest::Mend { pass, entry });
            if !matches!(call.stored().await, Err(Miss::Obsolete { .. })) {
                return false;
            }
        }
        true
    }

    /// Whether a damaged block of a node may have held a key.
    ///
    /// # Errors
    /// Why the node does not say so.
    async fn may_have_lost(&self, node: NodeId, key: &Bytes) -> Result<bool, Miss> {
        match self.call(node, PeerRequest::Peek(key.clone())).await {
            PeerAnswer::Found(_) | PeerAnswer::FoundBehind { .. } => Ok(false),
            PeerAnswer::Missed(Miss::Learner) => Ok(true),
            PeerAnswer::Missed(why) => Err(why),
            PeerAnswer::Stored { .. }
            | PeerAnswer::Swept(_)
            | PeerAnswer::Pulled(_)
            | PeerAnswer::Paged(_)
            | PeerAnswer::Examined(_) => Err(Miss::Failed),
        }
    }

    /// Whether nodes still are what they were when the pass began, so that what they lack
    /// was deleted.
    async fn do_vouch(&self, pass: PassId, vouchers: BTreeSet<NodeId>) -> bool {
        for node in vouchers {
            let fence = Timestamp::ZERO;
            let asked = self
                .ask_peer(node, SweepRequest::Fence { pass, fence })
                .await;
            if !matches!(asked, Ok(SweepAnswer::Fenced(_))) {
                return false;
            }
        }
        true
    }
}
