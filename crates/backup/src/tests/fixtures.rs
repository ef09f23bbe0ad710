//! The formats of what lies at a target and in a restored folder, frozen: what this release writes is
//! what the files in `fixtures` have, and it reads them.

use super::*;
use crate::contents::{
    ClusterContents, NodeContents, NodeSummary, RunningContents, TableContents, decode, encode,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T, fixture: &str) {
    let encoded = encode("x", value).unwrap();
    assert_eq!(String::from_utf8(encoded).unwrap(), fixture);
    assert_eq!(decode::<T>("x", fixture.as_bytes()).unwrap(), *value);
    // No other byte is taken for the same.
    for at in 0..fixture.len() {
        let mut bytes = fixture.as_bytes().to_vec();
        bytes[at] ^= 1;
        assert!(decode::<T>("x", &bytes).is_err(), "byte {at}");
        assert!(decode::<T>("x", &fixture.as_bytes()[..at]).is_err());
    }
    let later = fixture.replacen("\"format\": 1", "\"format\": 2", 1);
    let refused = decode::<T>("x", later.as_bytes()).unwrap_err().to_string();
    assert_eq!(
        refused,
        "x has format 2, of a later release: this program reads format 1"
    );
}

#[test]
fn objects_are_as_in_the_fixtures() {
    check(
        &BackupContents {
            format: 1,
            number: 7,
            members: vec!["a".to_owned(), "b".to_owned()],
            zones: [("a".to_owned(), "rack-1".to_owned())].into(),
            missing: vec!["b".to_owned()],
            began_unix_ms: 1_795_960_800_000,
            cut_unix_ms: 1_795_960_800_100,
            completed_unix_ms: 1_795_960_802_000,
            greatest_timestamp: 117_700_087_000_000_000,
            gc_threshold: 117_600_000_000_000_000,
            nodes: vec![NodeSummary::new("a".to_owned(), [0x3f; 32], 1, 4096, 1024)],
        },
        include_str!("../../tests/fixtures/backup.json"),
    );
    check(
        &NodeContents {
            format: 1,
            name: "a".to_owned(),
            store: "a3ZvcnVt".to_owned(),
            tables: vec![TableContents {
                number: 12,
                bytes: 4096,
                sha256: "3f".repeat(32),
            }],
        },
        include_str!("../../tests/fixtures/node.json"),
    );
    check(
        &RunningContents {
            format: 1,
            beat: 3,
            began_unix_ms: 1_795_960_800_000,
            owner: user().owner,
        },
        include_str!("../../tests/fixtures/running.json"),
    );
    check(
        &ClusterContents {
            format: 1,
            stores: [("a".to_owned(), "00000000000000ff".to_owned())].into(),
        },
        include_str!("../../tests/fixtures/cluster.json"),
    );
}

#[test]
fn a_restored_folder_is_as_in_the_fixture() {
    const FIXTURE: &[u8] = include_bytes!("../../tests/fixtures/RESTORED");
    let (disk, folder) = (MemoryDisk::new(), Path::new("/store"));
    disk.create_folder(folder).unwrap();
    let write = |name: &str, bytes: &[u8]| {
        lsm::disk::replace_file(&disk, folder, name, bytes).unwrap();
    };
    write("RESTORED", FIXTURE);
    let restored = restored_folder(&disk, folder).unwrap().unwrap();
    let gc_threshold = restored.gc_threshold.as_u64();
    assert_eq!((restored.cluster, gc_threshold), (42, 900));
    let text = std::str::from_utf8(FIXTURE).unwrap();
    write(
        "RESTORED",
        text.replace("\"format\":1", "\"format\":2").as_bytes(),
    );
    let refused = restored_folder(&disk, folder).unwrap_err().to_string();
    assert!(refused.contains("of a later release"), "{refused}");
    // What a restore writes has the same members.
    let target = target_on(&Arc::default());
    let backup = back_up(&target, &mut stores(), HOUR_MS).unwrap();
    let node = NewNode::new();
    let cluster = node.restore(&target, &NODES, "a").unwrap().cluster;
    let path = node.folder.join("RESTORED");
    let file = node.disk.open(&path).unwrap();
    let mut written = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut written, 0).unwrap();
    let expected = text
        .replace("20261129T140000Z-89abcdef", backup.id.as_str())
        .replace(":42,", &format!(":{cluster},"));
    assert_eq!(String::from_utf8(written).unwrap(), expected);
}
