//! Histories made by hand, and the search compared with trying every order.
//!
//! A history is written as a line for each operation: what it did, and the
//! moments of its invocation and its completion. `"A 1 4"` put the value A between
//! the moments 1 and 4, `"a 5 6"` read that value, `"- 7 8"` deleted, `"0 9 10"`
//! read nothing. `"A 1 *"` was never acknowledged.

use super::search::{Call, Effect, RegisterState, SearchResult, search, search_within};
use super::{Linearizability, check_linearizability};
use crate::history::{Action, Content, Expected, History, OperationId, Outcome, Request};
use crate::promise::Promise;
use base::{Random, SeededRandom, Timestamp};

const PUT: Action = Action::Put { ttl_seconds: None };

/// A line of such a history.
struct Line {
    what: char,
    from: u64,
    until: Option<u64>,
}

fn lines(picture: &[&str]) -> Vec<Line> {
    let line = |text: &&str| {
        let mut words = text.split(' ');
        let mut word = || words.next().unwrap();
        Line {
            what: word().chars().next().unwrap(),
            from: word().parse().unwrap(),
            until: Some(word()).and_then(|until| until.parse().ok()),
        }
    };
    picture.iter().map(line).collect()
}

/// Turns lines into a history of one key with the pair 2/3. A write in a later
/// line has a higher version.
fn tell(picture: &[&str]) -> History {
    let lines = lines(picture);
    let number_of = |value: char| {
        let put = |line: &Line| line.what == value.to_ascii_uppercase();
        OperationId(lines.iter().position(put).unwrap())
    };
    let request = |action| Request {
        client: 0,
        node: 0,
        key: 7,
        action,
        ack: 2,
        from: 3,
    };
    let mut history = History::default();
    let mut moments: Vec<(u64, bool, usize)> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        moments.push((line.from, true, index));
        moments.extend(line.until.map(|until| (until, false, index)));
    }
    moments.sort_unstable();
    let mut ids = vec![OperationId(0); lines.len()];
    for (_, is_invocation, index) in moments {
        let what = lines[index].what;
        if is_invocation {
            let action = match what {
                'A'..='Z' => PUT,
                '-' => Action::Delete,
                _ => Action::Get,
            };
            ids[index] = history.invoke(request(action), 0);
            continue;
        }
        let version = |number: usize| Timestamp::from_u64(number as u64 + 1);
        let outcome = match what {
            'A'..='Z' | '-' => Outcome::Written {
                version: version(index),
                acks: 2,
            },
            '0' => Outcome::Found {
                version: None,
                content: Content::Absent,
                acks: 2,
            },
            value => Outcome::Found {
                version: Some(version(number_of(value).0)),
                content: Content::Value(number_of(value)),
                acks: 2,
            },
        };
        history.complete(ids[index], outcome, 0);
    }
    // A value carries the id of its put, which has to be the index of its line.
    assert!(
        ids.iter().enumerate().all(|(index, id)| index == id.0),
        "the lines are in the order of their invocations"
    );
    history
}

#[track_caller]
fn holds(picture: &[&str]) {
    let expected = Linearizability {
        keys: 1,
        ..Linearizability::default()
    };
    assert_eq!(
        check_linearizability(&tell(picture), 2, 3),
        expected,
        "{picture:?}"
    );
}

/// There is no order, and the last operation shown is this line.
#[track_caller]
fn breaks(picture: &[&str], shown: usize) {
    let checked = check_linearizability(&tell(picture), 2, 3);
    let [violation] = &checked.violations[..] else {
        panic!("{picture:?}: {checked:?}");
    };
    assert_eq!(violation.promise, Promise::Linearizable);
    assert_eq!(violation.operations.last(), Some(&OperationId(shown)));
}

#[test]
fn operations_one_after_another_take_effect_in_turn() {
    holds(&[
        "0 1 2", "A 3 4", "a 5 6", "- 7 8", "0 9 10", "B 11 12", "b 13 14",
    ]);
    breaks(&["A 1 2", "0 3 4"], 1);
    breaks(&["a 1 2", "A 3 4"], 0);
    breaks(&["A 1 2", "B 3 4", "a 5 6"], 2);
    breaks(&["A 1 2", "- 3 4", "a 5 6"], 2);
}

