//! The pages that only the console of `kvorum dev` has, in a real browser: nodes are broken
//! and healed with the keyboard, at three widths, and as axe-core judges it.

use crate::browser::{Browser, PAGE_WIDTHS};
use crate::dev::console::{ask, console_of, take_step};
use crate::dev::started;
use crate::support::{Process, free_ports, request, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A local cluster and a browser that has met its console.
struct Seen {
    browser: Browser,
    url: String,
    token: String,
    port: u16,
    dev: Process,
    _folder: TempDir,
}

impl Seen {
    /// None, and a line that says so, where no browser is installed.
    fn start() -> Option<Self> {
        let mut browser = Browser::start()?;
        let folder = tempfile::tempdir().unwrap();
        let port = free_ports(3);
        let (dev, said) = started(3, port, folder.path());
        let (url, token) = console_of(&said);
        browser.prefer("light");
        browser.open(&format!("{url}/#dev={token}"));
        Some(Self {
            browser,
            url,
            token,
            port,
            dev,
            _folder: folder,
        })
    }

    /// Shows another page, and keeps the token.
    fn show(&mut self, page: &str) {
        self.browser
            .evaluate(&format!("location.hash = '#/{page}'"));
    }

    /// Chooses node-3 in the picture with the keyboard: the focus goes to what opens.
    fn choose(&mut self) {
        let node = "[data-node=node-3]";
        self.browser
            .wait_for(&format!("document.querySelector('{node}') !== null"));
        self.browser
            .evaluate(&format!("document.querySelector('{node}').focus()"));
        self.browser.press("Enter");
        self.browser
            .wait_for("document.activeElement.matches('.faults h2')");
        self.browser.wait_for_text(".faults h2", "node-3");
    }

    /// Presses the button of an action on node-3, which has the focus afterwards as well.
    fn press(&mut self, place: &str, word: &str) {
        let button = format!("[data-focus=\"node-3 {place}\"]");
        self.browser.wait_for_text(&button, word);
        self.browser
            .evaluate(&format!("document.querySelector('{button}').focus()"));
        self.browser.press("Enter");
    }

    /// Waits until the console says of node-3 what was done to it.
    fn wait_for_mark(&mut self, word: &str) {
        self.browser.wait_for_text(".faults .state", word);
    }

    /// Waits until the supervisor says that all nodes run and have no fault.
    fn wait_until_whole(&self) {
        let own = format!("kvorum-dev: {}\r\n", self.token);
        wait_until("all nodes to be whole", || {
            let (_, page) = ask(&self.url, "GET /dev/cluster", &own);
            let page: Value = serde_json::from_str(&page).ok()?;
            let mut nodes = page["nodes"].as_array()?.iter();
            nodes
                .all(|node| node["state"] == "running" && node["faults"] == json!([]))
                .then_some(())
        });
    }

    /// How many keys the cluster has.
    fn keys(&self) -> usize {
        let target = "/v0/entities?start=a&scope=cluster&values=omit";
        let (status, lines) = request(self.port, "GET", target, b"").unwrap();
        assert_eq!(status, 200);
        lines.iter().filter(|byte| **byte == b'\n').count()
    }

    fn wait_until_no_keys(&self) {
        wait_until("all keys to be deleted", || {
            (self.keys() == 0).then_some(())
        });
    }

    fn end(mut self) {
        self.browser.assert_calm(&self.url);
        self.dev.signal(Signal::INT);
        assert_eq!(self.dev.end().code, Some(0));
    }
}

#[test]
fn a_node_is_broken_and_healed_with_the_keyboard() {
    let Some(mut seen) = Seen::start() else {
        return;
    };
    seen.show("cluster");
    let all_up = "All 3 nodes are up";
    seen.browser.wait_for_text(".lead", all_up);
    seen.choose();

    seen.press("cut", "Cut off");
    seen.wait_for_mark("cut off");
    seen.browser.wait_for_text(".lead", "2 of 3 nodes are up");
    seen.browser.wait_for_text(".advice", "node-3");
    // The focus is where it was, on what takes it back.
    let focused = "document.activeElement.textContent === 'Join again'";
    seen.browser.wait_for(focused);
    seen.browser.press("Enter");
    seen.wait_for_mark("running");
    seen.browser.wait_for_text(".lead", all_up);

    seen.press("slow", "Slow its network");
    seen.wait_for_mark("slow network");
    for _ in 0..20 {
        let put = request(seen.port, "PUT", "/v0/entity?id=k&replicas=3/3", b"v");
        assert_eq!(put.unwrap().0, 201);
    }
    // The table says how long its answers take, which is longer on a busy machine; those of the
    // others take a moment.
    let late = "/([1-9]\\d\\d ms| s)$/.test([...document.querySelectorAll('.part-nodes tr')]\
                .find((row) => row.textContent.startsWith('node-3')).cells[4].textContent)";
    seen.browser.wait_for(late);

    seen.press("kill", "Kill");
    seen.wait_for_mark("killed");
    seen.wait_for_mark("running");
    seen.browser.wait_for_text(".lead", all_up);

    seen.press("freeze", "Freeze");
    // The supervisor knows it before any node does.
    let card = "document.querySelectorAll('.card')[2].textContent";
    seen.browser.wait_for(&format!(
        "document.querySelector('.lead').textContent.startsWith('node-3 (frozen by you) is away') \
         && {card}.includes('frozen by you') && {card}.includes('node-1 sees it: up') \
         && document.querySelector('.calm .good') === null"
    ));
    seen.wait_for_mark("frozen");
    seen.browser.wait_for_text(".lead", "2 of 3 nodes are up");
    seen.browser
        .wait_for(&format!("/node-1 sees it: (suspected|down)/.test({card})"));
    seen.browser
        .evaluate("document.querySelector(\"[data-focus='undo all']\").focus()");
    seen.browser.press("Enter");
    seen.wait_for_mark("running");
    // The button is disabled now, so the focus is on the heading.
    seen.browser
        .wait_for("document.activeElement.matches('.faults h2')");
    seen.browser.wait_for_text(".lead", all_up);
    // What closes gives the focus back to the picture.
    let is_back = "document.activeElement.dataset.node === 'node-3'";
    seen.browser.click("[data-focus=close]");
    seen.browser.wait_for(is_back);
    seen.choose();
    let outline = "getComputedStyle(document.activeElement).outlineStyle";
    assert_eq!(seen.browser.evaluate(outline), "solid");
    seen.browser.press("Escape");
    seen.browser.wait_for(is_back);
    seen.browser.wait_for_text(".faults h2", "Inject faults");
    seen.end();
}

#[test]
fn a_reload_keeps_the_token_and_a_page_without_it_says_what_to_do() {
    let Some(mut seen) = Seen::start() else {
        return;
    };
    seen.show("cluster");
    seen.browser.wait_for_text(".lead", "All 3 nodes are up");
    seen.browser.evaluate("globalThis.isOld = true");
    seen.browser.call("Page.reload", &json!({}));
    seen.browser.wait_for("globalThis.isOld === undefined");
    seen.browser.wait_for_text(".lead", "All 3 nodes are up");
    assert_eq!(seen.browser.evaluate("localStorage.length"), 0);

    seen.browser.evaluate("sessionStorage.clear()");
    seen.browser.call("Page.reload", &json!({}));
    let missing = "Open the address that kvorum dev printed again: its token is missing.";
    seen.browser.wait_for_text(".gone", missing);
    seen.browser.wait_for_text(".served", "refuses this page");
    // The address with the token helps at once, in the same tab.
    let token = seen.token.clone();
    seen.browser
        .evaluate(&format!("location.hash = '#dev={token}'"));
    seen.browser.wait_for_text(".steps", "Certificate");
    seen.show("cluster");
    seen.browser.wait_for_text(".lead", "All 3 nodes are up");
    seen.end();
}

#[test]
fn a_silent_node_is_shown_by_the_others_and_another_one_can_be_looked_through() {
    let Some(mut seen) = Seen::start() else {
        return;
    };
    seen.show("cluster");
    let disks = "[...document.querySelectorAll('.card .disk')].map((disk) => disk.textContent)";
    let told =
        |count: usize| format!("{disks}.filter((text) => /free$/.test(text)).length === {count}");
    seen.browser.wait_for(&told(3));
    // The node that answers the page stops. The console says so, and what the others know.
    let gone = "[data-node=node-1]";
    seen.browser.evaluate(&format!(
        "document.querySelector('{gone}').dispatchEvent(new Event('click'))"
    ));
    seen.browser.click("[data-focus='node-1 stop']");
    seen.browser.wait_for_text(".faults .state", "stopped");
    seen.browser.wait_for_text(
        ".gone",
        "node-1, which serves this page, has not answered since",
    );
    seen.browser.wait_for_text(".lead", "2 of 3 nodes are up");
    seen.browser
        .wait_for_text(".advice .bad", "node-1: it has been unreachable");
    seen.browser.wait_for(&told(2));
    assert_eq!(
        seen.browser.evaluate("document.querySelector('.calm')"),
        json!(null)
    );
    // A page that opens now knows the same from the supervisor.
    seen.browser.evaluate("globalThis.isOld = true");
    seen.browser.call("Page.reload", &json!({}));
    seen.browser.wait_for("globalThis.isOld === undefined");
    seen.browser
        .wait_for_text(".gone", "node-1, which serves this page, does not answer");
    seen.browser.click(".gone button");
    seen.browser
        .wait_for("document.querySelector('.gone').hidden");
    seen.browser
        .wait_for_text(".part-nodes h2", "as node-2 sees them");
    seen.browser.evaluate(&format!(
        "document.querySelector('{gone}').dispatchEvent(new Event('click'))"
    ));
    seen.browser.click("[data-focus='node-1 stop']");
    seen.browser.wait_for_text(".lead", "All 3 nodes are up");
    seen.browser.wait_for(&told(3));
    seen.end();
}

#[test]
fn a_node_that_is_cut_off_says_so_and_blames_no_other_one() {
    let Some(mut seen) = Seen::start() else {
        return;
    };
    seen.show("cluster");
    seen.browser.wait_for_text(".lead", "All 3 nodes are up");
    seen.browser.choose("#seen-by", "3");
    seen.browser
        .wait_for_text(".part-nodes h2", "as node-3 sees them");
    seen.choose();
    seen.press("cut", "Cut off");
    seen.browser
        .wait_for_text(".lead.bad", "node-3 reaches none of the other 2 nodes");
    seen.browser.wait_for_text(
        ".advice .bad",
        "node-3: it has reached none of the 2 other nodes",
    );
    // The others say themselves that they are well.
    seen.browser.wait_for(
        "document.querySelectorAll('.card.good').length === 2 \
         && document.querySelectorAll('.advice .bad').length === 1 \
         && document.querySelectorAll('.actor.unseen').length === 2 \
         && document.querySelectorAll('.actor.cut').length === 1",
    );
    seen.show("node");
    seen.browser
        .wait_for_text(".part-lead .bad", "reaches none of 2 (cut off by you)");
    seen.browser.choose("#seen-by", "1");
    seen.browser
        .wait_for_text(".part-lead .warn", "reaches 1 of 2");
    seen.show("cluster");
    seen.browser
        .wait_for_text(".advice .bad", "node-3: it has been unreachable");
    seen.end();
}

#[test]
fn a_node_has_the_same_look_in_its_card_its_chart_and_the_picture() {
    let Some(mut seen) = Seen::start() else {
        return;
    };
    seen.show("cluster");
    seen.browser
        .wait_for("document.querySelectorAll('.legend .node-key').length === 3");
    for scheme in ["light", "dark"] {
        seen.browser.prefer(scheme);
        let looks = |of: &str| {
            format!(
                "[...document.querySelectorAll('{of}')].map((line) => {{
                    const {{ stroke, strokeDasharray }} = getComputedStyle(line);
                    return `${{stroke}} ${{strokeDasharray}}`;
                }})"
            )
        };
        let of_cards = seen.browser.evaluate(&looks(".card .node-key line"));
        let of_cards = of_cards.as_array().unwrap().clone();
        assert_eq!(of_cards.len(), 3);
        for part in [
            ".legend .node-key line",
            ".map .look",
            ".part-nodes .node-key line",
        ] {
            let found = seen.browser.evaluate(&looks(part));
            let expected = if part.starts_with(".part-nodes") {
                &of_cards[1..]
            } else {
                &of_cards
            };
            assert_eq!(found.as_array().unwrap(), expected, "{part} in {scheme}");
        }
        // Neighbours differ in colour and, for those who do not see it, in the pattern.
        for (one, other) in [(0, 1), (1, 2), (0, 2)] {
            let part = |index: usize| of_cards[index].as_str().unwrap().rsplit_once(") ").unwrap();
            assert_ne!(part(one).0, part(other).0, "{scheme}");
            assert_ne!(part(one).1, part(other).1, "{scheme}");
        }
    }
    seen.end();
}

