//! Which node is the first replica of a key. The generator depends on no crate of the
//! store, so this is docs/reference/placement.md, once more; the golden vectors there hold the two
//! together.

use xxhash_rust::xxh3::xxh3_64;

/// The nodes that requests may go to, as places of keys.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    /// The hash of each node's name.
    name_hashes: Vec<u64>,
}

impl Placement {
    /// A placement over nodes with these names.
    pub(crate) fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let names = names.into_iter();
        Self {
            name_hashes: names.map(|name| xxh3_64(name.as_bytes())).collect(),
        }
    }

    /// The index of the node that comes first in the preference list of the key, of those that
    /// `is_eligible`; [`None`] if none is.
    pub(crate) fn owner(&self, key: &[u8], is_eligible: impl Fn(usize) -> bool) -> Option<usize> {
        let key_hash = xxh3_64(key);
        let nodes = self.name_hashes.iter().enumerate();
        nodes
            .filter(|(index, _)| is_eligible(*index))
            .max_by_key(|(_, name_hash)| weight(key_hash, **name_hash))
            .map(|(index, _)| index)
    }
}

/// The weight of a node for a key. The node of the greatest weight is the first replica.
fn weight(key_hash: u64, name_hash: u64) -> u64 {
    let bits = key_hash ^ name_hash;
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors: one on each line, as the page describes.
    fn vectors() -> impl Iterator<Item = (&'static str, &'static str)> {
        let page = include_str!("../../../../docs/reference/placement.md");
        let (_, vectors) = page.split_once("```vectors\n").unwrap();
        let (vectors, _) = vectors.split_once("```").unwrap();
        vectors.lines().map(|line| line.split_once(" = ").unwrap())
    }

    /// The bytes of a key that is written with percent escapes.
    fn decoded(text: &str) -> Vec<u8> {
        let mut parts = text.split('%');
        let mut bytes = parts.next().unwrap().as_bytes().to_vec();
        for part in parts {
            bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
            bytes.extend_from_slice(&part.as_bytes()[2..]);
        }
        bytes
    }

    #[test]
    fn the_golden_vectors_hold() {
        let mut checked = 0;
        for (what, expected) in vectors() {
            let words: Vec<&str> = what.split(' ').collect();
            match words[..] {
                ["hash", text] => {
                    assert_eq!(
                        format!("{:016x}", xxh3_64(&decoded(text))),
                        expected,
                        "{what}"
                    );
                }
                ["weight", key, name] => {
                    let weight = weight(xxh3_64(&decoded(key)), xxh3_64(name.as_bytes()));
                    assert_eq!(format!("{weight:016x}"), expected, "{what}");
                }
                ["replicas", key, "of", ref names @ ..] => {
                    let placement = Placement::new(names.iter().copied());
                    let mut preference_list: Vec<usize> = Vec::new();
                    while let Some(next) =
                        placement.owner(&decoded(key), |index| !preference_list.contains(&index))
                    {
                        preference_list.push(next);
                    }
                    let preference_list: Vec<&str> =
                        preference_list.iter().map(|index| names[*index]).collect();
                    assert_eq!(preference_list.join(" "), expected, "{what}");
                }
                _ => panic!("{what} is no vector"),
            }
            checked += 1;
        }
        assert!(checked > 20, "{checked} vectors");
    }
}
