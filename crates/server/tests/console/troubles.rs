//! What the console says of a node that shares no TLS connection, of a rebuild that stands still,
//! and of disks.

use crate::browser::Browser;
use crate::page::{amend_answers, amend_no_more, text_in_card};
use crate::support::Cluster;
use crate::wire::authority::Authority;
use cluster::{Member, Members, NodeUrl};
use lsm::Disk;
use lsm_testing::MemoryDisk;
use server::{ServerConfig, TlsConfig};
use std::sync::Arc;

/// Has a node speak TLS with a certificate of an authority, and without it with browsers.
fn over_tls(config: &mut ServerConfig, authority: &Authority) {
    let secure = |url: &NodeUrl| -> NodeUrl {
        let url = url.to_string().replace("http://", "https://");
        url.parse().unwrap()
    };
    let members = &config.node.members;
    let listed = members.iter().map(|(_, member)| {
        let url = secure(member.url());
        Member::named(member.name(), url).unwrap()
    });
    let members = Members::new(listed.collect(), &secure(members.own_url()));
    config.node.members = members.unwrap();
    config.tls = Some(TlsConfig {
        files: authority.issue("node", "127.0.0.1"),
        is_optional: true,
    });
}

#[test]
fn the_card_of_a_node_without_a_tls_connection_says_why_and_what_to_do() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let (own, other) = (Authority::new(), Authority::new());
    let cluster = Cluster::start_some(
        2,
        &[0, 1],
        |config| {
            let is_first = config.node.name() == "a";
            over_tls(config, if is_first { &own } else { &other });
        },
        |_| Arc::new(MemoryDisk::new()),
    );
    let origin = cluster.url(0).replace("https://", "http://");
    browser.open(&format!("{origin}/"));
    let says = "a cannot connect to it (TLS: certificate): its certificate is not from an \
                authority that is trusted here. Have one sign it, or trust its authority, too.";
    let now = text_in_card("b", ".card-now");
    browser.wait_for(&format!("{now}.endsWith('{says}')"));
    assert_eq!(
        browser.evaluate(&format!(
            "{}.includes('TLS')",
            text_in_card("a", ".card-now")
        )),
        false,
        "it is said of the other node"
    );
    browser.assert_calm(&origin);
}

/// The status of a node whose rebuild has come to the middle.
const HALF_REBUILT: &str = "status.repair.rebuild = {
    received_keys: 7, received_bytes: 4096, share: 0.5, seconds_left: 90,
};";

/// The same, and it stands still.
const STANDS_STILL: &str = "status.repair.rebuild = {
    received_keys: 7, received_bytes: 4096, share: 0.5, stalled_because: 'its disk has no room',
};";

#[test]
fn a_rebuild_shows_how_far_it_is_and_why_it_stands_still() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start(3);
    let origin = cluster.url(0);
    let because = "because its disk has no room";
    for (rebuild, now, work, bars) in [
        (
            HALF_REBUILT,
            "rebuilds its store: 50%, about 1 min 30 s left".to_owned(),
            " 50%, 7 keys, 4 KiB; about 1 min 30 s left".to_owned(),
            1,
        ),
        (
            STANDS_STILL,
            format!("the rebuild of its store stands still, {because}"),
            format!("7 keys, 4 KiB; it stands still, {because}"),
            0,
        ),
    ] {
        let of_cluster = format!(
            "for (const {{ name, status }} of answer.nodes) if (name === 'b') {{ {rebuild} }}"
        );
        let of_status = format!("const status = answer; {rebuild}");
        let added = [
            amend_answers(&mut browser, "/v0/cluster", &of_cluster),
            amend_answers(&mut browser, "/v0/status", &of_status),
        ];
        browser.open(&format!("{origin}/"));
        let card = text_in_card("b", ".card-now");
        browser.wait_for(&format!("{card}.startsWith('Now: {now}')"));
        browser.wait_for_text(".part-work", &format!("Rebuild{work}"));
        let drawn =
            "document.querySelectorAll('.part-work [aria-label=\"progress of the rebuild\"]')";
        assert_eq!(browser.evaluate(&format!("{drawn}.length")), bars, "{now}");
        for added in &added {
            amend_no_more(&mut browser, added);
        }
    }
    browser.assert_calm(&origin);
}

#[test]
fn the_size_of_a_disk_is_shown_where_it_is_known() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start_on(
        2,
        |_| {},
        |node| {
            let disk = MemoryDisk::new();
            if node == 0 {
                disk.set_capacity(8 << 30);
            }
            Arc::new(disk) as Arc<dyn Disk>
        },
    );
    let origin = cluster.url(0);
    browser.open(&format!("{origin}/"));
    let disk = |node: &str| text_in_card(node, ".disk");
    browser.wait_for(&format!("/[\\d.]+ GiB of 8 GiB free$/.test({})", disk("a")));
    browser.wait_for(&format!("/free space unknown$/.test({})", disk("b")));
    browser.evaluate("location.hash = '#/node'");
    browser.wait_for_text(".part-store", " GiB of 8 GiB free, ");
    browser.assert_calm(&origin);
}
