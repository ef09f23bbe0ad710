use super::*;
use cluster::NODES_MAX;

const TOKEN: Token = Token {
    session: 7,
    attempt: 3,
};

fn requests() -> Vec<RepairRequest> {
    let session = SessionId::Full(TOKEN);
    let node = NodeId::new(2);
    let bounds = KeyBounds::from_steps([
        (Vec::new(), Timestamp::from_u64(5)),
        (b"m".to_vec(), Timestamp::from_u64(9)),
    ]);
    vec![
        RepairRequest::Begin {
            session: SessionId::Incremental(u64::MAX),
            epoch: Epoch::default(),
        },
        RepairRequest::Begin {
            session,
            epoch: Epoch::new(5),
        },
        RepairRequest::Close {
            session,
            gc_threshold: Timestamp::from_u64(1 << 38),
            below: Timestamp::from_u64(1 << 39),
            are_all: true,
            start: Bytes::from_static(b"k\0"),
        },
        RepairRequest::Finish {
            session,
            below: Timestamp::from_u64(1 << 39),
        },
        RepairRequest::Agree {
            session,
            cut: Timestamp::from_u64(1 << 40),
            gc_threshold: Timestamp::from_u64(1 << 38),
            reaches: vec![2, 0],
            bounds: vec![KeyBounds::everything(), bounds],
        },
        RepairRequest::Advance {
            session,
            start: Bytes::new(),
        },
        RepairRequest::Digest {
            session,
            range: 3,
            end: None,
        },
        RepairRequest::Digest {
            session,
            range: 3,
            end: Some(Bytes::from_static(b"k\0")),
        },
        RepairRequest::Reconcile {
            session,
            range: 3,
            with: node,
        },
        RepairRequest::Recount {
            session,
            range: 3,
            asker: node,
        },
        RepairRequest::Symbols {
            session,
            range: 3,
            asker: node,
            first: 8,
            count: 16,
        },
        RepairRequest::Send {
            session,
            range: 3,
            asker: node,
            key_hashes: vec![1, u64::MAX],
        },
        RepairRequest::Announce { session, range: 3 },
        RepairRequest::Stream {
            session,
            range: 3,
            asker: node,
            after: None,
            until: Some(Bytes::from_static(b"l")),
            held: vec![5, u32::MAX],
        },
        RepairRequest::Stream {
            session,
            range: 3,
            asker: node,
            after: Some(Bytes::from_static(b"k")),
            until: None,
            held: Vec::new(),
        },
        RepairRequest::Offer {
            session,
            range: 3,
            asker: node,
            offers: vec![offer(b"k"), offer(&[7; base::KEY_BYTES_MAX])],
        },
        RepairRequest::Sync { session },
        RepairRequest::Outcome {
            session,
            gc_threshold: Timestamp::from_u64(1 << 39),
            single_copies: vec![0, 9, u64::MAX],
            equal_with: vec![node],
            has_all_of: vec![node],
        },
        RepairRequest::Outcome {
            session,
            gc_threshold: Timestamp::from_u64(0),
            single_copies: vec![9],
            equal_with: vec![node],
            has_all_of: vec![node, NodeId::new(9)],
        },
    ]
}

fn offer(key: &[u8]) -> Offer {
    Offer {
        key: Bytes::copy_from_slice(key),
        timestamp: Timestamp::from_u64(5),
        content_hash: 6,
        copies: 2,
    }
}

fn answers() -> Vec<RepairAnswer> {
    let symbol = Symbol {
        key_hashes: 1,
        timestamps: 2,
        content_hashes: 3,
        checks: 4,
        items: -5,
    };
    vec![
        RepairAnswer::Begun {
            greatest_seen: Timestamp::from_u64(8),
            gc_threshold: Timestamp::from_u64(5),
            closed: Timestamp::from_u64(6),
            latest: Timestamp::from_u64(7),
            may_raise: true,
            reach: 3,
            bounds: vec![KeyBounds::everything(); 3],
        },
        RepairAnswer::Done,
        RepairAnswer::Advanced(None),
        RepairAnswer::Advanced(Some(Bytes::from_static(b"k"))),
        RepairAnswer::Digests {
            non_owned: 1,
            announces: 2,
            single_copies: 3,
            digests: vec![
                Digest {
                    items: 3,
                    sum: u128::MAX - 1
                };
                2
            ],
        },
        RepairAnswer::Reconciled {
            asker_has_all: true,
            other_has_all: true,
            sent: 1,
            received: 2,
            below_cut: 3,
        },
        RepairAnswer::Reconciled {
            asker_has_all: false,
            other_has_all: true,
            sent: 1,
            received: 2,
            below_cut: 3,
        },
        RepairAnswer::Recounted(Digest::default()),
        RepairAnswer::Symbols(vec![symbol; 3]),
        RepairAnswer::Sent {
            all: false,
            sent: 9,
            below_cut: 3,
        },
        RepairAnswer::Refused { greatest: TOKEN },
        RepairAnswer::OtherEpoch {
            epoch: Epoch::new(1 << 40),
        },
        RepairAnswer::Announced {
            below_cut: 3,
            not_told: vec![NodeId::new(2)],
        },
        RepairAnswer::Wanted {
            all: true,
            sent: 1,
            below_cut: 3,
            wanted: vec![0, OFFERS_MAX as u16 - 1],
        },
        RepairAnswer::Closed(Timestamp::from_u64(1 << 39)),
        RepairAnswer::Synced { may_raise: true },
        RepairAnswer::Failed,
    ]
}

