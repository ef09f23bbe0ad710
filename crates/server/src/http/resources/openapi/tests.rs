//! The document beside the table of resources, the types of problems and the types of answers.
//! The tests over real sockets compare parameters and answers with it.

use super::super::{admin, digest, entities, health, replicas};
use super::*;
use api::{Problem, ReplicaOutcome, problem_type};
use schemars::generate::SchemaSettings;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use tokens::Need;

const ALL_PARTS: OptionalParts = OptionalParts {
    debug: true,
    cors: true,
};

/// What the one has and the other lacks, with what to do.
fn assert_same<T: Ord + std::fmt::Debug>(served: &BTreeSet<T>, described: &BTreeSet<T>) {
    let missing: Vec<_> = served.difference(described).collect();
    assert!(
        missing.is_empty(),
        "crates/api/openapi.json does not describe {missing:?}: add it there, and to \
         docs/reference/api.md"
    );
    let extra: Vec<_> = described.difference(served).collect();
    assert!(
        extra.is_empty(),
        "crates/api/openapi.json describes {extra:?}, which no node has: remove it"
    );
}

/// The file as it is.
fn file() -> Value {
    serde_json::from_str(api::OPENAPI).unwrap()
}

/// All operations of a document, with their paths and their methods.
fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    paths
        .flat_map(|(path, operations)| {
            let operations = operations.as_object().unwrap().iter();
            operations.map(move |(method, operation)| (&**path, &**method, operation))
        })
        .collect()
}

#[test]
fn each_method_of_each_resource_is_described_and_no_other() {
    let served: BTreeSet<(&str, String)> = RESOURCES
        .iter()
        .flat_map(|resource| {
            let verbs = resource.verbs();
            verbs.map(|verb| (resource.path, verb.name().to_ascii_lowercase()))
        })
        .collect();
    let document = document(OptionalParts {
        cors: false,
        ..ALL_PARTS
    });
    let described: BTreeSet<(&str, String)> = operations(&document)
        .into_iter()
        .map(|(path, method, _)| (path, method.to_owned()))
        .collect();
    assert_same(&served, &described);
    let written = file();
    for (path, method, _) in operations(&written) {
        assert_ne!(method, "head", "{path}: it follows from GET");
    }
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn each_parameter_of_each_resource_is_described_and_no_other() {
    let document = file();
    for resource in &RESOURCES {
        let operations = document.pointer(&pointer(resource)).unwrap();
        let operations = operations.as_object().unwrap().values();
        let parameters = operations.flat_map(|operation| {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            parameters.map(|parameter| target(&document, parameter))
        });
        let queried = parameters.filter(|parameter| parameter["in"] == "query");
        let described = queried.map(|parameter| parameter["name"].as_str().unwrap());
        let served = resource.parameters.iter().copied().collect();
        assert_same(&served, &described.collect());
    }
}

/// What a part of the document is or refers to.
fn target<'a>(document: &'a Value, part: &'a Value) -> &'a Value {
    match part["$ref"].as_str() {
        Some(reference) => document.pointer(&reference[1..]).unwrap(),
        None => part,
    }
}

#[test]
fn each_type_of_problem_is_described_and_no_other() {
    let served: BTreeSet<String> = problem_type::ALL.iter().map(|known| known.urn()).collect();
    let mut described = BTreeMap::new();
    collect_types(&file(), &mut described);
    assert_same(&served, &described.keys().cloned().collect());
    for known in problem_type::ALL {
        let statuses = &described[&known.urn()];
        assert_eq!(statuses, &BTreeSet::from([known.status]), "{}", known.name);
    }
}

/// All types of problems in a part of the document, with the statuses beside them.
fn collect_types(part: &Value, types: &mut BTreeMap<String, BTreeSet<u16>>) {
    match part {
        Value::Object(fields) => {
            let names = fields.get("type").and_then(|kind| kind["enum"].as_array());
            for name in names.into_iter().flatten().filter_map(Value::as_str) {
                let status = fields["status"]["const"].as_u64().unwrap();
                let statuses = types.entry(name.to_owned()).or_default();
                statuses.insert(u16::try_from(status).unwrap());
            }
            fields.values().for_each(|part| collect_types(part, types));
        }
        Value::Array(parts) => parts.iter().for_each(|part| collect_types(part, types)),
        _ => {}
    }
}

#[test]
fn each_reference_leads_to_a_component_and_each_component_is_used() {
    let document = file();
    let mut references = BTreeSet::new();
    collect_references(&document, &mut references);
    // No operation has these answers; they are described for people.
    for name in ["MethodNotAllowed", "UnknownPath"] {
        references.insert(format!("#/components/responses/{name}"));
    }
    let components = document["components"].as_object().unwrap().iter();
    let components = components.filter(|(kind, _)| *kind != "securitySchemes");
    let components: BTreeSet<String> = components
        .flat_map(|(kind, all)| {
            let names = all.as_object().unwrap().keys();
            names.map(move |name| format!("#/components/{kind}/{name}"))
        })
        .collect();
    assert_eq!(references, components);
}

fn collect_references(part: &Value, references: &mut BTreeSet<String>) {
    match part {
        Value::Object(fields) => {
            references.extend(
                fields
                    .get("$ref")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
            );
            let parts = fields.values();
            parts.for_each(|part| collect_references(part, references));
        }
        Value::Array(parts) => {
            let parts = parts.iter();
            parts.for_each(|part| collect_references(part, references));
        }
        _ => {}
    }
}

#[test]
fn each_operation_needs_what_the_table_of_resources_says() {
    let document = document(ALL_PARTS);
    for resource in &RESOURCES {
        for verb in resource.verbs() {
            let method = verb.name().to_ascii_lowercase();
            let path = resource.path;
            let operation = &document["paths"][path][&method];
            let security = match resource.need(verb) {
                Need::Nothing => json!([]),
                need => json!([{}, {"token": need.rights()}]),
            };
            assert_eq!(operation["security"], security, "{method} {path}");
            let needs = !resource.is_public();
            let is_described = operation["responses"].get("401").is_some();
            assert_eq!(is_described, needs, "{method} {path}");
        }
    }
    assert_eq!(
        document["components"]["securitySchemes"]["token"]["scheme"],
        "bearer"
    );
}

#[test]
fn the_names_of_operations_are_unique() {
    let document = document(ALL_PARTS);
    let mut names = BTreeSet::new();
    for (path, method, operation) in operations(&document) {
        let name = operation["operationId"].as_str().unwrap();
        assert!(names.insert(name), "{method} {path}");
    }
}

/// What generators of clients can read: an answer is an object of JSON, text, or bytes, and never
/// an object or something else.
#[test]
fn an_answer_that_is_no_object_of_json_is_text_or_bytes() {
    let document = document(ALL_PARTS);
    let mut bytes = 0;
    for (path, method, operation) in operations(&document) {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let content = target(&document, response)["content"].as_object();
            let content = content.filter(|_| status.starts_with('2'));
            let Some(content) = content else { continue };
            let media: Vec<&str> = content.keys().map(String::as_str).collect();
            let is_object = media == ["application/json"];
            for (name, body) in content {
                let is_bytes = body["schema"]["format"] == "binary";
                let is_other = is_object || name.starts_with("text/");
                assert_eq!(is_bytes, !is_other, "{method} {path} {status}: {body}");
                assert!(is_object || body["schema"]["type"] == "string");
                bytes += usize::from(is_bytes);
            }
        }
    }
    assert!(bytes > 5, "{bytes}");
}

