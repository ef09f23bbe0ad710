//! The handshake: two nodes check that they belong to one cluster.
//!
//! ```text
//! dialler                      acceptor
//!    | ---------- hello ----------> |  a common version, the same list, a known name?
//!    | <--------- hello ----------- |
//!    | ---------- proof ----------> |  does the other know the secret?
//!    | <--------- proof ----------- |
//!    | ======== requests =========> |
//! ```
//!
//! The dialler proves first, so that nobody who merely reaches the port gets a proof to guess the
//! secret from. A side that refuses the other sends the reason and closes the connection; both
//! sides log it. All messages are frames; their `call` is 0, unless their drawing says otherwise.
//!
//! - `hello`: the [`Hello`], its drawing and its codec.
//! - `proof`: the proofs that both sides know the secret.
//! - `refusal`: the reasons to refuse a node.
//! - `policy`: [`HandshakePolicy`], by which the node takes part.
//! - This file sends and receives the messages, in order.
//!
//! # To add a field to the hello
//!
//! 1. `hello.rs`: add it to the drawing, to [`Hello`], to `encode` and to
//!    `decode`, at the end of the frame. A release that has the field must read a
//!    hello without it, so `decode` needs a value for its absence.
//! 2. `node/src/handshakes.rs`: fill it in `hello_to`, and read it
//!    in `record_peer`.
//! 3. Tests: the example in `handshake/tests/mod.rs`, `TestNode::named` in
//!    `tests/node.rs`, the one in `membership/src/tests/mod.rs`; and the
//!    fixture of a new version of the protocol, `crates/peer/tests/fixtures/peer-vN.frames`,
//!    which `tests/fixture.rs` reads.
//!
//! The compiler names each of these places, because each of them lists the fields.
//! It names neither the drawing nor `record_peer`.

mod hello;
mod policy;
mod proof;
mod refusal;
mod start_watch;

#[cfg(test)]
mod tests;

use crate::LinkProblem;
use crate::protocol::{NegotiatedProtocol, Protocol, REBUILDS_OUTDATED};
use crate::wire::frame::{Decoder, Frame, FrameError, HEADER_BYTES};

use crate::transport::Stream;
use cluster::{Judgement, Remembered};
use hello::{HELLO, Nonce};
use proof::{Hellos, PROOF, Role};
use refusal::{REFUSE, Refusal, Standing, StatedRefusal, check_peer};
use std::io;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;

pub(super) use hello::HANDSHAKE_BYTES_MAX;
pub use hello::Hello;
pub(super) use policy::HandshakeEnvironment;
pub use policy::HandshakePolicy;
pub use start_watch::{LiveLink, PeerStart, StartWatch};
#[cfg(test)]
pub(super) use tests::put_one_of_each;

/// What a handshake ends with: the two nodes take each other for peers.
#[derive(Debug)]
pub(super) struct Session {
    /// The other side's hello.
    pub(super) peer: Hello,
    /// What the two sides have negotiated.
    pub(super) negotiated: NegotiatedProtocol,
    /// Whether the other side has restarted since.
    pub(super) start: StartWatch,
    /// Whether the dialler's store is outdated to the acceptor, which then serves it
    /// only what rebuilds it.
    pub(super) is_dialler_outdated: bool,
    /// Whether one of the two is no member to the other, so that the acceptor only hands the dialler
    /// lists of members.
    pub(super) is_for_lists: bool,
}

