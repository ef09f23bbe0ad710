//! How a cluster forgets its dead: when tombstones may go, so that what they hid
//! never returns.
//!
//! A tombstone that goes too early brings back what it hid, because an older
//! version may still lie on a node that was away, wait as a hint, or be on its way.
//! Age proves nothing. So the cluster keeps one timestamp F, the **forget bound**,
//! below which all replicas are known to be equal. What is dead below F may go.
//!
//! F rises to a timestamp T in four steps:
//! 1. T is at least the **grace** in the past. A member raises its **fence** to T
//!    only if T is that far in the past by its own clock, and only while that clock
//!    is trusted ([`latest_fence`]).
//! 2. Every member durably raises its fence to T. Behind it a store refuses what is
//!    older, with two exceptions ([`Bounds::admit`]): mends of the present pass, and
//!    repairs with a version that a store of the cluster has answered with. The pass
//!    meets such a version in that store, too; and as the repair may come late, it is first
//!    compared with what all other stores hold, so nothing slips behind the pass. Below F only
//!    the word of a store that knew F when it answered counts.
//! 3. A full pass that begins after all of these fences ends clean between every two
//!    members, and what it brought is durable ([`FencedPass`]).
//! 4. Each member that hears of it sets its F to T ([`Bounds::hear`]), durably, and
//!    tells others.
//!
//! Between 3 and 4 any time may pass, as a member may hear of F late. Nothing that the new F
//! allows others to drop may come in behind a comparison meanwhile. What comes as a late mend
//! does so before the member answers the last question of the pass, and then it says so and F
//! does not rise; or afterwards, and then the store is **sealed**, durably since before that
//! answer: it takes a live version from below the fence only once it was compared with what all
//! other stores hold. A tombstone that hides such a version lies on some store, since none is
//! written below the fence any more; or its store has dropped it, and names the F by which it did.
//! A member that has heard of F takes nothing below it, even while its own F is not durable.
//!
//! That all stores were fenced and all pairs were clean stays true, so no consensus
//! is needed about it, and it does not matter who drove the pass.
//!
//! A store that has not taken part in that is a **receiver**
//! ([`Bounds::is_receiver`]): it was a learner or accepted, or restored from before
//! its fence. It may hold versions whose tombstones are forgotten. So below the
//! greatest F that it has heard of, it only receives, until it was compared with all
//! other members; then it buries what nobody else has ([`is_leftover`]).
//!
//! A coordinator takes dead versions below the greatest F that an answer names for
//! absent ([`is_absent`]), because one replica may have dropped what another still has.
//!
//! A receiver does not count. It must know F for that, so each handshake names the
//! greatest F that a node has heard of, before the first request. An F of which the node
//! hears later, while the connection lasts, rests on a pass that the receiver has been
//! fenced for, or the peers remember that it was, and its store is a learner. So
//! requests need not carry F.
//!
//! `model` explores all interleavings of these rules for three stores and one key,
//! and shows of each rule that the cluster errs without it.

mod answering;
mod bounds;
mod fenced_pass;
#[cfg(test)]
mod model;
mod vouching;

pub use answering::{Answerer, NamedBounds, StoreStart};
pub use bounds::{Arrival, Bounds, Obsolete, Receiving, is_absent, is_leftover, latest_fence};
pub use fenced_pass::FencedPass;
pub use vouching::{Vouching, vouchers, withholds};
