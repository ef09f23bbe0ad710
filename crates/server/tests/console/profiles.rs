//! Flame graphs in the console, of a node with and without debug endpoints.

use crate::browser::Browser;
use crate::support::until;
use crate::wire::{Client, config, start, start_with};

/// The button that records.
const RECORD: &str = ".part-profile button";

#[test]
fn a_flame_graph_is_recorded_and_looked_into() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let mut config = config();
    config.debug_endpoints = true;
    let node = start_with(config);
    let origin = node.url().to_string();
    browser.open(&format!("{origin}/#/node"));
    browser.click(RECORD);
    let mut client = Client::connect(&node);
    // The node has something to spend its time on meanwhile.
    until("frames are drawn", || {
        for _ in 0..100 {
            assert_eq!(client.put("/v0/entity?id=a", b"value").status, 201);
        }
        browser.evaluate("document.querySelectorAll('.frame').length > 1") == true
    });
    browser.wait_for_text(".part-profile .note", "A frame's width is its share");
    browser.click(".frame:nth-child(2)");
    browser.wait_for_text(".flames .row", "Out");
    browser.click(".flames .row button");
    browser.wait_for("document.querySelector('.flames .row button') === null");
    browser.assert_calm(&origin);
}

#[test]
fn without_debug_endpoints_the_page_says_how_to_get_them() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let node = start();
    let origin = node.url().to_string();
    browser.open(&format!("{origin}/#/node"));
    browser.click(RECORD);
    browser.wait_for_text(".part-profile .note", "without --debug-endpoints");
    browser.assert_calm(&origin);
}
