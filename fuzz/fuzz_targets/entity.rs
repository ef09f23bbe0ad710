//! Arbitrary bytes as the line of an entity: what a client reads of it a node takes.
#![no_main]

libfuzzer_sys::fuzz_target!(|line: &[u8]| {
    if let Some(put) = api::fuzzing::entity(line) {
        assert!(
            server::fuzzing::operation(&put),
            "a node refuses what a client sends"
        );
    }
});
