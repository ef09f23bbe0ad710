//! Conditional writes of one key wait for each other on a runtime.

use super::conditional::{PAIR, answer, applied, key_without, read, write_if};
use super::{LOOK_PERIOD, calm, run};
use crate::host::{Host, key_bytes};
use crate::scenario::Scenario;
use bytes::Bytes;
use node::simulation::{ConditionalAnswer, Refusal};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Many at a time by way of all nodes: all get through, each once, and none is told to try again.
#[test]
fn those_that_compete_all_get_their_turn() {
    const CLIENTS: usize = 64;
    run(calm(), async |world| {
        let (key, _) = key_without(&world, 3);
        let clients = (0..CLIENTS).map(|client: usize| {
            let host = Rc::clone(&world.hosts[client % 4]);
            tokio::task::spawn_local(async move {
                loop {
                    let before = read(&host, key).await;
                    let (version, mut value) = before.map_or((None, Vec::new()), |entry| {
                        (Some(entry.timestamp()), entry.value_bytes().to_vec())
                    });
                    value.push(client as u8);
                    let value = Some(Bytes::from(value));
                    let sent = host.write_if(key_bytes(key), value, version, PAIR).unwrap();
                    match answer(sent).await {
                        ConditionalAnswer::Applied(_) => return,
                        ConditionalAnswer::NotMatched(_) => {}
                        other => panic!("client {client}: {other:?}"),
                    }
                }
            })
        });
        for client in clients.collect::<Vec<_>>() {
            client.await.unwrap();
        }
        let read = read(&world.hosts[0], key).await.unwrap();
        let mut counted = read.value_bytes().to_vec();
        counted.sort_unstable();
        assert_eq!(counted, (0..CLIENTS as u8).collect::<Vec<_>>());
    });
}

/// Many have read the same version. One replaces it, and the others need no round trips to learn that.
#[test]
fn those_that_have_waited_in_vain_are_told_at_once() {
    run(calm(), async |world| {
        let (key, replicas) = key_without(&world, 3);
        let host = &world.hosts[3];
        let first = applied(write_if(host, key, Some("first"), None)).await;
        for replica in &replicas {
            world.network.set_delay(*replica, 3, &(50..=50));
        }
        let began = Instant::now();
        let sent: Vec<_> = (0..20)
            .map(|_| write_if(host, key, Some("next"), Some(first)))
            .collect();
        let mut next = None;
        for sent in sent {
            match (answer(sent).await, next) {
                (ConditionalAnswer::Applied(written), None) => next = Some(written.timestamp),
                (ConditionalAnswer::NotMatched(current), Some(_)) => assert_eq!(current, next),
                other => panic!("{other:?}"),
            }
        }
        let took = began.elapsed();
        assert!(took < Duration::from_millis(250), "{took:?}");
    });
}

/// The first one waits for replicas that stand still. The others of the key wait for half of their
/// time, and so many wait at most.
#[test]
fn those_that_wait_for_their_turn_are_bounded_in_number_and_time() {
    const TURNS: usize = 64;
    let timeout = Duration::from_millis(600);
    let scenario = Scenario { timeout, ..calm() };
    run(scenario, async |world| {
        let (key, replicas) = key_without(&world, 3);
        let host = &world.hosts[3];
        for replica in &replicas {
            world.hosts[*replica].freeze();
        }
        let began = Instant::now();
        let sent: Vec<_> = (0..TURNS + 3)
            .map(|_| write_if(host, key, Some("value"), None))
            .collect();
        let answers = sent.into_iter().map(|sent| {
            tokio::task::spawn_local(async move { (answer(sent).await, began.elapsed()) })
        });
        let mut at_once = 0;
        let mut after_half = 0;
        for (number, answer) in answers.collect::<Vec<_>>().into_iter().enumerate() {
            let (answer, took) = answer.await.unwrap();
            let ConditionalAnswer::NotApplied(why) = answer else {
                panic!("{answer:?}");
            };
            if number == 0 {
                let is_timeout = matches!(why, Refusal::NotEnoughReplicas { .. });
                assert!(is_timeout && took > timeout / 2, "{why:?} after {took:?}");
                continue;
            }
            assert_eq!(why, Refusal::Overloaded, "after {took:?}");
            if took < timeout / 4 {
                at_once += 1;
            } else {
                assert!(took >= timeout / 2 && took < timeout * 3 / 4, "{took:?}");
                after_half += 1;
            }
        }
        assert_eq!((at_once, after_half), (3, TURNS - 1));
        for replica in &replicas {
            world.hosts[*replica].thaw();
        }
        // The queue is empty again.
        until_applied(host, key).await;
    });
}

/// Writes until a write is applied: the links may be down yet.
async fn until_applied(host: &Host, key: u64) {
    for _ in 0..100 {
        match answer(write_if(host, key, Some("value"), None)).await {
            ConditionalAnswer::Applied(_) => return,
            ConditionalAnswer::NotApplied(_) => sleep(LOOK_PERIOD).await,
            other => panic!("{other:?}"),
        }
    }
    panic!("nothing is applied");
}
