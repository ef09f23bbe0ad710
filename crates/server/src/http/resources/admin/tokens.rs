//! `/v0/admin/tokens`: the tokens that the nodes of a cluster share. `GET` lists them; `POST` gives this
//! node one record, which `kvorum admin token` brings to all nodes.

use crate::http::exchange::{Answer, HttpExchange};
use crate::http::problem::Problem;
use crate::http::query::{ParameterError, pairs, set, unknown};
use crate::http::request::verb::Verb;
use crate::http::response::page;
use api::tokens::{SharedToken, SharedTokens};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::sync::Arc;
use tokens::{KeySet, Need, RequestedKeys};
use tokio::sync::oneshot;

/// Reads the query of a `POST`.
///
/// # Errors
/// The parameter is missing, or no record.
fn record_of(query: Option<&str>) -> Result<SharedToken, ParameterError> {
    let mut record = None;
    for parameter in pairs(query) {
        let (name, value) = parameter?;
        match name.as_slice() {
            b"token" => {
                let read = serde_json::from_slice(&value).map_err(|error| {
                    ParameterError::new("token", format!("has to be a token as JSON: {error}"))
                })?;
                set(&mut record, "token", read)?;
            }
            _ => return Err(unknown(&name)),
        }
    }
    record.ok_or_else(|| ParameterError::new("token", "is missing: give a token as JSON"))
}

/// `GET`, `HEAD` and `POST`.
pub(in crate::http::resources) async fn answer(mut exchange: HttpExchange<'_>) -> Answer {
    let record = match exchange.verb {
        Verb::Post => Some(record_of(exchange.query())?),
        _ => {
            crate::http::query::check_names(exchange.query(), &[])?;
            None
        }
    };
    exchange.authorize(RequestedKeys::NoKey)?;
    if let Some(record) = &record {
        authorize_all(&mut exchange, record)?;
    }
    exchange.check_body_limit()?;
    let tokens = exchange.listener.trust().tokens().map(Arc::clone);
    let Some(tokens) = tokens else {
        return match record {
            None => Ok(page::json(&SharedTokens::default())),
            Some(_) => Err(Problem::token_not_shared(
                "this node asks nobody for a token: start all nodes with --tokens-file first",
            )),
        };
    };
    if let Some(record) = record {
        let (sender, shared) = oneshot::channel();
        let sharing = Arc::clone(&tokens);
        // The disk may hang, and a runtime serves others meanwhile.
        let thread = std::thread::Builder::new().name("tokens".to_owned());
        let spawned = thread.spawn(move || sender.send(sharing.share(record)).is_ok());
        spawned.map_err(|error| Problem::token_not_shared(&error.to_string()))?;
        let shared = shared.await;
        shared
            .unwrap_or_else(|_| Err("the node is stopping".to_owned()))
            .map_err(|problem| Problem::token_not_shared(&problem))?;
    }
    let (from_file, tokens) = tokens.list();
    Ok(page::json(&SharedTokens {
        has_tokens_file: true,
        from_file,
        tokens,
    }))
}

/// Refuses a caller who lacks a right that the token would have: nobody gives others more than they
/// have.
fn authorize_all(exchange: &mut HttpExchange<'_>, record: &SharedToken) -> Result<(), Problem> {
    if record.revoked {
        return Ok(());
    }
    let prefixes = record
        .prefixes_base64
        .iter()
        .map(|prefix| BASE64.decode(prefix));
    let prefixes: Result<Vec<Vec<u8>>, _> = prefixes.collect();
    let prefixes = prefixes.map_err(|error| {
        ParameterError::new(
            "token",
            format!("has prefixes that are not base64: {error}"),
        )
    })?;
    let keys = if prefixes.is_empty() {
        KeySet::all()
    } else {
        KeySet::of_prefixes(&prefixes)
    };
    for (need, is_given) in [(Need::Read, record.read), (Need::Write, record.write)] {
        if is_given {
            exchange.need = need;
            for (start, end) in keys.ranges() {
                exchange.authorize(RequestedKeys::Range(start, end))?;
            }
        }
    }
    if record.metrics {
        exchange.need = Need::Metrics;
        exchange.authorize(RequestedKeys::NoKey)?;
    }
    Ok(())
}
