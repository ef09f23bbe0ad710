//! Arbitrary bytes as a condition and, behind the first zero byte, a value: an error that points at
//! its place, or the same answer twice.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|byte| *byte == 0);
    let (text, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
    if let Ok(text) = std::str::from_utf8(text) {
        let _ = query::fuzzing::expression(text, rest.get(1..).unwrap_or_default());
    }
});
