//! What the console says of a change of the members: of how far it is, and of where a key is.

use crate::browser::{Browser, PAGE_WIDTHS};
use crate::page::amend_answers;
use crate::support::Cluster;
use serde_json::json;

/// A list in which `c` joins and has the data of `a`, while `b` has reported nothing.
const COPYING: &str = "
    const member = (name, lists, of) => ({
        name, url: `http://${name}:1`, lists, dead: false, up: true, reported: 3, has_data_of: of,
    });
    answer.members = {
        cluster_id: 'ab', epoch: 3, phase: 'copying', default_pair: '2/2', removed: false,
        members: [member('a', 'both', []), member('b', 'both', []), member('c', 'new', ['a'])],
        missing_reports: ['b'],
        missing_facts: [{node: 'c', data_of: 'b'}],
        waiting: [{name: 'd', url: 'http://d:1', heard_seconds_ago: 1, clock_ahead_ms: 0}],
    };
    for (const node of answer.nodes.filter(({name, status}) => name === 'c' && status))
        node.status.repair.rebuild =
            {received_bytes: 1 << 30, received_keys: 7, share: 0.62, seconds_left: 190};
";

#[test]
fn the_cluster_page_says_how_far_a_change_is_and_what_it_waits_for() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start(3);
    let origin = cluster.url(0);
    amend_answers(&mut browser, "/v0/cluster", COPYING);
    for (width, scheme) in PAGE_WIDTHS {
        browser.resize(width, 800);
        browser.prefer(scheme);
        browser.open(&format!("{origin}/#/cluster"));
        browser.wait_for_text(".part-change h2", "c joins: copying");
        browser.wait_for_text(".gains", "62%, 1 GiB received, about 3 min 10 s left");
        browser.wait_for_text(".waits", "for a report of b, and until c has the data of b");
        browser.wait_for_text(".part-change", "kvorum admin members join d");
        browser.wait_for_text(".map", "joins");
        let fits = "document.documentElement.scrollWidth <= innerWidth";
        assert_eq!(browser.evaluate(fits), true, "at {width}");
    }
    browser.click(".part-change a");
    browser.wait_for("document.activeElement.id === 'a-change-of-the-members-does-not-end'");
    browser.assert_calm(&origin);
}

#[test]
fn the_keys_page_has_both_places_of_a_key_while_the_members_change() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start(3);
    let origin = cluster.url(0);
    assert_eq!(cluster.client(0).put("/v0/entity?id=k", b"v").status, 201);
    let places = "
        const [one, two, three] = answer.replicas;
        Object.assign(one, {place_before: 1, place_after: 2});
        Object.assign(two, {place_before: 2});
        Object.assign(three, {place_after: 1});
    ";
    browser.open(&format!("{origin}/#/keys?key=k"));
    browser.wait_for("document.querySelectorAll('.where tbody tr').length === 3");
    let shown = "[...document.querySelectorAll('.where tbody tr')]\
                 .map((row) => row.cells[1].textContent)";
    assert_eq!(browser.evaluate(shown), json!(["1", "2", "3"]));
    amend_answers(&mut browser, "/v0/replicas", places);
    browser.open(&format!("{origin}/"));
    browser.open(&format!("{origin}/#/keys?key=k"));
    browser.wait_for_text(".where", "a place before the change and one after it");
    assert_eq!(browser.evaluate(shown), json!(["1 → 2", "2 → –", "– → 1"]));
    browser.assert_calm(&origin);
}
