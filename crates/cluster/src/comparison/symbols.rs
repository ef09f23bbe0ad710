//! Rateless set reconciliation: which items do only I have, which only you?
//!
//! The algorithm is Yang, Gilad and Alizadeh, "Practical Rateless Set
//! Reconciliation" (SIGCOMM 2024), a descendant of invertible Bloom lookup
//! tables. A node turns its set into an endless list of **symbols**. Symbol 0
//! sums up all items, later symbols fewer and fewer of them; which ones follows
//! from an item's hash. The other node makes the same symbols of its own set and
//! subtracts: what both have cancels out. A difference that holds a single item
//! gives it away, it is taken out of all other symbols, and so on until nothing
//! is left. Some 1.4 symbols an item of the difference are enough, however large
//! the sets are. The size of the difference need not be known before: the first symbols
//! tell about how large it is, and then the others are asked for in steps that waste few
//! ([`Decoder::symbols_to_ask`]).
//!
//! Hashes have 32 or 64 bits, so very rarely a wrong item is decoded.
//! The caller checks the result: its own digest with the difference applied must
//! be the other node's digest.

use super::difference::Difference;
use super::digest::Item;
use base::Timestamp;
use std::ops::Range;

/// The seed of the hash that decides which symbols an item is part of.
const PLACEMENT_SEED: u64 = 1;
/// The seed of the hash that tells a single item from a sum of several.
const CHECK_SEED: u64 = 2;

/// The symbols that are asked for first: enough for a handful of items.
const SYMBOLS_FIRST: u32 = 8;
/// How many symbols an item of a difference needs at least, about: most differences need
/// some more.
const SYMBOLS_AN_ITEM: f64 = 1.3;
/// A step that is not known to be enough brings this part of the symbols so far.
const STEP_PART: u32 = 16;

/// The sum over some of the items of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Symbol {
    /// The exclusive or of the key hashes.
    pub key_hashes: u64,
    /// The exclusive or of the timestamps.
    pub timestamps: u64,
    /// The exclusive or of the content hashes.
    pub content_hashes: u32,
    /// The exclusive or of the check hashes.
    pub checks: u32,
    /// The number of items.
    pub items: i32,
}

impl Symbol {
    /// The bytes of a symbol on the wire.
    pub const BYTES: usize = 28;

    fn toggle(&mut self, item: Item, sign: i32) {
        self.key_hashes ^= item.key_hash;
        self.timestamps ^= item.timestamp.as_u64();
        self.content_hashes ^= item.content_hash;
        self.checks ^= check_of(item);
        self.items = self.items.wrapping_add(sign);
    }

    fn subtract(&mut self, other: &Self) {
        self.key_hashes ^= other.key_hashes;
        self.timestamps ^= other.timestamps;
        self.content_hashes ^= other.content_hashes;
        self.checks ^= other.checks;
        self.items = self.items.wrapping_sub(other.items);
    }

