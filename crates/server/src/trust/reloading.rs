//! Rereads files that may change while the node runs, on its own thread, because a disk may hang.
//!
//! Each source is checked every [`PERIOD`], and at once on SIGHUP. A check must be cheap if nothing
//! has changed.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use profile::lock;

/// How often files are looked at.
const PERIOD: Duration = Duration::from_secs(2);

/// Something that may change while the node runs.
pub trait Reload: Send + Sync {
    /// Looks whether it has changed, and reads it again if so. `is_ordered`: an operator
    /// asked for it.
    fn reload(&self, is_ordered: bool);
}

/// The thread that reloads. It ends when this is dropped.
pub(crate) struct Reloader {
    /// None once the thread is to end. There is room for one order: it covers all
    /// that come before it is looked at.
    orders: Mutex<Option<SyncSender<()>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Reloader {
    /// Starts the thread, if there is anything to reload.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn start(sources: Vec<Arc<dyn Reload>>) -> io::Result<Self> {
        let (sender, orders) = sync_channel(1);
        let thread = if sources.is_empty() {
            None
        } else {
            Some(
                std::thread::Builder::new()
                    .name("reloader".to_owned())
                    .spawn(move || run(&sources, &orders))?,
            )
        };
        Ok(Self {
            orders: Mutex::new(thread.is_some().then_some(sender)),
            thread: Mutex::new(thread),
        })
    }

    /// Orders a check of all sources, without waiting for it.
    pub(crate) fn order(&self) {
        if let Some(orders) = &*lock(&self.orders) {
            // If it is full, an order waits that covers this one.
            let _is_first = orders.try_send(()).is_ok();
        }
    }
}

impl Drop for Reloader {
    fn drop(&mut self) {
        drop(lock(&self.orders).take());
        if let Some(thread) = lock(&self.thread).take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that rereads files panicked");
        }
    }
}

fn run(sources: &[Arc<dyn Reload>], orders: &Receiver<()>) {
    loop {
        let is_ordered = match orders.recv_timeout(PERIOD) {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        for source in sources {
            source.reload(is_ordered);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    struct Noting(Mutex<std::sync::mpsc::Sender<bool>>);

    impl Reload for Noting {
        fn reload(&self, is_ordered: bool) {
            let _ = lock(&self.0).send(is_ordered);
        }
    }

    #[test]
    fn sources_are_looked_at_when_it_is_ordered_and_from_time_to_time() {
        let (sender, looks) = channel();
        let source: Arc<dyn Reload> = Arc::new(Noting(Mutex::new(sender)));
        let reloader = Reloader::start(vec![source]).unwrap();
        reloader.order();
        // A look that was due may come first.
        assert!(looks.iter().any(|is_ordered| is_ordered));
        assert!(looks.iter().any(|is_ordered| !is_ordered));
        drop(reloader);
        assert_eq!(looks.iter().filter(|is_ordered| *is_ordered).count(), 0);
    }

    #[test]
    fn without_sources_there_is_nothing_to_do() {
        let reloader = Reloader::start(Vec::new()).unwrap();
        reloader.order();
        assert!(lock(&reloader.thread).is_none());
    }
}
