//! Standing, the file, and what is durable before what.

use super::*;
use cluster::{Member, NodeUrl};
use lsm::disk::{Call, Fault};
use lsm::{FaultyDisk, ManualClock, MemoryDisk, StepExecutor};
use std::path::Path;

const NODES: [&str; 3] = ["a", "b", "c"];

fn members(own: &str, names: &[&str]) -> Members {
    let url = |name: &str| -> NodeUrl {
        let number = name.bytes().map(u32::from).sum::<u32>();
        format!("http://127.0.0.1:{}", 8000 + number)
            .parse()
            .unwrap()
    };
    let nodes = names
        .iter()
        .map(|name| Member::named(name, url(name)).unwrap())
        .collect();
    Members::new(nodes, &url(own)).unwrap()
}

fn number(name: &str) -> NodeNumber {
    members("a", &NODES).number_of(name).unwrap()
}

/// A node's folder, over its starts.
struct Folder {
    memory: Arc<MemoryDisk>,
    disk: Arc<FaultyDisk>,
    executor: Arc<StepExecutor>,
}

impl Folder {
    fn new() -> Self {
        Self::on(MemoryDisk::new())
    }

    fn on(memory: MemoryDisk) -> Self {
        let memory = Arc::new(memory);
        memory.create_folder(Path::new("/data")).unwrap();
        Self {
            disk: Arc::new(FaultyDisk::new(Arc::clone(&memory) as Arc<dyn Disk>)),
            memory,
            executor: Arc::new(StepExecutor::new(Arc::new(ManualClock::new(0)))),
        }
    }

    /// The folder after a power cut that keeps only what was synced.
    fn after_crash(&self) -> Self {
        Self::on(self.memory.clone_synced())
    }

    fn open_as(
        &self,
        members: Members,
        store_id: u64,
        accepted: Acceptance,
    ) -> Result<Membership, MembershipError> {
        let environment = MembershipEnvironment {
            folder: "/data".into(),
            disk: Arc::clone(&self.disk) as Arc<dyn Disk>,
            executor: Arc::clone(&self.executor) as Arc<dyn Executor>,
        };
        Membership::open(environment, members, store_id, accepted)
    }

    /// Node `a` of three.
    fn open(&self, store_id: u64) -> Membership {
        self.open_as(members("a", &NODES), store_id, Acceptance::default())
            .unwrap()
    }

    fn open_accepting_empty(&self, store_id: u64) -> Membership {
        let accepted = Acceptance {
            empty_store: true,
            ..Acceptance::default()
        };
        self.open_as(members("a", &NODES), store_id, accepted)
            .unwrap()
    }

    /// Meets a peer, and gives whether what it said was noted, once that is known.
    fn meet(&self, membership: &Membership, peer: &str, introduced: Introduced) -> Option<bool> {
        let told = Arc::new(Mutex::new(None));
        let cell = Arc::clone(&told);
        let noted = Box::new(move |durable| *cell.lock().unwrap() = Some(durable));
        membership.met(number(peer), introduced, noted);
        self.executor.run_all_due();
        *told.lock().unwrap()
    }
}

fn introduced(store_id: u64, remembered: Option<u64>) -> Introduced {
    Introduced {
        store_id,
        is_accepted: false,
        remembered,
    }
}

#[test]
fn in_a_clusters_first_start_a_majority_confirms_each_store() {
    let folder = Folder::new();
    let node = folder.open(1);
    assert!(!node.is_witness());
    assert_eq!(node.standing().word(), "unconfirmed");
    assert_eq!(folder.meet(&node, "b", introduced(2, None)), Some(true));
    assert!(node.is_witness(), "two of three have met");
    assert_eq!(node.standing().word(), "confirmed");
    // Later starts need not wait.
    assert!(folder.after_crash().open(1).is_witness());
}

#[test]
fn of_five_nodes_two_are_no_majority() {
    let mut standing = Standing::new(5);
    for peer in [1, 1, 1] {
        standing.meet(NodeNumber::new(peer), Remembered::Nothing, 5);
        assert!(!standing.is_witness(), "one peer is not two");
    }
    standing.meet(NodeNumber::new(2), Remembered::ThisStore, 5);
    assert_eq!(standing, Standing::Confirmed);
}

#[test]
fn a_lone_node_asks_nobody() {
    let folder = Folder::new();
    let alone =
        |name| Members::alone(Member::named(name, "http://[::1]:1".parse().unwrap()).unwrap());
    let accepted = Acceptance::default();
    let node = folder.open_as(alone("a"), 1, accepted).unwrap();
    assert!(node.is_witness());
    // Nor does its name place a key.
    assert!(
        folder
            .open_as(alone("z"), 1, accepted)
            .unwrap()
            .is_witness()
    );
}

