//! The operations for operators: repairs, compactions, profiles.

use super::Schemas;
use super::headers::{Header, VARY};
use super::operation::{Operation, Success, bytes};
use super::parameters;
use crate::http::resources::admin::compact::Compaction;
use crate::http::resources::admin::repair::Repair;
use crate::http::verb::Verb;
use api::problem_type::{self as catalogue, ProblemType};
use serde_json::{Value, json};

const TAG: &str = "operators";

/// The path that only nodes with `--debug-endpoints` have.
pub(super) const PROFILE_PATH: &str = "/debug/profile";

pub(super) fn operations(schemas: &mut Schemas) -> Vec<Operation> {
    let wait = |text| parameters::switch("wait", text);
    vec![
        order(
            "/v0/admin/repair",
            "orderSweep",
            "Compare what the nodes keep, and send each other what is missing",
            vec![
                parameters::switch("full", "Whether to compare everything."),
                wait("Whether to answer only when the pass has ended."),
            ],
            &schemas.of::<Repair>(),
            &catalogue::NO_OTHER_NODES,
        ),
        order(
            "/v0/admin/compact",
            "orderCompaction",
            "Merge all tables of the node now",
            vec![wait(
                "Whether to answer only when the compaction has ended.",
            )],
            &schemas.of::<Compaction>(),
            &catalogue::COMPACTION_FAILED,
        ),
        profile(),
    ]
}

/// Something that the node does now.
fn order(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    parameters: Vec<Value>,
    answer: &Value,
    problem: &'static ProblemType,
) -> Operation {
    let success = |status, text| Success {
        status,
        text,
        headers: Vec::new(),
        content: vec![("application/json", json!({"schema": answer}))],
    };
    Operation {
        path,
        verb: Verb::Post,
        id,
        tag: TAG,
        summary,
        text: "The body is not read; an empty object will do. `Content-Type` must be JSON even \
               without a body, because web pages cannot send that without asking first.",
        parameters,
        body: Some(json!({
            "required": true,
            "content": {"application/json": {"schema": {}}},
        })),
        answers: vec![
            success(200, "It has ended."),
            success(202, "It is ordered or running."),
        ],
        problems: vec![&catalogue::NOT_JSON, problem],
    }
}

fn profile() -> Operation {
    Operation {
        path: PROFILE_PATH,
        verb: Verb::Get,
        id: "getProfile",
        tag: TAG,
        summary: "Record what the process spends its time or memory on",
        text: "Only a node with `--debug-endpoints` has this path; to others it is unknown. `HEAD` \
               records nothing.",
        parameters: vec![
            parameters::query(
                "kind",
                true,
                &json!({"enum": ["cpu", "alloc", "lock", "spans"]}),
                "What to record.",
            ),
            parameters::query(
                "seconds",
                false,
                &json!({"type": "integer", "minimum": 1, "maximum": 60, "default": 10}),
                "For how long.",
            ),
        ],
        body: None,
        answers: vec![Success {
            status: 200,
            text: "A flame graph, or folded stacks if `Accept` prefers text; for spans always text.",
            headers: vec![Header::always(&VARY)],
            content: ["image/svg+xml", "text/plain; charset=utf-8"]
                .map(|media| (media, bytes("The profile.")))
                .to_vec(),
        }],
        problems: vec![
            &catalogue::UNKNOWN_PATH,
            &catalogue::PROFILE_RUNNING,
            &catalogue::PROFILE_UNAVAILABLE,
            &catalogue::PROFILE_FAILED,
            &catalogue::CLIENT_LEFT,
        ],
    }
}
