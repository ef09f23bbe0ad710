//! `/openapi.json`: the HTTP API as an OpenAPI 3.1 document.
//!
//! The document is the file `crates/api/openapi.json`. A node serves it with what follows from
//! it: a `HEAD` for each `GET`, and where pages of other origins are served an `OPTIONS` for each
//! path; and without the paths that it does not have. Tests hold the file to the table of
//! resources, to the types of the answers, and to each answer that a test gets, in both
//! directions.

#[cfg(test)]
mod tests;

use super::table::{RESOURCES, Resource};
use crate::http::exchange::{Answer, HttpExchange};
use crate::http::request::verb::Verb;
use crate::http::response::page;
use bytes::Bytes;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;
use std::sync::OnceLock;

/// The documents of nodes with and without debug endpoints and pages of other origins.
static DOCUMENTS: [OnceLock<Bytes>; 4] = [const { OnceLock::new() }; 4];

/// The operation in the file that stands for the `OPTIONS` of each path.
const OPTIONS: &str = "x-options-of-all-paths";

/// The media type of bytes.
const BYTES: &str = "application/octet-stream";

/// What only some nodes serve.
#[derive(Clone, Copy, Debug)]
struct OptionalParts {
    /// Whether there are debug endpoints.
    debug: bool,
    /// Whether pages of other origins are served, whose browsers ask with `OPTIONS`.
    cors: bool,
}

/// `GET` and `HEAD`.
pub(super) fn answer(exchange: &HttpExchange<'_>) -> Answer {
    exchange.check_body_limit()?;
    let extras = OptionalParts {
        debug: exchange.listener.has_debug_endpoints(),
        cors: !exchange.listener.own_hosts.cors_origins().is_empty(),
    };
    let index = usize::from(extras.debug) + 2 * usize::from(extras.cors);
    let document = DOCUMENTS[index].get_or_init(|| {
        // Strings and numbers always have a JSON form.
        Bytes::from(serde_json::to_vec(&BytesFirst(&document(extras))).unwrap_or_default())
    });
    Ok(page::text("application/json", document.clone()))
}

/// A part of the document as it is written. Generators of clients take the first media type of a
/// body that they know; bytes come first, because they are true of each body that can be bytes.
struct BytesFirst<'a>(&'a Value);

impl Serialize for BytesFirst<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                let (bytes, others): (Vec<_>, Vec<_>) =
                    fields.iter().partition(|(name, _)| *name == BYTES);
                for (name, part) in bytes.into_iter().chain(others) {
                    map.serialize_entry(name, &BytesFirst(part))?;
                }
                map.end()
            }
            Value::Array(parts) => serializer.collect_seq(parts.iter().map(BytesFirst)),
            plain => plain.serialize(serializer),
        }
    }
}

/// The document of a node.
fn document(extras: OptionalParts) -> Value {
    // A test reads the file.
    let mut document: Value = serde_json::from_str(api::OPENAPI).unwrap_or_default();
    let options = document
        .as_object_mut()
        .and_then(|fields| fields.remove(OPTIONS));
    let options = options.filter(|_| extras.cors);
    for resource in &RESOURCES {
        let Some(operations) = document.pointer_mut(&pointer(resource)) else {
            continue;
        };
        if resource.verbs().any(|verb| verb == Verb::Head) {
            operations["head"] = head_of(&operations["get"]);
        }
        if let Some(options) = options.as_ref().filter(|_| resource.may_have_options()) {
            operations["options"] = options_of(operations, options);
        }
    }
    if let (false, Some(paths)) = (extras.debug, document["paths"].as_object_mut()) {
        paths.retain(|path, _| {
            !RESOURCES
                .iter()
                .any(|known| known.path == path && known.is_debug())
        });
    }
    document
}

/// Where the operations of a resource stand in the document (RFC 6901).
fn pointer(resource: &Resource) -> String {
    format!("/paths/{}", resource.path.replace('/', "~1"))
}

/// A `HEAD`: the same as `GET`, without bodies.
fn head_of(get: &Value) -> Value {
    let mut head = get.clone();
    head["operationId"] = named("head", get);
    let responses = head["responses"].as_object_mut();
    for response in responses.into_iter().flat_map(|all| all.values_mut()) {
        if let Some(fields) = response.as_object_mut() {
            fields.remove("content");
        }
    }
    head
}

/// The `OPTIONS` of a path with these operations.
fn options_of(operations: &Value, template: &Value) -> Value {
    let mut options = template.clone();
    let first = operations.as_object().and_then(|all| all.values().next());
    if let Some(first) = first {
        options["operationId"] = named("options", first);
        options["tags"] = first["tags"].clone();
    }
    options
}

/// The name of an operation with another method: `getEntity` becomes `headEntity`.
fn named(method: &str, operation: &Value) -> Value {
    let name = operation["operationId"].as_str().unwrap_or_default();
    let resource = name.trim_start_matches(|sign: char| sign.is_lowercase());
    format!("{method}{resource}").into()
}
