//! Why a handshake failed, and what to do about it.

use crate::key_kind::USABLE;
use rustls::{AlertDescription, CertificateError, Error};
use std::io;

/// Why a handshake failed, as metrics count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeFailure {
    /// It was too slow.
    Slow,
    /// It had to make room for others.
    Shed,
    /// The other side closed the connection.
    Closed,
    /// The other side speaks plain HTTP.
    Plain,
    /// The two sides share no version, no cipher suite or no protocol.
    Incompatible,
    /// This side refuses the other's certificate.
    Certificate,
    /// The other side refuses this side, most often because of its certificate.
    Refused,
    /// The other side sent what is no TLS.
    Malformed,
}

impl HandshakeFailure {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Slow,
        Self::Shed,
        Self::Closed,
        Self::Plain,
        Self::Incompatible,
        Self::Certificate,
        Self::Refused,
        Self::Malformed,
    ];

    /// Its name in metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Shed => "shed",
            Self::Closed => "closed",
            Self::Plain => "plain",
            Self::Incompatible => "incompatible",
            Self::Certificate => "certificate",
            Self::Refused => "refused",
            Self::Malformed => "malformed",
        }
    }

    /// Why a handshake ended with this error.
    #[must_use]
    pub fn of(error: &io::Error) -> Self {
        match tls_error(error) {
            Some(Error::InvalidCertificate(_) | Error::NoCertificatesPresented) => {
                Self::Certificate
            }
            Some(Error::PeerIncompatible(_) | Error::NoApplicationProtocol) => Self::Incompatible,
            Some(Error::AlertReceived(
                AlertDescription::ProtocolVersion
                | AlertDescription::HandshakeFailure
                | AlertDescription::NoApplicationProtocol,
            )) => Self::Incompatible,
            Some(Error::AlertReceived(_)) => Self::Refused,
            Some(_) => Self::Malformed,
            None => Self::Closed,
        }
    }
}

/// What happened, with which values, and what to do, of an error of a TLS stream. Errors
/// of other kinds speak for themselves. "It" is the other side.
#[must_use]
pub fn explain(error: &io::Error) -> String {
    match TlsFailure::of(error) {
        Some(failure) => failure.to_string(),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "it closed the connection without a TLS handshake".to_owned()
        }
        None => error.to_string(),
    }
}

/// Why two sides have no connection over TLS, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}: {remedy}")]
pub struct TlsFailure {
    /// The kind of it.
    pub kind: HandshakeFailure,
    /// What happened, with which values; "it" is the other side.
    pub cause: String,
    /// What to do.
    pub remedy: String,
}

impl TlsFailure {
    /// The failure that an error of a TLS stream is; `None` for an error of another kind.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<Self> {
        let cause = tls_error(error)?;
        let of_handshake = |cause: String, remedy: &str| Self {
            kind: HandshakeFailure::of(error),
            cause,
            remedy: remedy.to_owned(),
        };
        Some(match cause {
            Error::InvalidCertificate(problem) => {
                let (cause, remedy) = explain_certificate(problem);
                of_handshake(cause, &remedy)
            }
            Error::AlertReceived(
                alert @ (AlertDescription::ProtocolVersion
                | AlertDescription::HandshakeFailure
                | AlertDescription::InsufficientSecurity),
            ) => of_handshake(
                format!(
                    "it shares no version or cipher suite with this side (its alert: {alert:?})"
                ),
                VERSIONS,
            ),
            Error::AlertReceived(alert) => of_handshake(
                format!("it refuses this side's certificate (its alert: {alert:?})"),
                "its log says why; both sides need certificates of authorities that the other one \
                 trusts",
            ),
            Error::PeerIncompatible(problem) => of_handshake(
                format!("it shares no version or cipher suite with this side ({problem:?})"),
                VERSIONS,
            ),
            Error::NoApplicationProtocol => of_handshake(
                "it does not offer http/1.1, the only protocol here, in ALPN".to_owned(),
                "have it offer http/1.1, or no protocol",
            ),
            Error::InvalidMessage(_) => Self {
                kind: HandshakeFailure::Plain,
                cause: "it does not speak TLS, so one side speaks plain HTTP".to_owned(),
                remedy: "use https:// for a node with --tls-cert, and http:// for others"
                    .to_owned(),
            },
            other => of_handshake(other.to_string(), "its log may say more"),
        })
    }
}

/// What both sides need to have a version in common.
const VERSIONS: &str = "both need TLS 1.2 or 1.3, and a cipher suite in common";

