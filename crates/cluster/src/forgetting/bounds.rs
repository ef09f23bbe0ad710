//! The two timestamps that a store remembers about forgetting, and what follows
//! from them.

use super::StoreStart;
use crate::replica_state::ReplicaState;
use crate::sweep::PassId;
use base::Timestamp;
use std::time::Duration;

/// The fence and the forget bound of a store. Both are durable, and only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Below it the store takes no ordinary writes.
    pub fence: Timestamp,
    /// F: what is dead below it may be dropped.
    pub forgotten: Timestamp,
}

/// How a version comes to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// As a write, a hint, or a repair that names no store. The engine judges these by the
    /// fence alone, under its commit lock; a store that only receives has a fence that is no
    /// lower than the greatest F that it has heard of.
    Ordinary,
    /// As a mend of this pass. A store that only receives sends nothing below the greatest F
    /// itself, but for what nobody can say more about, so what comes is of a store that counts.
    Mend(PassId),
    /// As a repair with the version that a store has answered a read with.
    Answered {
        /// The store, and its start when it answered.
        by: StoreStart,
        /// The F that it named with the answer.
        forgotten: Timestamp,
    },
}

/// What a store knows when a version comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiving {
    /// The greatest F that the store has heard of.
    pub greatest: Timestamp,
    /// How the store stands.
    pub replica_state: ReplicaState,
    /// Whether the store takes part in the pass of the mend, and has since the
    /// pass began on it.
    pub takes_part: bool,
    /// The present start of the store that has answered, as far as this one knows.
    pub answering: Option<StoreStart>,
}

/// The answer to a version that is too old. Its sender must not try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obsolete {
    /// The fence or the F that the version is below.
    pub below: Timestamp,
}

impl Bounds {
    /// Whether the store only receives below the greatest F that it has heard of: it
    /// may hold versions whose tombstones are forgotten. It is then no voter.
    ///
    /// A voter that was fenced at F or above has taken part in the pass that F
    /// rests on, even if it hears of F for the first time. A folder that was restored
    /// from before its fence has a lower one.
    #[must_use]
    pub fn is_receiver(self, replica_state: ReplicaState, greatest: Timestamp) -> bool {
        match replica_state {
            ReplicaState::Voter | ReplicaState::Starting => {
                self.fence.max(self.forgotten) < greatest
            }
            // Whatever it remembers itself: what it lost may be a tombstone.
            ReplicaState::ForcedVoter | ReplicaState::Learner => Timestamp::ZERO < greatest,
        }
    }

    /// Takes note of an F that another member names. A receiver keeps its own until
    /// it is filled.
    #[must_use]
    pub fn hear(self, greatest: Timestamp, replica_state: ReplicaState) -> Self {
        match replica_state {
            ReplicaState::Voter if !self.is_receiver(replica_state, greatest) => Self {
                forgotten: self.forgotten.max(greatest),
                ..self
            },
            _ => self,
        }
    }

    /// What a store has once it was compared with all other members and has deleted
    /// its leftovers below `greatest`.
    #[must_use]
    pub fn filled(self, greatest: Timestamp) -> Self {
        Self {
            fence: self.fence.max(greatest),
            forgotten: self.forgotten.max(greatest),
        }
    }

    /// Whether a version is stored.
    ///
    /// Below F a store that is no receiver takes a live version only with a repair, by the
    /// word of a store that had this F when it answered with it: that store was found equal
    /// with all others below F, so it would have the tombstone if there had been one. A
    /// version of few copies needs that, so that a read of more replicas can be answered.
    ///
    /// While the fence is above F such a repair may be late: the store that has answered may hold a
    /// tombstone of fewer copies by now, and a pass may have found this store equal with it. So
    /// the caller compares a live version below the fence with what all other stores hold, before
    /// it is stored.
    ///
    /// # Errors
    /// [`Obsolete`].
    pub fn admit(
        self,
        timestamp: Timestamp,
        is_dead: bool,
        arrival: Arrival,
        receiving: Receiving,
    ) -> Result<(), Obsolete> {
        let Receiving {
            greatest,
            replica_state,
            ..
        } = receiving;
        let obsolete_below = |below| {
            if timestamp < below {
                Err(Obsolete { below })
            } else {
                Ok(())
            }
        };
        let is_by_present = |by| receiving.answering == Some(by);
        if self.is_receiver(replica_state, greatest) {
            let is_of_pass = match arrival {
                Arrival::Mend(_) => receiving.takes_part && !is_dead,
                Arrival::Ordinary | Arrival::Answered { .. } => false,
            };
            if !is_of_pass {
                obsolete_below(greatest)?;
            } else if timestamp < greatest {
                return Ok(());
            }
        } else if let Arrival::Answered { by, forgotten } = arrival
            && timestamp < greatest
        {
            // Its own F may follow any moment, and lets go of what hides the version.
            return if !is_dead && forgotten >= greatest && is_by_present(by) {
                Ok(())
            } else {
                obsolete_below(greatest)
            };
        } else {
            // Its own F may follow any moment here, too: what is late comes in neither before
            // that nor after it.
            obsolete_below(self.forgotten.max(greatest))?;
        }
        let is_excepted = match arrival {
            Arrival::Ordinary => false,
            Arrival::Mend(_) => receiving.takes_part,
            Arrival::Answered { by, .. } => is_by_present(by),
        };
        if is_excepted {
            Ok(())
        } else {
            obsolete_below(self.fence)
        }
    }
}

/// How far a member may raise its fence: only so far that everything below is at least
/// the grace in the past by its own clock, and only while that clock is trusted. So a
/// driver whose clock is years ahead fences nobody, and a member whose own clock is does
/// not fence itself.
#[must_use]
pub fn latest_fence(trusted_unix_ms: Option<u64>, grace: Duration) -> Option<Timestamp> {
    let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
    let latest = Timestamp::from_unix_ms(trusted_unix_ms?.saturating_sub(grace_ms));
    (latest > Timestamp::ZERO).then_some(latest)
}

/// Whether a coordinator or a driver takes a version for absent. `greatest` is the
/// greatest F that one of those that it compares has named.
#[must_use]
pub fn is_absent(timestamp: Timestamp, is_dead: bool, greatest: Timestamp) -> bool {
    is_dead && timestamp < greatest
}

/// Whether a receiver that was compared with all other members deletes a version of
/// its own: one that is below F and that no other replica has was deleted, and its
/// tombstone is forgotten. Only replicas that are no receivers count as others; but
/// if all are receivers, as after a power cut of the whole cluster, all count. A
/// version of a single copy has no other replica that could tell.
#[must_use]
pub fn is_leftover(
    timestamp: Timestamp,
    copies: u8,
    is_held_by_another: bool,
    greatest: Timestamp,
) -> bool {
    timestamp < greatest && copies > 1 && !is_held_by_another
}
