//! A shard of an import: sends one batch after the other, and retries each until all of its lines
//! are stored.
//!
//! A line whose outcome is unknown is sent again, together with each later line of the same batch
//! with the same key, stored or not; otherwise the earlier line would win.

use super::batch::{BatchSender, OperationAnswer};
use super::caller::{ImportError, ImportSettings, LineFailure, Waiting};
use super::input::{Operation, Operations};
use super::tracker::Tracker;
use crate::client::{Client, all_failed, pause};
use crate::error::{Error, Outcome};
use api::Problem;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How long a shard stays away from its own node after a failure there.
const AWAY: Duration = Duration::from_secs(5);

/// What a shard has to do for a section.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) section: u64,
    pub(super) operations: Operations,
}

/// A shard.
pub(super) struct Shard {
    index: usize,
    client: Arc<Client>,
    settings: ImportSettings,
    tracker: Arc<Tracker>,
    sender: BatchSender,
    /// The node that it prefers, so that the shards spread over all nodes.
    home: usize,
    /// The node that it asks until it may go back.
    away: Option<(usize, Instant)>,
}

impl Shard {
    pub(super) fn new(
        index: usize,
        client: Arc<Client>,
        settings: ImportSettings,
        tracker: Arc<Tracker>,
    ) -> Self {
        Self {
            index,
            home: index % client.nodes().len(),
            client,
            settings,
            tracker,
            sender: BatchSender::default(),
            away: None,
        }
    }

    /// Does one part after the other.
    ///
    /// # Errors
    /// [`ImportError`]; the part counts as not done.
    pub(super) async fn run(mut self, mut parts: mpsc::Receiver<Part>) -> Result<(), ImportError> {
        while let Some(part) = parts.recv().await {
            let lines = part.operations.list.len();
            let failures = self.store(part.operations).await?;
            let stored = lines - failures.len();
            self.tracker
                .part_done(part.section, stored as u64, failures);
        }
        Ok(())
    }

    /// Sends operations until each is stored. Returns those that are passed over.
    async fn store(&mut self, operations: Operations) -> Result<Vec<LineFailure>, ImportError> {
        let Operations { body, list } = operations;
        let whole = Bytes::from(body);
        let mut pending: Vec<usize> = (0..list.len()).collect();
        let mut failures = Vec::new();
        let (mut since, mut attempts) = (Instant::now(), 0);
        // What each node has said since a line was last stored.
        let mut said = BTreeMap::new();
        loop {
            let node = self.node();
            let body = if pending.len() == list.len() {
                whole.clone()
            } else {
                body_of(&whole, &list, &pending)
            };
            let to = (node, &self.client.nodes()[node]);
            let limits = self.client.settings().limits;
            let replicas = self.settings.replicas;
            let sent = self.sender.send(to, replicas, body, pending.len(), limits);
            let (answers, result) = sent.await;
            if let Err(error) = &result
                && answers.is_empty()
                && error.outcome() == Outcome::Final
            {
                return Err(ImportError::Refused(error.clone()));
            }
            said.insert(node, Said::of(to.1.url(), &answers, result.err()));
            if said.len() == self.client.nodes().len() && said.values().all(Said::is_lasting) {
                let errors = said.into_values().filter_map(|said| said.error);
                return Err(ImportError::Refused(all_failed(errors.collect())));
            }
            let mut settled = settle(&list, &pending, &answers);
            if let Some(failure) = settled.failures.first()
                && !self.settings.passes_over
            {
                return Err(ImportError::Line(failure.clone()));
            }
            failures.append(&mut settled.failures);
            if settled.again.is_empty() {
                self.tracker.waits(self.index, None);
                return Ok(failures);
            }
            if settled.again.len() < pending.len() {
                (since, attempts) = (Instant::now(), 0);
                said.retain(|of, _| *of == node);
            }
            let waiting = Waiting {
                line: list[settled.again[0]].line,
                more: settled.again.len() - 1,
                waited: since.elapsed(),
                problem: joined(&said),
            };
            if waiting.waited >= self.settings.patience {
                return Err(ImportError::GaveUp(waiting));
            }
            self.tracker.waits(self.index, Some((since, waiting)));
            self.go_to_next(node);
            attempts += 1;
            let nodes = self.client.nodes().len();
            if attempts % nodes == 0 {
                let round = u32::try_from(attempts / nodes - 1).unwrap_or(u32::MAX);
                tokio::time::sleep(pause(round, &[])).await;
            }
            pending = settled.again;
        }
    }

    /// The node to ask: its own, unless that has failed a moment ago.
    fn node(&self) -> usize {
        match self.away {
            Some((node, until)) if Instant::now() < until => node,
            _ => self.home,
        }
    }

    fn go_to_next(&mut self, from: usize) {
        let next = (from + 1) % self.client.nodes().len();
        self.away = Some((next, Instant::now() + AWAY));
    }
}

/// What follows from the answers to a batch.
#[derive(Debug, Default, PartialEq, Eq)]
struct Settled {
    /// What is sent again.
    again: Vec<usize>,
    /// What no node will store.
    failures: Vec<LineFailure>,
}

