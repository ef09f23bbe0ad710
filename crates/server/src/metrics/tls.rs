//! Counters of TLS: connections, and handshakes with their ends.

use node::metrics::{Cell, Family};
use tls::HandshakeFailure;

/// What a listener counts of TLS.
#[derive(Default)]
pub(crate) struct TlsMetrics {
    /// Open connections whose handshake is over.
    connections: Cell,
    /// Handshakes that are under way.
    pub(crate) handshakes_in_flight: Cell,
    /// Bytes of incomplete records, beyond the first few KiB of each.
    pub(crate) record_bytes: Cell,
    /// Connections that were cut to make room for incomplete records of others.
    pub(crate) records_cut: Cell,
    done: Cell,
    failed: [Cell; HandshakeFailure::ALL.len()],
}

/// Counts a connection until it is dropped.
pub(crate) struct ConnectionCount<'a>(&'a Cell);

impl Drop for ConnectionCount<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

impl TlsMetrics {
    /// Counts an open connection until the return value is dropped.
    pub(crate) fn count_connection(&self) -> ConnectionCount<'_> {
        self.connections.add(1);
        ConnectionCount(&self.connections)
    }

    /// A handshake has succeeded.
    pub(crate) fn done(&self) {
        self.done.add(1);
    }

    /// A handshake has failed.
    pub(crate) fn failed(&self, failure: HandshakeFailure) {
        self.failed[failure as usize].add(1);
    }
}

/// The counters of all listeners.
pub(super) fn families(listeners: &[&TlsMetrics]) -> Vec<Family> {
    let sum = |of: &dyn Fn(&TlsMetrics) -> &Cell| {
        let cells = listeners.iter().map(|listener| of(listener).get());
        cells.sum::<u64>()
    };
    let failed = HandshakeFailure::ALL.map(|failure| {
        let number = sum(&|tls| &tls.failed[failure as usize]);
        (vec![("reason", failure.word().to_owned())], number)
    });
    vec![
        Family::gauge(
            "kvorum_tls_connections",
            "Open connections over TLS",
            sum(&|tls| &tls.connections) as f64,
        ),
        Family::counter(
            "kvorum_tls_handshakes",
            "TLS handshakes that succeeded",
            sum(&|tls| &tls.done),
        ),
        Family::counters(
            "kvorum_tls_handshakes_failed",
            "TLS handshakes that failed, by reason",
            failed,
        ),
        Family::counter(
            "kvorum_tls_records_cut",
            "Connections that were closed because their incomplete TLS records took memory that \
             others needed",
            sum(&|tls| &tls.records_cut),
        ),
    ]
}
