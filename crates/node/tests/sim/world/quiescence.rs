//! The end of a world: all faults are healed, and the cluster must reach quiescence.
//!
//! Hints must drain. Then every write that hints cover must be on all its replicas, and no
//! copy anywhere else, *before* any read could repair that. Afterwards every key is read
//! from all nodes, and the replicas must agree.

use super::{PATIENCE, World};
use crate::dice::Dice;
use crate::host::{Acceptance, Copy, Crash, Host};
use crate::network::HostNumber;
use crate::scenario::Loss;
use checker::{Action, Outcome, Request};
use cluster::comparison::RepairKind;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long the cluster has to connect again after all faults are healed.
const SETTLING: Duration = Duration::from_secs(6);

/// How long the cluster has to deliver all hints.
const DRAINING: Duration = Duration::from_secs(120);

/// How long repairs have beside their interval: one may have begun before all was
/// repaired.
const REPAIR_SESSION: Duration = Duration::from_secs(20);

/// How long a store may wait for the outcome of a repair session, while nothing fails.
const OUTCOME: Duration = Duration::from_millis(500);

/// How long the nodes have to rebuild the stores that lost something. Sessions that failed
/// before all faults were healed make them wait longer for the next one.
const REBUILDING: Duration = Duration::from_secs(200);

/// How long a full repair that was ordered may take.
const SCRUBBING: Duration = Duration::from_secs(10);

/// How long the cluster has for repairs in the background.
const REPAIRING: Duration = Duration::from_secs(2);

impl World {
    /// Heals all faults, except for a lost folder.
    pub(super) fn heal_all(&self) {
        self.network.stop_losses();
        for (number, host) in self.hosts.iter().enumerate() {
            self.set_clock(number, self.skews_ms[number]);
            if self.lost.get() == Some(number) && self.scenario.loss == Some(Loss::Rot) {
                self.start_rotten(host);
            }
            self.start(number);
        }
    }

    /// Starts a node whose disk is damaged. If it cannot start, or if no repair repairs it, the
    /// disk is replaced.
    fn start_rotten(&self, host: &Host) {
        if !self.scenario.rebuilds() {
            host.crash(Crash::Kill);
            host.replace_disk(Copy::empty());
        } else if let Err(error) = host.start(Acceptance::Nothing) {
            self.trace
                .note(format_args!("a damaged disk is replaced: {error}"));
            host.replace_disk(Copy::empty());
        }
        host.forget_rot();
    }

    /// Waits for quiescence and checks it. Fails with the reason why it was not reached.
    pub(super) async fn reach_quiescence(&self, dice: &Dice) -> Result<(), String> {
        self.members_settle().await?;
        sleep(SETTLING).await;
        self.drain(self.outdated()).await?;
        let copies = self.copies_of_all_keys()?;
        // A change moves copies, and leaves behind those at earlier places.
        if self.scenario.changing.is_none() {
            self.hints_have_arrived(&copies)?;
            self.no_non_owned(&copies)?;
        }
        self.rebuild_after_power_cuts().await?;
        if let Some(lost) = self.lost_member() {
            if self.scenario.rebuilds() {
                self.rebuild(lost).await?;
            } else {
                self.accept_loss(lost, dice).await?;
            }
        }
        self.repair().await?;
        let all = self.members().len() as u8;
        self.read_all(all, None, dice).await?;
        sleep(REPAIRING).await;
        self.agree(&self.copies_of_all_keys()?)?;
        if let Some(tombstone_gc) = self.scenario.tombstone_gc {
            self.collect_all(tombstone_gc, dice).await?;
            self.agree(&self.copies_of_all_keys()?)?;
        }
        Ok(())
    }

    /// Gives the nodes time to compare everything, where they do, and demands
    /// that they have become equal without a read.
    async fn repair(&self) -> Result<(), String> {
        let Some(interval) = self.scenario.repair_interval else {
            return Ok(());
        };
        sleep(interval + REPAIR_SESSION).await;
        self.trace.note(format_args!("repairs have had their time"));
        let differing = self.agree(&self.copies_of_all_keys()?);
        differing.map_err(|why| format!("after a repair, before anything was read: {why}"))
    }

    /// The member whose folder was lost. While members change it may be the folder of another node.
    fn lost_member(&self) -> Option<HostNumber> {
        self.lost.get().filter(|lost| self.members().contains(lost))
    }

    /// The host whose folder is an older copy, if there is one. Its peers do nothing as
    /// asked by it until it is accepted, so its hints do not drain.
    fn outdated(&self) -> Option<HostNumber> {
        let is_copy = matches!(self.scenario.loss, Some(Loss::OldCopy | Loss::RunningCopy));
        self.lost.get().filter(|_| is_copy)
    }

