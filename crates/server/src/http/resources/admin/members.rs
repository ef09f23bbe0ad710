//! `POST /v0/admin/members`: changes the list of members, or says what a change would do. What the
//! list is and how far a change has come is a part of `/v0/cluster`.

use crate::http::exchange::{Answer, HttpExchange};
use crate::http::problem::Problem;
use crate::http::query::{ParameterError, pairs, set, switch_of, unknown};
use crate::http::response::page;
use crate::status;
use cluster::{NodeUrl, Replicas};
use hyper::StatusCode;
use node::{ChangeOrder, ChangeRefusal};
use tokens::RequestedKeys;

/// The most names that one parameter has: those of the largest cluster.
const NAMES_MAX: usize = cluster::NODES_MAX;

/// What is ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MembersParameters {
    order: ChangeOrder,
    /// Whether to say only what it would do.
    dry_run: bool,
    /// Whether disks may become too full.
    full_disks: bool,
}

/// Reads the query.
///
/// # Errors
/// The first parameter that is not valid, or that does not go with the others.
fn parameters(query: Option<&str>) -> Result<MembersParameters, ParameterError> {
    let (mut join, mut leave, mut dead, mut moved, mut url) = (None, None, None, None, None);
    let (mut pair, mut abort, mut force) = (None, None, None);
    let (mut dry_run, mut full_disks) = (None, None);
    for parameter in pairs(query) {
        let (name, value) = parameter?;
        match name.as_slice() {
            b"join" => set(&mut join, "join", names_of("join", &value)?)?,
            b"leave" => set(&mut leave, "leave", names_of("leave", &value)?)?,
            b"dead" => set(&mut dead, "dead", switch_of("dead", &value)?)?,
            b"move" => set(&mut moved, "move", text_of("move", &value)?.to_owned())?,
            b"url" => set(&mut url, "url", url_of(&value)?)?,
            b"pair" => set(&mut pair, "pair", pair_of(&value)?)?,
            b"abort" => set(&mut abort, "abort", switch_of("abort", &value)?)?,
            b"force" => set(&mut force, "force", names_of("force", &value)?)?,
            b"full_disks" => set(
                &mut full_disks,
                "full_disks",
                switch_of("full_disks", &value)?,
            )?,
            b"dry_run" => set(&mut dry_run, "dry_run", switch_of("dry_run", &value)?)?,
            _ => return Err(unknown(&name)),
        }
    }
    let abort = abort.unwrap_or(false);
    let changes_members = join.is_some() || leave.is_some();
    let asked = [
        changes_members,
        moved.is_some(),
        pair.is_some(),
        abort,
        force.is_some(),
    ];
    if asked.into_iter().filter(|is_asked| *is_asked).count() != 1 {
        return Err(ParameterError {
            parameter: String::new(),
            detail: "the query has to ask for one change: `join`, `leave` or both; `move` with \
                     `url`; `pair`; `abort`; or `force`"
                .to_owned(),
        });
    }
    if dead.is_some() && leave.is_none() {
        return Err(ParameterError::new(
            "dead",
            "goes with `leave` only: remove it",
        ));
    }
    if url.is_some() != moved.is_some() {
        return Err(ParameterError::new(
            "url",
            "and `move` go together: give both",
        ));
    }
    let order = if let (Some(name), Some(url)) = (moved, url) {
        ChangeOrder::Move { name, url }
    } else if let Some(pair) = pair {
        ChangeOrder::Pair(pair)
    } else if let Some(left) = force {
        ChangeOrder::Force(left)
    } else if abort {
        ChangeOrder::Abort
    } else {
        ChangeOrder::Members {
            join: join.unwrap_or_default(),
            leave: leave.unwrap_or_default(),
            are_dead: dead.unwrap_or(false),
        }
    };
    Ok(MembersParameters {
        order,
        dry_run: dry_run.unwrap_or(false),
        full_disks: full_disks.unwrap_or(false),
    })
}

fn text_of<'a>(parameter: &str, value: &'a [u8]) -> Result<&'a str, ParameterError> {
    let text = str::from_utf8(value).ok().filter(|text| !text.is_empty());
    text.ok_or_else(|| ParameterError::new(parameter, "has to name a node"))
}

