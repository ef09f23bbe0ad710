//! Counters that clients increment by conditional writes, beside the other requests.
//!
//! The value of a counter is the list of the increments that it has, each a number of its own. An
//! increment reads the list and writes it with its number, if the version is still the one that was
//! read. So whatever fails, a list tells which increments were lost and which happened twice.

use super::{PATIENCE, World};
use crate::dice::Dice;
use crate::host::SentRequest;
use crate::scenario::Counting;
use base::{Kind, Timestamp};
use bytes::Bytes;
use cluster::Replicas;
use node::simulation::ConditionalAnswer;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// How long a client waits between two increments at most, in milliseconds.
const PAUSE_MS_MAX: u64 = 40;

/// How many increments a client tries.
const INCREMENTS_MAX: usize = 80;

/// How long the stores have to settle what is left behind, once all faults are healed.
const SETTLING: Duration = Duration::from_secs(5);

/// What a client knows of an increment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It has happened.
    Applied,
    /// It has not happened and will not.
    NotApplied,
    /// It may have happened.
    Unknown,
}

/// The increments of a world, by number: of which counter each was, and what is known of it.
#[derive(Default)]
pub(super) struct Increments(RefCell<Vec<(u64, Known)>>);

/// A counter as it was read.
struct Counter {
    version: Option<Timestamp>,
    increments: Vec<usize>,
}

/// The key of a counter. It is before all keys of other requests, so that no scan comes across it.
fn key_of_counter(counter: u64) -> Vec<u8> {
    format!("counter-{counter}").into_bytes()
}

fn value_of(increments: &[usize]) -> Bytes {
    let mut text = String::new();
    for increment in increments {
        // Writing to a string does not fail.
        let _written = write!(text, "{increment} ");
    }
    text.into()
}

fn increments_of(value: &[u8]) -> Option<Vec<usize>> {
    let text = std::str::from_utf8(value).ok()?;
    let numbers = text
        .split_ascii_whitespace()
        .map(|number| number.parse().ok());
    numbers.collect()
}

impl World {
    /// Starts the clients that count until `end`.
    pub(super) fn count(self: &Rc<Self>, end: Instant) -> Vec<tokio::task::JoinHandle<()>> {
        let Some(counting) = self.scenario.counting else {
            return Vec::new();
        };
        let dice = Dice::new(counting.seed);
        let clients = (0..counting.clients).map(|_| {
            let (world, dice) = (Rc::clone(self), dice.fork());
            tokio::task::spawn_local(async move { world.run_counting(counting, &dice, end).await })
        });
        clients.collect()
    }

    async fn run_counting(self: &Rc<Self>, counting: Counting, dice: &Dice, end: Instant) {
        for _ in 0..INCREMENTS_MAX {
            if Instant::now() >= end {
                return;
            }
            let counter = dice.below(counting.counters);
            if let Some(before) = self.read_counter(counter, counting.pair, dice).await {
                self.increment(counter, before, counting.pair, dice).await;
            }
            sleep(Duration::from_millis(1 + dice.below(PAUSE_MS_MAX))).await;
        }
    }

    /// Waits for an answer as a client does.
    async fn answer_of<T>(&self, sent: Option<SentRequest<T>>) -> Option<T> {
        let SentRequest { answer, leave } = sent?;
        let answer = timeout(PATIENCE, answer).await;
        if answer.is_err() {
            leave.abort();
        }
        answer.ok()?.ok()
    }

    /// Reads a counter by way of any host; [`None`] if that fails.
    async fn read_counter(&self, counter: u64, pair: Replicas, dice: &Dice) -> Option<Counter> {
        let host = &self.hosts[*dice.pick(&self.members())];
        let found = host.get(key_of_counter(counter), pair);
        let entry = self.answer_of(found).await?.ok()?.entry;
        // Settling writes a tombstone where nothing was, above what a silent replica may have.
        let Some(entry) = entry.filter(|entry| entry.kind() == Kind::Value) else {
            return Some(Counter {
                version: None,
                increments: Vec::new(),
            });
        };
        let increments = increments_of(entry.value_bytes());
        if increments.is_none() {
            self.fail(format!("counter {counter} is garbage: {entry:?}"));
        }
        Some(Counter {
            version: Some(entry.timestamp()),
            increments: increments?,
        })
    }

