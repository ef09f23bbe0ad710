//! Authorities and the certificates that they sign, for `admin cert` and `dev`.
//!
//! A certificate of an authority can be made again of its key alone, so no command reads one to
//! sign: its name and the form of its key's identifier are always the same.

use crate::failure::Failure;
use base::{Clock, SystemClock};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, NameConstraints, date_time_ymd,
};
use std::fmt::Display;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// From how long ago certificates are valid: clocks differ.
const SINCE: Duration = Duration::from_secs(3600);

const DAY: Duration = Duration::from_secs(24 * 3600);

/// How long certificates of nodes are valid. Some clients refuse those that are longer.
pub(crate) const NODE_DAYS: u32 = 397;

/// How long that of an authority is.
const AUTHORITY_DAYS: u32 = 3650;

/// An authority.
pub(crate) struct SigningAuthority {
    parameters: CertificateParams,
    key: KeyPair,
}

/// A certificate and its key, in PEM.
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl SigningAuthority {
    /// The authority of this name that has the key, or a new one.
    ///
    /// # Errors
    /// What is no key.
    pub(crate) fn new(name: &str, key: Option<&str>) -> Result<Self, rcgen::Error> {
        let mut parameters = CertificateParams::new(Vec::new())?;
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        set_validity(&mut parameters, AUTHORITY_DAYS);
        let key = match key {
            Some(pem) => KeyPair::from_pem(pem)?,
            None => KeyPair::generate()?,
        };
        Ok(Self { parameters, key })
    }

    /// Limits what the authority may sign for.
    pub(crate) fn limit(&mut self, constraints: NameConstraints) {
        self.parameters.name_constraints = Some(constraints);
    }

    /// Its certificate, and its key.
    ///
    /// # Errors
    /// Those of the crate.
    pub(crate) fn own(&self) -> Result<Signed, rcgen::Error> {
        Ok(Signed {
            certificate: self.parameters.self_signed(&self.key)?.pem(),
            key: self.key.serialize_pem(),
        })
    }

    /// A new certificate for a node with this name, which is reached by these hosts.
    ///
    /// # Errors
    /// What is no host.
    pub(crate) fn sign(
        &self,
        name: &str,
        hosts: Vec<String>,
        days: u32,
    ) -> Result<Signed, rcgen::Error> {
        let mut parameters = CertificateParams::new(hosts)?;
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // A node is a server, and a client of the others.
        parameters.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        parameters.use_authority_key_identifier_extension = true;
        set_validity(&mut parameters, days);
        let key = KeyPair::generate()?;
        let issuer = Issuer::from_params(&self.parameters, &self.key);
        Ok(Signed {
            certificate: parameters.signed_by(&key, &issuer)?.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// Sets from when until when a certificate is valid.
fn set_validity(parameters: &mut CertificateParams, days: u32) {
    let now = Duration::from_millis(SystemClock::new().unix_ms());
    let at_1970 = date_time_ymd(1970, 1, 1);
    parameters.not_before = at_1970 + now.saturating_sub(SINCE);
    parameters.not_after = at_1970 + now + DAY * days;
}

/// The failure to make a certificate.
pub(crate) fn signing_failed(error: impl Display) -> Failure {
    Failure::failed(format!("cannot make certificates: {error}"))
}

/// Writes a file of an operator, whole or not at all, with these permissions.
///
/// # Errors
/// Those of the system.
#[expect(
    clippy::disallowed_methods,
    reason = "files of an operator are no part of a store"
)]
pub(crate) fn write_file(file: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    let mut next = file.as_os_str().to_owned();
    next.push(".tmp");
    let next = Path::new(&next);
    // One that an earlier command left may have another mode.
    let _ = std::fs::remove_file(next);
    let opened = std::fs::OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(mode)
        .open(next);
    opened
        .and_then(|mut opened| {
            opened.write_all(text.as_bytes())?;
            opened.sync_all()
        })
        .and_then(|()| std::fs::rename(next, file))
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", file.display())))
}
