//! The handbook in the console: its contents, its search, its links, and commands to copy.

use crate::browser::Browser;
use crate::support::Cluster;
use serde_json::json;

#[test]
fn the_runbooks_lead_to_the_pages_that_they_name() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start(1);
    let origin = cluster.url(0);
    browser.open(&format!("{origin}/#/runbooks?at=a-disk-died"));
    browser.wait_for("document.activeElement.id === 'a-disk-died'");
    browser.click("#a-disk-died ~ ol a[href='#/runbooks?at=replace-a-node']");
    browser.wait_for("document.activeElement.id === 'replace-a-node'");
    let lead_somewhere = "[...document.querySelectorAll('.prose a')].every((link) => \
         document.getElementById(new URLSearchParams(link.hash.split('?')[1]).get('at')))";
    assert_eq!(browser.evaluate(lead_somewhere), true);
    browser.assert_calm(&origin);
}

#[test]
fn the_runbooks_are_searched_and_their_commands_copied() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start(1);
    let origin = cluster.url(0);
    browser.open(&format!("{origin}/#/runbooks?at=full-disk"));
    // The contents mark what is read.
    browser.wait_for_text(".contents [aria-current]", "Full disk");
    browser.evaluate("document.querySelector('#find').focus()");
    // The ring around the field is 2 px wide and 2 px off, and nothing cuts it.
    let ring = "(() => { const [field, box] = ['#find', '.contents'].map((name) => \
                document.querySelector(name).getBoundingClientRect()); \
                return getComputedStyle(document.querySelector('#find')).outlineStyle === 'solid' \
                && field.left - 4 >= box.left && field.right + 4 <= box.right \
                && field.top - 4 >= box.top; })()";
    assert_eq!(browser.evaluate(ring), true);
    browser.type_text("died disk");
    browser.wait_for_text(".contents .found", "A disk died");
    browser.wait_for("document.querySelector('.contents mark') !== null");
    browser.press("Enter");
    browser.wait_for("document.activeElement.id === 'a-disk-died'");
    browser.evaluate("document.querySelector('#find').select()");
    browser.type_text("no such words at all");
    browser.wait_for_text(".contents .note", "Nothing has these words");

    // What is copied is the text of the block.
    let keep = "window.kept = null; \
                navigator.clipboard.writeText = async (text) => { window.kept = text; }; 0";
    browser.evaluate(keep);
    browser.click(".code .copy");
    browser.wait_for_text(".code .copy", "Copied");
    let is_same = "window.kept === document.querySelector('.code pre').textContent";
    assert_eq!(browser.evaluate(is_same), json!(true));
    browser.assert_calm(&origin);
}
