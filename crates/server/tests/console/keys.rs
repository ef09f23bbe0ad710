//! Keys in the console: written, read, listed, deleted, and where they are.

use crate::browser::Browser;
use crate::support::{Cluster, until};

/// The receipt on the page.
const RECEIPT: &str = ".detail .receipt";

#[test]
fn a_key_is_put_shown_listed_and_deleted_by_keyboard() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start(3);
    let origin = cluster.url(0);
    browser.open(&format!("{origin}/#/keys?new=1"));
    browser.wait_for("document.activeElement.id === 'new-key'");
    browser.type_text("user/1");
    browser.press("Enter");
    browser.wait_for("document.querySelector('#value') !== null");
    browser.evaluate("document.querySelector('#value').focus()");
    browser.type_text(r#"{"n":12345678901234567890}"#);
    browser.press("Tab");
    browser.type_text("600");
    browser.press("Enter");
    browser.wait_for_text(RECEIPT, "of 3 replicas had stored it");
    // Long numbers stay as they are.
    browser.wait_for_text(".value pre", r#""n": 12345678901234567890"#);
    browser.wait_for_text(".value .expires", "expires in 9 min");
    browser.wait_for("document.querySelectorAll('.where tbody tr').length === 3");
    browser.wait_for_text(".keys .group", "user/");
    let stored = cluster.client(1).get("/v0/entity?id=user%2F1&ack=3&from=3");
    assert_eq!(stored.text(), r#"{"n":12345678901234567890}"#);

    browser.evaluate("document.querySelector('.danger').focus()");
    browser.press("Enter");
    browser.press("Enter");
    browser.wait_for_text(RECEIPT, "Deleted");
    browser.wait_for_text(".value", "was deleted");
    assert_eq!(cluster.client(1).get("/v0/entity?id=user%2F1").status, 404);
    browser.assert_calm(&origin);
}

#[test]
fn what_is_stored_is_text_and_never_markup() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start(3);
    let origin = cluster.url(0);
    let evil = "<img src=/v0/status onerror=document.title='owned'><script>1</script>";
    let id = evil
        .replace('<', "%3C")
        .replace('>', "%3E")
        .replace('=', "%3D")
        .replace(' ', "%20");
    let mut client = cluster.client(0);
    let put = client.put(&format!("/v0/entity?id={id}"), evil.as_bytes());
    assert_eq!(put.status, 201);
    assert_eq!(client.put("/v0/entity?id=%FF%00", b"\x00\xff").status, 201);
    browser.open(&format!("{origin}/#/keys?flat=1"));
    browser.wait_for("document.querySelectorAll('.keys li').length === 2");
    browser.wait_for_text(".keys", evil);
    browser.click(".keys a");
    browser.wait_for_text(".value pre", evil);
    assert_eq!(
        browser.evaluate("document.querySelectorAll('main img, main script').length"),
        0
    );
    browser.click(".keys li:nth-child(2) a");
    browser.wait_for_text("h2.key-name", r"\xFF\x00");
    browser.wait_for_text(".value pre", "00000000  00 FF");
    browser.assert_calm(&origin);
}

#[test]
fn a_value_that_is_not_touched_stays_as_it_is_to_the_last_byte() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start(3);
    let origin = cluster.url(0);
    let mut client = cluster.client(0);
    for (id, value) in [("ends", b"a\r\nb".as_slice()), ("bytes", b"\x00\xff")] {
        let entity = format!("/v0/entity?id={id}");
        assert_eq!(client.put(&entity, value).status, 201);
        browser.open(&format!("{origin}/#/keys?key={id}&edit=1"));
        browser.wait_for_text("h2.key-name", id);
        browser.wait_for("document.querySelector('.value pre') !== null");
        browser.evaluate("document.querySelector('#ttl').focus()");
        browser.type_text("600");
        browser.evaluate("document.querySelector('form.stack').requestSubmit()");
        browser.wait_for_text(RECEIPT, "of 3 replicas had stored it");
        let stored = client.get(&entity);
        assert!(stored.header("kvorum-expires").is_some(), "{id}");
        assert_eq!(stored.body, value, "{id}");
    }
    browser.assert_calm(&origin);
}

