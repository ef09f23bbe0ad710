//! The handshake: two nodes make sure that they belong together.
//!
//! ```text
//! dialler                      acceptor
//!    | ---------- hello ----------> |  a shared version, the same list, a known name?
//!    | <--------- hello ----------- |
//!    | ---------- proof ----------> |  does it know the secret?
//!    | <--------- proof ----------- |
//!    | ======== requests =========> |
//! ```
//!
//! The dialler proves itself first: whoever can reach a port gets nothing from
//! it that the secret could be guessed with. A side that refuses the other
//! says why and closes; both log it. `hello.rs` has the messages and decides,
//! this file sends and receives.

mod hello;

#[cfg(test)]
mod tests;

use super::frame::{Decoder, Frame, FrameError};
use super::{
    HandshakePolicy, Hello, Identity, NegotiatedProtocol, PeerEnvironment, Protocol, Session,
    Stream,
};
use cluster::{Judgement, Remembered};
use hello::{HELLO, Hellos, Nonce, PROOF, REFUSE, Refusal, Role};
use std::io;
use tokio::io::AsyncWriteExt;

pub(super) use hello::HANDSHAKE_BYTES_MAX;
#[cfg(test)]
pub(super) use tests::put_one_of_each;

/// Why there was no handshake.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    /// This node refuses the other, and has told it.
    #[error("refused by this node: {refusal}")]
    Refused {
        /// The name that the other gives, if it came so far.
        name: Option<String>,
        /// Why.
        refusal: String,
        /// Whether that may pass by itself.
        may_pass: bool,
    },
    /// The other refuses this node.
    #[error("refused by the other node: {0:?}")]
    RefusedByOther(String),
    /// The other refuses this node, and that may pass by itself.
    #[error("refused by the other node for now: {0:?}")]
    RefusedForNow(String),
    /// The other remembers a start that the store of this node has not.
    #[error(
        "the store of this node is an older state of the one that the other node remembers, or a \
         copy: it is not served. If another process has the other folder, stop this one; if there \
         is none, start this one with --accept-empty"
    )]
    Outdated,
    /// This node remembers a start that the store of the other has not.
    #[error(
        "the store of the other node is an older state of the one that is remembered, or a copy: \
         it is not served until it is started with --accept-empty"
    )]
    OtherOutdated {
        /// The name of the other.
        name: String,
    },
    /// The connection ended.
    #[error("{0}")]
    Broken(#[from] io::Error),
    /// What the other says of itself could not be made durable, or it was told
    /// what is no longer so.
    #[error("cannot take note of the other node")]
    NotNoted,
    /// What came is no handshake.
    #[error("{0}")]
    Malformed(#[from] FrameError),
}

impl HandshakeError {
    /// Whether it may pass by itself, soon: the two have not heard each other out.
    pub(super) fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Refused { may_pass: true, .. } | Self::RefusedForNow(_)
        )
    }
}

/// The dialler's side, towards the node `expected`.
///
/// # Errors
/// See [`HandshakeError`].
pub(super) async fn dial(
    stream: &mut dyn Stream,
    decoder: &mut Decoder,
    environment: &PeerEnvironment,
    expected: &str,
) -> Result<Session, HandshakeError> {
    let policy = &*environment.policy;
    let mut talk = HandshakeStream { stream, decoder };
    let (own, frame) = own_hello(environment, Some(expected));
    talk.send(&frame).await?;
    let hello = talk.receive(HELLO).await?;
    let judged = judge(policy, &hello, Some(expected));
    let (negotiated, other) = talk.accept_or_refuse(None, judged).await?;
    talk.accept_or_refuse(Some(expected), check_early(policy, &other))
        .await?;
    let hellos = Hellos {
        dialler: payload(&frame),
        acceptor: &hello,
    };
    let mut proof = Vec::new();
    hellos.put_proof(&mut proof, policy.secret(), Role::Dialler);
    talk.send(&proof).await?;
    let proof = talk.receive(PROOF).await?;
    let checked = hellos.check_proof(&proof, policy.secret(), Role::Acceptor);
    talk.accept_or_refuse(Some(&other.identity.name), checked)
        .await?;
    let session = meet(policy, &own, other, negotiated).await?;
    // The other has judged by the same hellos, and closes the connection.
    match is_outdated(session.other.remembered, &own) {
        true => Err(HandshakeError::Outdated),
        false => Ok(session),
    }
}

/// The side that was dialled.
///
/// # Errors
/// See [`HandshakeError`].
pub(super) async fn accept(
    stream: &mut dyn Stream,
    decoder: &mut Decoder,
    environment: &PeerEnvironment,
) -> Result<Session, HandshakeError> {
    let policy = &*environment.policy;
    let mut talk = HandshakeStream { stream, decoder };
    let hello = talk.receive(HELLO).await?;
    let judged = judge(policy, &hello, None);
    let (negotiated, other) = talk.accept_or_refuse(None, judged).await?;
    let name = &other.identity.name;
    let (own, frame) = own_hello(environment, Some(name));
    talk.send(&frame).await?;
    let hellos = Hellos {
        dialler: &hello,
        acceptor: payload(&frame),
    };
    let proof = talk.receive(PROOF).await?;
    let checked = hellos.check_proof(&proof, policy.secret(), Role::Dialler);
    let checked = checked.and_then(|()| check_early(policy, &other));
    talk.accept_or_refuse(Some(name), checked).await?;
    let mut proof = Vec::new();
    hellos.put_proof(&mut proof, policy.secret(), Role::Acceptor);
    talk.send(&proof).await?;
    let session = meet(policy, &own, other, negotiated).await?;
    match is_outdated(own.remembered, &session.other) {
        true => Err(HandshakeError::OtherOutdated {
            name: session.other.identity.name,
        }),
        false => Ok(session),
    }
}

