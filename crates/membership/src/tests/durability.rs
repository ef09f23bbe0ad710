//! What is durable before what, and what happens if the disk fails.

use super::*;
use lsm_testing::{Call, Fault};

/// What a node durably remembers of the peer with this name.
fn remembered(membership: &Membership, name: &str) -> Option<Remembered> {
    membership.durably_remembered(id_of(name))
}

#[test]
fn a_connection_is_used_only_once_the_peer_is_durably_remembered() {
    let folder = Folder::new();
    let node = folder.open(1);
    let is_used = record(&node, "b", &hello(2), None);
    assert_eq!(*is_used.lock().unwrap(), None);
    assert_eq!(remembered(&node, "b"), None, "the peer is not told before");
    assert_eq!(remembered(&folder.after_crash().open(1), "b"), None);
    folder.executor.run_all_due();
    assert_eq!(*is_used.lock().unwrap(), Some(true));
    let known = Some(Remembered {
        store_id: 2,
        start: 2,
        acknowledged: 0,
    });
    assert_eq!(remembered(&node, "b"), known);
    assert_eq!(remembered(&folder.after_crash().open(1), "b"), known);
    // The second time, there is nothing to wait for.
    let is_used = record(&node, "b", &hello(2), known);
    assert_eq!(*is_used.lock().unwrap(), Some(true));
    // The next start has to become durable again.
    let next = Hello {
        starts: [2, 5].into(),
        ..hello(2)
    };
    let is_used = record(&node, "b", &next, known);
    assert_eq!(*is_used.lock().unwrap(), None);
}

#[test]
fn a_connection_is_not_used_if_the_write_fails_and_the_write_is_retried() {
    for failing in [Call::Write, Call::Sync, Call::Rename, Call::SyncFolder] {
        let folder = Folder::new();
        let node = folder.open(1);
        assert_eq!(folder.record(&node, "b", &hello(2), None), Some(true));
        let fault = Fault::at(0, std::io::ErrorKind::StorageFull);
        folder
            .disk
            .arm(fault.only(move |call, _| call == failing).lasting());
        assert_eq!(folder.record(&node, "c", &hello(3), None), Some(false));
        assert!(folder.disk.failed() > 0, "{failing:?}");
        // A second handshake waits for the next attempt to write.
        assert_eq!(folder.record(&node, "c", &hello(3), None), None);
        // A peer that is durably remembered already does not wait.
        assert_eq!(folder.record(&node, "b", &hello(2), None), Some(true));
        folder.disk.heal();
        folder.executor.run_until_idle();
        assert_eq!(folder.record(&node, "c", &hello(3), None), Some(true));
        let after = folder.after_crash().open(1);
        assert_eq!(remembered(&after, "c").unwrap().store_id, 3, "{failing:?}");
    }
}

#[test]
fn nodes_start_and_meet_on_full_disks() {
    let [a, b, c] = voters();
    for folder in [&a, &b, &c] {
        folder.memory.set_capacity(folder.memory.used_bytes());
        let full = folder.memory.create(Path::new("/data/more")).unwrap();
        assert!(full.write_all_at(b"more", 0).is_err(), "it is full");
    }
    for _ in 0..20 {
        let (a, b, c) = (start("a", &a, 1), start("b", &b, 2), start("c", &c, 3));
        for (one, other) in [(&a, &b), (&a, &c), (&b, &c)] {
            assert!(shake_hands(one, other));
        }
        assert_eq!(a.word(), "voter");
    }
}

#[test]
fn after_a_crash_in_any_write_the_file_opens() {
    for at in 0.. {
        let folder = Folder::new();
        let node = folder.open(1);
        let error = std::io::ErrorKind::Other;
        folder
            .disk
            .arm(Fault::at(at, error).lasting().with_short_writes());
        folder.record(&node, "b", &hello(2), None);
        let was_met = folder.disk.failed() > 0;
        for keep in [false, true] {
            let crashed = Folder::on(folder.memory.crash_clone(&mut |_| keep));
            crashed.open(1);
        }
        if !was_met {
            assert!(at > 3, "the write made calls that can fail");
            return;
        }
    }
}

#[test]
fn a_closed_membership_writes_no_more() {
    let folder = Folder::new();
    let node = folder.open(1);
    node.close();
    assert_eq!(folder.record(&node, "b", &hello(2), None), Some(false));
    assert_eq!(remembered(&folder.after_crash().open(1), "b"), None);
}

#[test]
fn a_write_that_comes_after_the_last_one_is_no_error() {
    let folder = Folder::new();
    let membership = folder.open(1);
    let is_durable = record(&membership, "b", &hello(2), None);
    assert!(membership.close());
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::ERROR)
        .with_writer(|| -> std::io::Sink { panic!("an error is logged") })
        .finish();
    tracing::subscriber::with_default(subscriber, || folder.executor.run_until_idle());
    assert_eq!(*is_durable.lock().unwrap(), Some(false));
}
