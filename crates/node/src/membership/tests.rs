//! Standing, the file, and what is durable before what.

use super::*;
use base::{ManualClock, SeededRandom};
use cluster::{Member, NodeUrl, Remembered, STARTS_MAX};
use lsm::disk::{Call, Fault};
use lsm::{FaultyDisk, MemoryDisk, StepExecutor};
use std::path::Path;
use std::sync::atomic::AtomicU64;

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

    /// A copy of the folder as it is.
    fn copy(&self) -> Self {
        Self::on(self.memory.crash_clone(&mut |_| true))
    }

    fn open_as(
        &self,
        members: Members,
        store_id: u64,
        accept_empty: bool,
    ) -> Result<Membership, MembershipError> {
        static STARTS: AtomicU64 = AtomicU64::new(0);
        let environment = MembershipEnvironment {
            folder: "/data".into(),
            disk: Arc::clone(&self.disk) as Arc<dyn Disk>,
            random: Arc::new(SeededRandom::new(STARTS.fetch_add(1, Ordering::SeqCst))),
            executor: Arc::clone(&self.executor) as Arc<dyn Executor>,
        };
        Membership::open(environment, members, store_id, accept_empty)
    }

    /// Node `a` of three.
    fn open(&self, store_id: u64) -> Membership {
        self.open_as(members("a", &NODES), store_id, false).unwrap()
    }

    /// Meets a peer, and gives whether the connection may be used, once that
    /// is known.
    fn meet(&self, membership: &Membership, peer: &str, introduced: &Introduced) -> Option<bool> {
        let told = meet(membership, peer, introduced);
        self.executor.run_all_due();
        *told.lock().unwrap()
    }
}

/// Begins to meet a peer.
fn meet(membership: &Membership, peer: &str, introduced: &Introduced) -> Arc<Mutex<Option<bool>>> {
    let told = Arc::new(Mutex::new(None));
    let cell = Arc::clone(&told);
    membership.met(number(peer), introduced, move |may_be_used| {
        *cell.lock().unwrap() = Some(may_be_used);
    });
    told
}

/// A peer's first start, which remembers nobody.
fn introduced(store_id: u64) -> Introduced {
    Introduced {
        store_id,
        starts: [store_id].into(),
        is_accepted: false,
        remembered: None,
        told: None,
    }
}

/// A start of a node of three.
struct Started<'a> {
    name: &'static str,
    folder: &'a Folder,
    membership: Membership,
}

fn start<'a>(name: &'static str, folder: &'a Folder, store_id: u64) -> Started<'a> {
    let membership = folder.open_as(members(name, &NODES), store_id, false);
    Started {
        name,
        folder,
        membership: membership.unwrap(),
    }
}

fn start_accepting<'a>(name: &'static str, folder: &'a Folder, store_id: u64) -> Started<'a> {
    let membership = folder.open_as(members(name, &NODES), store_id, true);
    Started {
        name,
        folder,
        membership: membership.unwrap(),
    }
}

impl Started<'_> {
    /// What it says of itself to another.
    fn hello_to(&self, other: &Started<'_>) -> (Introduced, Option<Remembered>) {
        let remembered = self.membership.remembered(number(other.name));
        let introduced = Introduced {
            store_id: self.membership.shared.store_id,
            starts: self.membership.starts(),
            is_accepted: self.membership.is_accepted_towards(number(other.name)),
            remembered,
            told: None,
        };
        (introduced, remembered)
    }

    /// Whether another comes with a new start too early.
    fn refuses_for_now(&self, other: &Started<'_>, hello: &Introduced) -> bool {
        let Introduced {
            store_id,
            starts,
            is_accepted,
            ..
        } = hello;
        let peer = number(other.name);
        self.membership
            .is_early(peer, *store_id, starts, *is_accepted)
    }

    /// A connection with another that it has met.
    fn connect(&self, other: &Started<'_>) -> StartWatch {
        let (hello, told) = other.hello_to(self);
        let hello = Introduced { told, ..hello };
        let watch = self.membership.met(number(other.name), &hello, |_| {});
        watch.unwrap()
    }

    fn word(&self) -> &'static str {
        self.membership.standing().word()
    }
}