#[test]
fn a_link_names_a_key_and_no_other_parameters() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start(3);
    let origin = cluster.url(0);
    let named = "k%26ack%3D1%26from%3D1%26ttl%3D1";
    browser.open(&format!("{origin}/#/keys?key={named}&edit=1"));
    browser.wait_for_text("h2.key-name", "k&ack=1&from=1&ttl=1");
    browser.evaluate("document.querySelector('#value').focus()");
    browser.type_text("value");
    browser.evaluate("document.querySelector('form.stack').requestSubmit()");
    browser.wait_for_text(RECEIPT, "of 3 replicas had stored it");
    let mut client = cluster.client(1);
    assert_eq!(client.get("/v0/entity?id=k").status, 404);
    let stored = client.get(&format!("/v0/entity?id={named}"));
    assert_eq!((stored.status, stored.text()), (200, "value"));
    assert_eq!(stored.header("kvorum-expires"), None);
    browser.assert_calm(&origin);
}

#[test]
fn a_failed_put_says_what_each_replica_did() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let mut cluster = Cluster::start(3);
    let origin = cluster.url(0);
    cluster.stop_node(1);
    browser.open(&format!("{origin}/#/keys?key=k&edit=1"));
    browser.wait_for("document.querySelector('#ack') !== null");
    browser.choose("#ack", "3");
    browser.wait_for_text(".pairs .hint", "fails as soon as one of them is silent");
    browser.evaluate("document.querySelector('#value').focus()");
    browser.type_text("value");
    browser.evaluate("document.querySelector('form.stack').requestSubmit()");
    browser.wait_for_text(RECEIPT, "Not acknowledged; 2 copies hold it");
    browser.wait_for_text(RECEIPT, "b refused: it cannot be reached");
    // So it is with a deletion.
    browser.evaluate("document.querySelector('.danger').focus()");
    browser.press("Enter");
    browser.press("Enter");
    browser.wait_for_text(RECEIPT, "Not acknowledged; 2 copies hold the deletion");
    browser.evaluate("document.querySelector('#value').focus()");
    browser.type_text("value");
    // With 2 of 3 it goes through, and the node that is down has nothing of it.
    browser.choose("#ack", "2");
    browser.evaluate("document.querySelector('form.stack').requestSubmit()");
    browser.wait_for_text(".detail .receipt.good", "2 of 3 replicas had stored it");
    browser.wait_for_text(".where", "refused");
    cluster.start_node(1);
    until("the hint has arrived", || cluster.holders("k").len() == 3);
    browser.click("[data-focus=again]");
    browser.wait_for("document.querySelectorAll('.where .state.good').length === 3");
    browser.assert_calm(&origin);
}

#[test]
fn keys_are_listed_one_level_at_a_time_and_the_filter_stays() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start(3);
    let origin = cluster.url(0);
    let mut client = cluster.client(0);
    // One group has more keys than a list shows.
    let many = (0..130).map(|number| format!("a%2Fx%2F{number:03}"));
    let all = many.chain(["a%2Fy", "b", "c%2F1"].map(str::to_owned));
    for id in all {
        let entity = format!("/v0/entity?id={id}");
        assert_eq!(client.put(&entity, b"v").status, 201);
    }
    let lines = "[...document.querySelectorAll('.keys li')].map((line) => line.textContent).join()";
    browser.open(&format!("{origin}/#/keys"));
    browser.wait_for(&format!("{lines} === 'a/,b,c/'"));
    browser.click(".keys .group a");
    browser.wait_for(&format!("{lines} === 'a/x/,a/y'"));
    // The focus goes to what opens: the list, then the key.
    browser.wait_for("document.activeElement.textContent === 'a/x/'");
    browser.click(".keys li:nth-child(2) a");
    browser.wait_for("document.activeElement.matches('h2.key-name')");
    browser.wait_for_text(".value pre", "v");
    assert_eq!(
        browser.evaluate("document.querySelector('#prefix').value"),
        "a/"
    );
    // Another page, and back.
    browser.click("nav a[data-page=cluster]");
    browser.wait_for("document.querySelector('.card') !== null");
    browser.click("nav a[data-page=keys]");
    browser.wait_for(&format!("{lines} === 'a/x/,a/y'"));
    // Of all keys in one list there are more than it shows.
    browser.click(".check input");
    browser.wait_for("document.querySelectorAll('.keys li').length === 100");
    browser.click(".browser > button");
    browser.wait_for("document.querySelectorAll('.keys li').length === 131");
    browser.wait_for("document.activeElement.textContent === 'a/x/100'");
    browser.click(".place a");
    browser.wait_for(&format!(
        "{lines}.endsWith('b,c/1') || {lines}.includes('a/x/000')"
    ));
    browser.assert_calm(&origin);
}

