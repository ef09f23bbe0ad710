//! The format of the file `CLUSTER`.

use super::super::cluster_file::{ClusterFile, Run, StoredLists, StoredNode, fuzz_cluster};
use super::*;
use cluster::Replicas;
use cluster::layout::paxos::Acceptor;
use cluster::layout::{ClusterId, MemberList};
use lsm::Error;
use lsm::checked_file::fuzz_mutations_of;

const FIXTURE: &[u8] = include_bytes!("../../tests/fixtures/cluster-v6.bin");

/// The files that releases before wrote.
const FIXTURE_V5: &[u8] = include_bytes!("../../tests/fixtures/cluster-v5.bin");
const FIXTURE_V4: &[u8] = include_bytes!("../../tests/fixtures/cluster-v4.bin");
const FIXTURE_V3: &[u8] = include_bytes!("../../tests/fixtures/cluster-v3.bin");

fn example_list() -> MemberList {
    let members = ["a=http://a:1", "b=http://b:2"].map(|member| member.parse().unwrap());
    let pair = Replicas::new(1, 2).unwrap();
    MemberList::founding(ClusterId::new(0x21), members.to_vec(), pair).unwrap()
}

fn example_file() -> ClusterFile {
    let known = |store_id, start, acknowledged| StoredNode {
        remembered: Some(Remembered {
            store_id,
            start,
            acknowledged,
        }),
        ..StoredNode::default()
    };
    let compared = StoredNode {
        starts: vec![4, 8],
        at_full_session: Some(5),
        single_copies: Some(6),
        ..known(7, 8, 9)
    };
    let unaware = StoredNode {
        is_unaware: true,
        ..known(u64::MAX, 0x0a, 1)
    };
    ClusterFile {
        own_name: "b".to_owned(),
        store_id: 0x0102_0304_0506_0708,
        replica_state: ReplicaState::ForcedVoter,
        is_outdated: true,
        last_loss: 3,
        taken_over: 0x10,
        created_unix_ms: Some(0x12),
        run: Run {
            boot_id: Some(BootId(0x11)),
            syncs_commits: true,
            is_closed: true,
        },
        starts: vec![0x0c, 0x0b],
        nodes: [
            ("a", compared),
            ("b", StoredNode::default()),
            ("http://c:80", unaware),
        ]
        .map(|(name, node)| (name.to_owned(), node))
        .into(),
        lists: StoredLists {
            list: Some(Arc::new(example_list())),
            acceptor: Acceptor::default(),
            lacks_votes: true,
        },
    }
}

#[test]
fn the_format_is_as_drawn_and_as_in_the_fixture() {
    let expected: Vec<u8> = [
        &b"kvorumcl\x06\0\0\0"[..],
        &[8, 7, 6, 5, 4, 3, 2, 1, 2, 15],
        b"\x03\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0",
        b"\x12\0\0\0\0\0\0\0",
        b"\x11\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"\x01\0b",
        b"\x02\0\x0c\0\0\0\0\0\0\0\x0b\0\0\0\0\0\0\0",
        b"\x03",
        b"\x01\0a\x1d\x07\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0",
        b"\x05\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0",
        b"\x02\0\x04\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0",
        b"\x01\0b\0",
        b"\x0b\0http://c:80\x03\xff\xff\xff\xff\xff\xff\xff\xff\x0a\0\0\0\0\0\0\0",
        b"\x01\0\0\0\0\0\0\0",
        b"\x03\x21\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x02\x01\x02",
        b"\0\0\x01\0a\x0a\0http://a:1\x01\0\x01\0b\x0a\0http://b:2",
        b"\0\0\0\0\0\0\0\0\0\0\0",
    ]
    .concat();
    let bytes = example_file().encode();
    let (content, checksum) = bytes.split_last_chunk().unwrap();
    assert_eq!(content, expected);
    assert_eq!(u32::from_le_bytes(*checksum), base::crc32c(content));
    assert!(
        bytes == FIXTURE,
        "the format has changed: it needs a new version"
    );
    let decoded = ClusterFile::decode(Path::new("f"), FIXTURE).unwrap();
    assert_eq!(decoded, example_file());
}

