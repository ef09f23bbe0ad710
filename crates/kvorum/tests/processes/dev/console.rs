//! The console of `kvorum dev`: whom it obeys, how it reaches nodes, and the whole tour.

use crate::browser::Browser;
use crate::dev::{started, started_with};
use crate::support::{free_ports, request, wait_until};
use http_testing::Connection;
use serde_json::{Value, json};

/// The address and the token of the console in what `dev` has said.
pub(crate) fn console_of(said: &str) -> (String, String) {
    let line = said.lines().find(|line| line.contains("/#dev="));
    let (url, token) = line.unwrap().trim().split_once("/#dev=").unwrap();
    (url.to_owned(), token.to_owned())
}

/// Sends a request to the console, with these lines of its head.
pub(crate) fn ask(url: &str, request: &str, fields: &str) -> (u16, String) {
    let address = url.strip_prefix("http://").unwrap();
    let mut connection = Connection::connect(address.parse().unwrap()).unwrap();
    let host = if fields.contains("host: ") {
        String::new()
    } else {
        format!("host: {address}\r\n")
    };
    let head = format!("{request} HTTP/1.1\r\n{host}{fields}\r\n");
    connection.send(head).unwrap();
    let (method, _) = request.split_once(' ').unwrap();
    let answer = connection.reply_to(method).unwrap();
    (answer.status, answer.text().to_owned())
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
    let nodes = || -> Vec<Value> {
        let (_, page) = ask(&url, "GET /dev/cluster", &own);
        let page: Value = serde_json::from_str(&page).unwrap();
        let nodes = page["nodes"].as_array().unwrap().iter();
        nodes
            .map(|node| json!([node["state"], node["faults"]]))
            .collect()
    };
    let whole = json!(["running", []]);
    assert_eq!(nodes(), [whole.clone(), whole.clone()]);
    assert_eq!(ask(&url, "POST /dev/nodes/1/skew", &own).0, 200);
    wait_until("the node to notice that its clock is wrong", || {
        let (_, status) = ask(&url, "GET /nodes/1/v0/status", &own);
        let status: Value = serde_json::from_str(&status).ok()?;
        status["clock"]["refuses_writes"]
            .as_str()
            .map(str::to_owned)
    });
    assert_eq!(ask(&url, "POST /dev/nodes/1/cut", &own).0, 200);
    assert_eq!(ask(&url, "POST /dev/nodes/1/cut", &own).0, 200);
    assert_eq!(ask(&url, "POST /dev/nodes/2/slow", &own).0, 200);
    let broken = json!(["running", ["skewed", "cut-off"]]);
    assert_eq!(nodes(), [broken, json!(["running", ["slow"]])]);
    for action in ["1/unskew", "1/join", "2/unslow"] {
        let request = format!("POST /dev/nodes/{action}");
        assert_eq!(ask(&url, &request, &own).0, 200, "{action}");
    }
    assert_eq!(nodes(), [whole.clone(), whole.clone()]);
    // One request takes back everything.
    for action in ["1/cut", "1/freeze", "2/slow", "2/stop"] {
        let request = format!("POST /dev/nodes/{action}");
        assert_eq!(ask(&url, &request, &own).0, 200, "{action}");
    }
    assert_eq!(ask(&url, "POST /dev/heal", "").0, 403);
    assert_eq!(ask(&url, "POST /dev/heal", &own).0, 200);
    assert_eq!(nodes(), [whole.clone(), whole]);
    dev.signal(rustix::process::Signal::INT);
    assert_eq!(dev.end().code, Some(0));
}

/// The right answer to the question of each step, from 0.
const TRUTHS: [usize; 8] = [1, 2, 0, 2, 0, 2, 0, 2];

#[test]
fn the_tour_shows_what_it_says() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let port = free_ports(3);
    let (mut dev, said) = started(3, port, folder.path());
    let (url, token) = console_of(&said);
    browser.prefer("light");
    browser.open(&format!("{url}/#dev={token}"));
    // The token does not stay in the address, where others could see it.
    assert_eq!(browser.evaluate("location.hash"), "#/tour");
    take(&mut browser, &TRUTHS);
    // The last step asks the reader to explain, and helps.
    browser.click(".outcome summary");
    browser.wait_for_text(
        ".outcome .said",
        "Any two of the three share at least one node",
    );
    browser.evaluate("document.querySelector('#explanation').focus()");
    browser.type_text("Two pairs of three share one.");
    // What was predicted and explained stays on a certificate.
    browser.wait_for_text(".progress", "8 of 8 steps, 8 as predicted");
    browser.click(".outcome a[href='#/tour?step=9']");
    browser.wait_for_text(".certificate", "8 of 8 predictions came true.");
    browser.wait_for("document.querySelectorAll('.certificate .state.good').length === 8");
    let explained = "document.querySelector('.certificate textarea').value";
    assert_eq!(browser.evaluate(explained), "Two pairs of three share one.");
    // What the tour stored is deleted, and what its load stored expires.
    wait_until("no keys to be left", || {
        let target = "/v0/entities?start=a&scope=cluster&values=omit";
        let (status, lines) = request(port, "GET", target, b"")?;
        (status == 200 && lines.is_empty()).then_some(())
    });
    browser.assert_calm(&url);
    dev.signal(rustix::process::Signal::INT);
    assert_eq!(dev.end().code, Some(0));
}

