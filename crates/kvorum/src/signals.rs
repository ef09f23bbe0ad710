//! The signals that stop a command.

use crate::failure::Failure;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// A signal that comes again within this time is the same wish: `timeout`, for
/// one, sends it to the process and then to its group.
const ECHO_TIME: Duration = Duration::from_millis(200);

/// A request to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopSignal {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM: a service manager.
    Terminate,
}

impl StopSignal {
    /// The exit code of a process that such a signal ended.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        }
    }
}

/// Receives these signals instead of dying of them.
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    last: Option<(StopSignal, Instant)>,
}

impl StopSignals {
    /// Receives from now on. Within a runtime only.
    ///
    /// # Errors
    /// The system has no place for a handler.
    pub(crate) fn install() -> Result<Self, Failure> {
        let install = |kind| {
            signal(kind)
                .map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))
        };
        Ok(Self {
            interrupt: install(SignalKind::interrupt())?,
            terminate: install(SignalKind::terminate())?,
            last: None,
        })
    }

    /// Waits for the next one that is no echo of the last.
    pub(crate) async fn next(&mut self) -> StopSignal {
        loop {
            let signal = tokio::select! {
                _ = self.interrupt.recv() => StopSignal::Interrupt,
                _ = self.terminate.recv() => StopSignal::Terminate,
            };
            if self.is_news(signal, Instant::now()) {
                return signal;
            }
        }
    }

    /// Whether a signal is no echo of the last.
    fn is_news(&mut self, signal: StopSignal, now: Instant) -> bool {
        let is_echo = self
            .last
            .is_some_and(|(last, at)| last == signal && now.duration_since(at) < ECHO_TIME);
        if !is_echo {
            self.last = Some((signal, now));
        }
        !is_echo
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signal_that_comes_twice_at_once_is_one() {
        use StopSignal::{Interrupt, Terminate};
        let mut signals = StopSignals::install().unwrap();
        let began = Instant::now();
        for (signal, part, is_news) in [
            (Terminate, 0, true),
            (Terminate, 1, false),
            (Interrupt, 2, true),
            (Interrupt, 5, false),
            (Interrupt, 6, true),
        ] {
            let now = began + ECHO_TIME / 4 * part;
            assert_eq!(
                signals.is_news(signal, now),
                is_news,
                "{signal:?} at {part}"
            );
        }
    }
}
