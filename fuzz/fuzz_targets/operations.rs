//! Arbitrary bytes as operations on a store: it holds what a map of newest versions does.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lsm::fuzzing::fuzz_operations(bytes));