/// Takes the first steps of the tour, each with the right prediction.
fn take(browser: &mut Browser, truths: &[usize]) {
    for (index, truth) in truths.iter().enumerate() {
        take_step(browser, index + 1, *truth);
        match index + 1 {
            1 => assert_failed_write_is_seen(browser),
            4 => assert_repair_comes_before_the_answer(browser),
            // What was to be seen is what was measured.
            7 => browser.wait_for_text(".outcome", "% of that. It refused "),
            8 => assert_a_node_has_come_and_gone(browser),
            _ => {}
        }
    }
}

/// What the text of the first step says of “three” is in the picture.
fn assert_failed_write_is_seen(browser: &mut Browser) {
    browser.wait_for_text(".outcome", "node-1 and node-2 hold “three”");
    browser.wait_for_text(".told", "What each node holds under tour/three");
    let held = "[...document.querySelectorAll('.held')].map((held) => held.textContent).slice(0, 2).join()";
    assert_eq!(browser.evaluate(held), "three,three");
    // It gets to the third, too.
    browser.wait_for_text(".log", "All nodes are up and equal again.");
    browser.wait_for(
        "[...document.querySelectorAll('.held')].every((held) => held.textContent === 'three')",
    );
}

/// The step has ended once the node that has joined held its part; then it leaves.
fn assert_a_node_has_come_and_gone(browser: &mut Browser) {
    browser.wait_for_text(".outcome", "and refused none. node-4 is one of the three");
    browser.wait_for_text(".log", "All nodes are up and equal again.");
    let log = browser.evaluate("document.querySelector('.log').textContent");
    let log = log.as_str().unwrap();
    let at = |text: &str| log.find(text).unwrap_or_else(|| panic!("{text}: {log}"));
    assert!(at("The others bring it its part") < at("It has all that it lacked."));
    assert!(at("It has all that it lacked.") < at("node-4 leaves"));
    browser.wait_for("document.querySelectorAll('.actor.up').length === 4");
    browser.wait_for("document.querySelector('.actor.absent') !== null");
}

/// The picture has the repair where the text has it: before the reader gets the answer.
fn assert_repair_comes_before_the_answer(browser: &mut Browser) {
    let log = browser.evaluate("document.querySelector('.log').textContent");
    let log = log.as_str().unwrap();
    let at = |text: &str| log.find(text).unwrap_or_else(|| panic!("{text}: {log}"));
    let repaired = at("node-2 overwrites the stale copy on node-3 with \"new\".");
    assert!(
        at("You ask node-2 to read tour/repair, with 2/3.") < repaired,
        "{log}"
    );
    assert!(repaired < at("node-2 answers: \"new\""), "{log}");
    browser.wait_for_text(".told", "What each node holds under tour/repair");
}

/// Takes a step of the tour, from 1, whose right answer has this index.
pub(crate) fn take_step(browser: &mut Browser, step: usize, truth: usize) {
    browser.evaluate(&format!("location.hash = '#/tour?step={step}'"));
    browser.wait_for_text(".telling h2", &format!("{step}. "));
    browser.click(&format!("fieldset label:nth-of-type({}) input", truth + 1));
    browser.click(".telling button.main");
    browser.wait_for("document.querySelector('.outcome').childElementCount > 0");
    let verdict = browser.evaluate("document.querySelector('.outcome').textContent");
    let log = browser.evaluate("document.querySelector('.log').innerText");
    let verdict = verdict.as_str().unwrap();
    assert!(
        verdict.starts_with("As you predicted"),
        "step {step}: {verdict}\n{log}"
    );
}

#[test]
fn the_console_reaches_nodes_with_tls_and_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--tls", "--tokens"];
    let (mut dev, said) = started_with(&options, 3, free_ports(3), folder.path());
    let (url, token) = console_of(&said);
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    assert_eq!(ask(&url, "GET /nodes/2/v0/status", "").0, 403);
    let own = format!("kvorum-dev: {token}\r\n");
    let answer = ask(&url, "GET /nodes/2/v0/status", &own);
    assert_eq!(answer.0, 200, "{}", answer.1);
    assert!(answer.1.contains("https://127.0.0.1:"), "{}", answer.1);
    for (request, status) in [
        ("PUT /nodes/1/v0/entity?id=k", 201),
        ("GET /nodes/3/v0/entity?id=k", 200),
        // The load is encrypted, too, and has the token.
        ("POST /dev/load/4", 200),
    ] {
        let answer = ask(&url, request, &own);
        assert_eq!(answer.0, status, "{request}: {}", answer.1);
    }
    let (_, history) = ask(&url, "GET /nodes/1/v0/history", &own);
    let history: Value = serde_json::from_str(&history).unwrap();
    let samples = history["samples"].as_array().unwrap().iter();
    let writes: u64 = samples
        .chain([&history["running"]])
        .flat_map(|sample| sample["writes"].as_array().unwrap())
        .map(|count| count.as_u64().unwrap())
        .sum();
    assert!(writes > 10, "{history}");
    // Who shows a token of his own has its rights, and no others.
    let other = format!("{own}authorization: Bearer kvorum_x\r\n");
    assert_eq!(ask(&url, "GET /nodes/1/v0/status", &other).0, 401);

    if let Some(mut browser) = Browser::start() {
        browser.prefer("light");
        browser.open(&format!("{url}/#dev={token}"));
        take(&mut browser, &TRUTHS[..2]);
        assert_eq!(
            browser.evaluate("document.querySelector('dialog')"),
            json!(null)
        );
        browser.assert_calm(&url);
    }
    dev.signal(rustix::process::Signal::INT);
    assert_eq!(dev.end().code, Some(0));
}
