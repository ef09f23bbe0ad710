//! Makes a backup of the cluster.
//!
//! 1. The target is told that a backup is under way.
//! 2. The cut: [`Cut`] says whom to ask what. If it does not count, it is tried again after a
//!    moment; another coordinator may be at it.
//! 3. Each node that is part of the cut stores its tables. This node asks how far they are, which
//!    also tells them that it is still there.
//! 4. The object that names all of it is written. Until then there is no backup.

use super::Backups;
use backup::{BackupContents, BackupError, Listed, NodeSummary, Running};
use base::{Backoff, Clock};
use cluster::backup::{Cut, CutResult, CutStep, HeldStore};
use cluster::layout::Phase;
use cluster::{Layout, Miss, NodeId};
use lsm::JobClass;
use membership::Layouts;
use peer::{BackupAnswer, BackupRequest, PeerAnswer, PeerRequest};
use replica::pending::PendingRequests;
use replica::{Completion, Peers};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How long all stores have to hold. They hold for twice as long at most.
const HOLD_WAIT: Duration = Duration::from_millis(100);

/// How long a node has to say whether its hold has lasted.
const GO_ON_WAIT: Duration = Duration::from_secs(2);

/// How long a node has for any other answer.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// How often a cut is tried.
const CUTS_MAX: u32 = 12;
const CUT_RETRIES: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));

/// How often a node is asked how far its upload is.
const POLL_PERIOD: Duration = Duration::from_millis(500);

/// How long a node may be silent during its upload.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// How often the target is told that the backup is still under way, if it was not for a minute.
const REFRESH_PERIOD: Duration = Duration::from_secs(30);

/// What an operator orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackupOrder {
    /// The name of the target.
    pub(crate) target: String,
    /// How many stores may be missing.
    pub(crate) missing_max: usize,
    /// Whether the target becomes one of this cluster, whomever it belongs to.
    pub(crate) adopts: bool,
}

/// Makes backups on one runtime.
pub(crate) struct BackupCoordinator {
    pub(crate) backups: Arc<Backups>,
    pub(crate) layouts: Layouts,
    pub(crate) peers: Rc<Peers>,
    pub(crate) pending: Rc<PendingRequests>,
}

/// What has come while a cut is under way.
enum CutEvent {
    Answered(NodeId, Result<BackupAnswer, String>),
    WentOn(NodeId, bool, Result<BackupAnswer, String>),
}

/// A cut that counts, and of when it is.
struct MadeCut {
    result: CutResult,
    unix_ms: u64,
}

impl BackupCoordinator {
    /// Begins a backup, or joins the one under way at the same target. Returns its number, and
    /// whether it is new.
    ///
    /// # Errors
    /// [`BackupError::NoTarget`] if this node has no such target, [`BackupError::Busy`] while it makes
    /// another backup, or the list of members changes: the stores of new members lack
    /// something then.
    pub(crate) fn order(self: &Rc<Self>, order: BackupOrder) -> Result<(u64, bool), BackupError> {
        self.backups.environment.place_of(&order.target)?;
        let layout = self.layouts.load();
        if layout.phase() != Phase::Stable {
            let why = "the list of members changes: make a backup once that is over";
            return Err(BackupError::Busy(why.to_owned()));
        }
        let (number, is_new) = self.backups.begin(&order)?;
        if is_new {
            let own = Rc::clone(self);
            tokio::task::spawn_local(async move {
                let result = own.make(&order, &layout).await;
                match &result {
                    Ok(backup) => tracing::info!(
                        backup = %backup.id,
                        target = order.target,
                        bytes = backup.contents.bytes(),
                        new_bytes = backup.contents.new_bytes(),
                        "a backup is complete"
                    ),
                    Err(error) => tracing::warn!(
                        %error,
                        target = order.target,
                        "a backup failed; earlier ones are as they were"
                    ),
                }
                own.backups.note_end(number, &order.target, result);
            });
        }
        Ok((number, is_new))
    }

    fn clock(&self) -> &dyn Clock {
        &*self.backups.environment.clock
    }