#[test]
fn concurrent_operations_take_effect_in_any_order() {
    holds(&["A 1 10", "0 2 3", "a 4 5"]);
    holds(&["A 1 10", "B 2 9", "b 3 4", "a 5 6"]);
    holds(&["A 1 10", "B 2 9", "a 11 12"]);
    holds(&["A 1 10", "B 2 9", "b 11 12"]);
    breaks(&["A 1 10", "a 2 3", "0 4 5"], 2);
    breaks(&["A 1 10", "B 2 9", "a 11 12", "b 13 14"], 3);
    breaks(&["A 1 20", "B 2 19", "a 3 4", "b 5 6", "a 7 8"], 4);
}

/// The history that two timestamps of one write can cause: by version, each read
/// returns something newer than the read before it.
#[test]
fn a_write_takes_effect_once() {
    breaks(&["A 1 20", "a 2 3", "B 4 5", "b 6 7", "a 8 9"], 4);
    holds(&["A 1 20", "a 2 3", "B 4 12", "b 6 7"]);
    // A may take effect after B.
    holds(&["A 1 20", "B 4 5", "b 6 7", "a 8 9"]);
}

#[test]
fn a_write_that_was_not_acknowledged_takes_effect_once_at_any_time_or_never() {
    holds(&["A 1 *", "a 3 4"]);
    holds(&["A 1 *", "0 2 3", "B 4 5", "b 6 7"]);
    breaks(&["A 1 *", "a 2 3", "B 4 5", "b 6 7", "a 8 9"], 4);
    holds(&["A 1 *", "0 2 3", "B 4 5", "b 6 7", "a 8 9"]);
    breaks(&["A 1 *", "a 2 3", "B 4 5", "a 6 7"], 3);
    holds(&["A 1 2", "- 3 *", "a 4 5", "0 6 7"]);
    breaks(&["A 1 2", "- 3 *", "0 4 5", "a 6 7"], 3);
    // Two deletes may take effect at two moments.
    holds(&[
        "A 1 2", "- 3 *", "- 4 *", "0 5 6", "B 7 8", "b 9 10", "0 11 12",
    ]);
    breaks(
        &["A 1 2", "- 3 *", "0 5 6", "B 7 8", "b 9 10", "0 11 12"],
        5,
    );
}

#[test]
fn a_refused_write_and_a_read_without_an_answer_do_not_count() {
    let mut history = tell(&["A 1 2", "B 3 *", "b 4 *", "a 5 6"]);
    history.complete(OperationId(1), Outcome::Refused, 0);
    history.complete(OperationId(2), Outcome::Lost, 0);
    assert_eq!(check_linearizability(&history, 2, 3).violations, []);
}

#[test]
fn a_read_returns_an_acknowledged_write_under_its_own_version_only() {
    let mut history = tell(&["A 1 2", "a 3 4"]);
    let found = Outcome::Found {
        version: Some(Timestamp::from_u64(99)),
        content: Content::Value(OperationId(0)),
        acks: 2,
    };
    history.complete(OperationId(1), found, 0);
    let checked = check_linearizability(&history, 2, 3);
    assert_eq!(checked.violations.len(), 1);
    assert_eq!(checked.violations[0].promise, Promise::OneVersionAWrite);
}

#[test]
fn other_pairs_and_times_to_live_are_left_out() {
    let stale = ["A 1 2", "B 3 4", "a 5 6"];
    let ask = |history: &mut History, action, ack, from| {
        let request = Request {
            client: 0,
            node: 0,
            key: 7,
            action,
            ack,
            from,
        };
        history.invoke(request, 0);
    };
    let mut history = tell(&stale);
    ask(&mut history, Action::Get, 1, 3);
    assert_eq!(check_linearizability(&history, 2, 3).violations.len(), 1);
    for (action, ack) in [
        (PUT, 1),
        (Action::Delete, 3),
        (
            Action::Put {
                ttl_seconds: Some(1),
            },
            2,
        ),
    ] {
        let mut history = tell(&stale);
        ask(&mut history, action, ack, 3);
        assert_eq!(
            check_linearizability(&history, 2, 3),
            Linearizability::default()
        );
    }
}

