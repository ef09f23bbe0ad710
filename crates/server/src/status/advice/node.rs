//! What a node says of its own store, disk and files.

use super::reach::{Refusing, waiting};
use super::thresholds::HINT_SHARE_MAX;
use super::view::View;
use super::view::listed;
use api::cluster::{Advice, Severity, hints_for};
use api::status::Status;
use units::{bytes, counted};

/// What other advice explains already.
#[derive(Clone, Copy)]
pub(super) struct Explained {
    /// Why clocks are not near each other.
    pub(super) clocks: bool,
    /// Why nodes have not met.
    pub(super) no_peers: bool,
}

/// What to do about one node.
pub(super) fn of(
    view: View<'_>,
    status: &Status,
    refusing: &Refusing<'_>,
    explained: Explained,
) -> Vec<Advice> {
    let name = status.name.as_str();
    let bad = |what: String, remedy: &str, runbook: &str| {
        Advice::of_node(Severity::Bad, name, what, remedy, runbook)
    };
    let silent = view.silent();
    let mut all = Vec::new();
    let state = if refusing.has(name) {
        None
    } else {
        of_replica_state(status, silent)
    };
    match state {
        Some(advice) => all.push(advice),
        None => all.extend(of_refusal(status, explained)),
    }
    if let Some(why) = &status.store.poisoned {
        let what = format!("its store is read-only ({why})");
        let remedy = "Check its disk, then restart it or replace it";
        all.push(bad(what, remedy, "A failed sync"));
    }
    if let Some(why) = &status.store.failing {
        let what = format!("its store cannot write files ({why}); it tries again each second");
        let remedy = "Check its data folder and its disk";
        all.push(bad(what, remedy, "A store that cannot write files"));
    }
    all.extend(of_room(view, status));
    all.extend(of_damage(status, silent));
    all.extend(of_set_aside(status));
    all.extend(of_hints(status));
    all.extend(of_files(status));
    all
}

/// What to do about a store that does not count, or was forced to.
fn of_replica_state(status: &Status, silent: &[&str]) -> Option<Advice> {
    const RUNBOOK: &str = "A store that does not count";
    let bad = |what: String, remedy: String| {
        Some(Advice::of_node(
            Severity::Bad,
            &status.name,
            what,
            remedy,
            RUNBOOK,
        ))
    };
    let is_repaired = !status.repair.running.is_empty();
    let start = format!("Start {}", listed(silent));
    let state = status.replica_state.as_str();
    match (state, silent.is_empty(), &status.learner_because) {
        // A full repair fills it, or it is confirmed, by itself.
        ("voter", ..) | ("starting", true, _) => None,
        ("starting", false, _) => bad(
            "its store does not count before all nodes have met once".to_owned(),
            start,
        ),
        ("learner", false, _) => bad(
            "its store has lost data and does not count; it is rebuilt by itself once all nodes \
             are up"
                .to_owned(),
            start,
        ),
        ("learner", true, _) if is_repaired => None,
        ("learner", true, Some(why)) => bad(
            format!("its store does not count: {why}"),
            "A full repair makes it count once that is over".to_owned(),
        ),
        // Until the first has ended, it needs nobody.
        ("learner", true, None) => match status.repair.full.incomplete {
            0 => None,
            failed => {
                let verb = if failed == 1 { "has" } else { "have" };
                let failed = counted(failed, "full repair");
                bad(
                    format!("its store does not count: {failed} {verb} not rebuilt it"),
                    "See 'a repair has ended' in the logs of the nodes: the one that coordinates repairs has it".to_owned(),
                )
            }
        },
        // A full repair has rebuilt it since it started. What came before says nothing: a store
        // that was restored from a copy brings its old times with it.
        ("forced_voter", ..) => {
            let is_filled = status.others().all(|member| {
                let seconds = status.seconds_since(member.last_full_repair_unix_ms);
                seconds.is_some_and(|seconds| seconds < status.uptime_seconds)
            });
            let what = "it was started with --accept-data-loss and may lack data";
            let remedy = "Run 'kvorum admin repair --full --wait' once all nodes are up";
            (!is_filled)
                .then(|| Advice::of_node(Severity::Warn, &status.name, what, remedy, RUNBOOK))
        }
        (other, ..) => bad(
            format!("its replica state is {other}, which this release does not know"),
            "Upgrade all nodes to one release".to_owned(),
        ),
    }
}

