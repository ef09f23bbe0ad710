//! What a node says of another one with which it shares no TLS connection.

use super::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::crypto::ring::{default_provider, sign::any_supported_type};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        Self {
            certificate: certificate.der().clone(),
            issuer: Issuer::new(parameters, key),
        }
    }

    fn issue(&self, parameters: &CertificateParams) -> Arc<CertifiedKey> {
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        certified(certificate.der().to_vec(), &key)
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        Arc::new(roots)
    }
}

/// A certificate and its key, which nothing checks here.
fn certified(certificate: Vec<u8>, key: &KeyPair) -> Arc<CertifiedKey> {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let key = any_supported_type(&key).unwrap();
    Arc::new(CertifiedKey::new(vec![certificate.into()], key))
}

/// The same certificate as if it were of version 1.
fn of_version_1(certified: &CertifiedKey) -> Arc<CertifiedKey> {
    const VERSION_3: [u8; 5] = [0xa0, 3, 2, 1, 2];
    let mut bytes = certified.cert[0].to_vec();
    let at = bytes.windows(5).position(|five| five == VERSION_3).unwrap();
    bytes[at + 4] = 0;
    Arc::new(CertifiedKey::new(
        vec![bytes.into()],
        Arc::clone(&certified.key),
    ))
}

#[derive(Debug)]
struct Shows(Arc<CertifiedKey>);

impl ResolvesServerCert for Shows {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(default_provider())
}

fn client(trusts: &Authority) -> Arc<ClientConfig> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = config.with_root_certificates(trusts.roots());
    Arc::new(config.with_no_client_auth())
}

/// A node that shows a certificate, and may want one of an authority.
fn server(shows: Arc<CertifiedKey>, wants_of: Option<&Authority>) -> Arc<ServerConfig> {
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = match wants_of {
        None => config.with_no_client_auth(),
        Some(authority) => {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(authority.roots(), provider());
            config.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    Arc::new(config.with_cert_resolver(Arc::new(Shows(shows))))
}

/// Dials a node that accepts a connection as `server` says.
async fn dialled(server: Arc<ServerConfig>, client: Arc<ClientConfig>) -> TlsFailure {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let url: NodeUrl = format!("https://{address}").parse().unwrap();
    let accept = async {
        let (stream, _) = listener.accept().await.unwrap();
        // It reads on, so that what it says is not lost with the connection.
        if let Ok(mut stream) = TlsAcceptor::from(server).accept(stream).await {
            let mut received = Vec::new();
            let _ = stream.read_to_end(&mut received).await;
        }
    };
    let dial = async {
        let stream = TcpStream::connect(address).await.unwrap();
        let error = secured(stream, &url, "", client).await.map(drop);
        explained(error.unwrap_err())
    };
    let both = async { tokio::join!(accept, dial) };
    let (_, error) = tokio::time::timeout(Duration::from_secs(60), both)
        .await
        .expect("a handshake that fails");
    let failure = tls_failure(&error).cloned();
    failure.unwrap_or_else(|| panic!("no failure of TLS: {error}"))
}

#[tokio::test]
async fn what_is_wrong_with_the_certificate_of_a_node_is_named_with_what_to_do() {
    let (own, other) = (Authority::new(), Authority::new());
    let good = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let mut expired = good.clone();
    expired.not_after = rcgen::date_time_ymd(2001, 1, 1);
    let mut early = good.clone();
    early.not_before = rcgen::date_time_ymd(2090, 1, 1);
    let elsewhere = CertificateParams::new(vec!["elsewhere.example".to_owned()]).unwrap();
    for (shown, cause, remedy) in [
        (other.issue(&good), "not from an authority", "have one sign"),
        (own.issue(&expired), "has expired", "renew it"),
        (own.issue(&early), "not valid yet", "correct the clocks"),
        (
            own.issue(&elsewhere),
            "is for elsewhere.example, not for 127.0.0.1",
            "issue one for the host",
        ),
        (
            of_version_1(&own.issue(&good)),
            "of a version of X.509 before 3",
            "-extfile",
        ),
    ] {
        let failure = dialled(server(shown, None), client(&own)).await;
        assert_eq!(failure.kind, HandshakeFailure::Certificate, "{failure}");
        assert!(failure.cause.contains(cause), "{failure}");
        assert!(failure.remedy.contains(remedy), "{failure}");
    }
}

#[tokio::test]
async fn a_node_that_refuses_this_ones_certificate_is_told_apart() {
    let own = Authority::new();
    let good = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let wants = server(own.issue(&good), Some(&own));
    let failure = dialled(wants, client(&own)).await;
    assert_eq!(failure.kind, HandshakeFailure::Refused, "{failure}");
    assert!(failure.cause.contains("refuses this side"), "{failure}");
}
