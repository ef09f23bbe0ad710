//! The operations on ranges of keys: `/v0/entities` and `/v0/digest`.

use super::Schemas;
use super::headers::{Header, SANDBOX, TRAILER};
use super::operation::{Operation, Success, bytes, json_bytes};
use super::parameters;
use crate::http::resources::digest::DigestPage;
use crate::http::resources::entities::CountPage;
use crate::http::verb::Verb;
use api::problem_type as catalogue;
use base::KEY_BYTES_MAX;
use serde_json::{Value, json};

const TAG: &str = "ranges";

/// What bodies of lines say of themselves.
pub(super) const LINES: &str = "Lines of JSON, each of `x-json-schema`.";

/// The longest bound of a range: the longest key, and one byte more.
const BOUND_BYTES_MAX: usize = KEY_BYTES_MAX + 1;

pub(super) fn operations(schemas: &mut Schemas) -> Vec<Operation> {
    vec![entities(schemas), digest(schemas)]
}

fn start(is_required: bool) -> Value {
    parameters::key("start", is_required, BOUND_BYTES_MAX, "The first key.")
}

fn end() -> Value {
    parameters::key(
        "end",
        false,
        BOUND_BYTES_MAX,
        "The key before which the range ends; without it, it ends after the last key.",
    )
}

fn entities(schemas: &mut Schemas) -> Operation {
    Operation {
        path: "/v0/entities",
        verb: Verb::Get,
        id: "getEntities",
        tag: TAG,
        summary: "Read a range of keys",
        text: "The live entities of this node, or of the whole cluster, with \
               `start <= key < end`, sorted by the bytes of the key, streamed. A stream that ends without the last chunk was cut short. To \
               continue after the last key that arrived: `start=<last key>%00`.",
        parameters: of_entities(),
        body: None,
        answers: vec![Success {
            status: 200,
            text: "The entities, also if there are none.",
            headers: vec![Header::sometimes(&SANDBOX), Header::sometimes(&TRAILER)],
            content: vec![
                (
                    "application/octet-stream",
                    bytes("A chunk for each entity: the key, a line feed, the value."),
                ),
                (
                    "application/x-ndjson",
                    json_bytes(LINES, &json!({"type": "object"})),
                ),
                (
                    "application/json",
                    json_bytes(
                        "With `count=only`: an object of `x-json-schema`.",
                        &schemas.of::<CountPage>(),
                    ),
                ),
            ],
        }],
        problems: vec![
            &catalogue::RANGE_NEEDS_HTTP_1_1,
            &catalogue::TOO_FEW_NODES,
            &catalogue::RANGE_TIMED_OUT,
            &catalogue::RANGE_TOO_LONG,
            &catalogue::RANGE_FAILED,
            &catalogue::CLIENT_LEFT,
        ],
    }
}

/// The parameters of `/v0/entities`.
fn of_entities() -> Vec<Value> {
    let mut all = vec![
        start(false),
        end(),
        parameters::key(
            "prefix",
            false,
            KEY_BYTES_MAX,
            "All keys that begin with it, instead of `start` and `end`. A range needs \
                 `start` or `prefix`.",
        ),
        parameters::query(
            "limit",
            false,
            &json!({"type": "integer", "minimum": 1, "maximum": u64::MAX}),
            "The greatest number of entities.",
        ),
        parameters::query(
            "values",
            false,
            &json!({"const": "omit"}),
            "Lines of JSON without the values.",
        ),
        parameters::query(
            "count",
            false,
            &json!({"const": "only"}),
            "Only the number of entities, as `application/json`.",
        ),
        parameters::query(
            "scope",
            false,
            &json!({"const": "cluster"}),
            "The entities of the whole cluster, each once. Only such a range has `ack` and \
                 `from`.",
        ),
        parameters::header(
            "TE",
            &json!({"type": "string", "examples": ["trailers"]}),
            "With `trailers` the stream ends with the trailers `Kvorum-Count` and `Kvorum-Digest`.",
        ),
    ];
    all.extend(parameters::replicas());
    all
}

fn digest(schemas: &mut Schemas) -> Operation {
    Operation {
        path: "/v0/digest",
        verb: Verb::Get,
        id: "getDigest",
        tag: TAG,
        summary: "Sum up what a node keeps in a range",
        text: "Two nodes that keep the same answer the same, if they are asked with the same \
               `cut` and `forgotten`.",
        parameters: vec![
            start(true),
            end(),
            parameters::query(
                "peer",
                false,
                &json!({"type": "string", "minLength": 1}),
                "The name of another node: only the keys that both keep count.",
            ),
            parameters::version("cut", "Versions above this one are left out."),
            parameters::version(
                "gc_threshold",
                "What is dead below this version is left out.",
            ),
        ],
        body: None,
        answers: vec![Success {
            status: 200,
            text: "The sums.",
            headers: Vec::new(),
            content: vec![(
                "application/json",
                json!({"schema": schemas.of::<DigestPage>()}),
            )],
        }],
        problems: vec![
            &catalogue::RANGE_TIMED_OUT,
            &catalogue::RANGE_FAILED,
            &catalogue::CLIENT_LEFT,
        ],
    }
}
