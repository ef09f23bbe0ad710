//! The authority of a local cluster, which signs the certificates of its nodes.
//!
//! ```text
//! tls/authority.pem        what clients and nodes trust
//! tls/authority-key.pem    the key that signs
//! tls/node-1.pem           a certificate for localhost, 127.0.0.1 and ::1
//! tls/node-1-key.pem
//! ```
//!
//! The authority is kept, so that clients trust the cluster after a restart as well. The
//! certificates of nodes are made at each start, so that none expires. Its certificates are valid
//! for this machine only, even if somebody steals its key.

use crate::failure::Failure;
use base::{Clock, SystemClock};
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints, date_time_ymd,
};
use rustls::ClientConfig;
use std::fmt::Display;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tls::Authorities;

/// The folder in that of the cluster.
const FOLDER: &str = "tls";

/// What stands in the certificates of authorities and nodes as their name.
const AUTHORITY_NAME: &str = "kvorum dev authority";

/// The hosts that a certificate is for.
const HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// From how long ago certificates are valid: clocks differ.
const SINCE: Duration = Duration::from_secs(3600);

/// How long certificates of nodes are valid. Some clients refuse those that are longer.
const NODE_VALIDITY: Duration = Duration::from_secs(397 * 24 * 3600);

/// How long that of the authority is.
const AUTHORITY_VALIDITY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The files of a node.
pub(super) struct NodeFiles {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// The authority of a local cluster.
pub(super) struct Authority {
    folder: PathBuf,
}

impl Authority {
    /// That of the cluster in `data`. It need not exist yet.
    pub(super) fn of(data: &Path) -> Self {
        Self {
            folder: data.join(FOLDER),
        }
    }

    /// The file with its certificate.
    pub(super) fn certificate(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    /// The files of a node.
    pub(super) fn files_of(&self, node: &str) -> NodeFiles {
        NodeFiles {
            certificate: self.folder.join(format!("{node}.pem")),
            key: self.folder.join(format!("{node}-key.pem")),
        }
    }

    /// Makes the authority, unless it exists, and new certificates for these nodes.
    ///
    /// # Errors
    /// Files that cannot be read or written, or hold something else.
    pub(super) fn make_files<'a>(
        &self,
        nodes: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), Failure> {
        super::layout::make_folder(&self.folder)?;
        let now = Duration::from_millis(SystemClock::new().unix_ms());
        let issuer = self.issuer(now)?;
        for node in nodes {
            let key = KeyPair::generate().map_err(failed)?;
            let signed = node_parameters(node, now).and_then(|node| node.signed_by(&key, &issuer));
            let files = self.files_of(node);
            write(&files.key, &key.serialize_pem())?;
            write(&files.certificate, &signed.map_err(failed)?.pem())?;
        }
        Ok(())
    }

    /// The configuration of a client that trusts the authority.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub(super) fn client_config(&self) -> Result<Arc<ClientConfig>, Failure> {
        let authorities = Authorities::read(&self.certificate()).map_err(failed)?;
        tls::client_config(&authorities, None).map_err(failed)
    }

    /// What signs: the key is read, or made. The certificate of a key can be made again at
    /// any time; who trusts an earlier one trusts each.
    fn issuer(&self, now: Duration) -> Result<Issuer<'static, KeyPair>, Failure> {
        let key_file = self.folder.join("authority-key.pem");
        let parameters = authority_parameters(now).map_err(failed)?;
        let kept = read(&key_file)?;
        let is_new = kept.is_none();
        let key = match kept {
            Some(pem) => KeyPair::from_pem(&pem).map_err(|error| {
                Failure::failed(format!(
                    "{} holds no key ({error}): remove it, then let clients trust the new \
                     authority",
                    key_file.display()
                ))
            })?,
            None => KeyPair::generate().map_err(failed)?,
        };
        if is_new {
            write(&key_file, &key.serialize_pem())?;
        }
        if is_new || read(&self.certificate())?.is_none() {
            let certificate = parameters.self_signed(&key).map_err(failed)?;
            write(&self.certificate(), &certificate.pem())?;
        }
        Ok(Issuer::new(parameters, key))
    }
}

fn authority_parameters(now: Duration) -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = CertificateParams::new(Vec::new())?;
    let name = &mut parameters.distinguished_name;
    name.push(DnType::CommonName, AUTHORITY_NAME);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    parameters.name_constraints = Some(NameConstraints {
        permitted_subtrees: vec![
            GeneralSubtree::DnsName("localhost".to_owned()),
            GeneralSubtree::IpAddress(CidrSubnet::from_v4_prefix(Ipv4Addr::LOCALHOST.octets(), 8)),
            GeneralSubtree::IpAddress(CidrSubnet::from_v6_prefix(
                Ipv6Addr::LOCALHOST.octets(),
                128,
            )),
        ],
        excluded_subtrees: Vec::new(),
    });
    set_validity(&mut parameters, now, AUTHORITY_VALIDITY);
    Ok(parameters)
}

