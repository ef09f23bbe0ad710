//! The signals that stop a command, and the one that has a node read files again.

use crate::failure::Failure;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// A repeated signal within this time counts as the same one: `timeout`, for
/// example, signals the process and then its group.
const ECHO_TIME: Duration = Duration::from_millis(200);

/// A signal that asks the process to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM: a service manager.
    Terminate,
}

impl StopSignal {
    /// The exit code of a process that the signal ended.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        }
    }
}

/// Receives the stop signals, which no longer end the process.
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    last: Option<(StopSignal, Instant)>,
}

impl StopSignals {
    /// Installs the handlers. Must be called within a runtime.
    ///
    /// # Errors
    /// The system cannot install a handler.
    pub fn install() -> Result<Self, Failure> {
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

    /// Waits for the next signal that is not an echo of the last one.
    pub async fn next(&mut self) -> StopSignal {
        loop {
            let signal = tokio::select! {
                _ = self.interrupt.recv() => StopSignal::Interrupt,
                _ = self.terminate.recv() => StopSignal::Terminate,
            };
            if self.is_new(signal, Instant::now()) {
                return signal;
            }
        }
    }

    /// Whether a signal is not an echo of the last one.
    fn is_new(&mut self, signal: StopSignal, now: Instant) -> bool {
        let is_echo = self
            .last
            .is_some_and(|(last, at)| last == signal && now.duration_since(at) < ECHO_TIME);
        if !is_echo {
            self.last = Some((signal, now));
        }
        !is_echo
    }
}

/// Receives SIGHUP, which no longer ends the process.
pub struct ReloadSignals(Signal);

impl ReloadSignals {
    /// Installs the handler. Must be called within a runtime.
    ///
    /// # Errors
    /// The system cannot install a handler.
    pub fn install() -> Result<Self, Failure> {
        let hangup = signal(SignalKind::hangup());
        hangup
            .map(Self)
            .map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))
    }

    /// Waits for the next signal. Returns `false` if none will come.
    pub async fn next(&mut self) -> bool {
        self.0.recv().await.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signal_repeated_at_once_counts_once() {
        use StopSignal::{Interrupt, Terminate};
        let mut signals = StopSignals::install().unwrap();
        let began = Instant::now();
        for (signal, part, is_new) in [
            (Terminate, 0, true),
            (Terminate, 1, false),
            (Interrupt, 2, true),
            (Interrupt, 5, false),
            (Interrupt, 6, true),
        ] {
            let now = began + ECHO_TIME / 4 * part;
            assert_eq!(signals.is_new(signal, now), is_new, "{signal:?} at {part}");
        }
    }
}
