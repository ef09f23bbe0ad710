//! Requests that a browser sends for web pages, with the fields of Chromium and
//! Firefox.

use crate::support::{Client, Reply, config, start, start_with};
use server::Server;

const CHROME: &str = "Connection: keep-alive\r\n\
    sec-ch-ua-platform: \"Linux\"\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36\r\n\
    sec-ch-ua: \"Chromium\";v=\"141\", \"Not?A_Brand\";v=\"8\"\r\n\
    sec-ch-ua-mobile: ?0\r\n\
    Accept: */*\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Accept-Language: en-US,en;q=0.9\r\n";

const FIREFOX: &str = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0\r\n\
    Accept: */*\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Connection: keep-alive\r\n\
    Priority: u=4\r\n";

/// Sends a request with these fields, in which `PORT` stands for the node's port.
fn send(node: &Server, method: &str, target: &str, fields: &str) -> Reply {
    let port = node.addresses()[0].port().to_string();
    let body = if method == "PUT" { "hacked" } else { "" };
    let fields = fields.replace("PORT", &port);
    let mut client = Client::connect(node);
    client.send(format!(
        "{method} {target} HTTP/1.1\r\n{fields}Content-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    client.reply_to(method)
}

#[test]
fn pages_of_other_sites_can_neither_read_nor_change_anything() {
    let node = start();
    let mut client = Client::connect(&node);
    assert_eq!(client.put("/v0/entity?id=a", b"value").status, 201);
    for (what, method, fields, status) in [
        (
            "a page that rebound its name reads",
            "GET",
            "Host: evil.example:PORT\r\nReferer: http://evil.example:PORT/\r\n\
             Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\n",
            421,
        ),
        (
            "the page puts",
            "PUT",
            "Host: evil.example:PORT\r\nOrigin: http://evil.example:PORT\r\n\
             Referer: http://evil.example:PORT/\r\nContent-Type: text/plain;charset=UTF-8\r\n\
             Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\n",
            421,
        ),
        (
            "it deletes, where the browser takes the node for no trustworthy origin",
            "DELETE",
            "Host: evil.example:PORT\r\nOrigin: http://evil.example:PORT\r\n\
             Referer: http://evil.example:PORT/\r\n",
            421,
        ),
        (
            "the page's preflight",
            "OPTIONS",
            "Host: 127.0.0.1:PORT\r\nAccess-Control-Request-Method: PUT\r\n\
             Access-Control-Request-Private-Network: true\r\nOrigin: http://evil.example\r\n\
             Sec-Fetch-Mode: cors\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Dest: empty\r\n",
            403,
        ),
        (
            "an image",
            "GET",
            "Host: 127.0.0.1:PORT\r\nReferer: http://evil.example/\r\n\
             Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\n",
            403,
        ),
        (
            "a link that the user follows",
            "GET",
            "Host: localhost:PORT\r\nUpgrade-Insecure-Requests: 1\r\n\
             Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-User: ?1\r\n\
             Sec-Fetch-Dest: document\r\n",
            403,
        ),
        (
            "a form",
            "POST",
            "Host: 127.0.0.1:PORT\r\nOrigin: http://evil.example\r\n\
             Content-Type: text/plain\r\nUpgrade-Insecure-Requests: 1\r\n\
             Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n",
            403,
        ),
        (
            "a page in a sandbox or of a file",
            "PUT",
            "Host: 127.0.0.1:PORT\r\nOrigin: null\r\nSec-Fetch-Site: cross-site\r\n\
             Sec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\n",
            403,
        ),
        (
            "a page of another port of this machine",
            "DELETE",
            "Host: 127.0.0.1:PORT\r\nOrigin: http://127.0.0.1:3000\r\n\
             Sec-Fetch-Site: same-site\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\n",
            403,
        ),
        (
            "a websocket, which no preflight comes before",
            "GET",
            "Host: 127.0.0.1:PORT\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Origin: http://evil.example\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
            403,
        ),
    ] {
        for browser in [CHROME, FIREFOX] {
            let browser = if fields.contains("Connection:") {
                ""
            } else {
                browser
            };
            // This check comes first, also when the path or the parameters are wrong.
            for target in ["/v0/entity?id=a", "/abracadabra", "/v0/peer", "/metrics"] {
                let reply = send(&node, method, target, &format!("{fields}{browser}"));
                assert_eq!(reply.status, status, "{what}: {target}");
                assert_eq!(reply.json()["status"], status, "{what}");
                assert_eq!(reply.header("cache-control"), Some("no-store"));
                assert_eq!(reply.header("access-control-allow-origin"), None, "{what}");
            }
        }
    }
    assert_eq!(client.get("/v0/entity?id=a").text(), "value");
}

#[test]
fn users_own_pages_and_programs_are_served() {
    let mut config = config();
    config.hosts = vec!["kv.example".to_owned()];
    let node = start_with(config);
    for (what, fields) in [
        (
            "an address that the user types",
            "Host: 127.0.0.1:PORT\r\nUpgrade-Insecure-Requests: 1\r\nSec-Fetch-Site: none\r\n\
             Sec-Fetch-Mode: navigate\r\nSec-Fetch-User: ?1\r\nSec-Fetch-Dest: document\r\n",
        ),
        (
            "a page of the node itself",
            "Host: localhost:PORT\r\nOrigin: http://localhost:PORT\r\n\
             Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\n",
        ),
        (
            "a page of the node itself behind a proxy",
            "Host: kv.example\r\nOrigin: https://kv.example\r\n\
             Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\n",
        ),
        (
            "curl",
            "Host: [::1]:PORT\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n",
        ),
    ] {
        for (method, status) in [("PUT", 201), ("GET", 200), ("DELETE", 202)] {
            let reply = send(&node, method, "/v0/entity?id=a", fields);
            assert_eq!(reply.status, status, "{what}: {method}");
        }
    }
}

#[test]
fn the_refusal_of_a_host_names_the_host_and_the_option() {
    let node = start();
    let reply = send(&node, "GET", "/v0/status", "Host: kv.example:PORT\r\n");
    assert_eq!(reply.status, 421);
    let detail = reply.json()["detail"].to_string();
    assert!(
        detail.contains("kv.example") && detail.contains("--host"),
        "{detail}"
    );
}

#[test]
fn answers_have_fields_for_browsers_and_caches() {
    let node = start();
    let mut client = Client::connect(&node);
    let put = client.put("/v0/entity?id=a", b"<script>");
    let headers = format!("if-none-match: {}\r\n", put.header("etag").unwrap());
    for (method, target, headers, status, control, is_value) in [
        ("GET", "/v0/entity?id=a", "", 200, "no-cache", true),
        ("HEAD", "/v0/entity?id=a", "", 200, "no-cache", true),
        (
            "GET",
            "/v0/entity?id=a",
            headers.as_str(),
            304,
            "no-cache",
            false,
        ),
        ("GET", "/v0/entities?start=a", "", 200, "no-cache", true),
        ("GET", "/v0/status", "", 200, "no-cache", false),
        ("GET", "/metrics", "", 200, "no-cache", false),
        ("GET", "/v0/entity?id=b", "", 404, "no-store", false),
        ("GET", "/nothing", "", 400, "no-store", false),
        ("PUT", "/v0/entity?id=a", "", 201, "no-store", false),
        ("DELETE", "/v0/entity?id=a", "", 202, "no-store", false),
    ] {
        let reply = client.request(method, target, headers, b"");
        assert_eq!(reply.status, status, "{method} {target}");
        assert_eq!(
            reply.header("x-content-type-options"),
            Some("nosniff"),
            "{target}"
        );
        assert_eq!(
            reply.header("cache-control"),
            Some(control),
            "{method} {target}"
        );
        let policy = is_value.then_some("sandbox");
        assert_eq!(
            reply.header("content-security-policy"),
            policy,
            "{method} {target}"
        );
    }
    for (target, varies) in [
        ("/v0/entities?start=a", Some("accept")),
        ("/metrics", Some("accept")),
        ("/v0/entity?id=a", None),
    ] {
        assert_eq!(client.get(target).header("vary"), varies, "{target}");
    }
}
