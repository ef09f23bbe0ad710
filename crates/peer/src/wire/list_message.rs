//! Messages about the list of members: lists that nodes hand each other, votes on the next one, and
//! nodes that wait to join.
//!
//! ```text
//! request = what u8
//!         | 1 exchange  is there u8 | list, if there is one
//!         | 2 prepare   ballot | list before
//!         | 3 accept    ballot | list
//!         | 4 wait      wall clock in ms u64 | free bytes u64 | bytes of the disk u64
//!                       | store id u64 | start u64
//!                       | name bytes u16 | name | URL bytes u16 | URL | zone bytes u16 | zone
//!         | 5 knows     name bytes u16 | name
//! answer  = what u8
//!         | 1 exchanged is there u8 | list, if there is one | acceptor
//!         | 2 promised  is there u8 | ballot | list, both if one was accepted
//!         | 3 accepted
//!         | 4 outvoted  ballot
//!         | 5 decided   list
//!         | 6 missed
//!         | 7 known     heard u8 | reached u8
//! ```
//!
//! Lists, ballots and acceptors are drawn in `cluster/src/layout/list.rs` and `paxos.rs`. A zone of no
//! bytes is none, and 2^64 - 1 bytes are not known.

use base::ByteReader;
use cluster::Member;
use cluster::layout::paxos::{AcceptedList, Acceptor, Ballot, VoteAnswer, VoteRequest};
use cluster::layout::{JoinedStore, Joiner, ListedMember, MemberList};

const EXCHANGE: u8 = 1;
const PREPARE: u8 = 2;
const ACCEPT: u8 = 3;
const WAIT: u8 = 4;
const KNOWS: u8 = 5;

/// Bytes that are not known.
const UNKNOWN: u64 = u64::MAX;

const EXCHANGED: u8 = 1;
const PROMISED: u8 = 2;
const ACCEPTED: u8 = 3;
const OUTVOTED: u8 = 4;
const DECIDED: u8 = 5;
const MISSED: u8 = 6;
const KNOWN: u8 = 7;

/// What a node asks another one about the list of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListRequest {
    /// This is the list of the dialler, if it has one: what is yours? Whoever has the earlier one
    /// adopts the other.
    Exchange(Option<Box<MemberList>>),
    /// To vote on the next list.
    Vote(Box<VoteRequest>),
    /// The dialler waits to join.
    Wait {
        /// Who it is.
        joiner: Box<Joiner>,
        /// Its wall clock, in milliseconds since the Unix epoch.
        unix_ms: u64,
        /// The disk of its data folder.
        disk: JoinerDisk,
    },
    /// Whether the node with this name waits to join, and can be reached.
    Knows(String),
}

/// The disk of a node that waits to join, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinerDisk {
    /// What it has left, in bytes.
    pub free_bytes: Option<u64>,
    /// What it has in all, in bytes.
    pub disk_bytes: Option<u64>,
}

/// What a node answers about the list of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListAnswer {
    /// Its list, if it has one, and what it has promised and accepted for the next one.
    Exchanged {
        /// The list.
        list: Option<Box<MemberList>>,
        /// What it has promised and accepted.
        acceptor: Box<Acceptor>,
    },
    /// Its vote.
    Voted(Box<VoteAnswer>),
    /// What it knows of a node that waits to join.
    Known(KnownJoiner),
}

/// What a member knows of a node that waits to join.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownJoiner {
    /// Whether it has heard of it lately.
    pub is_heard: bool,
    /// Whether it has reached it lately.
    pub is_reached: bool,
}

