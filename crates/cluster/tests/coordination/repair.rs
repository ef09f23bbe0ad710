//! Golden cases of repair sessions: of a store, and of a coordinator.
//!
//! Timestamps are numbers, `S.A` is the token of attempt A of session S, and `none` is the
//! timestamp zero.
//!
//! Events of a store: `store closed T gc T` begins. `S.A begin|close|open|sync|finish|outcome ..` is
//! what a coordinator asks; `clock T` says how far the clock allows to close from then on.
//! `heard gc T`, `lost`, `damaged`, `voided` and `S.A abandoned` happen; `restart` goes on with
//! what is durable, and `idle` lets time pass. `write T`, `repair S.A T` and `read repair T named T
//! [scanned]` ask whether a version is taken, which is `dead` or which the store is `lacking`.
//! `record` tells what is durable.
//!
//! Events of a coordinator: `session S.A nodes N [away R..]` begins, and `resume S.A nodes N below T
//! [unequal P..]` goes on. `R begun gc T closed T latest T [may raise]`, `R closed T`, `R done`,
//! `R synced [may raise]`, `R refused S.A` and `R missed` are answers of nodes;
//! `R-R equal|moved|unequal [lower|upper] [moved]` is what came out of a comparison; `next range|checkpoint|finish` is
//! what the caller decides. `shown` tells what a checkpoint remembers, `equal` the equal pairs, and
//! `has all of R` of which nodes R has all that they have.

use crate::script;
use base::Timestamp;
use cluster::comparison::Pair;
use cluster::repair::{
    Admission, Arriving, Compared, Lacking, Next, SESSION_IDLE_MAX, Session, SessionAction,
    SessionAnswer, SessionEvent, SessionRequest, Shown, StoreAction, StoreEvent, StoreRecord,
    StoreState, Token, Way,
};
use cluster::{Epoch, NodeId};
use std::time::Duration;

struct Store {
    state: StoreState,
    latest: Timestamp,
    now: Duration,
}

#[test]
fn stores_take_part_as_told() {
    let text = include_str!("../golden/repair_store.txt");
    script::run("repair_store.txt", text, store_step);
}

#[test]
fn coordinators_lead_sessions_as_told() {
    let text = include_str!("../golden/repair_session.txt");
    script::run("repair_session.txt", text, session_step);
}

fn store_step(store: &mut Option<Store>, event: &str) -> String {
    let words: Vec<&str> = event.split(' ').collect();
    if let ["store", "closed", closed, "gc", gc] = words[..] {
        let record = StoreRecord {
            closed: timestamp(closed),
            gc_threshold: timestamp(gc),
            ..StoreRecord::default()
        };
        let (state, latest) = (StoreState::opened(record), Timestamp::ZERO);
        let now = SESSION_IDLE_MAX;
        *store = Some(Store { state, latest, now });
        return "wait".to_owned();
    }
    let store = store.as_mut().unwrap();
    let has = |word: &str| words.contains(&word);
    let version = |at: &str| Arriving {
        timestamp: timestamp(at),
        is_dead: has("dead"),
        is_lacking: has("lacking"),
    };
    match words[..] {
        ["clock", latest] => {
            store.latest = timestamp(latest);
            return "wait".to_owned();
        }
        ["idle"] => {
            store.now += SESSION_IDLE_MAX;
            return "wait".to_owned();
        }
        ["restart"] => {
            store.state = StoreState::opened(*store.state.record());
            return "wait".to_owned();
        }
        ["record"] => return told_record(store.state.record()),
        ["write", at, ..] => return told_admission(store.state.admits(version(at), Way::Ordinary)),
        ["repair", of, at, ..] => {
            let way = Way::Repair(token(of));
            return told_admission(store.state.admits(version(at), way));
        }
        ["read", "repair", at, "named", named, ..] => {
            let way = Way::ReadRepair {
                gc_threshold: timestamp(named),
                is_scanned: has("scanned"),
            };
            return told_admission(store.state.admits(version(at), way));
        }
        _ => {}
    }
    let event = match words[..] {
        ["heard", "gc", gc] => StoreEvent::Heard {
            gc_threshold: timestamp(gc),
        },
        ["lost"] => StoreEvent::Lost,
        ["damaged"] => StoreEvent::Damaged,
        ["voided"] => StoreEvent::Voided,
        [of, "abandoned"] => StoreEvent::Abandoned { token: token(of) },
        [of, ref request @ ..] => StoreEvent::Asked {
            token: token(of),
            request: request_of(request),
            latest: store.latest,
        },
        [] => panic!("no event"),
    };
    let (state, actions) = store.state.step(event, store.now);
    store.state = state;
    let told = actions.iter().map(told_store_action);
    let told: Vec<String> = told.collect();
    if told.is_empty() {
        "wait".to_owned()
    } else {
        told.join(", ")
    }
}

