//! Golden cases of what a client may rely on, against whole clusters.
//!
//! `cluster N` begins. `put LETTER A/F at NODE`, `delete A/F at NODE` and `get
//! A/F at NODE [asking R..]` are requests; with `reaching R..` what is sent to
//! other replicas is lost, and the deadline comes. Other messages arrive in the
//! order of sending. `clock NODE MS` sets a clock ahead or behind, `down NODE`
//! and `up NODE` stop and start a node, `hints` delivers all hints, and `held` lists
//! what each node has.

use crate::message::{Message, Request};
use crate::script;
use crate::world::{Answer, ClientRequest, World};
use base::{Entry, Kind};
use cluster::ReplicaIndex;

#[test]
fn promises_are_kept_as_told() {
    script::run("promises.txt", include_str!("../golden/promises.txt"), step);
}

fn step(world: &mut Option<World>, event: &str) -> String {
    let words: Vec<&str> = event.split(' ').collect();
    if let ["cluster", nodes] = words[..] {
        let mut new = World::new(nodes.parse().unwrap());
        // No node sees the timestamps of others, so only the push helps.
        new.merges_clocks = false;
        *world = Some(new);
        return "ready".to_owned();
    }
    let world = world.as_mut().unwrap();
    match words[..] {
        ["clock", node, ms] => {
            world.nodes[index(node)].skew_ms = ms.parse().unwrap();
            "ready".to_owned()
        }
        ["down", node] => {
            world.nodes[index(node)].is_down = true;
            "ready".to_owned()
        }
        ["up", node] => {
            world.nodes[index(node)].is_down = false;
            "ready".to_owned()
        }
        ["hints"] => {
            let hints = world.messages.len();
            while !world.messages.is_empty() {
                world.deliver(0);
            }
            format!("{hints} delivered")
        }
        ["held"] => {
            let nodes = (0..world.nodes.len() as u8).map(ReplicaIndex::new);
            let held: Vec<String> = nodes.map(|replica| told(world.held(replica))).collect();
            held.join(" ")
        }
        ["put", letter, replicas, "at", node, ref rest @ ..] => {
            let asked = ClientRequest::Put(letter.parse().unwrap());
            request(world, asked, replicas, node, rest)
        }
        ["delete", replicas, "at", node, ref rest @ ..] => {
            request(world, ClientRequest::Delete, replicas, node, rest)
        }
        ["get", replicas, "at", node, ref rest @ ..] => {
            request(world, ClientRequest::Get, replicas, node, rest)
        }
        _ => panic!("unknown event: {event}"),
    }
}

fn request(
    world: &mut World,
    asked: ClientRequest,
    replicas: &str,
    node: &str,
    rest: &[&str],
) -> String {
    let replicas = script::replicas(replicas);
    let mut preference: Vec<ReplicaIndex> = replicas.indexes().collect();
    let mut reaching = preference.clone();
    let mut words = rest.iter().peekable();
    while let Some(word) = words.next() {
        let named = std::iter::from_fn(|| words.next_if(|word| word.parse::<u8>().is_ok()));
        let named = named
            .map(|word| ReplicaIndex::new(word.parse().unwrap()))
            .collect();
        match *word {
            "asking" => preference = named,
            "reaching" => reaching = named,
            _ => panic!("unknown: {word}"),
        }
    }
    let operation = world.invoke(index(node) as u8, asked, replicas, &preference);
    loop {
        let next = world.messages.iter().position(|message| match message {
            Message::Hint { .. } => false,
            Message::Request { .. } | Message::Answer { .. } => true,
        });
        let Some(next) = next else {
            if world.running().is_empty() {
                break;
            }
            world.deadline(operation);
            continue;
        };
        match &world.messages[next] {
            Message::Request {
                replica, request, ..
            } if !reaching.contains(replica) && !matches!(request, Request::KeepHint { .. }) => {
                world.lose(next, false);
            }
            _ => world.deliver(next),
        }
    }
    match world.operations[operation].answer.as_ref().unwrap() {
        Answer::Written { .. } => "acknowledged".to_owned(),
        Answer::Read { entry, .. } => told(entry.as_ref()),
        Answer::NotEnough { acks } => format!("not enough {acks}"),
    }
}

fn index(node: &str) -> usize {
    node.parse().unwrap()
}

fn told(entry: Option<&Entry>) -> String {
    match entry {
        None => "nothing".to_owned(),
        Some(entry) if entry.kind() == Kind::Tombstone => "deleted".to_owned(),
        Some(entry) => String::from_utf8(entry.value_bytes().to_vec()).unwrap(),
    }
}
