//! The threads of the node's read pool.

use node::Node;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The threads for reads that may block on the disk. Dropping this closes the pool and
/// joins them, which takes as long as the reads under way.
pub(crate) struct ReadThreads {
    node: Arc<Node>,
    threads: Vec<JoinHandle<()>>,
}

impl ReadThreads {
    /// Starts `count` threads.
    ///
    /// # Errors
    /// The system refused a thread; then none is left running.
    pub(crate) fn start(node: &Arc<Node>, count: usize) -> io::Result<Self> {
        let mut started = Self {
            node: Arc::clone(node),
            threads: Vec::with_capacity(count),
        };
        for number in 0..count {
            let node = Arc::clone(node);
            let thread = std::thread::Builder::new()
                .name(format!("read-{number}"))
                .spawn(move || node.run_read_pool())?;
            started.threads.push(thread);
        }
        Ok(started)
    }
}

impl Drop for ReadThreads {
    fn drop(&mut self) {
        self.node.close_read_pool();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the read pool panicked");
            }
        }
    }
}