#[test]
fn a_key_is_read_again_from_the_node_that_answers_now() {
    let Some(mut seen) = Seen::start() else {
        return;
    };
    let port = seen.port;
    let put = |value: &str| {
        let stored = request(port, "PUT", "/v0/entity?id=k", value.as_bytes());
        assert_eq!(stored.map(|(status, _)| status), Some(201));
    };
    put("one");
    seen.show("keys?key=k");
    seen.browser.wait_for_text(".value pre", "one");
    // The value and the table of replicas are read together.
    put("two");
    seen.browser.click("[data-focus=again]");
    seen.browser.wait_for_text(".value pre", "two");
    put("three");
    seen.browser.evaluate(
        "{ const choice = document.getElementById('seen-by'); choice.value = '2'; \
         choice.dispatchEvent(new Event('change')); }",
    );
    seen.browser.wait_for_text(".value pre", "three");
    seen.end();
}

#[test]
fn a_tour_that_is_left_leaves_no_broken_node_and_no_key() {
    let Some(mut seen) = Seen::start() else {
        return;
    };
    let is_over = "document.querySelector('.telling .row > button').textContent === 'Run again'";
    let are_up = "document.querySelectorAll('.actor.up').length === 4";
    // The first step breaks a node, and heals it before the reader's eyes.
    take_step(&mut seen.browser, 1, 1);
    seen.browser
        .wait_for_text(".progress", "1 of 8 steps, 1 as predicted");
    seen.browser
        .wait_for("document.activeElement.matches('.outcome h3')");
    seen.browser
        .wait_for_text(".log", "All nodes are up and equal again.");
    seen.browser.wait_for(&format!("{is_over} && {are_up}"));
    seen.wait_until_whole();
    assert_eq!(seen.keys(), 2);
    seen.show("keys");
    seen.wait_until_no_keys();
    // The prediction of the first time counts.
    take_step(&mut seen.browser, 1, 1);
    seen.browser
        .wait_for_text(".progress", "1 of 8 steps, 1 as predicted");
    // A reload keeps the score, until the reader starts again.
    seen.browser.evaluate("globalThis.isOld = true");
    seen.browser.call("Page.reload", &json!({}));
    seen.browser.wait_for("globalThis.isOld === undefined");
    seen.browser
        .wait_for_text(".progress", "1 of 8 steps, 1 as predicted");
    seen.browser.click(".progress button");
    seen.browser
        .wait_for("document.querySelector('.progress').textContent === '8 steps'");
    // The tab is closed while a node is stopped.
    seen.browser.click("fieldset label input");
    seen.browser.click(".telling button.main");
    seen.browser
        .wait_for("document.querySelector('.actor.stopped') !== null");
    seen.browser
        .call("Page.navigate", &json!({"url": "about:blank"}));
    seen.wait_until_whole();
    seen.end();
}

