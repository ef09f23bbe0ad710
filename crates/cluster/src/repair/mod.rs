//! Repair sessions, and when tombstones may go.
//!
//! A tombstone that goes too early brings back what it hid, because an older version may still lie
//! on a store that was away, or be on its way. Age proves nothing. So the cluster keeps the **GC
//! threshold**, a timestamp below which all stores were shown to be equal, and a full repair
//! session raises it:
//!
//! 1. All members begin the session. Each forgets the one before for good: a session has a
//!    [`Token`], and a store takes part only with the greatest that it has seen.
//! 2. Each raises its **closed timestamp** to the lowest that all of their clocks allow. Below it
//!    the store takes no ordinary write any more. The session may raise the threshold to it.
//! 3. Range by range, all scan and are made equal, again and again until nothing moves below the
//!    closed timestamp.
//! 4. Each makes durable what has come, and answers the **last question**: whether anything from
//!    below the closed timestamp has come in behind its scan. From then on nothing does.
//! 5. If all say no, the threshold rises, and all are told.
//!
//! [`StoreState`] is a store's side of it, [`Session`] the coordinator's. Both are pure: an event
//! gives the next state, and what to do.
//!
//! What comes in below the closed timestamp ([`StoreState::admits`]):
//! - repair writes of the attempt for which the store scans;
//! - read repairs ahead of the scan, which the session meets; and behind it, once the store has
//!   noted durably that this session raises nothing ([`StoreEvent::Voided`]). After the last
//!   answer they wait for the outcome.
//!
//! A store that hears of a threshold for which it has not answered is **behind**: it may hold what
//! was deleted, with tombstones that are gone. It becomes a learner, and sets aside what it holds
//! below ([`StoreAction::SetAside`]). One that has answered for it keeps what it has, whatever it
//! has lost since: that was above, or the others still have it.
//!
//! `model` explores all interleavings of these machines for three stores and one key, and shows of
//! each rule that the cluster errs without it.

mod bounds;
mod facts;
#[cfg(test)]
mod model;
mod request;
mod session;
mod session_id;
mod store;
mod token;

pub use bounds::{is_absent, latest_closed};
pub use facts::{Facts, facts_to_make};
pub use request::{SessionAnswer, SessionRequest};
pub use session::{Compared, Lacking, Next, Session, SessionAction, SessionEvent, Shown};
pub use session_id::SessionId;
pub use store::{
    Admission, Arriving, SESSION_IDLE_MAX, ShownBelow, StoreAction, StoreEvent, StoreRecord,
    StoreState, Way,
};
pub use token::Token;
