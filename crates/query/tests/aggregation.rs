//! What aggregations count, and that partials merge to the same.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use query::{
    Aggregate, Aggregation, AggregationError, Entity, GROUPS_MAX, OPERANDS_MAX, Operation, Partial,
    Plan, Summary,
};
use serde_json::{Value, json};

fn compile(condition: &str, by: &[&str], operands: &[(Operation, &str)]) -> Aggregation {
    Aggregation::compile(&Plan {
        condition: (!condition.is_empty()).then_some(condition),
        by: by.to_vec(),
        operands: operands.to_vec(),
    })
    .unwrap()
}

fn partial(aggregation: &Aggregation, values: &[String]) -> Result<Partial, AggregationError> {
    let mut partial = Partial::default();
    for value in values {
        let entity = Entity {
            key: b"k",
            version: 1,
            expires_unix_ms: None,
            value: value.as_bytes(),
            now_unix_ms: 0,
        };
        partial.add(aggregation, &entity)?;
    }
    Ok(partial)
}

fn summary(aggregation: &Aggregation, values: &[&str]) -> Summary {
    let values: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
    partial(aggregation, &values).unwrap().summary(aggregation)
}

/// `[what makes the group, count, results]` of each group.
fn table(summary: &Summary) -> Value {
    let rows = summary.groups.iter().map(|group| {
        let results = group.aggregates.iter();
        let results: Vec<_> = results
            .map(|Aggregate { value, counted, .. }| json!([value, counted]))
            .collect();
        json!([group.by, group.count, results])
    });
    rows.collect()
}

#[test]
fn groups_have_counts_sums_and_extremes() {
    let aggregation = compile(
        "value.total > 1",
        &["value.country"],
        &[
            (Operation::Sum, "value.total"),
            (Operation::Min, "value.name"),
            (Operation::Max, "value.total"),
        ],
    );
    let found = summary(
        &aggregation,
        &[
            r#"{"total": 2, "country": "DE", "name": "b"}"#,
            r#"{"total": 3, "country": "DE", "name": "a"}"#,
            r#"{"total": 1.5, "country": "FR", "name": 7}"#,
            r#"{"total": 4}"#,
            r#"{"total": 5, "country": null, "name": []}"#,
            r#"{"total": 1, "country": "DE"}"#,
            "no JSON",
        ],
    );
    assert_eq!((found.keys, found.matched), (7, 5));
    assert_eq!(
        table(&found),
        json!([
            [["DE"], 2, [[5, 2], ["a", 2], [3, 2]]],
            [["FR"], 1, [[1.5, 1], [7, 1], [1.5, 1]]],
            [[null], 2, [[9, 2], [null, 0], [5, 2]]],
        ])
    );
}

#[test]
fn without_groups_there_is_one() {
    let aggregation = compile("", &[], &[(Operation::Sum, "value")]);
    let found = summary(&aggregation, &[]);
    assert_eq!(table(&found), json!([[[], 0, [[null, 0]]]]));
    let found = summary(&aggregation, &["9223372036854775807", "-1", "x", "true"]);
    assert_eq!(table(&found), json!([[[], 4, [[i64::MAX - 1, 2]]]]));
    let found = summary(
        &aggregation,
        &["9223372036854775807", "9223372036854775807"],
    );
    assert_eq!(
        table(&found),
        json!([[[], 2, [[1.8446744073709552e19, 2]]]])
    );
}

#[test]
fn equal_values_make_one_group() {
    let aggregation = compile("", &["value.a", "size(value.b) > 1"], &[]);
    let found = summary(
        &aggregation,
        &[
            r#"{"a": 1, "b": "xy"}"#,
            r#"{"a": 1.0, "b": "xy"}"#,
            r#"{"a": "1", "b": ""}"#,
            r#"{"a": "\u0031", "b": ""}"#,
            r#"{"a": "a\nb"}"#,
        ],
    );
    assert_eq!(
        table(&found),
        json!([
            [["1", false], 2, []],
            [["a\nb", null], 1, []],
            [[1, true], 2, []]
        ])
    );
}

