//! How a node begins to take part in sessions, and ends that.

use super::state::{Agreed, Origin, SessionPart};
use super::stream_ingest::{StreamIngest, Streamed};
use super::{Participant, UnknownRange};
use base::Timestamp;
use bytes::Bytes;
use cluster::comparison::{Incarnation, KeyBounds, RepairKind};
use cluster::repair::{SESSION_IDLE_MAX, SessionId};
use cluster::{Epoch, Layout, NodeId};
use lsm::Admission;
use std::sync::Arc;

/// What a node remembers of the last session that found it equal with another.
#[derive(Clone, Copy)]
pub(super) struct EqualSession {
    /// Versions above it were left out.
    cut: Timestamp,
    /// The last record of this node's store when the session began.
    sequence: u64,
}

/// What a node knows when it begins to take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::session) struct Known {
    /// How far down the preference lists of its keys it keeps copies.
    pub(in crate::session) reach: u8,
    /// What need not be compared with each node, by node ID.
    pub(in crate::session) bounds: Vec<KeyBounds>,
}

impl Participant {
    /// Begins to take part in a session with this store, or goes on from a checkpoint; [`None`] if
    /// this node has another list of members by now.
    pub(in crate::session) fn begin(
        &mut self,
        session: SessionId,
        epoch: Epoch,
        incarnation: Incarnation,
    ) -> Option<Known> {
        let now = self.environment.clock.monotonic();
        self.forget_idle();
        let engine = &self.environment.engine;
        // Read before the bounds: what is committed meanwhile has to be in the bounds of
        // this session, or behind this record and so in those of the next one.
        let origin = Origin::new(engine.last_sequence(), engine.damage_mark());
        let layout = self.environment.layouts.load();
        if layout.epoch() != epoch {
            return None;
        }
        let is_member = |node, _: &mut EqualSession| layout.members().contains(node);
        self.last_equal.retain(is_member);
        let bounds = self.bounds(&layout);
        let ingest = StreamIngest::new(
            engine.clone(),
            self.environment.ingest_bytes_max,
            Admission::Ordinary,
        );
        let mut part = SessionPart::new(session.kind(), layout, incarnation, ingest, now);
        match self.attempt_before(session) {
            Some(before) if before.incarnation == incarnation => {
                (part.origin, part.reach) = (before.origin, before.reach);
            }
            None if !is_resumed(session) => part.origin = Some(origin),
            // What has come since it began is not known.
            _ => {}
        }
        // There is one session of a kind at a time: the last one that has begun.
        self.parts.retain(|other, _| other.kind() != session.kind());
        self.parts.insert(session, part);
        let is_known = |session| self.parts.contains_key(&session);
        self.environment.written.retain(is_known);
        Some(Known {
            // Until it is known, any node may be asked what it keeps of a key.
            reach: self.reach.unwrap_or(u8::MAX),
            bounds,
        })
    }

    /// The attempt before of the same session, if this node has taken part in it since it was
    /// started.
    fn attempt_before(&self, session: SessionId) -> Option<&SessionPart> {
        let SessionId::Full(token) = session else {
            return None;
        };
        let mut parts = self.parts.iter();
        let before = parts.find(|(other, _)| match other {
            SessionId::Full(other) => other.session == token.session,
            SessionId::Incremental(_) => false,
        });
        before.map(|(_, part)| part)
    }

    /// The store has closed a timestamp for a session that is about to scan from this key on: what
    /// is streamed is admitted in this way, or under a later state of the store.
    ///
    /// The scan ends behind the last key that the store has now: a scan of keys that come in
    /// ascending order would otherwise run after them for ever. What comes behind it is from below
    /// the closed timestamp only if another store had it before, and that one compares it; the next
    /// incremental session compares all that has come since this one began.
    ///
    /// # Errors
    /// [`UnknownRange`].
    pub(in crate::session) fn close(
        &mut self,
        session: SessionId,
        start: &[u8],
        admission: Admission,
    ) -> Result<(), UnknownRange> {
        let (engine, ingest_bytes_max) = (
            self.environment.engine.clone(),
            self.environment.ingest_bytes_max,
        );
        let part = self.part(session).ok_or(UnknownRange)?;
        let behind = engine.last_key().map(|last| [&last[..], &[0]].concat());
        part.scan_end = Some(Bytes::from(behind.unwrap_or_default()));
        part.ingest = StreamIngest::new(engine, ingest_bytes_max, admission);
        part.skip_to(start);
        Ok(())
    }

