//! Refused connections, which are not read for a while.
//!
//! To refuse a request costs a third of what it costs to do it, and whoever
//! asks again at once would have the node do nothing else. So a connection is
//! left unread after a refusal: what its client sends next waits in the kernel,
//! and costs nothing. The connections wait in one line, and a beat of one task
//! a runtime lets them go on, so that none needs a timer of its own:
//!
//! - none before it has waited for a whole beat;
//! - then as many as the gate has room for: there is no need to keep them;
//! - while the gate is full, a few a beat, which bounds what refusing costs;
//! - and each after [`UNREAD_MAX`], which is what `Retry-After` asks for: whoever
//!   heeds that does not wait for this.

use super::channel::Channel;
use crate::door::Gate;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

/// After how many seconds one who was refused may ask again.
pub(crate) const RETRY_AFTER_SECONDS: u16 = 1;

/// How often the line is looked at, while there is one.
const BEAT: Duration = Duration::from_millis(5);

/// How many connections go on with each beat though the gate is full: at 25 us
/// for each of their refusals, a twentieth of the runtime.
const READ_A_BEAT: usize = 10;

/// After how many beats a connection goes on in any case.
const UNREAD_BEATS_MAX: u64 = 1000 * RETRY_AFTER_SECONDS as u64 / BEAT.as_millis() as u64;

/// The line of one runtime. A connection is in it once at most, since it is
/// not read meanwhile.
#[derive(Default)]
pub(crate) struct Refusals {
    line: RefCell<VecDeque<Unread>>,
    /// Beats so far.
    beats: Cell<u64>,
    begun: Notify,
}

struct Unread {
    /// Weak: a connection may end while it waits.
    channel: Weak<Channel>,
    since_beat: u64,
}

impl Refusals {
    /// Leaves a connection unread.
    pub(crate) fn add(&self, channel: &Rc<Channel>) {
        channel.leave_unread();
        let mut line = self.line.borrow_mut();
        if line.is_empty() {
            self.begun.notify_one();
        }
        line.push_back(Unread {
            channel: Rc::downgrade(channel),
            since_beat: self.beats.get(),
        });
    }

    /// Lets connections go on, for as long as the runtime lives.
    pub(crate) async fn let_go_on_forever(self: Rc<Self>, gate: Rc<Gate>) {
        loop {
            self.begun.notified().await;
            let mut beats = tokio::time::interval(BEAT);
            beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
            while !self.line.borrow().is_empty() {
                beats.tick().await;
                self.beat(gate.room());
            }
        }
    }

    /// Lets all connections go on.
    pub(crate) fn let_all_go_on(&self) {
        for unread in self.line.take() {
            unread.go_on();
        }
    }

    /// Lets those go on whose turn it is, given how many the gate has room for.
    fn beat(&self, room: usize) {
        let beat = self.beats.get() + 1;
        self.beats.set(beat);
        let mut line = self.line.borrow_mut();
        let mut free = room.max(READ_A_BEAT);
        while let Some(first) = line.front() {
            let waited = beat - first.since_beat;
            if waited < 2 || (free == 0 && waited < UNREAD_BEATS_MAX) {
                break;
            }
            if let Some(first) = line.pop_front()
                && first.go_on()
            {
                free = free.saturating_sub(1);
            }
        }
    }
}

impl Unread {
    /// Has the connection read again; tells whether there still is one.
    fn go_on(&self) -> bool {
        let channel = self.channel.upgrade();
        channel.is_some_and(|channel| {
            channel.read_again();
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::channel::Buffers;
    use crate::door::progress::{Admits, Progress};
    use crate::door::unsent::Unsent;
    use base::Budget;
    use tokio::net::{TcpListener, TcpStream};

    async fn channel() -> Rc<Channel> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let progress = Progress::new(Rc::default(), Admits::All);
        let buffers = Buffers::new(Budget::new(0), Unsent::new(0));
        Channel::new(stream, Rc::new(buffers), Rc::new(progress))
    }

    /// A line of so many, and the channel that all its entries are of.
    async fn line_of(count: usize) -> (Refusals, Rc<Channel>) {
        let (refusals, channel) = (Refusals::default(), channel().await);
        for _ in 0..count {
            refusals.add(&channel);
        }
        (refusals, channel)
    }

    /// How many go on with each of so many beats.
    fn beats(refusals: &Refusals, room: usize, count: usize) -> Vec<usize> {
        let left = || refusals.line.borrow().len();
        let beat = |_| {
            let before = left();
            refusals.beat(room);
            before - left()
        };
        (0..count).map(beat).collect()
    }

    #[tokio::test]
    async fn connections_wait_for_a_whole_beat_and_then_in_line_while_the_gate_is_full() {
        let (refusals, first) = line_of(25).await;
        assert_eq!(beats(&refusals, 0, 2), [0, 10]);
        let last = channel().await;
        refusals.add(&last);
        assert!(first.is_read() && !last.is_read());
        assert_eq!(beats(&refusals, 0, 3), [10, 6, 0]);
        assert!(last.is_read());
    }

    #[tokio::test]
    async fn those_that_the_gate_has_room_for_go_on() {
        let (refusals, _channel) = line_of(100).await;
        assert_eq!(beats(&refusals, 80, 3), [0, 80, 20]);
    }

    #[tokio::test]
    async fn nobody_waits_for_longer_than_was_said() {
        let (refusals, _channel) = line_of(3_000).await;
        let gone_on = beats(&refusals, 0, UNREAD_BEATS_MAX as usize);
        let in_turn = READ_A_BEAT * (UNREAD_BEATS_MAX as usize - 2);
        assert_eq!(gone_on.iter().sum::<usize>(), 3_000);
        assert_eq!(gone_on.last(), Some(&(3_000 - in_turn)));
    }

    #[tokio::test]
    async fn one_that_has_ended_takes_nobodys_turn() {
        let (refusals, ended) = line_of(50).await;
        drop(ended);
        let channel = channel().await;
        refusals.add(&channel);
        assert_eq!(beats(&refusals, 0, 2), [0, 51]);
        assert!(channel.is_read());
    }

    #[tokio::test]
    async fn all_go_on_when_the_node_stops() {
        let (refusals, channel) = line_of(50).await;
        refusals.let_all_go_on();
        assert!(channel.is_read());
        assert_eq!(beats(&refusals, 0, 2), [0, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_beats_begin_anew_with_each_line() {
        let refusals = Rc::new(Refusals::default());
        let local = tokio::task::LocalSet::new();
        local.spawn_local(Rc::clone(&refusals).let_go_on_forever(Gate::new(1, 1)));
        let channel = channel().await;
        let waits = async {
            for _ in 0..3 {
                refusals.add(&channel);
                let began = tokio::time::Instant::now();
                while !channel.is_read() {
                    tokio::time::sleep(BEAT / 5).await;
                }
                let waited = began.elapsed();
                assert!(waited >= BEAT && waited <= BEAT * 2, "{waited:?}");
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
        };
        local.run_until(waits).await;
    }
}
