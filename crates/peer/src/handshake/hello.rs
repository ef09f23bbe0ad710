//! What two nodes say of themselves, and how each proves that it may.
//!
//! ```text
//! kind  message  payload
//!   32  hello    least version u16 | greatest version u16 | features u64
//!                | flags u8 | standing u8 | members hash u64 | store id u64
//!                | remembered store id u64 | remembered start u64
//!                | wall clock in ms u64 | greatest timestamp seen u64
//!                | nonce, 32 bytes | name bytes u16 | name
//!                | starts u16 | start u64* | whatever later releases add
//!   33  proof    HMAC-SHA256, 32 bytes
//!   34  refuse   the reason, in UTF-8; `call` is 1 where it may pass
//!
//! flags    = 1 accepted | 2 remembers
//! standing = 0 unconfirmed | 1 witness | 2 accepted | 3 unfilled
//!
//! proof = HMAC(secret, role u8 | length u32 | hello of the side that dialled
//!                              | length u32 | hello of the side that was dialled)
//! ```
//!
//! They are frames like all others; `call` is 0 but for that. Both hellos whole, with a
//! nonce each, are in each proof: so no proof is of use for another connection,
//! and who stands between two nodes cannot talk them into an older version.
//! The role keeps one side's proof from being sent back as the other's.
//!
//! The versions come first and stay first: what follows may change with them.
//! Within a version fields are only added, at the end, and flags, features and
//! standings that are unknown mean nothing. The starts are those that the
//! store remembers, the present one last.

use super::super::frame::{Frame, put_frame};
use super::super::protocol::{NegotiatedProtocol, Protocol};
use super::super::{Hello, Identity};
use base::{ByteReader, Timestamp};
use cluster::{Remembered, STARTS_MAX, Standing};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

pub(super) const HELLO: u8 = 32;
pub(super) const PROOF: u8 = 33;
pub(super) const REFUSE: u8 = 34;

/// The longest name of a node, in bytes: longer than any URL's host may be.
const NAME_BYTES_MAX: usize = 1024;

/// The longest reason, in bytes; more is cut off.
const REASON_BYTES_MAX: usize = 512;

/// What a hello may take beside its name and its starts: more than it takes
/// now, for what later releases add.
const OTHER_BYTES_MAX: usize = 1024;

/// The longest payload of a handshake.
pub(crate) const HANDSHAKE_BYTES_MAX: usize =
    OTHER_BYTES_MAX + NAME_BYTES_MAX + STARTS_MAX * size_of::<u64>();

const FLAG_ACCEPTED: u8 = 1;
const FLAG_REMEMBERS: u8 = 2;

/// A side's challenge to the other.
pub(super) type Nonce = [u8; 32];

/// Whose proof it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The side that dialled.
    Dialler,
    /// The side that was dialled.
    Acceptor,
}

/// Why a node is not taken for a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It speaks no version of the protocol that this node does.
    Version {
        /// What this node speaks.
        own: Protocol,
        /// What it speaks.
        other: Protocol,
    },
    /// Its hello makes no sense.
    Hello,
    /// It has another list of nodes.
    Members,
    /// Its name is not in the list of nodes.
    Unknown(String),
    /// It has this node's own name.
    OwnName,
    /// Another node was expected at its address.
    Unexpected {
        /// The name that was expected.
        expected: String,
        /// The name that it gives.
        name: String,
    },
    /// It does not know the cluster's secret.
    Secret,
    /// Its start before is still heard from.
    Early,
}

impl Refusal {
    /// Whether it may pass by itself, soon.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, Self::Early)
    }
}

/// The text is for the logs of both sides, so it names neither "me" nor "you".
impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { own, other } => write!(
                formatter,
                "the nodes share no version of the peer protocol: one speaks {own}, the other \
                 {other}; update the older one"
            ),
            Self::Hello => formatter.write_str("the hello makes no sense"),
            Self::Members => formatter.write_str("the nodes have different lists of nodes"),
            Self::Unknown(name) => write!(formatter, "no node of the cluster is named {name:?}"),
            Self::OwnName => formatter.write_str("both nodes have the same name"),
            Self::Unexpected { expected, name } => write!(
                formatter,
                "the node that was dialled is {name:?}, not {expected:?}"
            ),
            Self::Secret => formatter.write_str("the nodes have different secrets"),
            Self::Early => formatter.write_str(
                "the node has started anew while its start before is still connected. A restart \
                 is taken in a moment; if a copy of a running node's folder was started, stop the \
                 copy",
            ),
        }
    }
}