/// Two nodes shake hands, and if both may use the connection, they do.
fn shake(one: &Started<'_>, other: &Started<'_>) -> bool {
    let (mut of_one, told_by_one) = one.hello_to(other);
    let (mut of_other, told_by_other) = other.hello_to(one);
    if one.refuses_for_now(other, &of_other) || other.refuses_for_now(one, &of_one) {
        return false;
    }
    of_one.told = told_by_other;
    of_other.told = told_by_one;
    let at_one = one.folder.meet(&one.membership, other.name, &of_other);
    let at_other = other.folder.meet(&other.membership, one.name, &of_one);
    let is_used = (at_one, at_other) == (Some(true), Some(true));
    if is_used {
        one.membership.remembered_by(number(other.name));
        other.membership.remembered_by(number(one.name));
        one.folder.executor.run_all_due();
        other.folder.executor.run_all_due();
    }
    is_used
}

/// The folders of three nodes that have all met, and so are witnesses.
fn acquainted() -> [Folder; 3] {
    let folders = [(); 3].map(|()| Folder::new());
    let [a, b, c] = &folders;
    let (a, b, c) = (start("a", a, 1), start("b", b, 2), start("c", c, 3));
    for (one, other) in [(&a, &b), (&a, &c), (&b, &c)] {
        assert!(shake(one, other));
    }
    for node in [a, b, c] {
        assert_eq!(node.word(), "witness", "{}", node.name);
    }
    folders
}

#[test]
fn at_the_first_start_all_peers_have_to_remember_a_store() {
    let [a, b, c] = [(); 3].map(|()| Folder::new());
    let (a, b, c) = (start("a", &a, 1), start("b", &b, 2), start("c", &c, 3));
    assert!(shake(&a, &b));
    for node in [&a, &b] {
        assert!(!node.membership.is_witness(), "a majority is not all");
        assert_eq!(node.word(), "unconfirmed");
    }
    assert!(shake(&c, &a));
    assert!(a.membership.is_witness(), "both know it");
    assert!(!b.membership.is_witness() && !c.membership.is_witness());
    assert!(shake(&c, &b));
    assert!(b.membership.is_witness() && c.membership.is_witness());
}

#[test]
fn that_a_peer_was_met_does_not_mean_that_it_remembers() {
    let folder = Folder::new();
    let node = folder.open(1);
    assert_eq!(folder.meet(&node, "b", &introduced(2)), Some(true));
    assert_eq!(folder.meet(&node, "c", &introduced(3)), Some(true));
    assert!(!node.is_witness(), "they may forget it in a crash");
    node.remembered_by(number("b"));
    node.remembered_by(number("c"));
    assert!(!node.is_witness(), "it may forget that itself");
    folder.executor.run_all_due();
    assert!(node.is_witness());
    assert_eq!(
        folder.after_crash().open(1).standing().word(),
        "unconfirmed"
    );
}

#[test]
fn what_a_peer_tells_that_it_remembers_counts_as_well() {
    let folder = Folder::new();
    let first = folder.open(1);
    let known = Some(Remembered {
        store_id: 1,
        start: first.starts()[0],
    });
    drop(first);
    let node = folder.open(1);
    for peer in ["b", "c"] {
        assert!(!node.is_witness());
        let hello = Introduced {
            remembered: known,
            ..introduced(2)
        };
        folder.meet(&node, peer, &hello);
    }
    assert!(node.is_witness());
}

#[test]
fn a_witness_asks_at_its_next_start_all_who_are_there() {
    let [a, b, c] = acquainted();
    let node = start("a", &a, 1);
    assert_eq!(node.word(), "unconfirmed");
    assert!(!node.membership.is_settled());
    assert!(shake(&node, &start("b", &b, 2)));
    assert!(!node.membership.is_witness(), "`c` may know better");
    node.membership.unreachable(number("c"));
    assert!(node.membership.is_witness() && node.membership.is_settled());
    drop(node);
    // It is no first start: nobody has to be there.
    let node = start("a", &a, 1);
    node.membership.unreachable(number("b"));
    node.membership.unreachable(number("c"));
    assert!(node.membership.is_witness());
    assert!(shake(&node, &start("c", &c, 3)));
    assert!(node.membership.is_witness());
}

