//! Every page as axe-core judges it. `checks/accessibility` gets axe-core and runs this;
//! without it the test says so in a line, and passes.

use crate::browser::{self, Browser};
use crate::support::Cluster;
use serde_json::json;

#[test]
fn axe_finds_nothing_serious() {
    let Some(axe) = browser::axe() else {
        return;
    };
    let Some(mut browser) = Browser::start() else {
        return;
    };
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
            let found = browser.judge(&axe);
            assert_eq!(found, json!([]), "{page} in {scheme}");
        }
    }
}
