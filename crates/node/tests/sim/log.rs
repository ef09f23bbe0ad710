//! The log of the nodes, as lines of the trace.

use crate::network::HostNumber;
use crate::trace::Trace;
use std::cell::Cell;
use std::io;
use tracing_subscriber::fmt::MakeWriter;

thread_local! {
    /// The host whose code runs.
    static LOGGING_HOST: Cell<Option<HostNumber>> = const { Cell::new(None) };
}

/// Attributes what is logged to a host until it is dropped.
pub(crate) struct Attribution(());

/// Attributes what is logged from now on to a host, whose code runs.
pub(crate) fn attribute_to(host: HostNumber) -> Attribution {
    LOGGING_HOST.set(Some(host));
    Attribution(())
}

impl Drop for Attribution {
    fn drop(&mut self) {
        LOGGING_HOST.set(None);
    }
}

/// Writes the log of this thread into a trace until the result is dropped.
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
        match LOGGING_HOST.get() {
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