impl ListRequest {
    /// Appends the bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Exchange(list) => {
                out.push(EXCHANGE);
                put_list(out, list.as_deref());
            }
            Self::Vote(request) => match &**request {
                VoteRequest::Prepare { on, ballot } => {
                    out.push(PREPARE);
                    ballot.encode(out);
                    on.encode(out);
                }
                VoteRequest::Accept { ballot, list } => {
                    out.push(ACCEPT);
                    ballot.encode(out);
                    list.encode(out);
                }
            },
            Self::Wait {
                joiner,
                unix_ms,
                disk,
            } => {
                out.push(WAIT);
                let [free, all] =
                    [disk.free_bytes, disk.disk_bytes].map(|bytes| bytes.unwrap_or(UNKNOWN));
                let JoinedStore { store_id, start } = joiner.store;
                for number in [*unix_ms, free, all, store_id, start] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
                put_text(out, joiner.member.name());
                put_text(out, &joiner.member.url().to_string());
                put_text(out, joiner.zone.as_deref().unwrap_or_default());
            }
            Self::Knows(name) => {
                out.push(KNOWS);
                put_text(out, name);
            }
        }
    }

    /// The request with these bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        whole(bytes, |reader| {
            Some(match reader.u8()? {
                EXCHANGE => Self::Exchange(take_list(reader)?),
                PREPARE => Self::Vote(Box::new(VoteRequest::Prepare {
                    ballot: Ballot::decode(reader)?,
                    on: MemberList::decode(reader)?,
                })),
                ACCEPT => Self::Vote(Box::new(VoteRequest::Accept {
                    ballot: Ballot::decode(reader)?,
                    list: MemberList::decode(reader)?,
                })),
                WAIT => take_wait(reader)?,
                KNOWS => Self::Knows(take_text(reader)?.to_owned()),
                _ => return None,
            })
        })
    }
}

impl ListAnswer {
    /// Appends the bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let answer = match self {
            Self::Exchanged { list, acceptor } => {
                out.push(EXCHANGED);
                put_list(out, list.as_deref());
                acceptor.encode(out);
                return;
            }
            Self::Voted(answer) => &**answer,
            Self::Known(known) => {
                return out.extend_from_slice(&[
                    KNOWN,
                    known.is_heard.into(),
                    known.is_reached.into(),
                ]);
            }
        };
        match answer {
            VoteAnswer::Promised(accepted) => {
                out.extend_from_slice(&[PROMISED, accepted.is_some().into()]);
                if let Some(accepted) = accepted {
                    accepted.ballot.encode(out);
                    accepted.list.encode(out);
                }
            }
            VoteAnswer::Accepted => out.push(ACCEPTED),
            VoteAnswer::Outvoted(ballot) => {
                out.push(OUTVOTED);
                ballot.encode(out);
            }
            VoteAnswer::Decided(list) => {
                out.push(DECIDED);
                list.encode(out);
            }
            VoteAnswer::Missed => out.push(MISSED),
        }
    }

    /// The answer with these bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let voted = |answer| Some(Self::Voted(Box::new(answer)));
        whole(bytes, |reader| match reader.u8()? {
            EXCHANGED => Some(Self::Exchanged {
                list: take_list(reader)?,
                acceptor: Box::new(Acceptor::decode(reader)?),
            }),
            PROMISED => voted(VoteAnswer::Promised(match reader.u8()? {
                0 => None,
                1 => Some(Box::new(AcceptedList {
                    ballot: Ballot::decode(reader)?,
                    list: MemberList::decode(reader)?,
                })),
                _ => return None,
            })),
            ACCEPTED => voted(VoteAnswer::Accepted),
            OUTVOTED => voted(VoteAnswer::Outvoted(Ballot::decode(reader)?)),
            DECIDED => voted(VoteAnswer::Decided(Box::new(MemberList::decode(reader)?))),
            MISSED => voted(VoteAnswer::Missed),
            KNOWN => {
                let [heard, reached @ (0 | 1)] = reader.array()? else {
                    return None;
                };
                (heard <= 1).then_some(Self::Known(KnownJoiner {
                    is_heard: heard == 1,
                    is_reached: reached == 1,
                }))
            }
            _ => None,
        })
    }
}

/// What `take` takes of all these bytes.
fn whole<T>(
    bytes: &[u8],
    take: impl FnOnce(&mut ByteReader<'_>) -> Option<T>,
) -> Result<T, &'static str> {
    let mut reader = ByteReader::new(bytes);
    let taken = take(&mut reader).ok_or("no message about the list of members")?;
    if reader.rest().is_empty() {
        Ok(taken)
    } else {
        Err("a message about the list of members that is too long")
    }
}

fn put_list(out: &mut Vec<u8>, list: Option<&MemberList>) {
    out.push(list.is_some().into());
    if let Some(list) = list {
        list.encode(out);
    }
}

fn take_list(reader: &mut ByteReader<'_>) -> Option<Option<Box<MemberList>>> {
    match reader.u8()? {
        0 => Some(None),
        1 => Some(Some(Box::new(MemberList::decode(reader)?))),
        _ => None,
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    // Names, URLs and zones are shorter than 64 KiB.
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn take_text<'a>(reader: &mut ByteReader<'a>) -> Option<&'a str> {
    let bytes = usize::from(reader.u16()?);
    std::str::from_utf8(reader.bytes(bytes)?).ok()
}

