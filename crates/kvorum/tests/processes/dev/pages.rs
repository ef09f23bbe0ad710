//! The pages that only the console of `kvorum dev` has, in a real browser: nodes are broken
//! and healed with the keyboard, at three widths, and as axe-core judges it.

use crate::browser::{Browser, PAGE_WIDTHS};
use crate::dev::console::console_of;
use crate::dev::started;
use crate::support::{Process, free_ports, request};
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

/// A local cluster and a browser that has met its console.
struct Seen {
    browser: Browser,
    url: String,
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
        let row = ".breaking [data-focus='node-3'] .state";
        self.browser.wait_for_text(row, word);
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
    seen.wait_for_mark("restarting");
    seen.wait_for_mark("running");
    seen.browser.wait_for_text(".lead", all_up);

    seen.press("freeze", "Freeze");
    seen.wait_for_mark("frozen");
    seen.browser.wait_for_text(".lead", "2 of 3 nodes are up");
    seen.browser.click(".part-breaking section > .row button");
    seen.wait_for_mark("running");
    seen.browser.wait_for_text(".lead", all_up);
    seen.end();
}

#[test]
fn the_table_of_nodes_has_the_figures_of_all_of_them() {
    let Some(mut seen) = Seen::start() else {
        return;
    };
    seen.show("cluster");
    let free = "[...document.querySelectorAll('.part-nodes tbody tr')]\
                .every((row) => row.cells[6].textContent.includes('free'))";
    seen.browser.wait_for(free);
    // A node that does not run says nothing, and the others go on.
    seen.press("stop", "Stop");
    seen.wait_for_mark("stopped");
    let silent = "[...document.querySelectorAll('.part-nodes tbody tr')]\
                  .some((row) => row.cells[6].textContent === '–')";
    seen.browser.wait_for(silent);
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
            ("cluster", ".breaking .broken button"),
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
            ("cluster", ".breaking .broken button"),
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
