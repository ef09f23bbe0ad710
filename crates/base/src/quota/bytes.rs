//! An amount that all threads share: of memory, scans or connections.

use super::Refused;
use super::line::{InLine, Line, Turn};
use profile::WaitSite;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// Values longer than this count against the quotas for long values while they are
/// sent or received.
pub const LONG_VALUE_BYTES: usize = 64 << 10;

/// A bound on a sum over all threads.
#[derive(Debug)]
pub struct Quota {
    used: AtomicUsize,
    max: AtomicUsize,
    /// The amount of the one reservation that is larger than the whole quota; 0 while there is
    /// none.
    oversized: AtomicUsize,
    /// Who waits for a part.
    pub(super) line: Line,
}

/// A part of a quota. Dropping it gives the part back.
#[derive(Debug)]
pub struct Reservation {
    quota: Arc<Quota>,
    amount: usize,
    /// Whether it lies beside the quota ([`Quota::try_reserve_oversized`]). It is never divided
    /// then.
    is_oversized: bool,
}

impl Quota {
    /// A quota of `max`, all of it free. Who may wait for it is bounded elsewhere.
    pub fn new(max: usize) -> Arc<Self> {
        Self::with_line(max, usize::MAX)
    }

    /// A quota of `max`, all of it free, for which so many may wait.
    pub fn with_line(max: usize, waiting_max: usize) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicUsize::new(0),
            max: AtomicUsize::new(max),
            oversized: AtomicUsize::new(0),
            line: Line::new(waiting_max),
        })
    }

    /// The size of the quota.
    #[must_use]
    pub fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    /// Changes the size of the quota. What was taken of a larger one stays taken.
    pub fn resize(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// How much of it is taken, with what lies beside it.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed) + self.oversized.load(Ordering::Relaxed)
    }

    /// Whether at least half of it is taken.
    pub fn is_half_used(&self) -> bool {
        self.used() >= self.max() / 2
    }

    /// How much of it is free.
    pub fn left(&self) -> usize {
        self.max().saturating_sub(self.used.load(Ordering::SeqCst))
    }

    /// How many wait for a part.
    pub fn waiting(&self) -> usize {
        self.line.waiting()
    }

    /// How many may wait for a part.
    #[must_use]
    pub fn waiting_max(&self) -> usize {
        self.line.waiting_max()
    }

    /// Takes what is free, whoever waits.
    ///
    /// # Errors
    /// [`Refused`] if less is left.
    pub fn try_reserve(self: &Arc<Self>, amount: usize) -> Result<Reservation, Refused> {
        let mut reservation = Reservation {
            quota: Arc::clone(self),
            amount: 0,
            is_oversized: false,
        };
        reservation.grow(amount)?;
        Ok(reservation)
    }

    /// Takes any amount. One that is larger than the whole quota lies beside it, and there is one
    /// such at a time: what was stored when limits were higher, or by a node whose limits are,
    /// can be read and repaired nevertheless.
    ///
    /// # Errors
    /// [`Refused`] if less is left, or if another one lies beside the quota.
    pub fn try_reserve_oversized(self: &Arc<Self>, amount: usize) -> Result<Reservation, Refused> {
        if amount <= self.max() {
            return self.try_reserve(amount);
        }
        let order = Ordering::Relaxed;
        let taken = self.oversized.compare_exchange(0, amount, order, order);
        taken.map_err(|_| Refused)?;
        Ok(Reservation {
            quota: Arc::clone(self),
            amount,
            is_oversized: true,
        })
    }

    /// Takes what a value needs that will be sent to a client. Short values need nothing, and one
    /// that is longer than the whole quota lies beside it.
    ///
    /// # Errors
    /// As [`Quota::try_reserve_oversized`].
    pub fn try_reserve_for_value(
        self: &Arc<Self>,
        value_bytes: usize,
    ) -> Result<Option<Reservation>, Refused> {
        if value_bytes <= LONG_VALUE_BYTES {
            return Ok(None);
        }
        self.try_reserve_oversized(value_bytes).map(Some)
    }

    /// Waits until so much is free, behind those that came before, and takes it; the whole quota
    /// if that is less. The profile of the waits counts it at `site`, also if it is given up.
    ///
    /// # Errors
    /// [`Refused`] at once if too many wait.
    pub async fn reserve(
        self: &Arc<Self>,
        amount: usize,
        site: &WaitSite,
    ) -> Result<Reservation, Refused> {
        let amount = amount.min(self.max().max(1));
        // This overtakes nobody.
        if self.waiting() == 0
            && let Ok(reservation) = self.try_reserve(amount)
        {
            return Ok(reservation);
        }
        let in_line = self.join(Turn::InOrder)?;
        let _waiting = site.begin();
        Ok(poll_fn(|cx| in_line.poll_reserve(amount, cx)).await)
    }

    /// As [`Quota::reserve`], for a thread that may block.
    ///
    /// # Errors
    /// As [`Quota::reserve`].
    pub fn reserve_blocking(
        self: &Arc<Self>,
        amount: usize,
        site: &WaitSite,
    ) -> Result<Reservation, Refused> {
        let mut reserving = pin!(self.reserve(amount, site));
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        loop {
            match reserving.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(reserved) => return reserved,
                Poll::Pending => std::thread::park(),
            }
        }
    }

    /// Begins to wait for a part.
    ///
    /// # Errors
    /// [`Refused`] if too many wait, or for [`Turn::First`] if another one stands there.
    pub fn join(self: &Arc<Self>, turn: Turn) -> Result<InLine, Refused> {
        self.line.join(self, turn)
    }

    /// Wakes those in line who may go on.
    pub(super) fn wake_line(&self) {
        if self.line.waiting() > 0 {
            self.line.wake(|| self.left());
        }
    }

    fn give_back(&self, amount: usize) {
        self.used.fetch_sub(amount, Ordering::SeqCst);
        self.wake_line();
    }
}

