//! The codec of the hello.

use super::*;
use cluster::STARTS_MAX;

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
    let before_bounds = hello.len() - 2 * size_of::<u64>();
    let before_counts = before_bounds - 2 * size_of::<u64>();
    let is_end = |bytes: &usize| [before_counts, before_bounds].contains(bytes);
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
}

#[test]
fn hellos_of_releases_that_do_not_count_writes_or_do_not_forget_are_read() {
    let hello = encoded(&example_hello());
    let before_bounds = hello.len() - 2 * size_of::<u64>();
    let before_counts = before_bounds - 2 * size_of::<u64>();
    let mut expected = example_hello();
    (expected.forgotten, expected.fence) = (Timestamp::ZERO, Timestamp::ZERO);
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
    flags[12] |= 0b1111_1100;
    assert_eq!(decoded(&flags), Ok(example_hello()));
    let mut standing = hello;
    standing[13] = 200;
    assert_eq!(decoded(&standing).unwrap().standing, Standing::Unconfirmed);
}

#[test]
fn a_hello_with_the_longest_name_and_the_most_starts_fits() {
    let mut longest = example_hello();
    longest.name = "n".repeat(1024);
    longest.starts = (0..2_000).collect();
    let hello = encoded(&longest);
    assert!(hello.len() <= HANDSHAKE_BYTES_MAX);
    let starts = decoded(&hello).unwrap().starts;
    assert_eq!((starts.len(), starts.last()), (STARTS_MAX, Some(&1_999)));
}
