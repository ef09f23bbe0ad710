//! Counts and latencies of requests.
//!
//! A series for each expected answer of a route exists from the start, so that its rate is known
//! from the first request on. A series for an unexpected answer appears with the first such answer.
//! There are never more series than routes times methods times statuses.

use super::Metrics;
use hyper::{Method, StatusCode};
use node::LatencyCounts;
use node::metrics::{Cell, Distribution, Family, Labels};
use std::time::Duration;

/// What a request asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// A key.
    Entity,
    /// A scan, or what its entities amount to.
    Scan,
    /// Many operations. Its client chooses how long it takes, so its time is not a latency.
    Batch,
    /// A sum over a range of keys. Its client chooses how long it takes, so its time is not
    /// a latency.
    Digest,
    /// The replicas of a key.
    KeyReplicas,
    /// The state of the node.
    Status,
    /// The metrics.
    Metrics,
    /// Whether the node is alive, and ready.
    Health,
    /// The description of the API.
    OpenApi,
    /// A profile. Its client chooses how long it takes, so its time is not a latency.
    Profile,
    /// What only operators ask for. A client may choose to wait until a repair has ended,
    /// so its time is not a latency.
    Admin,
    /// What the node did in the last hour.
    History,
    /// How each node of the cluster is. It waits for the others, so its time is not a latency.
    Cluster,
    /// A file of the console.
    Console,
    /// A path that the node does not have, or a head that cannot be parsed.
    Other,
}

impl Route {
    /// Whether the time until the answer is up to the node.
    pub(crate) fn has_latency(self) -> bool {
        !matches!(
            self,
            Self::Batch | Self::Digest | Self::Profile | Self::Admin | Self::Cluster
        )
    }
}

const ROUTES: [(Route, &str); 15] = [
    (Route::Entity, "entity"),
    (Route::Scan, "scan"),
    (Route::Batch, "batch"),
    (Route::Digest, "digest"),
    (Route::KeyReplicas, "replicas"),
    (Route::Status, "status"),
    (Route::Metrics, "metrics"),
    (Route::Health, "health"),
    (Route::OpenApi, "openapi"),
    (Route::Profile, "profile"),
    (Route::Admin, "admin"),
    (Route::History, "history"),
    (Route::Cluster, "cluster"),
    (Route::Console, "console"),
    (Route::Other, "other"),
];

const METHODS: [&str; 6] = ["GET", "HEAD", "PUT", "DELETE", "POST", "other"];

/// The last entry stands for all other statuses.
const STATUSES: [u16; 30] = [
    101, 200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 408, 409, 411, 412, 413, 414, 415, 417,
    421, 422, 426, 431, 500, 501, 503, 504, 505, 507, 0,
];

/// The expected answers of each route.
const EXPECTED: [(Route, &str, &[u16]); 22] = [
    (Route::Entity, "GET", &[200, 304, 400, 404, 503, 504]),
    (Route::Entity, "HEAD", &[200, 304, 400, 404, 503, 504]),
    (
        Route::Entity,
        "PUT",
        &[201, 400, 412, 413, 501, 503, 504, 507],
    ),
    (Route::Entity, "DELETE", &[202, 400, 412, 501, 503, 504]),
    (Route::Scan, "GET", &[200, 400, 503]),
    (Route::Scan, "HEAD", &[200, 400, 503]),
    (Route::Scan, "POST", &[200, 400, 415, 422, 503]),
    (Route::Batch, "POST", &[200, 400, 413, 415, 503]),
    (Route::Digest, "GET", &[200, 400, 503]),
    (Route::Digest, "HEAD", &[200, 400, 503]),
    (Route::KeyReplicas, "GET", &[200, 400]),
    (Route::Status, "GET", &[200]),
    (Route::Metrics, "GET", &[200]),
    (Route::Health, "GET", &[200, 503]),
    (Route::OpenApi, "GET", &[200]),
    (Route::Profile, "GET", &[200]),
    (Route::Admin, "POST", &[200, 202, 400, 409, 415]),
    (Route::History, "GET", &[200]),
    (Route::Cluster, "GET", &[200]),
    (Route::Console, "GET", &[200, 304]),
    (Route::Other, "GET", &[400, 405]),
    (Route::Other, "other", &[400, 405]),
];

/// The expected answers to other nodes' upgrades.
const EXPECTED_OF_PEERS: [u16; 3] = [101, 400, 503];