#[test]
fn what_is_encoded_is_decoded() {
    for request in requests() {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        assert_eq!(RepairRequest::decode(&bytes), Ok(request));
    }
    for answer in answers() {
        let mut bytes = Vec::new();
        answer.encode(&mut bytes);
        assert_eq!(RepairAnswer::decode(&bytes), Ok(answer));
    }
}

#[test]
fn the_longest_messages_fit_a_frame() {
    let mut most = 0;
    for nodes in 1..=NODES_MAX {
        let step = |number: u8| {
            let key = match number {
                0 => Vec::new(),
                _ => vec![number; BOUND_KEY_BYTES_MAX],
            };
            (key, Timestamp::from_u64(number.into()))
        };
        let bounds = KeyBounds::from_steps((0..STEPS_MAX as u8).map(step));
        let request = RepairRequest::Agree {
            session: SessionId::Incremental(1),
            cut: Timestamp::ZERO,
            gc_threshold: Timestamp::ZERO,
            reaches: vec![u8::MAX; nodes],
            bounds: vec![bounds; nodes],
        };
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        most = most.max(bytes.len());
        assert!(RepairRequest::decode(&bytes).is_ok());
    }
    let session = SessionId::Full(TOKEN);
    let longest = [
        RepairRequest::Send {
            session,
            range: 0,
            asker: NodeId::new(0),
            key_hashes: vec![0; KEY_HASHES_MAX],
        },
        RepairRequest::Advance {
            session,
            start: Bytes::from(vec![0; base::KEY_BYTES_MAX + 1]),
        },
        RepairRequest::Stream {
            session,
            range: 0,
            asker: NodeId::new(0),
            after: Some(Bytes::from(vec![0; base::KEY_BYTES_MAX])),
            until: Some(Bytes::from(vec![0; base::KEY_BYTES_MAX])),
            held: vec![0; HELD_MAX],
        },
        RepairRequest::Offer {
            session,
            range: 0,
            asker: NodeId::new(0),
            offers: vec![offer(&[0; 64]); OFFER_BYTES_MAX / offer(&[0; 64]).bytes()],
        },
    ];
    for request in longest {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        most = most.max(bytes.len());
    }
    let longest = [
        RepairAnswer::Symbols(vec![Symbol::default(); SYMBOLS_MAX]),
        RepairAnswer::Digests {
            non_owned: 0,
            announces: 0,
            single_copies: 0,
            digests: vec![Digest::default(); NODES_MAX],
        },
    ];
    for answer in longest {
        let mut bytes = Vec::new();
        answer.encode(&mut bytes);
        most = most.max(bytes.len());
    }
    assert!(most <= PAYLOAD_BYTES_MAX, "{most} bytes");
}

#[test]
fn what_is_cut_short_or_random_is_an_error_or_another_message_but_never_a_panic() {
    for request in requests() {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        for end in 0..bytes.len() {
            assert_ne!(RepairRequest::decode(&bytes[..end]), Ok(request.clone()));
        }
    }
    for answer in answers() {
        let mut bytes = Vec::new();
        answer.encode(&mut bytes);
        for end in 0..bytes.len() {
            assert_ne!(RepairAnswer::decode(&bytes[..end]), Ok(answer.clone()));
        }
    }
    let mut random = 1u64;
    for length in 0..20_000 {
        let bytes: Vec<u8> = (0..length % 64)
            .map(|_| {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                // Small numbers are tags and lengths more often.
                ((random >> 33) % 16) as u8
            })
            .collect();
        // What is decoded means the same once it is encoded.
        if let Ok(request) = RepairRequest::decode(&bytes) {
            let mut again = Vec::new();
            request.encode(&mut again);
            assert_eq!(RepairRequest::decode(&again), Ok(request));
        }
        if let Ok(answer) = RepairAnswer::decode(&bytes) {
            let mut again = Vec::new();
            answer.encode(&mut again);
            assert_eq!(RepairAnswer::decode(&again), Ok(answer));
        }
    }
}
