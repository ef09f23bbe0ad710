//! `/openapi.json`: the HTTP API as an OpenAPI 3.1 document.
//!
//! The document is built from what the code uses itself, so that it cannot drift: types
//! of problems from their catalogue, bodies of JSON from the types that are written. What
//! is left, paths, methods, parameters and statuses, tests compare with the table of
//! resources and with the answers of a running node, in both directions.
//!
//! - `entity`, `batch`, `ranges`, `node`, `operator`, `console`: the operations.
//! - `operation`, `parameters`, `headers`: what describes one.
//!
//! It is built when it is first asked for, and costs other requests nothing.
//!
//! # To describe a resource
//! Add an [`Operation`](operation::Operation) for each of its methods but `HEAD` to the
//! file that fits, or to a new one with a line in [`operations`]. Derive `JsonSchema` for
//! the types of its answers. Its types of problems are the constants of the catalogue.

mod batch;
mod console;
mod entity;
mod headers;
mod node;
mod operation;
mod operator;
mod parameters;
mod ranges;

#[cfg(test)]
mod tests;

use crate::http::exchange::{Answer, Exchange};
use crate::http::page;
use crate::http::problem::Document as Problem;
use crate::http::query;
use api::problem_type::{self as catalogue, ProblemType};
use bytes::Bytes;
use operation::{Operation, TOKEN, describe_problems, preflights, with_heads};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use std::sync::OnceLock;

/// What the document says of the API as a whole.
const TEXT: &str = "A replicated key-value store. Any node of a cluster takes any request.\n\n\
    A request to an unknown path is `400` with the problem type `unknown-path`, and one with \
    another method is `405` with `method-not-allowed` and `Allow`. A refused request changes \
    nothing. What clients may rely on is in docs/reference/api.md.";

/// What it says of tokens.
const TEXT_OF_TOKENS: &str = "A node with a tokens file needs a token for all paths but those \
    without security here. The names beside the scheme are rights, of which the token needs \
    one: `read` and `write` for the keys of the request. Other nodes need none.";

/// The documents of nodes with and without debug endpoints and pages of other origins.
static DOCUMENTS: [OnceLock<Bytes>; 4] = [const { OnceLock::new() }; 4];

/// What only some nodes serve.
#[derive(Clone, Copy, Debug)]
struct Extras {
    /// Whether there are debug endpoints.
    debug: bool,
    /// Whether pages of other origins are served, whose browsers ask with `OPTIONS`.
    cors: bool,
}

/// `GET` and `HEAD`.
pub(super) fn answer(exchange: &Exchange<'_>) -> Answer {
    query::none(exchange.query())?;
    exchange.check_body_limit()?;
    let extras = Extras {
        debug: exchange.listener.has_debug_endpoints(),
        cors: exchange.listener.own_hosts.cors_origins().are_any(),
    };
    let index = usize::from(extras.debug) + 2 * usize::from(extras.cors);
    let document = DOCUMENTS[index].get_or_init(|| {
        // Strings and numbers always have a JSON form.
        Bytes::from(serde_json::to_vec(&document(extras)).unwrap_or_default())
    });
    Ok(page::text("application/json", document.clone()))
}

/// The document of a node.
fn document(extras: Extras) -> Value {
    let mut schemas = Schemas::new();
    schemas.of::<Problem<'_>>();
    let mut paths = Map::new();
    let mut operations = operations(&mut schemas);
    if extras.cors {
        operations.extend(preflights(&operations));
    }
    for operation in operations {
        if operation.path == operator::PROFILE_PATH && !extras.debug {
            continue;
        }
        let path = paths
            .entry(operation.path)
            .or_insert_with(|| Value::Object(Map::new()));
        path[operation.method()] = operation.describe();
    }
    let unmatched = |types: &'static ProblemType| describe_problems(types.status, &[types], true);
    json!({
        "openapi": "3.1.1",
        "info": {
            "title": "Kvorum",
            "version": env!("CARGO_PKG_VERSION"),
            "description": TEXT,
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                TOKEN: {"type": "http", "scheme": "bearer", "description": TEXT_OF_TOKENS},
            },
            "schemas": schemas.into_components(),
            "responses": {
                "UnknownPath": unmatched(&catalogue::UNKNOWN_PATH),
                "MethodNotAllowed": unmatched(&catalogue::METHOD_NOT_ALLOWED),
            },
        },
    })
}

/// All operations, those with `HEAD` included.
fn operations(schemas: &mut Schemas) -> Vec<Operation> {
    let mut all = entity::operations();
    all.extend(batch::operations(schemas));
    all.extend(ranges::operations(schemas));
    all.extend(node::operations(schemas));
    all.extend(operator::operations(schemas));
    all.extend(console::operations());
    let mut all = with_heads(all);
    all.push(node::peer());
    all
}

/// The schemas of bodies, made from the types that are written.
struct Schemas(SchemaGenerator);

impl Schemas {
    fn new() -> Self {
        let mut settings = SchemaSettings::draft2020_12().for_serialize();
        settings.definitions_path = "/components/schemas".into();
        Self(settings.into_generator())
    }

    /// The schema of a type, as a reference to a component.
    fn of<T: JsonSchema>(&mut self) -> Value {
        self.0.subschema_for::<T>().into()
    }

    fn into_components(mut self) -> Map<String, Value> {
        self.0.take_definitions(true)
    }
}