/// Whether a store is not served, given what the side that is asked remembers
/// of it: it may be one of two that give the same stamps.
fn is_outdated(remembered: Option<Remembered>, of: &Hello) -> bool {
    let Identity {
        store_id, starts, ..
    } = &of.identity;
    !of.is_accepted && cluster::judge(remembered, *store_id, starts) == Judgement::Outdated
}

fn check_early(policy: &dyn HandshakePolicy, other: &Hello) -> Result<(), Refusal> {
    match policy.is_early(other) {
        true => Err(Refusal::Early),
        false => Ok(()),
    }
}

/// Both have proved who they are: takes note of the other.
async fn meet(
    policy: &dyn HandshakePolicy,
    own: &Hello,
    other: Hello,
    negotiated: NegotiatedProtocol,
) -> Result<Session, HandshakeError> {
    let met = policy.met(&other, own.remembered).await;
    let start = met.ok_or(HandshakeError::NotNoted)?;
    Ok(Session {
        other,
        negotiated,
        start,
    })
}

fn judge(
    policy: &dyn HandshakePolicy,
    hello: &[u8],
    expected: Option<&str>,
) -> Result<(NegotiatedProtocol, Hello), Refusal> {
    let (negotiated, other) = hello::decode_hello(policy.protocol(), hello)?;
    let is_member = policy.is_member(&other.identity.name);
    hello::judge(&policy.own(), &other.identity, is_member, expected)?;
    Ok((negotiated, other))
}

/// How this node introduces itself, and the frame that says so.
fn own_hello(environment: &PeerEnvironment, other: Option<&str>) -> (Hello, Vec<u8>) {
    let policy = &*environment.policy;
    let mut nonce: Nonce = [0; 32];
    for bytes in nonce.chunks_exact_mut(8) {
        bytes.copy_from_slice(&environment.random.next_u64().to_le_bytes());
    }
    let unix_ms = environment.clock.unix_ms();
    let introduction = policy.hello_to(other, unix_ms);
    let mut frame = Vec::new();
    hello::put_hello(&mut frame, policy.protocol(), &introduction, &nonce);
    (introduction, frame)
}

fn payload(frame: &[u8]) -> &[u8] {
    frame.get(super::frame::HEADER_BYTES..).unwrap_or_default()
}

/// Takes a frame for each message of a handshake.
pub(super) fn fuzz_hello(frame: Frame<'_>) {
    if let Ok((_, introduction)) = hello::decode_hello(Protocol::OWN, frame.payload) {
        let Identity { name, starts, .. } = introduction.identity;
        assert!(name.len() + size_of_val(&*starts) <= frame.payload.len());
    }
    assert!(hello::decode_refuse(frame).len() <= 3 * frame.payload.len());
}

/// Both directions of a connection whose frames come one at a time.
struct HandshakeStream<'a> {
    stream: &'a mut dyn Stream,
    decoder: &'a mut Decoder,
}

impl HandshakeStream<'_> {
    async fn send(&mut self, frame: &[u8]) -> Result<(), HandshakeError> {
        self.stream.write_all(frame).await?;
        self.stream.flush().await?;
        Ok(())
    }

    /// The payload of the next frame, which must be of this kind.
    async fn receive(&mut self, kind: u8) -> Result<Vec<u8>, HandshakeError> {
        loop {
            match self.decoder.next()? {
                Some(frame) if frame.kind == kind => return Ok(frame.payload.to_vec()),
                Some(frame @ Frame { kind: REFUSE, .. }) => {
                    let reason = hello::decode_refuse(frame);
                    return Err(match frame.call {
                        0 => HandshakeError::RefusedByOther(reason),
                        _ => HandshakeError::RefusedForNow(reason),
                    });
                }
                Some(frame) => return Err(frame.malformed("no place in a handshake").into()),
                None => {}
            }
            if self.decoder.fill(self.stream).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    /// Tells the other side why it is refused, if it is.
    async fn accept_or_refuse<T>(
        &mut self,
        name: Option<&str>,
        judged: Result<T, Refusal>,
    ) -> Result<T, HandshakeError> {
        let refusal = match judged {
            Ok(accepted) => return Ok(accepted),
            Err(refusal) => refusal,
        };
        let mut frame = Vec::new();
        hello::put_refuse(&mut frame, &refusal);
        self.send(&frame).await?;
        self.stream.shutdown().await?;
        Err(HandshakeError::Refused {
            name: name.map(str::to_owned),
            refusal: refusal.to_string(),
            may_pass: refusal.may_pass(),
        })
    }
}
