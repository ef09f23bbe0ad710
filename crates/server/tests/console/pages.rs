//! Every page at three widths, and what the page of the cluster says when a node goes.

use crate::browser::{Browser, PAGE_WIDTHS};
use crate::page::{amend_answers, amend_no_more, text_in_card};
use crate::support::Cluster;
use serde_json::json;

/// The pages with an element that each has once it is drawn.
const PAGES: [(&str, &str); 5] = [
    ("cluster", ".card:nth-child(3)"),
    ("keys", ".split .note"),
    ("keys?key=k", ".where td"),
    ("node", ".store li:nth-child(9)"),
    ("runbooks?at=full-disk", "#full-disk"),
];

/// Adds up how far what is seen moves by itself, as browsers measure it: the share of the screen
/// that moved, times how far it did.
const WATCH_SHIFTS: &str = "
    globalThis.shifts = 0;
    globalThis.moved = [];
    new PerformanceObserver((list) => {
        for (const { value, sources } of list.getEntries()) {
            shifts += value;
            moved.push(...sources.map(({ node }) => node?.outerHTML?.slice(0, 80)));
        }
    }).observe({ type: 'layout-shift', buffered: true });
";

/// The most of it on a page: what web.dev calls good.
const SHIFTS_MAX: f64 = 0.1;

