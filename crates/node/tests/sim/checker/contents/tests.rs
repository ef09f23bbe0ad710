//! Histories by hand, told as pictures, and the search against every order.
//!
//! A picture is a line for each operation: what it did, and from which moment
//! to which. So `"A 1 4"` put the value A between the moments 1 and 4, `"a 5 6"`
//! found it, `"- 7 8"` deleted, `"0 9 10"` found nothing. `"A 1 *"` was never
//! acknowledged.

use super::search::{Call, Effect, Found, State, search, search_within};
use super::{Judgement, judge};
use crate::checker::Promise;
use crate::dice::Dice;
use crate::history::{Action, Content, History, Number, Outcome, Question};
use base::Timestamp;

const PUT: Action = Action::Put { ttl_seconds: None };

/// A line of a picture: what, since when, and until when.
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

/// Tells a picture as a history of one key with the pair 2/3. Versions rise
/// with the places of their puts.
fn tell(picture: &[&str]) -> History {
    let lines = lines(picture);
    let number_of = |value: char| {
        let put = |line: &Line| line.what == value.to_ascii_uppercase();
        Number(lines.iter().position(put).unwrap())
    };
    let question = |action| Question {
        client: 0,
        node: 0,
        key: 7,
        action,
        ack: 2,
        from: 3,
    };
    let mut history = History::default();
    let mut moments: Vec<(u64, bool, usize)> = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        moments.push((line.from, true, place));
        moments.extend(line.until.map(|until| (until, false, place)));
    }
    moments.sort_unstable();
    let mut numbers = vec![Number(0); lines.len()];
    for (_, is_question, place) in moments {
        let what = lines[place].what;
        if is_question {
            let action = match what {
                'A'..='Z' => PUT,
                '-' => Action::Delete,
                _ => Action::Get,
            };
            numbers[place] = history.ask(question(action), 0);
            continue;
        }
        let version = |number: usize| Timestamp::from_u64(number as u64 + 1);
        let outcome = match what {
            'A'..='Z' | '-' => Outcome::Written {
                version: version(place),
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
        history.tell(numbers[place], outcome, 0);
    }
    // A value carries the number of its put, which is its line's place here.
    assert!(
        numbers
            .iter()
            .enumerate()
            .all(|(place, number)| place == number.0),
        "the lines of a picture are in the order of their questions"
    );
    history
}

#[track_caller]
fn holds(picture: &[&str]) {
    let expected = Judgement {
        keys: 1,
        ..Judgement::default()
    };
    assert_eq!(judge(&tell(picture), 2, 3), expected, "{picture:?}");
}

/// No order can be found, and the last operation shown is this line.
#[track_caller]
fn breaks(picture: &[&str], shown: usize) {
    let judgement = judge(&tell(picture), 2, 3);
    let [violation] = &judgement.violations[..] else {
        panic!("{picture:?}: {judgement:?}");
    };
    assert_eq!(violation.promise, Promise::Linearizable);
    assert_eq!(violation.operations.last(), Some(&Number(shown)));
}

#[test]
fn one_thing_after_another() {
    holds(&[
        "0 1 2", "A 3 4", "a 5 6", "- 7 8", "0 9 10", "B 11 12", "b 13 14",
    ]);
    breaks(&["A 1 2", "0 3 4"], 1);
    breaks(&["A 1 2", "B 3 4", "a 5 6"], 2);
    breaks(&["A 1 2", "- 3 4", "a 5 6"], 2);
}

#[test]
fn things_at_the_same_time_are_in_any_order() {
    holds(&["A 1 10", "0 2 3", "a 4 5"]);
    holds(&["A 1 10", "B 2 9", "b 3 4", "a 5 6"]);
    holds(&["A 1 10", "B 2 9", "a 11 12"]);
    holds(&["A 1 10", "B 2 9", "b 11 12"]);
    breaks(&["A 1 10", "a 2 3", "0 4 5"], 2);
    breaks(&["A 1 10", "B 2 9", "a 11 12", "b 13 14"], 3);
}

/// The history that two stamps of one write can make: each read by itself finds
/// something newer than the one before it, by version.
#[test]
fn a_write_takes_effect_once() {
    breaks(&["A 1 20", "a 2 3", "B 4 5", "b 6 7", "a 8 9"], 4);
    holds(&["A 1 20", "a 2 3", "B 4 12", "b 6 7"]);
    // Another put of the same bytes would be another value: these are unique.
    holds(&["A 1 20", "B 4 5", "b 6 7", "a 8 9"]);
}

#[test]
fn a_write_that_was_not_acknowledged_takes_effect_once_at_any_time_or_never() {
    holds(&["A 1 *", "0 2 3", "B 4 5", "b 6 7"]);
    holds(&["A 1 *", "0 2 3", "B 4 5", "b 6 7", "a 8 9"]);
    breaks(&["A 1 *", "a 2 3", "B 4 5", "a 6 7"], 3);
    holds(&["A 1 2", "- 3 *", "a 4 5", "0 6 7"]);
    breaks(&["A 1 2", "- 3 *", "0 4 5", "a 6 7"], 3);
    // Two deletes can take effect twice.
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
    history.tell(Number(1), Outcome::Refused, 0);
    history.tell(Number(2), Outcome::Lost, 0);
    assert_eq!(judge(&history, 2, 3).violations, []);
}

#[test]
fn an_acknowledged_write_is_found_under_one_version() {
    let mut history = tell(&["A 1 2", "a 3 4"]);
    let found = Outcome::Found {
        version: Some(Timestamp::from_u64(99)),
        content: Content::Value(Number(0)),
        acks: 2,
    };
    history.tell(Number(1), found, 0);
    let judgement = judge(&history, 2, 3);
    assert_eq!(judgement.violations.len(), 1);
    assert_eq!(judgement.violations[0].promise, Promise::OneVersionAWrite);
}

#[test]
fn other_pairs_and_times_to_live_are_left_out() {
    let stale = ["A 1 2", "B 3 4", "a 5 6"];
    let ask = |history: &mut History, action, ack, from| {
        let question = Question {
            client: 0,
            node: 0,
            key: 7,
            action,
            ack,
            from,
        };
        history.ask(question, 0);
    };
    let mut history = tell(&stale);
    ask(&mut history, Action::Get, 1, 3);
    assert_eq!(judge(&history, 2, 3).violations.len(), 1);
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
        assert_eq!(judge(&history, 2, 3), Judgement::default());
    }
}