/// The file of a release that knew no lists of members.
fn example_file_v5() -> ClusterFile {
    ClusterFile {
        lists: StoredLists::default(),
        ..example_file()
    }
}

#[test]
fn a_file_of_version_5_has_no_list_of_members() {
    let decoded = ClusterFile::decode(Path::new("f"), FIXTURE_V5).unwrap();
    assert_eq!(decoded, example_file_v5());
}

/// The file of a release that noted neither when its store was created nor the starts of
/// other nodes.
fn example_file_v4() -> ClusterFile {
    let mut file = example_file_v5();
    file.created_unix_ms = None;
    for node in file.nodes.values_mut() {
        node.starts.clear();
    }
    file
}

#[test]
fn a_file_of_version_4_knows_no_starts_of_other_nodes() {
    let decoded = ClusterFile::decode(Path::new("f"), FIXTURE_V4).unwrap();
    assert_eq!(decoded, example_file_v4());
}

#[test]
fn a_file_of_version_3_is_that_of_a_run_that_was_closed_and_counted_nothing() {
    let mut expected = example_file_v4();
    (expected.last_loss, expected.taken_over) = (0, 0);
    expected.run = Run {
        boot_id: None,
        syncs_commits: false,
        is_closed: true,
    };
    for node in expected.nodes.values_mut() {
        (node.at_full_session, node.single_copies) = (None, None);
        if let Some(remembered) = &mut node.remembered {
            remembered.acknowledged = 0;
        }
    }
    let decoded = ClusterFile::decode(Path::new("f"), FIXTURE_V3).unwrap();
    assert_eq!(decoded, expected);
}

/// The content with its right checksum.
fn with_checksum(mut content: Vec<u8>) -> Vec<u8> {
    let checksum = base::crc32c(&content);
    content.extend_from_slice(&checksum.to_le_bytes());
    content
}

#[test]
fn the_decoder_survives_mutations_with_a_right_checksum() {
    let sound = &FIXTURE[..FIXTURE.len() - 4];
    let mut random = fastrand::Rng::with_seed(13);
    let mut decoded = 0;
    for _ in 0..20_000 {
        let mut content = sound.to_vec();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(12..content.len());
            match random.u8(0..4) {
                0 => content.truncate(at.max(13)),
                1 => content[at] ^= 1 << random.u8(0..8),
                2 => content[at] = random.u8(..),
                _ => content.insert(at, random.u8(..)),
            }
        }
        let bytes = with_checksum(content);
        match ClusterFile::decode(Path::new("f"), &bytes) {
            // What the decoder takes is what a node writes, but for how a URL is written.
            Ok(file) => {
                decoded += 1;
                let again = ClusterFile::decode(Path::new("f"), &file.encode());
                assert_eq!(again.unwrap(), file);
            }
            Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "{error}"),
        }
    }
    assert!(
        decoded > 1_000,
        "the mutations get past the checksum: {decoded}"
    );
}

#[test]
fn what_is_decoded_stays_the_same() {
    for fixture in [FIXTURE, FIXTURE_V5, FIXTURE_V4, FIXTURE_V3] {
        fuzz_mutations_of(fixture, fuzz_cluster);
    }
}

#[test]
fn damage_is_corruption_and_a_newer_version_is_not() {
    let bytes = example_file().encode();
    let file = Path::new("f");
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let result = ClusterFile::decode(file, &damaged);
        assert!(
            matches!(result, Err(Error::Corrupt { .. })),
            "byte {at}: {result:?}"
        );
        let result = ClusterFile::decode(file, &bytes[..at]);
        assert!(
            matches!(result, Err(Error::Corrupt { .. })),
            "cut at {at}: {result:?}"
        );
    }
    let mut newer = bytes[..bytes.len() - 4].to_vec();
    newer[8] = 7;
    let result = ClusterFile::decode(file, &with_checksum(newer));
    assert!(matches!(result, Err(Error::Invalid(_))), "{result:?}");
    // Bytes with a right checksum that no node writes.
    for cut in 12..bytes.len() - 4 {
        let result = ClusterFile::decode(file, &with_checksum(bytes[..cut].to_vec()));
        assert!(
            matches!(result, Err(Error::Corrupt { .. })),
            "{cut}: {result:?}"
        );
    }
}