    async fn make(self: &Rc<Self>, order: &BackupOrder, layout: &Layout) -> Result<Listed, String> {
        let began_unix_ms = self.clock().unix_ms();
        let random = self.backups.environment.random.next_u64();
        let (user, adopts) = (self.backups.user(), order.adopts);
        let begun = self.backups.at_target(&order.target, move |catalog| {
            if adopts {
                catalog.adopt(&user)?;
            }
            catalog.begin(&user, random)
        });
        let running = Arc::new(begun.await.map_err(|error| error.to_string())?);
        let made = self
            .make_noted(order, &running, layout, began_unix_ms)
            .await;
        let environment = &self.backups.environment;
        let complete = made.map(|contents| {
            let running = Arc::clone(&running);
            move || running.complete(&contents)
        });
        let completed = match complete {
            Ok(complete) => {
                let completed = environment.run_at(&order.target, complete).await;
                completed.map_err(|error| error.to_string())
            }
            Err(error) => Err(error),
        };
        if completed.is_err() {
            // Otherwise the note would hold pruning up.
            let end = move || running.end();
            if let Err(error) = environment.run_at(&order.target, end).await {
                tracing::debug!(%error, "could not take the note of a backup back");
            }
        }
        completed
    }

    async fn make_noted(
        self: &Rc<Self>,
        order: &BackupOrder,
        running: &Arc<Running>,
        layout: &Layout,
        began_unix_ms: u64,
    ) -> Result<BackupContents, String> {
        let cut = self.cut(layout, order.missing_max).await?;
        let holds = cut
            .result
            .frozen
            .iter()
            .map(|(node, store)| (*node, store.hold));
        let holds: Vec<_> = holds.collect();
        let frozen = &cut.result.frozen;
        let uploaded = self.upload_all(order, running, layout, frozen).await;
        self.give_up(holds);
        let (nodes, failed) = uploaded?;
        let mut missing = cut.result.missing;
        missing.extend(failed.keys());
        missing.sort_unstable();
        if missing.len() > order.missing_max {
            return Err(describe(layout, &failed));
        }
        let members = layout.members();
        let name = |node: NodeId| members.name(node).to_owned();
        Ok(BackupContents {
            format: backup::FORMAT,
            // Known once it is complete.
            number: 0,
            zones: self.backups.store.zones(),
            gc_threshold: cut.result.gc_threshold.as_u64(),
            members: members.names().map(str::to_owned).collect(),
            missing: missing.into_iter().map(name).collect(),
            began_unix_ms,
            cut_unix_ms: cut.unix_ms,
            completed_unix_ms: self.clock().unix_ms(),
            greatest_timestamp: cut.result.greatest_timestamp.as_u64(),
            nodes,
        })
    }

    /// Makes a cut, if need be after some tries.
    async fn cut(self: &Rc<Self>, layout: &Layout, missing_max: usize) -> Result<MadeCut, String> {
        let mut backoff = CUT_RETRIES;
        loop {
            let failed = match self.try_cut(layout, missing_max).await {
                Ok(cut) => return Ok(cut),
                Err(failed) => failed,
            };
            backoff.fail();
            if backoff.failures() >= CUTS_MAX {
                return Err(failed);
            }
            tracing::debug!(%failed, "a cut did not count and is tried again");
            let random = &*self.backups.environment.random;
            tokio::time::sleep(backoff.jittered_wait(random)).await;
        }
    }