/// A history of conditional writes of one key with the pair 2/3, one line each: who expects what,
/// what became of it, and when. Versions are the numbers of the lines from 1.
fn conditional(lines: &[(Action, Outcome, u64, u64)]) -> History {
    let mut history = History::default();
    let mut moments: Vec<(u64, bool, usize)> = Vec::new();
    for (index, (_, _, from, until)) in lines.iter().enumerate() {
        moments.extend([(*from, true, index), (*until, false, index)]);
    }
    moments.sort_unstable();
    for (_, is_invocation, index) in moments {
        let (action, outcome, ..) = lines[index];
        if is_invocation {
            let request = Request {
                client: 0,
                node: 0,
                key: 7,
                action,
                ack: 2,
                from: 3,
            };
            assert_eq!(history.invoke(request, 0), OperationId(index));
        } else {
            history.complete(OperationId(index), outcome, 0);
        }
    }
    history
}

#[test]
fn a_conditional_write_compares_and_sets() {
    let written = |number: u64| Outcome::Written {
        version: Timestamp::from_u64(number),
        acks: 2,
    };
    let if_at = |number: u64| Expected::Version(Timestamp::from_u64(number));
    let found = |put: usize| Outcome::Found {
        version: Some(Timestamp::from_u64(put as u64 + 1)),
        content: Content::Value(OperationId(put)),
        acks: 2,
    };
    let lost = Outcome::NotEnough { timestamp: None };
    use Action::{DeleteIf, Get, PutIf};
    let create = PutIf(Expected::Absent);
    for (lines, is_right) in [
        // Only one creates.
        (
            vec![
                (create, written(1), 1, 4),
                (create, Outcome::NotMatched, 2, 3),
            ],
            true,
        ),
        (
            vec![(create, written(1), 1, 4), (create, written(2), 2, 3)],
            false,
        ),
        // After the end of the other, the value is there.
        (
            vec![
                (create, written(1), 1, 2),
                (create, Outcome::NotMatched, 3, 4),
            ],
            true,
        ),
        (vec![(create, Outcome::NotMatched, 1, 2)], false),
        // Of two that replace the same version, one does.
        (
            vec![
                (create, written(1), 1, 2),
                (PutIf(if_at(1)), written(2), 3, 6),
                (PutIf(if_at(1)), Outcome::NotMatched, 4, 5),
                (Get, found(1), 7, 8),
            ],
            true,
        ),
        (
            vec![
                (create, written(1), 1, 2),
                (PutIf(if_at(1)), written(2), 3, 6),
                (PutIf(if_at(1)), written(3), 4, 5),
            ],
            false,
        ),
        // It does not replace what it names.
        (
            vec![
                (create, written(1), 1, 2),
                (PutIf(if_at(9)), written(2), 3, 4),
            ],
            false,
        ),
        (
            vec![
                (create, written(1), 1, 2),
                (DeleteIf(if_at(1)), written(2), 3, 4),
                (create, written(3), 5, 6),
            ],
            true,
        ),
        (
            vec![
                (create, written(1), 1, 2),
                (DeleteIf(if_at(1)), Outcome::NotMatched, 3, 4),
            ],
            false,
        ),
        // An unknown outcome may be an effect, once somebody has read it, or none.
        (
            vec![
                (create, written(1), 1, 2),
                (PutIf(if_at(1)), lost, 3, 4),
                (Get, found(1), 5, 6),
                (PutIf(if_at(1)), Outcome::NotMatched, 7, 8),
            ],
            true,
        ),
        (
            vec![
                (create, written(1), 1, 2),
                (PutIf(if_at(1)), lost, 3, 4),
                (Get, found(1), 5, 6),
                (PutIf(if_at(1)), written(4), 7, 8),
            ],
            false,
        ),
        // A write that nobody has read may be what another one has found.
        (
            vec![
                (create, written(1), 1, 2),
                (PutIf(if_at(1)), lost, 3, 4),
                (PutIf(if_at(1)), Outcome::NotMatched, 5, 6),
            ],
            true,
        ),
        (
            vec![
                (create, written(1), 1, 2),
                (DeleteIf(if_at(1)), lost, 3, 4),
                (create, written(3), 5, 6),
            ],
            true,
        ),
    ] {
        let checked = check_linearizability(&conditional(&lines), 2, 3);
        assert_eq!(checked.keys, 1);
        assert_eq!(checked.violations.is_empty(), is_right, "{lines:?}");
    }
}

