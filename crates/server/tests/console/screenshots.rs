//! The pictures of the console in the documents. `checks/screenshots` runs this.

use crate::browser::Browser;
use crate::support::Cluster;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::path::PathBuf;

#[test]
#[ignore = "it makes the pictures of the documents: run checks/screenshots"]
fn screenshots() {
    let folder = PathBuf::from(std::env::var_os("KVORUM_SCREENSHOTS").unwrap());
    let mut browser = Browser::start().unwrap();
    let mut cluster = Cluster::start(3);
    let origin = cluster.url(0);
    let mut client = cluster.client(0);
    for user in 1..=24 {
        let value = format!("{{\"name\":\"user {user}\",\"visits\":{}}}", user * user);
        let put = client.put(&format!("/v0/entity?id=user%2F{user}"), value.as_bytes());
        assert_eq!(put.status, 201);
    }
    browser.resize(1280, 800);
    cluster.stop_node(1);
    for (name, page, scheme, drawn) in [
        ("console-cluster", "cluster", "light", ".advice li"),
        (
            "console-keys",
            "keys?prefix=user&key=user%252F7",
            "dark",
            ".where tbody",
        ),
    ] {
        browser.prefer(scheme);
        browser.open(&format!("{origin}/#/{page}"));
        browser.wait_for(&format!("document.querySelector('{drawn}') !== null"));
        browser.wait_for("document.querySelector('.part-charts .chart, .value pre') !== null");
        let picture = browser.call(
            "Page.captureScreenshot",
            &json!({"format": "webp", "quality": 60}),
        );
        let bytes = STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a picture, not a store")]
        std::fs::write(folder.join(format!("{name}.webp")), bytes).unwrap();
    }
}
