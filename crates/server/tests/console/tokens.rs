//! The console of a node with a tokens file: it needs a token, and keeps it in the
//! memory of the page only.

use crate::browser::Browser;
use crate::wire::{config, start_with};
use ::tokens::TokenHash;
use serde_json::json;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

/// The question for a token.
const DIALOG: &str = "dialog[open]";

#[test]
fn a_token_is_asked_for_and_forgotten_with_the_page() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.toml");
    let hash = TokenHash::of(b"open-sesame");
    let text =
        format!("[[token]]\nname = \"reader\"\nsha256 = \"{hash}\"\nread = true\nmetrics = true\n");
    #[expect(clippy::disallowed_methods, reason = "a tokens file, not a store")]
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let mut config = config();
    config.trust.tokens_file = Some(file);
    let node = start_with(config);
    let origin = node.url().to_string();

    browser.call("Page.navigate", &json!({"url": format!("{origin}/")}));
    browser.wait_for_text(DIALOG, "needs a token");
    // No field of a request can carry it.
    browser.type_text("\u{441}\u{435}\u{437}\u{430}\u{43c}");
    browser.press("Enter");
    browser.wait_for_text(DIALOG, "is not valid");
    browser.type_text("open-door");
    browser.press("Enter");
    browser.wait_for_text(DIALOG, "does not accept this token");
    browser.type_text("open-sesame");
    browser.press("Enter");
    browser.wait_for("document.querySelector('.served.good') !== null");
    // Whatever waited for the token has it: the charts are drawn.
    browser.wait_for("document.querySelectorAll('.chart').length === 4");
    browser.wait_for("document.querySelector('dialog') === null");
    // A right that the token does not have is a refusal, and no question for another one.
    browser.evaluate("location.hash = '#/keys?key=k&edit=1'");
    browser.wait_for("document.querySelector('#value') !== null");
    browser.evaluate("document.querySelector('form.stack').requestSubmit()");
    browser.wait_for_text(".detail .receipt.bad", "Not stored");
    assert_eq!(
        browser.evaluate("document.querySelector('dialog')"),
        json!(null)
    );

    browser.call("Page.reload", &json!({}));
    browser.wait_for_text(DIALOG, "needs a token");
    let kept = "document.cookie.length + localStorage.length + sessionStorage.length";
    assert_eq!(browser.evaluate(kept), 0);
    browser.assert_calm(&origin);
}