    /// The item, if the symbol is the sum of a single one.
    fn single(&self) -> Option<Item> {
        let item = Item {
            key_hash: self.key_hashes,
            timestamp: Timestamp::from_u64(self.timestamps),
            content_hash: self.content_hashes,
        };
        (matches!(self.items, 1 | -1) && self.checks == check_of(item)).then_some(item)
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn check_of(item: Item) -> u32 {
    item.hash(CHECK_SEED) as u32
}

/// The numbers of the symbols that an item is part of, in ascending order: 0
/// first, then ever sparser. Symbol `n` holds an item with a probability of
/// about `1 / (1 + n / 2)`.
struct Placement {
    random: u64,
    next: u64,
}

impl Placement {
    fn of(item: Item) -> Self {
        Self {
            // An odd number, so that the generator never gets stuck.
            random: item.hash(PLACEMENT_SEED) | 1,
            next: 0,
        }
    }
}

impl Iterator for Placement {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let number = self.next;
        // A multiplicative generator, as in the authors' own program.
        self.random = self.random.wrapping_mul(0xda94_2042_e4dd_58b5);
        let uniform = (self.random as f64 + 1.0) / 2f64.powi(64);
        let gap = (number as f64 + 1.5) * (1.0 / uniform.sqrt() - 1.0);
        // The conversion saturates: such an item is in no further symbol that anybody asks for.
        self.next = number.saturating_add((gap.ceil() as u64).max(1));
        Some(number)
    }
}

/// The symbols with these numbers of a set of items.
#[must_use]
pub fn symbols_of(items: impl IntoIterator<Item = Item>, numbers: Range<u32>) -> Vec<Symbol> {
    let mut symbols = vec![Symbol::default(); numbers.len()];
    for item in items {
        add_to(&mut symbols, &numbers, item, 1);
    }
    symbols
}

/// Adds an item to those of its symbols whose numbers are asked for.
fn add_to(symbols: &mut [Symbol], numbers: &Range<u32>, item: Item, sign: i32) {
    let (start, end) = (u64::from(numbers.start), u64::from(numbers.end));
    let placed = Placement::of(item).take_while(|number| *number < end);
    for number in placed.skip_while(|number| *number < start) {
        if let Some(symbol) = symbols.get_mut((number - start) as usize) {
            symbol.toggle(item, sign);
        }
    }
}

/// Finds the difference between this node's set and a set of which it receives symbols.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Mine minus theirs, by number, without what was found.
    symbols: Vec<Symbol>,
    difference: Difference,
}

impl Decoder {
    /// A decoder that has no symbols yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of symbols received, which is the number of the next one to ask for.
    #[must_use]
    pub fn symbols(&self) -> u32 {
        self.symbols.len() as u32
    }

    /// How many symbols to ask for next. The first steps double what there is, up to what the
    /// difference most likely needs. From there on the steps are short, because what comes
    /// behind the last symbol that is needed is wasted.
    #[must_use]
    pub fn symbols_to_ask(&self) -> u32 {
        let known = self.symbols();
        let likely = (SYMBOLS_AN_ITEM * self.items_likely()).ceil() as u32;
        let to_likely = likely.saturating_sub(known).min(known);
        let least = match known {
            0 => SYMBOLS_FIRST,
            _ => SYMBOLS_FIRST / 2,
        };
        to_likely.max(known / STEP_PART).max(least)
    }

    /// About how many items the two sets do not share. Symbol 0 tells by how many one set has
    /// more than the other. In each later symbol the numbers of items of both sides differ
    /// from the share of that by chance, and more so the more there are.
    fn items_likely(&self) -> f64 {
        let Some(first) = self.symbols.first() else {
            return 0.0;
        };
        let more = f64::from(first.items);
        let (mut squares, mut variances) = (0.0, 0.0);
        for (number, symbol) in self.symbols.iter().enumerate().skip(1) {
            let probability = 1.0 / (1.0 + number as f64 / 2.0);
            let deviation = f64::from(symbol.items) - more * probability;
            squares += deviation * deviation;
            variances += probability * (1.0 - probability);
        }
        let left = if variances > 0.0 {
            squares / variances
        } else {
            0.0
        };
        self.difference.len() as f64 + left.max(more.abs())
    }

    /// Takes the next symbols of the other set; `mine` is the set at hand, the
    /// same each time. Gives the difference once it is known.
    pub fn take(
        &mut self,
        mine: impl IntoIterator<Item = Item>,
        theirs: &[Symbol],
    ) -> Option<&Difference> {
        let first = self.symbols.len();
        let numbers = first as u32..(first + theirs.len()) as u32;
        let mut fresh = symbols_of(mine, numbers.clone());
        for (fresh, theirs) in fresh.iter_mut().zip(theirs) {
            fresh.subtract(theirs);
        }
        for item in &self.difference.only_mine {
            add_to(&mut fresh, &numbers, *item, -1);
        }
        for item in &self.difference.only_theirs {
            add_to(&mut fresh, &numbers, *item, 1);
        }
        self.symbols.append(&mut fresh);
        self.peel(first);
        // All items that are not found yet are part of symbol 0.
        let is_done = self.symbols.first().is_some_and(Symbol::is_empty);
        is_done.then_some(&self.difference)
    }