/// What to do about a node that allocates no timestamps.
fn of_refusal(status: &Status, explained: Explained) -> Option<Advice> {
    let why = status.clock.refuses_writes.as_ref()?;
    let clock = "Clock out of bounds";
    let store = "A store that does not count";
    let (remedy, runbook) = match status.clock.refuses_because.as_deref() {
        _ if status.replica_state == "learner" => return None,
        Some("stopping") => return None,
        Some("far") if explained.clocks => return None,
        Some("none near") if explained.clocks => return None,
        Some("unmet") if explained.clocks || explained.no_peers => return None,
        Some("unmet") => ("Start the other nodes", clock),
        Some("new store") => ("Start all nodes; it ends by itself", store),
        Some("restored store") => ("Start all nodes: a full repair fills it", store),
        Some("disk") => (
            "Look for errors of the disk in its log",
            "Damaged timestamp bound",
        ),
        Some("timestamps ahead" | "no timestamps left") => (
            "Wait until its clock has caught up, or start it with --drop-future-versions",
            clock,
        ),
        _ => ("Repair NTP on its machine", clock),
    };
    let what = format!("it refuses writes: {why}");
    Some(Advice::of_node(
        Severity::Bad,
        &status.name,
        what,
        remedy,
        runbook,
    ))
}

/// What to do about a disk without room for puts, or for what a rebuild brings.
fn of_room(view: View<'_>, status: &Status) -> Option<Advice> {
    let name = status.name.as_str();
    let is_full = status.store.disk_full;
    if !is_full && !stands_still(status) {
        return None;
    }
    let node = view.nodes.iter().find(|node| node.name == name);
    let report = node.and_then(|node| node.report.as_ref());
    let free = report.and_then(|report| report.free_bytes);
    let size = report.and_then(|report| report.disk_bytes);
    let wanted = status.store.room_wanted_bytes;
    let has = |free: u64| format!("{} are free", bytes(free as f64));
    let (mut what, remedy) = match (is_full, wanted, free) {
        (true, Some(wanted), Some(free)) => {
            let has = has(free);
            let is_small = size.is_some_and(|size| size < wanted);
            let state = if is_small {
                "its disk is too small for its reserve"
            } else {
                "its disk is full"
            };
            let wanted = bytes(wanted as f64);
            (
                format!(
                    "{state}: {has}, and it takes puts again with {wanted} \
                     (--disk-reserve-bytes and four times --memtable-bytes)"
                ),
                "Give it room, delete keys, or lower --disk-reserve-bytes",
            )
        }
        (true, ..) => (
            "its disk is full".to_owned(),
            "Give it room, or delete keys",
        ),
        (false, wanted, free) => {
            let mut why = "its disk has no room".to_owned();
            if let (Some(wanted), Some(free)) = (wanted, free) {
                let (has, wanted) = (has(free), bytes(wanted as f64));
                why += &format!(": {has}, and it wants at least {wanted}");
            }
            (
                format!("its rebuild stands still, because {why}"),
                "Give it room or lower --disk-reserve-bytes",
            )
        }
    };
    let hints = hints_for(view.nodes, name);
    if is_full && hints > 0 {
        what += &format!(", and {} for it", waiting(hints));
    }
    Some(Advice::of_node(
        Severity::Bad,
        name,
        what,
        remedy,
        "Full disk",
    ))
}

/// Whether a node's disk lacks the room for what its rebuild brings.
pub(super) fn stands_still(status: &Status) -> bool {
    let is_rebuilt = status.repair.rebuild.is_some() || status.replica_state == "learner";
    is_rebuilt && status.store.room_wanted_bytes.is_some()
}

