//! The codec of the hello.

use super::*;
use cluster::{PEER_STARTS_MAX, STARTS_MAX};

/// Where the hellos of earlier releases end: before the counts, the bounds, the starts of the peer,
/// the number of the cluster, and the list of members.
fn earlier_ends(hello: &[u8]) -> [usize; 5] {
    let before_list = hello.len() - ListReport::BYTES;
    let before_cluster = before_list - size_of::<u64>();
    let before_starts = before_cluster - 2 - 2 * size_of::<u64>();
    let before_bounds = before_starts - 2 * size_of::<u64>();
    let before_counts = before_bounds - 2 * size_of::<u64>();
    [
        before_counts,
        before_bounds,
        before_starts,
        before_cluster,
        before_list,
    ]
}

/// The payload of a hello.
fn encoded(hello: &Hello) -> Vec<u8> {
    let mut frame = Vec::new();
    hello.encode(&mut frame, &[7; 32]);
    payload(&frame).to_vec()
}

/// What this build reads in a hello.
fn decoded(hello: &[u8]) -> Result<Hello, Refusal> {
    Hello::decode(Protocol::OWN, hello).map(|(_, hello)| hello)
}

#[test]
fn a_hello_is_decoded_whole_or_not_at_all() {
    let hello = encoded(&example_hello());
    assert_eq!(decoded(&hello), Ok(example_hello()));
    let ends = earlier_ends(&hello);
    let [before_counts, ..] = ends;
    let is_end = |bytes: &usize| ends.contains(bytes);
    for bytes in (0..hello.len()).filter(|bytes| !is_end(bytes)) {
        let cut = decoded(&hello[..bytes]);
        assert_eq!(cut, Err(Refusal::MalformedHello), "{bytes}");
    }
    let name_end = before_counts - 2 - 16;
    let mut name = hello.clone();
    name[name_end - 1] = 0xff;
    assert_eq!(decoded(&name), Err(Refusal::MalformedHello), "no UTF-8");
    let mut no_starts = hello[..name_end].to_vec();
    no_starts.extend_from_slice(&[0, 0]);
    assert_eq!(decoded(&no_starts), Err(Refusal::MalformedHello));
    let mut too_many = hello[..ends[2]].to_vec();
    too_many.extend_from_slice(&(PEER_STARTS_MAX as u16 + 1).to_le_bytes());
    too_many.resize(too_many.len() + (PEER_STARTS_MAX + 1) * size_of::<u64>(), 0);
    assert_eq!(decoded(&too_many), Err(Refusal::MalformedHello));
}

#[test]
fn hellos_of_releases_that_say_less_are_read() {
    let hello = encoded(&example_hello());
    let [
        before_counts,
        before_bounds,
        before_starts,
        before_cluster,
        before_list,
    ] = earlier_ends(&hello);
    let mut expected = example_hello();
    expected.list = ListReport::default();
    assert_eq!(decoded(&hello[..before_list]), Ok(expected.clone()));
    expected.cluster = 0;
    assert_eq!(decoded(&hello[..before_cluster]), Ok(expected.clone()));
    expected.remembered_starts = [].into();
    assert_eq!(decoded(&hello[..before_starts]), Ok(expected.clone()));
    expected.gc_threshold = Timestamp::ZERO;
    assert_eq!(decoded(&hello[..before_bounds]), Ok(expected.clone()));
    expected.acknowledged = None;
    let remembered = expected.remembered.as_mut().unwrap();
    remembered.acknowledged = 0;
    assert_eq!(decoded(&hello[..before_counts]), Ok(expected));
}

#[test]
fn additions_of_later_releases_are_ignored() {
    let hello = encoded(&example_hello());
    let longer = [&hello[..], b"more"].concat();
    assert_eq!(decoded(&longer), Ok(example_hello()));
    let mut flags = hello.clone();
    flags[12] |= 0b1111_1000;
    assert_eq!(decoded(&flags), Ok(example_hello()));
    let mut replica_state = hello;
    replica_state[13] = 200;
    assert_eq!(
        decoded(&replica_state).unwrap().replica_state,
        ReplicaState::Starting
    );
}

/// Older releases read no longer one, and say more starts of their own than are remembered.
#[test]
fn a_hello_with_the_longest_name_and_the_most_starts_fits() {
    let ends = |starts: &[u64]| (starts.len(), starts.last().copied());
    let mut longest = example_hello();
    longest.remembered_starts = (0..500).collect();
    for (name_bytes, starts, remembered) in [(1024, 2_000, 102), (20, 2_000, 228), (1024, 10, 256)]
    {
        longest.name = "n".repeat(name_bytes);
        longest.starts = (0..starts).collect();
        let hello = encoded(&longest);
        assert!(hello.len() <= 10_240, "{}", hello.len());
        let hello = decoded(&hello).unwrap();
        let expected = (STARTS_MAX.min(starts as usize), Some(starts - 1));
        assert_eq!(ends(&hello.starts), expected);
        assert_eq!(ends(&hello.remembered_starts), (remembered, Some(499)));
    }
}
