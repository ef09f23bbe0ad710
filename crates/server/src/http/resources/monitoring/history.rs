//! `/v0/history`: metrics of this node's last hour, for the console and for people without
//! Prometheus. Outside admission, so that an operator can inspect an overloaded node.

use crate::http::exchange::{Answer, HttpExchange};
use crate::http::query::{ParameterError, number_of, pairs, set, unknown};
use crate::http::response::page;
use crate::metrics::SAMPLES_MAX;
use tokens::RequestedKeys;

/// Reads the query: how many samples to tell.
///
/// # Errors
/// The first parameter that is not valid.
fn limit(query: Option<&str>) -> Result<usize, ParameterError> {
    let mut limit = None;
    for parameter in pairs(query) {
        let (name, value) = parameter?;
        match name.as_slice() {
            b"limit" => set(&mut limit, "limit", limit_of(&value)?)?,
            _ => return Err(unknown(&name)),
        }
    }
    Ok(limit.unwrap_or(SAMPLES_MAX))
}

fn limit_of(value: &[u8]) -> Result<usize, ParameterError> {
    match usize::try_from(number_of("limit", value)?) {
        Ok(number @ 1..=SAMPLES_MAX) => Ok(number),
        _ => Err(ParameterError::new(
            "limit",
            format_args!("is out of range: give 1 to {SAMPLES_MAX}"),
        )),
    }
}

/// `GET` and `HEAD`.
pub(in crate::http::resources) async fn answer(exchange: HttpExchange<'_>) -> Answer {
    let limit = limit(exchange.query())?;
    exchange.authorize(RequestedKeys::NoKey)?;
    exchange.check_body_limit()?;
    let listener = exchange.listener;
    let history = &listener.shared().history;
    let render = || page::json(&history.told(limit, listener.clock()));
    exchange.render(render).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_limited() {
        assert_eq!(limit(None), Ok(SAMPLES_MAX));
        assert_eq!(limit(Some("limit=1")), Ok(1));
        assert_eq!(limit(Some("limit=360")), Ok(360));
        for query in [
            "limit=0",
            "limit=361",
            "limit=",
            "limit=-1",
            "limit=1&limit=1",
            "id=a",
        ] {
            assert!(limit(Some(query)).is_err(), "{query}");
        }
    }
}
