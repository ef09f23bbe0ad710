//! Golden cases of changes of the list of members.
//!
//! Events: `list NAME.. pair A/F` begins with the members of a new cluster. An operator asks to
//! `join NAME.. [zone Z]`, to `leave NAME.. [dead]`, to `replace NAME by NAME [dead]`, to
//! `move NAME URL`, for a `pair A/F`, or to `abort`; what is planned is decided at once. `answer
//! NAME..` says who answers from now on. `report NAME..` means that these have reported the present
//! list, and `NAME equals NAME..` that a full repair session of this change has found a member equal
//! with others; with `by EPOCH` one of the change that began with that epoch. `NAME lost` takes that
//! back. `wait?` asks what the change waits for, and `next`
//! decides what follows when it waits for nothing. `ids` and `gaining` tell.
//!
//! A list is told as `EPOCH PHASE: NAME..`: with `+` who joins, with `-` who leaves, with `!` who is
//! dead.

use cluster::layout::{
    Change, ChangeProgress, ClusterId, JoinedStore, Joiner, ListedMember, Lists, MemberList,
    MemberReport, Reports,
};
use cluster::{Epoch, Member, NodeId, NodeSet, Replicas};
use std::fmt::Write;

struct Cluster {
    list: MemberList,
    reports: Reports,
    answer: NodeSet,
}

#[test]
fn members_change_as_told() {
    crate::run::run("members.txt", include_str!("../golden/members.txt"), step);
}

fn member(name: &str) -> Member {
    format!("{name}=http://{name}:80").parse().unwrap()
}

fn pair(text: &str) -> Replicas {
    text.parse().unwrap()
}

fn step(cluster: &mut Option<Cluster>, event: &str) -> String {
    let words: Vec<&str> = event.split(' ').collect();
    if let ["list", ref names @ .., "pair", of] = words[..] {
        let members = names.iter().map(|name| member(name)).collect();
        let list = MemberList::founding(ClusterId::new(7), members, pair(of)).unwrap();
        let told = tell(&list);
        *cluster = Some(Cluster {
            list,
            reports: Reports::default(),
            answer: NodeSet::default(),
        });
        return told;
    }
    let cluster = cluster.as_mut().unwrap();
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let members = |join: &[&str], zone: Option<&str>, leave: &[&str], are_dead| Change::Members {
        join: join.iter().map(|name| joiner(name, zone)).collect(),
        leave: owned(leave),
        are_dead,
    };
    match words[..] {
        ["join", ref names @ .., "zone", zone] => {
            cluster.change(&members(names, Some(zone), &[], false))
        }
        ["join", ref names @ ..] => cluster.change(&members(names, None, &[], false)),
        ["leave", ref names @ .., "dead"] => cluster.change(&members(&[], None, names, true)),
        ["leave", ref names @ ..] => cluster.change(&members(&[], None, names, false)),
        ["replace", old, "by", new, "dead"] => cluster.change(&members(&[new], None, &[old], true)),
        ["replace", old, "by", new] => cluster.change(&members(&[new], None, &[old], false)),
        ["move", name, url] => cluster.change(&Change::Move {
            name: name.to_owned(),
            url: url.parse().unwrap(),
        }),
        ["pair", of] => cluster.change(&Change::Pair(pair(of))),
        ["abort"] => cluster.change(&Change::Abort),
        ["force", ref names @ ..] => cluster.force(names),
        ["decides", ref names @ ..] => {
            let nodes = names.iter().map(|name| cluster.id(name)).collect();
            let decides = cluster.list.is_majority(nodes);
            if decides { "yes" } else { "no" }.to_owned()
        }
        ["answer", ref names @ ..] => {
            cluster.answer = names.iter().map(|name| cluster.id(name)).collect();
            "noted".to_owned()
        }
        ["report", ref names @ ..] => {
            for name in names {
                cluster.report(name, |_| {});
            }
            "noted".to_owned()
        }
        [name, "equals", ref others @ .., "by", epoch] => {
            let others = others.iter().map(|name| cluster.id(name)).collect();
            cluster.report(name, |report| {
                report.change = Epoch::new(epoch.parse().unwrap());
                report.equal_with = others;
            });
            "noted".to_owned()
        }
        [name, "equals", ref others @ ..] => {
            let others: NodeSet = others.iter().map(|name| cluster.id(name)).collect();
            cluster.report(name, |report| {
                report.equal_with = report.equal_with.union(others);
            });
            "noted".to_owned()
        }
        [name, "lost"] => {
            cluster.report(name, |report| report.equal_with = NodeSet::default());
            "noted".to_owned()
        }
        ["wait?"] => cluster.progress(),
        ["next"] => {
            let ChangeProgress::Ready(next) = cluster.list.progress(&cluster.reports) else {
                return cluster.progress();
            };
            cluster.decide(*next)
        }
        ["gaining"] => cluster.names(cluster.list.gaining().iter()),
        ["ids"] => {
            let ids = cluster.list.members().iter();
            let told = ids.map(|it| format!("{}={}", it.member.name(), it.id));
            told.collect::<Vec<_>>().join(" ")
        }
        _ => panic!("unknown event: {event}"),
    }
}

