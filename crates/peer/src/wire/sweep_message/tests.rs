use super::*;
use cluster::NODES_MAX;
use cluster::forgetting::Vouching;

const STORE: StoreStart = StoreStart {
    store_id: 4,
    start: 6,
};
const INCARNATION: Incarnation = Incarnation {
    store_id: 4,
    last_loss: 1,
};

fn requests() -> Vec<SweepRequest> {
    let pass = PassId(7);
    let node = NodeId::new(2);
    let bounds = KeyBounds::from_steps([
        (Vec::new(), Timestamp::from_u64(5)),
        (b"m".to_vec(), Timestamp::from_u64(9)),
    ]);
    vec![
        SweepRequest::Begin {
            pass,
            kind: PassKind::Recent,
            is_resumed: false,
        },
        SweepRequest::Begin {
            pass,
            kind: PassKind::Full,
            is_resumed: true,
        },
        SweepRequest::Fence {
            pass,
            fence: Timestamp::from_u64(1 << 39),
        },
        SweepRequest::Forget {
            pass,
            forgotten: Timestamp::from_u64(1 << 38),
        },
        SweepRequest::Disregard {
            pass,
            below: Timestamp::from_u64(1 << 38),
            vouching: vec![Vouching::Nothing, Vouching::Remembers, Vouching::All],
        },
        SweepRequest::Agree {
            pass,
            cut: Timestamp::from_u64(1 << 40),
            forgotten: Timestamp::from_u64(1 << 38),
            reaches: vec![2, 0],
            stores: vec![STORE, StoreStart::default()],
            bounds: vec![KeyBounds::everything(), bounds],
        },
        SweepRequest::Advance {
            pass,
            start: Bytes::new(),
        },
        SweepRequest::Digest {
            pass,
            range: 3,
            end: None,
        },
        SweepRequest::Digest {
            pass,
            range: 3,
            end: Some(Bytes::from_static(b"k\0")),
        },
        SweepRequest::Reconcile {
            pass,
            range: 3,
            with: node,
        },
        SweepRequest::Recount {
            pass,
            range: 3,
            asker: node,
        },
        SweepRequest::Symbols {
            pass,
            range: 3,
            asker: node,
            first: 8,
            count: 16,
        },
        SweepRequest::Send {
            pass,
            range: 3,
            asker: node,
            key_hashes: vec![1, u64::MAX],
        },
        SweepRequest::Announce { pass, range: 3 },
        SweepRequest::Pull {
            pass,
            range: 3,
            asker: node,
            after: None,
            held: vec![5, u32::MAX],
        },
        SweepRequest::Pull {
            pass,
            range: 3,
            asker: node,
            after: Some(Bytes::from_static(b"k")),
            held: Vec::new(),
        },
        SweepRequest::Offer {
            pass,
            range: 3,
            asker: node,
            offers: vec![offer(b"k"), offer(&[7; base::KEY_BYTES_MAX])],
        },
        SweepRequest::Sync { pass },
        SweepRequest::End {
            pass,
            is_conclusive: true,
            single_copies: vec![0, 9, u64::MAX],
            clean_with: vec![node],
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

fn answers() -> Vec<SweepAnswer> {
    let symbol = Symbol {
        key_hashes: 1,
        timestamps: 2,
        content_hashes: 3,
        checks: 4,
        items: -5,
    };
    vec![
        SweepAnswer::Begun {
            incarnation: INCARNATION,
            start: 6,
            greatest_seen: Timestamp::from_u64(8),
            forgotten: Timestamp::from_u64(5),
            latest_fence: Timestamp::from_u64(7),
            reach: 3,
            bounds: vec![KeyBounds::everything(); 3],
        },
        SweepAnswer::Done,
        SweepAnswer::Advanced(None),
        SweepAnswer::Advanced(Some(Bytes::from_static(b"k"))),
        SweepAnswer::Digests {
            surplus: 1,
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
        SweepAnswer::Reconciled {
            is_equal: true,
            sent: 1,
            received: 2,
            below_fence: 3,
        },
        SweepAnswer::Recounted(Digest::default()),
        SweepAnswer::Symbols(vec![symbol; 3]),
        SweepAnswer::Sent {
            all: false,
            sent: 9,
            below_fence: 3,
        },
        SweepAnswer::Unknown,
        SweepAnswer::Announced {
            sent: 1,
            unsettled: 2,
            below_fence: 3,
            not_told: vec![NodeId::new(2)],
        },
        SweepAnswer::Wanted {
            all: true,
            sent: 1,
            unsettled: 2,
            below_fence: 3,
            wanted: vec![0, OFFERS_MAX as u16 - 1],
        },
        SweepAnswer::Synced(INCARNATION),
        SweepAnswer::Fenced(FencedStore {
            incarnation: INCARNATION,
            before: Timestamp::from_u64(1 << 37),
            fence: Timestamp::from_u64(1 << 39),
            forgotten: Timestamp::from_u64(1 << 35),
            greatest: Timestamp::from_u64(1 << 36),
            lacks_nothing: true,
        }),
    ]
}

#[test]
fn what_is_encoded_is_decoded() {
    for request in requests() {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        assert_eq!(SweepRequest::decode(&bytes), Ok(request));
    }
    for answer in answers() {
        let mut bytes = Vec::new();
        answer.encode(&mut bytes);
        assert_eq!(SweepAnswer::decode(&bytes), Ok(answer));
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
        let request = SweepRequest::Agree {
            pass: PassId(1),
            cut: Timestamp::ZERO,
            forgotten: Timestamp::ZERO,
            reaches: vec![u8::MAX; nodes],
            stores: vec![STORE; nodes],
            bounds: vec![bounds; nodes],
        };
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        most = most.max(bytes.len());
        assert!(SweepRequest::decode(&bytes).is_ok());
    }
    let pass = PassId(1);
    let longest = [
        SweepRequest::Send {
            pass,
            range: 0,
            asker: NodeId::new(0),
            key_hashes: vec![0; KEY_HASHES_MAX],
        },
        SweepRequest::Advance {
            pass,
            start: Bytes::from(vec![0; base::KEY_BYTES_MAX + 1]),
        },
        SweepRequest::Pull {
            pass,
            range: 0,
            asker: NodeId::new(0),
            after: Some(Bytes::from(vec![0; base::KEY_BYTES_MAX])),
            held: vec![0; HELD_MAX],
        },
        SweepRequest::Offer {
            pass,
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
        SweepAnswer::Symbols(vec![Symbol::default(); SYMBOLS_MAX]),
        SweepAnswer::Digests {
            surplus: 0,
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
            assert_ne!(SweepRequest::decode(&bytes[..end]), Ok(request.clone()));
        }
    }
    for answer in answers() {
        let mut bytes = Vec::new();
        answer.encode(&mut bytes);
        for end in 0..bytes.len() {
            assert_ne!(SweepAnswer::decode(&bytes[..end]), Ok(answer.clone()));
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
        if let Ok(request) = SweepRequest::decode(&bytes) {
            let mut again = Vec::new();
            request.encode(&mut again);
            assert_eq!(SweepRequest::decode(&again), Ok(request));
        }
        if let Ok(answer) = SweepAnswer::decode(&bytes) {
            let mut again = Vec::new();
            answer.encode(&mut again);
            assert_eq!(SweepAnswer::decode(&again), Ok(answer));
        }
    }
}
