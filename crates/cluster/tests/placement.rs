//! How evenly keys are spread, how few move, and that replica sets nest.

use cluster::{NodeId, Placement, PreferenceList};
use fastrand::Rng;

const KEYS: u64 = 1_000_000;
/// One key in this number is looked up with the eleventh node as well.
const MOVES_EVERY: u64 = 10;

fn names(count: usize) -> Vec<String> {
    (1..=count).map(|node| format!("node-{node}")).collect()
}

fn placement(names: &[String]) -> Placement {
    Placement::new(names.iter().map(String::as_str))
}

/// How many keys each of ten nodes holds, and how many an eleventh takes, when
/// each key has `from` replicas.
struct Shares {
    of_ten: [u64; 10],
    taken: u64,
}

/// Spreads keys of one shape with their first and their first two replicas.
fn spread(mut key_of: impl FnMut(u64, &mut Vec<u8>)) -> [Shares; 2] {
    let eleven_names = names(11);
    let (ten, eleven) = (placement(&eleven_names[..10]), placement(&eleven_names));
    let newcomer = NodeId::new(10);
    let mut shares = [0, 1].map(|_| Shares {
        of_ten: [0; 10],
        taken: 0,
    });
    let mut key = Vec::new();
    for number in 0..KEYS {
        key.clear();
        key_of(number, &mut key);
        let before = ten.preference_list(&key, 2);
        shares[0].of_ten[before[0].index()] += 1;
        shares[1].of_ten[before[0].index()] += 1;
        shares[1].of_ten[before[1].index()] += 1;
        if number % MOVES_EVERY != 0 {
            continue;
        }
        let after = eleven.preference_list(&key, 2);
        for (shares, from) in shares.iter_mut().zip(1..) {
            if let Some(index) = after[..from].iter().position(|node| *node == newcomer) {
                shares.taken += 1;
                // It moves the others back by one; no other node comes in.
                let mut others = before.clone();
                others.insert(index, newcomer);
                assert_eq!(after[..from], others[..from], "key {number}");
            } else {
                assert_eq!(after[..from], before[..from], "key {number}");
            }
        }
    }
    shares
}

/// Compares the shares with the contract.
#[track_caller]
fn check(shares: &[Shares; 2]) {
    for (Shares { of_ten, taken }, from) in shares.iter().zip(1..) {
        let greatest = of_ten.iter().fold(0, |most, share| most.max(*share)) as f64;
        let smallest = of_ten.iter().fold(KEYS, |least, share| least.min(*share)) as f64;
        let ratio = greatest / smallest;
        assert!(ratio <= 1.02, "from {from}: {ratio} in {of_ten:?}");
        let taken = (*taken * MOVES_EVERY) as f64 / (KEYS * from) as f64;
        assert!(
            (taken * 11.0 - 1.0).abs() < 0.05,
            "from {from}: the newcomer takes {taken}"
        );
    }
}

#[test]
fn numbers_spread_evenly() {
    check(&spread(|number, key| {
        key.extend_from_slice(number.to_string().as_bytes());
    }));
}

#[test]
fn words_with_a_common_prefix_spread_evenly() {
    check(&spread(|number, key| {
        key.extend_from_slice(b"tenant/4711/user/profile/picture/");
        key.extend_from_slice(format!("{number:012}").as_bytes());
    }));
}

#[test]
fn binary_counters_spread_evenly() {
    check(&spread(|number, key| {
        key.extend_from_slice(&number.to_be_bytes());
    }));
}

#[test]
fn random_keys_spread_evenly() {
    let mut rng = Rng::with_seed(1);
    check(&spread(|_, key| {
        key.extend((0..16).map(|_| rng.u8(..)));
    }));
}

#[test]
fn replica_sets_nest_whatever_the_order_of_the_list() {
    let mut rng = Rng::with_seed(2);
    for nodes in [1, 2, 3, 7, 8, 9, 30, 255] {
        let sorted = names(nodes);
        let mut shuffled: Vec<String> = sorted.clone();
        rng.shuffle(&mut shuffled);
        let (in_order, out_of_order) = (placement(&sorted), placement(&shuffled));
        for key in 0..20_u64 {
            let key = key.to_be_bytes();
            let whole = in_order.preference_list(&key, u8::MAX);
            assert_eq!(whole.len(), nodes);
            let mut distinct: PreferenceList = whole.clone();
            distinct.sort();
            distinct.dedup();
            assert_eq!(distinct.len(), nodes);
            for from in 0..=nodes as u8 {
                let first = in_order.preference_list(&key, from);
                assert_eq!(first[..], whole[..usize::from(from)]);
            }
            let named = |preference_list: &PreferenceList, names: &[String]| -> Vec<String> {
                let names = preference_list
                    .iter()
                    .map(|node| names[node.index()].clone());
                names.collect()
            };
            let elsewhere = out_of_order.preference_list(&key, u8::MAX);
            assert_eq!(named(&whole, &sorted), named(&elsewhere, &shuffled));
        }
    }
}

#[test]
fn nodes_of_the_same_name_are_both_in_the_preference_list() {
    let twins = Placement::new(["same", "same"]);
    let preference_list = twins.preference_list(b"key", 2);
    assert_eq!(preference_list[..], [NodeId::new(1), NodeId::new(0)]);
    assert_eq!(Placement::new([]).preference_list(b"key", 3).len(), 0);
}