    /// Takes items out that are alone in a symbol, as long as there are any.
    /// Symbols before `first` hold none.
    fn peel(&mut self, first: usize) {
        let mut candidates: Vec<usize> = (first..self.symbols.len()).rev().collect();
        // Each item that comes out empties a symbol for good. One that a collision
        // let out falsely may not, so the number of items is bounded.
        let most = self.symbols.len();
        while let Some(number) = candidates.pop() {
            let Some(symbol) = self.symbols.get(number) else {
                continue;
            };
            let Some(item) = symbol.single() else {
                continue;
            };
            if self.difference.len() >= most {
                return;
            }
            let sign = symbol.items;
            match sign {
                1 => self.difference.only_mine.push(item),
                _ => self.difference.only_theirs.push(item),
            }
            let end = self.symbols.len() as u64;
            for number in Placement::of(item).take_while(|number| *number < end) {
                let number = number as usize;
                if let Some(symbol) = self.symbols.get_mut(number) {
                    symbol.toggle(item, -sign);
                    candidates.push(number);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn random_set(random: &mut fastrand::Rng, items: usize) -> BTreeSet<Item> {
        (0..items)
            .map(|_| Item {
                key_hash: random.u64(..),
                timestamp: Timestamp::from_u64(random.u64(..)),
                content_hash: random.u32(..),
            })
            .collect()
    }

    /// Asks for symbols as a node does, and gives the difference with the number of symbols
    /// that it took.
    fn reconcile(mine: &BTreeSet<Item>, theirs: &BTreeSet<Item>) -> (Difference, u32) {
        let mut decoder = Decoder::new();
        loop {
            let next = decoder.symbols();
            let end = next + decoder.symbols_to_ask();
            let batch = symbols_of(theirs.iter().copied(), next..end);
            if let Some(difference) = decoder.take(mine.iter().copied(), &batch) {
                let difference = difference.clone();
                return (difference, decoder.symbols());
            }
            assert!(decoder.symbols() < 100_000, "no end");
        }
    }

    #[test]
    fn finds_exactly_the_difference() {
        let mut random = fastrand::Rng::with_seed(1);
        for (shared, mine, theirs) in [
            (0, 0, 0),
            (0, 1, 0),
            (0, 0, 1),
            (5, 0, 0),
            (5, 1, 1),
            (1000, 4, 4),
            (1000, 0, 7),
            (1000, 200, 100),
            (0, 500, 0),
        ] {
            let shared = random_set(&mut random, shared);
            let only_mine = random_set(&mut random, mine);
            let only_theirs = random_set(&mut random, theirs);
            let mine = shared.union(&only_mine).copied().collect();
            let theirs = shared.union(&only_theirs).copied().collect();
            let (difference, _) = reconcile(&mine, &theirs);
            assert_eq!(
                difference.only_mine.into_iter().collect::<BTreeSet<_>>(),
                only_mine
            );
            assert_eq!(
                difference.only_theirs.into_iter().collect::<BTreeSet<_>>(),
                only_theirs
            );
        }
    }

    #[test]
    fn versions_of_one_key_come_out_on_both_sides() {
        let mut random = fastrand::Rng::with_seed(2);
        let mine = random_set(&mut random, 300);
        let older = *mine.iter().nth(17).unwrap();
        let newer = Item {
            timestamp: Timestamp::from_u64(older.timestamp.as_u64() + 1),
            ..older
        };
        let mut theirs = mine.clone();
        theirs.remove(&older);
        theirs.insert(newer);
        let (difference, _) = reconcile(&mine, &theirs);
        assert_eq!(difference.only_mine, [older]);
        assert_eq!(difference.only_theirs, [newer]);
    }

    #[test]
    fn the_newest_version_goes_whichever_way_it_is_missing() {
        let item = |key_hash, timestamp, content_hash| Item {
            key_hash,
            timestamp: Timestamp::from_u64(timestamp),
            content_hash,
        };
        let difference = Difference {
            // Absent there; newer here; older here; another content of one timestamp.
            only_mine: vec![item(1, 5, 1), item(2, 7, 1), item(3, 5, 1), item(4, 5, 1)],
            // 5 is absent here; of 6 this node keeps a newer version of fewer copies.
            only_theirs: vec![
                item(2, 5, 1),
                item(3, 7, 1),
                item(4, 5, 2),
                item(5, 5, 1),
                item(6, 5, 1),
            ],
        };
        let kept = |key_hash| match key_hash {
            2 => Some(item(2, 7, 1)),
            3 => Some(item(3, 5, 1)),
            4 => Some(item(4, 5, 1)),
            6 => Some(item(6, 9, 1)),
            _ => None,
        };
        let exchange = difference.exchange(kept);
        assert_eq!(exchange.send, [1, 2, 4, 6]);
        assert_eq!(exchange.fetch, [3, 4, 5]);
    }

    #[test]
    fn symbols_needed_follow_the_difference_and_not_the_sets() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut total = 0;
        for _ in 0..100 {
            let shared = random_set(&mut random, 4000);
            let mut theirs = shared.clone();
            theirs.append(&mut random_set(&mut random, 8));
            total += reconcile(&shared, &theirs).1;
        }
        assert!(
            (800..2400).contains(&total),
            "{total} symbols for 800 items"
        );
    }

    #[test]
    fn few_symbols_are_asked_for_in_vain() {
        let mut random = fastrand::Rng::with_seed(6);
        for (mine, theirs, most) in [
            (0, 16, 2.0),
            (8, 8, 2.0),
            (64, 64, 1.7),
            (0, 128, 1.7),
            (250, 250, 1.55),
            (0, 500, 1.55),
            (2000, 100, 1.55),
        ] {
            let (mut total, mut steps) = (0, 0);
            for _ in 0..20 {
                let shared = random_set(&mut random, 2000);
                let mut one = random_set(&mut random, mine);
                let mut other = random_set(&mut random, theirs);
                one.extend(&shared);
                other.extend(&shared);
                let mut decoder = Decoder::new();
                loop {
                    let next = decoder.symbols();
                    let end = next + decoder.symbols_to_ask();
                    let symbols = symbols_of(other.iter().copied(), next..end);
                    steps += 1;
                    if decoder.take(one.iter().copied(), &symbols).is_some() {
                        break;
                    }
                }
                total += decoder.symbols();
            }
            let an_item = f64::from(total) / 20.0 / (mine + theirs) as f64;
            println!(
                "{mine} and {theirs}: {an_item:.2} symbols an item, {} steps",
                steps / 20
            );
            assert!(an_item < most, "{mine} and {theirs}: {an_item}");
            assert!(steps < 20 * 16, "{mine} and {theirs}: {steps} steps");
        }
    }

    #[test]
    fn symbols_asked_for_in_parts_are_those_asked_for_at_once() {
        let mut random = fastrand::Rng::with_seed(4);
        let set = random_set(&mut random, 50);
        let whole = symbols_of(set.iter().copied(), 0..40);
        let mut parts = symbols_of(set.iter().copied(), 0..13);
        parts.extend(symbols_of(set.iter().copied(), 13..40));
        assert_eq!(whole, parts);
    }

    #[test]
    fn nonsense_never_ends_in_a_panic_or_without_an_end() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..200 {
            let mine = random_set(&mut random, 20);
            let mut decoder = Decoder::new();
            for _ in 0..10 {
                let theirs: Vec<Symbol> = (0..8)
                    .map(|_| Symbol {
                        key_hashes: random.u64(..),
                        timestamps: random.u64(..),
                        content_hashes: random.u32(..),
                        checks: random.u32(..),
                        items: random.i32(-2..2),
                    })
                    .collect();
                decoder.take(mine.iter().copied(), &theirs);
            }
            assert!(decoder.difference.len() <= 80);
        }
    }
}
