//! Arbitrary bytes as the value of an `Authorization` field: a token, or none.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tokens::fuzzing::authorization(bytes));
