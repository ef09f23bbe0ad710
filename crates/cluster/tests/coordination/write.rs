//! Golden cases of the coordination of writes.
//!
//! Events: `write A/F timestamp T [down R..]` begins, with `A/F` as [`script::quorum`] reads it; `R stored [newer T|unknown T]`,
//! `R missed WHY`, `R hint kept`, `pushed T [down R..]`, `no timestamp`, `half
//! time` and `deadline` go on; `first: EVENT` is one of the first round that
//! comes in the second; `receipt` tells what became of it. `half time?` asks
//! whether half time would change anything.

use crate::script;
use base::Timestamp;
use cluster::{Miss, ReplicaIndex, Round, Write, WriteAction, WriteActions, WriteEvent};

struct Machine {
    write: Write,
    round: Round,
}

#[test]
fn writes_go_as_told() {
    script::run("write.txt", include_str!("../golden/write.txt"), step);
}

fn step(machine: &mut Option<Machine>, event: &str) -> String {
    let mut actions = WriteActions::new();
    let words: Vec<&str> = event.split(' ').collect();
    if let ["write", replicas, "timestamp", at, ref down @ ..] = words[..] {
        let replicas = script::quorum(replicas);
        let write = Write::start(replicas, timestamp(at), down_reason(down), &mut actions);
        let round = Round::FIRST;
        *machine = Some(Machine { write, round });
        return tell(&actions, round);
    }
    let machine = machine.as_mut().unwrap();
    match words[..] {
        ["receipt"] => return script::receipt(machine.write.fates()),
        ["half", "time?"] => {
            return if machine.write.awaits_half_time() {
                "yes".to_owned()
            } else {
                "no".to_owned()
            };
        }
        ["pushed", at, ref down @ ..] => {
            machine.round = Round::SECOND;
            let write = &mut machine.write;
            write.pushed(timestamp(at), down_reason(down), &mut actions);
        }
        ["first:", ref rest @ ..] => {
            let event = read_event(rest, Round::FIRST);
            machine.write.step(event, &mut actions);
        }
        ref words => {
            let event = read_event(words, machine.round);
            machine.write.step(event, &mut actions);
        }
    }
    tell(&actions, machine.round)
}

fn read_event(words: &[&str], round: Round) -> WriteEvent {
    let replica = ReplicaIndex::new(words[0].parse().unwrap_or(0));
    match words[1..] {
        ["stored", ref newer_version @ ..] => WriteEvent::Stored {
            round,
            replica,
            newer_version: script::newer_version(newer_version),
        },
        ["missed", why] => WriteEvent::Missed {
            round,
            replica,
            why: script::miss(why),
        },
        ["hint", "kept"] => WriteEvent::HintKept { round, replica },
        ["timestamp"] => WriteEvent::NoTimestamp,
        ["time"] => WriteEvent::HalfTime,
        [] if words == ["deadline"] => WriteEvent::Deadline,
        _ => panic!("unknown event: {words:?}"),
    }
}

fn timestamp(text: &str) -> Timestamp {
    Timestamp::from_u64(text.parse().unwrap())
}

/// `down R..`, `silent R..`, or nothing.
fn down_reason(words: &[&str]) -> impl Fn(ReplicaIndex) -> Option<Miss> {
    let down: Vec<u8> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let why = match words.first() {
        Some(&"silent") => Miss::Suspected,
        _ => Miss::Refused,
    };
    move |replica| down.contains(&replica.as_u8()).then_some(why)
}

fn tell(actions: &WriteActions, current: Round) -> String {
    let of_round = |round: Round, replica: ReplicaIndex| {
        assert_eq!(round, current, "an action of another round");
        replica.as_u8().to_string()
    };
    script::tell(actions.iter().map(|action| match *action {
        WriteAction::Send { round, replica } => ("send", of_round(round, replica)),
        WriteAction::Hint { round, replica } => ("hint", of_round(round, replica)),
        WriteAction::Push { above } => ("push above", above.to_string()),
        WriteAction::Reply(decision) => ("reply", script::decision(decision)),
        WriteAction::Done => ("done", String::new()),
    }))
}
