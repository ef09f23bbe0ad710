//! Problems of a key: its value, the conditions of a request for it, and its replicas.

use super::Problem;
use api::problem_type::{
    CONDITIONAL_WRITE, DISK_FULL, NO_SUCH_ENTITY, NOT_ENOUGH_REPLICAS, OTHER_VERSION, PARTIAL_PUT,
    STORE_FAILED, VALUE_TOO_LONG,
};
use cluster::Replicas;
use node::Receipt;

impl Problem {
    /// A `PUT` of a part of a value.
    pub(crate) fn partial_put() -> Self {
        Self::new(
            &PARTIAL_PUT,
            "a PUT with Content-Range would replace the value with a part of it: send the whole \
             value",
        )
    }

    /// A condition on a write. Ignoring it could lose data.
    pub(crate) fn conditional_write() -> Self {
        Self::new(
            &CONDITIONAL_WRITE,
            "If-Match and If-None-Match are not implemented for PUT and DELETE: leave them out",
        )
    }

    /// The body is longer than a value may be.
    pub(crate) fn value_too_long(value_bytes_max: usize) -> Self {
        Self::new(
            &VALUE_TOO_LONG,
            format!("the body is longer than {value_bytes_max} bytes: send a shorter value"),
        )
    }

    /// The key has no live value.
    pub(crate) fn absent() -> Self {
        Self::new(&NO_SUCH_ENTITY, "the key has no value")
    }

    /// An `If-Match` that does not name the version that the read found.
    pub(crate) fn other_version() -> Self {
        Self::new(
            &OTHER_VERSION,
            "the entity's ETag is not one of those in If-Match: read it without If-Match",
        )
    }

    /// The disk has no room for a write.
    pub(super) fn disk_full(receipt: Receipt, replicas: Replicas) -> Self {
        Self::new(
            &DISK_FULL,
            "the node's disk is full: give the node more space, or delete entities and try again \
             after a compaction has freed their space. Reads and deletes still work",
        )
        .with_receipt(receipt, replicas)
    }

    /// The store of a node without peers takes no writes.
    pub(super) fn store_failed(why: &str) -> Self {
        Self::new(
            &STORE_FAILED,
            format!(
                "nothing was done, because this node's store takes no writes: {why}. Repair the \
                 disk or the folder; reads still work"
            ),
        )
    }

    /// Too few replicas answered a read, or a write if the receipt has its timestamp.
    pub(super) fn not_enough_replicas(receipt: Receipt, replicas: Replicas) -> Self {
        let (acks, ack) = (receipt.acks, replicas.ack);
        let detail = match receipt.timestamp {
            Some(_) => format!(
                "{acks} of {ack} required replicas acknowledged. The write may still take effect; \
                 a retry creates a newer version"
            ),
            None => format!(
                "{acks} of {ack} required replicas answered: try again; a smaller ack may miss \
                 what was acknowledged"
            ),
        };
        Self::new(&NOT_ENOUGH_REPLICAS, detail).with_receipt(receipt, replicas)
    }

    fn with_receipt(mut self, receipt: Receipt, replicas: Replicas) -> Self {
        self.acks = Some((receipt.acks, replicas));
        self.receipt = Some(Box::new(receipt));
        self
    }
}
