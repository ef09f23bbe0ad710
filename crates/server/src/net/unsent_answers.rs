//! Answers that wait because their clients do not read.
//!
//! Values of up to 64 KiB do not count towards a budget on their way out, because
//! the kernel takes nearly all of them at once. An answer whose client does not
//! read stays in memory. From then on it counts towards a bound that each runtime
//! has. When the bound is exceeded, the runtime cuts the connection whose answer has
//! waited longest, because its client had the most time to read. So clients that
//! do not read take no room from others.

use crate::net::channel::Channel;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// The least bound of a runtime, in bytes: room for several of the longest values
/// that count here.
const UNSENT_BYTES_MIN: usize = 512 << 10;

/// The unsent answers of one runtime.
pub(crate) struct UnsentAnswers {
    bytes: Cell<usize>,
    bytes_max: usize,
    /// By their numbers, which are in the order in which they began to wait.
    oldest_first: RefCell<BTreeMap<u64, UnsentAnswer>>,
    number_next: Cell<u64>,
}

struct UnsentAnswer {
    bytes: usize,
    channel: Weak<Channel>,
}

/// A connection's entry among the unsent answers, if it has one. Dropping this
/// removes the entry.
pub(crate) struct UnsentEntry {
    answers: Rc<UnsentAnswers>,
    number: Cell<Option<u64>>,
}

impl UnsentAnswers {
    /// A bound of `bytes_max`, which one answer may exceed.
    pub(crate) fn new(bytes_max: usize) -> Rc<Self> {
        Rc::new(Self {
            bytes: Cell::new(0),
            bytes_max: bytes_max.max(UNSENT_BYTES_MIN),
            oldest_first: RefCell::default(),
            number_next: Cell::new(0),
        })
    }

    /// How many bytes wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Cuts the connections whose answers have waited longest, until the rest is
    /// within the bound. The newest answer stays, because it has only begun to wait.
    fn make_room(&self) {
        while self.bytes.get() > self.bytes_max {
            let mut oldest_first = self.oldest_first.borrow_mut();
            if oldest_first.len() <= 1 {
                return;
            }
            let Some((_, first)) = oldest_first.pop_first() else {
                return;
            };
            drop(oldest_first);
            self.bytes.set(self.bytes.get() - first.bytes);
            if let Some(channel) = first.channel.upgrade() {
                tracing::debug!(
                    bytes = first.bytes,
                    "too many answers wait for clients that do not read: cutting the connection \
                     whose answer has waited longest"
                );
                channel.progress.cut();
            }
        }
    }
}

impl UnsentEntry {
    /// No entry: all answers of the connection are sent.
    pub(crate) fn new(answers: Rc<UnsentAnswers>) -> Self {
        Self {
            answers,
            number: Cell::new(None),
        }
    }

    /// Adds the connection's answer, `bytes` of which wait because its client does
    /// not read. An answer that is there already stays where it is.
    pub(crate) fn add(&self, channel: &Weak<Channel>, bytes: usize) {
        if bytes == 0 || self.number.get().is_some() {
            return;
        }
        let answers = &self.answers;
        let number = answers.number_next.get();
        answers.number_next.set(number + 1);
        self.number.set(Some(number));
        let channel = Weak::clone(channel);
        let answer = UnsentAnswer { bytes, channel };
        answers.oldest_first.borrow_mut().insert(number, answer);
        answers.bytes.set(answers.bytes.get() + bytes);
        answers.make_room();
    }

    /// Removes the connection's answer, because its client has received all of it.
    pub(crate) fn remove(&self) {
        let Some(number) = self.number.take() else {
            return;
        };
        let answers = &self.answers;
        if let Some(answer) = answers.oldest_first.borrow_mut().remove(&number) {
            answers.bytes.set(answers.bytes.get() - answer.bytes);
        }
    }
}

impl Drop for UnsentEntry {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_that_wait_longest_make_room_for_others() {
        let answers = UnsentAnswers::new(UNSENT_BYTES_MIN);
        let ended = Weak::new();
        let entries: Vec<UnsentEntry> = (0..4)
            .map(|_| UnsentEntry::new(Rc::clone(&answers)))
            .collect();
        let add = |entry: usize, bytes| entries[entry].add(&ended, bytes);
        let waiting = || {
            let oldest_first = answers.oldest_first.borrow();
            oldest_first.keys().copied().collect::<Vec<_>>()
        };
        let third = UNSENT_BYTES_MIN / 3;
        add(0, third);
        add(1, third);
        // The first still waits, with its old number.
        add(0, third);
        add(2, third);
        assert_eq!((waiting(), answers.bytes()), (vec![0, 1, 2], 3 * third));
        add(3, third);
        assert_eq!((waiting(), answers.bytes()), (vec![1, 2, 3], 3 * third));
        // Removing an answer that was cut frees no bytes a second time.
        entries[0].remove();
        entries[1].remove();
        assert_eq!((waiting(), answers.bytes()), (vec![2, 3], 2 * third));
        add(1, 2 * UNSENT_BYTES_MIN);
        assert_eq!(waiting(), [4], "the newest answer stays");
        drop(entries);
        assert_eq!(answers.bytes(), 0);
    }
}
