//! Sends a node more writes than it admits, to show how it refuses the rest.
//!
//! Each connection sends its next write once the last one is answered, and waits after a refusal,
//! as a client should. The aim is to see refusals, so nothing is counted; `kvorum-lab load`
//! measures.

use super::body::ConsoleBody;
use super::forwarding::{NodeConnection, Reach, ReachedNode};
use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::{Method, StatusCode, Uri};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How long a load lasts.
const DURATION: Duration = Duration::from_secs(5);

/// The most connections of a load.
const CONNECTIONS_MAX: u16 = 4096;

/// Files that the process has open in addition to these connections.
const OTHER_FILES: u64 = 256;

/// How long a connection that was refused or broke waits before its next attempt: what a
/// node asks for in `Retry-After`.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// How long the load waits until all connections were tried.
const OPENING_MAX: Duration = Duration::from_secs(20);

/// How many connections are opened at a time. More would be dropped by the kernel, and tried
/// again only after a second.
const OPENED_AT_ONCE: usize = 64;

/// How many keys each connection writes, for how many seconds they live, and the value. They
/// are too many to be deleted one by one.
const KEYS: u64 = 100;
const TTL_SECONDS: u64 = 10;
static VALUE: [u8; 64] = [b'v'; 64];

/// Whether a load runs: a second one would only take the first one's time.
static IS_RUNNING: AtomicBool = AtomicBool::new(false);

/// Ends the claim that a load runs.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        IS_RUNNING.store(false, Ordering::Release);
    }
}

/// Puts values as fast as a node takes them, over so many connections.
///
/// # Errors
/// Why there is no load: a wrong number, another load, the system.
pub(super) async fn load(
    reach: &Reach,
    node: &ReachedNode,
    connections: &str,
) -> Result<(), String> {
    let number: Option<u16> = connections.parse().ok();
    let Some(connections) = number.filter(|number| (1..=CONNECTIONS_MAX).contains(number)) else {
        return Err(format!("give 1 to {CONNECTIONS_MAX} connections"));
    };
    if IS_RUNNING.swap(true, Ordering::AcqRel) {
        return Err("another load runs: wait until it has ended".to_owned());
    }
    let _running = Running;
    allow_files(u64::from(connections) + OTHER_FILES)?;
    let opening = Arc::new(Semaphore::new(OPENED_AT_ONCE));
    // `opened` has a permit for each connection that was tried; `begin` is closed when all
    // may write.
    let opened = Arc::new(Semaphore::new(0));
    let begin = Arc::new(Semaphore::new(0));
    let mut writers = JoinSet::new();
    for number in 0..connections {
        let writer = Writer {
            reach: reach.clone(),
            node: node.clone(),
            number,
            opening: Arc::clone(&opening),
        };
        let (opened, begin) = (Arc::clone(&opened), Arc::clone(&begin));
        writers.spawn(async move {
            let mut connection = writer.connect().await;
            opened.add_permits(1);
            let _closed = begin.acquire().await;
            loop {
                if let Ok(connection) = connection {
                    let _broken = writer.write(connection).await;
                }
                tokio::time::sleep(RETRY_PAUSE).await;
                connection = writer.connect().await;
            }
        });
    }
    let all_opened = opened.acquire_many(connections.into());
    let _all_or_late = tokio::time::timeout(OPENING_MAX, all_opened).await;
    begin.close();
    tokio::time::sleep(DURATION).await;
    writers.shutdown().await;
    Ok(())
}

/// Raises the limit of open files where it is below `needed`.
fn allow_files(needed: u64) -> Result<(), String> {
    let limit = getrlimit(Resource::Nofile);
    let is_enough = |most: Option<u64>| most.is_none_or(|most| most >= needed);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if is_enough(limit.current)
        || is_enough(limit.maximum) && setrlimit(Resource::Nofile, raised).is_ok()
    {
        return Ok(());
    }
    Err(format!(
        "a load needs {needed} open files: raise the limit (ulimit -n)"
    ))
}

/// One connection of a load.
struct Writer {
    reach: Reach,
    node: ReachedNode,
    number: u16,
    opening: Arc<Semaphore>,
}

impl Writer {
    async fn connect(&self) -> io::Result<NodeConnection> {
        let _permit = self.opening.acquire().await.map_err(io::Error::other)?;
        self.reach.connect(&self.node).await
    }

    /// Writes until the connection breaks.
    async fn write(&self, connection: NodeConnection) -> Result<(), hyper::http::Error> {
        let (mut sender, _driver) = connection;
        for key in (0..KEYS).cycle() {
            let number = self.number;
            let target = format!("/v0/entity?id=tour%2Fload%2F{number}%2F{key}&ttl={TTL_SECONDS}");
            let value = ConsoleBody::Whole(Bytes::from_static(&VALUE));
            let target = Uri::try_from(target)?;
            let request = self.reach.request(&self.node, Method::PUT, target, value)?;
            let Ok(answer) = sender.send_request(request).await else {
                break;
            };
            let status = answer.status();
            let mut body = answer.into_body();
            while let Some(Ok(_piece)) = next_frame(&mut body).await {}
            if status == StatusCode::SERVICE_UNAVAILABLE {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            if sender.ready().await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

async fn next_frame(body: &mut Incoming) -> Option<hyper::Result<Frame<Bytes>>> {
    poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await
}