#[test]
fn an_edit_does_not_replace_what_somebody_else_has_written_meanwhile() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start(3);
    let origin = cluster.url(0);
    let mut client = cluster.client(1);
    let entity = "/v0/entity?id=shared";
    assert_eq!(client.put(entity, b"first").status, 201);
    browser.open(&format!("{origin}/#/keys?key=shared&edit=1"));
    browser.wait_for("document.querySelector('#value').value === 'first'");
    let edit = |browser: &mut Browser, text: &str| {
        browser.evaluate(&format!(
            "document.querySelector('#value').value = '{text}'"
        ));
        browser.evaluate("document.querySelector('form.stack').requestSubmit()");
    };
    // Twice in a row: the second edit begins with the tag of the first.
    for text in ["second", "third"] {
        edit(&mut browser, text);
        browser.wait_for_text(".value pre", text);
        assert_eq!(client.get(entity).text(), text);
    }
    assert_eq!(client.put(entity, b"theirs").status, 201);
    edit(&mut browser, "mine");
    browser.wait_for_text(RECEIPT, "Changed meanwhile");
    assert_eq!(client.get(entity).text(), "theirs");
    browser.click(".receipt button:nth-child(1)");
    browser.wait_for("document.querySelector('#value').value === 'theirs'");
    assert_eq!(client.put(entity, b"theirs again").status, 201);
    edit(&mut browser, "mine");
    browser.wait_for_text(RECEIPT, "Changed meanwhile");
    browser.click(".receipt button:nth-child(2)");
    browser.wait_for_text(RECEIPT, "of 3 replicas had stored it");
    assert_eq!(client.get(entity).text(), "mine");
    browser.assert_calm(&origin);
}

#[test]
fn keys_are_listed_by_a_condition_and_a_wrong_one_shows_its_place() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let cluster = Cluster::start(3);
    let origin = cluster.url(0);
    let mut client = cluster.client(0);
    for (id, total) in [("a%2F1", 50), ("a%2F2", 150), ("b%2F1", 250)] {
        let value = format!(r#"{{"total":{total}}}"#);
        let put = client.put(&format!("/v0/entity?id={id}"), value.as_bytes());
        assert_eq!(put.status, 201);
    }
    browser.open(&format!("{origin}/#/keys"));
    browser.wait_for("document.querySelectorAll('.keys .group').length === 2");
    browser.evaluate("document.querySelector('#filter').focus()");
    browser.type_text("value.total > 100");
    browser.press("Enter");
    browser.wait_for_text(".browser .note", "2 keys.");
    browser.wait_for_text(".keys", "b/1");
    assert_eq!(
        browser.evaluate("document.querySelectorAll('.keys .group').length"),
        0
    );
    // A key that is opened leads back to what was listed.
    browser.click(".keys a");
    browser.wait_for_text("h2.key-name", "a/2");
    browser.wait_for("document.querySelector('.back a').hash.includes('where=')");

    browser.open(&format!("{origin}/#/keys?where=value.total+%3E"));
    browser.wait_for_text(".browser .note pre", "value.total >\n             ^");
    browser.wait_for("document.querySelectorAll('.keys li').length === 0");
    browser.open(&format!("{origin}/#/keys?where=false"));
    browser.wait_for_text(".browser .note", "No key matches.");
}
