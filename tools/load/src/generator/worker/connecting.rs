//! Opens connections, and handles ready sockets and deadlines.

use super::Worker;
use crate::generator::connection::ConnectionState;
use crate::generator::poller::{Interest, Ready};
use crate::generator::recorder::FailureKind;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

impl Worker<'_> {
    /// Handles a ready socket.
    pub(super) fn handle(&mut self, ready: Ready) -> io::Result<()> {
        let index = ready.index;
        match self.connections[index].state {
            ConnectionState::Closed { .. } => Ok(()),
            ConnectionState::Connecting { .. } if !ready.is_writable => Ok(()),
            ConnectionState::Connecting { .. } | ConnectionState::ShakingHands { .. } => {
                match self.connections[index].continue_connecting() {
                    Ok(true) => {
                        self.context.open.fetch_add(1, Relaxed);
                        let pool = self.pool_of(index);
                        self.pools.opened(pool);
                        self.watch(index, Interest::Readable)?;
                        self.begin_work(index)
                    }
                    Ok(false) => {
                        let interest = if self.connections[index].has_to_write() {
                            Interest::Writable
                        } else {
                            Interest::Readable
                        };
                        self.watch(index, interest)
                    }
                    Err(_) => {
                        self.give_up_connecting(index);
                        Ok(())
                    }
                }
            }
            ConnectionState::Idle
            | ConnectionState::Busy { .. }
            | ConnectionState::Paused { .. } => {
                if ready.is_writable && self.connections[index].has_to_write() {
                    self.write(index)?;
                }
                if ready.is_readable && self.connections[index].socket.is_some() {
                    self.read(index)?;
                }
                while self.connections[index].has_unread() {
                    self.read(index)?;
                }
                // TLS may have to answer what it has read.
                if ready.is_readable && self.connections[index].has_to_write() {
                    self.write(index)?;
                }
                Ok(())
            }
        }
    }

    /// Handles a failed attempt to connect. The requests of a fill that waited for
    /// the connection have used one attempt.
    pub(super) fn give_up_connecting(&mut self, index: usize) {
        let now = self.now();
        self.connections[index].close(now);
        self.fail(index, FailureKind::Connection, now);
    }

    /// Sends a request on a new connection, if the load has begun.
    pub(super) fn begin_work(&mut self, index: usize) -> io::Result<()> {
        if self.context.start.get().is_none() {
            return Ok(());
        }
        let now = self.now();
        self.send_next(index, now)
    }

    /// Handles the deadlines of all connections that have passed.
    pub(super) fn handle_deadlines(&mut self, now: Duration) -> io::Result<()> {
        for index in 0..self.connections.len() {
            match self.connections[index].state {
                ConnectionState::Closed { until } if until <= now => self.connect(index, now)?,
                ConnectionState::Connecting { until } | ConnectionState::ShakingHands { until }
                    if until <= now =>
                {
                    self.give_up_connecting(index);
                }
                ConnectionState::Busy { until } if until <= now => {
                    self.lose(index, FailureKind::Timeout)?;
                }
                ConnectionState::Paused { until } if until <= now => {
                    self.connections[index].state = ConnectionState::Idle;
                    self.send_next(index, now)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn connect(&mut self, index: usize, now: Duration) -> io::Result<()> {
        let connection = &mut self.connections[index];
        let target = &self.context.targets[connection.target];
        if connection.begin(target, now + self.timeout).is_err() {
            self.give_up_connecting(index);
            return Ok(());
        }
        connection.interest = Interest::Writable;
        match &connection.socket {
            Some(socket) => self.poller.add(socket, index, connection.interest),
            None => Ok(()),
        }
    }
}
