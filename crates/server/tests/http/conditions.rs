//! Writes with conditions, on one node.

use crate::support::lines::{batch, statuses};
use crate::support::{Client, Reply, SkewedClock, config, seams, start, start_with};
use base::Clock;
use lsm_testing::MemoryDisk;
use server::{Seams, Server};
use std::sync::Arc;

const TARGET: &str = "/v0/entity?id=a";

fn write(client: &mut Client, method: &str, conditions: &[(&str, &str)], value: &str) -> Reply {
    let fields: String = conditions
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    client.request(method, TARGET, &fields, value.as_bytes())
}

fn etag(reply: &Reply) -> String {
    reply.header("etag").unwrap().to_owned()
}

/// The condition does not hold, and the answer names the value that the key has.
#[track_caller]
fn assert_changed(reply: &Reply, current: Option<&Reply>) {
    assert_eq!(reply.status, 412, "{reply:?}");
    assert_eq!(reply.json()["type"], "urn:kvorum:problem:other-version");
    assert_eq!(
        reply.header("etag"),
        current.and_then(|current| current.header("etag"))
    );
    let version = current.map(|current| current.version().to_string());
    assert_eq!(reply.header("kvorum-version"), version.as_deref());
}

#[test]
fn a_write_takes_effect_only_if_its_condition_holds() {
    let node = start();
    let mut client = Client::connect(&node);
    let any = [("if-match", "*")];
    let none = [("if-none-match", "*")];
    assert_changed(&write(&mut client, "PUT", &any, "no"), None);
    assert_changed(&write(&mut client, "DELETE", &any, ""), None);
    let created = write(&mut client, "PUT", &none, "one");
    assert_eq!((created.status, created.body.len()), (201, 0));
    assert_eq!(created.header("kvorum-acks"), Some("1/1"));
    assert_changed(&write(&mut client, "PUT", &none, "no"), Some(&created));

    let first = etag(&created);
    let replaced = write(&mut client, "PUT", &[("if-match", &first)], "two");
    assert_eq!(replaced.status, 201);
    assert!(replaced.version() > created.version());
    let found = client.get(TARGET);
    assert_eq!((found.text(), etag(&found)), ("two", etag(&replaced)));
    let second = etag(&replaced);
    let (weak, list) = (format!("W/{second}"), format!("\"x\", {second}"));
    for conditions in [
        &[("if-match", &*first)][..],
        &[("if-match", "\"x\"")],
        &[("if-match", &weak)],
        &[("if-none-match", &second)],
        &[("if-none-match", &weak)],
        &[("if-match", &second), ("if-none-match", &second)],
    ] {
        for method in ["PUT", "DELETE"] {
            assert_changed(&write(&mut client, method, conditions, ""), Some(&replaced));
        }
    }
    let third = write(&mut client, "PUT", &[("if-match", &list)], "three");
    let fourth = write(&mut client, "PUT", &[("if-none-match", &second)], "four");
    assert_eq!((third.status, fourth.status), (201, 201));
    let deleted = write(&mut client, "DELETE", &[("if-match", &etag(&fourth))], "");
    assert_eq!((deleted.status, deleted.body.len()), (202, 0));
    assert_eq!(client.get(TARGET).version(), deleted.version());
    assert_changed(&write(&mut client, "PUT", &any, ""), None);
    assert_eq!(write(&mut client, "PUT", &none, "again").status, 201);
    // A plain write does not ask.
    assert_eq!(client.put(TARGET, b"plain").status, 201);
}

#[test]
fn a_condition_that_cannot_be_read_changes_nothing() {
    let node = start();
    let mut client = Client::connect(&node);
    for value in ["", "a", "\"", "\"a\" \"b\"", "*, \"a\"", "W/"] {
        for name in ["if-match", "if-none-match"] {
            for method in ["PUT", "DELETE"] {
                let reply = write(&mut client, method, &[(name, value)], "");
                assert_eq!(reply.status, 400, "{name}: {value}");
                let problem = reply.json();
                assert_eq!(problem["type"], "urn:kvorum:problem:bad-condition");
                assert!(problem["detail"].as_str().unwrap().contains(name));
            }
        }
    }
    assert_eq!(client.get(TARGET).status, 404);
}

