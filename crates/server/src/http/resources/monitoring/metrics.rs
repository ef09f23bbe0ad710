//! `/metrics`: the metrics of the node, for Prometheus. Outside admission, so that an
//! operator can inspect an overloaded node.

use crate::http::exchange::{Answer, HttpExchange};
use crate::http::request::negotiation::wants_open_metrics;
use crate::http::response::page;
use crate::metrics_page;
use bytes::Bytes;
use hyper::header::{HeaderValue, VARY};
use tokens::RequestedKeys;

/// `GET` and `HEAD`.
pub(in crate::http::resources) async fn answer(exchange: HttpExchange<'_>) -> Answer {
    exchange.authorize(RequestedKeys::NoKey)?;
    exchange.check_body_limit()?;
    let wants_open_metrics = wants_open_metrics(&exchange.head.headers);
    let shared = exchange.listener.shared();
    // A disk may hang, so no runtime asks it.
    let disk_free_bytes = shared.node.disk_free_bytes().await;
    exchange
        .render(|| {
            let families = metrics_page::families(shared, disk_free_bytes);
            let open_metrics = metrics_page::open_metrics_text(families);
            let (content_type, text) = if wants_open_metrics {
                (
                    "application/openmetrics-text; version=1.0.0; charset=utf-8",
                    open_metrics,
                )
            } else {
                (
                    "text/plain; version=0.0.4; charset=utf-8",
                    metrics_page::prometheus_text(&open_metrics),
                )
            };
            let mut page = page::text(content_type, Bytes::from(text));
            page.headers_mut()
                .insert(VARY, HeaderValue::from_static("accept"));
            page
        })
        .await
}
