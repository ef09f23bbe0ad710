//! The parameters of requests, as the document describes them.

use serde_json::{Value, json};

/// A key in the query, or a bound of a range, which may have one byte more.
pub(super) fn key(name: &str, is_required: bool, bytes_max: usize, text: &str) -> Value {
    query(
        name,
        is_required,
        &json!({"type": "string", "minLength": 1, "maxLength": bytes_max}),
        &format!(
            "{text} It is bytes, 1 to {bytes_max} of them: percent-encode each byte that is no \
             letter, digit, `-`, `.`, `_` or `~`. The bytes need not be UTF-8."
        ),
    )
}

/// A parameter of the query.
pub(super) fn query(name: &str, is_required: bool, schema: &Value, text: &str) -> Value {
    json!({
        "name": name,
        "in": "query",
        "required": is_required,
        "description": text,
        "schema": schema,
    })
}

/// A field of the head.
pub(super) fn header(name: &str, schema: &Value, text: &str) -> Value {
    json!({
        "name": name,
        "in": "header",
        "required": false,
        "description": text,
        "schema": schema,
    })
}

/// A switch, which is off by default.
pub(super) fn switch(name: &str, text: &str) -> Value {
    query(
        name,
        false,
        &json!({"type": "boolean", "default": false}),
        text,
    )
}

/// How many replicas, and how many of them must answer.
pub(super) fn replicas() -> [Value; 3] {
    let number = json!({"type": "integer", "minimum": 1, "maximum": 255});
    [
        query(
            "ack",
            false,
            &number,
            "How many of the replicas must answer: at most `from`. By default the quorum of \
             `from`.",
        ),
        query(
            "from",
            false,
            &number,
            "How many replicas the key has for this request: at most the number of nodes. By \
             default all nodes, or what the operator chose.",
        ),
        query(
            "replicas",
            false,
            &json!({"type": "string", "pattern": "^[0-9]{1,3}/[0-9]{1,3}$"}),
            "`ACK/FROM`: another spelling of `ack` and `from`, instead of both.",
        ),
    ]
}

/// A version.
pub(super) fn version(name: &str, text: &str) -> Value {
    query(
        name,
        false,
        &json!({"type": "integer", "minimum": 0, "maximum": u64::MAX}),
        text,
    )
}
