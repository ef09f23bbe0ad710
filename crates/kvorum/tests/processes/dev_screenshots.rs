//! The pictures of the console in the documents, taken of real nodes under load.
//! `checks/screenshots` runs this.

#![expect(clippy::disallowed_methods, reason = "pictures, not a store")]

use crate::browser::{Browser, PAGE_WIDTHS};
use crate::dev::started;
use crate::dev_commands::done;
use crate::dev_console::console_of;
use crate::support::{free_ports, kvorum, request};
use std::path::PathBuf;

/// Where the pictures go.
const FOLDER: &str = "KVORUM_SCREENSHOTS";

/// How long the load lasts before the pictures are taken: the charts show an hour, and a
/// sample takes ten seconds.
const LOAD: &str = "150s";

#[test]
#[ignore = "it loads a cluster for minutes and writes the pictures of the documents: run checks/screenshots"]
fn screenshots() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let mut browser = Browser::start().unwrap();
    let data = tempfile::tempdir().unwrap();
    let port = free_ports(3);
    let (_dev, said) = started(3, port, data.path());
    let (url, token) = console_of(&said);
    for user in 1..=24 {
        let value = format!("{{\"name\":\"user {user}\",\"visits\":{}}}", user * user);
        let target = format!("/v0/entity?id=user%2F{user}");
        let put = request(port, "PUT", &target, value.as_bytes());
        assert_eq!(put.unwrap().0, 201);
    }
    let node = format!("http://127.0.0.1:{port}");
    let load = [
        "load",
        "--rate",
        "900",
        "--duration",
        LOAD,
        "--target",
        &node,
    ];
    assert!(kvorum(&load).status().unwrap().success());
    done(&["cut", "2"], data.path());
    let missed = request(
        port,
        "PUT",
        "/v0/entity?id=user%2F7&replicas=2/3",
        b"{\"name\":\"user 7\",\"visits\":50}",
    );
    assert_eq!(missed.unwrap().0, 201);

    browser.open(&format!("{url}/#dev={token}"));
    // What the documents show, and every page at three widths for those who work on it.
    let all = std::env::var_os("KVORUM_SCREENSHOTS_ALL").is_some();
    let pages = [
        ("cluster", "cluster", ".advice li", "light"),
        (
            "keys",
            "keys?prefix=user&key=user%252F7",
            ".where tbody",
            "dark",
        ),
        ("tour", "tour?step=2", ".stage .actor", "light"),
        ("node", "node", ".store li:nth-child(9)", "dark"),
        ("runbooks", "runbooks?at=full-disk", "#full-disk", "light"),
    ];
    for (name, page, drawn, scheme) in pages {
        browser.prefer("light");
        browser.evaluate(&format!("location.hash = '#/{page}'"));
        browser.wait_for(&format!("document.querySelector('{drawn}') !== null"));
        if name == "cluster" {
            browser.wait_for("document.querySelector('.part-charts .chart') !== null");
        }
        if name != "runbooks" {
            browser.resize(1280, 800);
            browser.prefer(scheme);
            let picture = browser.picture("webp");
            std::fs::write(folder.join(format!("console-{name}.webp")), picture).unwrap();
        }
        for (width, _) in PAGE_WIDTHS.into_iter().filter(|_| all) {
            for scheme in ["light", "dark"] {
                browser.prefer(scheme);
                browser.resize(width, 1600);
                let picture = browser.picture("png");
                let file = format!("{name}-{width}-{scheme}.png");
                std::fs::write(folder.join(file), picture).unwrap();
            }
        }
    }
}
