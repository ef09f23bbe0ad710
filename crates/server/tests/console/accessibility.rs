//! Every page as axe-core judges it. `checks/accessibility` gets axe-core and runs this;
//! without it the test says so in a line, and passes.

use crate::browser::Browser;
use crate::support::Cluster;
use serde_json::{Value, json};

/// The variable that names the file of axe-core.
const AXE: &str = "KVORUM_AXE";

#[test]
fn axe_finds_nothing_serious() {
    let Some(file) = std::env::var_os(AXE) else {
        eprintln!("{AXE} names no axe-core: run checks/accessibility");
        return;
    };
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let axe = std::fs::read_to_string(file).unwrap();
    let mut cluster = Cluster::start(3);
    let origin = cluster.url(0);
    let put = cluster
        .client(0)
        .put("/v0/entity?id=k&ttl=900", b"{\"a\":1}");
    assert_eq!(put.status, 201);
    cluster.stop_node(2);
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        for page in [
            "cluster",
            "keys",
            "keys?key=k&edit=1",
            "keys?new=1",
            "node",
            "runbooks",
        ] {
            browser.open(&format!("{origin}/#/{page}"));
            browser.wait_for("document.querySelectorAll('main *').length > 8");
            // The protocol may run what the page's policy forbids the page.
            browser.evaluate(&format!("{axe}; 0"));
            browser.evaluate("axe.run().then((found) => (window.found = found)); 0");
            browser.wait_for("window.found !== undefined");
            let found = browser.evaluate(
                "found.violations.filter((rule) => ['serious', 'critical'].includes(rule.impact))\
                 .map((rule) => [rule.id, rule.nodes.map((node) => node.html)])",
            );
            assert_eq!(found, json!([] as [Value; 0]), "{page} in {scheme}");
        }
    }
}
