//! An authority of a test, and the certificates that it signs.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ClientConfig;
use server::TlsFiles;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tls::{Authorities, Identity, client_config};

/// An authority, and what it signs, in a folder.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: TempDir,
}

/// Writes a file.
#[expect(clippy::disallowed_methods, reason = "files of an operator")]
pub(crate) fn write(file: &Path, text: &str) {
    std::fs::write(file, text).unwrap();
}

impl Authority {
    /// One that nobody trusts yet; its certificate is `ca.pem`.
    pub(crate) fn new() -> Self {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let pem = parameters.self_signed(&key).unwrap().pem();
        write(&folder.path().join("ca.pem"), &pem);
        Self {
            issuer: Issuer::new(parameters, key),
            folder,
        }
    }

    /// A file in its folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a certificate for a host, and its key, as `NAME.pem` and `NAME.key`.
    pub(crate) fn issue(&self, name: &str, host: &str) -> TlsFiles {
        let parameters = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let signed = parameters.signed_by(&key, &self.issuer).unwrap();
        let files = TlsFiles {
            certificate: self.file(&format!("{name}.pem")),
            key: self.file(&format!("{name}.key")),
            peer_ca: Some(self.file("ca.pem")),
        };
        write(&files.certificate, &signed.pem());
        write(&files.key, &key.serialize_pem());
        files
    }

    /// What a client trusts and shows.
    pub(crate) fn client(&self, shown: Option<&TlsFiles>) -> Arc<ClientConfig> {
        let authorities = Authorities::read(&self.file("ca.pem")).unwrap();
        let shown = shown.map(|files| Identity::read(&files.certificate, &files.key).unwrap());
        client_config(&authorities, shown.as_ref()).unwrap()
    }
}