#[test]
fn who_is_away_at_a_first_start_is_waited_for() {
    let folder = Folder::new();
    let node = folder.open(1);
    node.unreachable(number("b"));
    node.unreachable(number("c"));
    assert!(!node.is_witness());
}

#[test]
fn a_lone_node_asks_nobody() {
    let folder = Folder::new();
    let alone =
        |name| Members::alone(Member::named(name, "http://[::1]:1".parse().unwrap()).unwrap());
    let node = folder.open_as(alone("a"), 1, false).unwrap();
    assert!(node.is_witness() && node.is_settled());
    // Nor does its name place a key.
    assert!(folder.open_as(alone("z"), 1, false).unwrap().is_witness());
}

#[test]
fn a_store_in_the_place_of_another_is_no_witness_until_accepted() {
    let [_lost, b, c] = acquainted();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &c, 3));
    let lost = node_b.membership.remembered(number("a"));

    let a = Folder::new();
    let node_a = start("a", &a, 9);
    assert!(shake(&node_a, &node_b), "it is there for writes");
    assert_eq!(node_a.word(), "unfilled");
    assert_eq!(
        node_b.membership.remembered(number("a")),
        lost,
        "it is told"
    );
    // Those who know nothing outweigh nobody who does.
    a.meet(&node_a.membership, "c", &introduced(3));
    assert!(!node_a.membership.is_witness());
    let a = a.after_crash();
    let node_a = start("a", &a, 9);
    assert_eq!(node_a.word(), "unfilled", "a restart forgets nothing");
    drop(node_a);

    // An operator accepts. That is durable before anybody is told.
    drop(start_accepting("a", &a, 9));
    let a = a.after_crash();
    let node_a = start("a", &a, 9);
    assert_eq!(node_a.word(), "accepted");
    assert!(node_a.membership.is_witness());
    assert!(shake(&node_a, &node_b));
    let known = node_b.membership.remembered(number("a")).unwrap();
    assert_eq!(known.store_id, 9);
    let word = Introduced {
        remembered: lost,
        ..introduced(2)
    };
    a.meet(&node_a.membership, "b", &word);
    assert!(
        node_a.membership.is_witness(),
        "a word from before may still be on its way"
    );
    assert!(shake(&node_a, &node_c));
    drop(node_a);
    // From now on it is a store like any other.
    let a = a.after_crash();
    let node_a = start("a", &a, 9);
    assert_eq!(node_a.word(), "unconfirmed");
    assert!(shake(&node_a, &node_b) && shake(&node_a, &node_c));
    assert_eq!(node_a.word(), "witness");
    a.meet(&node_a.membership, "b", &word);
    assert_eq!(node_a.word(), "unfilled");
}

#[test]
fn a_folder_that_was_restored_is_noticed_on_both_sides_and_at_each_start() {
    let [a, b, c] = acquainted();
    let yesterday = a.copy();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &c, 3));
    // Today goes on, and then its folder is replaced by the copy.
    let today = start("a", &a, 1);
    assert!(shake(&today, &node_b) && shake(&today, &node_c));
    let known = node_b.membership.remembered(number("a"));
    drop(today);
    for _ in 0..2 {
        let restored = start("a", &yesterday, 1);
        assert!(shake(&restored, &node_b));
        assert_eq!(restored.word(), "unfilled");
        assert_eq!(node_b.membership.remembered(number("a")), known);
    }
    // A crash of the peer makes no difference.
    let b = b.after_crash();
    let node_b = start("b", &b, 2);
    assert_eq!(node_b.membership.remembered(number("a")), known);

    // An operator accepts it, in one start.
    let accepted = start_accepting("a", &yesterday, 1);
    assert!(shake(&accepted, &node_b) && shake(&accepted, &node_c));
    assert_eq!(accepted.word(), "accepted");
    // Now today's folder is the one that lacks something.
    let today = start("a", &a, 1);
    assert!(shake(&today, &node_c));
    assert_eq!(today.word(), "unfilled");
}

