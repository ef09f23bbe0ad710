//! Arbitrary bytes as the file that holds the ceiling of stamps: it is read or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| node::fuzzing::ceiling(bytes));