#[test]
fn a_store_in_the_place_of_another_takes_no_reads_until_accepted() {
    let b = Folder::new();
    let node_b = b.open_as(members("b", &NODES), 2, Acceptance::default());
    let node_b = node_b.unwrap();
    assert_eq!(b.meet(&node_b, "a", introduced(1, None)), Some(true));
    assert_eq!(node_b.remembered(number("a")), Some(1));

    // The folder of `a` is lost.
    let a = Folder::new();
    let node_a = a.open(9);
    assert_eq!(b.meet(&node_b, "a", introduced(9, Some(2))), Some(true));
    assert_eq!(node_b.remembered(number("a")), Some(1), "it is told");
    a.meet(&node_a, "b", introduced(2, node_b.remembered(number("a"))));
    assert_eq!(node_a.standing(), Standing::Replaced);
    // Those who know nothing outweigh nobody who does.
    a.meet(&node_a, "c", introduced(3, None));
    assert!(!node_a.is_witness());
    let a = a.after_crash();
    let node_a = a.open(9);
    a.meet(&node_a, "c", introduced(3, None));
    assert!(!node_a.is_witness(), "a restart forgets nothing");

    // An operator accepts.
    let node_a = a.open_accepting_empty(9);
    assert!(node_a.is_witness() && node_a.is_accepted());
    let a = a.after_crash();
    let node_a = a.open(9);
    assert!(
        node_a.is_accepted(),
        "it was durable before anybody was told"
    );
    a.meet(&node_a, "b", introduced(2, Some(1)));
    assert!(node_a.is_witness(), "what `b` remembers is as accepted");
    let accepted = Introduced {
        is_accepted: true,
        ..introduced(9, Some(2))
    };
    assert_eq!(b.meet(&node_b, "a", accepted), Some(true));
    assert_eq!(node_b.remembered(number("a")), Some(9));
    let b = b.after_crash();
    let node_b = b.open_as(members("b", &NODES), 2, Acceptance::default());
    assert_eq!(node_b.unwrap().remembered(number("a")), Some(9));
}

#[test]
fn what_was_accepted_is_confirmed_once_all_peers_know() {
    let folder = Folder::new();
    let node = folder.open_accepting_empty(9);
    folder.meet(&node, "b", introduced(2, Some(9)));
    folder.meet(&node, "c", introduced(3, Some(1)));
    assert!(folder.after_crash().open(9).is_accepted(), "`c` does not");
    folder.meet(&node, "c", introduced(3, Some(9)));
    // An introduction from before may still come.
    folder.meet(&node, "b", introduced(2, Some(1)));
    assert!(node.is_witness());
    let after = folder.after_crash();
    let node = after.open(9);
    assert_eq!(node.standing(), Standing::Confirmed);
    // From now on such a word is one against it: an old disk was put back.
    after.meet(&node, "b", introduced(2, Some(10)));
    assert_eq!(node.standing(), Standing::Replaced);
}

#[test]
fn a_folder_that_lost_only_its_store_knows_by_itself() {
    let folder = Folder::new();
    let node = folder.open(1);
    folder.meet(&node, "b", introduced(2, None));
    assert_eq!(folder.open(5).standing(), Standing::Replaced);
}

#[test]
fn a_peer_is_noted_only_once_that_is_durable() {
    let folder = Folder::new();
    let node = folder.open(1);
    let told = Arc::new(Mutex::new(None));
    let cell = Arc::clone(&told);
    let noted = Box::new(move |durable| *cell.lock().unwrap() = Some(durable));
    node.met(number("b"), introduced(2, None), noted);
    assert_eq!(*told.lock().unwrap(), None);
    assert_eq!(folder.after_crash().open(1).remembered(number("b")), None);
    folder.executor.run_all_due();
    assert_eq!(*told.lock().unwrap(), Some(true));
    assert_eq!(
        folder.after_crash().open(1).remembered(number("b")),
        Some(2)
    );
    // There is nothing to wait for the second time.
    let at_once = Arc::new(Mutex::new(None));
    let cell = Arc::clone(&at_once);
    let noted = Box::new(move |durable| *cell.lock().unwrap() = Some(durable));
    node.met(number("b"), introduced(2, Some(1)), noted);
    assert_eq!(*at_once.lock().unwrap(), Some(true));
}

#[test]
fn a_peer_that_cannot_be_noted_is_refused_and_the_file_is_tried_again() {
    for failing in [
        Call::Create,
        Call::Write,
        Call::Sync,
        Call::Rename,
        Call::SyncFolder,
    ] {
        let folder = Folder::new();
        let node = folder.open(1);
        assert_eq!(folder.meet(&node, "b", introduced(2, None)), Some(true));
        let fault = Fault::at(0, std::io::ErrorKind::StorageFull);
        folder
            .disk
            .arm(fault.only(move |call, _| call == failing).lasting());
        assert_eq!(folder.meet(&node, "c", introduced(3, None)), Some(false));
        assert!(folder.disk.failed() > 0, "{failing:?}");
        // Nor is it taken for noted the second time: it waits for the next attempt.
        assert_eq!(folder.meet(&node, "c", introduced(3, None)), None);
        // Known peers are none of its business.
        assert_eq!(folder.meet(&node, "b", introduced(2, Some(1))), Some(true));
        folder.disk.heal();
        folder.executor.run_until_idle();
        assert_eq!(folder.meet(&node, "c", introduced(3, Some(1))), Some(true));
        let after = folder.after_crash().open(1);
        assert_eq!(after.remembered(number("c")), Some(3), "{failing:?}");
    }
}

