//! A store on a real disk under many signals, more than a profiler sends. Each may
//! interrupt a system call. None may fail a write, poison the store, or keep a call from
//! ending.
//!
//! The kernel delivers a signal for the process to the main thread if it can. So this is
//! a program without the test harness, and its main thread does the work.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on panics, and this one is about the real world"
)]

mod common;

use common::{World, put, read};
use lsm::{Disk, Engine, Environment, RealDisk};
use lsm_testing::{BlockingWrite, Ends};
use profile::{ProfileKind, Recording};
use rustix::process::{Signal, getpid, kill_process};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The pause between two signals. The kernel's timer cannot have so short a period.
const PERIOD: Duration = Duration::from_micros(100);

fn main() {
    // The recording installs the real handler.
    let recording = Recording::start(ProfileKind::Cpu).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                kill_process(getpid(), Signal::PROF).unwrap();
                std::thread::sleep(PERIOD);
            }
        });
        // Also when the work panics, because the scope would wait for ever otherwise.
        let _ends = Ends(&is_over);
        space_is_allocated();
        a_store_works();
    });
    let signals = recording.finish().total();
    assert!(signals > 100, "only {signals} signals came");
}

/// On tmpfs, where an interrupted call undoes its work.
fn space_is_allocated() {
    const BYTES: u64 = 48 << 20;
    let temporary = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = temporary.path().join("space");
    let file = RealDisk::default().create(&path).unwrap();
    file.allocate(0, BYTES).unwrap();
    assert_eq!(file.len().unwrap(), BYTES);
}

fn a_store_works() {
    let temporary = tempfile::tempdir().unwrap();
    let world = World::new();
    let open = || {
        let environment = Environment {
            folder: temporary.path().to_owned(),
            disk: Arc::new(RealDisk::default()),
            ..world.environment()
        };
        Engine::open(environment, world.options.clone())
            .expect("the store opens")
            .0
    };
    let key = |number: u64| format!("key-{number:04}");
    let engine = open();
    for number in 0..500 {
        let value = number.to_string().repeat(50);
        engine.write(put(&key(number), number + 1, &value)).unwrap();
        world.executor.run_all_due();
    }
    engine.flush().unwrap();
    world.executor.run_until_idle();
    engine.compact().unwrap();
    assert_eq!(engine.statistics().poisoned, None);
    assert!(engine.statistics().flushes > 1);
    engine.close().unwrap();
    drop(engine);
    let engine = open();
    for number in 0..500 {
        let value = number.to_string().repeat(50);
        assert_eq!(read(&engine, &key(number)), Some(value));
    }
}
