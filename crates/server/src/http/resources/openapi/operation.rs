//! Builds the description of an operation: a method of a path.

use super::headers::{self, Header};
use super::node::PEER_PATH;
use crate::http::resources::table::Resource;
use crate::http::verb::Verb;
use api::problem_type::{self as catalogue, ProblemType};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use tokens::Need;

/// The name of the security scheme.
pub(super) const TOKEN: &str = "token";

/// The problems that any request can get, whatever it asks for.
const OF_ALL: [&ProblemType; 11] = [
    &catalogue::TLS_REQUIRED,
    &catalogue::OTHER_HOST,
    &catalogue::OTHER_ORIGIN,
    &catalogue::BAD_HOST,
    &catalogue::TARGET_TOO_LONG,
    &catalogue::HEADER_TOO_LONG,
    &catalogue::UNKNOWN_TRANSFER_CODING,
    &catalogue::BAD_TRANSFER_CODING,
    &catalogue::BAD_PARAMETER,
    &catalogue::VALUE_TOO_LONG,
    &catalogue::OVERLOADED,
];

/// A method of a path, with all that may come of it.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    /// The path.
    pub(super) path: &'static str,
    /// The method.
    pub(super) verb: Verb,
    /// The name that generated clients give it; of a `HEAD` that of its `GET`.
    pub(super) id: &'static str,
    /// The group that it is shown in.
    pub(super) tag: &'static str,
    /// What it does, in a line.
    pub(super) summary: &'static str,
    /// What else there is to know, as Markdown.
    pub(super) text: &'static str,
    /// The parameters of the query, and fields of the head.
    pub(super) parameters: Vec<Value>,
    /// The body of the request.
    pub(super) body: Option<Value>,
    /// The answers of requests that are done.
    pub(super) answers: Vec<Success>,
    /// The types of problems, beside those that any request can get.
    pub(super) problems: Vec<&'static ProblemType>,
}

/// An answer of a request that is done.
#[derive(Clone, Debug)]
pub(super) struct Success {
    /// The status.
    pub(super) status: u16,
    /// What it says.
    pub(super) text: &'static str,
    /// Its header fields, beside those that any answer has.
    pub(super) headers: Vec<Header>,
    /// Its media types, each with a description of the body; none without a body.
    pub(super) content: Vec<(&'static str, Value)>,
}

impl Operation {
    /// The name of the method in the document.
    pub(super) fn method(&self) -> String {
        self.verb.name().to_ascii_lowercase()
    }

    /// The operation in the document.
    pub(super) fn describe(&self) -> Value {
        let mut described = Map::new();
        let mut set = |name: &str, value: Value| described.insert(name.to_owned(), value);
        set("operationId", self.name().into());
        set("tags", json!([self.tag]));
        set("summary", self.summary.into());
        if !self.text.is_empty() {
            set("description", self.text.into());
        }
        if !self.parameters.is_empty() {
            set("parameters", self.parameters.clone().into());
        }
        if let Some(body) = &self.body {
            set("requestBody", body.clone());
        }
        let mut responses = Map::new();
        for success in &self.answers {
            responses.insert(
                success.status.to_string(),
                success.describe(self.has_bodies()),
            );
        }
        for (status, types) in self.problems_by_status() {
            let described = describe_problems(status, &types, self.has_bodies());
            responses.insert(status.to_string(), described);
        }
        set("security", self.security());
        set("responses", responses.into());
        described.into()
    }

    /// The name that generated clients give it.
    fn name(&self) -> String {
        match self.verb {
            Verb::Head => self.id.replacen("get", "head", 1),
            Verb::Options => {
                let resource = self.id.trim_start_matches(|sign: char| sign.is_lowercase());
                format!("options{resource}")
            }
            _ => self.id.to_owned(),
        }
    }

    /// Whether its answers have bodies.
    fn has_bodies(&self) -> bool {
        self.verb != Verb::Head
    }

    /// What the operation needs, as the table of resources says.
    pub(super) fn need(&self) -> Need {
        Resource::at(self.path).map_or(Need::Nothing, |resource| resource.need(self.verb))
    }

    /// The token that it needs on a node with a tokens file. The empty alternative stands
    /// for all other nodes.
    fn security(&self) -> Value {
        match self.need() {
            Need::Nothing => json!([]),
            need => json!([{}, {TOKEN: need.rights()}]),
        }
    }

