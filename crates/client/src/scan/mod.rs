//! Scans that resume: an interrupted stream continues after its last key, at the same node or
//! another one, and a truncated stream is never taken for a complete one.
//!
//! A complete stream ends with the last chunk, and its trailers match: the number of entities and
//! the checksum of all bytes. Keys must ascend. Anything else is [`Error::Damaged`], which is
//! final, because earlier entities may be wrong, too.

mod aggregate;
mod estimate;

use crate::client::pool::Exchange;
use crate::client::{Client, Message, Repeat, Settings, all_failed, pause};
use crate::connection::{Answer, LINES_TYPE, Limits};
use crate::error::{Error, Outcome};
use crate::node::Node;
use crate::query::{Replicas, Target};
pub use aggregate::{Aggregate, AggregatedGroup, Aggregates, Operand};
use api::{Entity, ListedLine};
use crc_fast::{CrcAlgorithm, Digest};
use hyper::Method;
use hyper::header::{ACCEPT, HeaderValue, TE};
use serde::Deserialize;
use std::time::Duration;

/// The longest line, in bytes: a value of 16 MiB whose characters all need escapes, and
/// more where nodes are configured to take longer values.
const LINE_BYTES_MAX: usize = 128 << 20;

/// How long a scan may be silent by default: a node cuts one that makes no progress for 30 s.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// How long a node may count before it answers, by default.
const COUNTING_MAX: Duration = Duration::from_secs(3600);

/// Whose keys a scan covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those of the first node.
    Node,
    /// Those of the whole cluster, each once.
    Cluster,
}

impl Scope {
    /// The nodes of a client that can tell a scan: another node keeps other keys.
    fn nodes_of(self, client: &Client) -> &[Node] {
        match self {
            Self::Node => &client.nodes()[..1],
            Self::Cluster => client.nodes(),
        }
    }
}

/// A scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanRequest {
    /// The first key.
    pub start: Vec<u8>,
    /// The key at which the scan ends without it; `None`: after the last key.
    pub end: Option<Vec<u8>>,
    /// The greatest number of entities.
    pub limit: Option<u64>,
    /// Whose keys.
    pub scope: Scope,
    /// Whether values are wanted.
    pub has_values: bool,
    /// How many replicas must answer; for the scope of the cluster.
    pub replicas: Replicas,
    /// Only entities that this condition matches: an expression of CEL.
    pub condition: Option<String>,
    /// What keys are grouped by: of all with the same bytes up to the first delimiter behind the
    /// prefix, these bytes are told once.
    pub delimiter: Option<Vec<u8>>,
    /// The prefix that all keys have.
    prefix: Vec<u8>,
}

impl ScanRequest {
    /// A scan of all keys.
    pub fn all(scope: Scope) -> Self {
        Self {
            start: vec![0],
            end: None,
            limit: None,
            scope,
            has_values: true,
            replicas: Replicas::default(),
            condition: None,
            delimiter: None,
            prefix: Vec::new(),
        }
    }

    /// A scan of the keys with a prefix.
    pub fn set_prefix(&mut self, prefix: &[u8]) {
        self.start = prefix.to_vec();
        self.end = end_of_prefix(prefix);
        self.prefix = prefix.to_vec();
    }

    /// Continues behind a key.
    pub fn set_behind(&mut self, key: &[u8]) {
        self.start = [key, b"\0"].concat();
    }

    /// Whether it holds no key, whatever the nodes keep.
    fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    fn message(&self) -> Message {
        let mut target = Target::new("/v0/entities").with("start", &self.start);
        if let Some(delimiter) = &self.delimiter {
            target = target.with("delimiter", delimiter);
        }
        // The node has to know the prefix behind which it looks for the delimiter.
        if self.delimiter.is_some() && !self.prefix.is_empty() {
            target = target.with("prefix", &self.prefix);
        } else if let Some(end) = &self.end {
            target = target.with("end", end);
        }
        if let Some(condition) = &self.condition {
            target = target.with("where", condition.as_bytes());
        }
        target = target.with_number("limit", self.limit);
        if !self.has_values {
            target = target.with("values", b"omit");
        }
        let target = self.scoped(target);
        let mut message = Message::new(Method::GET, target);
        message.headers = vec![
            (ACCEPT.as_str(), LINES_TYPE.into()),
            (TE.as_str(), "trailers".into()),
        ];
        message
    }

    fn scoped(&self, target: Target) -> Target {
        match self.scope {
            Scope::Node => target,
            Scope::Cluster => target
                .with("scope", b"cluster")
                .with_replicas(self.replicas),
        }
    }
}