/// The names in a certificate, which rustls shows as `DnsName("localhost")`.
fn names_in(presented: &[String]) -> String {
    let name = |shown: &String| {
        let inner = shown.split_once('(').map_or(&**shown, |(_, inner)| inner);
        inner.trim_matches(['"', ')']).to_owned()
    };
    presented.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// What is wrong with the other side's certificate, and what to do.
fn explain_certificate(problem: &CertificateError) -> (String, String) {
    let (cause, remedy) = match problem {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => (
            "its certificate has expired",
            "renew it there, or correct the clocks of both machines",
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => (
            "its certificate is not valid yet",
            "correct the clocks of both machines",
        ),
        CertificateError::UnknownIssuer | CertificateError::BadSignature => (
            "its certificate is not from an authority that is trusted here",
            "have one sign it, or trust its authority, too",
        ),
        CertificateError::NotValidForName => (
            "its certificate is for another name",
            "issue one for the host of its URL",
        ),
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            let (for_names, expected) = (names_in(presented), expected.to_str());
            return (
                format!("its certificate is for {for_names}, not for {expected}"),
                "issue one for the host of its URL".to_owned(),
            );
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => (
            "its certificate is not for this purpose",
            "a node's needs both extended key usages, serverAuth and clientAuth, or none",
        ),
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            return (
                "its certificate, or one between it and its authority, is signed in a way that is \
                 not supported"
                    .to_owned(),
                format!("have it signed with {USABLE}"),
            );
        }
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => (
            "its certificate is an authority's own",
            "have one signed for the node itself",
        ),
        problem if is_old_version(problem) => (
            "its certificate, or one between it and its authority, is of a version of X.509 before \
             3",
            ISSUE_VERSION_3,
        ),
        other => {
            return (
                format!("its certificate cannot be verified ({other})"),
                "issue another one".to_owned(),
            );
        }
    };
    (cause.to_owned(), remedy.to_owned())
}

/// What to do about a certificate that [`is_old_version`].
pub(crate) const ISSUE_VERSION_3: &str =
    "issue one of version 3, such as by openssl x509 -req with -extfile, which names its hosts";

/// Whether a certificate is of version 1 or 2 of X.509, which has no names of hosts.
pub(crate) fn is_old_version(problem: &CertificateError) -> bool {
    let CertificateError::Other(other) = problem else {
        return false;
    };
    other.to_string().contains("UnsupportedCertVersion")
}

fn tls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_differ() {
        for (index, failure) in HandshakeFailure::ALL.iter().enumerate() {
            let same = HandshakeFailure::ALL
                .iter()
                .position(|other| other.word() == failure.word());
            assert_eq!(same, Some(index));
        }
    }

    #[test]
    fn each_error_is_counted_and_says_what_to_do() {
        let of = |error: Error| io::Error::new(io::ErrorKind::InvalidData, error);
        for (error, failure, words) in [
            (
                of(CertificateError::Expired.into()),
                HandshakeFailure::Certificate,
                "renew it",
            ),
            (
                of(CertificateError::UnknownIssuer.into()),
                HandshakeFailure::Certificate,
                "have one sign it",
            ),
            (
                of(CertificateError::NotValidForName.into()),
                HandshakeFailure::Certificate,
                "the host of its URL",
            ),
            (
                of(
                    CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext {
                        signature_algorithm_id: Vec::new(),
                        public_key_algorithm_id: Vec::new(),
                    }
                    .into(),
                ),
                HandshakeFailure::Certificate,
                "P-256 or P-384",
            ),
            (
                of(Error::AlertReceived(AlertDescription::UnknownCA)),
                HandshakeFailure::Refused,
                "UnknownCA",
            ),
            (
                of(Error::AlertReceived(AlertDescription::ProtocolVersion)),
                HandshakeFailure::Incompatible,
                "no version",
            ),
            (
                of(Error::NoApplicationProtocol),
                HandshakeFailure::Incompatible,
                "http/1.1",
            ),
            (
                io::ErrorKind::UnexpectedEof.into(),
                HandshakeFailure::Closed,
                "closed the connection",
            ),
        ] {
            assert_eq!(HandshakeFailure::of(&error), failure, "{error}");
            let text = explain(&error);
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn a_failure_is_told_apart_from_other_errors_and_keeps_its_cause_from_its_remedy() {
        let expired = io::Error::other(Error::from(CertificateError::Expired));
        let failure = TlsFailure::of(&expired).unwrap();
        assert_eq!(failure.kind, HandshakeFailure::Certificate);
        assert_eq!(failure.cause, "its certificate has expired");
        assert!(failure.remedy.starts_with("renew it"), "{failure}");
        let plain = Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
        let failure = TlsFailure::of(&io::Error::other(plain)).unwrap();
        assert_eq!(failure.kind, HandshakeFailure::Plain);
        for other in [
            io::ErrorKind::UnexpectedEof,
            io::ErrorKind::ConnectionRefused,
        ] {
            assert_eq!(TlsFailure::of(&other.into()), None);
        }
    }
}
