//! The console of `kvorum dev`: whom it obeys, what it does to nodes, and the whole tour.

use crate::browser::Browser;
use crate::dev::started;
use crate::support::{free_ports, wait_until};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;

/// The address and the token of the console in what `dev` has said.
fn console_of(said: &str) -> (String, String) {
    let line = said.lines().find(|line| line.contains("/#dev="));
    let (url, token) = line.unwrap().trim().split_once("/#dev=").unwrap();
    (url.to_owned(), token.to_owned())
}

/// Sends a request to the console, with these lines of its head.
fn ask(url: &str, request: &str, fields: &str) -> (u16, String) {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let host = match fields.contains("host: ") {
        true => String::new(),
        false => format!("host: {address}\r\n"),
    };
    write!(stream, "{request} HTTP/1.1\r\n{host}{fields}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

#[test]
fn the_console_obeys_only_those_who_have_its_token() {
    let folder = tempfile::tempdir().unwrap();
    let (mut dev, said) = started(2, free_ports(2), folder.path());
    let (url, token) = console_of(&said);
    let own = format!("kvorum-dev: {token}\r\n");
    let (status, page) = ask(&url, "GET /", "");
    assert_eq!(status, 200);
    assert!(page.starts_with("<!doctype html>"), "{page}");
    for (fields, status) in [
        ("", 403),
        ("kvorum-dev: 0\r\n", 403),
        ("kvorum-dev: \r\n", 403),
        (&*format!("{own}host: evil.example\r\n"), 421),
        (&*own, 200),
    ] {
        for request in ["GET /dev/cluster", "GET /nodes/2/v0/status"] {
            let answer = ask(&url, request, fields);
            assert_eq!(answer.0, status, "{request} {fields}: {}", answer.1);
        }
    }
    for (request, status) in [
        ("POST /dev/nodes/2/stop", 200),
        ("POST /dev/nodes/2/freeze", 409),
        ("GET /nodes/2/v0/status", 502),
        ("GET /nodes/1/v0/status", 200),
        ("GET /nodes/3/v0/status", 404),
        ("GET /nodes/0/v0/status", 404),
        ("GET /nodes/1/console/console.js", 404),
        ("POST /dev/nodes/2/eat", 409),
        ("POST /dev/load/4097", 409),
        ("GET /dev/nodes/2/start", 404),
        ("POST /dev/nodes/2/start", 200),
    ] {
        let answer = ask(&url, request, &own);
        assert_eq!(answer.0, status, "{request}: {}", answer.1);
    }
    let states = || -> Vec<String> {
        let (_, page) = ask(&url, "GET /dev/cluster", &own);
        let page: Value = serde_json::from_str(&page).unwrap();
        let nodes = page["nodes"].as_array().unwrap().iter();
        nodes
            .map(|node| node["state"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(states(), ["running", "running"]);
    assert_eq!(ask(&url, "POST /dev/nodes/1/skew", &own).0, 200);
    wait_until("the node to notice that its clock is wrong", || {
        let (_, status) = ask(&url, "GET /nodes/1/v0/status", &own);
        let status: Value = serde_json::from_str(&status).ok()?;
        status["clock"]["refuses_writes"]
            .as_str()
            .map(str::to_owned)
    });
    assert_eq!(states(), ["skewed", "running"]);
    dev.signal(rustix::process::Signal::INT);
    assert_eq!(dev.end().code, Some(0));
}

/// The right answer to the question of each step, from 0.
const TRUTHS: [usize; 7] = [1, 1, 1, 0, 0, 1, 1];

#[test]
fn the_tour_shows_what_it_says() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (mut dev, said) = started(3, free_ports(3), folder.path());
    let (url, token) = console_of(&said);
    browser.prefer("light");
    browser.open(&format!("{url}/#dev={token}"));
    // The token does not stay in the address, where others could see it.
    assert_eq!(browser.evaluate("location.hash"), "#/tour");
    for (step, truth) in TRUTHS.into_iter().enumerate() {
        browser.evaluate(&format!("location.hash = '#/tour?step={}'", step + 1));
        browser.wait_for_text(".telling h2", &format!("{}. ", step + 1));
        browser.click(&format!("fieldset label:nth-of-type({}) input", truth + 1));
        browser.click(".telling button.main");
        browser.wait_for("document.querySelector('.verdict').childElementCount > 0");
        let verdict = browser.evaluate("document.querySelector('.verdict').textContent");
        let log = browser.evaluate("document.querySelector('.log').innerText");
        let verdict = verdict.as_str().unwrap();
        assert!(
            verdict.starts_with("As you predicted"),
            "step {}: {verdict}\n{log}",
            step + 1
        );
    }
    browser.assert_calm(&url);
    dev.signal(rustix::process::Signal::INT);
    assert_eq!(dev.end().code, Some(0));
}
