//! What two nodes say of themselves, and how each proves that it may.
//!
//! ```text
//! kind  message  payload
//!   32  hello    version u16 | flags u8 | members hash u64 | store id u64
//!                | remembered store id u64 | wall clock in ms u64
//!                | nonce, 32 bytes | name bytes u16 | name
//!   33  proof    HMAC-SHA256, 32 bytes
//!   34  refuse   the reason, in UTF-8
//!
//! flags = 1 accepted | 2 remembers
//!
//! proof = HMAC(secret, role u8 | length u32 | hello of the side that dialled
//!                              | length u32 | hello of the side that was dialled)
//! ```
//!
//! They are frames like all others; `call` is 0. Both hellos, with a nonce
//! each, are in each proof, so that no proof is of use for another connection;
//! the role keeps one side's from being sent back as the other's.
//!
//! The version comes first and stays first: the rest may change with it.

use super::super::frame::{Frame, put_frame};
use super::super::{Identity, Introduction};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// The version of the peer protocol. Peers that differ refuse each other.
pub(super) const VERSION: u16 = 1;

pub(super) const HELLO: u8 = 32;
pub(super) const PROOF: u8 = 33;
pub(super) const REFUSE: u8 = 34;

/// The longest name of a node, in bytes: longer than any URL's host may be.
const NAME_BYTES_MAX: usize = 1024;

/// The longest reason, in bytes; more is cut off.
const REASON_BYTES_MAX: usize = 512;

/// The longest payload of a handshake.
pub(in super::super) const HANDSHAKE_BYTES_MAX: usize = NAME_BYTES_MAX + 128;

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
    /// It speaks another version of the protocol.
    Version(u16),
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
}

/// The text is for the logs of both sides, so it names neither "me" nor "you".
impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(
                formatter,
                "the nodes speak different versions of the peer protocol: {VERSION} and {version}"
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
        }
    }
}

/// Appends a hello.
pub(super) fn put_hello(out: &mut Vec<u8>, introduction: &Introduction, nonce: &Nonce) {
    let Introduction {
        identity,
        remembered,
        unix_ms,
    } = introduction;
    let accepted = if identity.is_accepted {
        FLAG_ACCEPTED
    } else {
        0
    };
    let remembers = if remembered.is_some() {
        FLAG_REMEMBERS
    } else {
        0
    };
    put_frame(out, HELLO, 0, |out| {
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.push(accepted | remembers);
        out.extend_from_slice(&identity.members_hash.to_le_bytes());
        out.extend_from_slice(&identity.store_id.to_le_bytes());
        out.extend_from_slice(&remembered.unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&unix_ms.to_le_bytes());
        out.extend_from_slice(nonce);
        out.extend_from_slice(&(identity.name.len() as u16).to_le_bytes());
        out.extend_from_slice(identity.name.as_bytes());
    });
}

/// What a hello says; its nonce is only for the proofs.
///
/// # Errors
/// [`Refusal::Version`], [`Refusal::Hello`].
pub(super) fn decode_hello(hello: &[u8]) -> Result<Introduction, Refusal> {
    let (version, rest) = hello.split_first_chunk().ok_or(Refusal::Hello)?;
    let version = u16::from_le_bytes(*version);
    if version != VERSION {
        return Err(Refusal::Version(version));
    }
    let (flags, rest) = rest.split_first().ok_or(Refusal::Hello)?;
    let (members_hash, rest) = split_u64(rest)?;
    let (store_id, rest) = split_u64(rest)?;
    let (remembered, rest) = split_u64(rest)?;
    let (unix_ms, rest) = split_u64(rest)?;
    let (_, rest) = rest
        .split_first_chunk::<{ size_of::<Nonce>() }>()
        .ok_or(Refusal::Hello)?;
    let (name_bytes, name) = rest.split_first_chunk().ok_or(Refusal::Hello)?;
    if name.len() != usize::from(u16::from_le_bytes(*name_bytes))
        || flags & !(FLAG_ACCEPTED | FLAG_REMEMBERS) != 0
    {
        return Err(Refusal::Hello);
    }
    let name = str::from_utf8(name).map_err(|_| Refusal::Hello)?;
    Ok(Introduction {
        identity: Identity {
            name: name.to_owned(),
            members_hash,
            store_id,
            is_accepted: flags & FLAG_ACCEPTED != 0,
        },
        remembered: (flags & FLAG_REMEMBERS != 0).then_some(remembered),
        unix_ms,
    })
}

fn split_u64(bytes: &[u8]) -> Result<(u64, &[u8]), Refusal> {
    let (number, rest) = bytes.split_first_chunk().ok_or(Refusal::Hello)?;
    Ok((u64::from_le_bytes(*number), rest))
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
    put_frame(out, REFUSE, 0, |out| out.extend_from_slice(reason));
}

/// The reason that the other side gives. It can be any bytes: what is no text
/// is replaced, and whoever logs it quotes it.
pub(super) fn decode_refuse(frame: Frame<'_>) -> String {
    let end = frame.payload.len().min(REASON_BYTES_MAX);
    String::from_utf8_lossy(&frame.payload[..end]).into_owned()
}
