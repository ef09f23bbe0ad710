//! Links that connect, and peers that cannot be reached.

use super::*;
use crate::link::BACKOFF_MAX;
use crate::link::START_PATIENCE;
use crate::link::failure_detector::SUSPECT_AFTER;
use crate::log_limiter::Direction;

const REFUSED: PeerAnswer = PeerAnswer::Missed(Miss::Refused);

fn asker() -> Asker {
    Asker::new(TestNode::named("asker").environment(50_000))
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_a_link_that_connects_for_the_first_time() {
    run(async {
        let mut asker = asker();
        assert!(!asker.link.is_down());
        asker.read(1).unwrap();
        asker
            .link
            .call(read_of("soon"), asker.after(ms(20)), 2)
            .unwrap();
        asker.start();
        tokio::time::sleep(ms(50)).await;
        // They wait only until their deadlines.
        asker.link.expire(asker.after(Duration::ZERO));
        assert_eq!(
            asker.answers.drain(),
            [(2, PeerAnswer::Missed(Miss::Timeout))]
        );
        let replica = Rc::<TestReplica>::default();
        asker.accept(&replica, &FreezeSwitch::default()).await;
        let (request, reply) = replica.next().await;
        assert_eq!(key_of(&request), "1");
        reply.send(PeerAnswer::Found(None));
        assert_eq!(asker.answers.next().await, (1, PeerAnswer::Found(None)));
        let latency = asker.link.status().read_latency.unwrap();
        assert!(
            latency < ms(5),
            "{latency:?} includes the time without a connection"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_connection_ends_waiting_calls_and_refuses_new_ones() {
    run(async {
        let asker = asker();
        asker.network.refuse(true);
        asker.read(1).unwrap();
        asker.start();
        assert_eq!(asker.answers.next().await, (1, REFUSED));
        assert!(asker.link.is_down());
        assert_eq!(asker.read(2), Err(Miss::Refused));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_was_never_reached_is_logged_only_after_it_had_time_to_start() {
    run(async {
        let asker = asker();
        let log = Arc::clone(&asker.environment.log);
        let was_logged = || log.clear(Direction::Outgoing, "replica");
        asker.network.refuse(true);
        asker.start();
        tokio::time::sleep(START_PATIENCE - ms(100)).await;
        assert!(!was_logged());
        tokio::time::sleep(ms(100) + BACKOFF_MAX).await;
        assert!(was_logged());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_hangs_is_given_up() {
    run(async {
        let asker = asker();
        asker.read(1).unwrap();
        asker.start();
        let before = Instant::now();
        assert_eq!(asker.answers.next().await, (1, REFUSED));
        let took = before.elapsed();
        assert!((ms(1_000)..=ms(1_010)).contains(&took), "{took:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_is_dialled_again_with_backoff() {
    run(async {
        let mut asker = asker();
        asker.network.refuse(true);
        asker.start();
        tokio::time::sleep(ms(10_000)).await;
        let waits = asker.network.waits();
        for (wait, longest_ms) in waits
            .iter()
            .zip([10, 20, 40, 80, 160, 320, 640, 1_000, 1_000])
        {
            let longest = ms(longest_ms + 2);
            assert!((longest / 2 - ms(1)..=longest).contains(wait), "{waits:?}");
        }
        assert!(waits.len() >= 15, "{waits:?}");
        asker.network.refuse(false);
        let replica = Rc::<TestReplica>::default();
        let serving = asker.accept(&replica, &FreezeSwitch::default()).await;
        asker.until(LinkState::Up).await;
        // It was up long enough that the waits begin with the shortest one again.
        tokio::time::sleep(ms(1_500)).await;
        let before = Instant::now();
        serving.abort();
        asker.arrivals.recv().await.unwrap();
        assert!(before.elapsed() <= ms(12), "{:?}", before.elapsed());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_dials_is_dialled_at_once() {
    run(async {
        let mut asker = asker();
        asker.network.refuse(true);
        asker.start();
        tokio::time::sleep(ms(5_000)).await;
        assert_eq!(asker.read(1), Err(Miss::Refused));
        asker.network.refuse(false);
        let before = Instant::now();
        asker.link.note_peer_dial();
        // The link has never been up, so this call waits.
        assert!(!asker.link.is_down());
        asker.read(2).unwrap();
        let replica = Rc::<TestReplica>::default();
        replica.is_prompt.set(true);
        asker.accept(&replica, &FreezeSwitch::default()).await;
        assert_eq!(asker.answers.next().await, (2, PeerAnswer::Found(None)));
        assert!(before.elapsed() <= ms(1), "{:?}", before.elapsed());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_a_peer_that_dials_after_its_restart() {
    run(async {
        let (mut asker, replica, freeze, serving) = connected().await;
        tokio::time::sleep(ms(2_000)).await;
        asker.network.refuse(true);
        serving.abort();
        asker.until(LinkState::Down).await;
        tokio::time::sleep(ms(3_000)).await;
        assert_eq!(asker.read(1), Err(Miss::Refused));
        asker.network.refuse(false);
        asker.link.note_peer_dial();
        asker.read(2).unwrap();
        replica.is_prompt.set(true);
        let _serving = asker.accept(&replica, &freeze).await;
        assert_eq!(asker.answers.next().await, (2, PeerAnswer::Found(None)));
    })
    .await;
}

/// The peer has begun to listen between the two attempts to dial.
#[tokio::test(start_paused = true)]
async fn calls_outlast_an_attempt_that_was_too_early() {
    run(async {
        let mut asker = asker();
        asker.start();
        asker.read(1).unwrap();
        // The first attempt hangs, and the peer dials meanwhile.
        let hanging = asker.arrivals.recv().await.unwrap();
        asker.link.note_peer_dial();
        tokio::time::sleep(ms(1)).await;
        drop(hanging);
        let replica = Rc::<TestReplica>::default();
        replica.is_prompt.set(true);
        let _serving = asker.accept(&replica, &FreezeSwitch::default()).await;
        assert_eq!(asker.answers.next().await, (1, PeerAnswer::Found(None)));
        assert!(asker.network.waits()[0] <= ms(2));
    })
    .await;
}

/// Two nodes that start together dial each other, so the peer dials while the link
/// still connects.
#[tokio::test(start_paused = true)]
async fn calls_do_not_wait_for_a_link_that_was_cut() {
    run(async {
        let mut asker = asker();
        asker.start();
        asker.link.note_peer_dial();
        let (replica, freeze) = (Rc::<TestReplica>::default(), FreezeSwitch::default());
        asker.accept(&replica, &freeze).await;
        asker.until(LinkState::Up).await;
        tokio::time::sleep(ms(2_000)).await;
        // From now on no bytes pass, and no connection can be made.
        freeze.set(true);
        asker.until(LinkState::Suspected).await;
        let mut has_dialled_at = None;
        for ticket in 0..2_000 {
            let state = asker.link.status().state;
            // A handshake from before the cut may be reported late. Then calls wait no longer
            // than for a peer that falls silent.
            let may_wait = has_dialled_at.is_some_and(|at: Instant| at.elapsed() <= SUSPECT_AFTER);
            let result = match state {
                LinkState::Suspected => Err(Miss::Suspected),
                LinkState::Connecting if may_wait => Ok(()),
                _ => {
                    assert_eq!(state, LinkState::Down, "after {ticket} times 10 ms");
                    Err(Miss::Refused)
                }
            };
            assert_eq!(asker.read(ticket), result);
            if ticket == 1_000 {
                asker.link.note_peer_dial();
                has_dialled_at = Some(Instant::now());
            }
            tokio::time::sleep(ms(10)).await;
        }
        let waited = asker.answers.drain();
        assert!(!waited.is_empty());
        assert!(
            waited
                .iter()
                .all(|(ticket, answer)| *ticket > 1_000 && *answer == REFUSED)
        );
        assert_eq!(asker.link.status().in_flight, 0);
        assert!(asker.network.dialled.load(Ordering::Relaxed) > 5);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_suspected_peer_that_dials_is_dialled_at_once() {
    run(async {
        let (mut asker, replica, freeze, _serving) = connected().await;
        freeze.set(true);
        asker.until(LinkState::Suspected).await;
        let before = Instant::now();
        asker.link.note_peer_dial();
        asker.accept(&replica, &FreezeSwitch::default()).await;
        asker.until(LinkState::Up).await;
        assert!(before.elapsed() <= ms(5), "{:?}", before.elapsed());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_closes_every_connection_is_dialled_with_backoff() {
    run(async {
        let mut asker = asker();
        asker.start();
        let replica = Rc::<TestReplica>::default();
        let until = Instant::now() + ms(10_000);
        while Instant::now() < until {
            let serving = asker.accept(&replica, &FreezeSwitch::default()).await;
            asker.until(LinkState::Up).await;
            serving.abort();
            // Calls must not wait for such a peer.
            asker.until(LinkState::Down).await;
        }
        let dialled = asker.network.dialled.load(Ordering::Relaxed);
        assert!(dialled < 25, "{dialled}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_handler_may_call_again() {
    /// Makes another call for each call that was lost.
    struct CallsAgain {
        link: RefCell<Option<Rc<Link>>>,
        lost: Cell<u64>,
        more: Notify,
        until: Duration,
    }
    impl AnswerHandler for CallsAgain {
        fn answer(&self, ticket: u64, answer: PeerAnswer) {
            assert_eq!(answer, REFUSED);
            self.lost.set(self.lost.get() + 1);
            self.more.notify_one();
            let link = self.link.borrow().clone().unwrap();
            let result = link.call(read_of("again"), self.until, ticket + 1);
            assert_eq!(result, Err(Miss::Refused));
        }
    }
    run(async {
        let asker = asker();
        let again = Rc::new(CallsAgain {
            link: RefCell::new(None),
            lost: Cell::new(0),
            more: Notify::new(),
            until: asker.after(ms(1_000)),
        });
        asker.network.refuse(true);
        let link = Link::new(
            "replica".to_owned(),
            replica_url(),
            Arc::clone(&asker.network) as Arc<dyn Transport>,
            asker.environment.clone(),
            Rc::clone(&again) as Rc<dyn AnswerHandler>,
        );
        *again.link.borrow_mut() = Some(Rc::clone(&link));
        for ticket in 0..3 {
            link.call(read_of("first"), again.until, ticket).unwrap();
        }
        tokio::task::spawn_local(Rc::clone(&link).run());
        while again.lost.get() < 3 {
            again.more.notified().await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_new_connection_sends_nothing_that_was_lost_with_the_old_one() {
    run(async {
        let (mut asker, replica, freeze, serving) = connected().await;
        tokio::time::sleep(ms(1_500)).await;
        freeze.set(true);
        // More than the stream holds, so that one frame is sent in part.
        let value = long_value(60_000);
        for ticket in 0..20 {
            let write = PeerRequest::Write(entry("lost", &value));
            asker.call(write, ticket).unwrap();
        }
        tokio::time::sleep(ms(100)).await;
        serving.abort();
        for ticket in 0..20 {
            assert_eq!(asker.answers.next().await, (ticket, REFUSED));
        }
        asker.accept(&replica, &FreezeSwitch::default()).await;
        asker.until(LinkState::Up).await;
        asker.call(read_of("next"), 20).unwrap();
        assert_eq!(key_of(&replica.next().await.0), "next");
        assert_eq!(asker.link.status().state, LinkState::Up);
    })
    .await;
}