fn take_wait(reader: &mut ByteReader<'_>) -> Option<ListRequest> {
    let unix_ms = reader.u64()?;
    let [free_bytes, disk_bytes] =
        [reader.u64()?, reader.u64()?].map(|bytes| (bytes != UNKNOWN).then_some(bytes));
    let store = JoinedStore {
        store_id: reader.u64()?,
        start: reader.u64()?,
    };
    let name = take_text(reader)?;
    let url = take_text(reader)?.parse().ok()?;
    let zone = Some(take_text(reader)?).filter(|zone| !zone.is_empty());
    if let Some(zone) = zone {
        ListedMember::check_zone(zone).ok()?;
    }
    let joiner = Joiner {
        member: Member::named(name, url).ok()?,
        zone: zone.map(str::to_owned),
        store,
    };
    Some(ListRequest::Wait {
        joiner: Box::new(joiner),
        unix_ms,
        disk: JoinerDisk {
            free_bytes,
            disk_bytes,
        },
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use cluster::layout::ClusterId;
    use cluster::{NodeId, Replicas};

    fn list() -> MemberList {
        let members =
            ["a", "b", "c"].map(|name| format!("{name}=http://{name}:1").parse().unwrap());
        MemberList::founding(ClusterId::new(7), members.to_vec(), Replicas::quorum(3)).unwrap()
    }

    fn ballot() -> Ballot {
        Ballot::default().next_of(NodeId::new(2))
    }

    pub(crate) fn requests() -> Vec<ListRequest> {
        let ballot = ballot();
        let joiner = Joiner {
            member: "d=http://d:1".parse().unwrap(),
            zone: Some("rack-1".to_owned()),
            store: JoinedStore {
                store_id: 1,
                start: 2,
            },
        };
        let unzoned = Joiner {
            zone: None,
            ..joiner.clone()
        };
        let wait = |joiner, free_bytes| ListRequest::Wait {
            joiner: Box::new(joiner),
            unix_ms: 3,
            disk: JoinerDisk {
                free_bytes,
                disk_bytes: Some(8),
            },
        };
        let vote = |request| ListRequest::Vote(Box::new(request));
        vec![
            ListRequest::Exchange(None),
            ListRequest::Exchange(Some(Box::new(list()))),
            vote(VoteRequest::Prepare { on: list(), ballot }),
            vote(VoteRequest::Accept {
                ballot,
                list: list(),
            }),
            wait(joiner, Some(5)),
            wait(unzoned, None),
            ListRequest::Knows("d".to_owned()),
        ]
    }

    pub(crate) fn answers() -> Vec<ListAnswer> {
        let ballot = ballot();
        let accepted = AcceptedList {
            ballot,
            list: list(),
        };
        let mut acceptor = Acceptor::default();
        let promised = acceptor.receive(&list(), VoteRequest::Prepare { on: list(), ballot });
        let votes = [
            promised,
            VoteAnswer::Promised(Some(Box::new(accepted))),
            VoteAnswer::Accepted,
            VoteAnswer::Outvoted(ballot),
            VoteAnswer::Decided(Box::new(list())),
            VoteAnswer::Missed,
        ];
        let votes = votes.map(|answer| ListAnswer::Voted(Box::new(answer)));
        let known = ListAnswer::Known(KnownJoiner {
            is_heard: true,
            is_reached: false,
        });
        let exchanged = [None, Some(Box::new(list()))].map(|list| ListAnswer::Exchanged {
            list,
            acceptor: Box::new(acceptor.clone()),
        });
        votes.into_iter().chain([known]).chain(exchanged).collect()
    }

    #[test]
    fn messages_are_their_bytes() {
        for request in requests() {
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            assert_eq!(ListRequest::decode(&bytes).as_ref(), Ok(&request));
            for end in 0..bytes.len() {
                assert!(ListRequest::decode(&bytes[..end]).is_err(), "{end}");
            }
            bytes.push(0);
            assert!(ListRequest::decode(&bytes).is_err());
        }
        for answer in answers() {
            let mut bytes = Vec::new();
            answer.encode(&mut bytes);
            if matches!(answer, ListAnswer::Known(_)) {
                assert_eq!(bytes, [7, 1, 0]);
            }
            assert_eq!(ListAnswer::decode(&bytes), Ok(answer));
        }
        assert!(ListAnswer::decode(&[7, 1, 2]).is_err());
    }
}