#[test]
fn a_peer_that_was_away_does_not_hide_what_another_knows() {
    let [a, b, c] = acquainted();
    let yesterday = a.copy();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &c, 3));
    assert!(shake(&start("a", &a, 1), &node_b), "`c` is away");
    let restored = start("a", &yesterday, 1);
    assert!(shake(&restored, &node_c));
    assert!(!restored.membership.is_witness(), "`b` was not heard yet");
    assert!(shake(&restored, &node_b));
    assert_eq!(restored.word(), "unfilled");
    // Also where it comes only later.
    let restored = start("a", &yesterday.copy(), 1).membership;
    drop(restored);
    let late = yesterday.copy();
    let late = start("a", &late, 1);
    late.membership.unreachable(number("b"));
    assert!(shake(&late, &node_b));
    assert_eq!(late.word(), "unfilled");
}

#[test]
fn of_a_folder_and_a_clone_beside_it_only_one_counts() {
    let [a, b, c] = acquainted();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &c, 3));
    let original = start("a", &a, 1);
    assert!(shake(&original, &node_b) && shake(&original, &node_c));
    assert!(original.membership.is_witness());
    let watches = [&node_b, &node_c].map(|peer| peer.connect(&original));
    let links = watches.each_ref().map(|watch| watch.mark_live().unwrap());

    // A clone of the folder as it runs looks like the next start of it, so it
    // waits for the end of the one before, and counts nowhere until then.
    let folder = a.copy();
    let clone = start("a", &folder, 1);
    for peer in [&node_b, &node_c] {
        assert!(!shake(&clone, peer));
        assert!(shake(&original, peer));
    }
    assert!(watches.iter().all(|watch| !watch.is_superseded()));
    assert_eq!(clone.word(), "unconfirmed");
    assert_eq!(original.word(), "witness");

    // Nor does it help an operator to accept it beside the original.
    let accepted = start_accepting("a", &folder, 1);
    assert!(!shake(&accepted, &node_b));
    assert_eq!(original.word(), "witness");

    // Where the original is gone, the one that comes first takes its place.
    drop(links);
    let folder = a.copy();
    let first = start("a", &folder, 1);
    assert!(shake(&first, &node_b) && shake(&first, &node_c));
    assert_eq!(first.word(), "witness");
    assert!(watches.iter().all(StartWatch::is_superseded));
    for late in [&original, &clone] {
        assert!(shake(late, &node_c), "it keeps what it is sent");
        assert_eq!(late.word(), "unfilled");
    }
}

#[test]
fn a_restart_is_held_up_only_by_links_that_hear_from_the_start_before() {
    let [a, b, _c] = acquainted();
    let node_b = start("b", &b, 2);
    let before = start("a", &a, 1);
    assert!(shake(&before, &node_b));
    let watch = node_b.connect(&before);
    let several = [watch.mark_live(), watch.mark_live()];
    let after = start("a", &a, 1);
    assert!(!shake(&after, &node_b));
    let [one, other] = several;
    drop(one);
    assert!(!shake(&after, &node_b), "another runtime hears from it");
    drop(other);
    assert!(shake(&after, &node_b));
    // A link to a store that does not count holds up nobody.
    let lost = Folder::new();
    let watch = node_b.connect(&start("a", &lost, 9));
    assert!(watch.mark_live().is_none());
    assert!(shake(&start("a", &a, 1), &node_b));
    assert!(watch.is_superseded());
}

#[test]
fn a_store_that_was_restored_or_cloned_is_told_from_one_that_is_new() {
    let [a, b, c] = acquainted();
    let yesterday = a.copy();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &c, 3));
    assert!(shake(&start("a", &a, 1), &node_b));
    let restored = start("a", &yesterday, 1);
    assert!(!restored.membership.is_outdated());
    assert!(shake(&restored, &node_b));
    assert!(restored.membership.is_outdated());
    // A start more forgets nothing, and who knows less outweighs nobody.
    let yesterday = yesterday.after_crash();
    let restored = start("a", &yesterday, 1);
    assert!(restored.membership.is_outdated());
    assert!(shake(&restored, &node_c));
    assert!(restored.membership.is_outdated());
    let accepted = start_accepting("a", &yesterday, 1);
    assert!(!accepted.membership.is_outdated());
    assert!(shake(&accepted, &node_b) && shake(&accepted, &node_c));
    assert!(!accepted.membership.is_outdated());
    // A new folder gives no stamp that another has given.
    let empty = Folder::new();
    let empty = start("a", &empty, 9);
    assert!(shake(&empty, &node_b));
    assert_eq!(empty.word(), "unfilled");
    assert!(!empty.membership.is_outdated());
}