/// Names, separated by commas.
fn names_of(parameter: &str, value: &[u8]) -> Result<Vec<String>, ParameterError> {
    let names: Vec<String> = text_of(parameter, value)?
        .split(',')
        .map(str::to_owned)
        .collect();
    if names.iter().any(String::is_empty) || names.len() > NAMES_MAX {
        let wrong = "has to be names of nodes, with a comma between two";
        return Err(ParameterError::new(parameter, wrong));
    }
    Ok(names)
}

fn url_of(value: &[u8]) -> Result<NodeUrl, ParameterError> {
    let text = text_of("url", value)?;
    text.parse()
        .map_err(|error| ParameterError::new("url", format!("is not the URL of a node: {error}")))
}

/// Two numbers as 2/3.
fn pair_of(value: &[u8]) -> Result<Replicas, ParameterError> {
    let pair = str::from_utf8(value).unwrap_or_default().parse();
    pair.map_err(|error| ParameterError::new("pair", format!("is no pair: {error}")))
}

/// `POST`.
pub(in crate::http::resources) async fn answer(exchange: HttpExchange<'_>) -> Answer {
    let MembersParameters {
        order,
        dry_run,
        full_disks,
    } = parameters(exchange.query())?;
    exchange.authorize(RequestedKeys::NoKey)?;
    exchange.check_body_limit()?;
    let worker = &exchange.listener.worker;
    let changes = worker.node().member_changes();
    let refused = |refusal: ChangeRefusal| Problem::of_member_change(&refusal);
    let mut plan = changes.order(order.clone(), true).await.map_err(refused)?;
    let mut numbers = status::numbers_of(&worker.examine().await);
    status::add_joiners(&mut numbers, &plan.after, &changes.status().waiting);
    if let Some((name, percent)) = status::full_disk(&plan, &numbers)
        && !full_disks
    {
        return Err(Problem::full_disk(&name, percent));
    }
    if !dry_run {
        plan = changes.order(order, false).await.map_err(refused)?;
    }
    let mut page = page::json(&status::plan_of_members(&plan, &numbers));
    if !plan.is_dry_run {
        *page.status_mut() = StatusCode::ACCEPTED;
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_query_asks_for_one_change() {
        let members = |join: &[&str], leave: &[&str], are_dead| ChangeOrder::Members {
            join: names(join),
            leave: names(leave),
            are_dead,
        };
        for (query, order) in [
            ("join=d,e", members(&["d", "e"], &[], false)),
            ("join=d&leave=b&dead=true", members(&["d"], &["b"], true)),
            ("leave=b", members(&[], &["b"], false)),
            (
                "move=b&url=http%3A%2F%2Fb:1",
                ChangeOrder::Move {
                    name: "b".to_owned(),
                    url: "http://b:1".parse().unwrap(),
                },
            ),
            ("pair=3/5", ChangeOrder::Pair(Replicas::new(3, 5).unwrap())),
            ("abort=true", ChangeOrder::Abort),
            ("force=a,b", ChangeOrder::Force(names(&["a", "b"]))),
        ] {
            for dry_run in [false, true] {
                let expected = MembersParameters {
                    order: order.clone(),
                    dry_run,
                    full_disks: dry_run,
                };
                let query = format!("{query}&dry_run={dry_run}&full_disks={dry_run}");
                assert_eq!(parameters(Some(&query)), Ok(expected), "{query}");
            }
        }
    }

    #[test]
    fn a_query_that_is_not_one_change_is_refused() {
        for (query, word) in [
            (None, "one change"),
            (Some("dry_run=true"), "one change"),
            (Some("abort=false"), "one change"),
            (Some("join=d&pair=2/3"), "one change"),
            (Some("force=a&abort=true"), "one change"),
            (Some("join=d&dead=true"), "`leave`"),
            (Some("move=b"), "go together"),
            (Some("join=d&url=http://d:1"), "go together"),
            (Some("move=b&url=b"), "not the URL"),
            (Some("join="), "name a node"),
            (Some("join=d,,e"), "comma"),
            (Some("pair=3"), "2/3"),
            (Some("pair=3/2"), "2/3"),
            (Some("joins=d"), "joins"),
        ] {
            let error = parameters(query).unwrap_err();
            assert!(error.detail.contains(word), "{query:?}: {}", error.detail);
        }
    }
}
