//! The certificate of a node that speaks TLS.

use crate::door::DoorShared;
use crate::door::tls::DoorTls;
use node::metrics::Family;

/// What operators watch; nothing of a node that does not speak TLS.
pub(super) fn families(shared: &DoorShared) -> Vec<Family> {
    let Some(tls) = &shared.tls else {
        return Vec::new();
    };
    let mut families = shared.metrics.tls();
    families.extend(bounds(shared, tls));
    let status = tls.node_tls.status();
    families.extend([
        Family::gauge(
            "kvorum_tls_certificate_expiry_timestamp_seconds",
            "When the certificate in force, or one of its chain, expires, in seconds of Unix time",
            status.expires_unix_s as f64,
        ),
        Family::counter(
            "kvorum_tls_reloads",
            "How often changed files of TLS were put in force",
            status.reloads,
        ),
        Family::gauge(
            "kvorum_tls_files_unusable",
            "Whether the files of TLS have changed and cannot be used: 0 or 1",
            f64::from(u8::from(status.problem.is_some())),
        ),
        Family::gauge(
            "kvorum_tls_optional",
            "Whether the node also accepts connections without TLS: 0 or 1",
            f64::from(u8::from(tls.is_optional())),
        ),
    ]);
    families
}

/// What TLS has taken on, and how much it may.
fn bounds(shared: &DoorShared, tls: &DoorTls) -> [Family; 4] {
    let split = shared.config().memory_split().tls;
    let in_flight = shared
        .metrics
        .sum(|door| door.tls.handshakes_in_flight.get());
    [
        Family::gauge(
            "kvorum_tls_handshakes_in_flight",
            "TLS handshakes that are under way",
            in_flight as f64,
        ),
        Family::gauge(
            "kvorum_tls_handshakes_in_flight_max",
            "TLS handshakes that may be under way; beyond it the oldest is cut",
            split.handshakes_max as f64,
        ),
        Family::gauge(
            "kvorum_tls_record_bytes",
            "Bytes of incomplete TLS records, beyond 4 KiB of each",
            tls.record_bytes() as f64,
        ),
        Family::gauge(
            "kvorum_tls_record_max_bytes",
            "Bytes of incomplete TLS records that may be held; beyond it connections are closed",
            split.records_bytes as f64,
        ),
    ]
}