/// Appends a hello.
pub(super) fn put_hello(
    out: &mut Vec<u8>,
    protocol: Protocol,
    introduction: &Hello,
    nonce: &Nonce,
) {
    let Hello {
        identity,
        is_accepted,
        standing,
        remembered,
        greatest_seen,
        unix_ms,
    } = introduction;
    let accepted = if *is_accepted { FLAG_ACCEPTED } else { 0 };
    let remembers = if remembered.is_some() {
        FLAG_REMEMBERS
    } else {
        0
    };
    let remembered = remembered.unwrap_or(Remembered {
        store_id: 0,
        start: 0,
    });
    // There are at most so many, the present one last.
    let starts = &identity.starts[identity.starts.len().saturating_sub(STARTS_MAX)..];
    put_frame(out, HELLO, 0, |out| {
        out.extend_from_slice(&protocol.least.to_le_bytes());
        out.extend_from_slice(&protocol.greatest.to_le_bytes());
        out.extend_from_slice(&protocol.features.to_le_bytes());
        out.push(accepted | remembers);
        out.push(*standing as u8);
        for number in [
            identity.members_hash,
            identity.store_id,
            remembered.store_id,
            remembered.start,
            *unix_ms,
            greatest_seen.as_u64(),
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(nonce);
        out.extend_from_slice(&(identity.name.len() as u16).to_le_bytes());
        out.extend_from_slice(identity.name.as_bytes());
        out.extend_from_slice(&(starts.len() as u16).to_le_bytes());
        for start in starts {
            out.extend_from_slice(&start.to_le_bytes());
        }
    });
}

/// What a hello says to a node that speaks `own`, and what the two speak with
/// each other; the nonce is only for the proofs.
///
/// # Errors
/// [`Refusal::Version`], [`Refusal::Hello`].
pub(super) fn decode_hello(
    own: Protocol,
    hello: &[u8],
) -> Result<(NegotiatedProtocol, Hello), Refusal> {
    let mut fields = ByteReader::new(hello);
    let other = decode_protocol(&mut fields).ok_or(Refusal::Hello)?;
    let negotiated = own.with(other).ok_or(Refusal::Version { own, other })?;
    let hello = decode_fields(&mut fields).ok_or(Refusal::Hello)?;
    Ok((negotiated, hello))
}

fn decode_protocol(fields: &mut ByteReader<'_>) -> Option<Protocol> {
    Some(Protocol {
        least: fields.u16()?,
        greatest: fields.u16()?,
        features: fields.u64()?,
    })
}

/// What follows the protocol.
fn decode_fields(fields: &mut ByteReader<'_>) -> Option<Hello> {
    let [flags, standing] = fields.array()?;
    let [members_hash, store_id] = [fields.u64()?, fields.u64()?];
    let remembered = Remembered {
        store_id: fields.u64()?,
        start: fields.u64()?,
    };
    let unix_ms = fields.u64()?;
    let greatest_seen = Timestamp::from_u64(fields.u64()?);
    let _nonce: Nonce = fields.array()?;
    let name_bytes = usize::from(fields.u16()?);
    let name = str::from_utf8(fields.bytes(name_bytes)?).ok()?;
    let count = usize::from(fields.u16()?);
    if count == 0 || count > STARTS_MAX {
        return None;
    }
    let starts = (0..count).map(|_| fields.u64());
    Some(Hello {
        identity: Identity {
            name: name.to_owned(),
            members_hash,
            store_id,
            starts: starts.collect::<Option<_>>()?,
        },
        is_accepted: flags & FLAG_ACCEPTED != 0,
        standing: Standing::of_code(standing),
        remembered: (flags & FLAG_REMEMBERS != 0).then_some(remembered),
        greatest_seen,
        unix_ms,
    })
}

/// Whether the node `other` is a peer of the node `own`, as far as its hello
/// tells. `is_member`: whether the list of nodes has its name; `expected`: the
/// name of the node that was dialled, on the side that dialled.
///
/// # Errors
/// Why it is not.
pub(super) fn judge(
    own: &Identity,
    other: &Identity,
    is_member: bool,
    expected: Option<&str>,
) -> Result<(), Refusal> {
    // First what explains most: with different lists names differ as well.
    if own.members_hash != other.members_hash {
        return Err(Refusal::Members);
    }
    if own.name == other.name {
        return Err(Refusal::OwnName);
    }
    if !is_member {
        return Err(Refusal::Unknown(other.name.clone()));
    }
    match expected {
        Some(expected) if expected != other.name => Err(Refusal::Unexpected {
            expected: expected.to_owned(),
            name: other.name.clone(),
        }),
        _ => Ok(()),
    }
}

/// The two hellos of a connection, as they were sent.
#[derive(Clone, Copy)]
pub(super) struct Hellos<'a> {
    /// Of the side that dialled.
    pub(super) dialler: &'a [u8],
    /// Of the side that was dialled.
    pub(super) acceptor: &'a [u8],
}

impl Hellos<'_> {
    /// Appends the proof that the side of this role knows the secret.
    pub(super) fn put_proof(self, out: &mut Vec<u8>, secret: &[u8], role: Role) {
        let code = self.code(secret, role).finalize().into_bytes();
        put_frame(out, PROOF, 0, |out| out.extend_from_slice(&code));
    }

    /// Checks the proof of the side of this role, in a time that does not
    /// depend on how wrong it is.
    ///
    /// # Errors
    /// [`Refusal::Secret`].
    pub(super) fn check_proof(
        self,
        proof: &[u8],
        secret: &[u8],
        role: Role,
    ) -> Result<(), Refusal> {
        self.code(secret, role)
            .verify_slice(proof)
            .map_err(|_| Refusal::Secret)
    }

    fn code(self, secret: &[u8], role: Role) -> Hmac<Sha256> {
        let Ok(mut code) = Hmac::<Sha256>::new_from_slice(secret) else {
            unreachable!("HMAC takes keys of every length")
        };
        code.update(&[match role {
            Role::Dialler => 1,
            Role::Acceptor => 2,
        }]);
        for hello in [self.dialler, self.acceptor] {
            code.update(&(hello.len() as u32).to_le_bytes());
            code.update(hello);
        }
        code
    }
}

/// Appends a refusal.
pub(super) fn put_refuse(out: &mut Vec<u8>, refusal: &Refusal) {
    let reason = refusal.to_string();
    let reason = &reason.as_bytes()[..reason.len().min(REASON_BYTES_MAX)];
    let may_pass = u64::from(refusal.may_pass());
    put_frame(out, REFUSE, may_pass, |out| out.extend_from_slice(reason));
}

/// The reason that the other side gives. It can be any bytes: what is no text
/// is replaced, and whoever logs it quotes it.
pub(super) fn decode_refuse(frame: Frame<'_>) -> String {
    let end = frame.payload.len().min(REASON_BYTES_MAX);
    String::from_utf8_lossy(&frame.payload[..end]).into_owned()
}