    fn problems_by_status(&self) -> BTreeMap<u16, Vec<&'static ProblemType>> {
        let mut by_status: BTreeMap<u16, Vec<&'static ProblemType>> = BTreeMap::new();
        let of_tokens: &[&ProblemType] = match self.need() {
            Need::Nothing => &[],
            Need::AnyToken => &[&catalogue::NO_TOKEN],
            _ => &[&catalogue::NO_TOKEN, &catalogue::NO_RIGHT],
        };
        for problem_type in OF_ALL.iter().chain(of_tokens).chain(&self.problems) {
            let types = by_status.entry(problem_type.status).or_default();
            types.push(problem_type);
        }
        by_status
    }
}

impl Success {
    fn describe(&self, has_body: bool) -> Value {
        let mut described = json!({
            "description": self.text,
            "headers": headers::describe(std::slice::from_ref(&self.headers)),
        });
        if has_body && !self.content.is_empty() {
            let content = self.content.iter();
            let content = content.map(|(media, body)| ((*media).to_owned(), body.clone()));
            described["content"] = content.collect::<Map<_, _>>().into();
        }
        described
    }
}

/// A body that clients get as its bytes. Generated clients know no other way to hand over
/// what is neither JSON nor text, and expect one type for all media types of an answer.
pub(super) fn bytes(text: &str) -> Value {
    json!({"schema": {"type": "string", "format": "binary", "description": text}})
}

/// The same of bytes that are JSON with a schema, or lines of such JSON.
pub(super) fn json_bytes(text: &str, schema: &Value) -> Value {
    let mut body = bytes(text);
    body["x-json-schema"] = schema.clone();
    body
}

/// Describes the answers with problems of one status.
pub(super) fn describe_problems(status: u16, types: &[&ProblemType], has_body: bool) -> Value {
    let titles: Vec<&str> = types.iter().map(|problem| problem.title).collect();
    let kinds: Vec<Vec<Header>> = types
        .iter()
        .map(|problem| headers::of_problem(problem.name, status))
        .collect();
    let mut described = json!({
        "description": titles.join("; "),
        "headers": headers::describe(&kinds),
    });
    if has_body {
        let names: Vec<String> = types.iter().map(|problem| problem.urn()).collect();
        described["content"] = json!({
            "application/problem+json": {
                "schema": {
                    "$ref": "#/components/schemas/Problem",
                    "properties": {"type": {"enum": names}, "status": {"const": status}},
                },
            },
        });
    }
    described
}

/// For each operation with `GET`, the one with `HEAD`: the same without bodies.
pub(super) fn with_heads(operations: Vec<Operation>) -> Vec<Operation> {
    let mut all = Vec::new();
    for operation in operations {
        let head = (operation.verb == Verb::Get).then(|| Operation {
            verb: Verb::Head,
            ..operation.clone()
        });
        all.push(operation);
        all.extend(head);
    }
    all
}

/// For each path that clients use, the `OPTIONS` with which browsers ask what pages of other
/// origins may do.
pub(super) fn preflights(operations: &[Operation]) -> Vec<Operation> {
    let mut all: Vec<Operation> = Vec::new();
    for operation in operations {
        let is_new = all.iter().all(|known| known.path != operation.path);
        if operation.path == PEER_PATH || !is_new {
            continue;
        }
        all.push(Operation {
            verb: Verb::Options,
            summary: "Ask what pages of other origins may do",
            text: "Browsers send it before what no form could send. The query is not read.",
            parameters: Vec::new(),
            body: None,
            answers: vec![Success {
                status: 204,
                text: "What they may do. The fields `Access-Control-…` are there if the node was \
                       started with `--cors-origin` and the origin that asks.",
                headers: vec![
                    Header::always(&headers::ALLOW),
                    Header::sometimes(&headers::ALLOW_METHODS),
                    Header::sometimes(&headers::ALLOW_HEADERS),
                    Header::sometimes(&headers::MAX_AGE),
                    Header::sometimes(&headers::ALLOW_PRIVATE_NETWORK),
                ],
                content: Vec::new(),
            }],
            problems: Vec::new(),
            ..operation.clone()
        });
    }
    all
}
