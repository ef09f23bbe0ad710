//! What the tests of the page of the cluster share.

use crate::browser::Browser;
use serde_json::{Value, json};

/// Has pages that are opened from now on get each answer of a path as `amend`, a statement of
/// JavaScript, leaves the object `answer`. Returns what [`amend_no_more`] takes.
pub(crate) fn amend_answers(browser: &mut Browser, path: &str, amend: &str) -> Value {
    let source = format!(
        "{{
            const real = globalThis.fetch;
            globalThis.fetch = async (path, options) => {{
                const reply = await real(path, options);
                if (!String(path).startsWith({path})) return reply;
                const answer = await reply.json();
                {amend}
                return new Response(JSON.stringify(answer), reply);
            }};
        }}",
        path = json!(path)
    );
    let method = "Page.addScriptToEvaluateOnNewDocument";
    browser.call(method, &json!({"source": source}))
}

/// Ends what [`amend_answers`] has begun.
pub(crate) fn amend_no_more(browser: &mut Browser, added: &Value) {
    let identifier = json!({"identifier": added["identifier"]});
    browser.call("Page.removeScriptToEvaluateOnNewDocument", &identifier);
}

/// The expression for the text of a part of the card of a node.
pub(crate) fn text_in_card(node: &str, part: &str) -> String {
    format!(
        "[...document.querySelectorAll('.card')]\
         .find((card) => card.querySelector('h3').textContent === {})\
         ?.querySelector({})?.textContent",
        json!(node),
        json!(part)
    )
}
