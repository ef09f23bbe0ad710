//! An authority of a test, and the files that nodes have of it.

#![expect(
    clippy::disallowed_methods,
    reason = "the files belong to other processes"
)]

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::ClientConfig;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate.
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let common = rcgen::DnType::CommonName;
        parameters.distinguished_name.push(common, name);
        let key = KeyPair::generate().unwrap();
        let pem = parameters.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(parameters, key),
            pem,
        }
    }

    /// Writes a certificate for an address, and its key, to the files of a node.
    pub(crate) fn issue(&self, files: &NodeFiles, address: SocketAddr) {
        let parameters = parameters(address);
        let key = KeyPair::generate().unwrap();
        let signed = parameters.signed_by(&key, &self.issuer).unwrap();
        files.write(&signed.pem(), &key);
    }

    /// The same, but the certificate has expired.
    pub(crate) fn issue_expired(&self, files: &NodeFiles, address: SocketAddr) {
        let mut parameters = parameters(address);
        parameters.not_after = rcgen::date_time_ymd(2001, 1, 1);
        let key = KeyPair::generate().unwrap();
        let signed = parameters.signed_by(&key, &self.issuer).unwrap();
        files.write(&signed.pem(), &key);
    }

    /// The same, but the certificate is for servers only.
    pub(crate) fn issue_for_server(&self, files: &NodeFiles, address: SocketAddr) {
        let mut parameters = parameters(address);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let signed = parameters.signed_by(&key, &self.issuer).unwrap();
        files.write(&signed.pem(), &key);
    }
}

fn parameters(address: SocketAddr) -> CertificateParams {
    CertificateParams::new(vec![address.ip().to_string()]).unwrap()
}

/// The files of a node.
pub(crate) struct NodeFiles {
    certificate: PathBuf,
    key: PathBuf,
    peer_ca: PathBuf,
}

impl NodeFiles {
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        Self {
            certificate: folder.join(format!("{name}.pem")),
            key: folder.join(format!("{name}.key")),
            peer_ca: folder.join(format!("{name}-ca.pem")),
        }
    }

    /// Writes a certificate that nobody else has signed.
    pub(crate) fn write_self_made(&self, address: SocketAddr) {
        let key = KeyPair::generate().unwrap();
        let certificate = parameters(address).self_signed(&key).unwrap();
        self.write(&certificate.pem(), &key);
    }

    fn write(&self, certificate: &str, key: &KeyPair) {
        std::fs::write(&self.certificate, certificate).unwrap();
        std::fs::write(&self.key, key.serialize_pem()).unwrap();
    }

    /// Writes the certificates of the authorities that the node trusts.
    pub(crate) fn trust(&self, authorities: &[&Authority]) {
        let pem: String = authorities.iter().map(|each| each.pem.as_str()).collect();
        std::fs::write(&self.peer_ca, pem).unwrap();
    }

    /// The options of a node with these files.
    pub(crate) fn options(&self) -> Vec<String> {
        let of = |option: &str, file: &Path| format!("--tls-{option}={}", file.display());
        vec![
            of("cert", &self.certificate),
            of("key", &self.key),
            of("peer-ca", &self.peer_ca),
        ]
    }
}

/// A client that trusts some authorities.
pub(crate) fn client(folder: &Path, authorities: &[&Authority]) -> Arc<ClientConfig> {
    let file = folder.join("client-ca.pem");
    let pem: String = authorities.iter().map(|each| each.pem.as_str()).collect();
    std::fs::write(&file, pem).unwrap();
    tls::client_config(&tls::Authorities::read(&file).unwrap(), None).unwrap()
}