fn request_of(words: &[&str]) -> SessionRequest {
    match *words {
        ["begin"] => SessionRequest::Begin {
            epoch: Epoch::new(1),
        },
        ["begin", "epoch", epoch] => SessionRequest::Begin {
            epoch: Epoch::new(epoch.parse().unwrap()),
        },
        ["close", below, "gc", gc, ref rest @ ..] => SessionRequest::Close {
            below: timestamp(below),
            gc_threshold: timestamp(gc),
            are_all: rest == ["all"],
        },
        ["open"] => SessionRequest::Open { range: 0 },
        ["sync"] => SessionRequest::Sync,
        ["finish", below] => SessionRequest::Finish {
            below: timestamp(below),
        },
        ["outcome", gc] => SessionRequest::Outcome {
            gc_threshold: timestamp(gc),
        },
        _ => panic!("unknown request: {words:?}"),
    }
}

fn told_store_action(action: &StoreAction) -> String {
    match *action {
        StoreAction::SetAside {
            below,
            is_of_damage,
        } => {
            let what = if is_of_damage { " of damage" } else { "" };
            format!("set aside{what} below {}", told(below))
        }
        StoreAction::Sync => "sync".to_owned(),
        StoreAction::Persist(_) => "persist".to_owned(),
        StoreAction::Answer(answer) => match answer {
            SessionAnswer::Begun {
                gc_threshold,
                closed,
                latest,
                may_raise,
            } => {
                let [gc, closed, latest] = [gc_threshold, closed, latest].map(told);
                let may = told_may(may_raise);
                format!("begun gc {gc} closed {closed} latest {latest}{may}")
            }
            SessionAnswer::Closed(closed) => format!("closed {}", told(closed)),
            SessionAnswer::Synced { may_raise } => format!("synced{}", told_may(may_raise)),
            SessionAnswer::Done => "done".to_owned(),
            SessionAnswer::Refused { greatest } => format!("refused {greatest}"),
        },
    }
}

fn told_record(record: &StoreRecord) -> String {
    let (closed, gc) = (told(record.closed), told(record.gc_threshold));
    let mut text = format!("closed {closed} gc {gc} token {}", record.token);
    text += told_may(record.may_raise);
    for (name, shown) in [
        ("answered", record.answered),
        ("non-owned", record.non_owned),
    ] {
        if shown.below > Timestamp::ZERO {
            text += &format!(" {name} {}", told(shown.below));
        }
    }
    text
}

fn told_admission(admission: Admission) -> String {
    match admission {
        Admission::Taken => "taken".to_owned(),
        Admission::OnceVoided => "once voided".to_owned(),
        Admission::NotNow => "not now".to_owned(),
        Admission::Obsolete { below } => format!("obsolete below {}", told(below)),
    }
}

fn session_step(session: &mut Option<Session>, event: &str) -> String {
    let words: Vec<&str> = event.split(' ').collect();
    let (next, actions) = match words[..] {
        ["session", of, "nodes", nodes, ref away @ ..] => {
            let away: Vec<usize> = away.iter().filter_map(|word| word.parse().ok()).collect();
            let nodes: usize = nodes.parse().unwrap();
            let up = (0..nodes).map(|node| (NodeId::new(node as u8), !away.contains(&node)));
            Session::start(token(of), Epoch::new(1), up, None)
        }
        [
            "resume",
            of,
            "nodes",
            nodes,
            "below",
            below,
            ref unequal @ ..,
        ] => {
            let shown = Shown {
                below: timestamp(below),
                unequal: unequal.iter().skip(1).map(|word| pair(word)).collect(),
            };
            let up = (0..nodes.parse().unwrap()).map(|node| (NodeId::new(node), true));
            Session::start(token(of), Epoch::new(1), up, Some(shown))
        }
        ["shown"] => {
            let shown = session.as_ref().unwrap().shown();
            let unequal: Vec<Pair> = shown.unequal.into_iter().collect();
            return format!("below {}{}", told(shown.below), told_pairs(&unequal));
        }
        ["has", "all", "of", node] => {
            let session = session.as_ref().unwrap();
            let of = session.has_all_of(NodeId::new(node.parse().unwrap()));
            let of = of.iter().map(|of| format!(" {}", of.index()));
            return format!("nodes{}", of.collect::<String>());
        }
        ["equal"] => return format!("pairs{}", told_pairs(&session.as_ref().unwrap().equal())),
        ref words => session.take().unwrap().step(session_event(words)),
    };
    *session = Some(next);
    told_session_actions(&actions)
}