#[test]
fn the_tour_and_what_breaks_nodes_fit_a_phone_a_tablet_and_a_desk() {
    let Some(mut seen) = Seen::start() else {
        return;
    };
    for (width, scheme) in PAGE_WIDTHS {
        seen.browser.resize(width, 800);
        seen.browser.prefer(scheme);
        for (page, drawn) in [
            ("tour?step=2", ".stage .actor"),
            ("tour?step=9", ".certificate"),
            ("cluster", ".faults button"),
        ] {
            seen.show(page);
            seen.browser
                .wait_for(&format!("document.querySelector('{drawn}') !== null"));
            let fits = "document.documentElement.scrollWidth <= innerWidth";
            assert_eq!(seen.browser.evaluate(fits), true, "{page} at {width}");
        }
    }
    seen.end();
}

#[test]
fn axe_finds_nothing_serious_in_the_tour() {
    let Some(axe) = crate::browser::axe() else {
        return;
    };
    let Some(mut seen) = Seen::start() else {
        return;
    };
    for scheme in ["light", "dark"] {
        seen.browser.prefer(scheme);
        for (page, drawn) in [
            ("tour?step=1", ".stage .actor"),
            ("tour?step=9", ".certificate"),
            ("cluster", ".faults button"),
        ] {
            seen.show(page);
            seen.browser
                .wait_for(&format!("document.querySelector('{drawn}') !== null"));
            let found = seen.browser.judge(&axe);
            assert_eq!(found, json!([]), "{page} in {scheme}");
        }
    }
    seen.end();
}
