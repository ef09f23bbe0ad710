//! An authority and a certificate for the nodes of an experiment.

use crate::Error;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ClientConfig;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tls::Authorities;

/// The host of all nodes.
const HOST: &str = "127.0.0.1";

/// The files, which go with it.
pub(crate) struct Certificates {
    folder: TempDir,
}

impl Certificates {
    /// Makes them.
    ///
    /// # Errors
    /// The system has no randomness or takes no files.
    pub(crate) fn new() -> Result<Self, Error> {
        let folder = tempfile::Builder::new()
            .prefix("kvorum-lab-tls-")
            .tempdir()
            .map_err(Error::system("a temporary folder"))?;
        let certificates = Self { folder };
        let [authority, certificate, key] = make().map_err(failed)?;
        certificates.write("authority.pem", &authority)?;
        certificates.write("node.pem", &certificate)?;
        certificates.write("node-key.pem", &key)?;
        Ok(certificates)
    }

    /// The file with the certificate of the nodes.
    ///
    /// # Errors
    /// Its path is no text.
    pub(crate) fn certificate(&self) -> Result<String, Error> {
        text_of(&self.file("node.pem"))
    }

    /// The file with its key.
    ///
    /// # Errors
    /// Its path is no text.
    pub(crate) fn key(&self) -> Result<String, Error> {
        text_of(&self.file("node-key.pem"))
    }

    /// What a client of the nodes trusts.
    ///
    /// # Errors
    /// The files are gone.
    pub(crate) fn client(&self) -> Result<Arc<ClientConfig>, Error> {
        let authorities = Authorities::read(&self.file("authority.pem")).map_err(failed)?;
        tls::client_config(&authorities, None).map_err(failed)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let file = self.file(name);
        std::fs::write(&file, text).map_err(Error::file(&file))
    }
}

/// The certificates of an authority and of the nodes, and the key of the latter, as PEM.
fn make() -> Result<[String; 3], rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let authority_key = KeyPair::generate()?;
    let certificate = authority.self_signed(&authority_key)?;
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate()?;
    let node = CertificateParams::new(vec![HOST.to_owned()])?;
    let node = node.signed_by(&key, &issuer)?;
    Ok([certificate.pem(), node.pem(), key.serialize_pem()])
}

fn failed(problem: impl Display) -> Error {
    Error::Certificates(problem.to_string())
}

fn text_of(path: &Path) -> Result<String, Error> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| failed(format!("{} is no text", path.display())))
}
