//! Requests and answers over a link that is up.

use super::*;

#[tokio::test(start_paused = true)]
async fn every_request_and_answer_comes_as_it_was_sent() {
    run(async {
        let (asker, replica, ..) = connected().await;
        let tombstone = Entry::tombstone(b"key", Timestamp::MAX, 1);
        let empty = Entry::value(b"key", Timestamp::from_u64(1), b"", Expiry::NEVER, 255);
        let newer = Verdict::Newer(Timestamp::from_u64(7));
        let unknown = Verdict::Unknown(Timestamp::from_u64(9));
        let write = |entry: &Entry| PeerRequest::Write(entry.clone());
        let key = "k".repeat(base::KEY_BYTES_MAX);
        let short = entry(&key, &long_value(frame::PIECE_BYTES));
        let long = entry(&key, &long_value(frame::PIECE_BYTES + 1));
        for (ticket, (request, answer)) in [
            (
                write(&tombstone),
                PeerAnswer::Stored {
                    verdict: Verdict::Clean,
                },
            ),
            (write(&empty), PeerAnswer::Stored { verdict: newer }),
            (write(&empty), PeerAnswer::Stored { verdict: unknown }),
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
            (read_of("key"), PeerAnswer::Missed(Miss::Unfilled)),
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
            (14, 14, 1)
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
        // All even ones backwards, then the others.
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
async fn a_turn_of_calls_is_written_at_once() {
    run(async {
        let (asker, replica, ..) = connected().await;
        for ticket in 0..500 {
            asker.read(ticket).unwrap();
        }
        replica.next().await.1.send(PeerAnswer::Found(None));
        // No other turn was needed for the rest.
        assert_eq!(replica.waiting(), 499);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_deadline_travels_and_ends_the_call() {
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
        // An answer that comes all the same finds nobody.
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
        // The asker has given one up; the replica still works on all of them.
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
async fn a_reply_that_is_dropped_answers_that_the_replica_failed() {
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
async fn latency_is_that_of_answers() {
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
async fn heartbeats_tell_how_far_the_clocks_are_apart() {
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