#[test]
fn a_search_with_too_many_states_gives_up() {
    let history = tell(&["A 1 20", "a 2 3", "B 4 5", "b 6 7", "a 8 9"]);
    let operations: Vec<_> = history.of_key(7).collect();
    let calls = super::calls(&operations);
    assert!(matches!(search(&calls), SearchResult::NotLinearizable(_)));
    assert_eq!(search_within(&calls, 3), SearchResult::GaveUp);
}

/// The search needs few states for a long history of many clients.
#[test]
fn work_grows_with_the_history_where_there_is_an_order() {
    let calls = register(&SeededRandom::new(5), 4_000, 8);
    assert_eq!(search_within(&calls, 40_000), SearchResult::Linearizable);
}

/// A number below `bound`. The bias of the remainder does not matter to a test.
fn below(random: &SeededRandom, bound: u64) -> u64 {
    random.next_u64() % bound
}

/// Calls on a real register. Up to about `width` of them run at the same time.
fn register(random: &SeededRandom, operations: usize, width: u64) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut state = RegisterState::Absent;
    let mut moment = 10 * width;
    for number in 0..operations {
        moment += 10;
        let value = RegisterState::Value(OperationId(number));
        let effect = match below(random, 7) {
            0 => Effect::Write(RegisterState::Absent),
            1 | 2 => Effect::Write(value),
            3 => Effect::Replace(state, value),
            4 => Effect::FindOther(value),
            _ => Effect::Read(state),
        };
        state = effect.after(state).unwrap();
        calls.push(Call {
            id: OperationId(number),
            effect,
            invoked: moment - below(random, 5 * width),
            completed_by: Some(moment + below(random, 5 * width)),
        });
    }
    calls
}

/// Whether some order of all calls fits, found by trying every order.
fn fits(calls: &[Call], left: &[usize], state: RegisterState) -> bool {
    let must = |call: &&usize| calls[**call].completed_by.is_some();
    let Some(first_end) = left
        .iter()
        .filter(must)
        .filter_map(|call| calls[*call].completed_by)
        .min()
    else {
        return true;
    };
    left.iter().enumerate().any(|(index, &call)| {
        let Call {
            effect, invoked, ..
        } = calls[call];
        let after = effect.after(state);
        let mut rest = left.to_vec();
        rest.remove(index);
        invoked <= first_end && after.is_some_and(|after| fits(calls, &rest, after))
    })
}

#[test]
fn the_search_agrees_with_trying_every_order() {
    let random = SeededRandom::new(11);
    let mut counts = [0, 0];
    for _ in 0..3_000 {
        let width = 1 + below(&random, 5);
        let mut calls = register(&random, 6, width);
        // Moments are unique, as in a history.
        for (index, call) in calls.iter_mut().enumerate() {
            call.invoked = call.invoked * 20 + index as u64;
            call.completed_by = call
                .completed_by
                .map(|completed_by| completed_by * 20 + 10 + index as u64);
        }
        if below(&random, 100) < 70 {
            // Damage: one call returns what another does, or may never take effect.
            let (one, other) = (
                below(&random, calls.len() as u64) as usize,
                below(&random, calls.len() as u64) as usize,
            );
            if let (Effect::Read(_), Effect::Read(found) | Effect::Write(found)) =
                (calls[one].effect, calls[other].effect)
            {
                calls[one].effect = Effect::Read(found);
            } else if calls[one].effect == Effect::Write(RegisterState::Absent) {
                calls[one].completed_by = None;
            }
        }
        let all: Vec<usize> = (0..calls.len()).collect();
        let expected = fits(&calls, &all, RegisterState::Absent);
        let found = search(&calls);
        assert_eq!(
            matches!(found, SearchResult::Linearizable),
            expected,
            "{calls:?}"
        );
        counts[usize::from(expected)] += 1;
    }
    assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
}