    /// Waits until no member but `except` has hints left.
    async fn drain(&self, except: Option<HostNumber>) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let members = self.members().into_iter();
            let waiting = members.map(|host| (host, self.hosts[host].hints_waiting()));
            let waiting: Vec<(HostNumber, Option<u64>)> = waiting.collect();
            let mut hosts = waiting.iter();
            if hosts.all(|(host, waiting)| *waiting == Some(0) || except == Some(*host)) {
                self.trace.note(format_args!("hints have drained"));
                return Ok(());
            }
            if began.elapsed() > DRAINING {
                return Err(format!("hints still wait: {waiting:?}"));
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Waits until all stores count but a lost one: a power cut may have taken writes that
    /// a store had acknowledged, so a full session rebuilds it.
    async fn rebuild_after_power_cuts(&self) -> Result<(), String> {
        let began = Instant::now();
        let counts = |host: HostNumber| self.hosts[host].is_voter() == Some(true);
        let waits_for = |host: &HostNumber| self.lost.get() != Some(*host) && !counts(*host);
        while let Some(host) = self.members().into_iter().find(waits_for) {
            if began.elapsed() > REBUILDING {
                return Err(format!("the store of node {host} does not count again"));
            }
            sleep(Duration::from_millis(200)).await;
        }
        // The nodes shake hands again with one whose store was rebuilt.
        sleep(REPAIRING).await;
        Ok(())
    }

    /// Waits until a store whose folder was lost is rebuilt again by itself.
    async fn rebuild(&self, lost: HostNumber) -> Result<(), String> {
        let began = Instant::now();
        while self.hosts[lost].is_voter() != Some(true) {
            if began.elapsed() > REBUILDING {
                return Err(format!("the store of node {lost} was not rebuilt"));
            }
            sleep(Duration::from_millis(200)).await;
        }
        self.trace
            .note(format_args!("the store of node {lost} is rebuilt"));
        if self.scenario.loss == Some(Loss::Rot) {
            self.scrub(lost).await?;
        }
        // The peers serve an outdated store again.
        self.drain(None).await
    }

    /// Waits until full repairs have found all damage of a store, and repaired it.
    async fn scrub(&self, lost: HostNumber) -> Result<(), String> {
        let (host, began) = (&self.hosts[lost], Instant::now());
        loop {
            host.order_repair(RepairKind::Full);
            sleep(SCRUBBING).await;
            if host.has_damage() == Some(false) {
                return Ok(());
            }
            if began.elapsed() > REBUILDING {
                return Err(format!("the store of node {lost} is still damaged"));
            }
        }
    }

    /// Does what an operator does after a folder was lost: lets the other nodes agree, and
    /// then accepts the store as it is.
    async fn accept_loss(&self, lost: HostNumber, dice: &Dice) -> Result<(), String> {
        let host = &self.hosts[lost];
        let others = self.members().len() as u8 - 1;
        self.read_all(others, Some(lost), dice).await?;
        sleep(REPAIRING).await;
        host.crash(Crash::Kill);
        self.start_accepting(lost, Acceptance::Empty);
        sleep(SETTLING).await;
        self.drain(None).await
    }

    /// Reads a key, and once more if a store took no read repair, because it waits for the outcome of a
    /// repair session: that comes within a moment.
    async fn read(&self, request: Request) -> Result<(), String> {
        let mut outcome = self.ask(request, PATIENCE).await;
        if matches!(outcome, Some(Outcome::NotEnough { .. })) {
            sleep(OUTCOME).await;
            outcome = self.ask(request, PATIENCE).await;
        }
        match outcome {
            Some(Outcome::Found { .. }) => Ok(()),
            Some(outcome) => Err(format!("all faults are healed, yet {request}: {outcome}")),
            None => Err(format!("node {} does not run", request.node)),
        }
    }

    /// Reads every key from `ack` replicas, through any member but `except`.
    pub(super) async fn read_all(
        &self,
        ack: u8,
        except: Option<HostNumber>,
        dice: &Dice,
    ) -> Result<(), String> {
        let members = self.members();
        let nodes = members.len();
        for key in 0..self.scenario.keys {
            let place = dice.place(nodes);
            let place = if except == Some(members[place]) {
                (place + 1) % nodes
            } else {
                place
            };
            let node = members[place];
            let request = Request {
                client: self.scenario.clients,
                node,
                key,
                action: Action::Get,
                ack,
                from: nodes as u8,
            };
            self.read(request).await?;
        }
        Ok(())
    }
}
