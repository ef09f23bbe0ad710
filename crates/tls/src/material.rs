//! What PEM files hold: certificates, keys, authorities.

use crate::failure::{ISSUE_VERSION_3, is_old_version};
use crate::key_kind;
use crate::validity::Validity;
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest file that is read, in bytes: authorities of a whole system are shorter.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Why a file cannot be used, and what to do. The text names the file.
#[derive(Debug, thiserror::Error)]
pub enum MaterialError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// What it holds cannot be used.
    #[error("{} {problem}", .file.display())]
    Unusable {
        /// The file.
        file: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// rustls refuses what was made of the files.
    #[error("{0}")]
    Refused(String),
}

impl MaterialError {
    fn unusable(file: &Path, problem: impl Into<String>) -> Self {
        Self::Unusable {
            file: file.to_owned(),
            problem: problem.into(),
        }
    }
}

/// The bytes of a file.
pub(crate) fn read(file: &Path) -> Result<Vec<u8>, MaterialError> {
    let unreadable = |source| MaterialError::Unreadable {
        file: file.to_owned(),
        source,
    };
    // A pipe would block.
    if !std::fs::metadata(file).map_err(unreadable)?.is_file() {
        return Err(MaterialError::unusable(
            file,
            "is not a file: name a file of PEM",
        ));
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "files of an operator are no part of a store"
    )]
    let opened = std::fs::File::open(file).map_err(unreadable)?;
    let mut bytes = Vec::new();
    let mut limited = opened.take(FILE_BYTES_MAX + 1);
    limited.read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(MaterialError::unusable(
            file,
            "has more than 4 MiB: name a file of PEM",
        ));
    }
    Ok(bytes)
}

/// The certificates in the bytes of a file: at least one.
fn certificates(file: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, MaterialError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(MaterialError::unusable(
            file,
            "has no certificate: it must have a block BEGIN CERTIFICATE (PEM)",
        )),
        Ok(found) => Ok(found),
        Err(error) => Err(MaterialError::unusable(
            file,
            format!("is damaged ({error}): write it again"),
        )),
    }
}

/// What one side of a connection shows to the other: its certificate, the certificates
/// between it and the authority, and the key that belongs to it.
#[derive(Clone, Debug)]
pub struct Identity {
    pub(crate) certified: Arc<CertifiedKey>,
    pub(crate) validity: Validity,
}

impl Identity {
    /// Reads a certificate with its chain, and its key; both files are PEM.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, MaterialError> {
        let (chain_pem, key_pem) = (read(certificate)?, read(key)?);
        Self::from_pem((certificate, &chain_pem), (key, &key_pem))
    }

    /// The same of the bytes of both files.
    pub(crate) fn from_pem(
        (certificate, chain_pem): (&Path, &[u8]),
        (key, key_pem): (&Path, &[u8]),
    ) -> Result<Self, MaterialError> {
        let chain = certificates(certificate, chain_pem)?;
        let key_der = PrivateKeyDer::from_pem_slice(key_pem).map_err(|_| {
            MaterialError::unusable(
                key,
                "has no key: it must have a block BEGIN PRIVATE KEY (PEM) without a passphrase",
            )
        })?;
        let mut validity = None;
        for each in &chain {
            let read = Validity::of(each).ok_or_else(|| {
                MaterialError::unusable(certificate, "has a block that is no certificate")
            })?;
            validity = Some(validity.map_or(read, |before: Validity| before.and(read)));
        }
        let provider = provider();
        let problem = key_kind::problem_of(&key_der);
        let certified = CertifiedKey::from_der(chain, key_der, &provider).map_err(|error| {
            let problem = match error {
                rustls::Error::InvalidCertificate(problem) => {
                    let problem = if is_old_version(&problem) {
                        format!("is of a version of X.509 before 3: {ISSUE_VERSION_3}")
                    } else {
                        format!("has a certificate that cannot be used ({problem}): issue another")
                    };
                    return MaterialError::unusable(certificate, problem);
                }
                rustls::Error::InconsistentKeys(_) => format!(
                    "is not the key of the first certificate in {}: name the two files that \
                     were made together",
                    certificate.display()
                ),
                error => problem.unwrap_or_else(|| {
                    format!("cannot be used ({error}): use {}", key_kind::USABLE)
                }),
            };
            MaterialError::unusable(key, problem)
        })?;
        match validity {
            Some(validity) => Ok(Self {
                certified: Arc::new(certified),
                validity,
            }),
            None => Err(MaterialError::unusable(certificate, "has no certificate")),
        }
    }

    /// Until when the certificate and its chain are valid, in seconds of Unix time.
    #[must_use]
    pub fn expires_unix_s(&self) -> u64 {
        self.validity.not_after_unix_s
    }

    /// From when on the certificate and its chain are valid, in seconds of Unix time.
    pub(crate) fn begins_unix_s(&self) -> u64 {
        self.validity.not_before_unix_s
    }

    /// Whether the certificate is one for this host.
    #[must_use]
    pub fn is_for(&self, host: &str) -> bool {
        let leaf = self.certified.cert.first();
        leaf.is_some_and(|leaf| is_for_host(leaf, host))
    }
}

