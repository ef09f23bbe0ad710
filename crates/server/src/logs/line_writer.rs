//! Writes the lines of the log and of the audit log.
//!
//! A pipe that nobody reads fills up, and a disk may hang; whoever writes to them waits. So serving
//! threads only put their lines into a bounded queue, and one thread writes them. Lines that do not
//! fit or cannot be written are counted, and the count is logged once lines can be written again,
//! at most once a [`PERIOD`]. A partly written line is ended then. At the end, lines in the queue
//! are written within [`FLUSH_MAX`] or lost.

use base::Clock;
use profile::lock;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many bytes of lines may wait: some seconds of a busy log, and little beside the
/// smallest memory of a node.
const QUEUE_BYTES_MAX: usize = 256 * 1024;

/// How much is written at a time, if it is more than a line: a pipe takes so much as a
/// whole, so that the lines of several processes do not mix in it.
const PIECE_BYTES_MAX: usize = 4096;

/// How often it is told how many lines were left out.
const PERIOD: Duration = Duration::from_secs(1);

/// How long the end of a writer waits for what was left in the queue.
pub const FLUSH_MAX: Duration = Duration::from_secs(1);

/// How long to wait where a write would block.
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// Where lines go. Only the thread of the writer uses it.
pub trait Output: Send + 'static {
    /// Writes some of the bytes, as [`io::Write::write`] does. It may block.
    ///
    /// # Errors
    /// It cannot write now. The lines are lost.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Begins anew: what it writes to may have been renamed. Returns whether it writes to
    /// something else from now on.
    fn reopen(&mut self) -> bool {
        false
    }

    /// Lines about those that were left out since [`Output::told`], of which the writer itself
    /// left out so many.
    fn left_out(&mut self, by_writer: LeftOut) -> Vec<u8>;

    /// What the last lines about those that were left out say is written.
    fn told(&mut self) {}
}

/// How many lines a writer has left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Those that did not fit.
    pub refused: u64,
    /// Those that could not be written.
    pub failed: u64,
}

/// Writes lines on a thread of its own. The thread ends when this is dropped.
pub struct LineWriter {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// There is something to do for the thread.
    wanted: Condvar,
    /// A flush is complete.
    flushed: Condvar,
    /// Lines that did not fit into the queue.
    refused: AtomicU64,
    /// Lines that could not be written.
    failed: AtomicU64,
}

#[derive(Default)]
struct Queue {
    /// Whole lines, with their ends.
    lines: Vec<u8>,
    /// How many of their bytes come before the output begins anew, if it is to.
    reopen_at: Option<usize>,
    /// How many flushes were asked for, and how many of them are complete.
    flushes_wanted: u64,
    flushes_done: u64,
    is_closed: bool,
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.lines.is_empty()
            && self.reopen_at.is_none()
            && self.flushes_wanted == self.flushes_done
            && !self.is_closed
    }
}

impl LineWriter {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn start(name: &str, output: impl Output, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            wanted: Condvar::new(),
            flushed: Condvar::new(),
            refused: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        });
        let seen = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name(name.to_owned());
        // Nobody waits for its end: it may never come out of a write.
        let _thread = thread.spawn(move || {
            let next_report = clock.monotonic() + PERIOD;
            let writing = Writing {
                shared: seen,
                output,
                clock,
                next_report,
                told: LeftOut::default(),
                is_failing: false,
                is_torn: false,
                flushes_seen: 0,
            };
            writing.run();
        })?;
        Ok(Self { shared })
    }

    /// Leaves whole lines to the thread, and never waits. Returns `false` if they do not fit,
    /// which counts as one line that was left out.
    pub fn push(&self, lines: &[u8]) -> bool {
        let mut queue = lock(&self.shared.queue);
        if queue.lines.len() + lines.len() > QUEUE_BYTES_MAX {
            drop(queue);
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        queue.lines.extend_from_slice(lines);
        drop(queue);
        self.shared.wanted.notify_one();
        true
    }

    /// Has the output begin anew behind the lines that wait.
    pub fn reopen(&self) {
        let mut queue = lock(&self.shared.queue);
        queue.reopen_at = Some(queue.lines.len());
        drop(queue);
        self.shared.wanted.notify_one();
    }

    /// Waits until everything before is written and told, for `at_most` so long. Returns
    /// whether it is.
    pub fn flush(&self, at_most: Duration) -> bool {
        let mut queue = lock(&self.shared.queue);
        queue.flushes_wanted += 1;
        let wanted = queue.flushes_wanted;
        self.shared.wanted.notify_one();
        let is_open = |queue: &mut Queue| queue.flushes_done < wanted;
        let waited = self
            .shared
            .flushed
            .wait_timeout_while(queue, at_most, is_open);
        let (_queue, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        !timeout.timed_out()
    }

    /// How many lines did not fit into the queue.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// How many lines could not be written.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.shared.failed.load(Ordering::Relaxed)
    }
}

impl Drop for LineWriter {
    fn drop(&mut self) {
        self.flush(FLUSH_MAX);
        lock(&self.shared.queue).is_closed = true;
        self.shared.wanted.notify_one();
    }
}

