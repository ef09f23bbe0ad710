//! Changes of the members of a local cluster: its supervisor starts a node and lets it join, or lets
//! one leave and stops its process.
//!
//! ```text
//! add:     folder, certificate, members.json -> serve --join -> it waits -> join -> copying … stable
//! remove:  leave -> copying … stable -> its process is stopped -> members.json, folder
//! ```
//!
//! A change goes on if whoever asked for it leaves, and one change is made at a time. What a run of
//! `kvorum dev` has not brought to its end, because it was stopped, the next one does
//! ([`MemberOrders::settle`]).

use super::actions::{CommandResult, Supervisor};
use super::nodes::{Nodes, no_node};
use crate::admin::waits_for;
use crate::text;
use api::members::{MemberList, MembersPlan};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot, watch};
use tokio::time::Instant;

/// How often the nodes are asked how far a change is.
const INTERVAL: Duration = Duration::from_millis(250);

/// How long a new node may take to start, and to be heard by the members.
const WAITING_MAX: Duration = Duration::from_secs(60);

/// What is to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberOrder {
    /// Another node joins.
    Add,
    /// That node leaves, or the one with the greatest number.
    Remove(Option<u8>),
}

/// A change that is being made.
pub(super) struct MemberChange {
    /// How far it is, in a line; empty until it has begun.
    pub(super) said: watch::Receiver<String>,
    /// How it has ended.
    pub(super) end: oneshot::Receiver<CommandResult>,
}

/// Who changes the members. It is cheap to clone.
#[derive(Clone)]
pub(super) struct MemberOrders {
    nodes: Nodes,
    /// Held while a change is made.
    busy: Arc<Mutex<()>>,
}

/// What of a page of the cluster counts here.
#[derive(Deserialize)]
struct ClusterPage {
    members: Option<MemberList>,
}

impl MemberOrders {
    /// Those of these nodes.
    pub(super) fn of(nodes: Nodes) -> Self {
        Self {
            nodes,
            busy: Arc::default(),
        }
    }

    /// The nodes.
    pub(super) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Begins a change.
    ///
    /// # Errors
    /// Another one is being made; there is no such node.
    pub(super) fn begin(&self, order: MemberOrder) -> Result<MemberChange, String> {
        let busy = Arc::clone(&self.busy).try_lock_owned();
        let busy = busy.map_err(|_| "another node is being added or removed: wait for its end")?;
        let (says, said) = watch::channel(String::new());
        let (ends, end) = oneshot::channel();
        let orders = self.clone();
        let node = match order {
            MemberOrder::Add => None,
            MemberOrder::Remove(number) => Some(self.node(number)?),
        };
        tokio::spawn(async move {
            let made = orders.make(node, &says, busy).await;
            // Whoever asked for it may have left.
            let _ = ends.send(made);
        });
        Ok(MemberChange { said, end })
    }

    /// The node that is to leave.
    fn node(&self, number: Option<u8>) -> Result<Supervisor, String> {
        let node = match number {
            Some(number) => self.nodes.get(number.into()),
            None => self.nodes.list().pop(),
        };
        node.ok_or_else(|| no_node(number.unwrap_or_default().into(), &self.nodes))
    }

    async fn make(
        &self,
        leaves: Option<Supervisor>,
        says: &watch::Sender<String>,
        _busy: OwnedMutexGuard<()>,
    ) -> CommandResult {
        match leaves {
            None => self.add(says).await,
            Some(node) => self.remove(&node, says).await,
        }
    }

    async fn add(&self, says: &watch::Sender<String>) -> CommandResult {
        let layout = &self.nodes.layout;
        let node = layout.add().map_err(|failure| failure.line().to_owned())?;
        let begun = match self.nodes.start(&node) {
            Ok(()) => self.let_join(&node.name).await,
            Err(failure) => Err(failure.line().to_owned()),
        };
        let plan = match begun {
            Ok(plan) => plan,
            Err(problem) => {
                self.forget(node.number).await?;
                return Err(problem);
            }
        };
        let list = self.follow(plan.epoch, says).await;
        if list.members.iter().any(|member| member.name == node.name) {
            let (name, url) = (&node.name, node.url());
            return Ok(format!(
                "{name} has joined at {url}, and holds its part of the data"
            ));
        }
        self.forget(node.number).await?;
        Err(format!(
            "the change was undone, and {} is no member",
            node.name
        ))
    }

