//! What the doors of all runtimes share.

use super::Uploads;
use crate::config::ServerConfig;
use crate::metrics::Metrics;
use base::Budget;
use node::Node;
use std::sync::Arc;

/// What the doors of all runtimes share: the node behind them, and the budgets
/// of what clients bring and take.
pub(crate) struct Common {
    config: ServerConfig,
    /// The node behind the doors.
    pub(crate) node: Arc<Node>,
    /// Bytes of bodies on their way in.
    pub(crate) uploads: Uploads,
    /// Long heads of requests.
    pub(crate) heads: Arc<Budget>,
    /// Ranges on their way out.
    pub(crate) scans: Arc<Budget>,
    /// What is counted.
    pub(crate) metrics: Metrics,
}

impl Common {
    /// What the doors of a server share.
    pub(crate) fn new(config: ServerConfig, node: Arc<Node>) -> Self {
        let split = config.memory_split();
        Self {
            uploads: Uploads::new(split.uploads_short_bytes, split.uploads_long_bytes),
            heads: Budget::new(split.heads_bytes),
            scans: Budget::new(split.scans_max),
            metrics: Metrics::new(config.threads),
            node,
            config,
        }
    }

    /// What was set.
    pub(crate) fn config(&self) -> &ServerConfig {
        &self.config
    }
}