/// Reads a scan, entity by entity.
pub struct ScanReader<'a> {
    client: &'a Client,
    /// What is still to be read.
    rest: ScanRequest,
    trace: Option<HeaderValue>,
    stream: Option<Stream<'a>>,
    streams: u64,
    /// The node that is asked next.
    node: usize,
    /// The rounds in which all nodes have failed since the last entity.
    rounds: u32,
    /// The failures of the present round.
    errors: Vec<Error>,
    is_whole: bool,
}

/// The answer to one request.
struct Stream<'a> {
    exchange: Exchange<'a>,
    /// Bytes that have arrived, and how many of them are done with.
    bytes: Vec<u8>,
    done: usize,
    /// Up to where there is known to be no end of a line.
    searched: usize,
    lines: u64,
    crc32c: Digest,
}

/// The first key behind all that have a prefix; `None` if there is no greater key.
fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[derive(Deserialize)]
struct Counted {
    count: u64,
}

impl Client {
    /// Begins to read a scan. Nothing is sent before the first entity is asked for.
    pub fn scan(&self, request: ScanRequest) -> ScanReader<'_> {
        ScanReader {
            client: self,
            is_whole: request.is_empty(),
            rest: request,
            trace: self.trace(),
            stream: None,
            streams: 0,
            node: 0,
            rounds: 0,
            errors: Vec::new(),
        }
    }

    /// Counts the entities of a scan.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn count(&self, request: &ScanRequest) -> Result<u64, Error> {
        if request.is_empty() {
            return Ok(0);
        }
        let mut message = request.message();
        message.target = message.target.with("count", b"only");
        message.trace = self.trace();
        let limits = self.limits_of_scans(COUNTING_MAX);
        let nodes = request.scope.nodes_of(self);
        self.ask_among(nodes, Repeat::Always, async |node| {
            self.fetch(limits, node, &message, 1 << 16, Answer::json)
                .await
        })
        .await
        .map(|Counted { count }| count)
    }

    fn limits_of_scans(&self, silence_max: Duration) -> Limits {
        let Settings {
            limits,
            scan_silence_max: given,
            ..
        } = self.settings();
        Limits {
            silence_max: given.unwrap_or(limits.silence_max.max(silence_max)),
            ..limits
        }
    }
}

impl ScanReader<'_> {
    /// How many requests were made: what came since this number changed is as good as the
    /// end of the present stream.
    pub fn streams(&self) -> u64 {
        self.streams
    }

    /// The next entity of a scan without a delimiter; `None` at the end of the whole scan.
    ///
    /// # Errors
    /// As [`Self::next_line`].
    pub async fn next(&mut self) -> Result<Option<Entity>, Error> {
        loop {
            match self.next_line().await? {
                Some(ListedLine::Entity(entity)) => return Ok(Some(entity)),
                Some(ListedLine::Prefix(_)) => {}
                None => return Ok(None),
            }
        }
    }

    /// The next entity, or the next common prefix of keys; `None` at the end of the whole scan.
    ///
    /// # Errors
    /// [`Error`]; [`Error::Damaged`] says that what came since the last change of
    /// [`Self::streams`] may be wrong.
    pub async fn next_line(&mut self) -> Result<Option<ListedLine>, Error> {
        loop {
            if self.is_whole {
                return Ok(None);
            }
            match self.step().await {
                Ok(Some(line)) => {
                    self.rounds = 0;
                    self.errors.clear();
                    match &line {
                        ListedLine::Entity(entity) => self.rest.set_behind(&entity.key),
                        ListedLine::Prefix(prefix) => match end_of_prefix(prefix) {
                            Some(start) => self.rest.start = start,
                            // Only the end of the stream can follow.
                            None => self.rest.limit = Some(1),
                        },
                    }
                    if let Some(limit) = &mut self.rest.limit {
                        *limit = limit.saturating_sub(1);
                    }
                    return Ok(Some(line));
                }
                Ok(None) => {
                    self.is_whole = true;
                    if let Some(stream) = self.stream.take() {
                        stream.exchange.finish();
                    }
                }
                Err(error) => self.recover(error).await?,
            }
        }
    }

    /// The next line of the present stream, or of a new one.
    async fn step(&mut self) -> Result<Option<ListedLine>, Error> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                // A node that looks for what matches is silent for as long as nothing does.
                let silence_max = match self.rest.condition {
                    None => SILENCE_MAX,
                    Some(_) => COUNTING_MAX,
                };
                let limits = self.client.limits_of_scans(silence_max);
                let node = &self.client.nodes()[self.node];
                let mut message = self.rest.message();
                message.trace.clone_from(&self.trace);
                let exchange = self.client.send(limits, node, &message).await?;
                exchange.answer.expect_lines()?;
                self.streams += 1;
                none.insert(Stream::new(exchange))
            }
        };
        let Some(line) = stream.next(self.rest.delimiter.is_some()).await? else {
            return Ok(None);
        };
        let start = &self.rest.start;
        let (place, is_before) = match &line {
            ListedLine::Entity(entity) => (&entity.key, entity.key < *start),
            // A scan may begin within a group.
            ListedLine::Prefix(prefix) => (prefix, prefix < start && !start.starts_with(prefix)),
        };
        let is_behind = self.rest.end.as_ref().is_some_and(|end| place >= end);
        if is_before || is_behind {
            return Err(stream.damaged("a key is out of order".to_owned()));
        }
        Ok(Some(line))
    }

    /// Prepares to go on at the next node.
    async fn recover(&mut self, error: Error) -> Result<(), Error> {
        self.stream = None;
        if error.outcome() == Outcome::Final {
            return Err(error);
        }
        if self.rest.limit == Some(0) {
            // Everything is here; only the end of the stream is missing.
            self.is_whole = true;
            return Ok(());
        }
        self.errors.push(error);
        let nodes = self.rest.scope.nodes_of(self.client).len();
        self.node = (self.node + 1) % nodes;
        if self.errors.len() >= nodes {
            let is_lasting = self.errors.iter().all(Error::is_lasting);
            if self.rounds == self.client.settings().retries || is_lasting {
                return Err(all_failed(std::mem::take(&mut self.errors)));
            }
            tokio::time::sleep(pause(self.rounds, &self.errors)).await;
            self.errors.clear();
            self.rounds += 1;
        }
        Ok(())
    }
}

