//! The nodes' own log, as lines of the trace.

use crate::network::HostNumber;
use crate::trace::Trace;
use std::cell::Cell;
use std::io;
use tracing_subscriber::fmt::MakeWriter;

thread_local! {
    /// The host whose code runs.
    static SPEAKER: Cell<Option<HostNumber>> = const { Cell::new(None) };
}

/// Until this is dropped, what is logged is said by a host.
pub(crate) struct Speaking(());

/// Says whose code runs.
pub(crate) fn speak(host: HostNumber) -> Speaking {
    SPEAKER.set(Some(host));
    Speaking(())
}

impl Drop for Speaking {
    fn drop(&mut self) {
        SPEAKER.set(None);
    }
}

/// Leads this thread's log into a trace, until the result is dropped.
pub(crate) fn into(trace: &Trace) -> tracing::subscriber::DefaultGuard {
    let subscriber = tracing_subscriber::fmt()
        .without_time()
        .with_target(false)
        .with_ansi(false)
        .with_writer(Sink(trace.clone()))
        .finish();
    tracing::subscriber::set_default(subscriber)
}

struct Sink(Trace);

impl MakeWriter<'_> for Sink {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self(self.0.clone())
    }
}

impl io::Write for Sink {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let line_text = String::from_utf8_lossy(line);
        match SPEAKER.get() {
            Some(host) => self
                .0
                .note(format_args!("log  {host} {}", line_text.trim())),
            None => self.0.note(format_args!("log  {}", line_text.trim())),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