fn node_parameters(node: &str, now: Duration) -> Result<CertificateParams, rcgen::Error> {
    let hosts = HOSTS.map(str::to_owned).to_vec();
    let mut parameters = CertificateParams::new(hosts)?;
    let name = &mut parameters.distinguished_name;
    name.push(DnType::CommonName, node);
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // A node is a server, and a client of the others.
    parameters.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    parameters.use_authority_key_identifier_extension = true;
    set_validity(&mut parameters, now, NODE_VALIDITY);
    Ok(parameters)
}

/// Sets from when until when a certificate is valid; `now` counts from 1970.
fn set_validity(parameters: &mut CertificateParams, now: Duration, validity: Duration) {
    let at_1970 = date_time_ymd(1970, 1, 1);
    parameters.not_before = at_1970 + now.saturating_sub(SINCE);
    parameters.not_after = at_1970 + now + validity;
}

fn failed(error: impl Display) -> Failure {
    Failure::failed(format!("cannot make certificates: {error}"))
}

/// The text of a file; none if it does not exist.
fn read(file: &Path) -> Result<Option<String>, Failure> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::failed(format!(
            "cannot read {}: {error}",
            file.display()
        ))),
    }
}

/// Writes a file that only its owner may read, whole or not at all.
#[expect(
    clippy::disallowed_methods,
    reason = "the folder of a local cluster is no part of a store"
)]
pub(super) fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let next = file.with_extension("tmp");
    // One that an earlier start left may have another mode.
    let _ = std::fs::remove_file(&next);
    let opened = std::fs::OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&next);
    opened
        .and_then(|mut opened| opened.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&next, file))
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use std::os::unix::fs::PermissionsExt;

    fn made(data: &Path) -> (Authority, String) {
        let authority = Authority::of(data);
        authority.make_files(["node-1"]).ok().unwrap();
        let pem = read(&authority.certificate()).ok().unwrap().unwrap();
        (authority, pem)
    }

    #[test]
    fn the_authority_is_kept_and_certificates_are_new() {
        let data = tempfile::tempdir().unwrap();
        let (authority, first) = made(data.path());
        let certificate = authority.files_of("node-1").certificate;
        let of_node = read(&certificate).ok().unwrap();
        let (_, second) = made(data.path());
        assert_eq!(first, second);
        assert_ne!(of_node, read(&certificate).ok().unwrap());
        authority.client_config().ok().unwrap();
    }

    #[test]
    fn only_the_owner_may_read_the_files() {
        let data = tempfile::tempdir().unwrap();
        let (authority, _) = made(data.path());
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&authority.folder), 0o700);
        for file in [
            "authority.pem",
            "authority-key.pem",
            "node-1.pem",
            "node-1-key.pem",
        ] {
            assert_eq!(mode(&authority.folder.join(file)), 0o600, "{file}");
        }
    }

    #[test]
    fn a_certificate_is_for_this_machine_and_no_other() {
        let data = tempfile::tempdir().unwrap();
        let (authority, _) = made(data.path());
        let files = authority.files_of("node-1");
        let identity = tls::Identity::read(&files.certificate, &files.key).unwrap();
        for host in HOSTS {
            assert!(identity.is_for(host), "{host}");
        }
        assert!(!identity.is_for("10.0.0.1"));
    }

    /// Whether a client that trusts the authority believes a certificate that its key has
    /// signed for a host.
    fn is_believed(data: &Path, host: &str) -> bool {
        let (authority, pem) = made(data);
        let key = read(&authority.folder.join("authority-key.pem"))
            .ok()
            .unwrap();
        let key = KeyPair::from_pem(&key.unwrap()).unwrap();
        let now = Duration::from_millis(SystemClock::new().unix_ms());
        let issuer = Issuer::new(authority_parameters(now).unwrap(), key);
        let leaf = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let leaf = leaf
            .signed_by(&KeyPair::generate().unwrap(), &issuer)
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let host = ServerName::try_from(host).unwrap();
        let now = UnixTime::since_unix_epoch(now);
        let verifier = verifier.build().unwrap();
        verifier
            .verify_server_cert(leaf.der(), &[], &host, &[], now)
            .is_ok()
    }

    #[test]
    fn the_authority_can_sign_for_this_machine_only() {
        let data = tempfile::tempdir().unwrap();
        for (host, is_good) in [
            ("localhost", true),
            ("127.0.0.2", true),
            ("::1", true),
            ("10.0.0.1", false),
            ("::2", false),
            ("example.com", false),
        ] {
            assert_eq!(is_believed(data.path(), host), is_good, "{host}");
        }
    }

    #[test]
    fn a_key_that_is_none_is_refused() {
        let data = tempfile::tempdir().unwrap();
        let (authority, _) = made(data.path());
        write(&authority.folder.join("authority-key.pem"), "nonsense")
            .ok()
            .unwrap();
        let failure = authority.make_files(["node-1"]).unwrap_err();
        assert!(
            failure.line().contains("authority-key.pem holds no key"),
            "{}",
            failure.line()
        );
    }
}
