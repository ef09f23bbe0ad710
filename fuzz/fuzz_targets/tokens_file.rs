//! Arbitrary bytes as a tokens file: tokens that are found again, or a refusal in one line.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tokens::fuzzing::tokens_file(bytes));
