//! Chosen calls fail.

mod common;

use common::{disk_with_a, error_of, path, read};
use lsm::Disk;
use lsm_testing::{Call, Fault, FaultyDisk};
use std::io;
use std::sync::Arc;

#[test]
fn the_chosen_call_fails_and_does_nothing() {
    let (memory, _) = disk_with_a();
    let disk = FaultyDisk::new(Arc::new(memory));
    let file = disk.open(&path("a")).unwrap();
    assert_eq!(disk.calls(), 1);

    disk.arm(Fault::at(1, io::ErrorKind::StorageFull));
    file.write_all_at(&[5], 0).unwrap();
    assert_eq!(
        error_of(file.write_all_at(&[6; 4], 0)),
        io::ErrorKind::StorageFull
    );
    assert_eq!(read(&*file)[..4], [5, 1, 1, 1]);
    assert_eq!((disk.calls(), disk.failed()), (4, 1));

    disk.arm(
        Fault::at(0, io::ErrorKind::Other)
            .only(|call, file| call == Call::Write && file.ends_with("a"))
            .lasting()
            .with_short_writes(),
    );
    disk.create(&path("b"))
        .unwrap()
        .write_all_at(&[1], 0)
        .unwrap();
    for _ in 0..2 {
        assert_eq!(
            error_of(file.write_all_at(&[7; 4], 0)),
            io::ErrorKind::Other
        );
    }
    assert_eq!(read(&*file)[..4], [7, 7, 1, 1]);
    assert_eq!((disk.calls(), disk.failed()), (2, 2));

    disk.heal();
    file.write_all_at(&[8; 4], 0).unwrap();
    assert_eq!(read(&*file)[..4], [8; 4]);
}
