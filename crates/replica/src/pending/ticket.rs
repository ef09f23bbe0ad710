//! The address of an answer: its request, and its position among the request's answers.
//!
//! Both travel as one number through the engine, the read pool and the links:
//!
//! ```text
//! ticket = generation: 28 bits | kind: 4 bits | replica: 8 bits | slot: 24 bits
//! kind   = 0 read | 1 repair | 2 to 5 write, first to fourth timestamp
//!                            | 6 to 9 hint, first to fourth timestamp | 10 promise
//! ```
//!
//! The generation counts requests. A reused slot has another generation, so a late answer finds no
//! request. The generation repeats after a quarter of a billion requests, when no call of the earlier
//! request is left.

use cluster::{ROUNDS_MAX, ReplicaIndex, Round};

const SLOT_BITS: u32 = 24;
const REPLICA_BITS: u32 = 8;
const KIND_BITS: u32 = 4;
const TAG_BITS: u32 = KIND_BITS + REPLICA_BITS;
const WRITES: u64 = 2;
const HINTS: u64 = WRITES + ROUNDS_MAX as u64;
const PROMISE: u64 = HINTS + ROUNDS_MAX as u64;
const GENERATION_BITS: u32 = u64::BITS - TAG_BITS - SLOT_BITS;

/// How many requests may be pending at a time.
pub const SLOTS_MAX: usize = 1 << SLOT_BITS;

/// What was asked of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// A read of the key.
    Read,
    /// The repair of a replica that a read found stale.
    Repair,
    /// A write with the timestamp of this round.
    Write(Round),
    /// The keeping of a hint for a replica, with the timestamp of this round.
    Hint(Round),
    /// The promise of a ballot.
    Promise,
}

/// Which of a request's answers an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerTag {
    /// What was asked.
    pub kind: AnswerKind,
    /// Of which replica.
    pub replica: ReplicaIndex,
}

impl AnswerTag {
    /// The tag as the low bits of a number.
    fn pack(self) -> u64 {
        let kind: u64 = match self.kind {
            AnswerKind::Read => 0,
            AnswerKind::Repair => 1,
            AnswerKind::Write(round) => WRITES + u64::from(round.as_u8()),
            AnswerKind::Hint(round) => HINTS + u64::from(round.as_u8()),
            AnswerKind::Promise => PROMISE,
        };
        kind << REPLICA_BITS | u64::from(self.replica.as_u8())
    }

    /// The tag in the low bits of a number; `None` where they hold no tag.
    fn unpack(bits: u64) -> Option<Self> {
        let kind = match (bits >> REPLICA_BITS) & low_bits(KIND_BITS) {
            0 => AnswerKind::Read,
            1 => AnswerKind::Repair,
            kind @ WRITES..HINTS => AnswerKind::Write(Round::new((kind - WRITES) as u8)?),
            kind @ HINTS..PROMISE => AnswerKind::Hint(Round::new((kind - HINTS) as u8)?),
            PROMISE => AnswerKind::Promise,
            _ => return None,
        };
        let replica = ReplicaIndex::new((bits & low_bits(REPLICA_BITS)) as u8);
        Some(Self { kind, replica })
    }
}

/// The address of a pending request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

impl Ticket {
    /// The ticket of a slot in its present generation.
    pub(super) fn new(generation: u64, slot: usize) -> Self {
        debug_assert!(slot < SLOTS_MAX, "admission bounds the pending requests");
        Self(generation << (TAG_BITS + SLOT_BITS) | slot as u64)
    }

    /// The generation of this number of requests.
    pub(super) fn generation_of(requests: u64) -> u64 {
        requests & low_bits(GENERATION_BITS)
    }

    /// The request, and the tag of its answer, that an answer is addressed to.
    pub(super) fn parse(address: u64) -> (Self, Option<AnswerTag>) {
        let tag = AnswerTag::unpack(address >> SLOT_BITS);
        (Self(address & !(low_bits(TAG_BITS) << SLOT_BITS)), tag)
    }

    /// The address of the answer with this tag.
    pub fn with(self, tag: AnswerTag) -> u64 {
        self.0 | tag.pack() << SLOT_BITS
    }

    /// The address of the answer where there is only one.
    pub fn for_only_answer(self) -> u64 {
        self.0
    }

    pub(super) fn slot(self) -> usize {
        (self.0 & low_bits(SLOT_BITS)) as usize
    }

    pub(super) fn generation(self) -> u64 {
        self.0 >> (TAG_BITS + SLOT_BITS)
    }
}

const fn low_bits(bits: u32) -> u64 {
    (1 << bits) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag_comes_back_with_its_ticket() {
        let rounds = || (0..ROUNDS_MAX).filter_map(Round::new);
        let kinds = [AnswerKind::Read, AnswerKind::Repair, AnswerKind::Promise]
            .into_iter()
            .chain(rounds().map(AnswerKind::Write))
            .chain(rounds().map(AnswerKind::Hint));
        let generation = low_bits(GENERATION_BITS);
        for kind in kinds {
            for replica in (0..=u8::MAX).map(ReplicaIndex::new) {
                for ticket in [Ticket::new(0, 0), Ticket::new(generation, SLOTS_MAX - 1)] {
                    let tag = AnswerTag { kind, replica };
                    assert_eq!(Ticket::parse(ticket.with(tag)), (ticket, Some(tag)));
                }
            }
        }
    }

    #[test]
    fn a_ticket_tells_its_slot_and_its_generation() {
        let ticket = Ticket::new(Ticket::generation_of(u64::MAX), 5);
        assert_eq!(ticket.slot(), 5);
        assert_eq!(ticket.generation(), low_bits(GENERATION_BITS));
        assert_eq!(Ticket::parse(ticket.for_only_answer()).0, ticket);
    }

    #[test]
    fn an_unknown_kind_is_no_tag() {
        let unknown = 15 << (REPLICA_BITS + SLOT_BITS);
        assert_eq!(Ticket::parse(unknown), (Ticket::new(0, 0), None));
    }
}
