//! The free connections of a thread, and the requests that wait for one.
//!
//! When requests go to any node, there is one pool of connections: a request is drawn
//! when one is free for it, so none waits here. When each request goes to the owner of
//! its key, each node has a pool: requests are drawn first, and wait for a connection to
//! their node. No more wait than there are connections.

use crate::generator::connection::DueRequest;
use std::collections::VecDeque;

/// The pools of a thread.
pub(super) struct Pools {
    pools: Vec<Pool>,
    waiting: usize,
    waiting_max: usize,
}

#[derive(Default)]
struct Pool {
    /// Free connections, the longest free first.
    free: VecDeque<usize>,
    waiting: VecDeque<DueRequest>,
    /// Open connections.
    open: usize,
}

impl Pools {
    /// `count` pools, in which up to `waiting_max` requests wait.
    pub(super) fn new(count: usize, waiting_max: usize) -> Self {
        Self {
            pools: (0..count).map(|_| Pool::default()).collect(),
            waiting: 0,
            waiting_max,
        }
    }

    /// The connection that has been free longest.
    pub(super) fn first_free(&self, pool: usize) -> Option<usize> {
        self.pools[pool].free.front().copied()
    }

    /// Removes the connection that has been free longest.
    pub(super) fn pop_free(&mut self, pool: usize) -> Option<usize> {
        self.pools[pool].free.pop_front()
    }

    /// Adds a free connection.
    pub(super) fn push_free(&mut self, pool: usize, index: usize) {
        self.pools[pool].free.push_back(index);
    }

    /// Whether no more requests may wait.
    pub(super) fn is_full(&self) -> bool {
        self.waiting >= self.waiting_max
    }

    /// Whether a request waits.
    pub(super) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Lets a request wait.
    pub(super) fn push_waiting(&mut self, pool: usize, due_request: DueRequest) {
        self.pools[pool].waiting.push_back(due_request);
        self.waiting += 1;
    }

    /// The request that has waited longest.
    pub(super) fn pop_waiting(&mut self, pool: usize) -> Option<DueRequest> {
        let due_request = self.pools[pool].waiting.pop_front()?;
        self.waiting -= 1;
        Some(due_request)
    }

    /// The requests of a pool that has no connection any more, while another has one.
    pub(super) fn pop_stranded(&mut self) -> Option<VecDeque<DueRequest>> {
        if !self.pools.iter().any(|pool| pool.open > 0) {
            return None;
        }
        let mut pools = self.pools.iter_mut();
        let stranded = pools.find(|pool| pool.open == 0 && !pool.waiting.is_empty())?;
        self.waiting -= stranded.waiting.len();
        Some(std::mem::take(&mut stranded.waiting))
    }

    /// Notes that a connection has been opened.
    pub(super) fn opened(&mut self, pool: usize) {
        self.pools[pool].open += 1;
    }

    /// Notes that an open connection has been closed.
    pub(super) fn closed(&mut self, pool: usize) {
        self.pools[pool].open -= 1;
    }

    /// Whether a pool has an open connection, or none has.
    pub(super) fn is_reachable(&self, pool: usize) -> bool {
        self.pools[pool].open > 0 || self.pools.iter().all(|pool| pool.open == 0)
    }
}
