//! The operations of batches, by kind and status.

use super::Metrics;
use hyper::StatusCode;
use node::metrics::{Cell, Family};

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationKind {
    /// It writes a value.
    Put,
    /// It reads a value.
    Get,
    /// It deletes a key.
    Delete,
    /// The line is no operation.
    None,
}

/// The kinds with their names, and the statuses that each may have. All others are counted
/// as `other`.
const KINDS: [(OperationKind, &str, &[u16]); 4] = [
    (OperationKind::Put, "put", &[201, 503, 504, 507]),
    (OperationKind::Get, "get", &[200, 404, 413, 503, 504]),
    (OperationKind::Delete, "delete", &[202, 503, 504, 507]),
    (OperationKind::None, "none", &[400, 413, 503]),
];

impl OperationKind {
    /// Its name in metrics and logs.
    pub(crate) fn word(self) -> &'static str {
        let known = KINDS.iter().find(|(kind, ..)| *kind == self);
        known.map_or("none", |(_, word, _)| word)
    }
}

/// The most statuses of a kind, and one for all others.
const STATUSES_MAX: usize = 6;

/// The operations that one runtime has answered.
#[derive(Default)]
pub(crate) struct OperationMetrics([[Cell; STATUSES_MAX]; KINDS.len()]);

impl OperationMetrics {
    /// Counts an operation that was answered with this status.
    pub(crate) fn ended(&self, kind: OperationKind, status: StatusCode) {
        let row = KINDS.iter().position(|known| known.0 == kind);
        let row = row.unwrap_or(KINDS.len() - 1);
        let statuses = KINDS[row].2.iter();
        let column = statuses
            .take(STATUSES_MAX - 1)
            .position(|known| *known == status.as_u16());
        self.0[row][column.unwrap_or(STATUSES_MAX - 1)].add(1);
    }
}

/// How many operations were answered with such a status. Unexpected ones count as 0.
pub(super) fn with(metrics: &Metrics, is_counted: fn(u16) -> bool) -> u64 {
    let known = KINDS
        .iter()
        .enumerate()
        .flat_map(|(row, (_, _, statuses))| {
            let columns = statuses.iter().copied().enumerate();
            columns
                .chain([(STATUSES_MAX - 1, 0)])
                .map(move |(column, status)| (row, column, status))
        });
    known
        .filter(|(_, _, status)| is_counted(*status))
        .map(|(row, column, _)| metrics.sum(|listener| listener.operations.0[row][column].get()))
        .sum()
}

/// The operations of all runtimes.
pub(super) fn family(metrics: &Metrics) -> Family {
    let mut counts = Vec::new();
    for (row, (_, kind, statuses)) in KINDS.iter().enumerate() {
        let count =
            |column: usize| metrics.sum(|listener| listener.operations.0[row][column].get());
        let mut add = |status: String, count| {
            let labels = vec![("operation", (*kind).to_owned()), ("status", status)];
            counts.push((labels, count));
        };
        for (column, status) in statuses.iter().enumerate() {
            add(status.to_string(), count(column));
        }
        if count(STATUSES_MAX - 1) > 0 {
            add("other".to_owned(), count(STATUSES_MAX - 1));
        }
    }
    Family::counters(
        "kvorum_batch_operations",
        "Operations of batches that were answered, by operation and status",
        counts,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics_page::{open_metrics_text, prometheus_text};

    #[test]
    fn operations_are_counted_by_kind_and_status_over_all_runtimes() {
        let metrics = Metrics::new(2);
        for runtime in 0..2 {
            let operations = &metrics.of_listener(runtime).operations;
            operations.ended(OperationKind::Put, StatusCode::CREATED);
            operations.ended(OperationKind::Put, StatusCode::IM_A_TEAPOT);
            operations.ended(OperationKind::Get, StatusCode::GATEWAY_TIMEOUT);
        }
        let page = prometheus_text(&open_metrics_text(vec![family(&metrics)]));
        for line in [
            "kvorum_batch_operations_total{operation=\"put\",status=\"201\"} 2",
            "kvorum_batch_operations_total{operation=\"put\",status=\"other\"} 2",
            "kvorum_batch_operations_total{operation=\"get\",status=\"504\"} 2",
            "kvorum_batch_operations_total{operation=\"delete\",status=\"202\"} 0",
        ] {
            assert!(page.lines().any(|known| known == line), "{line} in {page}");
        }
        assert!(KINDS.iter().all(|kind| kind.2.len() < STATUSES_MAX));
    }
}
