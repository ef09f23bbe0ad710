//! The members of the cluster, in worlds in which they change.

use super::World;
use crate::host::Copy;
use crate::host::{Crash, address_of, names};
use crate::network::HostNumber;
use base::Entry;
use cluster::layout::{ChangeProgress, MemberList, Phase, WhichList};
use cluster::{Epoch, NodeId, Placement, PreferenceList, Replicas};
use node::{ChangeOrder, ChangeRefusal};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// How long an order may take.
const ORDERED: Duration = Duration::from_secs(12);

/// How long a change may take once all faults are healed.
const CHANGING: Duration = Duration::from_secs(240);

/// How often to look.
const LOOK_PERIOD: Duration = Duration::from_millis(200);

/// The members, each on its host, and where they have the keys.
pub(super) struct Membership {
    pub(super) hosts: Vec<HostNumber>,
    pub(super) placement: Placement,
    ids: Vec<NodeId>,
    /// The epoch of the list at the end.
    pub(super) epoch: Epoch,
}

impl Membership {
    /// Those who form the cluster.
    pub(super) fn founding(founders: usize) -> Self {
        let names = names(founders);
        Self {
            hosts: (0..founders).collect(),
            placement: Placement::new(names.iter().map(String::as_str)),
            ids: (0..founders).map(|id| NodeId::new(id as u8)).collect(),
            epoch: Epoch::default(),
        }
    }

    /// Those of a list.
    fn of(list: &MemberList, nodes: usize) -> Self {
        let members = list.members();
        let hosts = members.iter().map(|it| host_of(it.member.name(), nodes));
        Self {
            hosts: hosts.flatten().collect(),
            ids: members.iter().map(|it| it.id).collect(),
            placement: Placement::listed(
                members
                    .iter()
                    .map(|it| (it.id, it.member.name(), it.zone.as_deref())),
            ),
            epoch: list.epoch(),
        }
    }

    /// The hosts of a key's preference list over all members.
    pub(super) fn preference_list(&self, key: &[u8]) -> Vec<HostNumber> {
        let nodes = self.placement.preference_list(key, u8::MAX);
        let host = |node: &NodeId| {
            let place = self.ids.iter().position(|id| id == node);
            place.map(|place| self.hosts[place])
        };
        nodes.iter().filter_map(host).collect()
    }
}

/// The host of the node with this name.
fn host_of(name: &str, nodes: usize) -> Option<HostNumber> {
    names(nodes).iter().position(|it| it == name)
}

impl World {
    /// The preference list of a key among the members.
    pub(crate) fn preference_list(&self, key: &[u8], from: u8) -> PreferenceList {
        self.members.borrow().placement.preference_list(key, from)
    }

    /// Whether a version belongs on a host.
    pub(crate) fn is_replica(&self, host: HostNumber, entry: &Entry) -> bool {
        let hosts = self.members.borrow().preference_list(entry.key());
        let mut replicas = hosts.iter().take(usize::from(entry.copies()));
        replicas.any(|replica| *replica == host)
    }

    /// The hosts of the members: at the end those of the last list.
    pub(crate) fn members(&self) -> Vec<HostNumber> {
        self.members.borrow().hosts.clone()
    }

