//! Arbitrary bytes as the file `REPAIR`: an answer that stays the same, or an error.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| node::fuzzing::repair_file(bytes));
