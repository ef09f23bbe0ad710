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

use super::write;
use crate::admin::{NODE_DAYS, SigningAuthority, signing_failed};
use crate::failure::Failure;
use rcgen::{CidrSubnet, GeneralSubtree, NameConstraints};
use rustls::ClientConfig;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tls::Authorities;

/// The folder in that of the cluster.
const FOLDER: &str = "tls";

/// What stands in the certificates of authorities and nodes as their name.
const AUTHORITY_NAME: &str = "kvorum dev authority";

/// The hosts that a certificate is for.
const HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The files of a node.
pub(in crate::dev) struct NodeFiles {
    pub(in crate::dev) certificate: PathBuf,
    pub(in crate::dev) key: PathBuf,
}

/// The authority of a local cluster.
pub(in crate::dev) struct Authority {
    folder: PathBuf,
}

impl Authority {
    /// That of the cluster in `data`. It need not exist yet.
    pub(in crate::dev) fn of(data: &Path) -> Self {
        Self {
            folder: data.join(FOLDER),
        }
    }

    /// The file with its certificate.
    pub(in crate::dev) fn certificate(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    /// The files of a node.
    pub(in crate::dev) fn files_of(&self, node: &str) -> NodeFiles {
        NodeFiles {
            certificate: self.folder.join(format!("{node}.pem")),
            key: self.folder.join(format!("{node}-key.pem")),
        }
    }

    /// Makes the authority, unless it exists, and new certificates for these nodes.
    ///
    /// # Errors
    /// Files that cannot be read or written, or hold something else.
    pub(in crate::dev) fn make_files<'a>(
        &self,
        nodes: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), Failure> {
        super::make_folder(&self.folder)?;
        let authority = self.signing()?;
        for node in nodes {
            let hosts = HOSTS.map(str::to_owned).to_vec();
            let signed = authority
                .sign(node, hosts, NODE_DAYS)
                .map_err(signing_failed)?;
            let files = self.files_of(node);
            write(&files.key, &signed.key)?;
            write(&files.certificate, &signed.certificate)?;
        }
        Ok(())
    }

    /// The configuration of a client that trusts the authority.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub(in crate::dev) fn client_config(&self) -> Result<Arc<ClientConfig>, Failure> {
        let authorities = Authorities::read(&self.certificate()).map_err(signing_failed)?;
        tls::client_config(&authorities, None).map_err(signing_failed)
    }

    /// What signs: the key is read, or made. The certificate of a key can be made again at
    /// any time; who trusts an earlier one trusts each.
    fn signing(&self) -> Result<SigningAuthority, Failure> {
        let key_file = self.folder.join("authority-key.pem");
        let kept = read(&key_file)?;
        let authority = of_this_machine(kept.as_deref()).map_err(|error| {
            Failure::failed(format!(
                "{} holds no key ({error}): remove it, then let clients trust the new authority",
                key_file.display()
            ))
        })?;
        let own = authority.own().map_err(signing_failed)?;
        if kept.is_none() {
            write(&key_file, &own.key)?;
        }
        if kept.is_none() || read(&self.certificate())?.is_none() {
            write(&self.certificate(), &own.certificate)?;
        }
        Ok(authority)
    }
}

/// The authority with this key, or a new one: it can sign for this machine only.
fn of_this_machine(key: Option<&str>) -> Result<SigningAuthority, rcgen::Error> {
    let mut authority = SigningAuthority::new(AUTHORITY_NAME, key)?;
    authority.limit(NameConstraints {
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
    Ok(authority)
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
        let leaf = of_this_machine(key.as_deref()).unwrap();
        let leaf = leaf.sign(host, vec![host.to_owned()], 1).unwrap();
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let host = ServerName::try_from(host).unwrap();
        let now = UnixTime::now();
        let leaf = CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).unwrap();
        let verifier = verifier.build().unwrap();
        verifier
            .verify_server_cert(&leaf, &[], &host, &[], now)
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
