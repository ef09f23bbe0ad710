//! The hello: what a node says of itself at the start of a connection.
//!
//! A node fills and reads it in one place, its [`HandshakePolicy`](super::HandshakePolicy).
//! [`Hello`] is the struct, [`Hello::encode`] and [`Hello::decode`] are its codec,
//! and this is the drawing of its frame:
//!
//! ```text
//! kind  message  payload
//!   32  hello    least version u16 | greatest version u16 | features u64
//!                | flags u8 | replica state u8 | members hash u64 | store id u64
//!                | remembered store id u64 | remembered start u64
//!                | wall clock in ms u64 | greatest timestamp seen u64
//!                | nonce, 32 bytes | name bytes u16 | name
//!                | starts u16 | start u64*
//!                | remembered acknowledged u64 | acknowledged u64 (*)
//!                | GC threshold u64 | zero u64 (**)
//!                | remembered starts u16 | start u64* (***)
//!                | cluster number u64 (****)
//!                | report of the list of members, as drawn in `wire/store_report.rs` (*****)
//!                | whatever later releases add
//!
//! flags    = 1 accepted | 2 remembers | 4 waits to join
//! replica state = 0 starting | 1 voter | 2 forced voter | 3 learner
//! ```
//!
//! The versions come first in every version of the protocol, because the two
//! sides must agree on a version before either can read the rest. Within a
//! version, fields are only added, and only at the end. A node ignores flags and
//! features that it does not know, and reads an unknown replica state as starting.
//! The starts are those that the store keeps; the present one is the last.
//! (*) The first release of version 1 ends before these two. Without them nothing was
//! heard of the peer's count, and the own one is not known.
//! (**) A release without tombstone GC ends before these two. Earlier ones have a timestamp in
//! place of the zero.
//! (***) A release that remembers only the last start of a peer ends before these. It reads no
//! longer hello than before, so there are fewer of them if there is no room for all.
//! (****) A release without backups ends before this, and has the number 0.
//! (*****) A release whose list of members never changes ends before this.

use super::refusal::Refusal;
use crate::protocol::{NegotiatedProtocol, Protocol};
use crate::wire::frame::put_frame;
use crate::wire::store_report::ListReport;
use base::{ByteReader, Timestamp};
use cluster::{PEER_STARTS_MAX, Remembered, ReplicaState, STARTS_MAX, StoreClaim};
use std::sync::Arc;

/// The kind of the frame that carries a hello.
pub(super) const HELLO: u8 = 32;

/// The longest name of a node, in bytes: longer than the host of any URL.
const NAME_BYTES_MAX: usize = 1024;

/// The longest hello without its name and its starts. Today's fields take less;
/// the rest is room for what later releases add.
const OTHER_BYTES_MAX: usize = 1024;

/// The longest payload in a handshake, of all releases.
pub(crate) const HANDSHAKE_BYTES_MAX: usize =
    OTHER_BYTES_MAX + NAME_BYTES_MAX + STARTS_MAX * size_of::<u64>();

const FLAG_ACCEPTED: u8 = 1;
const FLAG_REMEMBERS: u8 = 2;
const FLAG_WAITS: u8 = 4;

/// Random bytes in each hello, which make each side's proof valid for one
/// connection only.
pub(super) type Nonce = [u8; 32];

/// What a node says of itself, and of the peer that it talks to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The versions and features that it supports.
    pub protocol: Protocol,
    /// Its name in the list of nodes.
    pub name: String,
    /// The hash of the names of all nodes.
    pub members_hash: u64,
    /// The id of its store.
    pub store_id: u64,
    /// The last starts of its store; the present one is the last.
    pub starts: Arc<[u64]>,
    /// Whether an operator has accepted its store as it is, and this peer does
    /// not know that yet.
    pub is_accepted: bool,
    /// How its store stands.
    pub replica_state: ReplicaState,
    /// What it durably remembers of this peer; the count may be newer than what is
    /// durable.
    pub remembered: Option<Remembered>,
    /// The starts that the remembered store of this peer includes, as far as it has heard of
    /// them; the remembered one is the last.
    pub remembered_starts: Arc<[u64]>,
    /// The writes that its store had acknowledged when the present start opened it, or
    /// when a full session rebuilt it since; `None` if it does not say so.
    pub acknowledged: Option<u64>,
    /// The greatest timestamp that it has issued or seen.
    pub greatest_seen: Timestamp,
    /// Its wall clock, in milliseconds since the Unix epoch.
    pub unix_ms: u64,
    /// Its GC threshold: what is dead below it may be dropped. [`Timestamp::ZERO`] if it has none.
    pub gc_threshold: Timestamp,
    /// The number of the cluster that its store was restored for; 0 if it was not restored.
    pub cluster: u64,
    /// What it says of the list of members.
    pub list: ListReport,
    /// Whether it is no member yet and waits to join.
    pub waits: bool,
}

