//! A node with a tokens file: who may do what.

use crate::support::described::document;
use crate::support::{Client, Reply, config, start_with, wait_until};
use server::{AuditTarget, Server};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tempfile::TempDir;
use tokens::TokenHash;

/// A node, and the folder of its tokens file and its audit log.
struct Fixture {
    node: Server,
    file: PathBuf,
    folder: TempDir,
}

/// A token with these lines of rights, in the tokens file.
fn stanza(token: &str, rights: &str) -> String {
    let hash = TokenHash::of(token.as_bytes());
    format!("[[token]]\nname = \"{token}\"\nsha256 = \"{hash}\"\n{rights}\n")
}

#[expect(clippy::disallowed_methods, reason = "no part of a store")]
fn write(file: &PathBuf, text: &str) {
    // As the page of operations says: a file that is half written is never seen.
    let next = file.with_extension("next");
    std::fs::write(&next, text).unwrap();
    std::fs::set_permissions(&next, Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(&next, file).unwrap();
}

impl Fixture {
    fn new(tokens: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens.toml");
        let text: String = tokens
            .iter()
            .map(|(name, rights)| stanza(name, rights))
            .collect();
        write(&file, &text);
        let mut config = config();
        config.debug_endpoints = true;
        config.trust.tokens_file = Some(file.clone());
        let audit_log = folder.path().join("audit.ndjson");
        config.trust.audit_log = Some(AuditTarget::File(audit_log));
        Self {
            node: start_with(config),
            file,
            folder,
        }
    }

    fn ask(&self, token: &str, method: &str, target: &str, body: &[u8]) -> Reply {
        let json = "content-type: application/json\r\n";
        let fields = match token {
            "" => json.to_owned(),
            token => format!("authorization: Bearer {token}\r\n{json}"),
        };
        Client::connect(&self.node).request(method, target, &fields, body)
    }
}

fn type_of(reply: &Reply) -> String {
    let problem = reply.json()["type"].as_str().unwrap().to_owned();
    problem.replace("urn:kvorum:problem:", "")
}

/// A record of a token that nobody has, which is revoked.
const REVOCATION: &str = "?token=%7B%22name%22:%22x%22,%22change%22:1,%22revoked%22:true,%22sha256%22:%22\
    ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad%22%7D";

/// The rights that a method of a path needs, of which one is enough, and parameters that
/// are right.
fn need(path: &str, method: &str) -> (Option<&'static [&'static str]>, &'static str) {
    match (path, method) {
        ("/v0/entity", "GET" | "HEAD") => (Some(&["read"]), "?id=k"),
        ("/v0/entity", "PUT" | "DELETE") => (Some(&["write"]), "?id=k"),
        ("/v0/entities", "GET" | "HEAD") => (Some(&["read"]), "?start=a&end=z"),
        ("/v0/aggregate", "POST") => (Some(&["read"]), ""),
        ("/v0/digest", "GET" | "HEAD") => (Some(&["read"]), "?start=a&end=z"),
        ("/v0/replicas", "GET" | "HEAD") => (Some(&["read"]), "?id=k"),
        ("/v0/batch", "POST") => (Some(&["read", "write"]), ""),
        ("/v0/status" | "/v0/cluster", "GET" | "HEAD") => {
            (Some(&["read", "write", "admin", "metrics"]), "")
        }
        ("/metrics" | "/v0/history", "GET" | "HEAD") => (Some(&["metrics"]), ""),
        ("/v0/admin/repair" | "/v0/admin/compact", "POST") => (Some(&["admin"]), ""),
        ("/v0/admin/members", "POST") => (Some(&["admin"]), "?leave=b&dry_run=true"),
        ("/v0/admin/backups", "GET" | "HEAD" | "POST") => (Some(&["admin"]), "?target=t"),
        ("/v0/admin/backups", "DELETE") => (Some(&["admin"]), "?target=t&keep=1"),
        ("/v0/admin/backups/verify", "POST") => (Some(&["admin"]), "?target=t"),
        ("/v0/admin/set-aside", "GET" | "HEAD") => (Some(&["admin"]), ""),
        ("/v0/admin/set-aside", "POST") => (Some(&["admin"]), "?id=k"),
        ("/v0/admin/set-aside", "DELETE") => (Some(&["admin"]), "?up_to=1"),
        ("/v0/admin/tokens", "GET" | "HEAD") => (Some(&["admin"]), ""),
        ("/v0/admin/tokens", "POST") => (Some(&["admin"]), REVOCATION),
        ("/debug/profile", "GET" | "HEAD") => (Some(&["admin"]), "?kind=wait&seconds=1"),
        ("/health/live" | "/health/ready" | "/openapi.json", "GET" | "HEAD") => (None, ""),
        ("/v0/peer", "GET") => (None, ""),
        (console, "GET" | "HEAD") if console == "/" || console.starts_with("/console/") => {
            (None, "")
        }
        _ => panic!("which right does {method} {path} need?"),
    }
}

