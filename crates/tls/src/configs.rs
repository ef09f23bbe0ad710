//! Configurations of rustls, the same for all of the project.

use crate::material::{Authorities, Identity, MaterialError, provider};
use rustls::client::Resumption;
use rustls::crypto::ring::Ticketer;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, ServerConfig};
use std::sync::Arc;

/// The only protocol that a node speaks over TLS, as ALPN names it.
const ALPN: &[u8] = b"http/1.1";

fn refused(error: impl std::fmt::Display) -> MaterialError {
    MaterialError::Refused(error.to_string())
}

/// The side of a server that shows `identity`. With `clients`, a client may show a
/// certificate of these authorities; one that shows another is refused.
///
/// Sessions are resumed from tickets, which clients keep: the server keeps nothing.
///
/// # Errors
/// rustls refuses the identity or the authorities.
pub fn server_config(
    identity: &Identity,
    clients: Option<&Authorities>,
) -> Result<Arc<ServerConfig>, MaterialError> {
    let provider = provider();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(refused)?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let roots = Arc::clone(&clients.roots);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                .allow_unauthenticated()
                .build()
                .map_err(refused)?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let resolver = SingleCertAndKey::from(Arc::clone(&identity.certified));
    let mut config = builder.with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.ticketer = Ticketer::new().map_err(refused)?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    // A client of HTTP/1.1 needs one for its next connection.
    config.send_tls13_tickets = 1;
    Ok(Arc::new(config))
}

/// The side of a client that trusts `authorities`, and shows `identity` to servers that
/// ask for one. With an identity no session is resumed, so that both sides verify each
/// other's certificate for each connection.
///
/// # Errors
/// rustls refuses the identity.
pub fn client_config(
    authorities: &Authorities,
    identity: Option<&Identity>,
) -> Result<Arc<ClientConfig>, MaterialError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(refused)?
        .with_root_certificates(Arc::clone(&authorities.roots));
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let resolver = SingleCertAndKey::from(Arc::clone(&identity.certified));
            let mut config = builder.with_client_cert_resolver(Arc::new(resolver));
            config.resumption = Resumption::disabled();
            config
        }
    };
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}
