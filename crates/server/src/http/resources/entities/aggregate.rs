//! `POST /v0/aggregate`: counts entities, and sums and compares what they hold, in groups.
//!
//! It reads like a count. What the groups take counts against a quota that all such questions
//! share.

use super::filter::{TooCostly, Turns, entity_of};
use super::question::{self, QUESTION_BYTES_MAX, Question};
use super::{Scope, count, source};
use crate::http::exchange::{Answer, HttpExchange};
use crate::http::problem::Problem;
use crate::http::response::page;
use base::{Quota, Reservation};
use query::{AggregationError, GROUP_BYTES_MAX, Partial, Summary};
use schemars::JsonSchema;
use serde::Serialize;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokens::RequestedKeys;

/// By how many bytes at a time the memory of groups grows.
const GROUPS_STEP_BYTES: usize = 64 << 10;

/// What the entities of a range amount to.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Aggregates")]
pub(crate) struct AggregatesPage {
    /// The number of entities that were looked at: all of the range.
    keys: u64,
    /// The number of those that match the condition.
    matched: u64,
    /// For a question of the whole cluster, how many replicas of each key had to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    ack: Option<u8>,
    /// For a question of the whole cluster, how many replicas each key has.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<u8>,
    /// The groups, ordered by what makes them. Without `by` there is one.
    groups: Vec<AggregatedGroup>,
}

/// Entities with the same values of `by`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AggregatedGroup {
    /// What makes the group: a value for each expression of `by`, null for what does not fit.
    by: Vec<serde_json::Value>,
    /// The number of its entities.
    count: u64,
    /// A result for each of `aggregates`.
    aggregates: Vec<AggregateResult>,
}

/// A sum, or a least or greatest value.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AggregateResult {
    /// `sum`, `min` or `max`.
    operation: String,
    /// The result; null if nothing fitted, or if the sum is too great for a number.
    value: serde_json::Value,
    /// The number of entities whose value fitted.
    counted: u64,
}

impl AggregatesPage {
    fn new(summary: Summary, scope: Scope) -> Self {
        let replicas = match scope {
            Scope::Node => None,
            Scope::Cluster(replicas) => Some(replicas),
        };
        let groups = summary.groups.into_iter().map(|group| AggregatedGroup {
            by: group.by,
            count: group.count,
            aggregates: group
                .aggregates
                .into_iter()
                .map(|aggregate| AggregateResult {
                    operation: aggregate.operation.to_string(),
                    value: aggregate.value,
                    counted: aggregate.counted,
                })
                .collect(),
        });
        Self {
            keys: summary.keys,
            matched: summary.matched,
            ack: replicas.map(|replicas| replicas.ack),
            from: replicas.map(|replicas| replicas.from),
            groups: groups.collect(),
        }
    }
}

/// `POST`. The answer begins when everything is known, so a failure is an error with a status.
pub(in crate::http::resources) async fn answer(exchange: HttpExchange<'_>) -> Answer {
    exchange.authorize(RequestedKeys::SomeKeys)?;
    exchange.check_body_limit()?;
    let listener = exchange.listener;
    let progress = &exchange.channel.progress;
    let upload = exchange
        .body
        .read(QUESTION_BYTES_MAX, listener.uploads(), progress);
    let upload = upload.await?;
    let question = question::read(&upload.bytes, exchange.replica_rules())?;
    drop(upload);
    let parameters = &question.parameters;
    let (start, end) = (&parameters.start, parameters.end.as_deref());
    exchange.authorize(RequestedKeys::Range(start, end))?;
    // It waits like a scan, and holds no permit meanwhile, because it may take long.
    let deadline = listener.deadline_after(listener.clock().monotonic());
    let admitted = listener.admit_scan(deadline).await?;
    let source = source(listener, parameters, deadline).await?;
    drop(exchange.admit(deadline).await?);
    let deadline = listener.deadline_after(listener.clock().monotonic());
    let (page, memory) = aggregate(&exchange, question, source, deadline).await?;
    drop(admitted);
    Ok(page::json_counted(&page, memory.held))
}

