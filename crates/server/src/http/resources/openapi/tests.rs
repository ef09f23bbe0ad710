//! The document beside the table of resources and the catalogue of problems. The tests
//! over real sockets compare parameters and answers with it.

use super::*;
use crate::http::resources::table::{PATHS, Resource};
use std::collections::{BTreeMap, BTreeSet};
use tokens::Need;

const ALL_EXTRAS: Extras = Extras {
    debug: true,
    cors: true,
};
const NO_EXTRAS: Extras = Extras {
    debug: false,
    cors: false,
};

/// What the one has and the other lacks, with what to do.
fn assert_same<T: Ord + std::fmt::Debug>(served: &BTreeSet<T>, described: &BTreeSet<T>) {
    let missing: Vec<_> = served.difference(described).collect();
    assert!(
        missing.is_empty(),
        "/openapi.json does not describe {missing:?}: add it to an Operation in \
         crates/server/src/http/resources/openapi (its mod.rs says how), and to docs/reference/api.md"
    );
    let extra: Vec<_> = described.difference(served).collect();
    assert!(
        extra.is_empty(),
        "/openapi.json describes {extra:?}, which no node has: remove it from \
         crates/server/src/http/resources/openapi"
    );
}

fn all() -> Vec<Operation> {
    operations(&mut Schemas::new())
}

#[test]
fn each_method_of_each_resource_is_described_and_no_other() {
    let served: BTreeSet<(&str, String)> = PATHS
        .iter()
        .flat_map(|(path, resource)| {
            let methods = resource.verbs().iter();
            methods.map(|verb| (*path, verb.name().to_owned()))
        })
        .collect();
    let described: BTreeSet<(&str, String)> = all()
        .iter()
        .map(|operation| (operation.path, operation.verb.name().to_owned()))
        .collect();
    assert_same(&served, &described);
}

#[test]
fn each_type_of_problem_is_described_and_no_other() {
    let served: BTreeSet<String> = catalogue::ALL.iter().map(|known| known.urn()).collect();
    let mut described = BTreeMap::new();
    collect_types(&document(ALL_EXTRAS), &mut described);
    assert_same(&served, &described.keys().cloned().collect());
    for known in catalogue::ALL {
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
    let document = document(ALL_EXTRAS);
    let mut references = BTreeSet::new();
    collect_references(&document, &mut references);
    let components = document["components"]["schemas"].as_object().unwrap();
    let components: BTreeSet<String> = components
        .keys()
        .map(|name| format!("#/components/schemas/{name}"))
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
    let document = document(ALL_EXTRAS);
    for (path, resource) in PATHS {
        for verb in resource.verbs() {
            let method = verb.name().to_ascii_lowercase();
            let operation = &document["paths"][path][&method];
            let security = match resource.need(*verb) {
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
    let document = document(ALL_EXTRAS);
    let paths = document["paths"].as_object().unwrap().values();
    let methods = paths.flat_map(|path| path.as_object().unwrap().values());
    let mut names: Vec<&str> = methods
        .map(|method| method["operationId"].as_str().unwrap())
        .collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

/// What generators of clients can read: an answer is an object of JSON, or bytes, and never
/// one or the other.
#[test]
fn an_answer_that_is_no_object_of_json_is_bytes() {
    let document = document(ALL_EXTRAS);
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.values().flat_map(|path| path.as_object().unwrap());
    let mut bytes = 0;
    for (_, operation) in operations {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let content = response.get("content").and_then(Value::as_object);
            let content = content.filter(|_| status.starts_with('2'));
            let Some(content) = content else { continue };
            let media: Vec<&str> = content.keys().map(String::as_str).collect();
            let is_object = media == ["application/json"];
            for body in content.values() {
                let is_bytes = body["schema"]["format"] == "binary";
                let what = &operation["operationId"];
                assert_eq!(is_bytes, !is_object, "{what} {status}: {body}");
                assert!(!is_bytes || body["schema"]["type"] == "string");
                bytes += usize::from(is_bytes);
            }
        }
    }
    assert!(bytes > 5, "{bytes}");
}

#[test]
fn outcomes_are_those_of_receipts() {
    use cluster::{Fate, Miss};
    let document = document(NO_EXTRAS);
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
        let document = document(Extras { debug, cors });
        let paths = document["paths"].as_object().unwrap();
        assert_eq!(paths.contains_key("/debug/profile"), debug);
        for (path, methods) in paths {
            let has_options = methods.get("options").is_some();
            assert_eq!(has_options, cors && path != "/v0/peer", "{path}");
        }
    }
    assert!(PATHS.contains(&("/debug/profile", Resource::Profile)));
}
