//! The window of a batch: its operations between their lines and their answers, in the
//! order of the lines.
//!
//! Answers are written in that order, so an operation that has ended stays until all earlier ones
//! have. The window bounds the operations, the bytes that they write, and the memory that no other
//! quota counts. Each batch may hold [`FREE_BYTES`] of that in any case, so that it makes
//! progress. For more it takes a part of the quota of all batches of the node, and stops reading
//! while that is exhausted.

use super::answer::OperationAnswer;
use super::key_order::KeyHash;
use super::operation::Operation;
use crate::logs::slow_requests::OperationTimes;
use crate::metrics::OperationKind;
use base::{LONG_VALUE_BYTES, Quota, Reservation};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How many operations may be between their lines and their answers.
const OPERATIONS_MAX: usize = 512;

/// How many bytes those that have not ended may write; a single one may write more.
const WRITTEN_BYTES_MAX: usize = 1 << 20;

/// How much a window holds without a reservation.
pub(super) const FREE_BYTES: usize = 16 << 10;

/// By how many bytes at a time its reservation grows.
const STEP_BYTES: usize = 64 << 10;

/// What an operation takes beside its line.
const SLOT_BYTES: usize = 256;

const _: () = assert!(size_of::<Slot>() <= SLOT_BYTES);

/// For how many operations a window that holds little keeps its list.
const SLOTS_KEPT: usize = FREE_BYTES / SLOT_BYTES;

/// An operation in the window.
pub(super) struct Slot {
    /// What it is, for the metrics.
    pub(super) kind: OperationKind,
    /// Its key, while it has its turn among the operations on it or waits for that.
    pub(super) key: Option<KeyHash>,
    /// How far it is.
    state: SlotState,
    /// The reservation for the value of a read.
    pub(super) answer_reservation: Option<Reservation>,
    /// Where its time goes, until it has ended, if anyone asks for it.
    pub(super) times: Option<Box<OperationTimes>>,
    /// Whether it is a read that has run, and runs again for lack of memory.
    is_repeated: bool,
    /// Until when it does so although nobody but others can free that memory, on the monotonic
    /// clock.
    waits_until: Option<Duration>,
    /// What it writes, until it has ended.
    written_bytes: usize,
    /// What it holds that no quota but the window's counts.
    held_bytes: usize,
}

/// When a read runs again that has found no memory for its value. Until then it is the oldest,
/// all answers before it are written, and no other read of its batch runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// As soon as that is so, because its batch may have held the memory.
    Soon,
    /// After a pause as well: its batch holds nothing, so the memory is held by others.
    AfterPause,
}

enum SlotState {
    /// It waits for its key, or for a permit.
    Waiting(Operation, Option<Reservation>),
    /// It runs. The key is that of a read.
    Running(Bytes),
    /// A read that found no memory for its value, or gave it up, runs again once it is the
    /// oldest, all answers before it are written, and no other read of its batch runs.
    Repeated(Bytes),
    Ended(OperationAnswer),
}

impl Slot {
    /// An operation from a line of so many bytes. `reservation` counts the line, unless it is
    /// short.
    pub(super) fn of(
        operation: Operation,
        key: KeyHash,
        line_bytes: usize,
        reservation: Option<Reservation>,
    ) -> Self {
        let line_bytes = if reservation.is_some() { 0 } else { line_bytes };
        Self {
            kind: operation.kind(),
            key: Some(key),
            answer_reservation: None,
            times: None,
            is_repeated: false,
            waits_until: None,
            written_bytes: operation.written_bytes(),
            held_bytes: SLOT_BYTES + line_bytes,
            state: SlotState::Waiting(operation, reservation),
        }
    }

    /// The answer to a line that is no operation.
    pub(super) fn refused(answer: OperationAnswer) -> Self {
        Self {
            kind: OperationKind::None,
            key: None,
            state: SlotState::Ended(answer),
            answer_reservation: None,
            times: None,
            is_repeated: false,
            waits_until: None,
            written_bytes: 0,
            held_bytes: SLOT_BYTES,
        }
    }

