//! Forwards a request to a node, and the node's answer back, both while they arrive.

use super::answer::{self, Answer};
use super::body::ConsoleBody;
use super::forwarding::{Reach, ReachedNode};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, IF_NONE_MATCH, TE,
};
use hyper::{Request, StatusCode, Uri};

/// The fields that are passed on. The others are between the browser and the console.
const PASSED_FIELDS: [HeaderName; 5] = [ACCEPT, AUTHORIZATION, CONTENT_TYPE, IF_NONE_MATCH, TE];

/// The paths that a node answers for its readers.
const PASSED_PATHS: [&str; 4] = ["/v0/", "/metrics", "/debug/", "/health/"];

/// Passes a request on, to this path of a node, and answers what the node does. An answer that
/// breaks off closes the browser's connection, as the node's was.
pub(super) async fn pass_on(
    request: Request<Incoming>,
    path: &str,
    reach: &Reach,
    node: &ReachedNode,
) -> Answer {
    if !PASSED_PATHS.iter().any(|known| path.starts_with(known)) {
        return answer::nothing();
    }
    let target = match request.uri().query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let Ok(target) = target.parse() else {
        return answer::nothing();
    };
    match ask(request, target, reach, node).await {
        Ok(answer) => answer,
        Err(error) => {
            let detail = format!("{} does not answer: {error}", node.name);
            answer::problem(StatusCode::BAD_GATEWAY, &detail)
        }
    }
}

async fn ask(
    request: Request<Incoming>,
    target: Uri,
    reach: &Reach,
    node: &ReachedNode,
) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
    let (mut sender, driver) = reach.connect(node).await?;
    let (head, body) = request.into_parts();
    let body = ConsoleBody::Passed {
        body,
        _driver: None,
    };
    let mut passed = reach.request(node, head.method, target, body)?;
    for name in PASSED_FIELDS {
        if let Some(value) = head.headers.get(&name) {
            passed.headers_mut().insert(name, value.clone());
        }
    }
    passed
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    let (mut head, body) = sender.send_request(passed).await?.into_parts();
    // That is between the node and the console.
    head.headers.remove(CONNECTION);
    let body = ConsoleBody::Passed {
        body,
        _driver: Some(driver),
    };
    Ok(Answer::from_parts(head, body))
}
