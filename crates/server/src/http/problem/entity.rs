//! Problems of a key: its value, the conditions of a request for it, and its replicas.

use super::{Conditional, Problem};
use api::problem_type::{
    BAD_CONDITION, CONDITIONAL_WRITE, DISK_FULL, NO_SUCH_ENTITY, NOT_ENOUGH_REPLICAS,
    OTHER_VERSION, PARTIAL_PUT, STORE_FAILED, VALUE_TOO_LONG,
};
use base::Timestamp;
use cluster::Replicas;
use hyper::header::HeaderValue;
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

    /// A condition of a write that cannot be read. Ignoring it could lose data.
    pub(crate) fn bad_condition(field: &str) -> Self {
        Self::new(
            &BAD_CONDITION,
            format!(
                "`{field}` is neither * nor a list of entity tags in quotes: give it as the ETag of \
                 an answer"
            ),
        )
    }

    /// A replica that knows no conditional writes.
    pub(super) fn conditional_write(url: &str) -> Self {
        Self::new(
            &CONDITIONAL_WRITE,
            format!(
                "nothing was written: {url} is of an older release, which knows no conditional \
                 writes. Upgrade all nodes, or leave the condition out"
            ),
        )
    }

    /// The pair of a conditional write of which two writes may have no replica in common.
    pub(crate) fn no_majority(replicas: Replicas) -> Self {
        let Replicas { ack, from } = replicas;
        Self::bad_parameter(
            "ack",
            format!("`ack` is {ack} of {from}: a conditional write needs more than half of `from`"),
        )
    }

    /// A write that keeps the value came with one.
    pub(crate) fn touch_with_value() -> Self {
        Self::bad_parameter(
            "touch",
            "`touch` keeps the value: send no body, or leave `touch` out".to_owned(),
        )
    }

    /// The condition of a write does not hold. The version is that of the value that the key has.
    pub(super) fn condition_failed(current: Option<Timestamp>) -> Self {
        let found = match current {
            Some(_) => "the key has a value whose ETag does not fit",
            None => "the key has no value",
        };
        let mut problem = Self::new(
            &OTHER_VERSION,
            format!("nothing was written, because {found}: read the key, and decide again"),
        );
        problem.conditional = Some(Box::new(Conditional {
            version: current,
            ..Conditional::default()
        }));
        problem
    }

    /// The same with the version and the tag of the value that the key has.
    pub(crate) fn with_current(mut self, version: Timestamp, tag: HeaderValue) -> Self {
        self.conditional = Some(Box::new(Conditional {
            outcome: None,
            version: Some(version),
            tag: Some(tag),
        }));
        self
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

    /// Too few replicas for a conditional write, before any of them was told to store it.
    pub(super) fn not_applied(receipt: Receipt, replicas: Replicas) -> Self {
        let detail = format!(
            "fewer than {} of {} replicas were ready for the write in time, and nothing was \
             written: send it again as it is",
            replicas.ack, replicas.from
        );
        let problem = Self::new(&NOT_ENOUGH_REPLICAS, detail).with_receipt(receipt, replicas);
        problem.with_outcome(api::NOT_APPLIED)
    }

    /// Too few replicas have stored a conditional write, and others may have.
    pub(super) fn unknown_outcome(receipt: Receipt, replicas: Replicas) -> Self {
        let detail = format!(
            "{} of {} required replicas acknowledged. The write may have taken effect, or may \
             still: read the key. The version of `timestamp` says that it has; another one says \
             nothing",
            receipt.acks, replicas.ack
        );
        let problem = Self::new(&NOT_ENOUGH_REPLICAS, detail).with_receipt(receipt, replicas);
        problem.with_outcome(api::UNKNOWN)
    }

    fn with_outcome(mut self, outcome: &'static str) -> Self {
        self.conditional = Some(Box::new(Conditional {
            outcome: Some(outcome),
            ..Conditional::default()
        }));
        self
    }

    fn with_receipt(mut self, receipt: Receipt, replicas: Replicas) -> Self {
        self.acks = Some((receipt.acks, replicas));
        self.receipt = Some(Box::new(receipt));
        self
    }
}
