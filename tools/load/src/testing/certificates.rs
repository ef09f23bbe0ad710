//! Certificates for tests.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{ClientConfig, ServerConfig};
use std::sync::Arc;
use tls::{Authorities, Identity};

/// A server at 127.0.0.1, and a client that trusts the authority of its certificate.
pub(crate) fn pair() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let certificate = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let server = server.signed_by(&key, &issuer).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, pem: String| {
        let file = folder.path().join(name);
        std::fs::write(&file, pem).unwrap();
        file
    };
    let authorities = Authorities::read(&write("authority", certificate.pem())).unwrap();
    let (certificate, key) = (
        write("server", server.pem()),
        write("key", key.serialize_pem()),
    );
    let identity = Identity::read(&certificate, &key).unwrap();
    (
        tls::server_config(&identity, None).unwrap(),
        tls::client_config(&authorities, None).unwrap(),
    )
}
