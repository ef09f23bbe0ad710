//! Golden cases of the coordination of reads.
//!
//! Events: `read A/F [prefer R..]` begins, as `read-for-condition` does for a conditional write, with `A/F` as [`script::quorum`] reads it; `R has VERSION`, `R missed WHY`, `R
//! repaired [newer T|unknown T]`, `R repair missed WHY`, `R slow`, `resumed` and `deadline` go on; `receipt`
//! tells what became of it, `freshest` the merged answer.
//!
//! `R gc F has VERSION` names the GC threshold of the replica's store, and
//! `R has VERSION dead` an expired version.
//!
//! A version is `nothing`, or a timestamp and what is not as usual: `deleted`,
//! `value TEXT`, `until MS`, `copies C` (usually the read's `from`).

use crate::script;
use base::{Entry, Expiry, Kind, Timestamp};
use cluster::{Read, ReadAction, ReadActions, ReadEvent, ReplicaIndex};

struct Machine {
    read: Read,
    from: u8,
}

#[test]
fn reads_go_as_told() {
    script::run("read.txt", include_str!("../golden/read.txt"), step);
}

/// What names a bound that no answer names is a closed timestamp.
#[test]
fn a_read_asks_anew_a_bounded_number_of_times() {
    let mut actions = ReadActions::new();
    let replicas = script::replicas("2/2");
    let [holder, other] = [0, 1].map(ReplicaIndex::new);
    let mut read = Read::start(replicas, replicas.indexes(), &mut actions);
    let mut pauses = 0;
    let below = Timestamp::from_u64(150);
    let why = cluster::Miss::Obsolete { below };
    while !actions.contains(&ReadAction::Done) {
        let (has, lacks) = (
            read_event(&["0", "has", "100"], 2),
            read_event(&["1", "has", "nothing"], 2),
        );
        assert_eq!(
            actions[..2],
            [holder, other].map(|replica| ReadAction::Ask { replica })
        );
        actions.clear();
        read.step(has, &mut actions);
        read.step(lacks, &mut actions);
        actions.clear();
        read.step(
            ReadEvent::RepairMissed {
                replica: other,
                why,
            },
            &mut actions,
        );
        if actions[..] == [ReadAction::Pause] {
            pauses += 1;
            actions.clear();
            read.step(ReadEvent::Resumed, &mut actions);
        }
    }
    assert_eq!(pauses + 1, cluster::TIMES_ANEW_MAX);
    assert!(matches!(
        actions[0],
        ReadAction::Reply(cluster::Decision::NotEnough { acks: 1 })
    ));
}

fn step(machine: &mut Option<Machine>, event: &str) -> String {
    let mut actions = ReadActions::new();
    let words: Vec<&str> = event.split(' ').collect();
    if let [
        kind @ ("read" | "read-for-condition"),
        replicas,
        ref prefer @ ..,
    ] = words[..]
    {
        let quorum = script::quorum(replicas);
        let from = quorum.replicas().from;
        let mut preference: Vec<ReplicaIndex> = prefer
            .iter()
            .filter_map(|word| word.parse().ok().map(ReplicaIndex::new))
            .collect();
        if preference.is_empty() {
            preference.extend(quorum.indexes());
        }
        let start = match kind {
            "read" => Read::start,
            _ => Read::start_for_condition,
        };
        let read = start(quorum, preference, &mut actions);
        return tell(&actions, &machine.insert(Machine { read, from }).read, from);
    }
    let Machine { read, from } = machine.as_mut().unwrap();
    match words[..] {
        ["receipt"] => return script::receipt(read.fates()),
        ["freshest"] => return version(read.freshest(), *from),
        ["resumed"] => read.step(ReadEvent::Resumed, &mut actions),
        ["deadline"] => read.step(ReadEvent::Deadline, &mut actions),
        _ => read.step(read_event(&words, *from), &mut actions),
    }
    tell(&actions, read, *from)
}