    /// Takes note of what all nodes agree on.
    ///
    /// # Errors
    /// [`UnknownRange`].
    pub(in crate::session) fn agree(
        &mut self,
        session: SessionId,
        agreed: Agreed,
    ) -> Result<(), UnknownRange> {
        // What the cut says has expired may live by this node's clock.
        let expired_before = self.environment.expiry.expired_before_unix_ms();
        let expired_before =
            expired_before.min(self.environment.expiry.before(agreed.cut.unix_ms()));
        match self.part(session) {
            Some(part) if part.is_of_all_places(&agreed) => {
                part.agree(agreed, expired_before);
                Ok(())
            }
            _ => Err(UnknownRange),
        }
    }

    /// Ends the range that is compared. Gives what was streamed of it, to be made part of the store.
    ///
    /// # Errors
    /// [`UnknownRange`].
    pub(in crate::session) fn take_streamed(
        &mut self,
        session: SessionId,
    ) -> Result<Streamed, UnknownRange> {
        let part = self.part(session).ok_or(UnknownRange)?;
        Ok(part.take_streamed())
    }

    /// Ends a session that found this node equal with some others, and to have all of some. Returns
    /// its layout if this node has taken part in it to the end with this store. A full session that
    /// found it to have all of all others has brought what damaged parts of the store had held.
    pub(in crate::session) fn end(
        &mut self,
        session: SessionId,
        incarnation: Incarnation,
        (equal_with, has_all_of): (&[NodeId], &[NodeId]),
    ) -> Option<Arc<Layout>> {
        let part = self.parts.remove(&session)?;
        let epoch = self.environment.layouts.peek().epoch();
        if part.incarnation != incarnation || part.layout.epoch() != epoch {
            return None;
        }
        if let Some(origin) = part.origin {
            for node in equal_with {
                if part.layout.members().contains(*node) {
                    let equal = EqualSession {
                        cut: part.cut,
                        sequence: origin.sequence,
                    };
                    self.last_equal.insert(*node, equal);
                }
            }
            let mut others = part.layout.members().peers();
            if part.kind == RepairKind::Full && others.all(|other| has_all_of.contains(&other)) {
                self.environment.engine.damage_compared(origin.damage);
            }
        }
        // What this session has seen may be what another one passes over.
        for other in self.parts.values_mut() {
            other.reach = other.reach.max(part.reach);
        }
        self.reach = if part.has_seen_all() {
            Some(part.reach)
        } else {
            self.reach.map(|reach| reach.max(part.reach))
        };
        Some(part.layout)
    }

    /// What need not be compared again with each node: what is older than all that
    /// came since the two were found equal.
    fn bounds(&self, layout: &Layout) -> Vec<KeyBounds> {
        let bounds_since = |equal: &EqualSession| {
            // A change that cannot be read is not known: everything is compared.
            let changes = self.environment.engine.changes_since(equal.sequence).ok()?;
            let unchanged = KeyBounds::constant(Timestamp::MAX);
            let changed = changes.into_iter().map(|least| {
                let before = (Vec::new(), Timestamp::MAX);
                KeyBounds::from_steps(std::iter::once(before).chain(least))
            });
            let bounds = changed.fold(unchanged, |bounds, changed| bounds.min(&changed));
            Some(bounds.at_most(equal.cut))
        };
        let places = layout.members().places();
        let steps_max = peer::bound_steps_max(places.len());
        let bounds = places.map(|node| {
            let bounds = self.last_equal.get(node).and_then(bounds_since);
            let bounds = bounds.unwrap_or_else(KeyBounds::everything);
            bounds.with_steps_at_most(steps_max)
        });
        bounds.collect()
    }

    /// Leaves the sessions that nobody has asked about for long, and drops what they
    /// have streamed and not made part of the store.
    pub(in crate::session) fn forget_idle(&mut self) {
        let now = self.environment.clock.monotonic();
        self.parts
            .retain(|_, part| now.saturating_sub(part.last_asked) < SESSION_IDLE_MAX);
    }

    /// Leaves a session that cannot go on. Its coordinator finds that it is not known.
    pub(in crate::session) fn leave(&mut self, session: SessionId) {
        self.parts.remove(&session);
    }

    /// Whether this node takes part in a session.
    pub(in crate::session) fn takes_part(&self, session: SessionId) -> bool {
        self.parts.contains_key(&session)
    }

    /// The sessions that this node takes part in.
    pub(in crate::session) fn sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.parts.keys().copied()
    }
}

fn is_resumed(session: SessionId) -> bool {
    matches!(session, SessionId::Full(token) if token.is_resumed())
}