#[test]
fn bytes_are_served_before_other_media_types() {
    let document = json!({"content": {"application/json": {}, BYTES: [{"a": 1, BYTES: 2}]}});
    assert_eq!(
        serde_json::to_string(&BytesFirst(&document)).unwrap(),
        r#"{"content":{"application/octet-stream":[{"application/octet-stream":2,"a":1}],"application/json":{}}}"#
    );
}

/// Writes a schema as generators of clients know it. Numbers have the formats of OpenAPI that all of
/// them fit in: generators know no unsigned ones, and take 32 bits for those that they do not know.
/// What may be anything is an empty schema: some do not know `true`.
fn make_plain(schema: &mut Value) {
    if let Some(items) = schema.get_mut("items")
        && *items == true
    {
        *items = json!({});
    }
    if let Some(format) = schema.get_mut("format") {
        match format.as_str() {
            Some("uint" | "uint32" | "uint64") => *format = "int64".into(),
            Some("uint8" | "uint16") => *format = "int32".into(),
            _ => {}
        }
    }
    match schema {
        Value::Object(fields) => fields.values_mut().for_each(make_plain),
        Value::Array(parts) => parts.iter_mut().for_each(make_plain),
        _ => {}
    }
}

/// The schemas of answers are those of the types that are written.
#[test]
fn each_answer_is_described_as_its_type_says() {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.definitions_path = "/components/schemas".into();
    let mut types = settings.into_generator();
    types.subschema_for::<entities::CountPage>();
    types.subschema_for::<entities::AggregatesPage>();
    types.subschema_for::<digest::DigestPage>();
    types.subschema_for::<api::status::Status>();
    types.subschema_for::<health::Live>();
    types.subschema_for::<api::cluster::Cluster>();
    types.subschema_for::<replicas::KeyReplicas<'_>>();
    types.subschema_for::<health::Ready>();
    types.subschema_for::<api::history::History>();
    types.subschema_for::<api::members::MembersPlan>();
    types.subschema_for::<admin::repair::Repair>();
    types.subschema_for::<admin::backups::Backups>();
    types.subschema_for::<admin::backups::OrderedBackup>();
    types.subschema_for::<admin::backups::PrunedBackups>();
    types.subschema_for::<admin::backups::VerifiedBackup>();
    types.subschema_for::<admin::compact::Compaction>();
    types.subschema_for::<api::tokens::SharedTokens>();
    types.subschema_for::<admin::set_aside::CopiesSetAside>();
    types.subschema_for::<admin::set_aside::RestoredCopy>();
    let mut written = types.take_definitions(true);
    let mut document = file();
    let described = document["components"]["schemas"].as_object_mut().unwrap();
    for schema in written.values_mut().chain(described.values_mut()) {
        make_plain(schema);
    }
    let described = &*described;
    let differs = |(name, schema): &(&String, &Value)| described.get(*name) != Some(schema);
    let others = written.iter().filter(differs).map(|(name, schema)| {
        let schema = serde_json::to_string_pretty(schema).unwrap();
        format!("\"{name}\": {schema}\n")
    });
    let others: String = others.collect();
    assert!(
        others.is_empty(),
        "crates/api/openapi.json: these schemas have to be:\n{others}"
    );
    // These are types of the crate `api`, which tests compare with what is written.
    let others = ["EntityLine", "Problem", "ReplicaOutcome"];
    let written = written.keys().map(String::as_str).chain(others);
    assert_same(
        &written.collect(),
        &described.keys().map(String::as_str).collect(),
    );
}

