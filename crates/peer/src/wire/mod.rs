//! The bytes between nodes: frames, the messages in them, and what messages carry.
//!
//! - `frame` is the unit with a header and a checksum; `message` is what a frame says.
//! - `entry_fields` and `same` are parts of messages; `run` is many entries for a store that is
//!   rebuilt, `page` the next keys of a scan, `repair_message` what repair asks and answers.
//! - `promise_message` is what coordinators of conditional writes ask and replicas answer.
//! - `backup_message` is what the coordinator of a backup asks and nodes answer.
//! - `list_message` is what nodes say about the list of members.
//! - `contact` tells a peer how well this node can reach it back, `store_report` how many
//!   writes a store has acknowledged and how far the node has come in a change of the list, and
//!   `node_report` what operators see of a node.

pub(crate) mod backup_message;
pub(crate) mod contact;
pub(crate) mod entry_fields;
pub(crate) mod frame;
pub(crate) mod list_message;
pub(crate) mod message;
pub(crate) mod node_report;
pub(crate) mod page;
pub(crate) mod promise_message;
pub(crate) mod repair_message;
pub(crate) mod run;
pub(crate) mod same;
pub(crate) mod store_report;

pub use backup_message::{BackupAnswer, BackupRequest};
pub use contact::Contact;
pub use frame::RUN_BYTES_MAX;
pub use list_message::{JoinerDisk, KnownJoiner, ListAnswer, ListRequest};
pub use node_report::{LatencyQuantiles, NodeReport, REPORT_STATUS_BYTES_MAX, ReportedStatus};
pub use page::{EncodedPage, PAGE_BYTES_MAX, PAGE_ITEM_BYTES};
pub use promise_message::{Prepare, PromiseAnswer, PromiseRequest};
pub use repair_message::{
    BOUND_KEY_BYTES_MAX, HELD_MAX, KEY_HASHES_MAX, OFFER_BYTES_MAX, OFFERS_MAX, Offer,
    RepairAnswer, RepairRequest, SYMBOLS_MAX, bound_steps_max,
};
pub use run::{RUN_ENTRY_BYTES_MAX, Run, RunWriter};
pub use same::SAME_BYTES_MIN;
pub use store_report::{ListReport, StoreReport};
