//! Conditional writes: a write that takes effect only if the version that it replaces is the one
//! that its client names. Linearizable for each key, beside plain writes.
//!
//! It is single-decree Paxos for each version of a key (Lamport, *Paxos Made Simple*, 2001; for a
//! register that is changed again and again: Rystsov, *CASPaxos*, 2018). A **ballot** is a
//! timestamp, and the version that a ballot brings has the ballot as its timestamp: so one order
//! holds for conditional and plain writes.
//!
//! # What a replica does
//!
//! For a key a replica keeps its newest version and at most one **promise** of a ballot.
//!
//! - *Prepare(ballot, expected)*: it promises if its newest version is what is expected, below
//!   the ballot, and if it keeps no other promise. It promises nothing below a ballot that it has
//!   promised before.
//! - *Nothing below the ballot.* While it keeps the promise, it stores no version below the ballot:
//!   neither a write nor a hint nor a repair. Writes and read repairs wait at the replica until the
//!   promise is gone.
//! - *Accept(ballot, version)*: it stores the version if it still keeps the promise of this ballot,
//!   which is gone then.
//! - *Release(ballot)*: the promise is gone, if it is of this ballot.
//! - A version at or above the ballot, whoever brings it, ends the promise as well.
//! - *Prepare(ballot), forced*: it promises although it keeps a promise of a lower ballot, whatever
//!   its newest version is, and says whether it has **met** such a promise.
//!
//! # What coordinators do
//!
//! [`ConditionalWrite`] prepares a ballot, and has the new version accepted by a majority if a
//! majority has promised. If the newest versions are not as expected, it reads: see
//! [`Read`](super::Read). The read brings the newest version to a majority and so decides what the
//! key holds. A write whose condition does not hold leaves nothing behind.
//!
//! [`Settle`] ends what a coordinator has left behind that has crashed, or whose accepts were lost.
//!
//! # Why it is right
//!
//! - **Nothing between base and version.** A majority has promised, and each of those held exactly
//!   the base as its newest version. A write that creates a value may build on a tombstone or on
//!   nothing, but a majority must hold the same. An acknowledged plain write was stored without anything newer
//!   by a majority. The two have a replica in common. If the plain write came before the promise
//!   there, the base is at least as new. If it came later, it has waited, and then found the new
//!   version. So no acknowledged write lies between the base and the version.
//! - **One after another.** Of two ballots with a majority of promises, one replica has promised
//!   both. It has promised the second only after it had accepted or released the first, unless the
//!   second was forced; then the first cannot be accepted there any more.
//! - **Hidden versions.** If a promise is overridden, its version may have been accepted by a
//!   replica that does not answer. So [`Settle`] asks all replicas. If all have answered, nothing
//!   is hidden. Otherwise it writes what is current anew, above everything that may be hidden.
//! - **A promise goes only with what it was kept for.** While replicas settle, each of them is
//!   released only when it holds the current version. Otherwise an older write could still be
//!   acknowledged below it.
//! - **A write that was overtaken.** A plain write whose second timestamp arrives below a ballot
//!   that was promised before cannot count as written just before the conditional version, because
//!   nothing was there. It takes another timestamp: see [`Write`](super::Write).

mod condition;
mod conditional_steps;
mod conditional_write;
mod progress;
mod settle;

#[cfg(test)]
mod tests;

pub use condition::{Base, Condition, Matches, Newest};
pub use conditional_steps::{
    ConditionalAction, ConditionalActions, ConditionalEvent, ConditionalOutcome,
};
pub use conditional_write::ConditionalWrite;
pub use settle::{Met, Rewrite, Settle, SettleAction, SettleActions, SettleEvent};