/// The members that a value has as JSON.
fn members(value: &impl Serialize) -> BTreeSet<String> {
    let json = serde_json::to_value(value).unwrap();
    json.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn problems_and_lines_are_described_with_all_their_members() {
    let document = file();
    let described = |name: &str| -> (BTreeSet<String>, BTreeSet<String>) {
        let schema = &document["components"]["schemas"][name];
        let required = schema["required"].as_array().unwrap().iter();
        let required = required.map(|name| name.as_str().unwrap().to_owned());
        (
            schema["properties"]
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect(),
            required.collect(),
        )
    };
    let least = Problem::default();
    let outcome = ReplicaOutcome::default();
    let text = || Some(String::new());
    let whole = Problem {
        parameter: text(),
        allow: text(),
        trace: text(),
        line: Some(1),
        outcome: text(),
        timestamp: text(),
        replicas: vec![outcome.clone()],
        ..Problem::default()
    };
    assert_eq!(described("Problem"), (members(&whole), members(&least)));
    assert_eq!(
        described("ReplicaOutcome"),
        (members(&outcome), members(&outcome))
    );
    let line = |key: &[u8], value: Option<&[u8]>, expires| -> BTreeSet<String> {
        let mut line = Vec::new();
        let entity = api::EntityLine {
            key,
            version: Some("9"),
            expires,
        };
        entity.write(value, &mut line);
        members(&serde_json::from_slice::<Value>(&line).unwrap())
    };
    let mut all = line(b"k", Some(b"v"), Some("2026-11-22T16:00:00Z"));
    all.extend(line(b"\xff", Some(b"\xff"), None));
    assert_eq!(described("EntityLine").0, all);
    assert_eq!(
        described("EntityLine").1,
        BTreeSet::from(["version".to_owned()])
    );
}

#[test]
fn outcomes_are_those_of_receipts() {
    use ::cluster::{Fate, Miss};
    let document = file();
    let outcomes = &document["components"]["schemas"]["ReplicaOutcome"]["properties"]["outcome"];
    let described: BTreeSet<&str> = outcomes["enum"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    let served: BTreeSet<&str> = [
        Fate::Stored,
        Fate::Value,
        Fate::Absent,
        Fate::Answered,
        Fate::Unanswered,
        Fate::Missed(Miss::Timeout),
        Fate::Missed(Miss::Suspected),
        Fate::Missed(Miss::Refused),
        Fate::Missed(Miss::Unsupported),
        Fate::Missed(Miss::Overloaded),
        Fate::Missed(Miss::Full),
        Fate::Missed(Miss::Failed),
        Fate::Missed(Miss::Learner),
        Fate::Missed(Miss::Undecided),
    ]
    .map(Fate::word)
    .into_iter()
    .chain(["obsolete"])
    .collect();
    assert_same(&served, &described);
}

#[test]
fn only_nodes_with_extras_describe_them() {
    for (debug, cors) in [(false, false), (false, true), (true, false), (true, true)] {
        let document = document(OptionalParts { debug, cors });
        let paths = document["paths"].as_object().unwrap();
        assert_eq!(paths.contains_key("/debug/profile"), debug);
        assert!(document.get(OPTIONS).is_none());
        for (path, methods) in paths {
            let has_options = methods.get("options").is_some();
            assert_eq!(has_options, cors && path != "/v0/peer", "{path}");
        }
    }
}