/// What the thread has.
struct Writing<O> {
    shared: Arc<Shared>,
    output: O,
    clock: Arc<dyn Clock>,
    /// When it may next be told what was left out, on the monotonic clock.
    next_report: Duration,
    /// How many lines were told to be left out.
    told: LeftOut,
    /// Whether the last write failed.
    is_failing: bool,
    /// Whether what is written so far ends within a line, the rest of which is lost.
    is_torn: bool,
    /// How many flushes were asked for before the last lines were taken.
    flushes_seen: u64,
}

impl<O: Output> Writing<O> {
    fn run(mut self) {
        loop {
            let taken = self.take();
            let (before, behind) = taken.lines.split_at(taken.reopen_at.unwrap_or(0));
            self.write(before);
            if taken.reopen_at.is_some() && self.output.reopen() {
                self.is_torn = false;
            }
            self.write(behind);
            let is_flush = taken.flushes_wanted > taken.flushes_done;
            let now = self.clock.monotonic();
            if is_flush || now >= self.next_report {
                self.next_report = now + PERIOD;
                self.report();
            }
            self.end_flushes(taken.flushes_wanted);
            if taken.is_closed {
                return;
            }
        }
    }

    /// Takes what is in the queue, after a period at the latest.
    fn take(&self) -> Queue {
        let queue: MutexGuard<'_, Queue> = lock(&self.shared.queue);
        let is_idle = |queue: &mut Queue| queue.is_idle();
        let waited = self
            .shared
            .wanted
            .wait_timeout_while(queue, PERIOD, is_idle);
        let (mut queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        Queue {
            lines: std::mem::take(&mut queue.lines),
            reopen_at: queue.reopen_at.take(),
            ..*queue
        }
    }

    /// Ends the flushes that were asked for before the last lines were taken; where there are
    /// lines again, in the next round: the report may be among them.
    fn end_flushes(&mut self, wanted: u64) {
        let mut queue = lock(&self.shared.queue);
        let done = if queue.lines.is_empty() {
            wanted
        } else {
            self.flushes_seen
        };
        self.flushes_seen = wanted;
        if queue.flushes_done < done {
            queue.flushes_done = done;
            self.shared.flushed.notify_all();
        }
    }

    /// Tells how many lines were left out, if lines can be written. What cannot be told is told
    /// with the next report.
    fn report(&mut self) {
        if self.is_failing {
            return;
        }
        let left_out = LeftOut {
            refused: self.shared.refused.load(Ordering::Relaxed),
            failed: self.shared.failed.load(Ordering::Relaxed),
        };
        let lines = self.output.left_out(LeftOut {
            refused: left_out.refused - self.told.refused,
            failed: left_out.failed - self.told.failed,
        });
        if self.write_piece(&lines).is_ok() {
            self.told = left_out;
            self.output.told();
        }
    }

    /// Writes lines, as many at a time as a pipe takes as a whole.
    fn write(&mut self, lines: &[u8]) {
        let mut rest = lines;
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(piece_end(rest));
            rest = behind;
            if let Err(lost) = self.write_piece(piece) {
                let count = lost.split_inclusive(|byte| *byte == b'\n').count();
                self.shared
                    .failed
                    .fetch_add(count as u64, Ordering::Relaxed);
            }
        }
    }

    /// Writes whole lines. If that fails, returns what is lost, from the beginning of a line
    /// that was cut.
    fn write_piece<'a>(&mut self, piece: &'a [u8]) -> Result<(), &'a [u8]> {
        if piece.is_empty() {
            return Ok(());
        }
        // With the lines, so that a pipe still takes them as a whole.
        let ended: Vec<u8>;
        let (bytes, before) = if self.is_torn {
            ended = [b"\n", piece].concat();
            (&ended[..], 1)
        } else {
            (piece, 0)
        };
        let mut written = 0;
        self.is_failing = self.write_all(bytes, &mut written).is_err();
        if let Some(last) = written.checked_sub(1).and_then(|last| bytes.get(last)) {
            self.is_torn = *last != b'\n';
        }
        if !self.is_failing {
            return Ok(());
        }
        let whole = piece.get(..written.saturating_sub(before));
        let whole = whole.and_then(|whole| whole.iter().rposition(|byte| *byte == b'\n'));
        Err(piece
            .get(whole.map_or(0, |end| end + 1)..)
            .unwrap_or_default())
    }

    fn write_all(&mut self, bytes: &[u8], written: &mut usize) -> io::Result<()> {
        while let Some(rest) = bytes.get(*written..).filter(|rest| !rest.is_empty()) {
            match self.output.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => *written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A program that shares the pipe may have set it so.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => pause(),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the thread of a log is no part of a store"
)]
fn pause() {
    std::thread::sleep(BUSY_PAUSE);
}

/// Where the first piece of lines ends: behind as many lines as are to be written at a time,
/// or behind the first, if that is longer.
fn piece_end(lines: &[u8]) -> usize {
    let is_end = |byte: &u8| *byte == b'\n';
    let head = lines.get(..PIECE_BYTES_MAX).unwrap_or(lines);
    let last = head.iter().rposition(is_end);
    let end = last.or_else(|| lines.iter().position(is_end));
    end.map_or(lines.len(), |end| end + 1)
}

#[cfg(test)]
mod tests;