#[test]
fn an_accepted_store_is_still_noticed_by_those_who_have_heard_of_it() {
    let [a, b, c] = acquainted();
    let (node_b, node_c) = (start("b", &b, 2), start("c", &c, 3));
    drop(a);
    let a = Folder::new();
    let accepted = start_accepting("a", &a, 9);
    assert!(shake(&accepted, &node_b), "`c` has yet to hear");
    drop(accepted);
    let copy = a.copy();
    let next = start("a", &a, 9);
    assert_eq!(next.word(), "accepted");
    assert!(shake(&next, &node_b));
    let restored = start("a", &copy, 9);
    assert!(shake(&restored, &node_b));
    assert_eq!(restored.word(), "unfilled");
    drop(restored);
    assert!(
        shake(&next, &node_c),
        "who had yet to hear takes the accepted one"
    );
    assert_eq!(next.word(), "accepted");
}

#[test]
fn a_connection_whose_side_was_told_what_is_no_longer_so_is_not_used() {
    let [a, b, _c] = acquainted();
    let node_b = start("b", &b, 2);
    let original = start("a", &a, 1);
    // The original has its hello, in which `b` remembers an earlier start …
    let (hello, _) = original.hello_to(&node_b);
    let told = node_b.membership.remembered(number("a"));
    let folder = a.copy();
    // … and before it is met, a clone is.
    assert!(shake(&start("a", &folder, 1), &node_b));
    let hello = Introduced { told, ..hello };
    assert_eq!(b.meet(&node_b.membership, "a", &hello), Some(false));
    assert!(
        shake(&original, &node_b),
        "with a hello that tells what is so"
    );
    assert_eq!(original.word(), "unfilled");
}

#[test]
fn a_node_that_was_away_for_many_starts_knows_the_store_again() {
    let [a, b, c] = acquainted();
    let node_b = start("b", &b, 2);
    for _ in 0..STARTS_MAX - 2 {
        drop(start("a", &a, 1));
    }
    let last = start("a", &a, 1);
    assert_eq!(last.membership.starts().len(), STARTS_MAX);
    assert!(shake(&last, &node_b));
    assert_eq!(last.word(), "unconfirmed");
    last.membership.unreachable(number("c"));
    assert_eq!(last.word(), "witness");
    // One more, and it is safe: not taken for what it was.
    let one_more = start("a", &a, 1);
    assert!(shake(&one_more, &start("c", &c, 3)));
    assert_eq!(one_more.word(), "unfilled");
}

#[test]
fn starts_have_numbers_of_their_own_whatever_chance_says() {
    let folder = Folder::new();
    let environment = || MembershipEnvironment {
        folder: "/data".into(),
        disk: Arc::clone(&folder.disk) as Arc<dyn Disk>,
        random: Arc::new(SeededRandom::new(7)),
        executor: Arc::clone(&folder.executor) as Arc<dyn Executor>,
    };
    for starts in 1..4 {
        let node = Membership::open(environment(), members("a", &NODES), 1, false).unwrap();
        let mut numbers = node.starts().to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), starts);
    }
    let node = Membership::open(environment(), members("a", &NODES), 1, false).unwrap();
    let after = folder.after_crash().open(1).starts();
    assert!(
        after.starts_with(&node.starts()),
        "durable before it is told"
    );
}

#[test]
fn a_folder_that_lost_only_its_store_knows_by_itself() {
    let [a, _b, _c] = acquainted();
    assert_eq!(a.open(5).standing().word(), "unfilled");
}

