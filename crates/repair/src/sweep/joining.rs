//! How a node joins passes, and gives them up.

use super::filling::Filling;
use super::participant::Participant;
use super::pass_state::PassState;
use super::{PASS_IDLE_MAX, Sweeper};
use base::Timestamp;
use cluster::forgetting::StoreStart;
use cluster::sweep::{Incarnation, KeyBounds, PassId, PassKind};
use peer::SweepAnswer;

/// The passes that a node takes part in at a time. More than one is rare: it
/// takes two drivers that do not see each other.
const PASSES_MAX: usize = 3;

/// A store that begins to take part in a pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct PresentStore {
    pub(super) incarnation: Incarnation,
    /// The number of its start.
    pub(super) start: u64,
    /// The greatest timestamp that its node has issued or seen.
    pub(super) greatest_seen: Timestamp,
    /// The fence that the clock of its node allows; [`Timestamp::ZERO`] while that is not
    /// trusted.
    pub(super) latest_fence: Timestamp,
}

/// What all nodes of a pass agree on.
#[derive(Clone, Debug)]
pub(super) struct Agreed {
    /// Versions above it are left out of a recent pass.
    pub(super) cut: Timestamp,
    /// What is dead below it is left out: other nodes may have dropped it.
    pub(super) forgotten: Timestamp,
    /// The reach of each node, by node number.
    pub(super) reaches: Vec<u8>,
    /// What may be passed over with each node, by node number.
    pub(super) bounds: Vec<KeyBounds>,
}

impl Participant {
    /// Begins to take part in a pass, or goes on from a checkpoint after this node, the
    /// driver or another node was restarted. Gives the bounds that this node knows.
    pub(super) fn begin(
        &mut self,
        (pass, kind): (PassId, PassKind),
        is_resumed: bool,
        store: PresentStore,
    ) -> SweepAnswer {
        let PresentStore {
            incarnation,
            start,
            greatest_seen,
            latest_fence,
        } = store;
        let now = self.environment.clock.monotonic();
        self.forget_idle();
        // The driver of a pass that nobody has asked about for longest is most
        // likely gone. If it is not, it leaves this node out and comes again.
        while self.passes.len() >= PASSES_MAX && !self.passes.contains_key(&pass) {
            let asked = self
                .passes
                .iter()
                .map(|(pass, state)| (state.last_asked, *pass));
            if let Some((_, longest_idle)) = asked.min() {
                self.passes.remove(&longest_idle);
            }
        }
        let before = self.passes.remove(&pass);
        let before = before.filter(|before| is_resumed && before.incarnation == incarnation);
        // Read before the bounds: what is committed meanwhile has to be in the bounds of
        // this pass, or behind this record and so in those of the next one.
        let (sequence, damage) = (
            self.environment.engine.last_sequence(),
            self.environment.engine.damage_mark(),
        );
        let bounds = self.bounds();
        let filling = Filling::new(
            self.environment.engine.clone(),
            self.environment.ingest_bytes_max,
            self.environment.bounds.forgotten(),
        );
        let held = self.environment.engine.statistics();
        let versions = held.table_entries + held.memtable_entries;
        let mut state = PassState::new(kind, incarnation, filling, versions, now);
        let forgotten = self.environment.bounds.greatest();
        state.damage_then = damage;
        state.forgotten = forgotten;
        state.has_gone_back = is_resumed && kind == PassKind::Full;
        match before {
            Some(before) => state.go_on_after(&before),
            // What came in behind the scan before is noted durably.
            None if is_resumed => {}
            None => {
                state.begin_at(sequence, damage);
                state.unexpected_then = self.environment.mended.unexpected(pass);
            }
        }
        self.passes.insert(pass, state);
        self.environment
            .mended
            .retain(|pass| self.passes.contains_key(&pass));
        SweepAnswer::Begun {
            incarnation,
            start,
            greatest_seen,
            forgotten,
            latest_fence,
            // Until it is known, any node may be asked what it keeps of a key.
            reach: self.reach.unwrap_or(u8::MAX),
            bounds,
        }
    }

    /// Gives up all passes but one, if that is known.
    pub(super) fn give_up_all_but(&mut self, pass: PassId) {
        if self.passes.contains_key(&pass) {
            self.passes.retain(|known, _| *known == pass);
        }
    }

    /// Whether one of the passes that this node takes part in has fenced all nodes.
    pub(super) fn is_fenced(&self) -> bool {
        self.passes.values().any(|state| state.is_fenced)
    }

    /// The passes that this node takes part in.
    pub(super) fn passes(&self) -> impl Iterator<Item = (PassId, PassKind)> + '_ {
        self.passes.iter().map(|(pass, state)| (*pass, state.kind))
    }

    /// Those that have gone back to a checkpoint.
    pub(super) fn passes_gone_back(&self) -> impl Iterator<Item = PassId> + '_ {
        let gone_back = self.passes.iter().filter(|(_, state)| state.has_gone_back);
        gone_back.map(|(pass, _)| *pass)
    }

    /// Takes note of what all nodes agree on.
    pub(super) fn agree(&mut self, pass: PassId, agreed: Agreed) -> SweepAnswer {
        let nodes = self.environment.placement.nodes();
        // What the cut says has expired may live by this node's clock.
        let expired_before = self.environment.expiry.expired_before_unix_ms();
        let expired_before =
            expired_before.min(self.environment.expiry.before(agreed.cut.unix_ms()));
        match self.state(pass) {
            Some(state) if agreed.bounds.len() == nodes && agreed.reaches.len() == nodes => {
                state.agree(agreed, expired_before);
                SweepAnswer::Done
            }
            _ => SweepAnswer::Unknown,
        }
    }

    /// Forgets the passes that nobody has asked about for long, and with them what they
    /// have pulled and not made part of the store.
    pub(super) fn forget_idle(&mut self) {
        let now = self.environment.clock.monotonic();
        self.passes
            .retain(|_, state| now.saturating_sub(state.last_asked) < PASS_IDLE_MAX);
    }

    /// Forgets a pass that cannot go on. Its driver finds that it is not known.
    pub(super) fn give_up(&mut self, pass: PassId) {
        self.passes.remove(&pass);
    }
}

impl Sweeper {
    /// Begins to take part in a pass, or goes on.
    pub(super) async fn answer_begin(
        &self,
        (pass, kind): (PassId, PassKind),
        is_resumed: bool,
    ) -> SweepAnswer {
        let environment = &self.sweeps.environment;
        environment.membership.pass_began(pass, is_resumed);
        if kind == PassKind::Full {
            environment.forgetting.set_ended_pass(None);
        }
        let latest_fence = environment.forgetting.next_fence();
        let store = PresentStore {
            incarnation: self.incarnation(),
            start: environment.membership.own_start().start,
            greatest_seen: environment.timestamps.greatest(),
            latest_fence: latest_fence.unwrap_or(Timestamp::ZERO),
        };
        let begin = self.background(move |own| own.begin((pass, kind), is_resumed, store));
        let answer = begin.await;
        if matches!(answer, SweepAnswer::Begun { .. }) {
            self.sweeps.record.began(pass, kind);
        }
        answer
    }

    /// Takes note of what all nodes of a pass agree on, and of their stores.
    pub(super) async fn answer_agree(
        &self,
        pass: PassId,
        agreed: Agreed,
        stores: &[StoreStart],
    ) -> SweepAnswer {
        self.sweeps.environment.membership.named_by_pass(stores);
        self.answer_forget(agreed.forgotten);
        self.background(move |own| own.agree(pass, agreed)).await
    }
}