    async fn try_cut(
        self: &Rc<Self>,
        layout: &Layout,
        missing_max: usize,
    ) -> Result<MadeCut, String> {
        let nodes = layout.members().ids();
        let mut cut = Cut::begin(nodes, layout.epoch(), missing_max);
        let mut events = JoinSet::new();
        for node in layout.members().ids() {
            let own = Rc::clone(self);
            events.spawn_local(async move {
                let answer = own.ask(node, BackupRequest::Hold, HOLD_WAIT).await;
                CutEvent::Answered(node, answer)
            });
        }
        let mut holds = Vec::new();
        let mut reasons = BTreeMap::new();
        let mut unix_ms = self.clock().unix_ms();
        let mut time_is_over = std::pin::pin!(tokio::time::sleep(HOLD_WAIT));
        let mut is_over = false;
        loop {
            let event = tokio::select! {
                event = events.join_next() => match event {
                    Some(Ok(event)) => Some(event),
                    Some(Err(error)) => return Err(error.to_string()),
                    None => break,
                },
                () = &mut time_is_over, if !is_over => None,
            };
            let steps = match event {
                None => {
                    is_over = true;
                    cut.time_is_over()
                }
                Some(CutEvent::Answered(node, Ok(BackupAnswer::Held(store)))) => {
                    holds.push((node, store.hold));
                    cut.held(node, store)
                }
                Some(CutEvent::Answered(node, answer)) => {
                    reasons.insert(node, why(answer));
                    cut.missed(node)
                }
                Some(CutEvent::WentOn(node, true, Ok(BackupAnswer::WentOn { has_lasted }))) => {
                    if !has_lasted {
                        let why = "its writes could not be held off for long enough";
                        reasons.insert(node, why.to_owned());
                    }
                    cut.went_on(node, has_lasted);
                    Vec::new()
                }
                Some(CutEvent::WentOn(node, true, answer)) => {
                    reasons.insert(node, why(answer));
                    cut.missed(node)
                }
                Some(CutEvent::WentOn(_, false, _)) => Vec::new(),
            };
            if !steps.is_empty() {
                // All hold.
                unix_ms = self.clock().unix_ms();
            }
            for CutStep::GoOn { node, hold, keeps } in steps {
                let own = Rc::clone(self);
                events.spawn_local(async move {
                    let request = BackupRequest::GoOn { hold, keeps };
                    let answer = own.ask(node, request, GO_ON_WAIT).await;
                    CutEvent::WentOn(node, keeps, answer)
                });
            }
        }
        match cut.end() {
            Some(Ok(result)) => {
                // What is not part of it is let go of.
                holds.retain(|(node, _)| result.missing.contains(node));
                self.give_up(holds);
                Ok(MadeCut { result, unix_ms })
            }
            Some(Err(failure)) => {
                self.give_up(holds);
                for node in failure.missing {
                    let late = || {
                        "did not hold its writes off in time, or has yet to hear of a GC threshold \
                         or a list of members that others know"
                            .to_owned()
                    };
                    reasons.entry(node).or_insert_with(late);
                }
                Err(describe(layout, &reasons))
            }
            None => Err("the cut has no end".to_owned()),
        }
    }

    /// Has nodes let go of what they froze, without waiting for that.
    fn give_up(self: &Rc<Self>, holds: Vec<(NodeId, u64)>) {
        for (node, hold) in holds {
            let own = Rc::clone(self);
            tokio::task::spawn_local(async move {
                let request = BackupRequest::GiveUp { hold };
                let _answer = own.ask(node, request, ANSWER_WAIT).await;
            });
        }
    }

    /// Has all nodes of the cut store their tables. Returns what they have stored, and why others
    /// have not.
    async fn upload_all(
        self: &Rc<Self>,
        order: &BackupOrder,
        running: &Arc<Running>,
        layout: &Layout,
        frozen: &[(NodeId, HeldStore)],
    ) -> Result<(Vec<NodeSummary>, BTreeMap<NodeId, String>), String> {
        let progress: Rc<RefCell<BTreeMap<NodeId, (u64, u64)>>> = Rc::default();
        let mut uploads = JoinSet::new();
        for (node, store) in frozen {
            let (own, node, hold) = (Rc::clone(self), *node, store.hold);
            let request = BackupRequest::Upload {
                hold,
                backup: running.id.to_string(),
                target: order.target.clone(),
            };
            let progress = Rc::clone(&progress);
            let name = layout.members().name(node).to_owned();
            uploads.spawn_local(async move {
                let note = |bytes, done_bytes| {
                    progress.borrow_mut().insert(node, (bytes, done_bytes));
                };
                (node, own.upload(node, name, request, note).await)
            });
        }
        let (mut nodes, mut failed) = (BTreeMap::new(), BTreeMap::new());
        let mut refreshed = self.clock().monotonic();
        loop {
            tokio::select! {
                ended = uploads.join_next() => match ended {
                    Some(Ok((node, Ok(summary)))) => drop(nodes.insert(node, summary)),
                    Some(Ok((node, Err(why)))) => drop(failed.insert(node, why)),
                    Some(Err(error)) => tracing::error!(%error, "a task of a backup panicked"),
                    None => break,
                },
                () = tokio::time::sleep(POLL_PERIOD) => {}
            }
            let (bytes, done_bytes) = progress
                .borrow()
                .values()
                .fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
            self.backups.note_progress(bytes, done_bytes);
            let now = self.clock().monotonic();
            if now.saturating_sub(refreshed) >= REFRESH_PERIOD {
                refreshed = now;
                let running = Arc::clone(running);
                let refresh = move || running.refresh();
                let environment = &self.backups.environment;
                match environment.run_at(&order.target, refresh).await {
                    Ok(()) => {}
                    // Others may remove what it stores.
                    Err(error @ BackupError::TakenForDead) => return Err(error.to_string()),
                    Err(error) => {
                        tracing::warn!(%error, "could not note that a backup is still under way");
                    }
                }
            }
        }
        Ok((nodes.into_values().collect(), failed))
    }