#[test]
fn a_peer_is_noted_only_once_that_is_durable() {
    let folder = Folder::new();
    let node = folder.open(1);
    let told = meet(&node, "b", &introduced(2));
    assert_eq!(*told.lock().unwrap(), None);
    assert_eq!(node.remembered(number("b")), None, "nor is it told before");
    assert_eq!(folder.after_crash().open(1).remembered(number("b")), None);
    folder.executor.run_all_due();
    assert_eq!(*told.lock().unwrap(), Some(true));
    let known = Some(Remembered {
        store_id: 2,
        start: 2,
    });
    assert_eq!(node.remembered(number("b")), known);
    assert_eq!(folder.after_crash().open(1).remembered(number("b")), known);
    // There is nothing to wait for the second time.
    let hello = Introduced {
        told: known,
        ..introduced(2)
    };
    assert_eq!(*meet(&node, "b", &hello).lock().unwrap(), Some(true));
    // But there is with the next start.
    let next = Introduced {
        starts: [2, 5].into(),
        ..hello
    };
    assert_eq!(*meet(&node, "b", &next).lock().unwrap(), None);
}

#[test]
fn a_peer_that_cannot_be_noted_is_refused_and_the_file_is_tried_again() {
    for failing in [Call::Write, Call::Sync, Call::Rename, Call::SyncFolder] {
        let folder = Folder::new();
        let node = folder.open(1);
        assert_eq!(folder.meet(&node, "b", &introduced(2)), Some(true));
        let fault = Fault::at(0, std::io::ErrorKind::StorageFull);
        folder
            .disk
            .arm(fault.only(move |call, _| call == failing).lasting());
        assert_eq!(folder.meet(&node, "c", &introduced(3)), Some(false));
        assert!(folder.disk.failed() > 0, "{failing:?}");
        // Nor is it taken for noted the second time: it waits for the next attempt.
        assert_eq!(folder.meet(&node, "c", &introduced(3)), None);
        // Known peers are none of its business.
        assert_eq!(folder.meet(&node, "b", &introduced(2)), Some(true));
        folder.disk.heal();
        folder.executor.run_until_idle();
        assert_eq!(folder.meet(&node, "c", &introduced(3)), Some(true));
        let after = folder.after_crash().open(1);
        assert_eq!(
            after.remembered(number("c")).unwrap().store_id,
            3,
            "{failing:?}"
        );
    }
}

