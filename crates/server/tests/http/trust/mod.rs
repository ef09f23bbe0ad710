//! Who may do what: TLS, tokens, and the audit log.

mod audit;
pub(crate) mod tls;
mod tls_floods;
mod tokens;
