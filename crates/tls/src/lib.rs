//! TLS for both ends: certificates, keys and authorities from files, and what rustls
//! makes of them.
//!
//! - `material` reads PEM: an [`Identity`] is a certificate with its chain and its key,
//!   [`Authorities`] are the certificates that others are verified with.
//! - `configs` makes configurations of rustls of them, the same for all of the project:
//!   TLS 1.2 and 1.3, the cryptography of ring, ALPN `http/1.1`.
//! - [`NodeTls`] (`node_tls`) is what a node uses: both configurations, made again when
//!   the files change. A change that cannot be used leaves the last good one in force.
//! - `own_chain` says whether other nodes would accept a node's certificate.
//! - [`TlsFailure`] (`failure`) says why a handshake failed, and what to do.
//! - `validity` reads from a certificate until when it is valid, and `key_kind` from a key
//!   that cannot be used why.
//!
//! The crate knows neither sockets nor clocks: streams and times are the callers'. It
//! knows nothing of the store, so clients use it as well.

mod configs;
mod failure;
mod key_kind;
mod material;
mod node_tls;
mod own_chain;
mod validity;

pub use configs::{client_config, server_config};
pub use failure::{HandshakeFailure, TlsFailure, explain};
pub use material::{Authorities, Identity, MaterialError};
pub use node_tls::{Expected, NodeTls, TlsFiles, TlsStatus, is_for_any};
