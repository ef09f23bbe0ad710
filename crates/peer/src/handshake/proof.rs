//! The proof: how each side shows that it knows the cluster's secret.
//!
//! ```text
//! kind  message  payload
//!   33  proof    HMAC-SHA256, 32 bytes
//!
//! proof = HMAC(secret, role u8 | length u32 | payload of the dialler's hello
//!                              | length u32 | payload of the acceptor's hello)
//! role  = 1 dialler | 2 acceptor
//! ```
//!
//! Each proof covers both hellos whole. Each hello has a nonce, so a proof is useless for another
//! connection. The proof also covers versions and features, so nobody between two nodes can
//! downgrade them. The role prevents one side's proof from being sent back as the other's.
//!
//! While the secret of a cluster changes, a node knows two: it proves the first, and accepts a
//! proof of either. So two nodes accept each other if each knows the other's first secret.

use super::refusal::Refusal;
use crate::wire::frame::put_frame;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::sync::Arc;

/// What nodes prove that share no secret.
const NO_SECRET: &[u8] = &[];

/// The kind of the frame that carries a proof.
pub(super) const PROOF: u8 = 33;

/// The side whose proof it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The side that dialled.
    Dialler,
    /// The side that was dialled.
    Acceptor,
}

/// The payloads of a connection's two hellos, as they were sent.
#[derive(Clone, Copy)]
pub(super) struct Hellos<'a> {
    /// The hello of the side that dialled.
    pub(super) dialler: &'a [u8],
    /// The hello of the side that was dialled.
    pub(super) acceptor: &'a [u8],
}

impl Hellos<'_> {
    /// Appends the proof that the side with this role knows the first of these secrets.
    pub(super) fn put_proof(self, out: &mut Vec<u8>, secrets: &[Arc<[u8]>], role: Role) {
        let secret = secrets.first().map_or(NO_SECRET, |secret| secret);
        let code = self.code(secret, role).finalize().into_bytes();
        put_frame(out, PROOF, 0, |out| out.extend_from_slice(&code));
    }

    /// Checks whether the side with this role has proved that it knows one of these
    /// secrets. The check takes the same time however many bytes of the proof are wrong.
    ///
    /// # Errors
    /// [`Refusal::Secret`].
    pub(super) fn check_proof(
        self,
        proof: &[u8],
        secrets: &[Arc<[u8]>],
        role: Role,
    ) -> Result<(), Refusal> {
        let proves = |secret: &[u8]| self.code(secret, role).verify_slice(proof).is_ok();
        let is_proved = match secrets {
            [] => proves(NO_SECRET),
            secrets => secrets.iter().any(|secret| proves(secret)),
        };
        is_proved.then_some(()).ok_or(Refusal::Secret)
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