async fn aggregate(
    exchange: &HttpExchange<'_>,
    question: Question,
    source: super::Source,
    deadline: Duration,
) -> Result<(AggregatesPage, GroupMemory), Problem> {
    let Question {
        parameters,
        aggregation,
    } = question;
    let scope = parameters.scope;
    let now_unix_ms = exchange.listener.clock().unix_ms();
    let mut partial = Partial::default();
    let mut memory = GroupMemory::new(exchange.listener.groups());
    let mut turns = Turns::default();
    count::each_batch(exchange, parameters, source, deadline, async |entries| {
        let live = entries.iter().filter(|entry| entry.is_live(now_unix_ms));
        for entry in live {
            let added = partial.add(&aggregation, &entity_of(entry, now_unix_ms));
            let steps = added.map_err(|error| problem_of(error, partial.keys()))?;
            memory.cover(partial.bytes(), partial.keys())?;
            if turns.took(steps).await {
                count::check_is_awaited(exchange).await?;
            }
        }
        Ok(ControlFlow::Continue(()))
    })
    .await?;
    let page = AggregatesPage::new(partial.summary(&aggregation), scope);
    Ok((page, memory))
}

/// Why an aggregation ends early, after so many entities.
fn problem_of(error: AggregationError, asked: u64) -> Problem {
    match error {
        AggregationError::OutOfFuel => TooCostly { asked }.into(),
        error => Problem::too_many_groups(&error.to_string(), asked),
    }
}

/// The memory of the groups of one question, until its answer is written.
struct GroupMemory {
    quota: Arc<Quota>,
    held: Option<Reservation>,
}

impl GroupMemory {
    fn new(quota: &Arc<Quota>) -> Self {
        Self {
            quota: Arc::clone(quota),
            held: None,
        }
    }

    /// Covers so many bytes of groups, which so many entities have.
    ///
    /// # Errors
    /// There is less for all questions, or others hold it.
    fn cover(&mut self, bytes: usize, asked: u64) -> Result<(), Problem> {
        let held = self.held.as_ref().map_or(0, Reservation::amount);
        if bytes <= held {
            return Ok(());
        }
        let bytes_max = self.quota.max().min(GROUP_BYTES_MAX);
        if bytes > bytes_max {
            return Err(Problem::too_much_of_groups(bytes_max, asked));
        }
        let wanted = bytes.next_multiple_of(GROUPS_STEP_BYTES).min(bytes_max);
        match &mut self.held {
            Some(held) => held.grow(wanted - held.amount())?,
            none => *none = Some(self.quota.try_reserve(wanted)?),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_take_memory_step_by_step_and_no_more_than_there_is() {
        let quota = Quota::new(3 * GROUPS_STEP_BYTES);
        let mut memory = GroupMemory::new(&quota);
        memory.cover(0, 1).unwrap();
        assert_eq!(quota.used(), 0);
        memory.cover(1, 1).unwrap();
        memory.cover(GROUPS_STEP_BYTES, 1).unwrap();
        assert_eq!(quota.used(), GROUPS_STEP_BYTES);
        memory.cover(GROUPS_STEP_BYTES + 1, 1).unwrap();
        assert_eq!(quota.used(), 2 * GROUPS_STEP_BYTES);
        let mut other = GroupMemory::new(&quota);
        other.cover(1, 1).unwrap();
        let refused = memory.cover(3 * GROUPS_STEP_BYTES, 1).unwrap_err();
        assert_eq!(refused.status().as_u16(), 503, "others hold it");
        let refused = memory.cover(3 * GROUPS_STEP_BYTES + 1, 1).unwrap_err();
        assert_eq!(refused.status().as_u16(), 422, "there is less");
        drop((memory, other));
        assert_eq!(quota.used(), 0);
    }
}
