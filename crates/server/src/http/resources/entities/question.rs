//! The body of `POST /v0/aggregate`: what is asked, of which entities.
//!
//! Its fields have the names and the meaning of the parameters of a scan.

use super::parameters::{ScanParameters, Telling, condition_error, range_of, scope_of};
use crate::http::query::keys::{bound_of, key_of};
use crate::http::query::replicas::{ReplicaParameters, ReplicaRules};
use crate::http::query::{ParameterError, QueryBytes};
use api::bytes_of;
use query::{Aggregation, AggregationError, OPERANDS_MAX, Operation, Plan};
use serde::Deserialize;
use std::borrow::Cow;

/// The longest body, in bytes: all expressions that it may have, and two keys.
pub(super) const QUESTION_BYTES_MAX: usize = 128 << 10;

/// How much of an error of JSON is shown, in characters: it may repeat what was sent.
const ERROR_CHARACTERS_MAX: usize = 256;

/// The body as it is sent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    start: Option<String>,
    start_base64: Option<String>,
    end: Option<String>,
    end_base64: Option<String>,
    prefix: Option<String>,
    prefix_base64: Option<String>,
    scope: Option<String>,
    ack: Option<u64>,
    from: Option<u64>,
    replicas: Option<String>,
    r#where: Option<String>,
    #[serde(default)]
    by: Vec<String>,
    #[serde(default)]
    aggregates: Vec<Operand>,
}

/// What is computed of each group.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Operand {
    Sum(String),
    Min(String),
    Max(String),
}

impl Operand {
    fn parts(&self) -> (Operation, &str) {
        match self {
            Self::Sum(text) => (Operation::Sum, text),
            Self::Min(text) => (Operation::Min, text),
            Self::Max(text) => (Operation::Max, text),
        }
    }
}

/// What is asked.
#[derive(Debug)]
pub(super) struct Question {
    /// Of which entities.
    pub(super) parameters: ScanParameters,
    /// What.
    pub(super) aggregation: Aggregation,
}

/// Reads a body.
///
/// # Errors
/// The first field that is not valid.
pub(super) fn read(body: &[u8], rules: ReplicaRules) -> Result<Question, ParameterError> {
    let fields: Fields = serde_json::from_slice(body).map_err(|error| {
        let problem = error.to_string();
        let problem: String = problem.chars().take(ERROR_CHARACTERS_MAX).collect();
        ParameterError::new("body", format_args!("is no question as JSON: {problem}"))
    })?;
    let aggregation = aggregation_of(&fields)?;
    let mut replicas = ReplicaParameters::default();
    let mut first_of_pair = None;
    let numbers = [("ack", fields.ack), ("from", fields.from)];
    let numbers = numbers.map(|(name, number)| (name, number.map(|number| number.to_string())));
    let pairs = numbers.into_iter().chain([("replicas", fields.replicas)]);
    for (name, value) in pairs {
        if let Some(value) = value {
            replicas.take(name.as_bytes(), value.as_bytes())?;
            first_of_pair = first_of_pair.or(Some(name));
        }
    }
    let is_cluster = match fields.scope.as_deref() {
        None => false,
        Some("cluster") => true,
        Some(_) => {
            let detail = "has an unknown value: write \"cluster\", or leave it out";
            return Err(ParameterError::new("scope", detail));
        }
    };
    let scope = scope_of(is_cluster, first_of_pair, replicas, rules)?;
    let start = bytes("start", fields.start, fields.start_base64)?;
    let start = start.map(|bytes| bound_of("start", bytes)).transpose()?;
    let end = bytes("end", fields.end, fields.end_base64)?;
    let end = end.map(|bytes| bound_of("end", bytes)).transpose()?;
    let prefix = bytes("prefix", fields.prefix, fields.prefix_base64)?;
    let prefix = prefix.map(|bytes| key_of("prefix", bytes)).transpose()?;
    let (start, end) = range_of(start, end, prefix, false, is_cluster)?;
    Ok(Question {
        parameters: ScanParameters {
            start,
            end,
            limit: None,
            telling: Telling::Count,
            delimiter: None,
            condition: None,
            needs_values: aggregation.needs_value(),
            scope,
        },
        aggregation,
    })
}

