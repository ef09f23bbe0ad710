//! What a repair compares: anti-entropy by scans.
//!
//! Two replicas of a key can differ for longer than hints live: a hint can be
//! dropped, lost with its node, or never be kept. A **repair** walks the key
//! space, compares what the nodes keep, and sends each missing version where it
//! belongs. It keeps no hash tree beside the data, because a tree taxes every
//! write; it scans.
//!
//! ```text
//! range  a part of the key space that holds about 8 MiB; scanned once by each node
//! item   what a node keeps of one key, as a hash: 20 bytes
//! digest a count and a sum over items: what two nodes compare first
//! symbol a sum over some of the items: what two nodes reconcile a difference with
//! ```
//!
//! - [`KeyBounds`] says what an incremental repair may pass over.
//! - [`Item`] and [`Digest`] say what is equal.
//! - [`RangeItems`] is what a node remembers of a range that it has scanned.
//! - [`Kept`] sums up any range, for those who compare nodes from outside.
//! - [`symbols`] finds the items that differ without sending those that do not.

mod bounds;
mod difference;
mod digest;
mod kept;
mod kind;
mod pair;
mod range_items;
pub mod symbols;

pub use bounds::{AscendingBounds, KeyBounds, STEPS_MAX};
pub use difference::{Difference, Exchange};
pub use digest::{Digest, Item, is_dead_at};
pub use kept::{Kept, KeptScope};
pub use kind::{Incarnation, RepairKind};
pub use pair::{NodeDigests, Pair, differing};
pub use range_items::{Comparison, RangeItems, RangeSummary};
