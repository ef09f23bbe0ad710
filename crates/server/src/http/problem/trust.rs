//! Problems of trust: who may use the node, in whose name, and over which connections.

use super::Problem;
use crate::trust::{Caller, Unauthenticated};
use api::problem_type::{
    NO_RIGHT, NO_TOKEN, OTHER_HOST, OTHER_ORIGIN, PEER_CERTIFICATE, TLS_REQUIRED, UPGRADE_REQUIRED,
};
use tokens::Need;

/// How much of a foreign `Host` the detail shows.
const HOST_SHOWN_BYTES: usize = 256;

impl Problem {
    /// A `Host` that is not a name of this node: a web page of that name may have sent
    /// the request.
    pub(crate) fn other_host(host: &[u8]) -> Self {
        let shown = host[..host.len().min(HOST_SHOWN_BYTES)].escape_ascii();
        Self::new(
            &OTHER_HOST,
            format!(
                "this node is not known as `{shown}`: use an IP address, localhost or a host of \
                 --cluster, or start the node with --host and that name"
            ),
        )
    }

    /// A browser sent the request for a web page of another origin.
    pub(crate) fn other_origin() -> Self {
        Self::new(
            &OTHER_ORIGIN,
            "a browser sent this request for a page of another origin (see its Origin and \
             Sec-Fetch-Site fields): pages of other sites may not use this node, unless it is \
             started with --cors-origin and their origin",
        )
    }

    /// The node does not know who sent a request that needs a token.
    pub(super) fn no_token(why: Unauthenticated) -> Self {
        let detail = match why {
            Unauthenticated::NoToken => {
                "this path needs a token: send it in one field Authorization: Bearer TOKEN. \
                 The operator of the cluster makes tokens with kvorum admin token new"
            }
            Unauthenticated::NotInForce => {
                "this node does not know the token: it may have been revoked, or is missing from \
                 this node's tokens file"
            }
        };
        let mut problem = Self::new(&NO_TOKEN, detail);
        problem.unknown = Some(why);
        problem
    }

    /// The caller's token has none of the rights that a request needs, or not for all of its
    /// keys.
    pub(crate) fn no_right(need: Need, caller: &Caller) -> Self {
        let rights = need.rights().join(" or ");
        let name = caller.token_name().unwrap_or_default();
        let of_keys = match need {
            Need::Read | Need::Write => " for all keys of the request",
            _ => "",
        };
        Self::new(
            &NO_RIGHT,
            format!(
                "the token `{name}` lacks the right `{rights}`{of_keys}: use one that has it, or \
                 change the tokens file"
            ),
        )
    }

    /// A request without TLS to a node that speaks only TLS.
    pub(crate) fn tls_required() -> Self {
        Self::new(
            &TLS_REQUIRED,
            "this request was sent without TLS, and the node speaks only TLS: use https://",
        )
    }

    /// A connection that wants to become a peer's without the certificate of a node.
    pub(crate) fn peer_certificate() -> Self {
        Self::new(
            &PEER_CERTIFICATE,
            "only a node may use this path, with a certificate that an authority of --tls-peer-ca \
             has signed for the host of a URL in --cluster",
        )
    }

    /// A request that only peers send.
    pub(crate) fn upgrade_required() -> Self {
        Self::new(
            &UPGRADE_REQUIRED,
            "only the nodes of a cluster use this path: clients use /v0/entity",
        )
    }
}