/// What to do about damage.
fn of_damage(status: &Status, silent: &[&str]) -> Option<Advice> {
    let (what, remedy) = match (status.store.tables_damaged, status.store.damaged_ranges) {
        (0, 0) => return None,
        // Nobody repairs a node alone.
        _ if status.others().next().is_none() => (
            "it cannot read a part of its tables".to_owned(),
            "Check its disk, then restore the last copy of its folder, or copy what it can still \
             read to a new node"
                .to_owned(),
        ),
        // A compaction notes no range for a block that it could not read; a full repair does.
        (tables, 0) => (
            format!("{} cannot be read whole", counted(tables, "of its table")),
            "Check its disk, then run 'kvorum admin repair --full --wait', which has the other \
             nodes repair it"
                .to_owned(),
        ),
        (_, ranges) => {
            let who = match silent {
                [] => "A full repair does it by itself".to_owned(),
                silent => format!("Start {}", listed(silent)),
            };
            (
                format!(
                    "{} of its store may lie in a damaged block, and what it says about them does \
                     not count until the other nodes have repaired it",
                    counted(ranges, "key range")
                ),
                format!("{who}. Check its disk; damage that comes back is a disk that dies"),
            )
        }
    };
    Some(Advice::of_node(
        Severity::Bad,
        &status.name,
        what,
        remedy,
        "Damaged data",
    ))
}

/// What to do about copies that were set aside.
fn of_set_aside(status: &Status) -> Option<Advice> {
    let set_aside = status.store.set_aside.as_ref()?;
    let what = format!(
        "it has set aside up to {} that may have been deleted: those that no other node has may \
         be lost until you decide",
        counted(set_aside.copies_max, "version")
    );
    let remedy = format!(
        "Run 'kvorum admin set-aside list --url {}', then restore or discard them",
        status.url
    );
    Some(Advice::of_node(
        Severity::Warn,
        &status.name,
        what,
        remedy,
        "Copies set aside",
    ))
}

/// What to do about hints that take much of their room.
fn of_hints(status: &Status) -> Option<Advice> {
    let bytes = status.cluster.iter().map(|member| member.hint_bytes);
    let bytes = bytes.fold(0, u64::saturating_add);
    let share = bytes as f64 / status.hints.bytes_max.max(1) as f64;
    if share <= HINT_SHARE_MAX {
        return None;
    }
    let most = status.cluster.iter().max_by_key(|member| member.hint_bytes);
    let what = format!(
        "its hints take {:.0}% of their room, most of them for {}; past that the oldest are \
         dropped and left to repairs",
        share * 100.0,
        most.map_or("another node", |member| &member.name)
    );
    let remedy = "Bring that node back, or raise --hint-bytes-max";
    let runbook = "A node is down or silent";
    Some(Advice::of_node(
        Severity::Warn,
        &status.name,
        what,
        remedy,
        runbook,
    ))
}

/// What to do about files that have changed and cannot be used.
fn of_files(status: &Status) -> Vec<Advice> {
    let name = status.name.as_str();
    let mut all = Vec::new();
    if let Some(tls) = &status.tls
        && let Some(problem) = &tls.problem
    {
        let what = format!("its files of TLS have changed and cannot be used: {problem}");
        let remedy = "Put the right files in their place, and do not restart it before: it \
                      would not start";
        let runbook = "The files of TLS cannot be used";
        all.push(Advice::of_node(Severity::Bad, name, what, remedy, runbook));
    }
    if status.tokens.as_ref().is_some_and(|tokens| tokens.unusable) {
        let what = "its tokens file cannot be used, so what it has read before stays in force";
        let remedy = "Its log says why; repair the file";
        let runbook = "The tokens file cannot be used";
        all.push(Advice::of_node(Severity::Warn, name, what, remedy, runbook));
    }
    all
}