/// The upper bounds of the latency histograms, in microseconds.
pub(crate) static LATENCY_BOUNDS_US: [u64; 19] = [
    10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
    500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// How many buckets the histograms have: one more than bounds.
pub(super) const LATENCY_BUCKETS: usize = LATENCY_BOUNDS_US.len() + 1;

/// How long something took, counted by one thread.
#[derive(Default)]
struct Latency {
    /// How many took at most the bound of the bucket and more than that of the bucket
    /// before. The last bucket counts all that took longer.
    buckets: [Cell; LATENCY_BUCKETS],
    sum_ns: Cell,
}

/// The requests that one runtime has answered.
#[derive(Default)]
pub(crate) struct RequestMetrics {
    answers: [[[Cell; STATUSES.len()]; METHODS.len()]; ROUTES.len()],
    latency: [[Latency; METHODS.len()]; ROUTES.len()],
    of_peers: [Cell; STATUSES.len()],
}

impl RequestMetrics {
    /// Counts an answer to a client.
    pub(crate) fn answered(
        &self,
        route: Route,
        method: &Method,
        status: StatusCode,
        took: Duration,
    ) {
        let row = route_row(route);
        let column = method_column(method);
        self.answers[row][column][status_index(status)].add(1);
        if route.has_latency() {
            let latency = &self.latency[row][column];
            latency.buckets[bucket_of(took)].add(1);
            latency
                .sum_ns
                .add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// Counts an answer to a request whose head could not be parsed, or was refused
    /// before it was complete. It has no route, no method and no latency.
    pub(crate) fn answered_unparsed(&self, status: StatusCode) {
        let (row, column) = (ROUTES.len() - 1, METHODS.len() - 1);
        self.answers[row][column][status_index(status)].add(1);
    }

    /// Counts an answer to another node that asked for a connection of peers.
    pub(crate) fn answered_peer(&self, status: StatusCode) {
        self.of_peers[status_index(status)].add(1);
    }
}

fn route_row(route: Route) -> usize {
    let row = ROUTES.iter().position(|(known, _)| *known == route);
    row.unwrap_or(ROUTES.len() - 1)
}

fn method_column(method: &Method) -> usize {
    let column = METHODS.iter().position(|known| known == &method.as_str());
    column.unwrap_or(METHODS.len() - 1)
}

fn status_index(status: StatusCode) -> usize {
    let index = STATUSES.iter().position(|known| *known == status.as_u16());
    index.unwrap_or(STATUSES.len() - 1)
}

/// The index of the first bucket whose bound is not below the duration.
fn bucket_of(took: Duration) -> usize {
    LATENCY_BOUNDS_US.partition_point(|bound_us| Duration::from_micros(*bound_us) < took)
}

fn status_word(status: u16) -> String {
    match status {
        0 => "other".to_owned(),
        status => status.to_string(),
    }
}

fn is_expected(route: Route, method: &str, status: u16) -> bool {
    EXPECTED
        .iter()
        .any(|known| known.0 == route && known.1 == method && known.2.contains(&status))
}

/// The answers of all runtimes.
pub(super) fn families(metrics: &Metrics) -> Vec<Family> {
    let mut answers = Vec::new();
    let mut latencies = Vec::new();
    for (row, (route, route_word)) in ROUTES.iter().enumerate() {
        for (column, method) in METHODS.iter().enumerate() {
            let labels = || -> Labels {
                vec![
                    ("route", (*route_word).to_owned()),
                    ("method", (*method).to_owned()),
                ]
            };
            let mut has_answers = false;
            for (index, status) in STATUSES.iter().enumerate() {
                let count =
                    metrics.sum(|listener| listener.requests.answers[row][column][index].get());
                if count > 0 || is_expected(*route, method, *status) {
                    let mut labels = labels();
                    labels.push(("status", status_word(*status)));
                    answers.push((labels, count));
                    has_answers = true;
                }
            }
            if has_answers && route.has_latency() {
                latencies.push((labels(), distribution(metrics, row, column)));
            }
        }
    }
    let of_peers = STATUSES.iter().enumerate().filter_map(|(index, status)| {
        let count = metrics.sum(|listener| listener.requests.of_peers[index].get());
        let is_shown = count > 0 || EXPECTED_OF_PEERS.contains(status);
        is_shown.then(|| (vec![("status", status_word(*status))], count))
    });
    vec![
        Family::counters(
            "kvorum_requests",
            "Answers to clients, by route, method and status",
            answers,
        ),
        Family::histograms(
            "kvorum_request_duration_seconds",
            "Time from the head of a client's request to the head of its answer",
            latencies,
        ),
        Family::counters(
            "kvorum_peer_upgrades",
            "Answers to nodes that requested a peer connection, by status",
            of_peers,
        ),
    ]
}

/// How long all requests for a key took.
pub(super) fn entity_latencies(metrics: &Metrics) -> LatencyCounts {
    LatencyCounts {
        bounds_us: &LATENCY_BOUNDS_US,
        counts: entity_buckets(metrics, &METHODS).to_vec(),
    }
}

/// How long requests for a key with these methods took, by bucket.
pub(super) fn entity_buckets(metrics: &Metrics, methods: &[&str]) -> [u64; LATENCY_BUCKETS] {
    let row = route_row(Route::Entity);
    let columns = || (0..METHODS.len()).filter(|column| methods.contains(&METHODS[*column]));
    std::array::from_fn(|bucket| {
        metrics.sum(|listener| {
            let latency = &listener.requests.latency[row];
            let counts = columns().map(|column| latency[column].buckets[bucket].get());
            counts.sum()
        })
    })
}

/// How many requests for keys, scans and batches were answered with such a status.
pub(super) fn answers_with(metrics: &Metrics, is_counted: fn(u16) -> bool) -> u64 {
    let rows = [Route::Entity, Route::Scan, Route::Batch].map(route_row);
    metrics.sum(|listener| {
        let answers = rows.iter().flat_map(|row| &listener.requests.answers[*row]);
        let counted = answers.flat_map(|of_method| of_method.iter().zip(STATUSES));
        counted
            .filter(|(_, status)| is_counted(*status))
            .map(|(count, _)| count.get())
            .sum()
    })
}

fn distribution(metrics: &Metrics, row: usize, column: usize) -> Distribution {
    let bounds = LATENCY_BOUNDS_US
        .iter()
        .map(|bound_us| *bound_us as f64 / 1e6);
    let buckets = bounds
        .chain([f64::INFINITY])
        .enumerate()
        .map(|(number, bound)| {
            let count = metrics
                .sum(|listener| listener.requests.latency[row][column].buckets[number].get());
            (bound, count)
        });
    Distribution {
        buckets: buckets.collect(),
        sum_seconds: metrics.sum(|listener| listener.requests.latency[row][column].sum_ns.get())
            as f64
            / 1e9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics_page::{open_metrics_text, prometheus_text};

    fn page(metrics: &Metrics) -> String {
        prometheus_text(&open_metrics_text(families(metrics)))
    }

    fn number(page: &str, series: &str) -> Option<f64> {
        let mut lines = page.lines();
        lines.find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
    }

    #[test]
    fn a_bucket_ends_with_its_bound() {
        for (took_us, bucket) in [
            (0, 0),
            (10, 0),
            (11, 1),
            (5_000, 8),
            (5_001, 9),
            (10_000, 9),
            (25_000, 10),
            (50_000, 11),
            (100_000, 12),
            (10_000_000, 18),
            (10_000_001, 19),
            (u64::MAX, 19),
        ] {
            let took = Duration::from_micros(took_us);
            assert_eq!(bucket_of(took), bucket, "{took_us}");
        }
    }

    #[test]
    fn answers_are_counted_by_route_method_and_status_over_all_runtimes() {
        let metrics = Metrics::new(2);
        let took = Duration::from_micros(20);
        for runtime in 0..2 {
            let requests = &metrics.of_listener(runtime).requests;
            requests.answered(Route::Entity, &Method::PUT, StatusCode::CREATED, took);
            let odd = StatusCode::from_u16(499).unwrap();
            requests.answered(Route::Other, &Method::PATCH, odd, took);
            requests.answered(
                Route::Entity,
                &Method::PUT,
                StatusCode::PRECONDITION_FAILED,
                took,
            );
            requests.answered_peer(StatusCode::SWITCHING_PROTOCOLS);
        }
        let page = page(&metrics);
        let answers = "kvorum_requests_total{route=";
        for (labels, count) in [
            ("\"entity\",method=\"PUT\",status=\"201\"}", 2.0),
            ("\"entity\",method=\"PUT\",status=\"412\"}", 2.0),
            ("\"other\",method=\"other\",status=\"other\"}", 2.0),
            // These have not been answered yet.
            ("\"entity\",method=\"GET\",status=\"504\"}", 0.0),
            ("\"scan\",method=\"GET\",status=\"200\"}", 0.0),
        ] {
            let series = format!("{answers}{labels}");
            assert_eq!(number(&page, &series), Some(count), "{series} in {page}");
        }
        assert_eq!(
            number(&page, "kvorum_peer_upgrades_total{status=\"101\"}"),
            Some(2.0)
        );
        assert!(!page.contains("status=\"0\""), "{page}");
        let bucket = |le: &str| {
            let series = format!(
                "kvorum_request_duration_seconds_bucket{{le=\"{le}\",route=\"entity\",method=\"PUT\"}}"
            );
            number(&page, &series)
        };
        assert_eq!(bucket("0.00001"), Some(0.0));
        assert_eq!(bucket("0.000025"), Some(4.0));
        for le in ["0.005", "0.01", "0.025", "0.05", "0.1", "+Inf"] {
            assert_eq!(bucket(le), Some(4.0), "{le} in {page}");
        }
    }

    #[test]
    fn the_time_of_a_profile_is_no_latency() {
        let metrics = Metrics::new(1);
        let requests = &metrics.of_listener(0).requests;
        requests.answered(
            Route::Profile,
            &Method::GET,
            StatusCode::OK,
            Duration::from_secs(60),
        );
        let page = page(&metrics);
        let answers = "kvorum_requests_total{route=\"profile\",method=\"GET\",status=\"200\"}";
        assert_eq!(number(&page, answers), Some(1.0));
        assert!(!page.contains("le=\"0.005\",route=\"profile\""), "{page}");
    }
}
