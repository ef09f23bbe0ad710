//! The operation of `/v0/batch`, and its lines.

use super::Schemas;
use super::entity::NO_TIMESTAMP;
use super::headers::{Header, SANDBOX};
use super::operation::{Operation, Success, json_bytes};
use super::parameters;
use super::ranges::LINES;
use crate::http::problem::Document as Problem;
use crate::http::resources::entity::TTL_SECONDS_MAX;
use crate::http::verb::Verb;
use api::problem_type::{self as catalogue, ProblemType};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) fn operations(schemas: &mut Schemas) -> Vec<Operation> {
    vec![Operation {
        path: "/v0/batch",
        verb: Verb::Post,
        id: "postBatch",
        tag: "entities",
        summary: "Run many operations",
        text: "Each line of the body is a put, a get or a delete, and each line of the answer is \
               the answer to one, in the same order. Operations on one key take effect in the \
               order of their lines, others in any; there is no transaction. With \
               `Content-Length`, up to 16 MiB, the answer starts when the body is in; chunked \
               it flows while the client sends, who must read meanwhile. A malformed line ends \
               the batch with a line of status `400`. An answer that ends without the last \
               chunk was cut short.",
        parameters: parameters::replicas().to_vec(),
        body: Some(json!({
            "required": true,
            "description": "The operations; none in an empty body.",
            "content": {
                "application/x-ndjson": {
                    "schema": {"type": "string", "description": LINES},
                    "x-json-schema": operation_line(),
                },
            },
        })),
        answers: vec![Success {
            status: 200,
            text: "The answers.",
            headers: vec![Header::always(&SANDBOX)],
            content: vec![(
                "application/x-ndjson",
                json_bytes(LINES, &answer_line(schemas)),
            )],
        }],
        problems: vec![
            &catalogue::NOT_JSON,
            &catalogue::BATCH_TOO_LONG,
            &catalogue::BROKEN_BODY,
            &catalogue::LATE_BODY,
        ],
    }]
}

/// A line of the body.
fn operation_line() -> Value {
    let text = json!({"type": "string"});
    let base64 = json!({"type": "string", "contentEncoding": "base64"});
    json!({
        "type": "object",
        "properties": {
            "op": {"enum": ["put", "get", "delete"]},
            "key": text,
            "key_base64": base64,
            "value": text,
            "value_base64": base64,
            "ttl": {"type": "integer", "minimum": 1, "maximum": TTL_SECONDS_MAX},
            "expires": {"type": "string", "format": "date-time"},
        },
        "required": ["op"],
        "additionalProperties": false,
    })
}

/// A line of the answer.
fn answer_line(schemas: &mut Schemas) -> Value {
    let mut by_status: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    let types: [&ProblemType; 10] = [
        &catalogue::NO_RIGHT,
        &catalogue::BAD_LINE,
        &catalogue::LINE_TOO_LONG,
        &catalogue::ANSWER_TOO_LONG,
        &catalogue::VALUE_TOO_LONG,
        &catalogue::OVERLOADED,
        &catalogue::NO_SUCH_ENTITY,
        &catalogue::NOT_ENOUGH_REPLICAS,
        &catalogue::DISK_FULL,
        &catalogue::STORE_FAILED,
    ];
    for known in types.iter().chain(&NO_TIMESTAMP) {
        let names = by_status.entry(known.status).or_default();
        names.push(known.urn());
    }
    let problems: Vec<Value> = by_status
        .iter()
        .map(|(status, names)| {
            json!({"properties": {"type": {"enum": names}, "status": {"const": status}}})
        })
        .collect();
    json!({
        "type": "object",
        "properties": {
            "status": {"type": "integer"},
            "version": {"type": "string", "pattern": "^[0-9]{1,20}$"},
            "expires": {"type": "string", "format": "date-time"},
            "value": {"type": "string"},
            "value_base64": {"type": "string", "contentEncoding": "base64"},
            "problem": {"allOf": [schemas.of::<Problem<'_>>(), {"oneOf": problems}]},
        },
        "required": ["status"],
        "additionalProperties": false,
    })
}
