//! A node that waits to join a cluster, and a member that hears of it.
//!
//! A node with an empty folder and the URL of a member says every second to all members that it waits.
//! Each dials it back, so that an order to join fails before anything is decided if the network
//! between the two is cut in one direction. Once the list has the node, whoever of the members
//! answers hands it over. With the list in its folder the node is to be started anew, as a member.

use super::MemberChanges;
use crate::node_report::FreeSpace;
use base::Clock;
use cluster::layout::{JoinedStore, Joiner, MemberList};
use cluster::{Epoch, Member, NodeUrl};
use membership::Membership;
use peer::{
    Introduced, JoinerDisk, ListAnswer, ListRequest, PeerEnvironment, Transport, introduce,
};
use profile::lock;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How often the node says that it waits.
const PERIOD: Duration = Duration::from_secs(1);

/// How long its disk may take to say what it has left.
const SPACE_MAX: Duration = Duration::from_millis(200);

/// How a runtime asks nodes to which it has no link.
#[derive(Clone)]
pub(crate) struct Introductions {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) environment: PeerEnvironment,
}

impl Introductions {
    /// Asks the node at `url`, which must be called `expected` if that is given.
    ///
    /// # Errors
    /// Why there is no answer, for people.
    pub(super) async fn ask(
        &self,
        url: &NodeUrl,
        expected: Option<&str>,
        request: &ListRequest,
    ) -> Result<Introduced, String> {
        let (transport, environment) = (&*self.transport, &self.environment);
        introduce(transport, url, environment, expected, request).await
    }
}

/// Notes that a node waits, and dials it.
pub(crate) fn hear_waiting(
    changes: &MemberChanges,
    introductions: &Rc<Introductions>,
    joiner: &Joiner,
    unix_ms: u64,
    disk: JoinerDisk,
) {
    let inner = Arc::clone(&changes.inner);
    let clock = Arc::clone(&inner.clock);
    let ahead = i128::from(unix_ms) - i128::from(clock.unix_ms());
    let ahead_ms = ahead.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
    if !lock(&inner.waiting).hear(joiner, (ahead_ms, disk), clock.monotonic()) {
        return;
    }
    let (introductions, member) = (Rc::clone(introductions), joiner.member.clone());
    tokio::task::spawn_local(async move {
        let list = inner
            .membership
            .list()
            .map(|list| Box::new((*list).clone()));
        let request = ListRequest::Exchange(list);
        let reached = introductions
            .ask(member.url(), Some(member.name()), &request)
            .await;
        if let Err(problem) = &reached {
            tracing::warn!(
                name = member.name(),
                url = %member.url(),
                problem,
                "a node waits to join, and cannot be reached"
            );
        }
        lock(&inner.waiting).dialled(member.name(), reached.is_ok(), clock.monotonic());
    });
}

/// A node that waits to join.
pub(crate) struct Joining {
    pub(crate) changes: MemberChanges,
    pub(crate) introductions: Rc<Introductions>,
    /// The URL of a member.
    pub(crate) by: NodeUrl,
    /// This node.
    pub(crate) own: Member,
    /// Its zone.
    pub(crate) zone: Option<String>,
    /// Its disk.
    pub(crate) space: Arc<FreeSpace>,
}

impl Joining {
    fn membership(&self) -> &Membership {
        &self.changes.inner.membership
    }

    fn clock(&self) -> &dyn Clock {
        &*self.changes.inner.clock
    }

    fn joiner(&self) -> Joiner {
        let membership = self.membership();
        Joiner {
            member: self.own.clone(),
            zone: self.zone.clone(),
            store: JoinedStore {
                store_id: membership.store_id(),
                start: membership.starts().last().copied().unwrap_or_default(),
            },
        }
    }