    /// Has a node store its tables, and waits for that.
    async fn upload(
        &self,
        node: NodeId,
        name: String,
        request: BackupRequest,
        note: impl Fn(u64, u64),
    ) -> Result<NodeSummary, String> {
        let mut heard = self.clock().monotonic();
        loop {
            match self.ask(node, request.clone(), ANSWER_WAIT).await {
                Ok(BackupAnswer::Uploading { bytes, done_bytes }) => {
                    heard = self.clock().monotonic();
                    note(bytes, done_bytes);
                }
                Ok(BackupAnswer::Uploaded {
                    sha256,
                    tables,
                    bytes,
                    new_bytes,
                }) => {
                    note(bytes, bytes);
                    return Ok(NodeSummary::new(name, sha256, tables, bytes, new_bytes));
                }
                Ok(answer) => return Err(why(Ok(answer))),
                Err(why) => {
                    let silence = self.clock().monotonic().saturating_sub(heard);
                    if silence >= SILENCE_MAX {
                        return Err(why);
                    }
                }
            }
            tokio::time::sleep(POLL_PERIOD).await;
        }
    }

    /// Asks a node, which may be this one.
    async fn ask(
        &self,
        node: NodeId,
        request: BackupRequest,
        time_max: Duration,
    ) -> Result<BackupAnswer, String> {
        let deadline = self.clock().monotonic().saturating_add(time_max);
        let Some(link) = self.peers.link(node) else {
            return Ok(answer(&self.backups, request, deadline).await);
        };
        let wait = self.pending.wait(deadline);
        let request = PeerRequest::Backup(request);
        let called = link.call(request, deadline, wait.address());
        called.map_err(|miss| describe_miss(miss).to_owned())?;
        match wait.only().await {
            Some(Completion::Peer(PeerAnswer::Backup(answer))) => Ok(answer),
            Some(Completion::Peer(PeerAnswer::Missed(miss))) => Err(describe_miss(miss).to_owned()),
            Some(_) => Err("answers something else".to_owned()),
            None => Err("did not answer in time".to_owned()),
        }
    }
}

/// This node's answer to the coordinator of a backup.
pub(crate) async fn answer(
    backups: &Backups,
    request: BackupRequest,
    deadline: Duration,
) -> BackupAnswer {
    let store = &backups.store;
    match request {
        BackupRequest::Hold => store.hold(deadline).await,
        BackupRequest::GoOn { hold, keeps } => store.go_on(hold, keeps).await,
        BackupRequest::Upload {
            hold,
            backup,
            target,
        } => store.upload(hold, &backup, &target),
        BackupRequest::GiveUp { hold } => {
            let store = Arc::clone(store);
            let give_up = move || store.give_up(hold);
            let answer = backups.environment.run(JobClass::Owner, give_up).await;
            answer.unwrap_or(BackupAnswer::GivenUp)
        }
    }
}

/// Why nodes are missing, as one line.
fn describe(layout: &Layout, reasons: &BTreeMap<NodeId, String>) -> String {
    let members = layout.members();
    let reasons = reasons
        .iter()
        .map(|(node, why)| format!("{}: {why}", members.name(*node)));
    reasons.collect::<Vec<_>>().join("; ")
}

fn why(answer: Result<BackupAnswer, String>) -> String {
    match answer {
        Ok(BackupAnswer::Refused(why)) | Err(why) => why,
        Ok(_) => "answers something else".to_owned(),
    }
}

fn describe_miss(miss: Miss) -> &'static str {
    match miss {
        Miss::Unsupported => "its release knows no backups",
        Miss::Timeout => "did not answer in time",
        Miss::Overloaded => "is overloaded",
        _ => "cannot be reached",
    }
}
