//! The log of the nodes, as lines of the trace.

use super::Trace;
use crate::network::HostNumber;
use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Once;

thread_local! {
    /// The host whose code runs.
    static LOGGING_HOST: Cell<Option<HostNumber>> = const { Cell::new(None) };
    /// The trace of the world that runs.
    static TRACE: RefCell<Option<Trace>> = const { RefCell::new(None) };
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

/// Writes the log of this thread into a trace until it is dropped.
pub(crate) struct TracedLog(());

/// Writes the log of this thread into a trace until the result is dropped.
///
/// All threads share one subscriber, which is set once. A subscriber for each world
/// would lose lines: while one thread changes the set of subscribers, another can find
/// a line of the log disabled.
pub(crate) fn into(trace: &Trace) -> TracedLog {
    static SUBSCRIBER: Once = Once::new();
    SUBSCRIBER.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .without_time()
            .with_target(false)
            .with_ansi(false)
            .with_writer(|| Sink)
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
    TRACE.set(Some(trace.clone()));
    TracedLog(())
}

impl Drop for TracedLog {
    fn drop(&mut self) {
        TRACE.set(None);
    }
}

/// Writes a line into the trace of the world that runs on this thread.
struct Sink;

impl io::Write for Sink {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let line_text = String::from_utf8_lossy(line);
        let line_text = line_text.trim();
        TRACE.with_borrow(|trace| match (trace, LOGGING_HOST.get()) {
            (Some(trace), Some(host)) => trace.note(format_args!("log  {host} {line_text}")),
            (Some(trace), None) => trace.note(format_args!("log  {line_text}")),
            (None, _) => {}
        });
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