/// The bytes of a field that is text, or base64 with another name.
fn bytes(
    name: &str,
    text: Option<String>,
    base64: Option<String>,
) -> Result<Option<QueryBytes>, ParameterError> {
    let bytes = bytes_of(name, text.map(Cow::Owned), base64.map(Cow::Owned));
    let bytes = bytes.map_err(|problem| ParameterError {
        parameter: name.to_owned(),
        detail: problem,
    })?;
    Ok(bytes.map(|bytes| QueryBytes::from_slice(&bytes)))
}

/// Compiles the expressions.
fn aggregation_of(fields: &Fields) -> Result<Aggregation, ParameterError> {
    for (name, count) in [
        ("by", fields.by.len()),
        ("aggregates", fields.aggregates.len()),
    ] {
        if count > OPERANDS_MAX {
            let detail = format_args!("has {count} expressions: give at most {OPERANDS_MAX}");
            return Err(ParameterError::new(name, detail));
        }
    }
    let plan = Plan {
        condition: fields.r#where.as_deref(),
        by: fields.by.iter().map(String::as_str).collect(),
        operands: fields.aggregates.iter().map(Operand::parts).collect(),
    };
    Aggregation::compile(&plan).map_err(|error| match error {
        AggregationError::Condition(error) => condition_error(&error),
        AggregationError::Operand(operation, error) => {
            let detail = format_args!("has a wrong expression for {operation}: {error}");
            ParameterError::new("aggregates", detail)
        }
        error => ParameterError::new("by", format_args!("has a wrong expression: {error}")),
    })
}

#[cfg(test)]
mod tests {
    use super::super::parameters::Scope;
    use super::*;
    use cluster::Replicas;

    fn read(body: &str) -> Result<Question, ParameterError> {
        let rules = ReplicaRules {
            nodes: 3,
            default: None,
        };
        super::read(body.as_bytes(), rules)
    }

    #[test]
    fn a_question_names_keys_as_a_scan_does() {
        let asked = |body: &str| read(body).unwrap().parameters;
        let prefix = asked(r#"{"prefix":"a/"}"#);
        assert_eq!(prefix.start.as_slice(), b"a/");
        assert_eq!(prefix.end.as_deref(), Some(&b"a0"[..]));
        assert_eq!((prefix.scope, prefix.needs_values), (Scope::Node, false));
        let range = asked(r#"{"start_base64":"/w==","end":"b","aggregates":[{"sum":"value.n"}]}"#);
        assert_eq!(range.start.as_slice(), b"\xff");
        assert!(range.needs_values);
        for (body, ack, from) in [
            (r#"{"scope":"cluster"}"#, 2, 3),
            (r#"{"scope":"cluster","ack":1,"from":2}"#, 1, 2),
            (r#"{"scope":"cluster","replicas":"1/1"}"#, 1, 1),
        ] {
            let all = asked(body);
            assert_eq!(all.scope, Scope::Cluster(Replicas { ack, from }), "{body}");
            assert_eq!((all.start.as_slice(), &all.end), (&b"\0"[..], &None));
        }
    }

    #[test]
    fn a_wrong_question_names_its_field() {
        let many = format!(r#"{{"prefix":"a","by":[{}]}}"#, ["\"key\""; 9].join(","));
        for (body, name) in [
            ("", "body"),
            ("[]", "body"),
            (r#"{"prefix":"a","limit":1}"#, "body"),
            (r#"{"prefix":"a","aggregates":[{"avg":"size"}]}"#, "body"),
            ("{}", "start"),
            (r#"{"prefix":""}"#, "prefix"),
            (r#"{"prefix":"a","start":"a"}"#, "prefix"),
            (r#"{"prefix":"a","prefix_base64":"YQ=="}"#, "prefix"),
            (r#"{"start":"a","end":""}"#, "end"),
            (r#"{"start":"a","ack":1}"#, "ack"),
            (r#"{"scope":"node"}"#, "scope"),
            (r#"{"scope":"cluster","ack":4}"#, "ack"),
            (r#"{"prefix":"a","where":"key"}"#, "where"),
            (r#"{"prefix":"a","by":["value.a +"]}"#, "by"),
            (
                r#"{"prefix":"a","aggregates":[{"max":"nothing"}]}"#,
                "aggregates",
            ),
            (&many, "by"),
        ] {
            assert_eq!(read(body).unwrap_err().parameter, name, "{body}");
        }
    }
}