#[test]
fn a_full_disk_keeps_nobody_from_starting_or_from_being_met() {
    let [a, b, c] = acquainted();
    for folder in [&a, &b, &c] {
        folder.memory.set_capacity(folder.memory.used_bytes());
        let full = folder.memory.create(Path::new("/data/more")).unwrap();
        assert!(full.write_all_at(b"more", 0).is_err(), "it is full");
    }
    for _ in 0..20 {
        let (a, b, c) = (start("a", &a, 1), start("b", &b, 2), start("c", &c, 3));
        for (one, other) in [(&a, &b), (&a, &c), (&b, &c)] {
            assert!(shake(one, other));
        }
        assert_eq!(a.word(), "witness");
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
        folder.meet(&node, "b", &introduced(2));
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
fn another_name_or_list_of_nodes_is_refused() {
    let [a, _b, _c] = acquainted();
    let before = ClusterFile::load(&*a.disk, Path::new("/data")).unwrap();
    let refused = |members: Members| {
        let refused = a.open_as(members.clone(), 1, false).err().unwrap();
        // Nor does it help to accept something.
        assert!(a.open_as(members, 1, true).is_err());
        let line = refused.to_string();
        assert!(!line.contains('\n'), "{line}");
        (refused, line)
    };
    let (refusal, line) = refused(members("b", &NODES));
    assert!(
        matches!(refusal, MembershipError::OtherNode { .. }),
        "{line}"
    );
    for names in [&["a", "b", "c", "d"][..], &["a", "b"], &["a", "b", "d"]] {
        let (refusal, line) = refused(members("a", names));
        assert!(
            matches!(refusal, MembershipError::OtherNodes { .. }),
            "{line}"
        );
        assert!(
            line.contains("a, b, c") && line.contains(&names.join(", ")),
            "{line}"
        );
        assert!(line.contains("--data"), "it says what to do: {line}");
    }
    // A node that was in a cluster is not run alone.
    let alone = Member::named("a", "http://127.0.0.1:1".parse().unwrap()).unwrap();
    let alone = Members::alone(alone);
    refused(alone.clone());
    let after = ClusterFile::load(&*a.disk, Path::new("/data")).unwrap();
    assert_eq!(before, after, "what is refused changes nothing");
    // Nor is one that was alone run in a cluster.
    let folder = Folder::new();
    folder.open_as(alone, 1, false).unwrap();
    assert!(folder.open_as(members("a", &NODES), 1, false).is_err());
}

#[test]
fn a_node_may_move_to_another_address() {
    let [a, _b, _c] = acquainted();
    let at = |port: u16| -> NodeUrl { format!("http://10.0.0.1:{port}").parse().unwrap() };
    let nodes = NODES.iter().zip(1..);
    let nodes = nodes.map(|(name, port)| Member::named(name, at(port)).unwrap());
    let moved = Members::new(nodes.collect(), &at(1)).unwrap();
    let node = a.open_as(moved, 1, false).unwrap();
    assert!(node.remembered(number("b")).is_some());
}

#[test]
fn a_closed_membership_writes_no_more() {
    let folder = Folder::new();
    let node = folder.open(1);
    node.close();
    assert_eq!(folder.meet(&node, "b", &introduced(2)), Some(false));
    assert_eq!(folder.after_crash().open(1).remembered(number("b")), None);
}

const FIXTURE: &[u8] = include_bytes!("../../tests/fixtures/cluster-v3.bin");

fn example_file() -> ClusterFile {
    let known = |store_id, start| StoredNode {
        remembered: Some(Remembered { store_id, start }),
        is_unaware: false,
    };
    let unaware = StoredNode {
        is_unaware: true,
        ..known(u64::MAX, 0x0a)
    };
    ClusterFile {
        own_name: "b".to_owned(),
        store_id: 0x0102_0304_0506_0708,
        standing: Standing::Accepted,
        is_outdated: true,
        starts: vec![0x0c, 0x0b],
        nodes: [
            ("a", known(7, 8)),
            ("b", StoredNode::default()),
            ("http://c:80", unaware),
        ]
        .map(|(name, node)| (name.to_owned(), node))
        .into(),
    }
}

#[test]
fn the_format_is_the_one_drawn_and_that_of_the_fixture() {
    let expected: Vec<u8> = [
        &b"kvorumcl\x03\0\0\0"[..],
        &[8, 7, 6, 5, 4, 3, 2, 1, 2, 1],
        b"\x01\0b",
        b"\x02\0\x0c\0\0\0\0\0\0\0\x0b\0\0\0\0\0\0\0",
        b"\x03",
        b"\x01\0a\x01\x07\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0",
        b"\x01\0b\0",
        b"\x0b\0http://c:80\x03\xff\xff\xff\xff\xff\xff\xff\xff\x0a\0\0\0\0\0\0\0",
    ]
    .concat();
    let bytes = example_file().encode();
    let (content, checksum) = bytes.split_last_chunk().unwrap();
    assert_eq!(content, expected);
    assert_eq!(u32::from_le_bytes(*checksum), crc32c::crc32c(content));
    assert!(
        bytes == FIXTURE,
        "the format has changed: give it a version"
    );
    let decoded = ClusterFile::decode(Path::new("f"), FIXTURE).unwrap();
    assert_eq!(decoded, example_file());
}

/// Content with the checksum that it should have.
fn with_checksum(mut content: Vec<u8>) -> Vec<u8> {
    let checksum = crc32c::crc32c(&content);
    content.extend_from_slice(&checksum.to_le_bytes());
    content
}

#[test]
fn the_decoder_survives_mutations_behind_the_checksum() {
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
            // What is taken is what a node writes, to the byte.
            Ok(file) => {
                decoded += 1;
                assert_eq!(file.encode(), bytes);
            }
            Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "{error}"),
        }
    }
    assert!(decoded > 1_000, "the checksum is no wall: {decoded}");
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
    let mut newer = bytes[..bytes.len() - 4].to_vec();
    newer[8] = 4;
    let result = ClusterFile::decode(file, &with_checksum(newer));
    assert!(matches!(result, Err(Error::Invalid(_))), "{result:?}");
    // Bytes that a checksum vouches for, but no node writes.
    for cut in 12..bytes.len() - 4 {
        let result = ClusterFile::decode(file, &with_checksum(bytes[..cut].to_vec()));
        assert!(
            matches!(result, Err(Error::Corrupt { .. })),
            "{cut}: {result:?}"
        );
    }
}
