//! Authorities and certificates for tests.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::{ClientConfig, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tls::{Authorities, Identity};

/// An authority, whose files go with it.
pub(crate) struct TestAuthority {
    issuer: Issuer<'static, KeyPair>,
    folder: TempDir,
}

impl TestAuthority {
    pub(crate) fn new() -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca"), certificate.pem()).unwrap();
        let issuer = Issuer::new(parameters, key);
        Self { issuer, folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn authorities(&self) -> Authorities {
        Authorities::read(&self.file("ca")).unwrap()
    }

    /// A certificate for a host.
    pub(crate) fn identity(&self, host: &str, has_expired: bool) -> Identity {
        let mut parameters = CertificateParams::new(vec![host.to_owned()]).unwrap();
        parameters.not_before = date_time_ymd(2020, 1, 1);
        parameters.not_after = date_time_ymd(if has_expired { 2021 } else { 4000 }, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        let (certificate_file, key_file) = (self.file("certificate"), self.file("key"));
        write(&certificate_file, &certificate.pem());
        write(&key_file, &key.serialize_pem());
        Identity::read(&certificate_file, &key_file).unwrap()
    }

    /// A client that trusts it.
    pub(crate) fn client(&self, identity: Option<&Identity>) -> Arc<ClientConfig> {
        tls::client_config(&self.authorities(), identity).unwrap()
    }

    /// A server that trusts it, too: a client may show a certificate of it, and no other.
    pub(crate) fn server(&self, identity: &Identity) -> Arc<ServerConfig> {
        tls::server_config(identity, Some(&self.authorities())).unwrap()
    }
}

fn write(file: &Path, text: &str) {
    std::fs::write(file, text).unwrap();
}

/// A client that trusts an authority that signs nothing.
pub(crate) fn trusting_nobody() -> Arc<ClientConfig> {
    TestAuthority::new().client(None)
}
