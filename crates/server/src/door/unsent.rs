//! Answers that their clients do not take.
//!
//! Values of up to 64 KiB count for nothing on their way out, because nearly
//! all are taken at once. One whose client does not read stays in memory; from
//! then on it counts, against a bound that each runtime has. Where that is
//! reached, the connection that has been waiting longest is cut: its client
//! had most time. So whoever lets answers lie makes no room unusable for others.

use crate::door::channel::Channel;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// The least bound of a runtime, in bytes: some of the longest that count here.
const UNSENT_BYTES_MIN: usize = 512 << 10;

/// Those that wait, of one runtime.
pub(crate) struct Unsent {
    bytes: Cell<usize>,
    bytes_max: usize,
    /// In the order in which they began to wait.
    line: RefCell<BTreeMap<u64, Waiting>>,
    next: Cell<u64>,
}

struct Waiting {
    bytes: usize,
    channel: Weak<Channel>,
}

/// A connection's place in the line, if it is there; left when it is dropped.
pub(crate) struct Turn {
    unsent: Rc<Unsent>,
    number: Cell<Option<u64>>,
}

impl Unsent {
    /// Room for `bytes_max`, or a little more.
    pub(crate) fn new(bytes_max: usize) -> Rc<Self> {
        Rc::new(Self {
            bytes: Cell::new(0),
            bytes_max: bytes_max.max(UNSENT_BYTES_MIN),
            line: RefCell::default(),
            next: Cell::new(0),
        })
    }

    /// How much waits.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Cuts those that have waited longest, until the rest has room. The last
    /// one is left alone: it has only begun to wait.
    fn make_room(&self) {
        while self.bytes.get() > self.bytes_max {
            let mut line = self.line.borrow_mut();
            if line.len() <= 1 {
                return;
            }
            let Some((_, first)) = line.pop_first() else {
                return;
            };
            drop(line);
            self.bytes.set(self.bytes.get() - first.bytes);
            if let Some(channel) = first.channel.upgrade() {
                tracing::debug!("too much waits for clients that do not read: cutting the oldest");
                channel.progress.cut();
            }
        }
    }
}

impl Turn {
    /// Of a connection that has nothing that waits.
    pub(crate) fn new(unsent: Rc<Unsent>) -> Self {
        Self {
            unsent,
            number: Cell::new(None),
        }
    }

    /// The client takes nothing, and `bytes` wait for it.
    pub(crate) fn wait(&self, channel: &Weak<Channel>, bytes: usize) {
        if bytes == 0 || self.number.get().is_some() {
            return;
        }
        let unsent = &self.unsent;
        let number = unsent.next.get();
        unsent.next.set(number + 1);
        self.number.set(Some(number));
        let channel = Weak::clone(channel);
        let waiting = Waiting { bytes, channel };
        unsent.line.borrow_mut().insert(number, waiting);
        unsent.bytes.set(unsent.bytes.get() + bytes);
        unsent.make_room();
    }

    /// The client has taken all of it.
    pub(crate) fn end(&self) {
        let Some(number) = self.number.take() else {
            return;
        };
        let unsent = &self.unsent;
        if let Some(waiting) = unsent.line.borrow_mut().remove(&number) {
            unsent.bytes.set(unsent.bytes.get() - waiting.bytes);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_wait_longest_make_room_for_others() {
        let unsent = Unsent::new(UNSENT_BYTES_MIN);
        let nobody = Weak::new();
        let turns: Vec<Turn> = (0..4).map(|_| Turn::new(Rc::clone(&unsent))).collect();
        let wait = |turn: usize, bytes| turns[turn].wait(&nobody, bytes);
        let waiting = || unsent.line.borrow().keys().copied().collect::<Vec<_>>();
        let third = UNSENT_BYTES_MIN / 3;
        wait(0, third);
        wait(1, third);
        // It goes on waiting, as before.
        wait(0, third);
        wait(2, third);
        assert_eq!((waiting(), unsent.bytes()), (vec![0, 1, 2], 3 * third));
        wait(3, third);
        assert_eq!((waiting(), unsent.bytes()), (vec![1, 2, 3], 3 * third));
        // One that was cut has nothing more to give back.
        turns[0].end();
        turns[1].end();
        assert_eq!((waiting(), unsent.bytes()), (vec![2, 3], 2 * third));
        turns[1].wait(&nobody, 2 * UNSENT_BYTES_MIN);
        assert_eq!(waiting(), [4], "the last one is left alone");
        drop(turns);
        assert_eq!(unsent.bytes(), 0);
    }
}
