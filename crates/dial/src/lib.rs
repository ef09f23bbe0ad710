//! How connections are opened: to look up the addresses of a host, and to connect to the first
//! of them that answers.
//!
//! Both can be slow without a fault of the host. A resolver whose first server is down takes
//! seconds, and a host may have several addresses of which some are silent, as in two networks
//! or in two families of which one has no route.
//!
//! - [`Resolver`] (`resolver`) looks hosts up on threads of their own. A look-up goes on if
//!   nobody waits for it any more, so an attempt to connect that is given up finds its result
//!   the next time. Addresses that were found stay in use while the resolver is slow or fails.
//! - [`connect`] (`racing`) tries addresses in turn without waiting for the silent ones
//!   (Happy Eyeballs, RFC 8305).
//!
//! The crate knows nothing of the store, of TLS and of HTTP: nodes and clients use it alike.

mod racing;
mod resolver;

pub use racing::{connect, connect_within};
pub use resolver::{Lookup, Resolver};
