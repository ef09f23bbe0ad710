//! Pages of origins that the operator lets use the node: preflights, and the fields by which
//! a browser shows a page an answer.

use crate::support::{Client, Reply, config, start, start_with};
use server::Server;

const APP: &str = "https://app.example";

/// A node that serves pages of [`APP`].
fn open_node() -> Server {
    let mut config = config();
    config.cors_origins = vec![APP.to_owned(), "http://localhost:3000".to_owned()];
    start_with(config)
}

fn from(origin: &str) -> String {
    format!("origin: {origin}\r\nsec-fetch-site: cross-site\r\nsec-fetch-mode: cors\r\n")
}

/// A preflight as browsers send it.
fn preflight(client: &mut Client, target: &str, origin: &str, more: &str) -> Reply {
    let fields = format!(
        "{}access-control-request-method: PUT\r\n{more}",
        from(origin)
    );
    client.request("OPTIONS", target, &fields, b"")
}

/// The names in a list of a field.
fn list<'a>(reply: &'a Reply, name: &str) -> Vec<&'a str> {
    let value = reply.header(name).unwrap_or_default();
    value.split(", ").collect()
}

#[test]
fn a_preflight_says_what_a_page_may_do() {
    let node = open_node();
    let mut client = Client::connect(&node);
    for (target, methods) in [
        ("/v0/entity?id=a&ack=9", "GET, HEAD, PUT, DELETE"),
        ("/v0/entities?nonsense", "GET, HEAD"),
        ("/v0/batch", "POST"),
        ("/v0/admin/compact", "POST"),
        ("/openapi.json", "GET, HEAD"),
        ("/metrics", "GET, HEAD"),
        // A preflight does not say what the request after it accepts.
        ("/", "GET, HEAD"),
        ("/console/console.js", "GET, HEAD"),
    ] {
        let reply = preflight(&mut client, target, APP, "");
        assert_eq!((reply.status, reply.body.len()), (204, 0), "{target}");
        assert_eq!(reply.header("access-control-allow-origin"), Some(APP));
        assert_eq!(
            reply.header("access-control-allow-methods"),
            Some(methods),
            "{target}"
        );
        let fields = list(&reply, "access-control-allow-headers");
        for field in ["authorization", "content-type", "if-none-match"] {
            assert!(fields.contains(&field), "{fields:?}");
        }
        assert_eq!(reply.header("access-control-allow-credentials"), None);
        assert_eq!(reply.header("access-control-allow-private-network"), None);
        assert_eq!(reply.header("vary"), Some("origin"));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        let allow = format!("{methods}, OPTIONS");
        assert_eq!(reply.header("allow"), Some(&*allow));
    }
    let local = "access-control-request-private-network: true\r\n";
    let reply = preflight(&mut client, "/v0/entity", "http://localhost:3000", local);
    assert_eq!(
        reply.header("access-control-allow-private-network"),
        Some("true")
    );
    // Without a page there is nothing to allow it.
    let reply = client.request("OPTIONS", "/v0/entity", "", b"");
    assert_eq!((reply.status, list(&reply, "allow").len()), (204, 5));
    assert_eq!(reply.header("access-control-allow-methods"), None);
    for target in ["/abracadabra", "*"] {
        let reply = preflight(&mut client, target, APP, "");
        assert_eq!(reply.status, 400, "{target}");
    }
    let reply = preflight(&mut client, "/v0/peer", APP, "");
    assert_eq!((reply.status, reply.header("allow")), (405, Some("GET")));
    let reply = client.request("PATCH", "/v0/batch", "", b"");
    assert_eq!(
        (reply.status, reply.header("allow")),
        (405, Some("POST, OPTIONS"))
    );
}

#[test]
fn a_page_reads_each_answer_and_the_fields_of_the_store() {
    let node = open_node();
    let mut client = Client::connect(&node);
    let app = from(APP);
    let put = client.request("PUT", "/v0/entity?id=a&ttl=60", &app, b"v");
    let get = client.request("GET", "/v0/entity?id=a", &app, b"");
    let missing = client.request("GET", "/v0/entity?id=b", &app, b"");
    let wrong = client.request("GET", "/v0/entity?id=", &app, b"");
    let scan = client.request("GET", "/v0/entities?start=a", &app, b"");
    for (reply, status, vary) in [
        (&put, 201, "origin"),
        (&get, 200, "origin"),
        (&missing, 404, "origin"),
        (&wrong, 400, "origin"),
        (&scan, 200, "accept, origin"),
    ] {
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("access-control-allow-origin"), Some(APP));
        assert_eq!(reply.header("vary"), Some(vary), "{status}");
        let exposed = list(reply, "access-control-expose-headers");
        for (name, _) in &reply.headers {
            let is_of_the_store = name.starts_with("kvorum-") || name == "etag";
            assert!(!is_of_the_store || exposed.contains(&&**name), "{name}");
        }
        assert!(exposed.contains(&"retry-after"), "{exposed:?}");
    }
    // To others the same answer says that it depends on the origin, and nothing more.
    let other = client.get("/v0/entity?id=a");
    assert_eq!(other.header("vary"), Some("origin"));
    assert_eq!(other.header("access-control-allow-origin"), None);
    assert_eq!(other.header("access-control-expose-headers"), None);
}

#[test]
fn pages_of_other_origins_stay_out() {
    let node = open_node();
    for origin in [
        "null",
        "https://evil.example",
        "http://app.example",
        "https://app.example:8443",
        "https://app.example.evil.example",
        "https://sub.app.example",
        "http://localhost:3001",
    ] {
        for method in ["OPTIONS", "GET", "PUT", "DELETE"] {
            let fields = from(origin);
            let mut client = Client::connect(&node);
            let reply = client.request(method, "/v0/entity?id=a", &fields, b"");
            assert_eq!(reply.status, 403, "{method} {origin}");
            assert_eq!(reply.json()["type"], "urn:kvorum:problem:other-origin");
            assert_eq!(reply.header("access-control-allow-origin"), None);
            assert_eq!(reply.header("vary"), Some("origin"));
        }
    }
    // An image or a form of a page that may use the node is still a blind request.
    let blind = "sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n";
    let reply = Client::connect(&node).request("GET", "/v0/entity?id=a", blind, b"");
    assert_eq!(reply.status, 403);
    // Without the option there are no such pages, and no OPTIONS.
    let node = start();
    let mut client = Client::connect(&node);
    assert_eq!(preflight(&mut client, "/v0/entity", APP, "").status, 403);
    let mut client = Client::connect(&node);
    client.send("OPTIONS /v0/entity HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let reply = client.reply_to("OPTIONS");
    assert_eq!(
        (reply.status, reply.header("allow")),
        (405, Some("GET, HEAD, PUT, DELETE"))
    );
    assert_eq!(reply.header("vary"), None);
}
