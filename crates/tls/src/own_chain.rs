//! Whether other nodes would accept this node's own certificate.
//!
//! A certificate that no other node accepts looks sound by itself: the key fits, and the
//! host is right. So the node verifies it as the others would, by the authorities that it
//! verifies them with, for both of its uses: as that of a server and as that of a client.

use crate::failure::{ISSUE_VERSION_3, is_old_version};
use crate::key_kind::USABLE;
use crate::material::{Authorities, Identity, MaterialError, provider};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::UnixTime;
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, Error};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Verifies the `identity` from a file by the `authorities` from another one.
///
/// # Errors
/// Why other nodes would refuse it, and what to do.
pub(crate) fn verify(
    (certificate_file, identity): (&Path, &Identity),
    (authorities_file, authorities): (&Path, &Authorities),
    now_unix_s: u64,
) -> Result<(), MaterialError> {
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now_unix_s));
    verified(identity, authorities, now).map_err(|error| MaterialError::Unusable {
        file: certificate_file.to_owned(),
        problem: format!(
            "has a certificate that other nodes would refuse: {}",
            explain(&error, authorities_file)
        ),
    })
}

fn verified(identity: &Identity, authorities: &Authorities, now: UnixTime) -> Result<(), Error> {
    let Some((leaf, between)) = identity.certified.cert.split_first() else {
        return Err(Error::NoCertificatesPresented);
    };
    let provider = provider();
    verify_server_cert_signed_by_trust_anchor(
        &ParsedCertificate::try_from(leaf)?,
        &authorities.roots,
        between,
        now,
        provider.signature_verification_algorithms.all,
    )?;
    let roots = Arc::clone(&authorities.roots);
    let of_clients = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
    let of_clients = of_clients.map_err(|error| Error::General(error.to_string()))?;
    of_clients.verify_client_cert(leaf, between, now).map(drop)
}

fn explain(error: &Error, authorities: &Path) -> String {
    let Error::InvalidCertificate(problem) = error else {
        return error.to_string();
    };
    match problem {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it, or one between it and its authority, has expired: renew it, or correct the clock \
             of this machine"
                .to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it, or one between it and its authority, is not valid yet: wait until it is, or \
             correct the clock of this machine"
                .to_owned()
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
            "it is not from an authority in {}: have one sign it, put the certificates between \
             the two behind it, or first add its authority to the file of --tls-peer-ca on all \
             nodes",
            authorities.display()
        ),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "a node is a server and a client: issue one with both extended key usages, serverAuth \
             and clientAuth, or with none"
                .to_owned()
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => format!(
            "it, or one between it and its authority, is signed in a way that is not supported: \
             have it signed with {USABLE}"
        ),
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "it is an authority's own: have one signed for the node itself".to_owned()
        }
        problem if is_old_version(problem) => format!(
            "it, or one between it and its authority, is of a version of X.509 before 3: \
             {ISSUE_VERSION_3}"
        ),
        other => format!("it cannot be verified ({other}): issue another one"),
    }
}