    /// Lets it run: gives the operation and the reservation of its line, if it waits. A put holds
    /// both while it runs. The others hold their key alone.
    pub(super) fn run(&mut self) -> Option<(Operation, Option<Reservation>)> {
        if !matches!(self.state, SlotState::Waiting(..)) {
            return None;
        }
        let running = SlotState::Running(Bytes::new());
        let SlotState::Waiting(mut operation, reservation) =
            std::mem::replace(&mut self.state, running)
        else {
            return None;
        };
        if self.kind != OperationKind::Put && reservation.is_some() {
            // A part of the line would keep it, and its reservation ends here.
            operation.key = Bytes::copy_from_slice(&operation.key);
        }
        if self.kind == OperationKind::Get {
            self.state = SlotState::Running(operation.key.clone());
        }
        Some((operation, reservation))
    }

    /// Has a read run again later. Returns whether it does.
    fn repeat_later(&mut self) -> bool {
        let SlotState::Running(key) = &mut self.state else {
            return false;
        };
        self.state = SlotState::Repeated(std::mem::take(key));
        self.is_repeated = true;
        self.answer_reservation = None;
        true
    }

    /// Gives up a long value that it has read, and has it read again later. Returns whether
    /// it had one. It still has its turn, so the value is the same.
    fn give_up_value(&mut self) -> bool {
        let SlotState::Ended(OperationAnswer::Found(entry, Some(_))) = &self.state else {
            return false;
        };
        let key = Bytes::copy_from_slice(entry.key());
        self.held_bytes += key.len();
        self.state = SlotState::Repeated(key);
        self.is_repeated = true;
        self.answer_reservation = None;
        true
    }

    /// Lets a read wait that is to run again. Returns whether it is one.
    fn repeat_now(&mut self) -> bool {
        let SlotState::Repeated(key) = &mut self.state else {
            return false;
        };
        let operation = Operation::get(std::mem::take(key));
        self.state = SlotState::Waiting(operation, None);
        true
    }
}

/// The operations of a batch.
pub(super) struct Window {
    slots: VecDeque<Slot>,
    /// The keys of those that ended with a long value and have left.
    turns_ended: Vec<KeyHash>,
    /// The number of the first operation.
    first: u64,
    written_bytes: usize,
    held_bytes: usize,
    /// What all windows of the node may hold beyond what is free for each.
    memory: Arc<Quota>,
    reservation: Option<Reservation>,
}

impl Window {
    /// An empty window, which shares `memory` with those of other batches.
    pub(super) fn new(memory: &Arc<Quota>) -> Self {
        Self {
            slots: VecDeque::new(),
            turns_ended: Vec::new(),
            first: 0,
            written_bytes: 0,
            held_bytes: 0,
            memory: Arc::clone(memory),
            reservation: None,
        }
    }

    /// Whether another operation may come.
    pub(super) fn has_room(&mut self) -> bool {
        self.slots.len() < OPERATIONS_MAX
            && self.written_bytes < WRITTEN_BYTES_MAX
            && self.has_memory()
    }

    fn has_memory(&mut self) -> bool {
        let covered = self.reservation.as_ref().map_or(0, Reservation::amount);
        let lacking = (self.held_bytes + 1).saturating_sub(FREE_BYTES + covered);
        if lacking == 0 {
            return true;
        }
        let wanted = lacking.next_multiple_of(STEP_BYTES);
        match &mut self.reservation {
            Some(reservation) => reservation.grow(wanted).is_ok(),
            none => {
                *none = self.memory.try_reserve(wanted).ok();
                none.is_some()
            }
        }
    }

