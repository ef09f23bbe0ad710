//! What a node uses for TLS, made again when its files change.
//!
//! The files are read whole each time, because their times do not show every change: a link that
//! leads elsewhere, or a file that is put back, may be older than what it replaces. A program
//! that renews certificates may write one file after the other, so a change counts once
//! two reads in a row have found the same, or at once when an operator asks.

use crate::configs::{client_config, server_config};
use crate::material::{Authorities, Identity, MaterialError, is_for_host, read};
use crate::own_chain;
use arc_swap::ArcSwap;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ServerConfig};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The files, which are PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The node's certificate, followed by those between it and its authority.
    pub certificate: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
    /// The authorities of the certificates of the other nodes.
    pub peer_ca: Option<PathBuf>,
}

/// What the other nodes, if there are any, expect of a node's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// The host that it must be for: the one under which they reach the node over TLS.
    pub host: Option<String>,
    /// Whether they verify it, which they do with the same authorities as this node
    /// verifies theirs.
    pub is_verified: bool,
}

/// What a node uses for TLS.
pub struct NodeTls {
    files: TlsFiles,
    expected: Expected,
    in_force: ArcSwap<InForce>,
    watched: Mutex<Watched>,
}

/// What was made of the files.
struct InForce {
    server: Arc<ServerConfig>,
    /// `None` without authorities for other nodes.
    client: Option<Arc<ClientConfig>>,
    begins_unix_s: u64,
    expires_unix_s: u64,
}

/// What the reads have found.
#[derive(Debug, Default)]
struct Watched {
    /// A hash of the contents with which the files were last tried.
    tried: u64,
    /// A hash of the contents that the last read found, or of its error.
    found: u64,
    /// Why the last attempt failed, if it did.
    problem: Option<String>,
    /// How often the files were put in force since the start.
    reloads: u64,
}

/// How the certificate of a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsStatus {
    /// Until when the certificate in force is valid, in seconds of Unix time.
    pub expires_unix_s: u64,
    /// Why the files are not in force, if they are not.
    pub problem: Option<String>,
    /// How often changed files were put in force since the start.
    pub reloads: u64,
}

/// The bytes of the files.
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    peer_ca: Option<Vec<u8>>,
}

