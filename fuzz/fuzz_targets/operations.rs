//! Arbitrary bytes as operations on a store, checked against a map of the newest versions.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lsm_testing::fuzz_operations(bytes));