impl Session {
    /// That of two nodes of which one is no member to the other: nothing is remembered of it.
    fn of_outsiders(peer: Hello, negotiated: NegotiatedProtocol) -> Self {
        Self {
            peer,
            negotiated,
            start: StartWatch::new(Arc::default()),
            is_dialler_outdated: false,
            is_for_lists: true,
        }
    }
}

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    /// This node refuses the other, and has sent it the reason.
    #[error("refused by this node: {refusal}")]
    Refused {
        /// The name of the other node, if this node trusts its hello so far.
        name: Option<String>,
        /// Why.
        refusal: Refusal,
    },
    /// The other node refuses this one.
    #[error(
        "refused by the other node{}: {:?}",
        if .0.is_temporary() { " for now" } else { "" },
        .0.reason
    )]
    RefusedByOther(StatedRefusal),
    /// The other node remembers more of this node's store than it has, and does not
    /// know how to fill it.
    #[error(
        "the other node remembers a later state of this node's store, and its release cannot \
         rebuild it: upgrade that node"
    )]
    Outdated,
    /// This node remembers more of the other node's store than it has, and that node does
    /// not know how to be rebuilt.
    #[error(
        "this node remembers a later state of the other node's store, and that node's release \
         cannot rebuild it: upgrade that node"
    )]
    OtherOutdated {
        /// The name of the other node.
        name: String,
    },
    /// The connection ended.
    #[error("{0}")]
    Broken(#[from] io::Error),
    /// The node could not record the other's hello durably, or the hello that it
    /// sent is out of date by now.
    #[error("the node could not record the other node's hello")]
    NotRecorded,
    /// The other side sent something else than a handshake.
    #[error("{0}")]
    Malformed(#[from] FrameError),
}

impl HandshakeError {
    /// What is wrong between the two nodes, if one of them has said so.
    pub(super) fn problem(&self) -> Option<LinkProblem> {
        match self {
            Self::Refused { refusal, .. } => refusal.problem(),
            Self::RefusedByOther(stated) => stated.problem(),
            _ => None,
        }
    }

    /// Whether the reason goes away by itself within a moment.
    pub(super) fn is_temporary(&self) -> bool {
        match self {
            Self::Refused { refusal, .. } => refusal.is_temporary(),
            Self::RefusedByOther(stated) => stated.is_temporary(),
            _ => false,
        }
    }
}

/// Runs the dialler's side of a handshake with the node `expected`.
///
/// # Errors
/// See [`HandshakeError`].
pub(super) async fn dial(
    stream: &mut dyn Stream,
    decoder: &mut Decoder,
    environment: HandshakeEnvironment<'_>,
    expected: Option<&str>,
) -> Result<Session, HandshakeError> {
    let policy = environment.policy;
    let mut messages = Messages { stream, decoder };
    let ours = own_hello(environment, expected);
    let sent = encode_hello(environment, &ours);
    messages.send(&sent).await?;
    let received = messages.receive(HELLO).await?;
    let decoded = Hello::decode(policy.protocol(), &received);
    let checked = decoded.and_then(|(negotiated, theirs)| {
        let is_member = policy.is_member(&theirs.name);
        let standing = check_peer(&ours, &theirs, is_member, expected)?;
        Ok((negotiated, theirs, standing))
    });
    let (negotiated, theirs, standing) = messages.accept_or_refuse(None, checked).await?;
    let checked = check_previous_start(policy, &theirs);
    messages
        .accept_or_refuse(Some(&theirs.name), checked)
        .await?;
    let hellos = Hellos {
        dialler: payload(&sent),
        acceptor: &received,
    };
    let mut proof = Vec::new();
    hellos.put_proof(&mut proof, &policy.secrets(), Role::Dialler);
    messages.send(&proof).await?;
    let proof = messages.receive(PROOF).await?;
    let checked = hellos.check_proof(&proof, &policy.secrets(), Role::Acceptor);
    messages
        .accept_or_refuse(Some(&theirs.name), checked)
        .await?;
    if standing == Standing::Outsiders {
        return Ok(Session::of_outsiders(theirs, negotiated));
    }
    let mut session = record(policy, &ours, theirs, negotiated).await?;
    // The acceptor judges by the same hellos.
    session.is_dialler_outdated = is_outdated(session.peer.remembered, &ours);
    if session.is_dialler_outdated && !negotiated.has(REBUILDS_OUTDATED) {
        Err(HandshakeError::Outdated)
    } else {
        Ok(session)
    }
}

/// Runs the acceptor's side of a handshake.
///
/// # Errors
/// See [`HandshakeError`].
pub(super) async fn accept(
    stream: &mut dyn Stream,
    decoder: &mut Decoder,
    environment: HandshakeEnvironment<'_>,
) -> Result<Session, HandshakeError> {
    let policy = environment.policy;
    let mut messages = Messages { stream, decoder };
    let received = messages.receive(HELLO).await?;
    let decoded = Hello::decode(policy.protocol(), &received);
    let checked = decoded.and_then(|(negotiated, theirs)| {
        let ours = own_hello(environment, Some(&theirs.name));
        let standing = check_peer(&ours, &theirs, policy.is_member(&theirs.name), None)?;
        Ok((negotiated, theirs, ours, standing))
    });
    let (negotiated, theirs, ours, standing) = messages.accept_or_refuse(None, checked).await?;
    let sent = encode_hello(environment, &ours);
    messages.send(&sent).await?;
    let hellos = Hellos {
        dialler: &received,
        acceptor: payload(&sent),
    };
    let proof = messages.receive(PROOF).await?;
    let checked = hellos.check_proof(&proof, &policy.secrets(), Role::Dialler);
    let checked = checked.and_then(|()| check_previous_start(policy, &theirs));
    messages
        .accept_or_refuse(Some(&theirs.name), checked)
        .await?;
    let mut proof = Vec::new();
    hellos.put_proof(&mut proof, &policy.secrets(), Role::Acceptor);
    messages.send(&proof).await?;
    if standing == Standing::Outsiders || environment.only_lists {
        return Ok(Session::of_outsiders(theirs, negotiated));
    }
    let mut session = record(policy, &ours, theirs, negotiated).await?;
    session.is_dialler_outdated = is_outdated(ours.remembered, &session.peer);
    if session.is_dialler_outdated && !negotiated.has(REBUILDS_OUTDATED) {
        return Err(HandshakeError::OtherOutdated {
            name: session.peer.name,
        });
    }
    // Not before: two nodes that cannot use each other's connections would dial each other
    // without a pause.
    policy.has_dialled(&session.peer.name);
    Ok(session)
}

/// Whether the dialler's store is outdated, given what the acceptor remembers of it:
/// the store may be one of two that issue the same timestamps.
fn is_outdated(remembered: Option<Remembered>, dialler: &Hello) -> bool {
    let judgement = cluster::judge(remembered, dialler.claim());
    !dialler.is_accepted && judgement == Judgement::Outdated
}

fn check_previous_start(policy: &dyn HandshakePolicy, theirs: &Hello) -> Result<(), Refusal> {
    if policy.is_previous_start_live(theirs) {
        Err(Refusal::PreviousStartLive)
    } else {
        Ok(())
    }
}

/// Lets the node record the other's hello, once both sides have proved themselves.
async fn record(
    policy: &dyn HandshakePolicy,
    ours: &Hello,
    theirs: Hello,
    negotiated: NegotiatedProtocol,
) -> Result<Session, HandshakeError> {
    let watch = policy.record_peer(&theirs, ours).await;
    let start = watch.ok_or(HandshakeError::NotRecorded)?;
    Ok(Session {
        peer: theirs,
        negotiated,
        start,
        is_dialler_outdated: false,
        is_for_lists: false,
    })
}

fn own_hello(environment: HandshakeEnvironment<'_>, name: Option<&str>) -> Hello {
    let unix_ms = environment.clock.unix_ms();
    let mut hello = environment.policy.hello_to(name, unix_ms);
    if environment.introduces {
        hello.waits = true;
        hello.list.cluster = 0;
    }
    hello
}

/// The frame of a hello, with a fresh nonce.
fn encode_hello(environment: HandshakeEnvironment<'_>, hello: &Hello) -> Vec<u8> {
    let mut nonce: Nonce = [0; 32];
    for bytes in nonce.chunks_exact_mut(8) {
        bytes.copy_from_slice(&environment.random.next_u64().to_le_bytes());
    }
    let mut frame = Vec::new();
    hello.encode(&mut frame, &nonce);
    frame
}

fn payload(frame: &[u8]) -> &[u8] {
    frame.get(HEADER_BYTES..).unwrap_or_default()
}

/// Decodes a frame as each message of a handshake, for the fuzzer.
pub(super) fn fuzz_hello(frame: Frame<'_>) {
    if let Ok((_, Hello { name, starts, .. })) = Hello::decode(Protocol::OWN, frame.payload) {
        assert!(name.len() + size_of_val(&*starts) <= frame.payload.len());
    }
    assert!(StatedRefusal::decode(frame).reason.len() <= 3 * frame.payload.len());
}

/// The messages of a handshake, one at a time in each direction.
struct Messages<'a> {
    stream: &'a mut dyn Stream,
    decoder: &'a mut Decoder,
}

impl Messages<'_> {
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
                    let stated = StatedRefusal::decode(frame);
                    return Err(HandshakeError::RefusedByOther(stated));
                }
                Some(frame) => return Err(frame.malformed("no place in a handshake").into()),
                None => {}
            }
            if self.decoder.fill(self.stream).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    /// Returns what was checked, or sends the other side why it is refused.
    async fn accept_or_refuse<T>(
        &mut self,
        name: Option<&str>,
        checked: Result<T, Refusal>,
    ) -> Result<T, HandshakeError> {
        let refusal = match checked {
            Ok(accepted) => return Ok(accepted),
            Err(refusal) => refusal,
        };
        let mut frame = Vec::new();
        refusal.encode(&mut frame);
        self.send(&frame).await?;
        self.stream.shutdown().await?;
        Err(HandshakeError::Refused {
            name: name.map(str::to_owned),
            refusal,
        })
    }
}