fn joiner(name: &str, zone: Option<&str>) -> Joiner {
    Joiner {
        member: member(name),
        zone: zone.map(str::to_owned),
        store: JoinedStore {
            store_id: 1,
            start: 1,
        },
    }
}

impl Cluster {
    fn id(&self, name: &str) -> NodeId {
        self.list.named(name).unwrap().id
    }

    fn names(&self, nodes: impl IntoIterator<Item = NodeId>) -> String {
        let names = nodes.into_iter().map(|node| {
            let listed = self.list.get(node);
            listed.unwrap().member.name()
        });
        names.collect::<Vec<_>>().join(" ")
    }

    fn change(&mut self, change: &Change) -> String {
        match self.list.plan(change, self.answer) {
            Ok(next) => self.decide(next),
            Err(refusal) => format!("refused: {refusal}"),
        }
    }

    fn force(&mut self, names: &[&str]) -> String {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let cluster = ClusterId::new(self.list.cluster().as_u64() + 1);
        let forced = self.list.forced(&names, cluster, self.answer);
        match forced {
            Ok(next) => {
                assert!(!next.may_follow(&self.list));
                assert_eq!(next.forced_from(), Some(self.list.cluster()));
                self.list = next;
                tell(&self.list)
            }
            Err(refusal) => format!("refused: {refusal}"),
        }
    }

    fn decide(&mut self, next: MemberList) -> String {
        assert!(
            next.may_follow(&self.list),
            "{next:?} after {:?}",
            self.list
        );
        self.list = next;
        tell(&self.list)
    }

    fn report(&mut self, name: &str, and: impl FnOnce(&mut MemberReport)) {
        let node = self.id(name);
        let known = self.reports.of(node);
        let change = self.list.change();
        let mut report = MemberReport {
            epoch: self.list.epoch(),
            change,
            equal_with: if known.change == change {
                known.equal_with
            } else {
                NodeSet::default()
            },
        };
        and(&mut report);
        self.reports.record(node, report);
    }

    fn progress(&self) -> String {
        match self.list.progress(&self.reports) {
            ChangeProgress::Stable => "nothing to do".to_owned(),
            ChangeProgress::Ready(next) => format!("ready: {}", tell(&next)),
            ChangeProgress::Waits(waits_for) => {
                let mut told = "waits".to_owned();
                if !waits_for.reports.is_empty() {
                    let _ = write!(told, ", reports: {}", self.names(waits_for.reports));
                }
                if !waits_for.facts.is_empty() {
                    let facts = waits_for.facts.iter().map(|(gaining, old)| {
                        format!("{}={}", self.names([*gaining]), self.names([*old]))
                    });
                    let _ = write!(told, ", facts: {}", facts.collect::<Vec<_>>().join(" "));
                }
                told
            }
        }
    }
}

fn tell(list: &MemberList) -> String {
    let members = list.members().iter().map(|member: &ListedMember| {
        let lists = match member.lists {
            Lists::Both => "",
            Lists::Old => "-",
            Lists::New => "+",
        };
        let dead = if member.is_dead { "!" } else { "" };
        format!("{lists}{dead}{}", member.member.name())
    });
    let members = members.collect::<Vec<_>>().join(" ");
    format!(
        "{} {}: {members}",
        list.epoch().as_u64(),
        list.phase().word()
    )
}
