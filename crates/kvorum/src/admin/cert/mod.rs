//! `kvorum admin cert`: an authority for the nodes of a cluster, and their certificates.
//!
//! `signing` makes the certificates. The commands keep them as files in a folder of the operator:
//!
//! ```text
//! ca.pem        what nodes and clients trust
//! ca.key        the key that signs; it stays here
//! HOST.pem      the certificate of a node, whose URL has this host
//! HOST.key      its key
//! ```

mod signing;

pub(crate) use signing::{NODE_DAYS, SigningAuthority, signing_failed, write_file};

use crate::failure::Failure;
use crate::files;
use crate::private_file;
use crate::stdout::print_lines;
use base::{Clock, SystemClock};
use clap::{Args, Subcommand};
use cluster::NodeUrl;
use signing::Signed;
use std::path::{Path, PathBuf};
use tls::{Expected, NodeTls, TlsFiles};

/// What stands in the certificates of an authority as its name.
const AUTHORITY_NAME: &str = "Kvorum authority";

/// The name of an authority's files.
const AUTHORITY_FILE: &str = "ca";

/// Who may read a certificate, and who a key.
const CERTIFICATE_MODE: u32 = 0o644;
const KEY_MODE: u32 = 0o600;

/// What to make.
#[derive(Clone, Debug, Subcommand)]
pub(super) enum CertCommand {
    /// Make the authority of a cluster: ca.pem, which all nodes and clients trust, and ca.key, with which
    /// it signs; keep the key on no node
    Ca(CaOptions),
    /// Make the certificate of a node, or renew it: HOST.pem and HOST.key
    Node(NodeOptions),
}

/// The options of `admin cert ca`.
#[derive(Args, Clone, Debug)]
pub(super) struct CaOptions {
    #[command(flatten)]
    place: Place,
}

/// The options of `admin cert node`.
#[derive(Args, Clone, Debug)]
pub(super) struct NodeOptions {
    /// The host of the node's URL: an IP address or a DNS name
    #[arg(value_name = "HOST", value_parser = host)]
    name: String,
    /// Another host by which clients reach the node, such as the name of a proxy. Can be given several times
    #[arg(long, value_name = "HOST", value_parser = host, value_delimiter = ',')]
    host: Vec<String>,
    /// For how many days it is valid. Some clients refuse more than 397
    #[arg(long, value_name = "COUNT", default_value_t = NODE_DAYS, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    #[command(flatten)]
    place: Place,
}

/// Where the files are.
#[derive(Args, Clone, Debug)]
struct Place {
    /// The folder of the authority's files
    #[arg(long, value_name = "DIR", default_value = ".")]
    folder: PathBuf,
}

/// An IP address or a DNS name, as URLs have it.
fn host(text: &str) -> Result<String, String> {
    let is_v6 = text.contains(':') && !text.starts_with('[');
    let url = if is_v6 {
        format!("https://[{text}]:1")
    } else {
        format!("https://{text}:1")
    };
    let url: NodeUrl = url.parse().map_err(
        |_| "it is no host: give an IP address or a DNS name, as the URL of the node has it",
    )?;
    Ok(url.host().to_owned())
}

/// Makes what the command says.
///
/// # Errors
/// Files that exist, cannot be read or written, or do not belong together.
pub(super) fn run(command: &CertCommand) -> Result<(), Failure> {
    match command {
        CertCommand::Ca(options) => make_authority(&options.place),
        CertCommand::Node(options) => make_node(options),
    }
}

fn make_authority(place: &Place) -> Result<(), Failure> {
    let (certificate, key) = place.files_of(AUTHORITY_FILE);
    for file in [&certificate, &key] {
        if file.exists() {
            return Err(Failure::failed(format!(
                "{} exists, and what it has signed would not be trusted any more: name another \
                 folder with --folder to make a second authority",
                file.display()
            )));
        }
    }
    let authority = SigningAuthority::new(AUTHORITY_NAME, None).map_err(signing_failed)?;
    write_pair(
        &authority.own().map_err(signing_failed)?,
        &certificate,
        &key,
    )?;
    print_lines([
        format!("{}: all nodes and clients trust it", certificate.display()),
        format!(
            "{}: keep it here, because whoever has it can join the cluster as a node",
            key.display()
        ),
    ])
}

fn make_node(options: &NodeOptions) -> Result<(), Failure> {
    let place = &options.place;
    let (authority_file, authority_key) = place.files_of(AUTHORITY_FILE);
    if options.name == AUTHORITY_FILE {
        return Err(Failure::usage(format!(
            "a node whose host is {AUTHORITY_FILE} would get the files of the authority: give the \
             host its whole name"
        )));
    }
    let key = private_file::read(&authority_key, &files::read).map_err(|problem| {
        Failure::failed(format!(
            "{problem}; 'kvorum admin cert ca' makes an authority, and --folder names its folder"
        ))
    })?;
    let authority = SigningAuthority::new(AUTHORITY_NAME, Some(&key)).map_err(|error| {
        Failure::failed(format!(
            "{}: it holds no key ({error})",
            authority_key.display()
        ))
    })?;
    let mut hosts = vec![options.name.clone()];
    for host in &options.host {
        if !hosts.contains(host) {
            hosts.push(host.clone());
        }
    }
    let signed = authority
        .sign(&options.name, hosts, options.days)
        .map_err(signing_failed)?;
    check(&signed, &options.name, &authority_file)?;
    let (certificate, key) = place.files_of(&options.name);
    write_pair(&signed, &certificate, &key)?;
    print_lines([format!(
        "{} and {}: copy them to the node, as its node.pem and node.key; they are valid for {}",
        certificate.display(),
        key.display(),
        units::counted(u64::from(options.days), "day")
    )])
}