impl Hello {
    /// What it says of its store.
    pub fn claim(&self) -> StoreClaim<'_> {
        StoreClaim {
            store_id: self.store_id,
            starts: &self.starts,
            acknowledged: self.acknowledged,
        }
    }

    /// Appends the frame of this hello.
    pub(super) fn encode(&self, out: &mut Vec<u8>, nonce: &Nonce) {
        let Self {
            protocol,
            name,
            members_hash,
            store_id,
            starts,
            is_accepted,
            replica_state,
            remembered,
            remembered_starts,
            acknowledged,
            greatest_seen,
            unix_ms,
            gc_threshold,
            cluster,
            list,
            waits,
        } = self;
        let accepted = if *is_accepted { FLAG_ACCEPTED } else { 0 };
        let waits = if *waits { FLAG_WAITS } else { 0 };
        let remembers = if remembered.is_some() {
            FLAG_REMEMBERS
        } else {
            0
        };
        let remembered = remembered.unwrap_or(Remembered {
            store_id: 0,
            start: 0,
            acknowledged: 0,
        });
        // The last ones: the present start is among them.
        let starts = &starts[starts.len().saturating_sub(STARTS_MAX)..];
        put_frame(out, HELLO, 0, |out| {
            let payload = out.len();
            out.extend_from_slice(&protocol.least.to_le_bytes());
            out.extend_from_slice(&protocol.greatest.to_le_bytes());
            out.extend_from_slice(&protocol.features.to_le_bytes());
            out.push(accepted | remembers | waits);
            out.push(*replica_state as u8);
            for number in [
                *members_hash,
                *store_id,
                remembered.store_id,
                remembered.start,
                *unix_ms,
                greatest_seen.as_u64(),
            ] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            out.extend_from_slice(nonce);
            out.extend_from_slice(&(name.len() as u16).to_le_bytes());
            out.extend_from_slice(name.as_bytes());
            put_starts(out, starts);
            if let Some(acknowledged) = acknowledged {
                out.extend_from_slice(&remembered.acknowledged.to_le_bytes());
                out.extend_from_slice(&acknowledged.to_le_bytes());
                out.extend_from_slice(&gc_threshold.as_u64().to_le_bytes());
                out.extend_from_slice(&0u64.to_le_bytes());
                let behind = size_of::<u64>() + ListReport::BYTES;
                let bytes = out.len() - payload + size_of::<u16>() + behind;
                let room = HANDSHAKE_BYTES_MAX.saturating_sub(bytes) / size_of::<u64>();
                let known = remembered_starts.len();
                let from = known.saturating_sub(room.min(PEER_STARTS_MAX));
                put_starts(out, &remembered_starts[from..]);
                out.extend_from_slice(&cluster.to_le_bytes());
                list.encode(out);
            }
        });
    }

    /// Reads the payload of a peer's hello, on a node that supports `own`. Also
    /// returns what the two nodes have negotiated. The nonce is skipped, because
    /// only the proofs need it, and they cover the hello's bytes.
    ///
    /// # Errors
    /// [`Refusal::Version`], [`Refusal::MalformedHello`].
    pub(super) fn decode(
        own: Protocol,
        payload: &[u8],
    ) -> Result<(NegotiatedProtocol, Self), Refusal> {
        let mut fields = ByteReader::new(payload);
        let other = decode_protocol(&mut fields).ok_or(Refusal::MalformedHello)?;
        let negotiated = own
            .negotiate(other)
            .ok_or(Refusal::Version { own, other })?;
        let hello = decode_rest(other, &mut fields).ok_or(Refusal::MalformedHello)?;
        Ok((negotiated, hello))
    }
}

/// There are no more than fit a count of two bytes.
fn put_starts(out: &mut Vec<u8>, starts: &[u64]) {
    out.extend_from_slice(&(starts.len() as u16).to_le_bytes());
    for start in starts {
        out.extend_from_slice(&start.to_le_bytes());
    }
}

/// `None` if there are more starts than a node sends.
fn decode_starts(fields: &mut ByteReader<'_>, count_max: usize) -> Option<Arc<[u64]>> {
    let count = usize::from(fields.u16()?);
    if count > count_max {
        return None;
    }
    (0..count).map(|_| fields.u64()).collect()
}

fn decode_protocol(fields: &mut ByteReader<'_>) -> Option<Protocol> {
    Some(Protocol {
        least: fields.u16()?,
        greatest: fields.u16()?,
        features: fields.u64()?,
    })
}

/// Reads the fields that follow the protocol.
fn decode_rest(protocol: Protocol, fields: &mut ByteReader<'_>) -> Option<Hello> {
    let [flags, replica_state] = fields.array()?;
    let [members_hash, store_id] = [fields.u64()?, fields.u64()?];
    let mut remembered = Remembered {
        store_id: fields.u64()?,
        start: fields.u64()?,
        acknowledged: 0,
    };
    let unix_ms = fields.u64()?;
    let greatest_seen = Timestamp::from_u64(fields.u64()?);
    let _nonce: Nonce = fields.array()?;
    let name_bytes = usize::from(fields.u16()?);
    let name = str::from_utf8(fields.bytes(name_bytes)?).ok()?;
    let starts = decode_starts(fields, STARTS_MAX).filter(|starts| !starts.is_empty())?;
    let mut acknowledged = None;
    if !fields.rest().is_empty() {
        remembered.acknowledged = fields.u64()?;
        acknowledged = Some(fields.u64()?);
    }
    let mut gc_threshold = 0;
    if !fields.rest().is_empty() {
        gc_threshold = fields.u64()?;
        let _of_earlier_releases = fields.u64()?;
    }
    let mut remembered_starts = Arc::default();
    if !fields.rest().is_empty() {
        remembered_starts = decode_starts(fields, PEER_STARTS_MAX)?;
    }
    let mut cluster = 0;
    if !fields.rest().is_empty() {
        cluster = fields.u64()?;
    }
    let mut list = ListReport::default();
    if !fields.rest().is_empty() {
        list = ListReport::decode(fields)?;
    }
    Some(Hello {
        protocol,
        name: name.to_owned(),
        members_hash,
        store_id,
        starts,
        is_accepted: flags & FLAG_ACCEPTED != 0,
        replica_state: ReplicaState::from_code(replica_state),
        remembered: (flags & FLAG_REMEMBERS != 0).then_some(remembered),
        remembered_starts,
        acknowledged,
        greatest_seen,
        unix_ms,
        gc_threshold: Timestamp::from_u64(gc_threshold),
        cluster,
        list,
        waits: flags & FLAG_WAITS != 0,
    })
}