/// Lets a thread go on that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Reservation {
    /// Whether this is a part of `quota`.
    #[must_use]
    pub fn is_of(&self, quota: &Arc<Quota>) -> bool {
        Arc::ptr_eq(&self.quota, quota)
    }

    /// The size of this part.
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Takes more.
    ///
    /// # Errors
    /// [`Refused`] when there is not as much left; the part stays as it is.
    pub fn grow(&mut self, amount: usize) -> Result<(), Refused> {
        if self.is_oversized {
            return Err(Refused);
        }
        self.quota
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(amount)
                    .filter(|sum| *sum <= self.quota.max())
            })
            .map_err(|_| Refused)?;
        self.amount += amount;
        Ok(())
    }

    /// Takes more if at most half of the quota is taken then, and nobody waits. So whoever grows
    /// waits for nobody, and the other half is for those who have nothing yet. Returns whether it
    /// has more.
    pub fn grow_within_half(&mut self, amount: usize) -> bool {
        self.quota.used().saturating_add(amount) <= self.quota.max() / 2
            && self.quota.waiting() == 0
            && self.grow(amount).is_ok()
    }

    /// Moves a part of it, or all of it if it is less, to a reservation of its own.
    #[must_use]
    pub fn split(&mut self, amount: usize) -> Self {
        let amount = if self.is_oversized {
            0
        } else {
            amount.min(self.amount)
        };
        self.amount -= amount;
        Self {
            quota: Arc::clone(&self.quota),
            amount,
            is_oversized: false,
        }
    }

    /// Adds another part of the same quota; one of another quota is given back.
    pub fn join(&mut self, mut other: Self) {
        if other.is_of(&self.quota) && !self.is_oversized && !other.is_oversized {
            self.amount += std::mem::take(&mut other.amount);
        }
    }

    /// Gives back what is above `amount`.
    pub fn shrink_to(&mut self, amount: usize) {
        drop(self.split(self.amount.saturating_sub(amount)));
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.is_oversized {
            self.quota.oversized.store(0, Ordering::Relaxed);
        } else {
            self.quota.give_back(self.amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{ProfileKind, Recording, monotonic_ns};
    use std::sync::atomic::Ordering::SeqCst;

    static SITE: WaitSite = WaitSite::new("queue;of the test");

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_quota_is_never_exceeded_and_dropped_reservations_give_it_back() {
        let quota = Quota::new(10);
        let mut reservation = quota.try_reserve(6).unwrap();
        assert!(quota.try_reserve(5).is_err());
        assert!(reservation.grow(5).is_err());
        reservation.grow(4).unwrap();
        assert_eq!((reservation.amount(), quota.used()), (10, 10));
        assert!(quota.try_reserve(usize::MAX).is_err());
        let mut part = reservation.split(7);
        assert_eq!(
            (reservation.amount(), part.amount(), quota.used()),
            (3, 7, 10)
        );
        assert_eq!(
            reservation.split(9).amount(),
            3,
            "no part is larger than the reservation"
        );
        part.shrink_to(2);
        assert_eq!((part.amount(), quota.used()), (2, 2));
        reservation.join(part.split(1));
        reservation.join(Quota::new(5).try_reserve(5).unwrap());
        assert_eq!(
            (reservation.amount(), part.amount(), quota.used()),
            (1, 1, 2)
        );
        drop((reservation, part));
        assert_eq!(quota.used(), 0);
    }

    #[test]
    fn one_that_is_larger_than_the_quota_lies_beside_it() {
        let quota = Quota::new(10);
        assert!(quota.try_reserve(11).is_err());
        let mut all = quota.try_reserve_oversized(10).unwrap();
        let mut oversized = quota.try_reserve_oversized(30).unwrap();
        assert_eq!((oversized.amount(), quota.used()), (30, 40));
        assert!(quota.try_reserve_oversized(11).is_err(), "one at a time");
        assert!(quota.try_reserve_oversized(1).is_err(), "none is left");
        // It stays in one piece.
        assert!(oversized.grow(1).is_err());
        oversized.shrink_to(1);
        assert_eq!((oversized.split(3).amount(), oversized.amount()), (0, 30));
        all.shrink_to(4);
        assert_eq!(quota.try_reserve_oversized(6).unwrap().amount(), 6);
        drop(oversized);
        assert_eq!(quota.used(), 4);
        assert!(quota.try_reserve_for_value(LONG_VALUE_BYTES + 1).is_ok());
        assert!(
            quota
                .try_reserve_for_value(LONG_VALUE_BYTES)
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn those_who_wait_come_in_turn_and_in_a_line_that_is_bounded() {
        let quota = Quota::with_line(10, 2);
        let reserve = |amount| Box::pin(quota.reserve(amount, &SITE));
        let Poll::Ready(Ok(mut first)) = poll(reserve(8).as_mut()) else {
            panic!("it is free");
        };
        let (mut second, mut third) = (reserve(9), reserve(1));
        assert!(poll(second.as_mut()).is_pending());
        assert!(
            poll(third.as_mut()).is_pending(),
            "it waits behind the second"
        );
        assert!(matches!(
            poll(reserve(1).as_mut()),
            Poll::Ready(Err(Refused))
        ));
        assert_eq!((quota.used(), quota.waiting()), (8, 2));
        first.shrink_to(1);
        assert!(poll(third.as_mut()).is_pending(), "in turn");
        assert!(matches!(poll(second.as_mut()), Poll::Ready(Ok(_))));
        assert!(matches!(poll(third.as_mut()), Poll::Ready(Ok(_))));
        let mut fourth = reserve(usize::MAX);
        assert!(poll(fourth.as_mut()).is_pending(), "it waits for all of it");
        assert!(poll(reserve(1).as_mut()).is_pending());
        assert_eq!(quota.waiting(), 1, "who leaves leaves the line");
        drop(first);
        let Poll::Ready(Ok(all)) = poll(fourth.as_mut()) else {
            panic!("all is free");
        };
        assert_eq!((quota.used(), quota.waiting()), (10, 0));
        drop(all);
        assert_eq!(quota.used(), 0);
    }

    #[test]
    fn who_waits_is_woken_once_what_it_wants_is_free() {
        struct Woken(AtomicUsize);
        impl Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, SeqCst);
            }
        }
        let woken = Arc::new(Woken(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&woken));
        let quota = Quota::new(10);
        let (first, second) = (quota.try_reserve(6).unwrap(), quota.try_reserve(4).unwrap());
        let mut waits = pin!(quota.reserve(5, &SITE));
        let mut context = Context::from_waker(&waker);
        assert!(waits.as_mut().poll(&mut context).is_pending());
        drop(second);
        assert_eq!(woken.0.load(SeqCst), 0, "it is not enough");
        drop(first);
        assert_eq!(woken.0.load(SeqCst), 1);
        // Who does not wait takes it first, and the wait goes on.
        let faster = quota.try_reserve(9).unwrap();
        assert!(waits.as_mut().poll(&mut context).is_pending());
        drop(faster);
        assert_eq!(woken.0.load(SeqCst), 2);
        assert!(waits.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn a_wait_that_is_given_up_counts_in_the_profile() {
        static GIVEN_UP: WaitSite = WaitSite::new("queue;given up");
        let recording = Recording::start(ProfileKind::Waits).unwrap();
        let quota = Quota::new(1);
        let _all = quota.try_reserve(1).unwrap();
        let mut waits = Box::pin(quota.reserve(1, &GIVEN_UP));
        assert!(poll(waits.as_mut()).is_pending());
        let began = monotonic_ns();
        while monotonic_ns() == began {}
        drop(waits);
        let profile = recording.finish().folded();
        assert!(profile.contains("queue;given up "), "{profile}");
    }

    #[test]
    fn who_grows_leaves_half_to_those_who_have_nothing_and_passes_nobody() {
        let quota = Quota::new(10);
        let mut long = quota.try_reserve(2).unwrap();
        assert!(long.grow_within_half(2));
        let mut waits = Box::pin(quota.reserve(7, &SITE));
        assert!(poll(waits.as_mut()).is_pending());
        assert!(!long.grow_within_half(1), "somebody waits");
        drop(waits);
        assert!(long.grow_within_half(1));
        assert!(!long.grow_within_half(1));
        let short = quota.try_reserve(5).unwrap();
        assert!(!long.grow_within_half(0), "nothing is spare");
        drop((short, long));
        assert_eq!(quota.used(), 0);
    }

    #[test]
    fn threads_that_block_stay_within_the_bound_and_all_get_their_turn() {
        const MAX: usize = 100;
        let quota = Quota::new(MAX);
        let (held, most, done) = (
            AtomicUsize::new(0),
            AtomicUsize::new(0),
            AtomicUsize::new(0),
        );
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (quota, held, most, done) = (&quota, &held, &most, &done);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(thread);
                    for _ in 0..200 {
                        // Some want more than there is, and get all of it.
                        let amount = random.usize(1..MAX + 20);
                        let reservation = quota.reserve_blocking(amount, &SITE).unwrap();
                        let amount = reservation.amount();
                        most.fetch_max(held.fetch_add(amount, SeqCst) + amount, SeqCst);
                        std::thread::yield_now();
                        held.fetch_sub(amount, SeqCst);
                        drop(reservation);
                        done.fetch_add(1, SeqCst);
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), 1600);
        assert!(most.into_inner() <= MAX);
        assert_eq!((quota.used(), quota.waiting()), (0, 0));
    }
}
