//! Waits for sockets, and for moments that are nanoseconds apart.
//!
//! An open loop wakes for each due request, so a wait must end when it should:
//! `epoll_pwait2` takes nanoseconds, and the thread's timer slack (50 us by
//! default) is taken away. Nothing spins, so a low rate costs next to no CPU.

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::thread::set_current_timer_slack;
use rustix::time::Timespec;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// How many sockets one wait can tell of.
const EVENTS_MAX: usize = 256;

/// What a socket is waited for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Interest {
    /// Bytes to read.
    Readable,
    /// Room to write, or bytes to read.
    Writable,
}

/// A socket that can go on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    /// What it was registered as.
    pub(super) index: usize,
    /// Whether it takes bytes, or its connection has come about or failed.
    pub(super) is_writable: bool,
    /// Whether it has bytes, or has ended.
    pub(super) is_readable: bool,
}

/// The sockets of a thread.
pub(super) struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poller {
    /// For the sockets of one thread.
    ///
    /// # Errors
    /// The system has no room for it.
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

    /// Lets waits of this thread end when they should. Where the system does
    /// not allow it they end up to 50 us late.
    pub(super) fn sharpen_timers() {
        let _ = set_current_timer_slack(NonZeroU64::new(1));
    }

    /// Watches a socket until it is closed.
    ///
    /// # Errors
    /// The system has no room for it.
    pub(super) fn add(
        &self,
        socket: impl AsFd,
        index: usize,
        interest: Interest,
    ) -> io::Result<()> {
        let data = EventData::new_u64(index as u64);
        Ok(epoll::add(&self.epoll, socket, data, flags_of(interest))?)
    }

    /// Watches for something else.
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

    /// Waits until sockets are ready or the time is over; gives how many are.
    ///
    /// # Errors
    /// None that a caller could do anything about.
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

    /// The `nth` socket that the last wait told of.
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
