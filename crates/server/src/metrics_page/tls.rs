//! TLS: connections, handshakes and the certificate. A node that does not speak it has the
//! same series, at 0.

use crate::net::ListenerShared;
use crate::net::tls::ListenerTls;
use node::metrics::Family;

/// What operators watch.
pub(super) fn families(shared: &ListenerShared) -> Vec<Family> {
    let tls = shared.tls.as_deref();
    let mut families = shared.metrics.tls();
    families.extend(bounds(shared));
    let status = tls.map(|tls| tls.node_tls.status());
    let status = status.as_ref();
    let is_unusable = status.is_some_and(|status| status.problem.is_some());
    let is_optional = tls.is_some_and(ListenerTls::is_optional);
    families.extend([
        Family::gauge(
            "kvorum_tls_certificate_expiry_timestamp_seconds",
            "When the certificate, or the first of its chain, expires, in seconds since 1970; 0 \
             without TLS",
            status.map_or(0, |status| status.expires_unix_s) as f64,
        ),
        Family::counter(
            "kvorum_tls_reloads",
            "How often changed TLS files were loaded",
            status.map_or(0, |status| status.reloads),
        ),
        Family::gauge(
            "kvorum_tls_files_unusable",
            "Whether the TLS files have changed but cannot be used: 0 or 1",
            f64::from(u8::from(is_unusable)),
        ),
        Family::gauge(
            "kvorum_tls_optional",
            "Whether the node also accepts connections without TLS: 0 or 1",
            f64::from(u8::from(is_optional)),
        ),
    ]);
    families
}

/// What TLS has taken on, and how much it may.
fn bounds(shared: &ListenerShared) -> [Family; 4] {
    let split = shared.config().memory_split().tls;
    let in_flight = shared
        .metrics
        .sum(|listener| listener.tls.handshakes_in_flight.get());
    [
        Family::gauge(
            "kvorum_tls_handshakes_in_flight",
            "TLS handshakes in progress",
            in_flight as f64,
        ),
        Family::gauge(
            "kvorum_tls_handshakes_in_flight_max",
            "Maximum of TLS handshakes in progress; beyond it others are closed",
            (split.handshakes_max + split.peer_handshakes_max) as f64,
        ),
        Family::gauge(
            "kvorum_tls_record_bytes",
            "Bytes of incomplete TLS records, beyond 4 KiB of each",
            shared
                .metrics
                .sum(|listener| listener.tls.record_bytes.get()) as f64,
        ),
        Family::gauge(
            "kvorum_tls_record_max_bytes",
            "Maximum of bytes of incomplete TLS records, beyond 4 KiB of each; beyond it \
             connections are closed",
            split.records_bytes as f64,
        ),
    ]
}
