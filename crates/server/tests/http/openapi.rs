//! The document at `/openapi.json` beside what a node answers. Each answer of each other
//! test is compared with it, too (`described`).

use crate::support::described::{document, referred};
use crate::support::{Client, config, start, start_with};
use std::collections::BTreeSet;

/// What a request must say to get the console at `/`.
const AS_BROWSERS: &str = "accept: text/html\r\n";

#[test]
fn any_node_serves_its_description() {
    let node = start();
    let mut client = Client::connect(&node);
    let get = client.get("/openapi.json");
    assert_eq!(get.status, 200);
    assert_eq!(get.header("content-type"), Some("application/json"));
    let served = get.json();
    assert_eq!(served["openapi"], "3.1.1");
    // Without debug endpoints there is one path less.
    let paths = |document: &serde_json::Value| document["paths"].as_object().unwrap().len();
    assert_eq!(paths(&served) + 1, paths(document()));
    let head = client.request("HEAD", "/openapi.json", "", b"");
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, get.header("content-length"))
    );
    assert_eq!(client.get("/openapi.json?a=b").status, 400);
}

/// A node with all that a node can serve.
fn with_extras() -> server::ServerConfig {
    let mut config = config();
    config.debug_endpoints = true;
    config.cors_origins = vec!["https://app.example".to_owned()];
    config
}

#[test]
fn each_parameter_that_is_read_is_described_and_no_other() {
    let paths = document()["paths"].as_object().unwrap();
    let parameters_of = |operation: &'static serde_json::Value| -> BTreeSet<String> {
        let parameters = operation["parameters"].as_array();
        let queried = parameters.into_iter().flatten().map(referred);
        let queried = queried.filter(|parameter| parameter["in"] == "query");
        queried
            .map(|parameter| parameter["name"].as_str().unwrap().to_owned())
            .collect()
    };
    // A node refuses what no row of its table of resources names, and a test compares the table
    // with the document.
    let names: BTreeSet<String> = paths
        .values()
        .flat_map(|path| path.as_object().unwrap().values())
        .flat_map(parameters_of)
        .collect();
    let node = start_with(with_extras());
    let mut client = Client::connect(&node);
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap() {
            let described = parameters_of(operation);
            let method = method.to_ascii_uppercase();
            for name in &names {
                let fields = match &*method {
                    "POST" => "content-type: application/json\r\n",
                    _ => AS_BROWSERS,
                };
                // No body says what was wrong with a HEAD, and a preflight has the query of the
                // request that follows.
                if matches!(&*method, "HEAD" | "OPTIONS") {
                    continue;
                }
                let reply = client.request(&method, &format!("{path}?{name}="), fields, b"");
                let is_read =
                    reply.status != 400 || !reply.text().contains("is not a parameter of this");
                assert_eq!(
                    is_read,
                    described.contains(name),
                    "{method} {path} {} the parameter `{name}`: correct its description in \
                     crates/api/openapi.json. {}",
                    if is_read { "reads" } else { "does not know" },
                    reply.text()
                );
            }
        }
    }
}

#[test]
fn each_method_that_is_served_is_described_and_no_other() {
    let node = start_with(with_extras());
    let mut client = Client::connect(&node);
    for (path, methods) in document()["paths"].as_object().unwrap() {
        for method in [
            "GET", "HEAD", "PUT", "DELETE", "POST", "PATCH", "OPTIONS", "TRACE",
        ] {
            let target = format!("{path}?no=such");
            let reply = client.request(method, &target, AS_BROWSERS, b"");
            let is_served = reply.status != 405;
            let is_described = methods.get(method.to_ascii_lowercase()).is_some();
            assert_eq!(is_served, is_described, "{method} {path}");
        }
    }
}
