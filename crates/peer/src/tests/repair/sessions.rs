//! Requests of repair sessions, and repair writes.

use super::*;
use cluster::repair::{SessionId, Token};

fn begin() -> PeerRequest {
    PeerRequest::Session(RepairRequest::Begin {
        session: SessionId::Incremental(1),
        epoch: cluster::Epoch::default(),
    })
}

#[tokio::test(start_paused = true)]
async fn a_request_of_a_session_is_asked_and_answered() {
    run(async {
        let (asker, replica, ..) = connected().await;
        asker.link.call(begin(), asker.after(ms(100)), 1).unwrap();
        let (request, reply) = replica.next().await;
        assert_eq!(request, begin());
        let answer = PeerAnswer::Session(RepairAnswer::Advanced(Some(Bytes::from_static(b"k"))));
        reply.send(answer.clone());
        assert_eq!(asker.answers.next().await, (1, answer));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn repair_writes_carry_their_session_however_long_their_values_are() {
    run(async {
        let (asker, replica, ..) = connected().await;
        let token = Token {
            session: 7,
            attempt: 2,
        };
        for (ticket, session, value_bytes) in [
            (1, SessionId::Full(token), 10),
            (2, SessionId::Incremental(7), 200_000),
        ] {
            let write = PeerRequest::RepairWrite {
                session,
                entry: entry("key", &vec![b'v'; value_bytes]),
            };
            asker
                .link
                .call(write.clone(), asker.after(ms(500)), ticket)
                .unwrap();
            let (request, reply) = replica.next().await;
            assert_eq!(request, write);
            let stored = PeerAnswer::Stored {
                newer_version: NewerVersion::None,
            };
            reply.send(stored.clone());
            assert_eq!(asker.answers.next().await, (ticket, stored));
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_know_sessions_is_not_asked() {
    run(async {
        let mut older = TestNode::named("asker");
        older.hello.protocol.features = REPLICA_STATE;
        let mut asker = Asker::new(older.environment(50_000));
        asker.start();
        let (replica, freeze) = (Rc::<TestReplica>::default(), FreezeSwitch::default());
        let _serving = asker.accept(&replica, &freeze).await;
        asker.until(LinkState::Up).await;
        let refused = asker.link.call(begin(), asker.after(ms(100)), 1);
        assert_eq!(refused, Err(Miss::Refused));
    })
    .await;
}

fn stream() -> PeerRequest {
    PeerRequest::Session(RepairRequest::Stream {
        session: SessionId::Incremental(1),
        range: 7,
        asker: cluster::NodeId::new(0),
        after: None,
        until: None,
        held: vec![1],
    })
}

/// The length of a run is bounded by itself, not by the longest value of a node.
#[tokio::test(start_paused = true)]
async fn a_run_arrives_whole_however_long_it_is() {
    run(async {
        let (asker, replica, ..) = connected().await;
        for (ticket, entries) in [(1, 0), (2, 3), (3, 900)] {
            asker
                .link
                .call(stream(), asker.after(ms(500)), ticket)
                .unwrap();
            let (request, reply) = replica.next().await;
            assert_eq!(request, stream());
            let mut writer = RunWriter::default();
            let sent: Vec<Entry> = (0..entries)
                .map(|number| entry(&format!("key-{number:03}"), &[b'v'; 1000]))
                .collect();
            sent.iter().for_each(|entry| writer.push(entry.lend()));
            reply.send(PeerAnswer::Streamed(writer.finish(true, 900)));
            match asker.answers.next().await {
                (answered, PeerAnswer::Streamed(run)) if answered == ticket => {
                    assert_eq!(run.entries(), Ok(sent));
                    assert_eq!((run.is_last, run.position_permille), (true, 900));
                }
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
}