#[test]
fn each_method_of_each_path_needs_its_right() {
    let rights = ["read", "write", "admin", "metrics"];
    let lines = rights.map(|right| format!("{right} = true"));
    let mut tokens = vec![("nothing", "")];
    tokens.extend(rights.iter().copied().zip(lines.iter().map(String::as_str)));
    let fixture = Fixture::new(&tokens);
    for (path, methods) in document()["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let method = method.to_ascii_uppercase();
            if method == "OPTIONS" {
                // Only nodes with --cors-origin answer it.
                assert_eq!(operation["security"], serde_json::json!([]));
                continue;
            }
            let (needed, query) = need(path, &method);
            let target = format!("{path}{query}");

            let mut described = operation["security"].as_array().unwrap().clone();
            described.retain(|way| way.get("token").is_some());
            let described: Option<Vec<&str>> = described.first().map(|way| {
                let names = way["token"].as_array().unwrap().iter();
                names.map(|name| name.as_str().unwrap()).collect()
            });
            let is_any = needed.is_some_and(|needed| needed.len() == rights.len());
            let expected = needed.map(|needed| if is_any { &[] } else { needed });
            assert_eq!(described.as_deref(), expected, "{method} {path}");

            for token in ["", "unknown"] {
                let status = fixture.ask(token, &method, &target, b"").status;
                assert_eq!(
                    status == 401,
                    needed.is_some(),
                    "{method} {path} with `{token}`"
                );
            }
            for (token, _) in &tokens {
                let reply = fixture.ask(token, &method, &target, b"");
                let may = needed.is_none_or(|needed| is_any || needed.contains(token));
                let what = format!("{method} {path} with {token}: {}", reply.status);
                assert_ne!(reply.status, 401, "{what}");
                assert_eq!(reply.status != 403, may, "{what}");
                if !may && method != "HEAD" {
                    assert_eq!(type_of(&reply), "no-right", "{what}");
                    assert!(
                        reply.text().contains(needed.unwrap()[0]),
                        "{}",
                        reply.text()
                    );
                }
            }
        }
    }
}

#[test]
fn the_token_is_checked_between_the_path_and_the_method() {
    let fixture = Fixture::new(&[("nothing", ""), ("reader", "read = true")]);
    for (token, method, target, status) in [
        ("", "GET", "/abracadabra", 400),
        ("", "PATCH", "/v0/entity?id=k", 401),
        ("", "GET", "/v0/entity", 401),
        ("nothing", "PATCH", "/v0/entity?id=k", 405),
        ("nothing", "GET", "/v0/entity?id=", 400),
        ("nothing", "GET", "/v0/entity?id=k", 403),
        ("nothing", "PUT", "/v0/entity?id=k&ttl=0", 400),
        ("nothing", "POST", "/v0/admin/repair?no=such", 400),
        ("reader", "PUT", "/v0/entity?id=k", 403),
        ("reader", "GET", "/v0/entity?id=k", 404),
    ] {
        let reply = fixture.ask(token, method, target, b"");
        assert_eq!(reply.status, status, "{method} {target} with `{token}`");
    }
    // The right comes before the conditions, and before a body that is too long.
    let mut client = Client::connect(&fixture.node);
    let fields = "authorization: Bearer reader\r\nif-match: \"a\"\r\n";
    assert_eq!(
        client
            .request("PUT", "/v0/entity?id=k", fields, b"v")
            .status,
        403
    );
    client.send(
        "PUT /v0/entity?id=k HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer reader\r\n\
         content-length: 99999999\r\nexpect: 100-continue\r\n\r\n",
    );
    assert_eq!(client.reply_to("PUT").status, 403);
}