    /// Increments a counter by way of any host, and notes what comes of it.
    async fn increment(&self, counter: u64, before: Counter, pair: Replicas, dice: &Dice) {
        let number = {
            let mut all = self.increments.0.borrow_mut();
            all.push((counter, Known::Unknown));
            all.len() - 1
        };
        let Counter {
            version,
            mut increments,
        } = before;
        increments.push(number);
        let host_number = *dice.pick(&self.members());
        let value = Some(value_of(&increments));
        self.trace.note(format_args!(
            "incr +{number} of counter {counter} by {host_number}, on {version:?}"
        ));
        let host = &self.hosts[host_number];
        let sent = host.write_if(key_of_counter(counter), value, version, pair);
        if sent.is_none() {
            self.increments.0.borrow_mut()[number].1 = Known::NotApplied;
            return;
        }
        let answer = self.answer_of(sent).await;
        self.trace.note(format_args!("told +{number}: {answer:?}"));
        let known = match answer {
            Some(ConditionalAnswer::Applied(_)) => Known::Applied,
            Some(ConditionalAnswer::NotMatched(_) | ConditionalAnswer::NotApplied(_)) => {
                Known::NotApplied
            }
            Some(ConditionalAnswer::Unknown(_)) | None => Known::Unknown,
        };
        self.increments.0.borrow_mut()[number].1 = known;
    }

    /// Checks at the end that each increment has happened as its client was told, that no store
    /// keeps a promise, and that the counters can still be incremented.
    pub(super) async fn check_counters(&self, dice: &Dice) -> Result<(), String> {
        let Some(counting) = self.scenario.counting else {
            return Ok(());
        };
        let began = Instant::now();
        while let Some((host, kept)) = self.promises_kept() {
            if began.elapsed() > SETTLING {
                return Err(format!("node {host} still keeps {kept} promises"));
            }
            sleep(Duration::from_millis(50)).await;
        }
        for counter in 0..counting.counters {
            let read = self.read_counter(counter, counting.pair, dice).await;
            let Some(found) = read else {
                return Err(format!("counter {counter} cannot be read"));
            };
            self.judge_counter(counter, &found.increments)?;
            let before = self.increments.0.borrow().len();
            self.increment(counter, found, counting.pair, dice).await;
            let known = self.increments.0.borrow()[before].1;
            if known != Known::Applied {
                return Err(format!(
                    "counter {counter} cannot be incremented: {known:?}"
                ));
            }
        }
        Ok(())
    }

    /// How many promises a host keeps, if any does.
    fn promises_kept(&self) -> Option<(usize, usize)> {
        let members = self.members().into_iter();
        let mut kept = members.map(|host| (host, self.hosts[host].promises_kept()));
        kept.find(|(_, kept)| *kept > 0)
    }

    fn judge_counter(&self, counter: u64, found: &[usize]) -> Result<(), String> {
        let mut times: BTreeMap<usize, usize> = BTreeMap::new();
        for increment in found {
            *times.entry(*increment).or_default() += 1;
        }
        for (number, (of, known)) in self.increments.0.borrow().iter().enumerate() {
            if *of != counter {
                continue;
            }
            let count = times.get(&number).copied().unwrap_or(0);
            let is_as_told = match known {
                Known::Applied => count == 1,
                Known::NotApplied => count == 0,
                Known::Unknown => count <= 1,
            };
            if !is_as_told {
                return Err(format!(
                    "increment +{number} of counter {counter} is {known:?}, but the counter is \
                     {found:?}"
                ));
            }
        }
        Ok(())
    }

    /// How many increments were acknowledged.
    pub(super) fn increments_applied(&self) -> usize {
        let all = self.increments.0.borrow();
        all.iter()
            .filter(|(_, known)| *known == Known::Applied)
            .count()
    }
}