    /// Has the members take in a node, once it waits to join.
    async fn let_join(&self, name: &str) -> Result<MembersPlan, String> {
        let until = Instant::now() + WAITING_MAX;
        loop {
            let mut problem = "no other node runs".to_owned();
            for member in self.askable(name).iter().filter(|node| node.name != name) {
                let target = format!("/v0/admin/members?join={name}");
                match self.nodes.probe.order(member.address, &target).await {
                    Ok(plan) => return Ok(plan),
                    Err(why) => problem = why,
                }
            }
            if Instant::now() >= until {
                return Err(problem);
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn remove(&self, node: &Supervisor, says: &watch::Sender<String>) -> CommandResult {
        let name = &node.name;
        let target = format!("/v0/admin/members?leave={name}");
        let mut ordered = Err("no other node runs".to_owned());
        for member in self.askable(name) {
            ordered = self.nodes.probe.order(member.address, &target).await;
            if ordered.is_ok() {
                break;
            }
        }
        let plan: MembersPlan = ordered?;
        let list = self.follow(plan.epoch, says).await;
        if list.members.iter().any(|member| member.name == *name) {
            return Err(format!("the change was undone, and {name} is a member"));
        }
        self.forget(node.number).await?;
        Ok(format!(
            "{name} has left: the others have its data, and its process is stopped"
        ))
    }

    /// The nodes that run, those last that are to be asked only if there is no other one.
    fn askable(&self, last: &str) -> Vec<Supervisor> {
        let mut nodes = self.nodes.list();
        nodes.retain(|node| node.state().state == "running");
        nodes.sort_by_key(|node| node.name == last);
        nodes
    }

    /// Waits until a change has ended that began with a list of this epoch. Gives the last list.
    async fn follow(&self, epoch: u64, says: &watch::Sender<String>) -> MemberList {
        loop {
            if let Some(list) = self.list().await {
                if list.phase == "stable" && list.epoch >= epoch {
                    return list;
                }
                let line = format!("{}: {}", list.phase, waits_for(&list));
                says.send_if_modified(|said| {
                    let is_other = *said != line;
                    *said = line;
                    is_other
                });
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// The latest list that a node knows that is a member.
    async fn list(&self) -> Option<MemberList> {
        let mut latest: Option<MemberList> = None;
        for node in self.askable("") {
            let page = self.nodes.probe.page(node.address, "/v0/cluster").await;
            let list = page.ok().and_then(|page: ClusterPage| page.members);
            let list = list.filter(|list| !list.removed);
            let epoch = latest.as_ref().map(|latest| latest.epoch);
            if list.as_ref().map(|list| list.epoch) > epoch {
                latest = list;
            }
        }
        latest
    }

    /// Stops the process of a node that is no member, and deletes its folder.
    async fn forget(&self, number: u8) -> Result<(), String> {
        self.nodes.retire(number).await;
        let removed = self.nodes.layout.remove(number);
        removed.map_err(|failure| failure.line().to_owned())
    }

    /// Brings to its end what an earlier run has begun: forgets the nodes that have left, once no
    /// change is under way. From the first change on, the folder says who the nodes are.
    pub(super) async fn settle(&self) {
        let list = loop {
            match self.list().await {
                // A cluster whose nodes have not all met, or a node alone.
                None if self.nodes.list().len() < 2 => return,
                Some(list) if list.phase == "stable" => break list,
                _ => tokio::time::sleep(INTERVAL).await,
            }
        };
        if list.epoch == 0 {
            return;
        }
        let _busy = self.busy.lock().await;
        let mut kept = self
            .nodes
            .layout
            .keep_nodes()
            .map_err(|failure| failure.line().to_owned());
        for node in self.nodes.list() {
            let is_known = |known: &str| known == node.name;
            let waits = list.waiting.iter().any(|waiting| is_known(&waiting.name));
            if !waits && !list.members.iter().any(|member| is_known(&member.name)) {
                kept = kept.and(self.forget(node.number).await);
            }
        }
        if let Err(problem) = kept {
            text::report_line(&problem);
        }
    }
}
