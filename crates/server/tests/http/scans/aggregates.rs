//! `POST /v0/aggregate`: counts, sums, least and greatest values, in groups.

use crate::support::{Client, Reply, config, metric, start, start_with};
use serde_json::{Value, json};
use std::fmt::Write as _;

const JSON: &str = "content-type: application/json\r\n";

fn ask(client: &mut Client, question: &Value) -> Reply {
    let body = question.to_string();
    client.request("POST", "/v0/aggregate", JSON, body.as_bytes())
}

/// Puts many keys by batches: numbers below `count`.
fn put_numbers(client: &mut Client, count: usize, value: impl Fn(usize) -> String) {
    for begin in (0..count).step_by(1000) {
        let mut lines = String::new();
        for number in begin..count.min(begin + 1000) {
            let value = Value::from(value(number));
            writeln!(
                lines,
                r#"{{"op":"put","key":"n/{number:06}","value":{value}}}"#
            )
            .unwrap();
        }
        let reply = client.request("POST", "/v0/batch", JSON, lines.as_bytes());
        assert_eq!(reply.status, 200);
    }
}

#[test]
fn entities_are_counted_summed_and_compared_in_groups() {
    let node = start();
    let mut client = Client::connect(&node);
    put_numbers(&mut client, 3000, |number| {
        let country = ["DE", "FR", "IT"][number % 3];
        format!(r#"{{"total":{number},"country":"{country}"}}"#)
    });
    client.put("/v0/entity?id=n%2Ftext", b"no JSON");
    client.put("/v0/entity?id=other", br#"{"total":1000000}"#);
    let question = json!({
        "prefix": "n/",
        "where": "value.total >= 1500",
        "by": ["value.country"],
        "aggregates": [{"sum": "value.total"}, {"min": "value.total"}, {"max": "key"}],
    });
    let answer = ask(&mut client, &question);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    assert_eq!(
        (&answer["keys"], &answer["matched"]),
        (&json!(3001), &json!(1500))
    );
    assert!(answer.get("ack").is_none());
    let group = |country: &str, first: u64| {
        // 500 numbers with steps of three.
        let sum = 500 * first + 3 * (499 * 500 / 2);
        let last = format!("n/{:06}", first + 3 * 499);
        json!({"by": [country], "count": 500, "aggregates": [
            {"operation": "sum", "value": sum, "counted": 500},
            {"operation": "min", "value": first, "counted": 500},
            {"operation": "max", "value": last, "counted": 500},
        ]})
    };
    assert_eq!(
        answer["groups"],
        json!([group("DE", 1500), group("FR", 1501), group("IT", 1502)])
    );
    // Without groups there is one, and what does not fit is not counted.
    let question = json!({"start": "n/", "aggregates": [{"max": "value.total"}]});
    let answer = ask(&mut client, &question).json();
    let all = json!([{"by": [], "count": 3002, "aggregates": [
        {"operation": "max", "value": 1_000_000, "counted": 3001},
    ]}]);
    assert_eq!(answer["groups"], all);
    // A range without a key.
    let answer = ask(&mut client, &json!({"start": "b", "end": "a"})).json();
    assert_eq!(
        (&answer["keys"], &answer["groups"][0]["count"]),
        (&json!(0), &json!(0))
    );
    // It counts as a scan.
    let name = "kvorum_requests_total{route=\"scan\",method=\"POST\",status=\"200\"}";
    assert_eq!(metric(&mut client, name).to_string(), "3");
}

#[test]
fn a_wrong_question_is_refused_with_the_field_and_the_place() {
    let node = start();
    let mut client = Client::connect(&node);
    for (question, field) in [
        (json!({"prefix": "a", "where": "value.total >"}), "where"),
        (json!({"prefix": "a", "by": ["value.("]}), "by"),
        (
            json!({"prefix": "a", "aggregates": [{"sum": "valu.e"}]}),
            "aggregates",
        ),
    ] {
        let refused = ask(&mut client, &question);
        assert_eq!(refused.status, 400);
        let problem = refused.json();
        assert_eq!(problem["parameter"], field);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.lines().nth(2).unwrap().ends_with('^'), "{detail}");
    }
    let refused = client.request("POST", "/v0/aggregate", "", b"{}");
    assert_eq!(refused.status, 415);
    let long = "x".repeat(200 << 10);
    let refused = ask(&mut client, &json!({"prefix": "a", "where": long}));
    assert_eq!(refused.status, 413);
}

#[test]
fn a_bound_that_is_met_is_named() {
    let mut small = config();
    small.set_memory_bytes(128 << 20);
    let node = start_with(small);
    let mut client = Client::connect(&node);
    put_numbers(&mut client, 10_001, |_| "{}".to_owned());
    let refused = ask(&mut client, &json!({"prefix": "n/", "by": ["key"]}));
    assert_eq!(refused.status, 422, "{}", refused.text());
    let problem = refused.json();
    assert_eq!(problem["type"], "urn:kvorum:problem:too-many-groups");
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.contains("groups of more than 1048576 bytes"),
        "{detail}"
    );
    assert!(detail.contains("entities were looked at"), "{detail}");
    let mut large = config();
    large.set_memory_bytes(1 << 30);
    let large = start_with(large);
    let mut client = Client::connect(&large);
    put_numbers(&mut client, 10_001, |_| "{}".to_owned());
    let refused = ask(&mut client, &json!({"prefix": "n/", "by": ["key"]}));
    assert_eq!(refused.status, 422, "{}", refused.text());
    let problem = refused.json();
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("more than 10000 groups"), "{detail}");
    assert!(detail.contains("10001 entities were looked at"), "{detail}");
    // What takes too many steps.
    let value = format!(r#"{{"a":[{}]}}"#, vec!["1"; 1000].join(","));
    client.put("/v0/entity?id=runaway", value.as_bytes());
    let runaway = "value.a.all(x, value.a.all(y, x + y > 0))";
    for question in [
        json!({"start": "n/", "by": [runaway]}),
        json!({"start": "n/", "where": runaway}),
    ] {
        let refused = ask(&mut client, &question);
        assert_eq!(refused.status, 422, "{}", refused.text());
        let problem = refused.json();
        assert_eq!(problem["type"], "urn:kvorum:problem:expression-too-costly");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("10002 entities were looked at"), "{detail}");
    }
}