/// Whether a certificate is one for this host: a name, or an IP address.
pub(crate) fn is_for_host(certificate: &CertificateDer<'_>, host: &str) -> bool {
    let Ok(name) = ServerName::try_from(host) else {
        return false;
    };
    ParsedCertificate::try_from(certificate)
        .is_ok_and(|parsed| rustls::client::verify_server_name(&parsed, &name).is_ok())
}

/// The certificates of authorities, with which the certificates of others are verified.
#[derive(Clone, Debug)]
pub struct Authorities {
    pub(crate) roots: Arc<RootCertStore>,
}

impl Authorities {
    /// Reads the certificates of a PEM file.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn read(file: &Path) -> Result<Self, MaterialError> {
        Self::from_pem(file, &read(file)?)
    }

    /// Those that the system trusts: the files in `SSL_CERT_FILE` and `SSL_CERT_DIR`, or
    /// those of the distribution. A certificate that cannot be read is passed over.
    ///
    /// # Errors
    /// There is none.
    pub fn of_system() -> Result<Self, MaterialError> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(found.certs);
        if added == 0 {
            let problem = found.errors.first();
            let problem = problem.map_or(String::new(), |error| format!(" ({error})"));
            return Err(MaterialError::Refused(format!(
                "this system has no trusted authorities{problem}: name a file of authorities"
            )));
        }
        Ok(Self {
            roots: Arc::new(roots),
        })
    }

    /// The same of the bytes of the file.
    pub(crate) fn from_pem(file: &Path, pem: &[u8]) -> Result<Self, MaterialError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(file, pem)? {
            roots.add(certificate).map_err(|error| {
                MaterialError::unusable(
                    file,
                    format!("has a certificate that cannot be an authority's ({error})"),
                )
            })?;
        }
        Ok(Self {
            roots: Arc::new(roots),
        })
    }
}

/// The cryptography.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate of version 1, as openssl makes one without -extfile.
    const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBJDCBywIUWWs8oI8dAwjldi0SLg+/jka4zXwwCgYIKoZIzj0EAwIwFDESMBAG
A1UEAwwJMTI3LjAuMC4xMCAXDTI2MTEyOTE0MjA1NVoYDzIwODkxMTE4MTQyMDU1
WjAUMRIwEAYDVQQDDAkxMjcuMC4wLjEwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AAQV+CwJFarS/JKrg5wAJ8baxrZzdm8XF3Xpcu5V6tFh67yK0TofvCJWk2T0Vecy
vKC75XmgM4M7921TtKUBD0jpMAoGCCqGSM49BAMCA0gAMEUCIQD/3tPX1IZKULvf
PtcXt8eTNmpQbrwKwZQob9Ku6ozfEwIgZSLoXk5wXJ38b7DBwS4aiom/ZCM4BSyG
vxmLVfT6Xss=
-----END CERTIFICATE-----
";

    const ITS_KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgqIf2El3Rd7rWrJli
v0xKY6MpXhfcRytXmwFTtXvnUfahRANCAAQV+CwJFarS/JKrg5wAJ8baxrZzdm8X
F3Xpcu5V6tFh67yK0TofvCJWk2T0VecyvKC75XmgM4M7921TtKUBD0jp
-----END PRIVATE KEY-----
";

    #[test]
    fn a_certificate_of_an_old_version_is_no_fault_of_its_key() {
        let refused = Identity::from_pem(
            (Path::new("c.pem"), VERSION_1.as_bytes()),
            (Path::new("k.pem"), ITS_KEY.as_bytes()),
        );
        let problem = refused.err().unwrap().to_string();
        assert!(
            problem.starts_with("c.pem is of a version of X.509 before 3: issue one of version 3"),
            "{problem}"
        );
    }
}