fn read_event(words: &[&str], from: u8) -> ReadEvent {
    let replica = ReplicaIndex::new(words[0].parse().unwrap());
    let (gc_threshold, words) = match words[1..] {
        ["gc", gc_threshold, ref rest @ ..] => (gc_threshold.parse().unwrap(), rest),
        ref rest => (0, rest),
    };
    let gc_threshold = Timestamp::from_u64(gc_threshold);
    match *words {
        ["has", "nothing"] => ReadEvent::Answered {
            replica,
            entry: None,
            is_dead: true,
            gc_threshold,
        },
        ["has", timestamp, ref traits @ ..] => {
            let traits: Vec<&str> = traits.to_vec();
            let (is_expired, traits) = match traits.split_last() {
                Some((&"dead", rest)) => (true, rest),
                _ => (false, &traits[..]),
            };
            let entry = entry(timestamp, traits, from);
            ReadEvent::Answered {
                replica,
                is_dead: is_expired || entry.kind() == Kind::Tombstone,
                entry: Some(entry),
                gc_threshold,
            }
        }
        ["missed", why] => {
            let why = script::miss(why);
            ReadEvent::Missed { replica, why }
        }
        ["repaired", ref newer_version @ ..] => ReadEvent::Repaired {
            replica,
            newer_version: script::newer_version(newer_version),
        },
        ["repair", "missed", why] => {
            let why = script::miss(why);
            ReadEvent::RepairMissed { replica, why }
        }
        ["slow"] => ReadEvent::Slow { replica },
        _ => panic!("unknown event: {words:?}"),
    }
}

fn entry(timestamp: &str, traits: &[&str], from: u8) -> Entry {
    let timestamp = Timestamp::from_u64(timestamp.parse().unwrap());
    let (mut copies, mut value, mut expiry) = (from, "usual", Expiry::NEVER);
    let (deleted, traits) = match traits {
        ["deleted", rest @ ..] => (true, rest),
        traits => (false, traits),
    };
    for pair in traits.chunks(2) {
        match pair {
            ["copies", number] => copies = number.parse().unwrap(),
            ["value", text] => value = text,
            ["until", ms] => expiry = Expiry::at_unix_ms(ms.parse().unwrap()),
            _ => panic!("unknown trait: {pair:?}"),
        }
    }
    if deleted {
        return Entry::tombstone(b"key", timestamp, copies);
    }
    Entry::value(b"key", timestamp, value.as_bytes(), expiry, copies)
}

fn version(entry: Option<&Entry>, from: u8) -> String {
    let Some(entry) = entry else {
        return "nothing".to_owned();
    };
    let mut told = entry.timestamp().to_string();
    if entry.kind() == Kind::Tombstone {
        told.push_str(" deleted");
    } else if entry.value_bytes() != b"usual" {
        told.push_str(" value ");
        told.push_str(std::str::from_utf8(entry.value_bytes()).unwrap());
    }
    if entry.kind() == Kind::Value && entry.expiry() != Expiry::NEVER {
        told.push_str(&format!(" until {}", entry.expiry().unix_ms()));
    }
    if entry.copies() != from {
        told.push_str(&format!(" copies {}", entry.copies()));
    }
    told
}

fn tell(actions: &ReadActions, read: &Read, from: u8) -> String {
    script::tell(actions.iter().map(|action| match *action {
        ReadAction::Ask { replica } => ("ask", replica.as_u8().to_string()),
        ReadAction::Repair { replica } => ("repair", replica.as_u8().to_string()),
        ReadAction::Reply(decision @ cluster::Decision::Enough { .. }) => (
            "reply",
            format!(
                "{}: {}",
                script::decision(decision),
                version(read.answer(), from)
            ),
        ),
        ReadAction::Reply(decision) => ("reply", script::decision(decision)),
        ReadAction::Pause => ("pause", String::new()),
        ReadAction::Done => ("done", String::new()),
    }))
}
