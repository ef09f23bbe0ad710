//! Proof that coordination allocates nothing for up to eight replicas.

use base::{Entry, Expiry, NewerVersion, Timestamp};
use cluster::{Miss, Placement, ReplicaIndex, Replicas};
use cluster::{Read, ReadActions, ReadEvent, Round, Write, WriteActions, WriteEvent};

/// Runs `work`, and asserts that it allocates nothing.
#[track_caller]
fn allocates_nothing(work: impl FnOnce()) {
    let allocations = allocation_counter::measure(work);
    assert_eq!(allocations.count_total, 0);
}

#[test]
fn the_preference_list_of_a_key_allocates_nothing() {
    let names: Vec<String> = (0..20).map(|node| node.to_string()).collect();
    let placement = Placement::new(names.iter().map(String::as_str));
    allocates_nothing(|| assert_eq!(placement.preference_list(b"key", 8).len(), 8));
}

#[test]
fn a_write_with_two_rounds_and_hints_allocates_nothing() {
    let timestamp = Timestamp::from_u64;
    let stored = |round, replica, newer_version| WriteEvent::Stored {
        round,
        replica,
        newer_version,
    };
    allocates_nothing(|| {
        let mut actions = WriteActions::new();
        let replicas = Replicas::quorum(8);
        let mut write = Write::start(replicas, timestamp(1), |_| None, &mut actions);
        for replica in replicas.indexes().take(5) {
            actions.clear();
            write.step(
                stored(Round::FIRST, replica, NewerVersion::At(timestamp(9))),
                &mut actions,
            );
        }
        assert_eq!(actions.len(), 1);
        actions.clear();
        write.pushed(
            timestamp(10),
            |replica| (replica.as_u8() > 5).then_some(Miss::Refused),
            &mut actions,
        );
        for replica in replicas.indexes().take(5) {
            write.step(
                stored(Round::SECOND, replica, NewerVersion::None),
                &mut actions,
            );
        }
        actions.clear();
        write.step(WriteEvent::Deadline, &mut actions);
        assert_eq!(actions.len(), 2, "{actions:?}");
        assert_eq!(write.fates().count(), 8);
    });
}

#[test]
fn a_read_with_repairs_allocates_nothing() {
    let entry = Entry::value(b"key", Timestamp::from_u64(1), b"value", Expiry::NEVER, 8);
    allocates_nothing(|| {
        let mut actions = ReadActions::new();
        let replicas = Replicas::quorum(8);
        let mut read = Read::start(replicas, replicas.indexes(), &mut actions);
        let (replica, why) = (ReplicaIndex::new(0), Miss::Refused);
        read.step(ReadEvent::Missed { replica, why }, &mut actions);
        for replica in replicas.indexes().skip(1).take(5) {
            actions.clear();
            let entry = (replica.as_u8() == 5).then(|| entry.clone());
            let answered = ReadEvent::Answered {
                replica,
                entry,
                is_dead: false,
                gc_threshold: Timestamp::ZERO,
            };
            read.step(answered, &mut actions);
        }
        assert_eq!(actions.len(), 4, "{actions:?}");
        for replica in replicas.indexes().skip(1).take(4) {
            actions.clear();
            let newer_version = NewerVersion::None;
            read.step(
                ReadEvent::Repaired {
                    replica,
                    newer_version,
                },
                &mut actions,
            );
        }
        assert_eq!(actions.len(), 2, "{actions:?}");
    });
}
