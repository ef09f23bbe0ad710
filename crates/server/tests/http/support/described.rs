//! Holds each answer that a test gets to the document at `/openapi.json`: its status, its
//! media type, its header fields and its type of problem must be described there.

use super::{Client, Reply, config, start_with};
use serde_json::Value;
use std::sync::OnceLock;

/// What HTTP itself adds to answers.
const OF_HTTP: [&str; 6] = [
    "date",
    "connection",
    "content-length",
    "content-type",
    "transfer-encoding",
    "location",
];

/// The document, from a node of its own that serves all that a node can serve.
pub(crate) fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        let mut config = config();
        config.debug_endpoints = true;
        config.cors_origins = vec!["https://app.example".to_owned()];
        let node = start_with(config);
        let mut client = Client::connect(&node);
        client.send("GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n");
        client.reply_to("GET").json()
    })
}

/// What a part of the document is or refers to.
pub(crate) fn referred(part: &'static Value) -> &'static Value {
    match part["$ref"].as_str() {
        Some(reference) => document().pointer(&reference[1..]).unwrap(),
        None => part,
    }
}

/// Checks an answer.
pub(crate) fn check(method: &str, target: &str, reply: &Reply) {
    let path = target.split('?').next().unwrap();
    let operation = &document()["paths"][path][method.to_ascii_lowercase()];
    // A head that hyper cannot parse may get its bare status.
    let is_bare = matches!(reply.status, 400 | 414 | 431) && reply.body.is_empty();
    // The document is that of a node with --cors-origin, and others have no OPTIONS.
    let is_no_preflight = method == "OPTIONS" && reply.status == 405;
    if operation.is_null() || is_bare || is_no_preflight {
        return;
    }
    let what = format!("{method} {path} was answered {}", reply.status);
    let todo = "describe it in crates/api/openapi.json, and in docs/reference/api.md";
    let response = referred(&operation["responses"][reply.status.to_string()]);
    assert!(
        !response.is_null(),
        "{what}, which /openapi.json does not describe: {todo}. {reply:?}"
    );
    let of_all = &document()["x-headers-of-all-responses"];
    let described: Vec<(String, &Value)> = [of_all, &response["headers"]]
        .into_iter()
        .flat_map(|headers| headers.as_object().into_iter().flatten())
        .map(|(name, header)| (name.to_ascii_lowercase(), referred(header)))
        .collect();
    for (name, value) in &reply.headers {
        let is_known =
            OF_HTTP.contains(&name.as_str()) || described.iter().any(|(known, _)| known == name);
        assert!(is_known, "{what} with `{name}: {value}`: {todo}");
    }
    for (name, header) in described {
        let is_missing = header["required"] == true && reply.header(&name).is_none();
        assert!(
            !is_missing,
            "{what} without {name}, which /openapi.json says each such answer has: \
             describe it without `required`. {reply:?}"
        );
    }
    let Some(content) = response["content"].as_object().filter(|_| method != "HEAD") else {
        return;
    };
    let media = reply.header("content-type").unwrap_or_default();
    let body = content.get(media);
    assert!(body.is_some(), "{what} with a body of `{media}`: {todo}");
    if media == "application/problem+json" {
        // Generated clients read `schema`, which may say less.
        let exact =
            |content: &'static Value| content.get("x-json-schema").unwrap_or(&content["schema"]);
        let types = &body.map_or(&Value::Null, exact)["properties"]["type"]["enum"];
        let problem = reply.json();
        assert!(
            types.as_array().unwrap().contains(&problem["type"]),
            "{what} with the problem {}: {todo}, as one of the operation's problems",
            problem["type"]
        );
    }
}