fn session_event(words: &[&str]) -> SessionEvent {
    if let ["next", next] = *words {
        return SessionEvent::Next(match next {
            "range" => Next::Range,
            "checkpoint" => Next::Checkpoint,
            "finish" => Next::Finish,
            _ => panic!("unknown: {next}"),
        });
    }
    let outcome = match words[1] {
        "equal" => Some(Compared::Equal),
        "moved" => Some(Compared::Moved),
        "unequal" => {
            let (lacking, rest) = match words[2..] {
                ["lower", ref rest @ ..] => (Lacking::Lower, rest),
                ["upper", ref rest @ ..] => (Lacking::Upper, rest),
                ref rest => (Lacking::Both, rest),
            };
            let has_moved = match rest {
                [] => false,
                ["moved"] => true,
                _ => panic!("unknown: {words:?}"),
            };
            Some(Compared::Unequal { lacking, has_moved })
        }
        _ => None,
    };
    if let Some(outcome) = outcome {
        let pair = pair(words[0]);
        return SessionEvent::Compared { pair, outcome };
    }
    let node = NodeId::new(words[0].parse().unwrap());
    let may_raise = words.ends_with(&["may", "raise"]);
    let answer = match words[1..] {
        ["missed"] => return SessionEvent::Missed { node },
        ["begun", "gc", gc, "closed", closed, "latest", latest, ..] => SessionAnswer::Begun {
            gc_threshold: timestamp(gc),
            closed: timestamp(closed),
            latest: timestamp(latest),
            may_raise,
        },
        ["closed", closed] => SessionAnswer::Closed(timestamp(closed)),
        ["done"] => SessionAnswer::Done,
        ["synced", ..] => SessionAnswer::Synced { may_raise },
        ["refused", greatest] => SessionAnswer::Refused {
            greatest: token(greatest),
        },
        _ => panic!("unknown event: {words:?}"),
    };
    SessionEvent::Answered { node, answer }
}

fn told_session_actions(actions: &[SessionAction]) -> String {
    let mut told_actions: Vec<String> = Vec::new();
    let mut last = String::new();
    for action in actions {
        let (what, of) = match *action {
            SessionAction::Ask { node, request } => (told_request(request), node.to_string()),
            SessionAction::Compare(pair) => ("compare".to_owned(), told_pair(pair)),
            SessionAction::Decide => ("decide".to_owned(), String::new()),
            SessionAction::Checkpoint => ("checkpoint".to_owned(), String::new()),
            SessionAction::Preempted { by } => ("preempted by".to_owned(), by.to_string()),
            SessionAction::End { gc_threshold } => ("end".to_owned(), told(gc_threshold)),
        };
        match told_actions.last_mut() {
            Some(told) if last == what => *told += &format!(" {of}"),
            _ if of.is_empty() => told_actions.push(what.clone()),
            _ => told_actions.push(format!("{what} {of}")),
        }
        last = what;
    }
    if told_actions.is_empty() {
        "wait".to_owned()
    } else {
        told_actions.join(", ")
    }
}

fn told_request(request: SessionRequest) -> String {
    match request {
        SessionRequest::Begin { .. } => "begin".to_owned(),
        SessionRequest::Close {
            gc_threshold,
            below,
            are_all,
        } => {
            let all = if are_all { " all" } else { "" };
            format!("close {} gc {}{all}:", told(below), told(gc_threshold))
        }
        SessionRequest::Open { range } => format!("open {range}:"),
        SessionRequest::Sync => "sync".to_owned(),
        SessionRequest::Finish { below } => format!("finish {}:", told(below)),
        SessionRequest::Outcome { gc_threshold } => format!("outcome {}:", told(gc_threshold)),
    }
}

fn timestamp(text: &str) -> Timestamp {
    match text {
        "none" => Timestamp::ZERO,
        text => Timestamp::from_u64(text.parse().unwrap()),
    }
}

fn told(timestamp: Timestamp) -> String {
    match timestamp.as_u64() {
        0 => "none".to_owned(),
        timestamp => timestamp.to_string(),
    }
}

fn told_may(may_raise: bool) -> &'static str {
    if may_raise { " may raise" } else { "" }
}

fn token(text: &str) -> Token {
    let (session, attempt) = text.split_once('.').unwrap();
    Token {
        session: session.parse().unwrap(),
        attempt: attempt.parse().unwrap(),
    }
}

fn pair(text: &str) -> Pair {
    let (one, other) = text.split_once('-').unwrap();
    let [one, other] = [one, other].map(|node| NodeId::new(node.parse().unwrap()));
    Pair::of(one, other)
}

fn told_pair(pair: Pair) -> String {
    format!("{}-{}", pair.lower, pair.upper)
}

fn told_pairs(pairs: &[Pair]) -> String {
    let told = pairs.iter().map(|pair| format!(" {}", told_pair(*pair)));
    told.collect()
}