#[test]
fn a_touch_keeps_the_value_and_changes_its_expiry() {
    let clock = Arc::new(SkewedClock::new());
    let seams = Seams {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        ..seams(Arc::new(MemoryDisk::new()))
    };
    let node = Server::start_with(config(), seams).unwrap();
    let mut client = Client::connect(&node);
    let touch = |client: &mut Client, query: &str, fields: &str, body: &[u8]| {
        let target = format!("{TARGET}&touch=true{query}");
        client.request("PUT", &target, fields, body)
    };
    assert_changed(&touch(&mut client, "&ttl=60", "", b""), None);
    let put = client.put(&format!("{TARGET}&ttl=60"), b"lease");
    let old = format!("if-match: {}\r\n", etag(&put));
    clock.set_ahead_seconds(50);
    let with_value = touch(&mut client, "", "", b"v");
    assert_eq!(
        (with_value.status, client.get(TARGET).text()),
        (400, "lease")
    );
    let touched = touch(&mut client, "&ttl=60", &old, b"");
    assert_eq!(touched.status, 201);
    assert!(touched.version() > put.version());
    assert_changed(&touch(&mut client, "&ttl=60", &old, b""), Some(&touched));
    clock.set_ahead_seconds(100);
    let found = client.get(TARGET);
    assert_eq!((found.text(), etag(&found)), ("lease", etag(&touched)));
    assert!(found.header("kvorum-expires").is_some());
    clock.set_ahead_seconds(111);
    assert_eq!(client.get(TARGET).status, 404);
    // What has expired is no value: nobody holds the lease.
    assert_changed(&touch(&mut client, "&ttl=60", "", b""), None);
    let taken = write(&mut client, "PUT", &[("if-none-match", "*")], "other");
    assert_eq!(taken.status, 201);
    assert_eq!(touch(&mut client, "", "", b"").status, 201);
    assert!(client.get(TARGET).header("kvorum-expires").is_none());
}

#[test]
fn operations_of_a_batch_have_conditions() {
    let node = start();
    let mut client = Client::connect(&node);
    let put = client.put("/v0/entity?id=a", b"one").version();
    let lines = [
        r#"{"op":"put","key":"a","value":"no","if_absent":true}"#.to_owned(),
        format!(r#"{{"op":"put","key":"a","value":"two","if_version":"{put}"}}"#),
        format!(r#"{{"op":"put","key":"a","value":"no","if_version":"{put}"}}"#),
        r#"{"op":"get","key":"a"}"#.to_owned(),
        r#"{"op":"put","key":"a","touch":true,"ttl":60}"#.to_owned(),
        r#"{"op":"get","key":"a"}"#.to_owned(),
        format!(r#"{{"op":"delete","key":"a","if_version":"{put}"}}"#),
        r#"{"op":"put","key":"b","value":"new","if_absent":true}"#.to_owned(),
        r#"{"op":"delete","key":"c","if_version":"9"}"#.to_owned(),
        r#"{"op":"put","key":"c","touch":true}"#.to_owned(),
    ];
    let answers = batch(&mut client, "/v0/batch", &lines.join("\n"));
    assert_eq!(
        statuses(&answers),
        [412, 201, 412, 200, 201, 200, 412, 201, 412, 412]
    );
    assert_eq!(answers[0]["version"], put.to_string());
    assert_eq!(answers[2]["version"], answers[1]["version"]);
    assert_eq!(answers[3]["value"], "two");
    assert_eq!(answers[5]["value"], "two");
    assert_eq!(answers[5]["version"], answers[4]["version"]);
    assert!(answers[5]["expires"].is_string() && answers[3]["expires"].is_null());
    assert_eq!(answers[6]["version"], answers[4]["version"]);
    for absent in [8, 9] {
        assert!(answers[absent]["version"].is_null(), "{}", answers[absent]);
    }
    for refused in [0, 2, 6, 8, 9] {
        let kind = &answers[refused]["problem"]["type"];
        assert_eq!(kind, "urn:kvorum:problem:other-version");
    }
}

/// Each client reads, adds one, and writes if nobody else has: none of the increments is lost,
/// also where clients of a batch and of single requests meet.
#[test]
fn increments_of_many_clients_are_counted_once_each() {
    const CLIENTS: usize = 4;
    const INCREMENTS: usize = 25;
    let node = start_with(config());
    let mut client = Client::connect(&node);
    client.put(TARGET, b"0");
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let node = &node;
            scope.spawn(move || {
                let mut client = Client::connect(node);
                for _ in 0..INCREMENTS {
                    while !increment(&mut client, number % 2 == 0) {}
                }
            });
        }
    });
    assert_eq!(
        client.get(TARGET).text(),
        (CLIENTS * INCREMENTS).to_string()
    );
}

fn increment(client: &mut Client, in_batch: bool) -> bool {
    let found = client.get(TARGET);
    let next = found.text().parse::<usize>().unwrap() + 1;
    let status = if in_batch {
        let version = found.version();
        let line = format!(r#"{{"op":"put","key":"a","value":"{next}","if_version":"{version}"}}"#);
        statuses(&batch(client, "/v0/batch", &line))[0]
    } else {
        let tag = etag(&found);
        write(client, "PUT", &[("if-match", &tag)], &next.to_string())
            .status
            .into()
    };
    assert!(matches!(status, 201 | 412), "{status}");
    status == 201
}