#[test]
fn a_search_that_takes_too_long_says_so() {
    let history = tell(&["A 1 20", "a 2 3", "B 4 5", "b 6 7", "a 8 9"]);
    let operations: Vec<_> = history.of_key(7).collect();
    let calls = super::calls(&operations);
    assert!(matches!(search(&calls), Found::NoOrder(_)));
    assert_eq!(search_within(&calls, 3), Found::TooMuchWork);
}

/// A long history of many clients is judged in one go.
#[test]
fn work_grows_with_the_history_where_there_is_an_order() {
    let calls = register(&Dice::new(5), 4_000, 8);
    assert_eq!(search_within(&calls, 40_000), Found::Order);
}

/// What operations on a real register find, of which some are in turn and
/// `width` at a time at most.
fn register(dice: &Dice, operations: usize, width: u64) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut state = State::Absent;
    let mut moment = 10 * width;
    for number in 0..operations {
        moment += 10;
        let effect = match dice.below(5) {
            0 => Effect::Write(State::Absent),
            1 | 2 => Effect::Write(State::Value(Number(number))),
            _ => Effect::Read(state),
        };
        if let Effect::Write(written) = effect {
            state = written;
        }
        calls.push(Call {
            number: Number(number),
            effect,
            from: moment - dice.below(5 * width),
            until: Some(moment + dice.below(5 * width)),
        });
    }
    calls
}

/// Whether some order of all operations fits, by trying each.
fn fits(calls: &[Call], left: &[usize], state: State) -> bool {
    let must = |call: &&usize| calls[**call].until.is_some();
    let Some(first_end) = left
        .iter()
        .filter(must)
        .filter_map(|call| calls[*call].until)
        .min()
    else {
        return true;
    };
    left.iter().enumerate().any(|(place, &call)| {
        let Call { effect, from, .. } = calls[call];
        let after = match effect {
            Effect::Write(written) => Some(written),
            Effect::Read(found) => (found == state).then_some(state),
        };
        let mut rest = left.to_vec();
        rest.remove(place);
        from <= first_end && after.is_some_and(|after| fits(calls, &rest, after))
    })
}

#[test]
fn the_search_agrees_with_trying_every_order() {
    let dice = Dice::new(11);
    let mut verdicts = [0, 0];
    for _ in 0..3_000 {
        let mut calls = register(&dice, 6, 1 + dice.below(5));
        // Moments are unique, as those of a history are.
        for (place, call) in calls.iter_mut().enumerate() {
            call.from = call.from * 20 + place as u64;
            call.until = call.until.map(|until| until * 20 + 10 + place as u64);
        }
        if dice.percent(70) {
            // Damaged: one finds what another does, or may never take effect.
            let (one, other) = (dice.place(calls.len()), dice.place(calls.len()));
            if let (Effect::Read(_), Effect::Read(found) | Effect::Write(found)) =
                (calls[one].effect, calls[other].effect)
            {
                calls[one].effect = Effect::Read(found);
            } else if calls[one].effect == Effect::Write(State::Absent) {
                calls[one].until = None;
            }
        }
        let all: Vec<usize> = (0..calls.len()).collect();
        let expected = fits(&calls, &all, State::Absent);
        let found = search(&calls);
        assert_eq!(matches!(found, Found::Order), expected, "{calls:?}");
        verdicts[usize::from(expected)] += 1;
    }
    assert!(verdicts.iter().all(|count| *count > 100), "{verdicts:?}");
}
