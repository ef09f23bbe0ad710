//! The end of a world: all is mended, and the cluster must come to rest.

use super::{PATIENCE, World};
use crate::dice::Dice;
use crate::history::{Action, Outcome, Question};
use crate::host::{Acceptance, Copy, Crash};
use crate::network::HostNumber;
use crate::not_yet::{self, Awaited};
use crate::weather::{FaultKind, Loss};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long the cluster has, once all is mended, until connections stand again.
const SETTLING: Duration = Duration::from_secs(6);

/// How long it has until no hint waits any more.
const DRAINING: Duration = Duration::from_secs(120);

/// How long repairs in the background have.
const REPAIRING: Duration = Duration::from_secs(2);

/// How far all wall clocks are set forward, once all is mended, where one was
/// wrong beyond the bound, in milliseconds.
const FAR_SKEW_PASSED_MS: i64 = 24 * 60 * 60 * 1000;

impl World {
    /// Ends whatever is still broken, but for the folder that was lost.
    pub(super) fn mend_all(&self) {
        self.network.stop_losses();
        // What a clock stamped beyond the bound is refused until its time has come.
        let was_far = self.weather.faults.contains(&FaultKind::FarSkew)
            && !not_yet::is_there(Awaited::OwnStampsBounded);
        let passed_ms = if was_far { FAR_SKEW_PASSED_MS } else { 0 };
        for (number, host) in self.hosts.iter().enumerate() {
            host.clock.set_skew_ms(self.skews_ms[number] + passed_ms);
            self.start(number);
        }
    }

    /// Gives the cluster time to come to rest, and says why it has not.
    pub(super) async fn come_to_rest(&self, dice: &Dice) -> Result<(), String> {
        sleep(SETTLING).await;
        self.drain().await?;
        let held = self.held()?;
        self.hints_have_arrived(&held)?;
        self.no_surplus(&held)?;
        if let Some(lost) = self.lost.get() {
            self.accept_loss(lost, dice).await?;
        }
        let all = self.weather.nodes as u8;
        self.read_all(all, None, dice).await?;
        sleep(REPAIRING).await;
        self.agree(&self.held()?)
    }

    /// Waits until no hint waits any more.
    async fn drain(&self) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let waiting = self.hosts.iter().map(|host| host.hints_waiting());
            let waiting: Vec<Option<u64>> = waiting.collect();
            // What a damaged folder lies on may not start.
            let is_drained = |(number, waiting): (HostNumber, &Option<u64>)| match waiting {
                Some(hints) => *hints == 0,
                None => self.lost.get() == Some(number),
            };
            if waiting.iter().enumerate().all(is_drained) {
                self.trace.note(format_args!("hints have drained"));
                return Ok(());
            }
            if began.elapsed() > DRAINING {
                return Err(format!("hints still wait: {waiting:?}"));
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Does what an operator does about a folder that was lost: lets the others
    /// agree, and then has the store count as it is. A damaged one is given up first.
    async fn accept_loss(&self, lost: HostNumber, dice: &Dice) -> Result<(), String> {
        let host = &self.hosts[lost];
        if self.weather.loss == Some(Loss::Rot) {
            host.crash(Crash::Kill);
            host.replace_disk(Copy::empty());
            host.forget_rot();
            self.start(lost);
            sleep(SETTLING).await;
        }
        let others = self.weather.nodes as u8 - 1;
        self.read_all(others, Some(lost), dice).await?;
        sleep(REPAIRING).await;
        host.crash(Crash::Kill);
        self.start_accepting(lost, Acceptance::Empty);
        sleep(SETTLING).await;
        self.drain().await
    }

    /// Reads every key from so many replicas, by way of any node but one.
    async fn read_all(
        &self,
        ack: u8,
        except: Option<HostNumber>,
        dice: &Dice,
    ) -> Result<(), String> {
        let nodes = self.weather.nodes;
        for key in 0..self.weather.keys {
            let node = dice.place(nodes);
            let node = match except == Some(node) {
                true => (node + 1) % nodes,
                false => node,
            };
            let question = Question {
                client: self.weather.clients,
                node,
                key,
                action: Action::Get,
                ack,
                from: nodes as u8,
            };
            match self.ask(question, PATIENCE).await {
                Some(Outcome::Found { .. }) => {}
                Some(outcome) => {
                    return Err(format!("all is mended, yet {question}: {outcome}"));
                }
                None => return Err(format!("node {node} does not run")),
            }
        }
        Ok(())
    }
}
