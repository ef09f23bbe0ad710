//! Loads a node with more writes than it takes at a time, to show how it refuses the rest.
//!
//! Each connection sends its next write once the last one is answered. That requests are
//! refused is the aim, so nothing is counted; `kvorum-lab load` measures.

use super::reaching::{NodeStream, Reach, ReachedNode};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

/// How long a load lasts.
const DURATION: Duration = Duration::from_secs(5);

/// The most connections of a load.
const CONNECTIONS_MAX: u16 = 4096;

/// Files that the process has open in addition to these connections.
const OTHER_FILES: u64 = 256;

/// How long a connection that broke waits before the next attempt.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The longest head of an answer, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;

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
    let mut writers = JoinSet::new();
    for connection in 0..connections {
        let (reach, node) = (reach.clone(), node.clone());
        writers.spawn(async move {
            loop {
                let _broken = write(&reach, &node, connection).await;
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        });
    }
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

/// Writes on one connection until it breaks.
async fn write(reach: &Reach, node: &ReachedNode, connection: u16) -> io::Result<()> {
    let mut stream = reach.connect(node).await?;
    let authorization = reach.authorization.as_ref();
    let authorization =
        authorization.map_or(String::new(), |value| format!("authorization: {value}\r\n"));
    let mut answer = Vec::new();
    for key in (0..KEYS).cycle() {
        let head = format!(
            "PUT /v0/entity?id=load%2F{connection}%2F{key} HTTP/1.1\r\nhost: {}\r\n\
             content-length: {}\r\n{authorization}\r\n",
            node.address,
            VALUE.len()
        );
        stream
            .write_all(&[head.as_bytes(), &VALUE].concat())
            .await?;
        stream.flush().await?;
        read_answer(&mut stream, &mut answer).await?;
    }
    Ok(())
}

/// Reads one answer, whatever it says. `bytes` keeps what has arrived behind it.
async fn read_answer(stream: &mut Box<dyn NodeStream>, bytes: &mut Vec<u8>) -> io::Result<()> {
    loop {
        if let Some(length) = answer_bytes(bytes)? {
            bytes.drain(..length);
            return Ok(());
        }
        if stream.read_buf(bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The length of the answer that `bytes` begin with; `None` while it is not whole.
fn answer_bytes(bytes: &[u8]) -> io::Result<Option<usize>> {
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
    Ok((bytes.len() >= head_bytes + body_bytes).then_some(head_bytes + body_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_once_its_body_is() {
        let whole = b"HTTP/1.1 503 x\r\nContent-Length: 4\r\n\r\nfull";
        for end in 0..whole.len() {
            assert_eq!(answer_bytes(&whole[..end]).unwrap(), None, "{end}");
        }
        let two = [&whole[..], b"HTTP/1.1"].concat();
        assert_eq!(answer_bytes(&two).unwrap(), Some(whole.len()));
        assert!(answer_bytes(b"\x16\x03\x01").is_err(), "TLS is no HTTP");
    }
}