    /// Whether there are no operations.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The number of the oldest operation.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The number of the operation that comes next.
    pub(super) fn next_number(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    /// Adds an operation.
    pub(super) fn push(&mut self, slot: Slot) {
        self.written_bytes += slot.written_bytes;
        self.held_bytes += slot.held_bytes;
        self.slots.push_back(slot);
    }

    /// An operation.
    pub(super) fn get(&self, number: u64) -> Option<&Slot> {
        self.slots.get(self.index_of(number)?)
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Slot> {
        let index = self.index_of(number)?;
        self.slots.get_mut(index)
    }

    fn index_of(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    /// Whether the oldest operation waits.
    pub(super) fn does_oldest_wait(&self) -> bool {
        let state = self.slots.front().map(|slot| &slot.state);
        matches!(state, Some(SlotState::Waiting(..)))
    }

    /// Whether the oldest operation has ended.
    pub(super) fn has_oldest_ended(&self) -> bool {
        let state = self.slots.front().map(|slot| &slot.state);
        matches!(state, Some(SlotState::Ended(_)))
    }

    /// Whether the oldest operation is a read that is to run again, or does. It needs the
    /// memory for its value, so no other read may begin.
    pub(super) fn is_oldest_repeated(&self) -> bool {
        let oldest = self.slots.front();
        oldest.is_some_and(|slot| slot.is_repeated) && !self.has_oldest_ended()
    }

    /// Has a read run again that has found no memory for its value; `None` if it does not.
    ///
    /// The first time, answers before it may have held the memory, which are written until
    /// then. Later those behind it may, which cannot be written before it, so they give up
    /// their values. If none has one, others hold the memory, for which the read waits until
    /// `waits_until`, or what that was the first time. A batch that waits so holds none, so no
    /// two of them wait for each other.
    pub(super) fn repeat_later(
        &mut self,
        number: u64,
        now: Duration,
        waits_until: Duration,
    ) -> Option<Repeat> {
        let index = self.index_of(number)?;
        let has_run_again = self.slots.get(index)?.is_repeated;
        let repeat = if !has_run_again || self.give_up_values_behind(index) {
            Repeat::Soon
        } else {
            Repeat::AfterPause
        };
        let slot = self.slots.get_mut(index)?;
        if repeat == Repeat::AfterPause && *slot.waits_until.get_or_insert(waits_until) <= now {
            return None;
        }
        slot.repeat_later().then_some(repeat)
    }

    /// Gives up the long values behind an index. Returns whether there were any.
    fn give_up_values_behind(&mut self, index: usize) -> bool {
        let mut were_any = false;
        for slot in self.slots.range_mut(index + 1..) {
            let held_before = slot.held_bytes;
            were_any |= slot.give_up_value();
            self.held_bytes += slot.held_bytes - held_before;
        }
        were_any
    }

    /// Lets the oldest operation wait if it is a read that is to run again. Returns whether
    /// it is.
    pub(super) fn repeat_oldest(&mut self) -> bool {
        self.slots.front_mut().is_some_and(Slot::repeat_now)
    }

    /// Notes the answer to an operation. Its line is given up, and its reservation but for the
    /// value.
    pub(super) fn end(&mut self, number: u64, answer: OperationAnswer) {
        let Some(slot) = self.get_mut(number) else {
            return;
        };
        if let Some(reservation) = &mut slot.answer_reservation {
            let value_bytes = answer.value_bytes();
            // A long value has a reservation of its own.
            let is_long = value_bytes > LONG_VALUE_BYTES;
            reservation.shrink_to(if is_long { 0 } else { value_bytes });
        }
        slot.state = SlotState::Ended(answer);
        let written_bytes = std::mem::take(&mut slot.written_bytes);
        let line_bytes = std::mem::replace(&mut slot.held_bytes, SLOT_BYTES) - SLOT_BYTES;
        self.written_bytes -= written_bytes;
        self.held_bytes -= line_bytes;
    }

    /// The next key whose operation has ended with a long value and left: its turn is over.
    pub(super) fn take_ended_turn(&mut self) -> Option<KeyHash> {
        self.turns_ended.pop()
    }

    /// Takes the oldest operation if it has ended: what it is, its answer, and the reservation of
    /// its value.
    pub(super) fn pop_ended(
        &mut self,
    ) -> Option<(OperationKind, OperationAnswer, Option<Reservation>)> {
        if !self.has_oldest_ended() {
            return None;
        }
        let slot = self.slots.pop_front()?;
        self.first += 1;
        self.turns_ended.extend(slot.key);
        self.held_bytes -= slot.held_bytes;
        if self.held_bytes <= FREE_BYTES {
            self.reservation = None;
            self.slots.shrink_to(SLOTS_KEPT);
        }
        match slot.state {
            SlotState::Ended(answer) => Some((slot.kind, answer, slot.answer_reservation)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Timestamp;
    use hyper::StatusCode;
    use std::time::Duration;

    fn slot(line_bytes: usize, reservation: Option<Reservation>) -> Slot {
        let operation = Operation::get(Bytes::from_static(b"k"));
        Slot::of(operation, KeyHash::of(b"k"), line_bytes, reservation)
    }

    fn answer() -> OperationAnswer {
        OperationAnswer::Written(StatusCode::CREATED, Timestamp::ZERO)
    }

    /// Fills a window with lines of a KiB, and returns how many it took.
    fn fill(window: &mut Window) -> usize {
        let mut count = 0;
        while window.has_room() {
            window.push(slot(1 << 10, None));
            count += 1;
        }
        count
    }

    #[test]
    fn windows_share_their_memory_and_each_goes_on_without() {
        let memory = Quota::new(2 * STEP_BYTES);
        let mut windows = [(); 4].map(|()| Window::new(&memory));
        let free = FREE_BYTES.div_ceil(SLOT_BYTES + (1 << 10));
        let counts: Vec<usize> = windows.iter_mut().map(fill).collect();
        let with_all = (FREE_BYTES + 2 * STEP_BYTES).div_ceil(SLOT_BYTES + (1 << 10));
        assert_eq!(counts, [with_all, free, free, free]);
        assert_eq!(memory.used(), memory.max());
        // The lines of what has ended go, and with the last answers the reservation.
        for number in 0..with_all as u64 {
            windows[0].end(number, answer());
        }
        while windows[0].pop_ended().is_some() {}
        assert_eq!(memory.used(), 0);
        assert!(windows[0].slots.capacity() <= 2 * SLOTS_KEPT);
        assert!(fill(&mut windows[1]) > 0);
        drop(windows);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn lines_that_count_elsewhere_take_only_their_slots() {
        let (memory, uploads) = (Quota::new(0), Quota::new(1 << 30));
        let mut window = Window::new(&memory);
        let mut count = 0;
        while window.has_room() {
            window.push(slot(1 << 20, uploads.try_reserve(1 << 20).ok()));
            count += 1;
        }
        assert_eq!(count, FREE_BYTES / SLOT_BYTES);
    }

    /// The reservation of a line ends when its read runs, so the read must not keep the line.
    #[test]
    fn a_read_that_runs_keeps_its_key_alone() {
        let uploads = Quota::new(1 << 20);
        let line = Bytes::from(vec![b'k'; 10_000]);
        let operation = Operation::get(line.slice(..1));
        let reservation = uploads.try_reserve(line.len()).ok();
        let times = OperationTimes::new(1, &operation.key, Duration::ZERO);
        let mut read = Slot::of(operation, KeyHash::of(b"k"), line.len(), reservation);
        read.times = Some(Box::new(times));
        let (operation, reservation) = read.run().unwrap();
        drop(reservation);
        assert!(line.is_unique() && operation.key == "k");
        assert!(read.repeat_later() && read.repeat_now());
        let (operation, _) = read.run().unwrap();
        assert_eq!(operation.key, "k");
    }

    #[test]
    fn an_operation_is_answered_in_its_turn() {
        let mut window = Window::new(&Quota::new(0));
        window.push(slot(10, None));
        window.push(Slot::refused(answer()));
        assert!(window.does_oldest_wait() && window.pop_ended().is_none());
        let repeat_later = |window: &mut Window, seconds: u64| {
            let now = Duration::from_secs(seconds);
            window.repeat_later(0, now, now + Duration::from_secs(5))
        };
        assert_eq!(repeat_later(&mut window, 0), None);
        assert!(!window.is_oldest_repeated());
        let oldest = window.get_mut(0).unwrap();
        assert!(oldest.run().is_some() && oldest.run().is_none());
        assert_eq!(repeat_later(&mut window, 0), Some(Repeat::Soon));
        // Its batch holds nothing, so it waits for others, five seconds at most.
        for (second, repeat) in [
            (1, Some(Repeat::AfterPause)),
            (5, Some(Repeat::AfterPause)),
            (6, None),
        ] {
            assert!(window.is_oldest_repeated() && !window.has_oldest_ended());
            assert!(window.repeat_oldest() && window.does_oldest_wait());
            assert!(window.get_mut(0).unwrap().run().is_some());
            assert_eq!(repeat_later(&mut window, second), repeat, "{second}");
        }
        window.end(0, answer());
        assert_eq!((window.first(), window.next_number()), (0, 2));
        assert!(!window.is_oldest_repeated());
        assert!(window.pop_ended().is_some() && window.pop_ended().is_some());
        assert!(window.is_empty() && window.get(1).is_none());
        assert_eq!((window.first(), window.next_number()), (2, 2));
    }
}