#[test]
fn parts_of_the_entities_merge_to_the_whole() {
    let aggregation = compile(
        "value.n % 7 != 0",
        &["value.g"],
        &[
            (Operation::Sum, "value.n"),
            (Operation::Min, "value.s"),
            (Operation::Max, "value.s"),
        ],
    );
    let mut random = fastrand::Rng::with_seed(5);
    let values: Vec<String> = (0..2000)
        .map(|_| {
            let (n, g) = (random.u32(..1000), random.u8(..20));
            let s: String = (0..random.usize(1..9))
                .map(|_| random.alphabetic())
                .collect();
            format!(r#"{{"n":{n},"g":{g},"s":"{s}"}}"#)
        })
        .collect();
    let whole = partial(&aggregation, &values)
        .unwrap()
        .summary(&aggregation);
    let mut merged = Partial::default();
    for part in values.chunks(97) {
        merged.merge(partial(&aggregation, part).unwrap()).unwrap();
    }
    assert_eq!(merged.summary(&aggregation), whole);
}

#[test]
fn a_bound_that_is_met_is_named() {
    let aggregation = compile("", &["value"], &[]);
    let values = |range: std::ops::Range<usize>| -> Vec<String> {
        range.map(|number| number.to_string()).collect()
    };
    let mut full = partial(&aggregation, &values(0..GROUPS_MAX)).unwrap();
    let one_more = partial(&aggregation, &values(0..GROUPS_MAX + 1));
    assert_eq!(one_more.unwrap_err(), AggregationError::TooManyGroups);
    full.merge(partial(&aggregation, &values(5..7)).unwrap())
        .unwrap();
    let other = partial(&aggregation, &values(GROUPS_MAX..GROUPS_MAX + 1)).unwrap();
    let error = full.merge(other).unwrap_err();
    assert_eq!(error, AggregationError::TooManyGroups);
    assert!(error.to_string().contains("10000 groups"), "{error}");
    let long: Vec<_> = (0..GROUPS_MAX)
        .map(|number| format!("\"{number:01000}\""))
        .collect();
    let error = partial(&aggregation, &long).unwrap_err();
    assert_eq!(error, AggregationError::TooManyBytes);
    // A text that is too long to make a group is none.
    let found = summary(&aggregation, &[&format!("\"{}\"", "a".repeat(2000))]);
    assert_eq!(table(&found), json!([[[null], 1, []]]));
    // Texts that are kept count, too.
    let aggregation = compile(
        "",
        &["value.g"],
        &[(Operation::Max, "value.s"); OPERANDS_MAX],
    );
    let long: Vec<_> = (0..2000)
        .map(|number| format!(r#"{{"g":{number},"s":"{number:01000}"}}"#))
        .collect();
    let error = partial(&aggregation, &long).unwrap_err();
    assert_eq!(error, AggregationError::TooManyBytes);
}

#[test]
fn a_plan_is_checked() {
    let wrong = |condition, by: &[&'static str], operands: &[(Operation, &'static str)]| {
        let (by, operands) = (by.to_vec(), operands.to_vec());
        let plan = Plan {
            condition,
            by,
            operands,
        };
        Aggregation::compile(&plan).unwrap_err()
    };
    let error = wrong(Some("1"), &[], &[]);
    assert!(matches!(error, AggregationError::Condition(_)), "{error}");
    let error = wrong(None, &["value.a", "b"], &[]);
    assert!(matches!(error, AggregationError::By(_)), "{error}");
    let error = wrong(None, &[], &[(Operation::Max, "value.")]);
    assert!(
        matches!(error, AggregationError::Operand(Operation::Max, _)),
        "{error}"
    );
    let error = wrong(None, &["value"; OPERANDS_MAX + 1], &[]);
    assert_eq!(error, AggregationError::TooManyOperands);
}

#[test]
fn texts_that_are_not_kept_any_more_do_not_count() {
    let aggregation = compile("", &[], &[(Operation::Max, "value")]);
    let values: Vec<_> = (0..20_000)
        .flat_map(|number| {
            let rest = "x".repeat(900);
            [format!("\"{number:06}\""), format!("\"{number:06}{rest}\"")]
        })
        .collect();
    let whole = partial(&aggregation, &values).unwrap();
    assert!(whole.bytes() < 2000, "{}", whole.bytes());
    let mut merged = Partial::default();
    for value in &values {
        let one = partial(&aggregation, std::slice::from_ref(value)).unwrap();
        merged.merge(one).unwrap();
    }
    assert_eq!(merged.bytes(), whole.bytes());
}

#[test]
fn equal_numbers_make_one_group_however_great() {
    let aggregation = compile("", &["value"], &[]);
    let found = summary(
        &aggregation,
        &[
            "9007199254740994",
            "9007199254740994.0",
            "1000000000000000000",
            "1e18",
            "-9223372036854775808",
            "-9223372036854775808.0",
            "9223372036854775808",
        ],
    );
    assert_eq!(
        table(&found),
        json!([
            [[i64::MIN], 2, []],
            [[1_000_000_000_000_000_000_i64], 2, []],
            [[9.223_372_036_854_776e18], 1, []],
            [[9_007_199_254_740_994_i64], 2, []],
        ])
    );
}

#[test]
fn a_sum_that_is_too_great_is_null() {
    let aggregation = compile("", &[], &[(Operation::Sum, "value")]);
    let found = summary(&aggregation, &["1.5e308", "1.5e308", "1"]);
    assert_eq!(table(&found), json!([[[], 3, [[null, 3]]]]));
    let part = |value: &str| partial(&aggregation, &vec![value.to_owned(); 2]).unwrap();
    let mut merged = part("1.5e308");
    merged.merge(part("-1.5e308")).unwrap();
    let found = merged.summary(&aggregation);
    assert_eq!(table(&found), json!([[[], 4, [[null, 4]]]]));
}

#[test]
fn numbers_come_back_as_they_are() {
    let aggregation = compile("", &["value"], &[(Operation::Max, "value")]);
    for text in [
        "51.248178375505404",
        "-93.31137037688033",
        "-36.573994842753436",
        "1.7976931348623157e308",
    ] {
        let number: f64 = text.parse().unwrap();
        let found = summary(&aggregation, &[text]);
        assert_eq!(
            table(&found),
            json!([[[number], 1, [[number, 1]]]]),
            "{text}"
        );
    }
}

#[test]
fn the_patterns_of_a_plan_are_bounded_together() {
    let by = vec!["key.matches('a')"; 5];
    let plan = Plan {
        condition: Some("key.matches('a')"),
        operands: vec![(Operation::Max, "key.matches('a') ? 1 : 0"); 3],
        by,
    };
    let error = Aggregation::compile(&plan).unwrap_err();
    assert!(
        matches!(&error, AggregationError::Operand(_, error) if error.problem.contains("patterns")),
        "{error}"
    );
}
