//! The operations that serve the console.

use super::headers::{ASSET_TAG, Header, POLICY, VARY};
use super::operation::{Operation, Success, bytes};
use super::parameters;
use crate::http::verb::Verb;
use api::problem_type as catalogue;
use console::Asset;
use serde_json::json;

pub(super) fn operations() -> Vec<Operation> {
    Asset::ALL.map(operation).to_vec()
}

fn operation(asset: Asset) -> Operation {
    let (id, summary) = match asset {
        Asset::Page => ("getConsole", "Open the console in a browser"),
        Asset::Script => ("getConsoleScript", "Load the console's module"),
        Asset::Style => ("getConsoleStyle", "Load the console's style sheet"),
        Asset::Icon => ("getConsoleIcon", "Load the console's icon"),
        Asset::Handbook => ("getHandbook", "Read the operator's handbook"),
    };
    let mut headers = vec![Header::always(&ASSET_TAG), Header::always(&POLICY)];
    let mut problems = Vec::new();
    let mut text = "";
    if asset == Asset::Page {
        headers.push(Header::always(&VARY));
        problems.push(&catalogue::UNKNOWN_PATH);
        text = "It is there only if `Accept` names `text/html`; for all others the path is \
                unknown.";
    }
    let success = |status, text, content| Success {
        status,
        text,
        headers: headers.clone(),
        content,
    };
    let content = bytes("The file.");
    Operation {
        path: asset.path(),
        verb: Verb::Get,
        id,
        tag: "console",
        summary,
        text,
        parameters: vec![parameters::header(
            "If-None-Match",
            &json!({"type": "string"}),
            "The answer is `304` if the file has one of these `ETag`s.",
        )],
        body: None,
        answers: vec![
            success(200, "The file.", vec![(asset.media_type(), content)]),
            success(304, "The file is one of those named.", Vec::new()),
        ],
        problems,
    }
}