/// Whether a node can use what was signed, by the checks of its own start.
fn check(signed: &Signed, host: &str, authority: &Path) -> Result<(), Failure> {
    let folder = tempfile::tempdir().map_err(signing_failed)?;
    let files = TlsFiles {
        certificate: folder.path().join("node.pem"),
        key: folder.path().join("node.key"),
        peer_ca: Some(authority.to_owned()),
    };
    write_pair(signed, &files.certificate, &files.key)?;
    let expected = Expected {
        host: Some(host.to_owned()),
        is_verified: true,
    };
    let now_unix_s = SystemClock::new().unix_ms() / 1000;
    NodeTls::load(files, expected, now_unix_s)
        .map(drop)
        .map_err(|error| {
            Failure::failed(format!(
                "{} cannot sign for {}: {error}. Only an authority of 'kvorum admin cert ca' signs \
             here; sign with the tools of any other one",
                authority.display(),
                host
            ))
        })
}

fn write_pair(signed: &Signed, certificate: &Path, key: &Path) -> Result<(), Failure> {
    write_file(key, &signed.key, KEY_MODE)?;
    write_file(certificate, &signed.certificate, CERTIFICATE_MODE)
}

impl Place {
    /// The certificate and the key with this name.
    fn files_of(&self, name: &str) -> (PathBuf, PathBuf) {
        let file = |ending: &str| {
            let file = format!("{name}.{ending}");
            // Without the folder in which the command runs, messages are what people write.
            if self.folder == Path::new(".") {
                file.into()
            } else {
                self.folder.join(file)
            }
        };
        (file("pem"), file("key"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn place(folder: &Path) -> Place {
        Place {
            folder: folder.to_owned(),
        }
    }

    fn node(folder: &Path, name: &str, hosts: &[&str]) -> NodeOptions {
        NodeOptions {
            name: name.to_owned(),
            host: hosts.iter().map(|host| (*host).to_owned()).collect(),
            days: NODE_DAYS,
            place: place(folder),
        }
    }

    fn files(folder: &Path, name: &str) -> TlsFiles {
        let (certificate, key) = place(folder).files_of(name);
        TlsFiles {
            certificate,
            key,
            peer_ca: Some(folder.join("ca.pem")),
        }
    }

    /// Whether a node starts with files, if others reach it by this host.
    fn starts(files: TlsFiles, host: &str) -> bool {
        let expected = Expected {
            host: Some(host.to_owned()),
            is_verified: true,
        };
        NodeTls::load(files, expected, SystemClock::new().unix_ms() / 1000).is_ok()
    }

    #[test]
    fn a_node_starts_with_what_the_commands_make() {
        let folder = tempfile::tempdir().unwrap();
        make_authority(&place(folder.path())).unwrap();
        for (name, further) in [
            ("10.0.0.5", &["db.example"][..]),
            ("a.example", &[]),
            ("fd00::5", &[]),
        ] {
            let options = node(folder.path(), name, further);
            make_node(&options).unwrap();
            for host in further.iter().chain([&name]) {
                assert!(starts(files(folder.path(), name), host), "{name} {host}");
            }
            assert!(!starts(files(folder.path(), name), "10.0.0.6"), "{name}");
            // Again, as before it ends.
            let before = files::read(&files(folder.path(), name).certificate).unwrap();
            make_node(&options).unwrap();
            assert!(starts(files(folder.path(), name), name), "{name}");
            assert_ne!(
                before,
                files::read(&files(folder.path(), name).certificate).unwrap()
            );
        }
        for (file, mode) in [
            ("ca.key", 0o600),
            ("ca.pem", 0o644),
            ("10.0.0.5.key", 0o600),
        ] {
            let metadata = std::fs::metadata(folder.path().join(file)).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, mode, "{file}");
        }
    }

    #[test]
    fn an_authority_is_made_once_and_another_one_signs_nothing_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let (here, there) = (folder.path().join("one"), folder.path().join("other"));
        for place_ in [&here, &there] {
            std::fs::create_dir(place_).unwrap();
            make_authority(&place(place_)).unwrap();
        }
        let line = make_authority(&place(&here)).unwrap_err();
        assert!(line.line().contains("ca.pem exists"), "{}", line.line());
        std::fs::copy(there.join("ca.pem"), here.join("ca.pem")).unwrap();
        let line = make_node(&node(&here, "10.0.0.5", &[])).unwrap_err();
        assert!(
            line.line().contains("ca.pem cannot sign"),
            "{}",
            line.line()
        );
        assert!(!here.join("10.0.0.5.pem").exists());
        let line = make_node(&node(folder.path(), "10.0.0.5", &[])).unwrap_err();
        assert!(line.line().contains("admin cert ca"), "{}", line.line());
        let line = make_node(&node(&there, "ca", &[])).unwrap_err();
        assert!(line.line().contains("whole name"), "{}", line.line());
    }

    #[test]
    fn a_name_is_a_host() {
        for (text, expected) in [
            ("10.0.0.5", "10.0.0.5"),
            ("fd00::5", "fd00::5"),
            ("[fd00::5]", "fd00::5"),
            ("a.example", "a.example"),
        ] {
            assert_eq!(host(text).as_deref(), Ok(expected));
        }
        for text in [
            "",
            "a b",
            "a/b",
            "http://a",
            "../a",
            "a:80",
            "10.0.0.5:8080",
        ] {
            assert!(host(text).is_err(), "{text}");
        }
    }
}
