//! The operations of `/v0/entity`.

use super::headers::{ACKS, ETAG, EXPIRES, Header, SANDBOX, VERSION};
use super::operation::{Operation, Success, bytes};
use super::parameters;
use crate::http::resources::entity::TTL_SECONDS_MAX;
use crate::http::verb::Verb;
use api::problem_type::{self as catalogue, ProblemType};
use base::KEY_BYTES_MAX;
use serde_json::{Value, json};

const PATH: &str = "/v0/entity";
const TAG: &str = "entities";

/// Why a write gets no timestamp.
pub(super) const NO_TIMESTAMP: [&ProblemType; 6] = [
    &catalogue::CLOCK,
    &catalogue::TIMESTAMP_BOUND_NOT_STORED,
    &catalogue::RESTORED_STORE,
    &catalogue::NEW_STORE,
    &catalogue::STORE_NOT_OPEN,
    &catalogue::NO_TIMESTAMPS_LEFT,
];

pub(super) fn operations() -> Vec<Operation> {
    vec![get(), put(), delete()]
}

/// The key, and how many replicas must answer.
fn key_and_replicas() -> Vec<Value> {
    let mut all = vec![parameters::key("id", true, KEY_BYTES_MAX, "The key.")];
    all.extend(parameters::replicas());
    all
}

fn get() -> Operation {
    let tags = json!({"type": "string"});
    let mut parameters = key_and_replicas();
    parameters.push(parameters::header(
        "If-None-Match",
        &tags,
        "The answer is `304` if the entity has one of these `ETag`s.",
    ));
    parameters.push(parameters::header(
        "If-Match",
        &tags,
        "The answer is `412` if the entity has none of these `ETag`s.",
    ));
    Operation {
        path: PATH,
        verb: Verb::Get,
        id: "getEntity",
        tag: TAG,
        summary: "Read a value",
        text: "",
        parameters,
        body: None,
        answers: vec![
            Success {
                status: 200,
                text: "The value.",
                headers: vec![
                    Header::always(&ETAG),
                    Header::always(&VERSION),
                    Header::always(&ACKS),
                    Header::always(&SANDBOX),
                    Header::sometimes(&EXPIRES),
                ],
                content: vec![("application/octet-stream", bytes("The value."))],
            },
            Success {
                status: 304,
                text: "The entity has one of the `ETag`s of `If-None-Match`.",
                headers: vec![
                    Header::always(&ETAG),
                    Header::always(&VERSION),
                    Header::always(&ACKS),
                    Header::sometimes(&EXPIRES),
                ],
                content: Vec::new(),
            },
        ],
        problems: vec![
            &catalogue::NO_SUCH_ENTITY,
            &catalogue::OTHER_VERSION,
            &catalogue::NOT_ENOUGH_REPLICAS,
        ],
    }
}

fn put() -> Operation {
    let mut parameters = key_and_replicas();
    parameters.push(parameters::query(
        "ttl",
        false,
        &json!({"type": "integer", "minimum": 1, "maximum": TTL_SECONDS_MAX}),
        "After how many seconds the entity expires.",
    ));
    Operation {
        path: PATH,
        verb: Verb::Put,
        id: "putEntity",
        tag: TAG,
        summary: "Write a value",
        text: "The body is the value, whatever its `Content-Type`. `If-Match` and \
               `If-None-Match` are `501`. A write that ended in `504` may still take effect: \
               it may appear, or win, later.",
        parameters,
        body: Some(json!({
            "required": true,
            "description": "The value.",
            "content": {"application/octet-stream": bytes("The value.")},
        })),
        answers: vec![Success {
            status: 201,
            text: "Acknowledged: `ack` replicas have stored it.",
            headers: [&ETAG, &VERSION, &ACKS].map(Header::always).to_vec(),
            content: Vec::new(),
        }],
        problems: of_writes([
            &catalogue::PARTIAL_PUT,
            &catalogue::BROKEN_BODY,
            &catalogue::LATE_BODY,
        ]),
    }
}

fn delete() -> Operation {
    Operation {
        path: PATH,
        verb: Verb::Delete,
        id: "deleteEntity",
        tag: TAG,
        summary: "Delete a key",
        text: "It succeeds for a key that never existed, too. `If-Match` and `If-None-Match` \
               are `501`.",
        parameters: key_and_replicas(),
        body: None,
        answers: vec![Success {
            status: 202,
            text: "Acknowledged: `ack` replicas have stored it.",
            headers: [&ETAG, &VERSION, &ACKS].map(Header::always).to_vec(),
            content: Vec::new(),
        }],
        problems: of_writes([]),
    }
}

/// The problems of writes, and further ones.
fn of_writes<const COUNT: usize>(
    further: [&'static ProblemType; COUNT],
) -> Vec<&'static ProblemType> {
    let mut all = vec![
        &catalogue::CONDITIONAL_WRITE,
        &catalogue::NOT_ENOUGH_REPLICAS,
        &catalogue::DISK_FULL,
        &catalogue::STORE_FAILED,
    ];
    all.extend(NO_TIMESTAMP);
    all.extend(further);
    all
}