#[test]
fn a_crash_in_any_write_of_the_file_leaves_one_that_opens() {
    for at in 0.. {
        let folder = Folder::new();
        let node = folder.open(1);
        let error = std::io::ErrorKind::Other;
        folder
            .disk
            .arm(Fault::at(at, error).lasting().with_short_writes());
        folder.meet(&node, "b", introduced(2, None));
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
fn another_name_or_list_is_refused_unless_accepted() {
    let folder = Folder::new();
    let node = folder.open(1);
    folder.meet(&node, "b", introduced(2, None));
    folder.meet(&node, "c", introduced(3, None));
    let none = Acceptance::default();
    let refused = folder.open_as(members("b", &NODES), 1, none).err().unwrap();
    assert!(
        matches!(&refused, MembershipError::OtherNode { .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("--accept-cluster-change"));
    let larger = ["a", "b", "c", "d"];
    let refused = folder
        .open_as(members("a", &larger), 1, none)
        .err()
        .unwrap();
    assert!(
        matches!(&refused, MembershipError::OtherNodes { .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("a, b, c, d"), "{refused}");

    let accepted = Acceptance {
        cluster_change: true,
        ..none
    };
    let node = folder
        .open_as(members("a", &["a", "c", "d"]), 1, accepted)
        .unwrap();
    let nodes = (0..3).map(NodeNumber::new);
    let remembered: Vec<_> = nodes.map(|other| node.remembered(other)).collect();
    assert_eq!(remembered, [None, Some(3), None], "`c` is still the same");
    assert!(node.is_witness());
    // It is the new list now.
    folder
        .open_as(members("a", &["a", "c", "d"]), 1, none)
        .unwrap();
    assert!(folder.open_as(members("a", &NODES), 1, none).is_err());
    // Under another name the peers have to be asked anew.
    let node = folder
        .open_as(members("d", &["a", "c", "d"]), 1, accepted)
        .unwrap();
    assert!(!node.is_witness());
}

#[test]
fn a_closed_membership_writes_no_more() {
    let folder = Folder::new();
    let node = folder.open(1);
    node.close();
    assert_eq!(folder.meet(&node, "b", introduced(2, None)), Some(false));
    assert_eq!(folder.after_crash().open(1).remembered(number("b")), None);
}

fn example_file() -> ClusterFile {
    ClusterFile {
        own_name: "b".to_owned(),
        store_id: 0x0102_0304_0506_0708,
        standing: StoredStanding::Accepted,
        nodes: [("a", Some(7)), ("b", None), ("http://c:80", Some(u64::MAX))]
            .map(|(name, store_id)| (name.to_owned(), store_id))
            .into(),
    }
}

#[test]
fn the_format_is_the_one_drawn() {
    let expected: Vec<u8> = [
        &b"kvorumcl\x01\0\0\0"[..],
        &[8, 7, 6, 5, 4, 3, 2, 1, 2],
        b"\x01\0b\x03",
        b"\x01\0a\x01\x07\0\0\0\0\0\0\0",
        b"\x01\0b\0",
        b"\x0b\0http://c:80\x01\xff\xff\xff\xff\xff\xff\xff\xff",
    ]
    .concat();
    let bytes = example_file().encode();
    let (content, checksum) = bytes.split_last_chunk().unwrap();
    assert_eq!(content, expected);
    assert_eq!(u32::from_le_bytes(*checksum), crc32c::crc32c(content));
    let decoded = ClusterFile::decode(Path::new("f"), &bytes).unwrap();
    assert_eq!(decoded, example_file());
}

#[test]
fn damage_is_corruption_and_a_newer_version_is_told_apart() {
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
    let mend = |mut content: Vec<u8>| {
        let checksum = crc32c::crc32c(&content);
        content.extend_from_slice(&checksum.to_le_bytes());
        content
    };
    let mut newer = bytes[..bytes.len() - 4].to_vec();
    newer[8] = 2;
    let result = ClusterFile::decode(file, &mend(newer));
    assert!(matches!(result, Err(Error::Invalid(_))), "{result:?}");
    // Bytes that a checksum vouches for, but no node writes.
    for cut in 12..bytes.len() - 4 {
        let result = ClusterFile::decode(file, &mend(bytes[..cut].to_vec()));
        assert!(
            matches!(result, Err(Error::Corrupt { .. })),
            "{cut}: {result:?}"
        );
    }
}
