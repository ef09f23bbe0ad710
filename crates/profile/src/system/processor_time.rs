//! How long a thread had a processor, and how long it waited for one.
//!
//! A thread is idle only while it does neither. On a machine whose processors are all
//! taken a thread that has much to do spends its time in the queue of the scheduler, so
//! the time that it ran, or that it polled its tasks, says little.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// The text is three numbers of 64 bits.
const TEXT_BYTES_MAX: usize = 64;

/// What the system counts of a thread, since the thread began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// How long it ran.
    pub ran: Duration,
    /// How long it was ready to run, while others had the processors.
    pub waited: Duration,
}

impl ProcessorTime {
    /// Reads `/proc/*/schedstat`: nanoseconds on a processor, nanoseconds in the queue,
    /// and a count. `None` for any other text.
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_ascii_whitespace().map(str::parse);
        let mut time = || Some(Duration::from_nanos(numbers.next()?.ok()?));
        let (ran, waited) = (time()?, time()?);
        Some(Self { ran, waited })
    }
}

/// Reads the times of one thread, from any thread.
#[derive(Debug)]
pub struct ProcessorTimes {
    /// Kept open: the system writes its text anew for each read.
    schedstat: Option<File>,
}

impl ProcessorTimes {
    /// Those of the calling thread.
    #[must_use]
    pub fn of_this_thread() -> Self {
        Self {
            schedstat: File::open("/proc/thread-self/schedstat").ok(),
        }
    }

    /// The times so far; zero where the system does not count them, or the thread has ended.
    #[must_use]
    pub fn read(&self) -> ProcessorTime {
        let mut text = [0; TEXT_BYTES_MAX];
        let read = |file: &File| file.read_at(&mut text, 0).ok();
        let bytes = self.schedstat.as_ref().and_then(read).unwrap_or(0);
        let text = text.get(..bytes).and_then(|text| str::from_utf8(text).ok());
        text.and_then(ProcessorTime::parse).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_are_read_as_the_kernel_prints_them() {
        let time = ProcessorTime {
            ran: Duration::from_nanos(331_559),
            waited: Duration::from_nanos(27),
        };
        assert_eq!(ProcessorTime::parse("331559 27 1\n"), Some(time));
        for other in ["", "331559", "331559 -1 1", "x y z"] {
            assert_eq!(ProcessorTime::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_thread_that_works_had_a_processor_or_waited_for_one() {
        let times = ProcessorTimes::of_this_thread();
        let before = times.read();
        if before == ProcessorTime::default() {
            // This system does not count them.
            return;
        }
        while times.read().ran == before.ran {
            std::hint::spin_loop();
        }
        let (times, other) = std::thread::scope(|scope| {
            let other = scope.spawn(ProcessorTimes::of_this_thread).join();
            let seen = scope.spawn(move || (times.read(), times)).join();
            let (seen, times) = seen.unwrap();
            assert!(seen.ran > before.ran, "of the thread that opened it");
            (times, other.unwrap())
        });
        assert_eq!(other.read(), ProcessorTime::default(), "it has ended");
        assert!(times.read().ran > before.ran);
    }
}
