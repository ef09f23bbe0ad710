//! Requests and answers over a link that is up.

use super::*;

#[tokio::test(start_paused = true)]
async fn requests_and_answers_arrive_as_they_were_sent() {
    run(async {
        let (asker, replica, ..) = connected().await;
        let tombstone = Entry::tombstone(b"key", Timestamp::MAX, 1);
        let empty = Entry::value(b"key", Timestamp::from_u64(1), b"", Expiry::NEVER, 255);
        let newer = NewerVersion::At(Timestamp::from_u64(7));
        let unknown = NewerVersion::Unknown(Timestamp::from_u64(9));
        let write = |entry: &Entry| PeerRequest::Write(entry.clone());
        let key = "k".repeat(base::KEY_BYTES_MAX);
        let short = entry(&key, &long_value(frame::PIECE_BYTES));
        let long = entry(&key, &long_value(frame::PIECE_BYTES + 1));
        for (ticket, (request, answer)) in [
            (
                write(&tombstone),
                PeerAnswer::Stored {
                    newer_version: NewerVersion::None,
                },
            ),
            (
                write(&empty),
                PeerAnswer::Stored {
                    newer_version: newer,
                },
            ),
            (
                write(&empty),
                PeerAnswer::Stored {
                    newer_version: unknown,
                },
            ),
            (write(&short), PeerAnswer::Missed(Miss::Full)),
            (write(&long), PeerAnswer::Missed(Miss::Failed)),
            (read_of("key"), PeerAnswer::Found(None)),
            (read_of("key"), PeerAnswer::Found(Some(tombstone.clone()))),
            (read_of("key"), PeerAnswer::Found(Some(empty.clone()))),
            (read_of(&key), PeerAnswer::Found(Some(short.clone()))),
            (read_of(&key), PeerAnswer::Found(Some(long.clone()))),
            (read_of("key"), PeerAnswer::Missed(Miss::Timeout)),
            (read_of("key"), PeerAnswer::Missed(Miss::Refused)),
            (read_of("key"), PeerAnswer::Missed(Miss::Overloaded)),
            (read_of("key"), PeerAnswer::Missed(Miss::Learner)),
            (
                write(&short),
                PeerAnswer::Missed(Miss::Obsolete {
                    below: Timestamp::from_u64(77),
                }),
            ),
        ]
        .into_iter()
        .enumerate()
        {
            asker.call(request.clone(), ticket as u64).unwrap();
            let (asked, reply) = replica.next().await;
            assert_eq!(asked, request);
            reply.send(answer.clone());
            assert_eq!(asker.answers.next().await, (ticket as u64, answer));
        }
        let counts = asker.link.status().counts;
        assert_eq!(
            (counts.calls, counts.answered, counts.connects),
            (15, 15, 1)
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn answers_come_in_any_order() {
    run(async {
        let (asker, replica, ..) = connected().await;
        for ticket in 0..100 {
            asker.read(ticket).unwrap();
        }
        let mut replies = Vec::new();
        for ticket in 0..100 {
            let (request, reply) = replica.next().await;
            assert_eq!(key_of(&request), ticket.to_string());
            replies.push((request, reply));
        }
        // The even ones backwards, then the odd ones.
        let (even, odd): (Vec<_>, Vec<_>) = (0..100).zip(replies).partition(|(at, _)| at % 2 == 0);
        let mut expected = Vec::new();
        for (ticket, (request, reply)) in even.into_iter().rev().chain(odd) {
            let found = PeerAnswer::Found(Some(entry(&key_of(&request), b"value")));
            reply.send(found.clone());
            expected.push((ticket, found));
        }
        for answer in expected {
            assert_eq!(asker.answers.next().await, answer);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_turn_are_written_together() {
    run(async {
        let (asker, replica, ..) = connected().await;
        for ticket in 0..500 {
            asker.read(ticket).unwrap();
        }
        replica.next().await.1.send(PeerAnswer::Found(None));
        // The others arrived in the same turn.
        assert_eq!(replica.waiting(), 499);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_reaches_the_replica_and_ends_the_call() {
    run(async {
        let (asker, replica, ..) = connected().await;
        asker
            .link
            .call(read_of("soon"), asker.after(ms(20)), 1)
            .unwrap();
        asker
            .link
            .call(read_of("later"), asker.after(ms(500)), 2)
            .unwrap();
        let past = asker.environment.clock.monotonic();
        assert_eq!(
            asker.link.call(read_of("past"), past, 3),
            Err(Miss::Timeout)
        );
        let (_, soon) = replica.next().await;
        let (_, later) = replica.next().await;
        assert_eq!(later.deadline() - soon.deadline(), ms(480));
        tokio::time::sleep(ms(20)).await;
        asker.link.expire(asker.after(Duration::ZERO));
        let timeout = PeerAnswer::Missed(Miss::Timeout);
        assert_eq!(asker.answers.drain(), [(1, timeout)]);
        // A late answer is not delivered.
        soon.send(PeerAnswer::Found(None));
        later.send(PeerAnswer::Found(None));
        assert_eq!(asker.answers.next().await, (2, PeerAnswer::Found(None)));
        assert_eq!(asker.link.status().counts.timeouts, 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn calls_in_flight_are_bounded_on_both_sides() {
    run(async {
        let (asker, replica, ..) = connected().await;
        let max = CALLS_MAX as u64;
        for ticket in 0..max {
            asker.read(ticket).unwrap();
        }
        assert_eq!(asker.read(max), Err(Miss::Overloaded));
        assert_eq!(asker.link.status().in_flight, CALLS_MAX);
        let (_, first) = replica.next().await;
        replica.until_waiting(CALLS_MAX - 1).await;
        // The asker gives all of them up, and the replica still works on them.
        asker.link.expire(asker.after(ms(40_000)));
        assert_eq!(asker.answers.drain().len(), CALLS_MAX);
        asker.read(max).unwrap();
        let overloaded = PeerAnswer::Missed(Miss::Overloaded);
        assert_eq!(asker.answers.next().await, (max, overloaded));
        first.send(PeerAnswer::Found(None));
        asker.read(max + 1).unwrap();
        replica.until_waiting(CALLS_MAX).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_reply_answers_that_the_replica_failed() {
    run(async {
        let (asker, replica, ..) = connected().await;
        asker.read(1).unwrap();
        drop(replica.next().await);
        let failed = PeerAnswer::Missed(Miss::Failed);
        assert_eq!(asker.answers.next().await, (1, failed));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn latency_counts_answers_but_not_refusals() {
    run(async {
        let (asker, replica, ..) = connected().await;
        assert_eq!(asker.link.hedge_delay(), ms(50));
        asker.read(1).unwrap();
        let (_, reply) = replica.next().await;
        tokio::time::sleep(ms(8)).await;
        reply.send(PeerAnswer::Found(None));
        asker.answers.next().await;
        asker.read(2).unwrap();
        replica
            .next()
            .await
            .1
            .send(PeerAnswer::Missed(Miss::Overloaded));
        asker.answers.next().await;
        let status = asker.link.status();
        assert_eq!(
            (status.read_latency, status.write_latency),
            (Some(ms(8)), None)
        );
        assert_eq!(asker.link.hedge_delay(), ms(24));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn heartbeats_measure_the_drift_of_the_clocks() {
    run(async {
        let (asker, ..) = connected().await;
        tokio::time::sleep(HEARTBEAT).await;
        let drift_ms = asker.link.status().drift_ms.unwrap();
        assert!((39_990..=40_010).contains(&drift_ms), "{drift_ms}");
        let own_ahead_ms = clock_offset::own_ahead_ms(&*asker.environment.clock);
        let set_forward = asker.link.drift_ms(own_ahead_ms + 60_000);
        assert_eq!(set_forward, Some(drift_ms - 60_000), "a step shows at once");
    })
    .await;
}
