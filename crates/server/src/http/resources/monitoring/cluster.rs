//! `/v0/cluster`: how each node of the cluster is, as it says itself, and what an operator has to
//! do. Outside admission, so that an operator can inspect an overloaded cluster. The other nodes
//! are asked only when this is, and once a second at most.

use crate::http::exchange::{Answer, HttpExchange};
use crate::http::response::page;
use crate::status;
use tokens::{Need, RequestedKeys};

/// `GET` and `HEAD`.
pub(in crate::http::resources) async fn answer(exchange: HttpExchange<'_>) -> Answer {
    exchange.authorize(RequestedKeys::NoKey)?;
    exchange.check_body_limit()?;
    let listener = exchange.listener;
    let may_see_numbers = exchange.caller.may(Need::Metrics, RequestedKeys::NoKey);
    let layout = listener.worker.layout();
    let members = layout.members();
    let nodes = listener.worker.examine().await;
    let changes = listener.worker.node().member_changes().status();
    let render = || {
        let mut cluster = status::cluster(members, &nodes, &changes);
        if !may_see_numbers {
            for node in &mut cluster.nodes {
                node.report = None;
                node.recent = None;
            }
        }
        page::json(&cluster)
    };
    exchange.render(render).await
}
