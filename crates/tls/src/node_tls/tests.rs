//! Files that change, are replaced in parts, are broken and are put right.

use super::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
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

/// A node's TLS with files in a folder.
fn loaded(folder: &Path, authority: &Authority) -> NodeTls {
    let files = files_in(folder);
    let (certificate, key) = authority.issue("a.example", 2090);
    write(&files.certificate, &certificate);
    write(&files.key, &key);
    write(&folder.join("ca.pem"), &authority.1);
    NodeTls::load(files, Some("a.example".to_owned())).unwrap()
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
    let (in_force, reloads) = (tls.server(), tls.status().reloads);
    for (certificate, key, words) in [
        ("", good_key.as_str(), "node.pem has no certificate"),
        ("text", &good_key, "node.pem has no certificate"),
        (&good, "text", "node.key has no key"),
        (&good, &other_key, "node.key is not the key of"),
        (&other_name, &other_name_key, "not for a.example"),
        (&expired, &expired_key, "has expired"),
        (&future, &future_key, "is not valid yet"),
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
