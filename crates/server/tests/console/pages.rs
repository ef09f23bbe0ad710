//! Every page at three widths, and what the page of the cluster says when a node goes.

use crate::browser::{Browser, PAGE_WIDTHS};
use crate::support::Cluster;

/// The pages with an element that each has once it is drawn.
const PAGES: [(&str, &str); 4] = [
    ("cluster", ".part-nodes tbody tr:nth-child(3)"),
    ("keys", ".split .note"),
    ("node", ".store li:nth-child(9)"),
    ("runbooks?at=full-disk", "#full-disk"),
];

#[test]
fn every_page_works_on_a_phone_a_tablet_and_a_desk_in_light_and_dark() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start(3);
    let origin = cluster.url(0);
    for (width, scheme) in PAGE_WIDTHS {
        browser.resize(width, 800);
        browser.prefer(scheme);
        for (page, drawn) in PAGES {
            browser.open(&format!("{origin}/#/{page}"));
            browser.wait_for(&format!("document.querySelector('{drawn}') !== null"));
            let fits = "document.documentElement.scrollWidth <= innerWidth";
            assert_eq!(browser.evaluate(fits), true, "{page} at {width}");
        }
    }
    browser.assert_calm(&origin);
}

#[test]
fn the_cluster_page_says_which_node_is_gone_and_that_it_is_back() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let mut cluster = Cluster::start(3);
    let origin = cluster.url(0);
    browser.open(&format!("{origin}/"));
    browser.wait_for_text(".lead", "All 3 nodes are up");
    cluster.stop_node(1);
    browser.wait_for_text(".lead", "2 of 3 nodes are up");
    browser.wait_for_text(".advice", "b: it has been unreachable for");
    browser.click(".advice a");
    browser.wait_for("document.activeElement.id === 'a-node-is-down-or-silent'");
    browser.evaluate("history.back()");
    cluster.start_node(1);
    browser.wait_for_text(".lead", "All 3 nodes are up");
    browser.wait_for_text(".calm", "Nothing needs attention");
    browser.assert_calm(&origin);
}

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
fn a_node_is_not_taken_for_a_supervisor_because_its_address_says_so() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start(1);
    let origin = cluster.url(0);
    browser.open(&format!("{origin}/#dev=0123456789abcdef"));
    browser.wait_for_text(".lead", "is alone");
    let has_part = "document.querySelector('.part-breaking').children.length";
    assert_eq!(browser.evaluate(has_part), 0);
    browser.assert_calm(&origin);
}

#[test]
fn the_cluster_page_has_what_each_node_says_of_itself() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let mut cluster = Cluster::start_with(3, |config| {
        if config.node.name() == "c" {
            // As in a release that cannot say it.
            config.node.protocol.features &= !peer::EXAMINATION;
        }
    });
    let origin = cluster.url(0);
    browser.open(&format!("{origin}/"));
    let mut client = cluster.client(1);
    for _ in 0..20 {
        assert_eq!(client.put("/v0/entity?id=a", b"1").status, 201);
    }
    let cell = |part: &str, node: &str, column: usize| {
        format!(
            "[...document.querySelectorAll('.part-{part} tbody tr')]\
             .find((row) => row.cells[0].textContent === '{node}')?.cells[{column}].textContent"
        )
    };
    let (disk, rate, median_of_writes) = (6, 1, 5);
    for node in ["a", "b"] {
        let of_disk = cell("nodes", node, disk);
        browser.wait_for(&format!("/B/.test({of_disk})"));
    }
    let of_writes = cell("clients", "b", median_of_writes);
    browser.wait_for(&format!("/(µs|ms|s)$/.test({of_writes})"));
    for (part, column) in [("nodes", disk), ("clients", rate)] {
        assert_eq!(browser.evaluate(&cell(part, "c", column)), "–");
    }
    cluster.stop_node(1);
    let of_disk = cell("nodes", "b", disk);
    browser.wait_for(&format!("{of_disk} === '–'"));
    let own_disk = cell("nodes", "a", disk);
    browser.wait_for(&format!("/B/.test({own_disk})"));
    browser.assert_calm(&origin);
}

#[test]
fn the_console_works_while_all_other_nodes_are_down() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let mut cluster = Cluster::start(3);
    let origin = cluster.url(0);
    cluster.stop_node(1);
    cluster.stop_node(2);
    browser.open(&format!("{origin}/"));
    browser.wait_for_text(".lead.bad", "1 of 3 nodes are up, but 2 of 3 must answer");
    browser.wait_for("document.querySelectorAll('.advice li.bad').length === 2");
    // What this node has can be read from it alone.
    browser.evaluate("location.hash = '#/keys?key=k'");
    browser.wait_for("document.querySelector('#ack') !== null");
    browser.wait_for_text(".value", "Not Enough Replicas");
    browser.choose("#ack", "1");
    browser.wait_for_text(".value", "There is no such key");
    browser.assert_calm(&origin);
}

#[test]
fn a_node_that_stops_answering_is_said_to_be_silent() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let mut cluster = Cluster::start(3);
    let origin = cluster.url(0);
    browser.open(&format!("{origin}/"));
    cluster.stop_node(0);
    browser.wait_for_text(".served.bad", "does not answer");
    // The page has no good news from before: it sends its reader to the other nodes.
    browser.wait_for_text(".lead.bad", "a does not answer: what you see is");
    browser.wait_for_text(".advice li.bad", "Look through another node: b c.");
    assert_eq!(
        browser.evaluate("document.querySelector('.calm')"),
        serde_json::Value::Null
    );
    // What was known stays on the page.
    browser.wait_for_text(".part-nodes", "voter");
    cluster.start_node(0);
    browser.wait_for("document.querySelector('.served.good') !== null");
    browser.assert_calm(&origin);
}

#[test]
fn charts_are_read_with_the_arrow_keys() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start(1);
    let mut client = cluster.client(0);
    for _ in 0..20 {
        assert_eq!(client.put("/v0/entity?id=a", b"1").status, 201);
    }
    let origin = cluster.url(0);
    browser.open(&format!("{origin}/"));
    browser.wait_for("document.querySelectorAll('.chart').length === 4");
    browser.wait_for("document.querySelector('.plot .none') === null");
    // The last chart is of writes.
    browser.evaluate("document.querySelectorAll('.chart')[3].focus()");
    browser.press("ArrowLeft");
    let when = "document.querySelectorAll('.chart .when')[3].textContent";
    browser.wait_for(&format!("/^\\d\\d:\\d\\d:\\d\\d$/.test({when})"));
    let median = "document.querySelectorAll('.chart')[3].querySelector('b').textContent";
    browser.wait_for(&format!("/(µs|ms)$/.test({median})"));
    browser.assert_calm(&origin);
}
