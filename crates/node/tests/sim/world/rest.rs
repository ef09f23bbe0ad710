//! The end of a world: all is mended, and the cluster must come to rest.

use super::{PATIENCE, World};
use crate::dice::Dice;
use crate::host::{Acceptance, Copy, Crash};
use crate::network::HostNumber;
use crate::weather::Loss;
use checker::{Action, Outcome, Request};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long the cluster has, once all is mended, until connections stand again.
const SETTLING: Duration = Duration::from_secs(6);

/// How long it has until no hint waits any more.
const DRAINING: Duration = Duration::from_secs(120);

/// How long repairs in the background have.
const REPAIRING: Duration = Duration::from_secs(2);

impl World {
    /// Ends whatever is still broken, but for what was lost with a folder.
    pub(super) fn mend_all(&self) {
        self.network.stop_losses();
        for (number, host) in self.hosts.iter().enumerate() {
            host.clock.set_skew_ms(self.skews_ms[number]);
            if self.lost.get() == Some(number) && self.weather.loss == Some(Loss::Rot) {
                // What is damaged is given up: its node may not even start.
                host.crash(Crash::Kill);
                host.replace_disk(Copy::empty());
                host.forget_rot();
            }
            self.start(number);
        }
    }

    /// Gives the cluster time to come to rest, and says why it has not.
    pub(super) async fn come_to_rest(&self, dice: &Dice) -> Result<(), String> {
        sleep(SETTLING).await;
        self.drain(self.outdated()).await?;
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

    /// The host whose folder is an older one, if there is one: the others take
    /// nothing from it, and so no hints, until it is accepted.
    fn outdated(&self) -> Option<HostNumber> {
        let is_copy = matches!(self.weather.loss, Some(Loss::OldCopy | Loss::RunningCopy));
        self.lost.get().filter(|_| is_copy)
    }

    /// Waits until no hint waits any more, but at `except`.
    async fn drain(&self, except: Option<HostNumber>) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let waiting = self.hosts.iter().map(|host| host.hints_waiting());
            let waiting: Vec<Option<u64>> = waiting.collect();
            let mut hosts = waiting.iter().enumerate();
            if hosts.all(|(host, waiting)| *waiting == Some(0) || except == Some(host)) {
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
    /// agree, and then has the store count as it is.
    async fn accept_loss(&self, lost: HostNumber, dice: &Dice) -> Result<(), String> {
        let host = &self.hosts[lost];
        let others = self.weather.nodes as u8 - 1;
        self.read_all(others, Some(lost), dice).await?;
        sleep(REPAIRING).await;
        host.crash(Crash::Kill);
        self.start_accepting(lost, Acceptance::Empty);
        sleep(SETTLING).await;
        self.drain(None).await
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
            let request = Request {
                client: self.weather.clients,
                node,
                key,
                action: Action::Get,
                ack,
                from: nodes as u8,
            };
            match self.ask(request, PATIENCE).await {
                Some(Outcome::Found { .. }) => {}
                Some(outcome) => {
                    return Err(format!("all is mended, yet {request}: {outcome}"));
                }
                None => return Err(format!("node {node} does not run")),
            }
        }
        Ok(())
    }
}
