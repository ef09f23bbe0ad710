//! Arbitrary bytes as the file of a table: an answer or an error, never a panic or a loop.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lsm::fuzzing::fuzz_table(bytes));
