//! Answers that wait because their clients do not read.
//!
//! Values of up to 64 KiB do not count towards a quota on their way out, because
//! the kernel takes nearly all of them at once. An answer whose client does not
//! read stays in memory. From then on it counts towards a bound that each runtime
//! has. When the bound is exceeded, the connection whose answer has waited longest is
//! shed, whoever owns it, because its client had the most time to read. So clients that
//! do not read take nothing from others.

use crate::admission::shedding::{ConnectionQuota, Shed, Usage};
use crate::net::slow_clients::ConnectionProgress;
use std::cell::RefCell;
use std::rc::Rc;

/// The least bound of a runtime, in bytes: room for several of the longest values
/// that count here.
const UNSENT_BYTES_MIN: usize = 512 << 10;

/// The bytes of the unsent answers of one runtime. All of them have one owner.
pub(crate) type UnsentAnswers = ConnectionQuota<()>;

/// A bound of `bytes_max`, which one answer may exceed.
pub(crate) fn unsent_answers(bytes_max: usize) -> Rc<UnsentAnswers> {
    ConnectionQuota::new(bytes_max.max(UNSENT_BYTES_MIN), "unsent answers")
}

/// What a connection holds of the unsent answers, if anything. Dropping this gives it back.
pub(crate) struct UnsentAnswer {
    answers: Rc<UnsentAnswers>,
    usage: RefCell<Option<Usage<()>>>,
}

impl UnsentAnswer {
    /// Nothing: all answers of the connection are sent.
    pub(crate) fn new(answers: Rc<UnsentAnswers>) -> Self {
        Self {
            answers,
            usage: RefCell::default(),
        }
    }

    /// Counts the answer of a connection, `bytes` of which wait because its client does
    /// not read. An answer that counts already stays as old as it is.
    pub(crate) fn add(&self, connection: &Rc<ConnectionProgress>, bytes: usize) {
        let mut usage = self.usage.borrow_mut();
        if bytes > 0 && usage.is_none() {
            let holder: Rc<dyn Shed> = Rc::<ConnectionProgress>::clone(connection);
            *usage = Some(self.answers.take((), bytes, Rc::downgrade(&holder)));
        }
    }

    /// Gives back what the answer held, because its client has received all of it.
    #[inline]
    pub(crate) fn remove(&self) {
        self.usage.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::connection_slots::ConnectionScope;

    #[test]
    fn the_answers_that_wait_longest_are_shed_for_others() {
        let answers = unsent_answers(UNSENT_BYTES_MIN);
        let connection = || {
            Rc::new(ConnectionProgress::new(
                Rc::default(),
                ConnectionScope::AnyRequest,
            ))
        };
        let entries: Vec<_> = (0..4)
            .map(|_| (UnsentAnswer::new(Rc::clone(&answers)), connection()))
            .collect();
        let add = |index: usize, bytes| {
            let (entry, connection) = &entries[index];
            entry.add(connection, bytes);
        };
        let cut = || -> Vec<bool> { entries.iter().map(|(_, it)| it.is_cut()).collect() };
        let third = UNSENT_BYTES_MIN / 3;
        add(0, third);
        add(1, third);
        // The first still waits, and is as old as before.
        add(0, third);
        add(2, third);
        assert_eq!((cut(), answers.used()), (vec![false; 4], 3 * third));
        add(3, third);
        assert_eq!(cut(), [true, false, false, false]);
        assert_eq!(answers.used(), 3 * third);
        // An answer that was shed gives nothing back a second time.
        entries[0].0.remove();
        entries[1].0.remove();
        assert_eq!(answers.used(), 2 * third);
        add(1, 2 * UNSENT_BYTES_MIN);
        assert_eq!(cut(), [true, false, true, true], "the newest stays");
        assert_eq!(answers.used(), 2 * UNSENT_BYTES_MIN);
        drop(entries);
        assert_eq!(answers.used(), 0);
    }
}
