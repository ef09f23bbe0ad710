//! New figures come every two seconds. They may not take from the reader what is scrolled,
//! focused, marked or answered.

use crate::browser::Browser;
use crate::support::Cluster;

/// The table of the other nodes.
const TABLE: &str = "document.querySelector('.part-nodes .scroll')";

/// Does something to an element, and waits until it was drawn anew.
fn outlive(browser: &mut Browser, element: &str, change: &str) {
    browser.wait_for(&format!("{element} !== null"));
    browser.evaluate(&format!(
        "(() => {{ const it = {element}; {change}; it.dataset.isOld = 'yes'; }})()"
    ));
    browser.wait_for(&format!("{element}.dataset.isOld === undefined"));
}

#[test]
fn a_table_stays_scrolled_and_focused() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start(3);
    let origin = cluster.url(0);
    // It is a list on a phone, and fits a desk.
    browser.resize(560, 800);
    browser.open(&format!("{origin}/"));
    outlive(&mut browser, TABLE, "it.scrollLeft = 50; it.focus()");
    assert_eq!(browser.evaluate(&format!("{TABLE}.scrollLeft")), 50);
    let is_focused = format!("document.activeElement === {TABLE}");
    assert_eq!(browser.evaluate(&is_focused), true);
    browser.assert_calm(&origin);
}

#[test]
fn text_stays_marked() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start(1);
    let origin = cluster.url(0);
    browser.open(&format!("{origin}/"));
    let card = "document.querySelector('.card')";
    browser.wait_for(&format!("{card}?.textContent.includes('voter')"));
    browser.evaluate(&format!("getSelection().selectAllChildren({card})"));
    // What is not marked is drawn anew.
    let other = "document.querySelector('.part-work section')";
    outlive(&mut browser, other, "");
    let marked = browser.evaluate("String(getSelection())");
    assert!(marked.as_str().unwrap().contains("voter"), "{marked}");
    browser.assert_calm(&origin);
}

#[test]
fn what_an_order_was_answered_stays() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start(3);
    let origin = cluster.url(0);
    browser.open(&format!("{origin}/#/node"));
    browser.wait_for("document.querySelector('.part-orders button') !== null");
    browser.click(".part-orders button:nth-child(2)");
    browser.wait_for_text(".part-orders .note", "Repair: ");
    outlive(
        &mut browser,
        "document.querySelector('.part-store section')",
        "",
    );
    browser.wait_for_text(".part-orders .note", "Repair: ");
    browser.assert_calm(&origin);
}
