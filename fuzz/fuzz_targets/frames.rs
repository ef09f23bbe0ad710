//! Arbitrary bytes as the frames of a peer: frames or an error, never a panic or a loop.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| node::fuzzing::frames(bytes));
