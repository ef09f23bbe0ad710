//! The bytes of lists, in files and in frames.

use base::ByteReader;
use cluster::layout::paxos::{Acceptor, Ballot, VoteAnswer, VoteRequest};
use cluster::layout::{Change, ClusterId, JoinedStore, Joiner, LIST_BYTES_MAX, MemberList};
use cluster::{Member, NODES_MAX, NodeId, NodeSet, Replicas};
use fastrand::Rng;

fn members_of(members: usize, name_bytes: usize) -> Vec<Member> {
    let member = |number: usize| -> Member {
        let name = format!("{number:0name_bytes$}");
        format!("{name}=http://host-{number}:80").parse().unwrap()
    };
    (0..members).map(member).collect()
}

fn founding(members: Vec<Member>) -> Option<MemberList> {
    MemberList::founding(ClusterId::new(1 << 60), members, Replicas::quorum(2))
}

fn list_of(members: usize, name_bytes: usize) -> MemberList {
    founding(members_of(members, name_bytes)).unwrap()
}

/// A list in a change, with all that a member can have.
fn changing() -> MemberList {
    let list = list_of(3, 1);
    let joiner = |name: &str, zone: Option<&str>| Joiner {
        member: format!("{name}=https://[::1]:8080").parse().unwrap(),
        zone: zone.map(str::to_owned),
        store: JoinedStore {
            store_id: u64::MAX,
            start: 3,
        },
    };
    let change = Change::Members {
        join: vec![joiner("d", Some("rack-1"))],
        leave: vec!["1".to_owned()],
        are_dead: true,
    };
    list.plan(&change, NodeSet::default()).unwrap()
}

fn bytes_of(list: &MemberList) -> Vec<u8> {
    let mut bytes = Vec::new();
    list.encode(&mut bytes);
    bytes
}

#[test]
fn a_list_is_its_bytes() {
    let first = changing().members()[0].member.name().to_owned();
    let forced = changing().forced(&[first], ClusterId::new(3), NodeSet::default());
    let lists = [
        list_of(2, 1),
        changing(),
        forced.unwrap(),
        list_of(NODES_MAX, 200),
    ];
    for list in lists {
        let bytes = bytes_of(&list);
        assert!(bytes.len() <= LIST_BYTES_MAX);
        let mut reader = ByteReader::new(&bytes);
        assert_eq!(MemberList::decode(&mut reader).as_ref(), Some(&list));
        assert_eq!(reader.rest(), b"");
    }
    let bytes = bytes_of(&changing());
    for end in 0..bytes.len() {
        let mut reader = ByteReader::new(&bytes[..end]);
        assert_eq!(MemberList::decode(&mut reader), None, "{end}");
    }
}

/// A list travels in one frame.
#[test]
fn what_is_longer_than_a_frame_is_no_list() {
    assert_eq!(
        founding(members_of(NODES_MAX, Member::NAME_BYTES_MAX)),
        None
    );
}

/// The format is on disk and on the wire.
#[test]
fn the_bytes_of_a_list_stay() {
    let list = list_of(2, 1);
    let mut expected = vec![0, 0, 0, 0, 0, 0, 0, 16];
    expected.extend_from_slice(&[0; 16]);
    expected.extend_from_slice(&[0, 2, 2, 1, 2]);
    for (id, digit) in [(0, b'0'), (1, b'1')] {
        expected.extend_from_slice(&[id, 0, 1, 0, digit, 16, 0]);
        expected.extend_from_slice(b"http://host-");
        expected.extend_from_slice(&[digit, b':', b'8', b'0']);
    }
    assert_eq!(bytes_of(&list), expected);
}

/// Bytes that no node wrote are either no list, or one that is encoded the same way.
#[test]
fn damaged_bytes_are_no_other_list_with_the_same_bytes() {
    let whole = bytes_of(&changing());
    let mut rng = Rng::with_seed(1);
    let mut refused = 0;
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(0..bytes.len());
            bytes[at] = rng.u8(..);
        }
        let mut reader = ByteReader::new(&bytes);
        match MemberList::decode(&mut reader) {
            None => refused += 1,
            Some(list) => {
                let mut again = bytes_of(&list);
                again.extend_from_slice(reader.rest());
                // A URL has one spelling, to which others are brought.
                if again.len() == bytes.len() {
                    assert_eq!(again.to_ascii_lowercase(), bytes.to_ascii_lowercase());
                }
            }
        }
    }
    assert!(refused > 5_000, "{refused}");
}

#[test]
fn an_acceptor_is_its_bytes() {
    let list = list_of(3, 1);
    let mut acceptor = Acceptor::default();
    let is_its_bytes = |acceptor: &Acceptor| {
        let mut bytes = Vec::new();
        acceptor.encode(&mut bytes);
        let decoded = Acceptor::decode(&mut ByteReader::new(&bytes));
        assert_eq!(decoded.as_ref(), Some(acceptor));
        for end in 0..bytes.len() {
            let decoded = Acceptor::decode(&mut ByteReader::new(&bytes[..end]));
            assert_eq!(decoded, None, "{end}");
        }
    };
    is_its_bytes(&acceptor);
    let ballot = Ballot::default().next_of(NodeId::new(2));
    let list_after = list.plan(&Change::Pair(Replicas::quorum(3)), NodeSet::default());
    let request = VoteRequest::Accept {
        ballot,
        list: list_after.unwrap(),
    };
    assert_eq!(acceptor.receive(&list, request), VoteAnswer::Accepted);
    is_its_bytes(&acceptor);
}