impl<'a> Stream<'a> {
    fn new(exchange: Exchange<'a>) -> Self {
        Self {
            exchange,
            bytes: Vec::new(),
            done: 0,
            searched: 0,
            lines: 0,
            crc32c: Digest::new(CrcAlgorithm::Crc32Iscsi),
        }
    }

    /// The next line, which may be a common prefix if `has_groups`; `None` at an end that agrees
    /// with the trailers.
    async fn next(&mut self, has_groups: bool) -> Result<Option<ListedLine>, Error> {
        loop {
            let rest = &self.bytes[self.searched..];
            if let Some(end) = memchr::memchr(b'\n', rest) {
                let line = self.done..self.searched + end;
                self.done = line.end + 1;
                self.searched = self.done;
                self.lines += 1;
                let bytes = &self.bytes[line];
                let line = if has_groups {
                    ListedLine::parse(bytes)
                } else {
                    Entity::parse(bytes).map(ListedLine::Entity)
                };
                return match line {
                    Ok(line) => Ok(Some(line)),
                    Err(problem) => Err(self.damaged(format!("line {}: {problem}", self.lines))),
                };
            }
            self.bytes.drain(..self.done);
            (self.done, self.searched) = (0, self.bytes.len());
            if self.bytes.len() > LINE_BYTES_MAX {
                return Err(Error::TooLong {
                    node: self.exchange.answer.node().to_owned(),
                    bytes_max: LINE_BYTES_MAX as u64,
                });
            }
            match self.exchange.answer.next().await? {
                Some(piece) => {
                    self.crc32c.update(&piece);
                    self.bytes.extend_from_slice(&piece);
                }
                None => return self.check_end().map(|()| None),
            }
        }
    }

    /// Checks a stream at its end.
    fn check_end(&self) -> Result<(), Error> {
        if !self.bytes.is_empty() {
            return Err(self.damaged("it ends within a line".to_owned()));
        }
        let (Some(count), Some(digest)) = (
            self.exchange.answer.trailer("kvorum-count"),
            self.exchange.answer.trailer("kvorum-digest"),
        ) else {
            return Err(self.damaged(
                "it ends without count and digest, which a proxy may have dropped".to_owned(),
            ));
        };
        let (lines, crc32c) = (self.lines, format!("crc32c={:08X}", self.crc32c.finalize()));
        if count != lines.to_string() {
            return Err(self.damaged(format!("{lines} entities arrived, but {count} were sent")));
        }
        if !digest.eq_ignore_ascii_case(&crc32c) {
            return Err(self.damaged(format!("its digest is {crc32c}, not {digest}")));
        }
        Ok(())
    }

    fn damaged(&self, problem: String) -> Error {
        Error::Damaged {
            node: self.exchange.answer.node().to_owned(),
            problem,
        }
    }
}

#[cfg(test)]
mod tests;
