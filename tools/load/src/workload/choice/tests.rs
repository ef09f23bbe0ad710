use super::*;
use crate::plan::{Operation, Rate};
use std::collections::BTreeMap;

fn plan(keys: u64, key_choice: KeyChoice) -> Plan {
    Plan {
        keys,
        key_choice,
        connections: 4,
        ..Plan::new("http://127.0.0.1:1", Operation::Get, Rate::Max)
    }
}

fn hits(keys: u64, key_choice: KeyChoice, draws: u64) -> BTreeMap<u64, u64> {
    let chooser = KeyChooser::new(&plan(keys, key_choice));
    let (counters, mut random) = (KeyCounters::new(keys), fastrand::Rng::with_seed(5));
    let mut hits = BTreeMap::new();
    for _ in 0..draws {
        *hits
            .entry(chooser.choose(&counters, &mut random))
            .or_default() += 1;
    }
    hits
}

#[test]
fn sequential_choice_takes_keys_in_turn() {
    let hits = hits(10, KeyChoice::Sequential, 25);
    let expected = (0..10).map(|n| (n, if n < 5 { 3 } else { 2 }));
    assert!(hits.into_iter().eq(expected));
}

#[test]
fn uniform_choice_takes_keys_equally_often() {
    let hits = hits(100, KeyChoice::Uniform, 100_000);
    assert_eq!(hits.len(), 100);
    for (number, count) in hits {
        assert!((850..1_150).contains(&count), "{number}: {count}");
    }
}

#[test]
fn zipfian_choice_prefers_a_few_scattered_keys() {
    let hits = hits(100_000, KeyChoice::Zipfian, 100_000);
    let mut by_count: Vec<(u64, u64)> = hits.iter().map(|(n, count)| (*count, *n)).collect();
    by_count.sort_unstable_by(|a, b| b.cmp(a));
    // The first key takes 1 / zeta(100,000) of all requests, and the first 100
    // take about 40%.
    assert!((7_000..9_000).contains(&by_count[0].0), "{}", by_count[0].0);
    let first_hundred: u64 = by_count[..100].iter().map(|(count, _)| count).sum();
    assert!((37_000..47_000).contains(&first_hundred), "{first_hundred}");
    // The popular keys lie in both halves of the key space.
    let low = by_count[..100].iter().filter(|(_, n)| *n < 50_000).count();
    assert!((25..75).contains(&low), "{low}");
}

#[test]
fn latest_choice_follows_the_inserts() {
    let chooser = KeyChooser::new(&plan(1_000, KeyChoice::Latest));
    let (counters, mut random) = (KeyCounters::new(1_000), fastrand::Rng::with_seed(5));
    let newest = |random: &mut _| {
        let drawn = (0..1_000).map(|_| chooser.choose(&counters, random));
        drawn.max()
    };
    assert_eq!(newest(&mut random), Some(999));
    for _ in 0..100 {
        counters.insert();
    }
    // The last four inserts may still be in flight.
    assert_eq!(newest(&mut random), Some(1_095));
}
