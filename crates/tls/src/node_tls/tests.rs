//! Files that change, are replaced in parts, are broken and are put right.

use super::*;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use std::path::Path;

const NOW: u64 = 1_800_000_000;

struct Authority(Issuer<'static, KeyPair>, String);

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = parameters.self_signed(&key).unwrap().pem();
        Self(Issuer::new(parameters, key), pem)
    }

    /// A certificate for a host, valid until the end of a year, and its key.
    fn issue(&self, host: &str, year: i32) -> (String, String) {
        self.issue_between(host, 1975, year)
    }

    /// The same, but the certificate is for servers only.
    fn issue_for_servers(&self, host: &str) -> (String, String) {
        let mut parameters = CertificateParams::new(vec![host.to_owned()]).unwrap();
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// An authority that this one has signed, and its certificate.
    fn issue_authority(&self) -> (Self, String) {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = rcgen::DnType::CommonName;
        parameters.distinguished_name.push(name, "between");
        let key = KeyPair::generate().unwrap();
        let pem = parameters.signed_by(&key, &self.0).unwrap().pem();
        (Self(Issuer::new(parameters, key), pem.clone()), pem)
    }

    /// A certificate and its key, valid from one year to the end of another.
    fn issue_between(&self, host: &str, first: i32, year: i32) -> (String, String) {
        let mut parameters = CertificateParams::new(vec![host.to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(first, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(year, 12, 31);
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

#[expect(clippy::disallowed_methods, reason = "files of an operator")]
fn write(file: &Path, text: &str) {
    std::fs::write(file, text).unwrap();
}

fn files_in(folder: &Path) -> TlsFiles {
    TlsFiles {
        certificate: folder.join("node.pem"),
        key: folder.join("node.key"),
        peer_ca: Some(folder.join("ca.pem")),
    }
}

/// What the other nodes expect of a node of a cluster.
fn of_member() -> Expected {
    Expected {
        host: Some("a.example".to_owned()),
        is_verified: true,
    }
}

/// A node's TLS with files in a folder.
fn loaded(folder: &Path, authority: &Authority) -> NodeTls {
    let files = files_in(folder);
    let (certificate, key) = authority.issue("a.example", 2090);
    write(&files.certificate, &certificate);
    write(&files.key, &key);
    write(&folder.join("ca.pem"), &authority.1);
    NodeTls::load(files, of_member(), NOW).unwrap()
}

#[test]
fn a_change_is_put_in_force_once_two_reads_agree() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let tls = loaded(folder.path(), &authority);
    let before = tls.status();
    let first = tls.server();
    assert!(!tls.reload(NOW, false).unwrap(), "nothing has changed");
    let (certificate, key) = authority.issue("a.example", 2091);
    write(&folder.path().join("node.pem"), &certificate);
    // The key is not there yet, and that is no problem.
    assert!(!tls.reload(NOW, false).unwrap());
    write(&folder.path().join("node.key"), &key);
    assert!(!tls.reload(NOW, false).unwrap());
    assert!(tls.reload(NOW, false).unwrap());
    assert!(!Arc::ptr_eq(&first, &tls.server()));
    let after = tls.status();
    assert_eq!((after.reloads, after.problem), (1, None));
    assert!(after.expires_unix_s > before.expires_unix_s);
    assert!(!tls.reload(NOW, true).unwrap(), "nothing has changed");
}

#[test]
fn what_cannot_be_used_leaves_the_last_good_files_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let tls = loaded(folder.path(), &authority);
    let files = files_in(folder.path());
    let (good, good_key) = authority.issue("a.example", 2092);
    let (_, other_key) = authority.issue("a.example", 2092);
    let (other_name, other_name_key) = authority.issue("b.example", 2092);
    let (expired, expired_key) = authority.issue("a.example", 2001);
    let (future, future_key) = authority.issue_between("a.example", 2060, 2092);
    let (foreign, foreign_key) = Authority::new().issue("a.example", 2092);
    let (for_servers, for_servers_key) = authority.issue_for_servers("a.example");
    let (in_force, reloads) = (tls.server(), tls.status().reloads);
    for (certificate, key, words) in [
        ("", good_key.as_str(), "node.pem has no certificate"),
        ("text", &good_key, "node.pem has no certificate"),
        (&good, "text", "node.key has no key"),
        (&good, &other_key, "node.key is not the key of"),
        (&other_name, &other_name_key, "not for a.example"),
        (&expired, &expired_key, "has expired"),
        (&future, &future_key, "is not valid yet"),
        (&foreign, &foreign_key, "is not from an authority in"),
        (&for_servers, &for_servers_key, "serverAuth and clientAuth"),
        (&good[..good.len() / 2], &good_key, "node.pem"),
    ] {
        write(&files.certificate, certificate);
        write(&files.key, key);
        let error = tls.reload(NOW, true).unwrap_err().to_string();
        assert!(error.contains(words), "{words}: {error}");
        assert_eq!(tls.status().problem, Some(error));
        assert!(Arc::ptr_eq(&in_force, &tls.server()), "{words}");
        assert!(!tls.reload(NOW, true).unwrap(), "it is said once");
    }
    #[expect(clippy::disallowed_methods, reason = "files of an operator")]
    std::fs::remove_file(&files.certificate).unwrap();
    let error = tls.reload(NOW, true).unwrap_err().to_string();
    assert!(error.contains("cannot read"), "{error}");
    write(&files.certificate, &good);
    write(&files.key, &good_key);
    assert!(tls.reload(NOW, true).unwrap());
    let status = tls.status();
    assert_eq!((status.reloads, status.problem), (reloads + 1, None));
}

#[test]
fn what_other_nodes_would_refuse_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    drop(loaded(folder.path(), &authority));
    let files = files_in(folder.path());
    let (foreign, foreign_key) = Authority::new().issue("a.example", 2092);
    write(&files.certificate, &foreign);
    write(&files.key, &foreign_key);
    let started = NodeTls::load(files.clone(), of_member(), NOW);
    let line = started.map(drop).unwrap_err().to_string();
    assert!(line.contains("ca.pem: have one sign it"), "{line}");
    assert!(!line.contains('\n'), "{line}");
    // A node alone has nobody who verifies it, and its clients trust whom they like.
    assert!(NodeTls::load(files, Expected::default(), NOW).is_ok());
}

#[test]
fn a_certificate_with_its_chain_is_verified_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let root = Authority::new();
    let tls = loaded(folder.path(), &root);
    let files = files_in(folder.path());
    let (between, between_pem) = root.issue_authority();
    let (leaf, key) = between.issue("a.example", 2090);
    write(&files.certificate, &leaf);
    write(&files.key, &key);
    let error = tls.reload(NOW, true).unwrap_err().to_string();
    assert!(error.contains("put the certificates between"), "{error}");
    write(&files.certificate, &format!("{leaf}{between_pem}"));
    assert!(tls.reload(NOW, true).unwrap());
}

#[test]
fn authorities_without_the_own_one_are_refused_and_a_new_one_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (Authority::new(), Authority::new());
    let tls = loaded(folder.path(), &old);
    let files = files_in(folder.path());
    let bundle = folder.path().join("ca.pem");
    write(&bundle, &new.1);
    let error = tls.reload(NOW, true).unwrap_err().to_string();
    assert!(error.contains("is not from an authority in"), "{error}");
    // The order of the handbook.
    write(&bundle, &format!("{}{}", old.1, new.1));
    assert!(tls.reload(NOW, true).unwrap());
    let (certificate, key) = new.issue("a.example", 2090);
    write(&files.certificate, &certificate);
    write(&files.key, &key);
    assert!(tls.reload(NOW, true).unwrap());
    write(&bundle, &new.1);
    assert!(tls.reload(NOW, true).unwrap());
}