/// The tag of a value has a hash of it.
#[test]
fn only_who_may_read_a_key_is_told_the_tag_of_its_value() {
    let fixture = Fixture::new(&[
        ("writer", "write = true"),
        ("both", "read = true\nwrite = true"),
    ]);
    let target = "/v0/entity?id=k";
    let put = fixture.ask("writer", "PUT", target, b"v");
    for (token, etag) in [("writer", None), ("both", put.header("etag"))] {
        let mut client = Client::connect(&fixture.node);
        let fields = format!("authorization: Bearer {token}\r\nif-none-match: *\r\n");
        let changed = client.request("PUT", target, &fields, b"no");
        assert_eq!((changed.status, changed.version()), (412, put.version()));
        assert_eq!(changed.header("etag"), etag, "{token}");
    }
}

#[test]
fn who_is_not_known_is_told_how_to_be() {
    let fixture = Fixture::new(&[("reader", "read = true")]);
    for (fields, challenge) in [
        ("", "Bearer realm=\"kvorum\""),
        ("authorization: Basic reader\r\n", "Bearer realm=\"kvorum\""),
        ("authorization: Bearer \r\n", "Bearer realm=\"kvorum\""),
        (
            "authorization: Bearer reader\r\nauthorization: Bearer reader\r\n",
            "Bearer realm=\"kvorum\"",
        ),
        (
            "authorization: Bearer Reader\r\n",
            "Bearer realm=\"kvorum\", error=\"invalid_token\"",
        ),
    ] {
        let mut client = Client::connect(&fixture.node);
        let reply = client.request("GET", "/v0/entity?id=k", fields, b"");
        assert_eq!(reply.status, 401, "{fields}");
        assert_eq!(
            reply.header("www-authenticate"),
            Some(challenge),
            "{fields}"
        );
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        assert_eq!(type_of(&reply), "no-token");
        assert!(!reply.text().contains("eader"), "{}", reply.text());
    }
    let mut client = Client::connect(&fixture.node);
    for fields in [
        "authorization: bearer reader\r\n",
        "AUTHORIZATION: BEARER  reader \r\n",
    ] {
        let reply = client.request("GET", "/v0/entity?id=k", fields, b"");
        assert_eq!(reply.status, 404, "{fields}");
    }
}

#[test]
fn a_right_for_some_keys_is_for_those_keys() {
    let rights = "read = [\"cart/\", { base64 = \"/w==\" }]\nwrite = [\"cart/a\"]";
    let fixture = Fixture::new(&[("shop", rights)]);
    for (method, target, status) in [
        ("GET", "/v0/entity?id=cart/1", 404),
        ("GET", "/v0/entity?id=%FF%00", 404),
        ("GET", "/v0/entity?id=cart", 403),
        ("GET", "/v0/entity?id=order/1", 403),
        ("PUT", "/v0/entity?id=cart/a1", 201),
        ("PUT", "/v0/entity?id=cart/b1", 403),
        ("DELETE", "/v0/entity?id=cart/a1", 202),
        ("DELETE", "/v0/entity?id=order/1", 403),
        ("GET", "/v0/replicas?id=cart/1", 200),
        ("GET", "/v0/replicas?id=order/1&versions=true", 403),
        ("GET", "/v0/entities?prefix=cart/", 200),
        ("GET", "/v0/entities?prefix=cart/&count=only", 200),
        (
            "GET",
            "/v0/entities?prefix=cart/&values=omit&scope=cluster",
            200,
        ),
        ("GET", "/v0/entities?start=cart/b&end=cart/c", 200),
        ("GET", "/v0/entities?start=%FF", 200),
        ("GET", "/v0/entities?start=cart/", 403),
        ("GET", "/v0/entities?start=cart/&end=cart0%00", 403),
        ("GET", "/v0/entities?start=cart&end=cart0", 403),
        ("GET", "/v0/entities?prefix=cart&limit=1", 403),
        ("GET", "/v0/entities?prefix=order/&count=only", 403),
        ("GET", "/v0/entities?prefix=order/&scope=cluster", 403),
        ("GET", "/v0/entities?start=z&end=a", 200),
        // A condition is compiled only for who may read the entities.
        ("GET", "/v0/entities?prefix=cart/&where=(", 400),
        ("GET", "/v0/entities?prefix=order/&where=(", 403),
        ("GET", "/v0/digest?start=cart/&end=cart0", 200),
        ("GET", "/v0/digest?start=cart/", 403),
    ] {
        let reply = fixture.ask("shop", method, target, b"");
        assert_eq!(reply.status, status, "{method} {target}");
    }
}

