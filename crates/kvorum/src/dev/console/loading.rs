//! Sends a node more writes than it admits, to show how it refuses the rest.
//!
//! Each connection sends its next write once the last one is answered, and waits after a refusal,
//! as a client should. The aim is to see refusals, so nothing is counted; `kvorum-lab load`
//! measures.

use super::reaching::{NodeStream, Reach, ReachedNode};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
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

/// The longest head of an answer, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// The status of a request that a node did not take.
const REFUSED: u16 = 503;

/// How many keys each connection writes, and the value.
const KEYS: u64 = 100;
const VALUE: [u8; 64] = [b'v'; 64];

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
            let mut stream = writer.connect().await;
            opened.add_permits(1);
            let _closed = begin.acquire().await;
            loop {
                if let Ok(stream) = stream {
                    let _broken = writer.write(stream).await;
                }
                tokio::time::sleep(RETRY_PAUSE).await;
                stream = writer.connect().await;
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
    async fn connect(&self) -> io::Result<Box<dyn NodeStream>> {
        let _permit = self.opening.acquire().await.map_err(io::Error::other)?;
        self.reach.connect(&self.node).await
    }

    /// Writes until the connection breaks.
    async fn write(&self, mut stream: Box<dyn NodeStream>) -> io::Result<()> {
        let authorization = self.reach.authorization.as_ref();
        let authorization =
            authorization.map_or(String::new(), |value| format!("authorization: {value}\r\n"));
        let mut answer = Vec::new();
        for key in (0..KEYS).cycle() {
            let head = format!(
                "PUT /v0/entity?id=load%2F{}%2F{key} HTTP/1.1\r\nhost: {}\r\n\
                 content-length: {}\r\n{authorization}\r\n",
                self.number,
                self.node.address,
                VALUE.len()
            );
            stream
                .write_all(&[head.as_bytes(), &VALUE].concat())
                .await?;
            stream.flush().await?;
            if read_answer(&mut stream, &mut answer).await? == REFUSED {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
        Ok(())
    }
}

/// Reads one answer, and returns its status. `bytes` keeps what has arrived behind it.
async fn read_answer(stream: &mut Box<dyn NodeStream>, bytes: &mut Vec<u8>) -> io::Result<u16> {
    loop {
        if let Some((status, length)) = parse_answer(bytes)? {
            bytes.drain(..length);
            return Ok(status);
        }
        if stream.read_buf(bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The status and the length of the answer that `bytes` begin with; `None` while it is not
/// whole.
fn parse_answer(bytes: &[u8]) -> io::Result<Option<(u16, usize)>> {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut fields);
    let parsed = response.parse(bytes).map_err(io::Error::other)?;
    let httparse::Status::Complete(head_bytes) = parsed else {
        if bytes.len() > HEAD_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        return Ok(None);
    };
    let named = |name: &str| {
        let mut fields = response.headers.iter();
        fields.find(|field| field.name.eq_ignore_ascii_case(name))
    };
    // A node announces the length of each answer to a write.
    let length = named("content-length").and_then(|field| str::from_utf8(field.value).ok());
    let body_bytes: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    let length = head_bytes + body_bytes;
    let status = response.code.unwrap_or_default();
    Ok((bytes.len() >= length).then_some((status, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_once_its_body_is() {
        let whole = b"HTTP/1.1 503 x\r\nContent-Length: 4\r\n\r\nfull";
        for end in 0..whole.len() {
            assert_eq!(parse_answer(&whole[..end]).unwrap(), None, "{end}");
        }
        let two = [&whole[..], b"HTTP/1.1"].concat();
        assert_eq!(parse_answer(&two).unwrap(), Some((503, whole.len())));
        assert!(parse_answer(b"\x16\x03\x01").is_err(), "TLS is no HTTP");
    }
}
