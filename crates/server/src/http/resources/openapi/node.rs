//! The operations that show a node and its cluster.

use super::Schemas;
use super::headers::{Header, UPGRADE, VARY};
use super::operation::{Operation, Success, bytes};
use super::parameters;
use crate::http::resources::cluster::Cluster;
use crate::http::resources::health::{Live, Ready};
use crate::http::resources::history::History;
use crate::http::resources::replicas::KeyReplicas;
use crate::http::resources::status::Status;
use crate::http::verb::Verb;
use crate::metrics::SAMPLES_MAX;
use api::problem_type as catalogue;
use base::KEY_BYTES_MAX;
use serde_json::{Value, json};

/// The path of the entrance for other nodes.
pub(super) const PEER_PATH: &str = "/v0/peer";

const TAG: &str = "nodes";

pub(super) fn operations(schemas: &mut Schemas) -> Vec<Operation> {
    vec![
        replicas(schemas),
        page(
            "/v0/status",
            "getStatus",
            "Show the node, and its cluster as it sees it",
            "application/json",
            json!({"schema": schemas.of::<Status<'_>>()}),
        ),
        page(
            "/health/live",
            "getLive",
            "Ask whether the process serves",
            "application/json",
            json!({"schema": schemas.of::<Live>()}),
        ),
        ready(schemas),
        history(schemas),
        Operation {
            text: "The node asks the others when this is asked for, and once a second at most. It \
                   waits a second for those that are silent.",
            ..page(
                "/v0/cluster",
                "getCluster",
                "Show how each node of the cluster is, as it says itself",
                "application/json",
                json!({"schema": schemas.of::<Cluster<'_>>()}),
            )
        },
        metrics(),
        page(
            "/openapi.json",
            "getOpenApi",
            "Read this document",
            "application/json",
            json!({"schema": {"type": "object"}}),
        ),
    ]
}

/// A page without parameters.
fn page(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    media: &'static str,
    content: Value,
) -> Operation {
    Operation {
        path,
        verb: Verb::Get,
        id,
        tag: TAG,
        summary,
        text: "",
        parameters: Vec::new(),
        body: None,
        answers: vec![Success {
            status: 200,
            text: "The page.",
            headers: Vec::new(),
            content: vec![(media, content)],
        }],
        problems: Vec::new(),
    }
}

fn replicas(schemas: &mut Schemas) -> Operation {
    Operation {
        text: "The first `F` nodes hold the key for `from=F`. Every node answers the same. The \
               key need not exist.",
        parameters: vec![
            parameters::key("id", true, KEY_BYTES_MAX, "The key."),
            parameters::switch(
                "versions",
                "Whether to ask each node for its version of the key.",
            ),
        ],
        ..page(
            "/v0/replicas",
            "getRing",
            "Show the replicas of a key",
            "application/json",
            json!({"schema": schemas.of::<KeyReplicas<'_>>()}),
        )
    }
}

fn ready(schemas: &mut Schemas) -> Operation {
    Operation {
        text: "A node is ready while its store is open and counts, as many nodes as must answer \
               a request by default can be reached, and it is not stopping. A full disk is a \
               warning only, because deletes must reach the node.",
        problems: vec![&catalogue::NOT_READY],
        ..page(
            "/health/ready",
            "getReady",
            "Ask whether the node can take requests",
            "application/json",
            json!({"schema": schemas.of::<Ready>()}),
        )
    }
}

fn history(schemas: &mut Schemas) -> Operation {
    Operation {
        text: "It lies in memory, and begins with the start of the node.",
        parameters: vec![parameters::query(
            "limit",
            false,
            &json!({"type": "integer", "minimum": 1, "maximum": SAMPLES_MAX, "default": SAMPLES_MAX}),
            "How many samples, of the newest ones.",
        )],
        ..page(
            "/v0/history",
            "getHistory",
            "Show what the node did in the last hour",
            "application/json",
            json!({"schema": schemas.of::<History>()}),
        )
    }
}

fn metrics() -> Operation {
    let text = bytes("A line for each series.");
    let mut operation = page(
        "/metrics",
        "getMetrics",
        "Read the metrics of the node, for Prometheus",
        "text/plain; version=0.0.4; charset=utf-8",
        text.clone(),
    );
    for answer in &mut operation.answers {
        let open_metrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        answer.content.push((open_metrics, text.clone()));
        answer.headers.push(Header::always(&VARY));
    }
    operation
}

/// The entrance for nodes, which has no `HEAD`.
pub(super) fn peer() -> Operation {
    Operation {
        path: PEER_PATH,
        verb: Verb::Get,
        id: "connectPeer",
        tag: TAG,
        summary: "Enter the protocol between nodes",
        text: "Only the nodes of a cluster use this path.",
        parameters: Vec::new(),
        body: None,
        answers: vec![Success {
            status: 101,
            text: "The connection leaves HTTP.",
            headers: vec![Header::always(&UPGRADE)],
            content: Vec::new(),
        }],
        problems: vec![&catalogue::PEER_CERTIFICATE, &catalogue::UPGRADE_REQUIRED],
    }
}