    /// Starts joiners as members whenever they have waited long enough, as `kvorum serve` does.
    pub(super) async fn start_joined_forever(self: Rc<Self>) {
        loop {
            for number in self.joiners() {
                if self.hosts[number].has_joined() {
                    self.hosts[number].stop().await;
                    self.start(number);
                }
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    fn joiners(&self) -> std::ops::Range<HostNumber> {
        self.scenario.founders()..self.scenario.nodes
    }

    /// Gives joiners that were removed an empty folder, as operators do.
    pub(super) async fn empty_removed_forever(self: Rc<Self>) {
        loop {
            for number in self.joiners() {
                let host = &self.hosts[number];
                if host.changes().is_some_and(|it| it.is_removed) {
                    host.crash(Crash::Kill);
                    host.replace_disk(Copy::empty());
                    self.start(number);
                }
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Has an operator order a change at a host. `None` if it does not answer.
    pub(crate) async fn order_change(
        &self,
        at: HostNumber,
        order: ChangeOrder,
    ) -> Option<Result<(), ChangeRefusal>> {
        self.trace.note(format_args!("order at {at}: {order:?}"));
        let sent = self.hosts[at].order_change(order)?;
        let told = timeout(ORDERED, sent.answer).await.ok()?.ok()?;
        let told = told.map(|_| ());
        self.trace.note(format_args!("told at {at}: {told:?}"));
        Some(told)
    }

    /// Has a host go on at another address, with its disk.
    pub(crate) fn move_host(&self, number: HostNumber, moves: u8) {
        self.trace
            .note(format_args!("host {number} moves to address {moves}"));
        self.hosts[number].crash(Crash::Kill);
        self.network.move_host(number, moves);
        self.start(number);
    }

    /// Moves members to where the list has them: whether a move was decided is not always told.
    fn move_where_listed(&self, list: &MemberList) {
        for listed in list.members().iter().filter(|it| !it.is_dead) {
            if let Some((number, moves)) = address_of(listed.member.url())
                && self.network.moves(number) != moves
            {
                self.move_host(number, moves);
            }
        }
    }

    /// The latest list that a host has.
    pub(crate) fn latest_list(&self) -> Option<Arc<MemberList>> {
        let lists = self.hosts.iter().filter_map(|host| host.changes()?.list);
        lists.max_by_key(|list| list.epoch())
    }

    /// Waits until no change is under way and nobody is dead, and takes note of the members. A dead
    /// member that cannot leave is let go as the advice says.
    pub(super) async fn members_settle(&self) -> Result<(), String> {
        if self.scenario.changing.is_none() {
            return Ok(());
        }
        let began = Instant::now();
        loop {
            // The nodes of a new cluster have a list once all have met.
            let Some(list) = self.latest_list() else {
                if began.elapsed() > CHANGING {
                    return Err("no node has a list of members".to_owned());
                }
                sleep(LOOK_PERIOD).await;
                continue;
            };
            if self.have_settled(&list) {
                let members = Membership::of(&list, self.scenario.nodes);
                self.trace.note(format_args!(
                    "the members are {:?}, epoch {}",
                    members.hosts,
                    list.epoch().as_u64()
                ));
                *self.members.borrow_mut() = members;
                return Ok(());
            }
            if began.elapsed() > CHANGING {
                let statuses = self.hosts.iter().map(|host| host.changes());
                let statuses: Vec<String> = statuses.map(|it| format!("{it:?}")).collect();
                return Err(format!(
                    "a change of the members does not end: {list:?}\n{}\n{}",
                    statuses.join("\n"),
                    self.describe_stores()
                ));
            }
            self.move_where_listed(&list);
            self.let_dead_leave(&list).await;
            sleep(LOOK_PERIOD).await;
        }
    }

    /// Whether all members have this list, and nothing is under way.
    fn have_settled(&self, list: &MemberList) -> bool {
        let has_list = |name| {
            let host = host_of(name, self.scenario.nodes);
            let status = host.and_then(|host| self.hosts[host].changes());
            status.is_some_and(|status| {
                let epoch = status.list.map(|list| list.epoch());
                !status.is_removed
                    && status.progress == ChangeProgress::Stable
                    && epoch == Some(list.epoch())
            })
        };
        let mut members = list.members().iter();
        list.phase() == Phase::Stable
            && list.dead().is_empty()
            && members.all(|it| has_list(it.member.name()))
    }

    /// Where too few others are left, dead members leave once the default pair asks for fewer.
    async fn let_dead_leave(&self, list: &MemberList) {
        let members = list.members_of(WhichList::New);
        let live = members.filter(|it| !it.is_dead);
        let live: Vec<&str> = live.map(|it| it.member.name()).collect();
        let from = live.len() as u8;
        let is_stuck = list.phase() == Phase::Stable
            && !list.dead().is_empty()
            && list.default_pair().from > from;
        let at = live
            .first()
            .and_then(|name| host_of(name, self.scenario.nodes));
        if let Some(at) = at.filter(|_| is_stuck) {
            let pair = ChangeOrder::Pair(Replicas::quorum(from));
            let _told = self.order_change(at, pair).await;
        }
    }
}
