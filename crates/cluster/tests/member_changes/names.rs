//! The members of the random worlds of [`driver`](super::driver) and [`paxos`](super::paxos).

use cluster::Member;
use cluster::layout::{JoinedStore, Joiner, MemberList};

pub(crate) const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// The member of a name.
pub(crate) fn member(name: &str) -> Member {
    format!("{name}=http://{name}:80").parse().unwrap()
}

/// The names of the members of a list.
pub(crate) fn names_of(list: &MemberList) -> Vec<String> {
    let members = list.members().iter();
    members.map(|it| it.member.name().to_owned()).collect()
}

/// One that joins, with a new store.
pub(crate) fn joiner(name: &str) -> Joiner {
    Joiner {
        member: member(name),
        zone: None,
        store: JoinedStore {
            store_id: 1,
            start: 1,
        },
    }
}

/// So many that may join a list, as far as there are names.
pub(crate) fn joiners(list: &MemberList, count: usize) -> Vec<Joiner> {
    let free = NAMES.iter().filter(|name| list.named(name).is_none());
    free.take(count).map(|name| joiner(name)).collect()
}