    /// Says that this node waits, until it has joined.
    pub(crate) async fn run(self) {
        // Whom it asks, with the name that is expected there, if it is known.
        let mut urls = BTreeMap::from([(self.by.clone(), None)]);
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.membership().list_changed() => {}
            }
            if self.membership().list().is_some() {
                self.changes.inner.is_joined.send_replace(true);
                return;
            }
            let (list, problems) = self.ask_all(&urls).await;
            if let Some(list) = &list {
                let members = list.members().iter();
                let members = members.filter(|it| it.member.name() != self.own.name());
                urls = members
                    .map(|it| (it.member.url().clone(), Some(it.member.name().to_owned())))
                    .collect();
                urls.entry(self.by.clone()).or_default();
                self.membership().take_list(list);
            }
            self.say(why(list.as_ref(), &self.own, &problems));
        }
    }

    /// Tells all that this node waits. Returns the latest list that one of them has, and what is wrong
    /// with others.
    async fn ask_all(
        &self,
        urls: &BTreeMap<NodeUrl, Option<String>>,
    ) -> (Option<MemberList>, Vec<String>) {
        let space = self.space.space(SPACE_MAX).await;
        let disk = JoinerDisk {
            free_bytes: space.free_bytes,
            disk_bytes: space.size_bytes,
        };
        let asked = urls.iter().map(|(url, expected)| {
            let introductions = Rc::clone(&self.introductions);
            let request = ListRequest::Wait {
                joiner: Box::new(self.joiner()),
                unix_ms: self.clock().unix_ms(),
                disk,
            };
            let (url, expected) = (url.clone(), expected.clone());
            tokio::task::spawn_local(async move {
                let asked = introductions.ask(&url, expected.as_deref(), &request).await;
                (url, asked)
            })
        });
        let asked: Vec<_> = asked.collect();
        let (mut latest, mut problems) = (None::<MemberList>, Vec::new());
        for task in asked {
            // It ends with the runtime only.
            let Ok((url, asked)) = task.await else {
                continue;
            };
            match asked {
                Ok(Introduced {
                    answer:
                        ListAnswer::Exchanged {
                            list: Some(list), ..
                        },
                    ..
                }) => {
                    let is_later = |latest: &MemberList| latest.epoch() < list.epoch();
                    if latest.as_ref().is_none_or(is_later) {
                        latest = Some(*list);
                    }
                }
                Ok(Introduced { name, .. }) => problems.push(format!(
                    "{name} has no list of members yet: start all nodes of its cluster"
                )),
                Err(problem) => problems.push(format!("{url}: {problem}")),
            }
        }
        (latest, problems)
    }

    fn say(&self, why: String) {
        let mut said = lock(&self.changes.inner.waits_because);
        if said.as_ref() != Some(&why) {
            tracing::info!("waiting to join: {why}");
            *said = Some(why);
        }
    }
}

/// What is to be done for this node to join.
fn why(list: Option<&MemberList>, own: &Member, problems: &[String]) -> String {
    let Some(list) = list else {
        return format!(
            "no member of a cluster answers ({}): correct --join, --cluster-secret-file or the \
             network",
            problems.join("; ")
        );
    };
    let named = list.named(own.name());
    let located = list
        .members()
        .iter()
        .find(|it| it.member.url() == own.url());
    let mut text = match (named, located) {
        (Some(_), _) if list.epoch() == Epoch::default() => format!(
            "{} is one of the nodes that form the cluster: start it with --cluster, as the others",
            own.name()
        ),
        (Some(named), _) if named.is_dead => format!(
            "{} is declared dead: wait until it has left the list, or take another --name",
            own.name()
        ),
        (Some(named), _) if named.member.url() == own.url() => {
            "the list of members has this node, which becomes one at once".to_owned()
        }
        (Some(named), _) => format!(
            "the member {} has the URL {}: take another --name, or let it move here with `kvorum \
             admin members move {} --new-url {}`",
            own.name(),
            named.member.url(),
            own.name(),
            own.url()
        ),
        (None, Some(located)) => format!(
            "{} is the URL of the member {}: take another --url, or let {} leave first",
            own.url(),
            located.member.name(),
            located.member.name()
        ),
        (None, None) => {
            let names = list.members().iter().map(|it| it.member.name());
            let names: Vec<&str> = names.collect();
            format!(
                "{} know this node: run `kvorum admin members join {}` against one of them",
                names.join(", "),
                own.name()
            )
        }
    };
    if !problems.is_empty() {
        text.push_str(&format!(". Not reached: {}", problems.join("; ")));
    }
    text
}
