//! Arbitrary bytes as the file of the timestamp bound: an answer or an error, never a panic or a loop.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| node::fuzzing::timestamp_bound(bytes));
