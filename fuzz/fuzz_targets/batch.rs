//! Arbitrary bytes as the body of a batch: operations or refusals, in whatever pieces it comes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| server::fuzzing::batch(bytes));
