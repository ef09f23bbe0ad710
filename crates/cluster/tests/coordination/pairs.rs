//! Which pairs of `ack` and `from` see each other: the table in `docs/reference/api.md`, each row.
//!
//! `old` lies on three replicas when `new` is written with the pair of a row. `new` has reached as
//! few replicas as acknowledge it, all of its own, or a repair has dropped the non-owned copies of
//! `old` as well. Then a read asks the replicas in any order.

use crate::message::{Message, Request};
use crate::script;
use crate::world::{Answer, ClientRequest, World};
use cluster::{ReplicaIndex, Replicas};
use std::collections::BTreeSet;

const DOCUMENT: &str = include_str!("../../../../docs/reference/api.md");
const HEADING: &str = "| written with | is seen by | may be missed by |";

const NODES: u8 = 3;
/// All pairs of a cluster of three nodes.
const PAIRS: [&str; 6] = ["1/1", "1/2", "2/2", "1/3", "2/3", "3/3"];

/// A row of the table.
struct Row {
    written: &'static str,
    seen_by: BTreeSet<&'static str>,
    missed_by: BTreeSet<&'static str>,
}

/// How far `new` has come.
#[derive(Clone, Copy, Debug)]
enum Spread {
    /// Only where it was acknowledged.
    Acknowledged,
    /// To all replicas of its own, by hints, read repairs or a repair.
    Repaired,
    /// The same, and a compaction has dropped the non-owned copies of `old`.
    Collected,
}

fn rows() -> Vec<Row> {
    let lines = DOCUMENT.lines().map(str::trim);
    let table = lines.skip_while(|line| *line != HEADING).skip(2);
    let rows = table.take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let [written, seen_by, missed_by] = cells[..] else {
            panic!("a row of {} cells: {line}", cells.len());
        };
        Row {
            written: written
                .trim()
                .trim_matches('`')
                .strip_prefix("PUT ")
                .unwrap(),
            seen_by: pairs(seen_by),
            missed_by: pairs(missed_by),
        }
    });
    rows.collect()
}

fn pairs(cell: &'static str) -> BTreeSet<&'static str> {
    match cell.trim() {
        "every read" => PAIRS.into(),
        "none" => BTreeSet::new(),
        reads => reads
            .split(", ")
            .map(|read| read.trim_matches('`').strip_prefix("GET ").unwrap())
            .collect(),
    }
}

/// All choices of so many of these replicas, in any order.
fn choices(of: &[ReplicaIndex], number: usize) -> Vec<Vec<ReplicaIndex>> {
    let Some(fewer) = number.checked_sub(1) else {
        return vec![Vec::new()];
    };
    let with = |first: &ReplicaIndex| {
        let rest: Vec<_> = of.iter().copied().filter(|other| other != first).collect();
        let choices = choices(&rest, fewer).into_iter();
        choices
            .map(|rest| [&[*first], &rest[..]].concat())
            .collect::<Vec<_>>()
    };
    of.iter().flat_map(with).collect()
}

/// Runs a request to its end. Of the messages to replicas only those to `reached` arrive.
fn run(
    world: &mut World,
    asked: ClientRequest,
    replicas: Replicas,
    order: &[ReplicaIndex],
    reached: &[ReplicaIndex],
) -> Answer {
    let operation = world.invoke(0, asked, replicas, order);
    while !world.running().is_empty() {
        let is_hint = |message: &Message| matches!(message, Message::Hint { .. });
        let Some(next) = world.messages.iter().position(|message| !is_hint(message)) else {
            world.deadline(operation);
            continue;
        };
        match &world.messages[next] {
            Message::Request {
                replica, request, ..
            } if !reached.contains(replica) && !matches!(request, Request::KeepHint { .. }) => {
                world.lose(next, false);
            }
            _ => world.deliver(next),
        }
    }
    world.operations[operation].answer.clone().unwrap()
}

/// A cluster in which `new` has come so far, after these replicas have acknowledged it.
fn written(replicas: Replicas, acks: &[ReplicaIndex], spread: Spread) -> World {
    let mut world = World::new(NODES);
    let all: Vec<ReplicaIndex> = (0..NODES).map(ReplicaIndex::new).collect();
    let whole = script::replicas("3/3");
    for (letter, replicas, acks) in [('o', whole, &all[..]), ('n', replicas, acks)] {
        let answer = run(&mut world, ClientRequest::Put(letter), replicas, &[], acks);
        assert!(matches!(answer, Answer::Written { .. }), "{answer:?}");
    }
    let new = world.held(acks[0]).unwrap().clone();
    for (node, replica) in world.nodes.iter_mut().zip(&all) {
        let is_own = replica.as_u8() < replicas.from;
        match spread {
            Spread::Repaired | Spread::Collected if is_own => {
                node.store(&new, None);
            }
            Spread::Collected => node.versions.clear(),
            Spread::Repaired | Spread::Acknowledged => {}
        }
    }
    world
}

/// All answers that a read may get: `n`, `o`, or nothing.
fn answers(written_with: Replicas, read: Replicas) -> BTreeSet<String> {
    let own: Vec<ReplicaIndex> = written_with.indexes().collect();
    let asked: Vec<ReplicaIndex> = read.indexes().collect();
    let mut answers = BTreeSet::new();
    for acks in choices(&own, written_with.ack.into()) {
        for spread in [Spread::Acknowledged, Spread::Repaired, Spread::Collected] {
            for order in choices(&asked, read.from.into()) {
                let mut world = written(written_with, &acks, spread);
                let answer = run(&mut world, ClientRequest::Get, read, &order, &asked);
                let Answer::Read { entry, .. } = answer else {
                    panic!("{read:?} of {acks:?}, {spread:?}: {answer:?}");
                };
                let value = entry.map_or(Vec::new(), |entry| entry.value_bytes().to_vec());
                answers.insert(String::from_utf8(value).unwrap());
            }
        }
    }
    answers
}

#[test]
fn each_pair_sees_what_the_table_says() {
    let rows = rows();
    assert_eq!(rows.len(), 4, "{HEADING}");
    for Row {
        written,
        seen_by,
        missed_by,
    } in rows
    {
        let both: Vec<_> = seen_by.intersection(&missed_by).collect();
        assert!(both.is_empty(), "PUT {written}: {both:?}");
        for read in PAIRS {
            let [of_write, of_read] = [written, read].map(script::replicas);
            let answers = answers(of_write, of_read);
            let is_seen = answers.iter().all(|answer| answer == "n");
            let acks = of_write.ack + of_read.ack;
            assert_eq!(is_seen, acks > of_write.from.max(of_read.from));
            assert_eq!(
                is_seen,
                seen_by.contains(read),
                "GET {read} of PUT {written}"
            );
            assert_eq!(
                !is_seen,
                missed_by.contains(read),
                "GET {read} of PUT {written}"
            );
        }
    }
}

#[test]
fn a_read_that_misses_a_write_finds_the_old_value_and_later_none() {
    let [write, read] = ["1/1", "2/3"].map(script::replicas);
    let expected = ["", "n", "o"].map(str::to_owned);
    assert_eq!(answers(write, read), expected.into());
}
