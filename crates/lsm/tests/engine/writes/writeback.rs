//! A failed writeback fails the writes that relied on it, although the system reports it
//! only once to each handle of the file.

use crate::common::{World, put, read};
use lsm::{Error, JobClass};
use lsm_testing::{BlockingWrite, HookedDisk, PATIENCE, SyncHook};
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;

/// Waits for the other thread of the test.
fn next(receiver: &Mutex<Receiver<()>>) {
    let waited = receiver.lock().unwrap().recv_timeout(PATIENCE);
    waited.expect("the other thread goes on");
}

/// The fill job syncs a segment at the same time as a commit, and gets the error first.
/// The commit must fail too.
#[test]
fn a_sync_aside_does_not_eat_the_error_of_a_commit() {
    let mut world = World::new();
    let disk = Arc::new(HookedDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&disk) as _;
    let engine = world.open();
    engine.write(put("a", 1, "before")).unwrap();

    let first_segment = World::folder().join("log-0000000000000001.wal");
    let committer = thread::current().id();
    let (memory, segment) = (Arc::clone(&world.memory), first_segment);
    let (arrive, arrived) = channel();
    let (fail, failing) = channel();
    let (tell, told) = channel();
    let (release, released) = channel();
    let [failing, told, released] = [failing, told, released].map(Mutex::new);
    disk.hook_syncs(
        Arc::new(move |path: &Path, sync: &dyn Fn() -> io::Result<()>| {
            if path != segment {
                return sync();
            }
            if thread::current().id() == committer {
                // The group is written; the kernel fails to write it back.
                memory.fail_writeback(&segment)?;
                fail.send(()).unwrap();
                next(&told);
                return sync();
            }
            arrive.send(()).unwrap();
            next(&failing);
            let result = sync();
            tell.send(()).unwrap();
            // The fill job has not reported the error when the commit's sync returns.
            next(&released);
            result
        }) as Arc<SyncHook>,
    );
    thread::scope(|scope| {
        scope.spawn(|| world.executor.run_class(JobClass::Log));
        next(&Mutex::new(arrived));
        let written = engine.write(put("a", 2, "after"));
        release.send(()).unwrap();
        assert!(
            matches!(written, Err(Error::Poisoned { .. })),
            "{written:?}"
        );
    });
    assert_eq!(read(&engine, "a").as_deref(), Some("before"));
}