#[test]
fn a_certificate_for_later_is_used_once_it_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let tls = loaded(folder.path(), &authority);
    let files = files_in(folder.path());
    let (future, key) = authority.issue_between("a.example", 2060, 2092);
    write(&files.certificate, &future);
    write(&files.key, &key);
    assert!(!tls.reload(NOW, false).unwrap());
    assert!(tls.reload(NOW, false).is_err());
    assert!(!tls.reload(NOW, false).unwrap(), "it is said once");
    let in_2061 = 2_872_000_000;
    assert!(tls.reload(in_2061, false).unwrap());
    assert_eq!(tls.status().problem, None);
}

#[test]
fn a_pipe_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let error = read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("is not a file"), "{error}");
    let error = read(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(error.contains("is not a file"), "{error}");
}

#[test]
fn files_that_are_put_back_end_the_problem() {
    let folder = tempfile::tempdir().unwrap();
    let tls = loaded(folder.path(), &Authority::new());
    let key = folder.path().join("node.key");
    let good = String::from_utf8(read(&key).unwrap()).unwrap();
    write(&key, "broken");
    assert!(tls.reload(NOW, true).is_err());
    write(&key, &good);
    assert!(tls.reload(NOW, true).unwrap());
    assert_eq!(tls.status().problem, None);
}

#[test]
fn a_certificate_is_for_the_hosts_that_it_names() {
    let authority = Authority::new();
    let mut parameters =
        CertificateParams::new(vec!["a.example".to_owned(), "10.0.0.5".to_owned()]).unwrap();
    parameters.not_after = rcgen::date_time_ymd(2090, 1, 1);
    let key = KeyPair::generate().unwrap();
    let certificate = parameters.signed_by(&key, &authority.0).unwrap();
    let shown = [certificate.der().clone()];
    for (hosts, is_for) in [
        (&["a.example"][..], true),
        (&["10.0.0.5"], true),
        (&["b.example", "A.example"], true),
        (&["b.example", "10.0.0.6"], false),
        (&["not a host"], false),
        (&[], false),
    ] {
        assert_eq!(is_for_any(&shown, hosts.iter()), is_for, "{hosts:?}");
    }
    assert!(!is_for_any(&[], ["a.example"].iter()));
}
