//! Golden cases of the merging of scans.
//!
//! Events: `scan A/F of N` begins, `keys A/F of N` without values; `R page [ITEM..] next KEY`,
//! `R page [ITEM..] end` and `R damaged next KEY` are pages of a node, `R missed WHY` says that
//! none comes; `R again KEY [ITEM..] next KEY` is the page of a node that was missing, asked for
//! from a key on. `preference KEY` tells the preference list, `missing` who is missing.
//!
//! An item is `KEY@TIMESTAMP` and what is not as usual: `!` the value is here, `x` deleted, `e`
//! expired, `cN` copies (usually three), `vN` another value.

use crate::script;
use base::{Entry, Expiry, Timestamp};
use cluster::pages::{MergeStep, PageItem, ScanMerge, ScanPage};
use cluster::{Fate, NodeId, Placement};

const NOW_UNIX_MS: u64 = 100;

struct Machine {
    merge: ScanMerge,
    placement: Placement,
    /// Where the page of each node begins that is awaited.
    starts: Vec<Vec<u8>>,
}

#[test]
fn scans_are_merged_as_told() {
    script::run("scan.txt", include_str!("../golden/scan.txt"), step);
}

fn step(machine: &mut Option<Machine>, event: &str) -> String {
    let words: Vec<&str> = event.split(' ').collect();
    if let [what @ ("scan" | "keys"), pair, "of", nodes] = words[..] {
        let nodes: usize = nodes.parse().unwrap();
        let names = ["a", "b", "c", "d", "e"];
        let placement = Placement::new(names[..nodes].iter().copied());
        let machine = machine.insert(Machine {
            merge: ScanMerge::new(
                script::replicas(pair),
                placement.ids(),
                b"a",
                what == "scan",
            ),
            placement,
            starts: vec![b"a".to_vec(); nodes],
        });
        return go_on(machine);
    }
    let machine = machine.as_mut().unwrap();
    match words[..] {
        ["preference", key] => {
            let nodes = machine.placement.nodes() as u8;
            let preference_list = machine.placement.preference_list(key.as_bytes(), nodes);
            return preference_list
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" ");
        }
        ["missing"] => {
            let missing = machine.merge.missing();
            let words = missing.map(|(node, why)| format!("{node} {}", Fate::Missed(why).word()));
            return words.collect::<Vec<_>>().join(", ");
        }
        _ => {}
    }
    let node = NodeId::new(words[0].parse().unwrap());
    match words[1..] {
        ["missed", why] => machine.merge.missed(node, script::miss(why)),
        ["rejoins"] => machine.merge.rejoin(node),
        ["again", start, ref rest @ ..] => {
            let start = start.as_bytes().to_vec();
            let loaded = machine.merge.load(node, &start, page(rest));
            if loaded != Ok(true) {
                return format!("{loaded:?}");
            }
        }
        ref rest => {
            let start = machine.starts[node.index()].clone();
            if let Err(what) = machine.merge.load(node, &start, page(rest)) {
                return what.to_owned();
            }
        }
    }
    go_on(machine)
}

/// Steps until it waits, and tells what it does.
fn go_on(machine: &mut Machine) -> String {
    let mut told = Vec::new();
    loop {
        let text = |key: &[u8]| String::from_utf8_lossy(key).replace('\0', ".");
        let version = |entry: &Entry| format!("{}@{}", text(entry.key()), entry.timestamp());
        match machine.merge.step(&machine.placement, NOW_UNIX_MS) {
            MergeStep::Tell(entry) => told.push(("tell", version(&entry))),
            MergeStep::Fetch(node, item) => {
                told.push(("fetch", format!("{} from {node}", version(&item.entry))));
            }
            MergeStep::Read(key) => told.push(("read", text(&key))),
            MergeStep::PassedOver => {}
            MergeStep::Await(node, start) => {
                told.push(("await", format!("{node} from {}", text(&start))));
                machine.starts[node.index()] = start;
                return script::tell(told);
            }
            MergeStep::TooFewNodes => {
                told.push(("too few nodes", String::new()));
                return script::tell(told);
            }
            MergeStep::End => {
                told.push(("end", String::new()));
                return script::tell(told);
            }
        }
    }
}

fn page(words: &[&str]) -> ScanPage {
    let (items, next) = match words {
        [items @ .., "end"] => (items, None),
        [items @ .., "next", next] => (items, Some(next.as_bytes().to_vec())),
        _ => panic!("unknown: {words:?}"),
    };
    let (items, counts) = match items {
        ["damaged"] => (&[][..], false),
        ["page", items @ ..] => (items, true),
        items => (items, true),
    };
    ScanPage {
        items: items.iter().map(|word| item(word)).collect(),
        next,
        counts,
    }
}

fn item(word: &str) -> PageItem {
    let (key, rest) = word.split_once('@').unwrap();
    let end = rest.find(|letter: char| !letter.is_ascii_digit());
    let (timestamp, mut traits) = rest.split_at(end.unwrap_or(rest.len()));
    let timestamp = Timestamp::from_u64(timestamp.parse().unwrap());
    let (mut copies, mut value, mut expiry) = (3, 1, Expiry::NEVER);
    let (mut is_deleted, mut has_value) = (false, false);
    while let Some(letter) = traits.chars().next() {
        traits = &traits[1..];
        let mut number = || {
            let (digit, rest) = traits.split_at(1);
            traits = rest;
            digit.parse::<u8>().unwrap()
        };
        match letter {
            '!' => has_value = true,
            'x' => is_deleted = true,
            'e' => expiry = Expiry::at_unix_ms(NOW_UNIX_MS),
            'c' => copies = number(),
            'v' => value = number(),
            _ => panic!("unknown: {word}"),
        }
    }
    let entry = if is_deleted {
        Entry::tombstone(key.as_bytes(), timestamp, copies)
    } else {
        Entry::value(key.as_bytes(), timestamp, &[value], expiry, copies)
    };
    PageItem::of(entry.lend(), has_value)
}