/// Decides about each operation of a batch, of which the first ones were answered.
fn settle(list: &[Operation], pending: &[usize], answers: &[OperationAnswer]) -> Settled {
    let mut settled = Settled::default();
    let mut keys = BTreeSet::new();
    for (place, index) in pending.iter().enumerate() {
        let operation = list[*index];
        match answers.get(place) {
            Some(answer) if answer.is_success() && !keys.contains(&operation.key_crc32c) => {}
            Some(answer) if !answer.is_success() && !answer.may_pass() => {
                let problem = answer.problem.as_ref();
                let detail = problem.map(Problem::detail_of_line);
                settled.failures.push(LineFailure {
                    line: operation.line,
                    problem: detail.unwrap_or_else(|| format!("answered with {}", answer.status)),
                });
            }
            _ => {
                keys.insert(operation.key_crc32c);
                settled.again.push(*index);
            }
        }
    }
    settled
}

/// The lines of some operations.
fn body_of(whole: &[u8], list: &[Operation], pending: &[usize]) -> Bytes {
    let mut body = Vec::new();
    for index in pending {
        let begin = index
            .checked_sub(1)
            .map_or(0, |before| list[before].body_end);
        body.extend_from_slice(&whole[begin..list[*index].body_end]);
    }
    Bytes::from(body)
}

/// What a node says about operations that are not stored.
struct Said {
    problem: String,
    error: Option<Error>,
}

impl Said {
    fn of(url: &str, answers: &[OperationAnswer], error: Option<Error>) -> Self {
        let failed = || answers.iter().find(|answer| !answer.is_success());
        let problem = match &error {
            // It names the node.
            Some(error) => error.to_string(),
            None => match failed().and_then(|answer| answer.problem.as_ref()) {
                Some(problem) if problem.replicas.is_empty() => {
                    format!("{url} answers: {}", problem.detail)
                }
                Some(problem) => {
                    format!(
                        "{url} answers: {} ({})",
                        problem.detail,
                        problem.receipt(url)
                    )
                }
                None => format!("{url} does not say why"),
            },
        };
        Self { problem, error }
    }

    /// Whether the next attempt at the node fails in the same way.
    fn is_lasting(&self) -> bool {
        self.error.as_ref().is_some_and(Error::is_lasting)
    }
}

/// What the nodes say, each once.
fn joined(said: &BTreeMap<usize, Said>) -> String {
    let problems: Vec<&str> = said.values().map(|said| &*said.problem).collect();
    problems.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(line: u64, key: u32) -> Operation {
        Operation {
            line,
            key_crc32c: key,
            body_end: 2 * usize::try_from(line).unwrap(),
        }
    }

    #[test]
    fn what_is_sent_again_keeps_the_order_of_lines_with_one_key() {
        // The keys of lines 1 to 5.
        let list: Vec<Operation> = [7, 8, 7, 9, 8]
            .into_iter()
            .zip(1..)
            .map(|(key, line)| operation(line, key))
            .collect();
        let all = [0, 1, 2, 3, 4];
        for (statuses, again, failed) in [
            (&[201, 201, 201, 201, 201][..], &[][..], &[][..]),
            // The first line is sent again, so the third one has to follow it.
            (&[504, 201, 201, 201, 201], &[0, 2], &[]),
            (&[201, 201, 504, 201, 201], &[2], &[]),
            (&[201, 503], &[1, 2, 3, 4], &[]),
            (&[], &[0, 1, 2, 3, 4], &[]),
            (&[201, 413, 201, 201, 201], &[], &[2]),
            // A malformed line ends the answers.
            (&[201, 400], &[2, 3, 4], &[2]),
            (&[504, 201, 413, 201, 201], &[0], &[3]),
        ] {
            let answers: Vec<OperationAnswer> = statuses
                .iter()
                .map(|status| OperationAnswer {
                    status: *status,
                    problem: None,
                })
                .collect();
            let settled = settle(&list, &all, &answers);
            assert_eq!(settled.again, again, "{statuses:?}");
            let lines: Vec<u64> = settled
                .failures
                .iter()
                .map(|failure| failure.line)
                .collect();
            assert_eq!(lines, failed, "{statuses:?}");
        }
    }

    #[test]
    fn a_body_holds_exactly_the_lines_that_are_pending() {
        let list = [operation(1, 1), operation(2, 2), operation(3, 3)];
        let body = |pending: &[usize]| body_of(b"a\nb\nc\n", &list, pending);
        assert_eq!(body(&[0, 1, 2]), "a\nb\nc\n");
        assert_eq!(body(&[0, 2]), "a\nc\n");
        assert_eq!(body(&[1]), "b\n");
    }

    #[test]
    fn a_batch_that_is_not_stored_says_what_each_node_answers() {
        let answer = |status, detail: &str| OperationAnswer {
            status,
            problem: Some(Problem {
                detail: detail.to_owned(),
                ..Problem::default()
            }),
        };
        let cut = Error::Cut {
            node: "http://c".to_owned(),
        };
        let answers = [answer(201, ""), answer(503, "busy")];
        let said = BTreeMap::from([
            (1, Said::of("http://b", &[answer(507, "full")], None)),
            (0, Said::of("http://a", &answers, None)),
            (2, Said::of("http://c", &[], Some(cut))),
        ]);
        let line = joined(&said);
        let expected = "http://a answers: busy; http://b answers: full; http://c closed the";
        assert!(line.starts_with(expected), "{line}");
    }
}