#[test]
fn every_page_works_on_a_phone_a_tablet_and_a_desk_in_light_and_dark() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start(3);
    let origin = cluster.url(0);
    assert_eq!(cluster.client(0).put("/v0/entity?id=k", b"v").status, 201);
    browser.call(
        "Page.addScriptToEvaluateOnNewDocument",
        &json!({"source": WATCH_SHIFTS}),
    );
    for (width, scheme) in PAGE_WIDTHS {
        browser.resize(width, 800);
        browser.prefer(scheme);
        for (page, drawn) in PAGES {
            browser.open(&format!("{origin}/#/{page}"));
            browser.wait_for(&format!("document.querySelector('{drawn}') !== null"));
            let fits = "document.documentElement.scrollWidth <= innerWidth";
            assert_eq!(browser.evaluate(fits), true, "{page} at {width}");
            // No table of figures is cut, and nothing that is seen moves while a page loads.
            if !page.starts_with("runbooks") {
                let cut = "[...document.querySelectorAll('.scroll')].every((table) => \
                           table.scrollWidth <= table.clientWidth)";
                assert_eq!(browser.evaluate(cut), true, "{page} at {width}");
            }
            let shifts = browser.evaluate("shifts").as_f64().unwrap();
            assert!(
                shifts < SHIFTS_MAX,
                "{page} at {width}: {shifts}: {}",
                browser.evaluate("moved.join('; ')")
            );
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
fn a_node_is_not_taken_for_a_supervisor_because_its_address_says_so() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start(1);
    let origin = cluster.url(0);
    browser.open(&format!("{origin}/#dev=0123456789abcdef"));
    browser.wait_for_text(".lead", "is alone");
    let can_break = "document.querySelectorAll('.faults, [data-node]').length";
    assert_eq!(browser.evaluate(can_break), 0);
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
    for node in ["a", "b"] {
        let disk = text_in_card(node, ".disk");
        browser.wait_for(&format!("/MiB/.test({disk})"));
        let role = text_in_card(node, ".card-what");
        browser.wait_for(&format!("/^voter · .* · up for/.test({role})"));
    }
    assert_eq!(
        browser.evaluate(&text_in_card("c", ".card-now")),
        "It says nothing of itself."
    );
    cluster.stop_node(1);
    let state = text_in_card("b", ".state");
    browser.wait_for(&format!("{state}.startsWith('down')"));
    let now = text_in_card("b", ".card-now");
    browser.wait_for(&format!("{now}.startsWith('Last heard')"));
    let own_disk = text_in_card("a", ".disk");
    browser.wait_for(&format!("/MiB/.test({own_disk})"));
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
    // It may as well be the one that is cut off, so it blames nobody.
    browser.wait_for_text(".lead.bad", "a reaches none of the other 2 nodes");
    browser.wait_for_text(
        ".advice li.bad",
        "a: it has reached none of the 2 other nodes",
    );
    assert_eq!(
        browser.evaluate("document.querySelectorAll('.advice li.bad').length"),
        1
    );
    browser.wait_for("document.querySelectorAll('.card.idle').length === 2");
    browser.wait_for("document.querySelectorAll('.actor.unseen').length === 2");
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
    browser.wait_for_text(".gone", "a, which serves this page, has not answered since");
    browser.wait_for_text(".lead.bad", "How the cluster is now is not known");
    for node in [1, 2] {
        let link = format!(
            "document.querySelector('.gone a[href^=\"{}\"]')",
            cluster.url(node)
        );
        browser.wait_for(&format!("{link} !== null"));
    }
    let good = "document.querySelectorAll('.calm, .card.good, .card .state.good').length";
    assert_eq!(browser.evaluate(good), 0);
    browser.wait_for_text(".card.bad", "does not answer");
    // What was known stays on the page.
    browser.wait_for_text(".card", "voter");
    browser.evaluate("location.hash = '#/node'");
    browser.wait_for_text(".part-lead .state.bad", "does not answer");
    browser.wait_for_text(".part-lead .note", "when it was last heard");
    let usable = "document.querySelectorAll('.part-lead .good, .part-orders :enabled').length";
    assert_eq!(browser.evaluate(usable), 0);
    browser.evaluate("location.hash = '#/cluster'");
    cluster.start_node(0);
    browser.wait_for("document.querySelector('.served.good') !== null");
    browser.wait_for("document.querySelector('.gone').hidden");
    browser.wait_for_text(".lead", "All 3 nodes are up");
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
    let median = |chart: usize| {
        format!("document.querySelectorAll('.chart')[{chart}].querySelector('b').textContent")
    };
    let when = "document.querySelector('.chart-choice .when').textContent";
    // The figures of all charts are of the window, or of the moment that one of them is read at.
    browser.wait_for(&format!("{when} === 'Figures are of the last 5 min.'"));
    browser.click(".chart-choice .choice button:nth-child(3)");
    browser.wait_for(&format!("{when} === 'Figures are of the last 1 h.'"));
    let writes = median(3);
    browser.wait_for(&format!("/(µs|ms)$/.test({writes})"));
    browser.evaluate("document.querySelectorAll('.chart')[3].focus()");
    browser.press("ArrowLeft");
    browser.wait_for(&format!("/^Figures are of the minute until/.test({when})"));
    browser.wait_for(
        "[...document.querySelectorAll('.cursor')]\
         .every((cursor) => cursor.getAttribute('visibility') === 'visible')",
    );
    browser.wait_for(&format!("/(µs|ms)$/.test({writes})"));
    // A listener hears what was read.
    browser.wait_for_text(".part-charts [role=status]", "Latency of writes: p50");
    browser.press("Home");
    browser.wait_for(&format!("{writes} === '–'"));
    browser.press("Escape");
    browser.wait_for(&format!("{when} === 'Figures are of the last 1 h.'"));
    // Of which requests took how long there is a map.
    browser.wait_for("document.querySelectorAll('.chart')[3].querySelector('.cell') !== null");
    browser.assert_calm(&origin);
}

/// Has a status name so many nodes.
fn many_nodes(nodes: usize) -> String {
    format!(
        "const [own] = answer.cluster;
        answer.cluster = Array.from({{ length: {nodes} }}, (_, index) =>
            index === 0 ? own : {{ ...own, name: `node-${{index + 1}}`, state: 'up' }});
        answer.cluster.sort((one, other) => one.name < other.name ? -1 : 1);"
    )
}

#[test]
fn any_number_of_nodes_is_drawn_each_with_its_place_and_its_looks() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start(1);
    let origin = cluster.url(0);
    let looks = "[...document.querySelectorAll('.card')].map((card) => \
                 card.querySelector('.node-key').getAttribute('class')).join()";
    let mut before = String::new();
    // All that differs by the number alone is on the narrowest page, too.
    let numbers: [&[usize]; PAGE_WIDTHS.len()] = [
        &[2, 3, 5, 9, 10, 12, 24, 25, 255],
        &[9, 24, 255],
        &[9, 24, 255],
    ];
    for ((width, scheme), numbers) in PAGE_WIDTHS.into_iter().zip(numbers) {
        browser.resize(width, 800);
        browser.prefer(scheme);
        for nodes in numbers.iter().copied() {
            let added = amend_answers(&mut browser, "/v0/status", &many_nodes(nodes));
            browser.open(&format!("{origin}/"));
            browser.wait_for(&format!(
                "document.querySelectorAll('.card').length === {nodes} \
                 && document.querySelectorAll('.map .actor').length === {nodes}"
            ));
            // All are in the picture, apart from each other, and in the order of their numbers.
            let drawn = "(() => {
                const frame = document.querySelector('.map svg').getBoundingClientRect();
                const nodes = [...document.querySelectorAll('.map .actor')].map((actor) => ({
                    name: actor.querySelector('title').textContent,
                    body: actor.querySelector('circle').getBoundingClientRect(),
                    all: actor.getBoundingClientRect(),
                }));
                const middle = ({ left, right, top, bottom }) => [(left + right) / 2, (top + bottom) / 2];
                const wrong = [];
                for (const { name, all } of nodes) {
                    if (all.left < frame.left - 1 || all.right > frame.right + 1 || all.top < frame.top - 1
                        || all.bottom > frame.bottom + 1) wrong.push(`${name} is not in the picture`);
                }
                for (const [index, one] of nodes.entries()) {
                    for (const other of nodes.slice(index + 1)) {
                        const [[x1, y1], [x2, y2]] = [middle(one.body), middle(other.body)];
                        if (Math.hypot(x2 - x1, y2 - y1) < one.body.width)
                            wrong.push(`${one.name} is on ${other.name}`);
                    }
                }
                if (nodes.slice(1).some(({ name }, index) => !name.startsWith(`node-${index + 2}`)))
                    wrong.push(nodes.map(({ name }) => name).join());
                return wrong.join('; ');
            })()";
            assert_eq!(browser.evaluate(drawn), "", "{nodes} nodes at {width}");
            let fits = "document.documentElement.scrollWidth <= innerWidth";
            assert_eq!(browser.evaluate(fits), true, "{nodes} nodes at {width}");
            // A node that is added changes the looks of no other one.
            let now = browser.evaluate(looks).as_str().unwrap().to_owned();
            let shorter = before.len().min(now.len());
            assert_eq!(now[..shorter], before[..shorter], "{nodes} nodes");
            before = now;
            amend_no_more(&mut browser, &added);
        }
    }
}
