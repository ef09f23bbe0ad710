//! Waits for sockets, and for times with a resolution of nanoseconds.
//!
//! An open loop wakes for each request that falls due, so a wait must end on
//! time. `epoll_pwait2` takes nanoseconds, and the thread's timer slack (50 us
//! by default) is set to 1 ns. No thread spins, so a low rate costs hardly any
//! CPU time.

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::thread::set_current_timer_slack;
use rustix::time::Timespec;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// The most ready sockets that one wait returns.
const EVENTS_MAX: usize = 256;

/// The events that a socket is watched for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Interest {
    /// Bytes to read.
    Readable,
    /// Space to write, or bytes to read.
    Writable,
}

/// A socket that is ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    /// The index that it was registered with.
    pub(super) index: usize,
    /// Whether it accepts bytes, or its connection is established or failed.
    pub(super) is_writable: bool,
    /// Whether it has bytes, or the peer has closed it.
    pub(super) is_readable: bool,
}

/// The sockets of a thread.
pub(super) struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poller {
    /// Creates a poller for the sockets of one thread.
    ///
    /// # Errors
    /// The system has no resources for it.
    pub(super) fn new() -> io::Result<Self> {
        let nothing = Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        };
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            events: vec![nothing; EVENTS_MAX],
        })
    }

    /// Lets waits of this thread end on time. If the system does not allow
    /// that, they end up to 50 us late.
    pub(super) fn sharpen_timers() {
        let _ = set_current_timer_slack(NonZeroU64::new(1));
    }

    /// Begins to watch a socket, until it is closed.
    ///
    /// # Errors
    /// The system has no resources for it.
    pub(super) fn add(
        &self,
        socket: impl AsFd,
        index: usize,
        interest: Interest,
    ) -> io::Result<()> {
        let data = EventData::new_u64(index as u64);
        Ok(epoll::add(&self.epoll, socket, data, flags_of(interest))?)
    }

    /// Changes what a socket is watched for.
    ///
    /// # Errors
    /// The socket is not watched.
    pub(super) fn modify(
        &self,
        socket: impl AsFd,
        index: usize,
        interest: Interest,
    ) -> io::Result<()> {
        let data = EventData::new_u64(index as u64);
        Ok(epoll::modify(
            &self.epoll,
            socket,
            data,
            flags_of(interest),
        )?)
    }

    /// Waits until sockets are ready or `time` has passed. Returns how many are
    /// ready.
    ///
    /// # Errors
    /// The system cannot wait.
    pub(super) fn wait(&mut self, time: Duration) -> io::Result<usize> {
        let timeout = Timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        match epoll::wait(&self.epoll, &mut self.events[..], Some(&timeout)) {
            Ok(count) => Ok(count),
            Err(rustix::io::Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// The `nth` ready socket of the last wait.
    pub(super) fn ready(&self, nth: usize) -> Ready {
        let Event { flags, data } = self.events[nth];
        let ended = EventFlags::ERR | EventFlags::HUP;
        Ready {
            index: data.u64() as usize,
            is_writable: flags.intersects(EventFlags::OUT | ended),
            is_readable: flags.intersects(EventFlags::IN | ended),
        }
    }
}

fn flags_of(interest: Interest) -> EventFlags {
    match interest {
        Interest::Readable => EventFlags::IN,
        Interest::Writable => EventFlags::IN | EventFlags::OUT,
    }
}