impl NodeTls {
    /// Reads the files, of which the certificate must be as it is `expected`, at the time
    /// `now_unix_s`.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub fn load(
        files: TlsFiles,
        expected: Expected,
        now_unix_s: u64,
    ) -> Result<Self, MaterialError> {
        let contents = Contents::read(&files)?;
        let in_force = InForce::new(&files, &contents, &expected, now_unix_s)?;
        let tried = contents.hash();
        Ok(Self {
            in_force: ArcSwap::from_pointee(in_force),
            watched: Mutex::new(Watched {
                tried,
                found: tried,
                ..Watched::default()
            }),
            files,
            expected,
        })
    }

    /// The configuration for connections that this node accepts, as it is now. An open connection
    /// keeps the one that it began with.
    #[must_use]
    pub fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.in_force.load().server)
    }

    /// The configuration for connections to other nodes, as it is now; `None` without
    /// authorities for them.
    #[must_use]
    pub fn client(&self) -> Option<Arc<ClientConfig>> {
        self.in_force.load().client.clone()
    }

    /// The files.
    #[must_use]
    pub fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// Whether other nodes are verified.
    #[must_use]
    pub fn verifies_peers(&self) -> bool {
        self.files.peer_ca.is_some()
    }

    /// How the certificate is.
    #[must_use]
    pub fn status(&self) -> TlsStatus {
        let watched = self.watched();
        TlsStatus {
            expires_unix_s: self.in_force.load().expires_unix_s,
            problem: watched.problem.clone(),
            reloads: watched.reloads,
        }
    }

    /// Reads the files again, and puts them in force if they have changed:
    ///
    /// - Unless it is `at_once`, a change waits until the next read finds the same.
    /// - A certificate that is not valid at the time `now_unix_s` does not replace one that is.
    /// - It is tried again with each read, because it may become valid.
    /// - Returns whether the files were put in force.
    ///
    /// # Errors
    /// Why files that have changed cannot be used: once for each change of the files or of
    /// the reason. What was in force still is.
    pub fn reload(&self, now_unix_s: u64, at_once: bool) -> Result<bool, MaterialError> {
        let contents = Contents::read(&self.files);
        let found = match &contents {
            Ok(contents) => contents.hash(),
            Err(error) => hash_of(&error.to_string()),
        };
        let mut watched = self.watched();
        let is_settled = at_once || watched.found == found;
        watched.found = found;
        let is_known = watched.tried == found;
        if (is_known && watched.problem.is_none()) || !is_settled {
            return Ok(false);
        }
        watched.tried = found;
        match contents.and_then(|contents| self.in_force_of(&contents, now_unix_s)) {
            Ok(in_force) => {
                self.in_force.store(Arc::new(in_force));
                watched.problem = None;
                watched.reloads += 1;
                Ok(true)
            }
            Err(error) => {
                let problem = Some(error.to_string());
                let is_told = is_known && watched.problem == problem;
                watched.problem = problem;
                if is_told { Ok(false) } else { Err(error) }
            }
        }
    }

    fn in_force_of(&self, contents: &Contents, now_unix_s: u64) -> Result<InForce, MaterialError> {
        let new = InForce::new(&self.files, contents, &self.expected, now_unix_s)?;
        let in_force_expires = self.in_force.load().expires_unix_s;
        if new.expires_unix_s < now_unix_s && in_force_expires >= now_unix_s {
            return Err(MaterialError::Unusable {
                file: self.files.certificate.clone(),
                problem: "has a certificate that has expired: renew it".to_owned(),
            });
        }
        if new.begins_unix_s > now_unix_s && self.in_force.load().begins_unix_s <= now_unix_s {
            return Err(MaterialError::Unusable {
                file: self.files.certificate.clone(),
                problem: "has a certificate that is not valid yet: wait until it is, or correct \
                 the clock of this machine"
                    .to_owned(),
            });
        }
        Ok(new)
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InForce {
    fn new(
        files: &TlsFiles,
        contents: &Contents,
        expected: &Expected,
        now_unix_s: u64,
    ) -> Result<Self, MaterialError> {
        let identity = Identity::from_pem(
            (&files.certificate, &contents.certificate),
            (&files.key, &contents.key),
        )?;
        let host = expected.host.as_ref();
        if let Some(host) = host.filter(|host| !identity.is_for(host)) {
            return Err(MaterialError::Unusable {
                file: files.certificate.clone(),
                problem: format!(
                    "has a certificate that is not for {host}, the host of --url, so the other \
                     nodes would refuse it: issue one for that name"
                ),
            });
        }
        let authorities = match (&files.peer_ca, &contents.peer_ca) {
            (Some(file), Some(pem)) => {
                let authorities = Authorities::from_pem(file, pem)?;
                if expected.is_verified {
                    let (own, by) = ((&*files.certificate, &identity), (&**file, &authorities));
                    own_chain::verify(own, by, now_unix_s)?;
                }
                Some(authorities)
            }
            _ => None,
        };
        let client = match &authorities {
            Some(authorities) => Some(client_config(authorities, Some(&identity))?),
            None => None,
        };
        Ok(Self {
            server: server_config(&identity, authorities.as_ref())?,
            client,
            begins_unix_s: identity.begins_unix_s(),
            expires_unix_s: identity.expires_unix_s(),
        })
    }
}

impl Contents {
    fn read(files: &TlsFiles) -> Result<Self, MaterialError> {
        Ok(Self {
            certificate: read(&files.certificate)?,
            key: read(&files.key)?,
            peer_ca: files.peer_ca.as_deref().map(read).transpose()?,
        })
    }

    fn hash(&self) -> u64 {
        hash_of(&(&self.certificate, &self.key, &self.peer_ca))
    }
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Whether the first certificate that another side has shown is for one of these hosts.
#[must_use]
pub fn is_for_any(
    shown: &[CertificateDer<'_>],
    mut hosts: impl Iterator<Item = impl AsRef<str>>,
) -> bool {
    shown
        .first()
        .is_some_and(|leaf| hosts.any(|host| is_for_host(leaf, host.as_ref())))
}

#[cfg(test)]
mod tests;