#[test]
fn an_aggregate_needs_the_right_for_the_keys_that_its_body_names() {
    let fixture = Fixture::new(&[("shop", "read = [\"cart/\"]")]);
    for (body, status) in [
        (r#"{"prefix":"cart/"}"#, 200),
        (r#"{"start":"cart/a","end":"cart/b","where":"true"}"#, 200),
        (r#"{"prefix":"cart"}"#, 403),
        (r#"{"prefix":"order/"}"#, 403),
        (r#"{"scope":"cluster"}"#, 403),
        (r#"{"prefix":"order/","where":"wrong"}"#, 400),
    ] {
        let reply = fixture.ask("shop", "POST", "/v0/aggregate", body.as_bytes());
        assert_eq!(reply.status, status, "{body}");
    }
}

#[test]
fn a_line_of_a_batch_without_the_right_is_refused_alone() {
    let fixture = Fixture::new(&[("shop", "read = true\nwrite = [\"cart/\"]")]);
    let lines = "{\"op\":\"put\",\"key\":\"cart/1\",\"value\":\"v\"}\n\
                 {\"op\":\"put\",\"key\":\"order/1\",\"value\":\"v\"}\n\
                 {\"op\":\"delete\",\"key\":\"order/2\"}\n\
                 {\"op\":\"get\",\"key\":\"order/1\"}\n\
                 {\"op\":\"get\",\"key\":\"cart/1\"}\n";
    let reply = fixture.ask("shop", "POST", "/v0/batch", lines.as_bytes());
    let answers = reply.text().lines();
    let answers: Vec<serde_json::Value> = answers
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let statuses: Vec<u64> = answers
        .iter()
        .map(|answer| answer["status"].as_u64().unwrap())
        .collect();
    assert_eq!(statuses, [201, 403, 403, 404, 200]);
    assert_eq!(answers[1]["problem"]["type"], "urn:kvorum:problem:no-right");
}

#[test]
fn a_revoked_token_is_refused_without_a_restart() {
    let fixture = Fixture::new(&[("old", "read = true\nwrite = true"), ("new", "read = true")]);
    assert_eq!(
        fixture.ask("old", "PUT", "/v0/entity?id=k", b"v").status,
        201
    );
    // A batch goes on while the tokens change.
    let mut batch = Client::connect(&fixture.node);
    batch.send(
        "POST /v0/batch HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer old\r\n\
         content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n",
    );
    let line = "{\"op\":\"put\",\"key\":\"k\",\"value\":\"w\"}\n";
    let chunk = format!("{:x}\r\n{line}\r\n", line.len());
    batch.send(&chunk);
    assert_eq!(batch.head().0, 200);
    let status = |answer: Option<Vec<u8>>| {
        let answer: serde_json::Value = serde_json::from_slice(&answer.unwrap()).unwrap();
        answer["status"].as_u64().unwrap()
    };
    assert_eq!(status(batch.chunk()), 201);

    write(&fixture.file, &stanza("new", "read = true\nwrite = true"));
    fixture.node.reload();
    wait_until("the revocation", || {
        fixture.ask("old", "GET", "/v0/entity?id=k", b"").status == 401
    });
    assert_eq!(
        fixture.ask("new", "PUT", "/v0/entity?id=k", b"x").status,
        201
    );
    batch.send(&chunk);
    assert_eq!(status(batch.chunk()), 403);
    batch.send("0\r\n\r\n");
    assert_eq!(batch.chunk(), None);
    assert_eq!(
        fixture.ask("new", "GET", "/v0/entity?id=k", b"").text(),
        "x"
    );
}

#[test]
fn a_scan_ends_once_its_token_is_revoked() {
    const MIB: usize = 1 << 20;
    let fixture = Fixture::new(&[("old", "read = true\nwrite = true"), ("new", "read = true")]);
    // More than the kernel takes of a reader that does not read.
    let values = 32;
    for number in 0..values {
        let target = format!("/v0/entity?id=k{number:02}");
        let put = fixture.ask("old", "PUT", &target, &vec![b'v'; MIB]);
        assert_eq!(put.status, 201);
    }
    let begin = || {
        let mut reader = Client::connect(&fixture.node);
        reader.send(
            "GET /v0/entities?start=k&end=l HTTP/1.1\r\nhost: localhost\r\n\
             authorization: Bearer old\r\n\r\n",
        );
        assert_eq!(reader.head().0, 200);
        assert!(reader.chunk().is_some());
        reader
    };
    let (mut changed, mut revoked) = (begin(), begin());
    // Other rights, with which the scan may still be read.
    let tokens = stanza("old", "read = [\"k\"]") + &stanza("new", "read = true");
    write(&fixture.file, &tokens);
    fixture.node.reload();
    wait_until("other rights", || {
        fixture.ask("old", "PUT", "/v0/entity?id=k", b"v").status == 403
    });
    let rest = std::iter::from_fn(|| changed.chunk());
    assert_eq!(rest.count(), values - 1);
    write(&fixture.file, &stanza("new", "read = true"));
    fixture.node.reload();
    wait_until("the revocation", || {
        fixture.ask("old", "GET", "/v0/entity?id=k", b"").status == 401
    });
    let rest = revoked.rest();
    assert!(rest.len() < (values - 1) * MIB, "{}", rest.len());
    assert!(!rest.ends_with(b"\r\n0\r\n\r\n"), "it must not look whole");
    let Fixture { node, folder, .. } = fixture;
    drop((changed, revoked, node));
    let log = std::fs::read_to_string(folder.path().join("audit.ndjson")).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
    let of_scans = lines.filter(|line: &serde_json::Value| line["path"] == "/v0/entities");
    let of_scans: Vec<_> = of_scans
        .map(|line| (line["event"].clone(), line["token"].clone()))
        .collect();
    assert_eq!(of_scans, [("no-right".into(), "old".into())]);
}

#[test]
fn with_tokens_the_node_is_known_by_any_name_and_pages_of_other_sites_are_still_refused() {
    let fixture = Fixture::new(&[("reader", "read = true")]);
    for (fields, status) in [
        (
            "host: proxy.example\r\nauthorization: Bearer reader\r\n",
            404,
        ),
        ("host: proxy.example\r\n", 401),
        (
            "host: proxy.example\r\norigin: http://proxy.example\r\nauthorization: Bearer reader\r\n",
            404,
        ),
        (
            "host: proxy.example\r\norigin: http://evil.example\r\nauthorization: Bearer reader\r\n",
            403,
        ),
        (
            "host: proxy.example\r\nsec-fetch-site: cross-site\r\nauthorization: Bearer reader\r\n",
            403,
        ),
    ] {
        let mut client = Client::connect(&fixture.node);
        client.send(format!("GET /v0/entity?id=k HTTP/1.1\r\n{fields}\r\n"));
        assert_eq!(client.reply_to("GET").status, status, "{fields}");
    }
}

#[test]
fn a_browser_asks_without_a_token_what_a_page_may_do() {
    let mut fixture = Fixture::new(&[("reader", "read = true")]);
    let mut config = config();
    config.trust.tokens_file = Some(fixture.file.clone());
    config.cors_origins = vec!["https://app.example".to_owned()];
    fixture.node = start_with(config);
    let mut client = Client::connect(&fixture.node);
    let origin = "origin: https://app.example\r\naccess-control-request-method: GET\r\n";
    let preflight = client.request("OPTIONS", "/v0/entity", origin, b"");
    assert_eq!(preflight.status, 204);
    let allowed = preflight.header("access-control-allow-headers").unwrap();
    assert!(allowed.contains("authorization"), "{allowed}");
    // A page sees why it is refused.
    for (token, status) in [("", 401), ("authorization: Bearer reader\r\n", 404)] {
        let fields = format!("origin: https://app.example\r\n{token}");
        let reply = client.request("GET", "/v0/entity?id=k", &fields, b"");
        assert_eq!(reply.status, status);
        let origin = reply.header("access-control-allow-origin");
        assert_eq!(origin, Some("https://app.example"));
    }
}

#[test]
fn metrics_say_how_many_tokens_are_in_force() {
    let fixture = Fixture::new(&[("prometheus", "metrics = true")]);
    let metrics = || fixture.ask("prometheus", "GET", "/metrics", b"");
    let first = metrics();
    for line in [
        "kvorum_tokens 1.0",
        "kvorum_tokens_file_stale 0.0",
        "kvorum_tokens_file_loads_total 1",
    ] {
        assert!(
            first.text().lines().any(|known| known == line),
            "{line} in {}",
            first.text()
        );
    }
    write(&fixture.file, "broken");
    fixture.node.reload();
    wait_until("a stale file", || {
        metrics().text().contains("\nkvorum_tokens_file_stale 1")
    });
}
