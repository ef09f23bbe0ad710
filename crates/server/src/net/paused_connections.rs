//! Connections that the node does not read for a while after a refusal: backpressure on clients
//! that ask again at once.
//!
//! Refusing a request costs a third of what serving it costs. A client that asks again at once
//! could therefore keep the node busy with refusals. So the node pauses a connection after a
//! refusal: the next bytes of its client wait in the kernel and cost nothing. Paused connections
//! wait in one queue, and one task a runtime resumes them at its ticks, so no connection needs a
//! timer of its own:
//!
//! - A connection waits for at least one whole tick.
//! - Then as many connections resume as there are permits and room in the queue for them.
//! - While there are none, a few resume at each tick, which bounds what refusing
//!   them again costs.
//! - Each resumes after [`PAUSE_TICKS_MAX`] in any case. That is the time that
//!   `Retry-After` names, so a client that heeds it never waits for the queue.

use super::channel::Channel;
use api::RETRY_AFTER_SECONDS;
use base::Permits;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

/// How often connections resume, while some are paused.
const TICK: Duration = Duration::from_millis(5);

/// How many connections resume at each tick although there are no permits. At 25 us
/// for each refusal that follows, this takes a twentieth of the runtime.
const RESUMED_PER_TICK: usize = 10;

/// After how many ticks a connection resumes in any case.
const PAUSE_TICKS_MAX: u64 = 1000 * RETRY_AFTER_SECONDS as u64 / TICK.as_millis() as u64;

/// The paused connections of one runtime. A connection is among them once at most,
/// because it sends no request while it is paused.
#[derive(Default)]
pub(crate) struct PausedConnections {
    /// In the order in which they were paused.
    queue: RefCell<VecDeque<PausedConnection>>,
    /// The number of ticks so far.
    ticks: Cell<u64>,
    /// Notified when the queue gets its first connection.
    begun: Notify,
}

struct PausedConnection {
    /// Weak, because the connection may end while it is paused.
    channel: Weak<Channel>,
    since_tick: u64,
}

impl PausedConnections {
    /// Pauses a connection.
    pub(crate) fn pause(&self, channel: &Rc<Channel>) {
        channel.pause_reading();
        let mut queue = self.queue.borrow_mut();
        if queue.is_empty() {
            self.begun.notify_one();
        }
        queue.push_back(PausedConnection {
            channel: Rc::downgrade(channel),
            since_tick: self.ticks.get(),
        });
    }

