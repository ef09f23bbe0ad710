use super::*;
use crate::testing::{SETTINGS, Script, TestNode, client_of, closed_node};
use crate::{Condition, Remedy, Replicas};

const NONE: Replicas = Replicas {
    ack: None,
    from: None,
};

/// What the first of two nodes does, and whether the second one is asked then.
struct Row {
    name: &'static str,
    script: Script,
    read_goes_on: bool,
    write_goes_on: bool,
    /// Also a write goes on if the caller wants writes repeated.
    repeated_write_goes_on: bool,
    remedy: Remedy,
}

fn rows() -> Vec<Row> {
    let row = |name, script, goes_on: [bool; 3], remedy| Row {
        name,
        script,
        read_goes_on: goes_on[0],
        write_goes_on: goes_on[1],
        repeated_write_goes_on: goes_on[2],
        remedy,
    };
    let problem = |status: u16, name: &str| {
        let body =
            format!(r#"{{"type":"urn:kvorum:problem:{name}","status":{status},"detail":"why"}}"#);
        Script::status(status, "", &body)
    };
    let cut = |bytes: &[u8]| Script::Cut(bytes.to_vec());
    use Remedy::{Correct, Other, Wait};
    vec![
        row(
            "overloaded",
            problem(503, "overloaded"),
            [true, true, true],
            Wait,
        ),
        row(
            "504",
            problem(504, "not-enough-replicas"),
            [true, false, true],
            Wait,
        ),
        row(
            "500",
            problem(500, "scan-failed"),
            [true, false, true],
            Other,
        ),
        row("silence", Script::Hang, [true, false, true], Wait),
        row("cut at once", cut(b""), [true, false, true], Wait),
        row(
            "cut in the body",
            cut(b"HTTP/1.1 200 OK\r\nKvorum-Version: 9\r\nContent-Length: 3\r\n\r\nab"),
            [true, false, true],
            Wait,
        ),
        row(
            "bad parameter",
            problem(400, "bad-parameter"),
            [false; 3],
            Correct,
        ),
        row("other 400", problem(400, "broken-body"), [false; 3], Other),
        row("absent", problem(404, "no-such-entity"), [false; 3], Other),
        row("disk full", problem(507, "disk-full"), [false; 3], Other),
        row("other host", problem(421, "other-host"), [false; 3], Other),
        row(
            "no HTTP",
            cut(b"SSH-2.0-OpenSSH\r\n\r\n"),
            [false; 3],
            Other,
        ),
        row(
            "HTTP/1.0",
            cut(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
            [false; 3],
            Other,
        ),
        row(
            "no end",
            cut(b"HTTP/1.1 200 OK\r\n\r\nabc"),
            [false; 3],
            Other,
        ),
    ]
}

#[tokio::test]
async fn another_node_is_asked_only_where_that_repeats_nothing() {
    for row in rows() {
        for (repeats_writes, is_write) in [(false, false), (false, true), (true, true)] {
            let settings = Settings {
                limits: Limits {
                    // Only the node that hangs is waited for.
                    silence_max: match row.script {
                        Script::Hang => Duration::from_millis(100),
                        _ => SETTINGS.limits.silence_max,
                    },
                    ..SETTINGS.limits
                },
                repeats_writes,
                ..SETTINGS
            };
            let first = TestNode::new(vec![row.script.clone()]);
            let success = if is_write { 201 } else { 200 };
            let fields = "Kvorum-Version: 9\r\nKvorum-Acks: 1/1\r\n";
            let second = TestNode::new(vec![Script::status(success, fields, "")]);
            let nodes = vec![first.node.clone(), second.node.clone()];
            let client = client_of(nodes, settings);
            let failed = if is_write {
                client.put(b"k", "v".into(), None, NONE).await.err()
            } else {
                client.get(b"k", NONE).await.err()
            };
            let goes_on = match (is_write, repeats_writes) {
                (false, _) => row.read_goes_on,
                (true, false) => row.write_goes_on,
                (true, true) => row.repeated_write_goes_on,
            };
            let name = format!("{}, write {is_write}, repeated {repeats_writes}", row.name);
            assert_eq!(second.lines().len(), usize::from(goes_on), "{name}");
            match failed {
                None => assert!(goes_on, "{name}"),
                Some(error) => {
                    assert!(!goes_on, "{name}: {error}");
                    assert_eq!(error.remedy(), row.remedy, "{name}: {error}");
                    assert!(!error.to_string().contains('\n'), "{name}: {error}");
                }
            }
        }
    }
}

/// A conditional write is repeated only where nothing was done, also if the caller wants writes
/// repeated: its repeat would find the first attempt.
#[tokio::test]
async fn a_conditional_write_is_never_repeated_after_an_unknown_outcome() {
    let not_enough = |outcome: &str| {
        let kind = "urn:kvorum:problem:not-enough-replicas";
        let body = format!(r#"{{"type":"{kind}","detail":"why","outcome":"{outcome}"}}"#);
        Script::status(504, "", &body)
    };
    let changed = Script::status(
        412,
        "ETag: \"b\"\r\nKvorum-Version: 9\r\n",
        r#"{"type":"urn:kvorum:problem:other-version","detail":"why"}"#,
    );
    for (script, goes_on, is_unknown) in [
        (not_enough("not-applied"), true, false),
        (not_enough("unknown"), false, true),
        (Script::status(503, "", "{}"), true, false),
        (Script::status(500, "", "{}"), false, true),
        (Script::Cut(Vec::new()), false, true),
        (changed, false, false),
    ] {
        let condition = Condition::matches("\"a\"");
        for name in ["put", "delete", "touch"] {
            let first = TestNode::new(vec![script.clone()]);
            let status = if name == "delete" { 202 } else { 201 };
            let second = TestNode::new(vec![Script::status(status, "Kvorum-Version: 9\r\n", "")]);
            let settings = Settings {
                repeats_writes: true,
                ..SETTINGS
            };
            let client = client_of(vec![first.node.clone(), second.node.clone()], settings);
            let done = match name {
                "put" => {
                    let put = client.put_if(b"k", "v".into(), Some(5), NONE, &condition);
                    put.await
                }
                "delete" => client.delete_if(b"k", NONE, &condition).await,
                _ => client.touch(b"k", Some(5), NONE, &condition).await,
            };
            assert_eq!(done.is_ok(), goes_on, "{script:?}");
            assert_eq!(second.lines().len(), usize::from(goes_on), "{script:?}");
            let failed = done.err();
            assert_eq!(failed.as_ref().is_some_and(Error::is_unknown), is_unknown);
            let refusal = failed.as_ref().and_then(Error::refusal);
            if let Some(changed) = refusal.filter(|refusal| refusal.status == 412) {
                assert_eq!(changed.etag.as_deref(), Some("\"b\""));
            }
            let asked = first.requests().next().unwrap();
            assert_eq!(asked.header("if-match"), Some("\"a\""));
            assert_eq!(asked.header("if-none-match"), None);
            let target = match name {
                "put" => "/v0/entity?id=k&ttl=5",
                "delete" => "/v0/entity?id=k",
                _ => "/v0/entity?id=k&touch=true&ttl=5",
            };
            assert_eq!(asked.target, target);
        }
    }
}

#[tokio::test]
async fn a_condition_is_sent_as_it_is_and_tags_are_handed_on() {
    let fields = "ETag: \"c\"\r\nKvorum-Version: 9\r\n";
    let node = TestNode::new(vec![Script::status(201, fields, "")]);
    let client = client_of(vec![node.node.clone()], SETTINGS);
    for (condition, fields) in [
        (Condition::default(), [None, None]),
        (Condition::absent(), [None, Some("*")]),
        (Condition::matches("*"), [Some("*"), None]),
    ] {
        let put = client.put_if(b"k", "v".into(), None, NONE, &condition);
        assert_eq!(put.await.unwrap().etag.as_deref(), Some("\"c\""));
        let asked = node.requests().next().unwrap();
        let sent = ["if-match", "if-none-match"].map(|name| asked.header(name));
        assert_eq!(sent, fields);
    }
}

#[tokio::test]
async fn only_what_the_api_names_is_a_success() {
    let version = "Kvorum-Version: 9\r\n";
    for (status, fields, succeeds) in [
        (200, version, "get"),
        (201, version, "put"),
        (202, version, "delete"),
        (204, version, ""),
        (302, version, ""),
        // A page that a proxy or another server answers to anything.
        (200, "Content-Type: text/html\r\n", ""),
        (201, "", ""),
        (202, "Kvorum-Version: new\r\n", ""),
    ] {
        let node = TestNode::new(vec![Script::status(status, fields, "")]);
        let client = client_of(vec![node.node.clone()], SETTINGS);
        for (name, answered) in [
            ("get", client.get(b"k", NONE).await.err()),
            ("put", client.put(b"k", "v".into(), None, NONE).await.err()),
            ("delete", client.delete(b"k", NONE).await.err()),
        ] {
            match answered {
                None => assert_eq!(name, succeeds, "{status} {fields}"),
                Some(error) => {
                    assert_ne!(name, succeeds, "{status} {fields}: {error}");
                    assert_eq!(error.remedy(), Remedy::Other, "{error}");
                    let line = error.to_string();
                    assert!(line.ends_with("it may not be a Kvorum node"), "{line}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_node_that_is_down_is_passed_over_and_the_next_one_kept() {
    let ok = Script::status(202, "Kvorum-Version: 9\r\nKvorum-Acks: 2/3\r\n", "");
    let node = TestNode::new(vec![ok]);
    let client = client_of(vec![closed_node(), node.node.clone()], SETTINGS);
    for _ in 0..2 {
        let head = client.delete(b"a/b", NONE).await.unwrap();
        assert_eq!(head.node, node.node.url());
        assert_eq!(head.version, "9");
        assert_eq!(head.acks.as_deref(), Some("2/3"));
    }
    assert_eq!(node.lines(), ["DELETE /v0/entity?id=a%2Fb"; 2]);
    assert_eq!(client.preferred.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn each_node_is_asked_once_a_round() {
    let busy = || TestNode::new(vec![Script::status(503, "", "{}")]);
    let (one, two) = (busy(), busy());
    let settings = Settings {
        retries: 2,
        ..SETTINGS
    };
    let client = client_of(vec![one.node.clone(), two.node.clone()], settings);
    let error = client.get(b"k", NONE).await.unwrap_err();
    assert!(matches!(&error, Error::AllFailed(errors) if errors.len() == 2));
    assert_eq!(error.remedy(), Remedy::Wait);
    assert_eq!((one.lines().len(), two.lines().len()), (3, 3));
}

#[tokio::test]
async fn all_requests_of_an_operation_name_its_trace() {
    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let busy = TestNode::new(vec![Script::status(503, "", "{}")]);
    let node = TestNode::new(vec![Script::status(202, "Kvorum-Version: 9\r\n", "")]);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let client = client_of(vec![busy.node.clone(), node.node.clone()], SETTINGS);
    let client = client.with_traceparent(move || {
        // What comes second is no header.
        match counted.fetch_add(1, Ordering::Relaxed) {
            0 => Some(TRACE.to_owned()),
            _ => Some("a\nb".to_owned()),
        }
    });
    client.delete(b"k", NONE).await.unwrap();
    for asked in [&busy, &node] {
        let asked = asked.requests().next().unwrap();
        assert_eq!(asked.header("traceparent"), Some(TRACE));
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    client.delete(b"k", NONE).await.unwrap();
    assert_eq!(node.requests().next().unwrap().header("traceparent"), None);
}

#[test]
fn pauses_grow_and_heed_the_node_within_a_bound() {
    let busy = |seconds: u64| {
        Error::Refused(Box::new(crate::Refusal {
            node: String::new(),
            status: 503,
            problem: api::Problem::default(),
            version: None,
            etag: None,
            retry_after: Some(Duration::from_secs(seconds)),
        }))
    };
    let ms = |round, errors: &[Error]| pause(round, errors).as_millis();
    assert_eq!((ms(0, &[]), ms(1, &[]), ms(60, &[])), (100, 200, 2000));
    assert_eq!((ms(0, &[busy(1)]), ms(0, &[busy(60)])), (1000, 2000));
}

#[tokio::test]
async fn a_value_is_the_bytes_of_the_body() {
    let fields = "Kvorum-Version: 7\r\nKvorum-Expires: 2026-11-22T16:00:00Z\r\n";
    let node = TestNode::new(vec![Script::status(200, fields, "a\nb\0")]);
    let client = client_of(vec![node.node.clone()], SETTINGS);
    let replicas = Replicas {
        ack: Some(1),
        from: Some(2),
    };
    let found = client.get(b"\xff\0", replicas).await.unwrap();
    assert_eq!(found.value, b"a\nb\0");
    assert_eq!(found.head.expires.as_deref(), Some("2026-11-22T16:00:00Z"));
    assert_eq!(node.lines(), ["GET /v0/entity?id=%FF%00&ack=1&from=2"]);
}
