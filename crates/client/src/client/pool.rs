//! Connections that are kept for further requests, and a bound on how many are open.
//!
//! A request has a place for as long as its answer is read. A connection is used again only after an
//! answer that was read to its end, and if nothing has come on it since: a node that has closed it
//! would make the outcome of a write unknown.

use crate::connection::{Answer, Connection, Limits, RequestBody};
use crate::error::Error;
use crate::node::Node;
use hyper::Request;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};

/// An idle connection is not used again after this time.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// The connections of a client.
#[derive(Debug)]
pub(crate) struct Pool {
    /// A place for each connection that may be open.
    places: Semaphore,
    connections_max: usize,
    /// Those that no request uses, the one that was used last at the end.
    idle: Mutex<Vec<Idle>>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
}

/// An answer, and the place of its request.
pub(crate) struct Exchange<'a> {
    pub(crate) answer: Answer,
    pool: &'a Pool,
    _place: SemaphorePermit<'a>,
}

impl Exchange<'_> {
    /// Keeps the connection, if the answer was read to its end.
    pub(crate) fn finish(self) {
        if self.answer.is_whole() {
            self.pool.keep(self.answer.finish());
        }
    }
}

impl Pool {
    /// A pool of at most so many connections, at least one.
    pub(crate) fn new(connections_max: usize) -> Self {
        let connections_max = connections_max.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            places: Semaphore::new(connections_max),
            connections_max,
            idle: Mutex::default(),
        }
    }

    /// Sends a request to a node, over a connection that was kept if there is one. Waits for the head
    /// of the answer, which may have any status.
    ///
    /// # Errors
    /// Those of the connection, and [`Error::Unreachable`] if no place was free for too long.
    pub(crate) async fn send(
        &self,
        node: &Node,
        request: Request<RequestBody>,
        limits: Limits,
    ) -> Result<Exchange<'_>, Error> {
        let place = self.place(node, limits).await?;
        let mut kept = self.kept(node);
        if let Some(connection) = &mut kept
            && !connection.wait_until_ready(limits).await
        {
            kept = None;
        }
        let connection = match kept {
            Some(kept) => kept,
            None => Connection::open(node, limits).await?,
        };
        let answer = connection.send(request, limits).await?;
        Ok(Exchange {
            answer,
            pool: self,
            _place: place,
        })
    }

    /// Waits for a place.
    async fn place(&self, node: &Node, limits: Limits) -> Result<SemaphorePermit<'_>, Error> {
        let place = tokio::time::timeout(limits.silence_max, self.places.acquire());
        if let Ok(Ok(place)) = place.await {
            return Ok(place);
        }
        let max = self.connections_max;
        Err(Error::Unreachable {
            node: node.url().to_owned(),
            problem: Some(format!("all {max} connections of the client are in use")),
        })
    }

    /// An idle connection to a node, which is no longer idle. Without one, others make room for a new
    /// one.
    fn kept(&self, node: &Node) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|idle| idle.since.elapsed() < IDLE_MAX && idle.connection.is_quiet());
        let found = idle
            .iter()
            .rposition(|idle| idle.connection.is_to(node))
            .map(|index| idle.remove(index).connection);
        let too_many = idle.len().saturating_sub(self.places.available_permits());
        idle.drain(..too_many);
        found
    }

    fn keep(&self, connection: Connection) {
        let since = Instant::now();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(Idle { connection, since });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Message;
    use crate::query::{Replicas, Target};
    use crate::testing::{SETTINGS, Script, TestNode, client_of, until};
    use crate::{Client, Settings};
    use hyper::Method;
    use std::net::TcpListener;
    use std::sync::mpsc::channel;

    const NONE: Replicas = Replicas {
        ack: None,
        from: None,
    };

    fn stored() -> Vec<u8> {
        b"HTTP/1.1 201 Created\r\nKvorum-Version: 9\r\nContent-Length: 0\r\n\r\n".to_vec()
    }

    fn narrow(nodes: &[&TestNode]) -> Client {
        let settings = Settings {
            connections: 1,
            limits: Limits {
                // Only a request that finds no place waits for so long.
                silence_max: Duration::from_millis(100),
                ..SETTINGS.limits
            },
            ..SETTINGS
        };
        let nodes = nodes.iter().map(|node| node.node.clone()).collect();
        client_of(nodes, settings)
    }

    async fn answer_of<'a>(client: &'a Client, node: &TestNode) -> Result<Exchange<'a>, Error> {
        let request = Message::new(Method::GET, Target::new("/")).request(&node.node)?;
        let limits = client.settings().limits;
        client.pool.send(&node.node, request, limits).await
    }

    #[tokio::test]
    async fn a_connection_is_used_again_after_a_whole_answer() {
        let node = TestNode::new(vec![
            Script::Answer(stored()),
            Script::status(404, "", "{}"),
            Script::Answer(stored()),
        ]);
        let client = client_of(vec![node.node.clone()], SETTINGS);
        client.put(b"k", "v".into(), None, NONE).await.unwrap();
        client.get(b"k", NONE).await.unwrap_err();
        client.put(b"k", "v".into(), None, NONE).await.unwrap();
        assert_eq!(node.connections(), 1);
        // The rest of this answer is not read.
        drop(answer_of(&client, &node).await.unwrap());
        client.put(b"k", "v".into(), None, NONE).await.unwrap();
        assert_eq!(node.connections(), 2);
    }

    /// Otherwise the outcome of a write would be unknown.
    #[tokio::test]
    async fn a_connection_that_its_node_has_closed_is_not_used_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let node = Node::new("127.0.0.1", listener.local_addr().unwrap().port());
        let (close, closed) = channel();
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let mut connection = http_testing::Connection::over(stream).unwrap();
                connection.receive().unwrap();
                connection.send(stored()).unwrap();
                if closed.recv().is_err() {
                    return;
                }
            }
        });
        let client = client_of(vec![node], SETTINGS);
        for _ in 0..2 {
            client.put(b"k", "v".into(), None, NONE).await.unwrap();
            assert!(client.pool.idle.lock().unwrap()[0].connection.is_quiet());
            close.send(()).unwrap();
            // Nothing else of this program runs meanwhile, as if it computed.
            until("the end of the connection", || {
                !client.pool.idle.lock().unwrap()[0].connection.is_quiet()
            });
        }
        client.put(b"k", "v".into(), None, NONE).await.unwrap();
    }

    #[tokio::test]
    async fn a_request_waits_for_a_place() {
        let node = TestNode::new(vec![Script::Answer(stored())]);
        let client = narrow(&[&node]);
        let held = answer_of(&client, &node).await.unwrap();
        let error = client.put(b"k", "v".into(), None, NONE).await.unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("all 1 connections of the client are in use")
        );
        assert!(!error.is_unknown());
        held.finish();
        client.put(b"k", "v".into(), None, NONE).await.unwrap();
    }

    #[tokio::test]
    async fn an_idle_connection_makes_room_for_that_to_another_node() {
        let script = || vec![Script::Answer(stored())];
        let (one, other) = (TestNode::new(script()), TestNode::new(script()));
        let client = narrow(&[&one, &other]);
        client.put(b"k", "v".into(), None, NONE).await.unwrap();
        assert_eq!(client.pool.idle.lock().unwrap().len(), 1);
        let held = answer_of(&client, &other).await.unwrap();
        assert_eq!(client.pool.idle.lock().unwrap().len(), 0);
        drop(held);
    }
}