    /// Resumes connections when their time has come, while the runtime lives.
    pub(crate) async fn resume_forever(self: Rc<Self>, permits: Rc<Permits>) {
        loop {
            self.begun.notified().await;
            let mut ticks = tokio::time::interval(TICK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            while !self.queue.borrow().is_empty() {
                ticks.tick().await;
                self.tick(permits.left());
            }
        }
    }

    /// Resumes all connections.
    pub(crate) fn resume_all(&self) {
        for paused in self.queue.take() {
            paused.resume();
        }
    }

    /// Resumes the connections whose time has come, when `admitted` requests
    /// would be admitted.
    fn tick(&self, admitted: usize) {
        let tick = self.ticks.get() + 1;
        self.ticks.set(tick);
        let mut queue = self.queue.borrow_mut();
        let mut resumable = admitted.max(RESUMED_PER_TICK);
        while let Some(first) = queue.front() {
            let waited = tick - first.since_tick;
            if waited < 2 || (resumable == 0 && waited < PAUSE_TICKS_MAX) {
                break;
            }
            if let Some(first) = queue.pop_front()
                && first.resume()
            {
                resumable = resumable.saturating_sub(1);
            }
        }
    }
}

impl PausedConnection {
    /// Lets the connection read again. Returns whether the connection still
    /// exists.
    fn resume(&self) -> bool {
        let channel = self.channel.upgrade();
        channel.is_some_and(|channel| {
            channel.resume_reading();
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::channel::Buffers;
    use crate::net::connection_slots::ConnectionScope;
    use crate::net::slow_clients::ConnectionProgress;
    use crate::net::unsent_answers::unsent_answers;
    use crate::net::wire::Wire;
    use base::Quota;
    use tokio::net::{TcpListener, TcpStream};

    async fn channel() -> Rc<Channel> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let progress = ConnectionProgress::new(Rc::default(), ConnectionScope::AnyRequest);
        let buffers = Buffers::new(Quota::new(0), unsent_answers(0));
        Channel::new(Wire::Plain(stream), Rc::new(buffers), Rc::new(progress))
    }

    /// A queue with `count` entries, all of the same channel.
    async fn queue_of(count: usize) -> (PausedConnections, Rc<Channel>) {
        let (paused, channel) = (PausedConnections::default(), channel().await);
        for _ in 0..count {
            paused.pause(&channel);
        }
        (paused, channel)
    }

    /// How many connections resume at each of `count` ticks.
    fn resumed_at_ticks(paused: &PausedConnections, admitted: usize, count: usize) -> Vec<usize> {
        let left = || paused.queue.borrow().len();
        let tick = |_| {
            let before = left();
            paused.tick(admitted);
            before - left()
        };
        (0..count).map(tick).collect()
    }

    #[tokio::test]
    async fn connections_wait_for_a_whole_tick_and_then_in_order_while_no_permit_is_free() {
        let (paused, first) = queue_of(25).await;
        assert_eq!(resumed_at_ticks(&paused, 0, 2), [0, 10]);
        let last = channel().await;
        paused.pause(&last);
        assert!(first.is_reading() && !last.is_reading());
        assert_eq!(resumed_at_ticks(&paused, 0, 3), [10, 6, 0]);
        assert!(last.is_reading());
    }

    #[tokio::test]
    async fn as_many_connections_resume_as_would_be_admitted() {
        let (paused, _channel) = queue_of(100).await;
        assert_eq!(resumed_at_ticks(&paused, 80, 3), [0, 80, 20]);
    }

    #[tokio::test]
    async fn no_connection_is_paused_for_longer_than_retry_after_says() {
        let (paused, _channel) = queue_of(3_000).await;
        let resumed = resumed_at_ticks(&paused, 0, PAUSE_TICKS_MAX as usize);
        let in_turn = RESUMED_PER_TICK * (PAUSE_TICKS_MAX as usize - 2);
        assert_eq!(resumed.iter().sum::<usize>(), 3_000);
        assert_eq!(resumed.last(), Some(&(3_000 - in_turn)));
    }

    #[tokio::test]
    async fn a_connection_that_has_ended_does_not_count_as_resumed() {
        let (paused, ended) = queue_of(50).await;
        drop(ended);
        let channel = channel().await;
        paused.pause(&channel);
        assert_eq!(resumed_at_ticks(&paused, 0, 2), [0, 51]);
        assert!(channel.is_reading());
    }

    #[tokio::test]
    async fn all_connections_resume_when_the_node_stops() {
        let (paused, channel) = queue_of(50).await;
        paused.resume_all();
        assert!(channel.is_reading());
        assert_eq!(resumed_at_ticks(&paused, 0, 2), [0, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_ticks_begin_anew_when_the_queue_fills_again() {
        let paused = Rc::new(PausedConnections::default());
        let local = tokio::task::LocalSet::new();
        local.spawn_local(Rc::clone(&paused).resume_forever(Permits::new(1)));
        let channel = channel().await;
        let waits = async {
            for _ in 0..3 {
                paused.pause(&channel);
                let began = tokio::time::Instant::now();
                while !channel.is_reading() {
                    tokio::time::sleep(TICK / 5).await;
                }
                let waited = began.elapsed();
                assert!(waited >= TICK && waited <= TICK * 2, "{waited:?}");
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
        };
        local.run_until(waits).await;
    }
}
