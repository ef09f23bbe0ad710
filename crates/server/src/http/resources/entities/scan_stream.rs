//! The body of a scan: one chunk for each entity, batch by batch.
//!
//! A stream holds one batch at a time. It asks for the next one when hyper has taken the last chunk
//! of this one, so a slow reader slows its own scan and nothing else. The read pool reads the
//! store. Every failure ends the body with an error, and hyper then closes the connection without
//! the last chunk, so a stream that was cut off never looks complete.

use super::filter::TooCostly;
use super::listing::{Continuation, Listed, Listing};
use crate::http::request::negotiation::ScanFormat;
use crate::http::response::body::{BodyStream, StreamCut};
use crate::http::response::chunk::{BodyChunk, ChunkMemory};
use crate::http::response::json_line::JsonLine;
use crate::net::channel::ScanGathering;
use base::{Entry, LONG_VALUE_BYTES, LimitedLog, Reservation};
use bytes::Bytes;
use http_body::Frame;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use node::{BatchFailure, BatchMemory, KeyScan, ScanBatch};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

/// How a scan is read and written.
pub(crate) struct ScanPlan {
    /// How entities are encoded.
    pub(crate) format: ScanFormat,
    /// The greatest number of entities.
    pub(crate) limit: u64,
    /// The time that decides which versions have expired.
    pub(crate) now_unix_ms: u64,
    /// Whether count and digest follow as trailers.
    pub(crate) trailers: bool,
}

/// Why a scan is cut.
#[derive(Debug)]
pub(crate) enum CutReason {
    /// Its next batch was not read.
    Failed(BatchFailure),
    /// The token of its client may not read the scan any more.
    NoRight,
    /// Its condition takes too many steps for an entity.
    TooCostly(TooCostly),
}

/// Resolves to the next batch of a scan.
pub(crate) type NextBatch = Pin<Box<dyn Future<Output = Result<ScanBatch, CutReason>>>>;

/// Asks for the next batch of a scan.
pub(crate) type AskForBatch = Box<dyn FnMut(KeyScan) -> NextBatch>;

/// The body of a scan.
pub(crate) struct ScanStream {
    plan: ScanPlan,
    /// How keys are grouped, if they are.
    listing: Option<Listing>,
    ask: AskForBatch,
    state: StreamState,
    count: u64,
    crc32c: u32,
    log: Arc<LimitedLog>,
    /// Its part of those that may run at a time.
    _admitted: Reservation,
    _gathering: Option<ScanGathering>,
}

enum StreamState {
    /// It waits for a batch.
    Reading(NextBatch),
    /// It sends the entities of a batch. The scan continues afterwards, unless it is
    /// at its end.
    Sending {
        entries: std::vec::IntoIter<Entry>,
        scan: Option<KeyScan>,
        memory: Rc<BatchMemory>,
    },
    /// Only the trailers are left.
    Ending,
    /// Nothing is left.
    Ended,
}

impl StreamState {
    fn sending(batch: ScanBatch) -> Self {
        Self::Sending {
            scan: batch.rest,
            entries: batch.entries.into_iter(),
            memory: Rc::new(batch.memory),
        }
    }
}

impl ScanStream {
    /// A stream that begins with `first`; without one it has no entities. `log` limits the
    /// lines about cut scans.
    pub(crate) fn new(
        log: &Arc<LimitedLog>,
        plan: ScanPlan,
        ask: AskForBatch,
        first: Option<ScanBatch>,
        admitted: Reservation,
    ) -> Self {
        Self {
            log: Arc::clone(log),
            plan,
            listing: None,
            ask,
            state: first.map_or(StreamState::Ending, StreamState::sending),
            count: 0,
            crc32c: 0,
            _admitted: admitted,
            _gathering: None,
        }
    }

    /// The same stream, whose keys are grouped.
    pub(crate) fn grouped(mut self, listing: Option<Listing>) -> Self {
        self.listing = listing;
        self
    }

    /// The same stream, for whose time its channel gathers more.
    pub(crate) fn gathered(mut self, gathering: ScanGathering) -> Self {
        self._gathering = Some(gathering);
        self
    }

    fn chunk_of(&mut self, listed: Told) -> BodyChunk {
        let chunk = match listed {
            Told::Entity(entry) => encode(self.plan.format, &entry),
            Told::Prefix(prefix) => {
                let mut line = Vec::new();
                api::write_prefix_line(&prefix, &mut line);
                BodyChunk::new(Bytes::from(line), Bytes::new())
            }
        };
        self.count += 1;
        if self.plan.trailers {
            self.crc32c = chunk.append_crc32c(self.crc32c);
        }
        chunk
    }

    fn trailers(&self) -> HeaderMap {
        let mut trailers = HeaderMap::with_capacity(2);
        trailers.insert(COUNT, HeaderValue::from(self.count));
        let digest = format!("crc32c={:08X}", self.crc32c);
        if let Ok(digest) = HeaderValue::try_from(digest) {
            trailers.insert(DIGEST, digest);
        }
        trailers
    }
}

impl BodyStream for ScanStream {
    /// The next chunk, or the trailers, or the end.
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<BodyChunk>, StreamCut>>> {
        loop {
            match &mut self.state {
                StreamState::Sending {
                    entries,
                    scan,
                    memory,
                } => {
                    if self.count >= self.plan.limit {
                        self.state = StreamState::Ending;
                        continue;
                    }
                    if let Some(told) = next_told(entries, &mut self.listing, &self.plan) {
                        let memory = ChunkMemory::Batch {
                            _memory: Rc::clone(memory),
                        };
                        let chunk = self.chunk_of(told).counted(Some(memory));
                        return Poll::Ready(Some(Ok(Frame::data(chunk))));
                    }
                    let continuation = self.listing.as_mut().map(Listing::continuation);
                    let scan = scan.take().and_then(|mut scan| {
                        match continuation.unwrap_or(Continuation::Next) {
                            Continuation::Next => Some(scan),
                            Continuation::SkipTo(key) => {
                                scan.skip_to(&key);
                                Some(scan)
                            }
                            Continuation::End => None,
                        }
                    });
                    let Some(scan) = scan else {
                        self.state = StreamState::Ending;
                        continue;
                    };
                    // Drops this batch before it asks for the next one, so that the
                    // memory that this one counted for is free.
                    self.state = StreamState::Ending;
                    self.state = StreamState::Reading((self.ask)(scan));
                }
                StreamState::Reading(next) => match std::task::ready!(next.as_mut().poll(cx)) {
                    Ok(batch) => self.state = StreamState::sending(batch),
                    Err(reason) => {
                        report_cut(&reason, self.count, &self.log);
                        self.state = StreamState::Ended;
                        return Poll::Ready(Some(Err(StreamCut)));
                    }
                },
                StreamState::Ending => {
                    self.state = StreamState::Ended;
                    if self.plan.trailers {
                        return Poll::Ready(Some(Ok(Frame::trailers(self.trailers()))));
                    }
                }
                StreamState::Ended => return Poll::Ready(None),
            }
        }
    }
}

/// What a line tells.
enum Told {
    Entity(Entry),
    Prefix(Vec<u8>),
}

/// The next of some entries of which something is told.
fn next_told(
    entries: &mut std::vec::IntoIter<Entry>,
    listing: &mut Option<Listing>,
    plan: &ScanPlan,
) -> Option<Told> {
    entries.find_map(|entry| {
        let Some(listing) = listing else {
            return entry
                .is_live(plan.now_unix_ms)
                .then_some(Told::Entity(entry));
        };
        Some(match listing.next(&entry, plan.now_unix_ms)? {
            Listed::Entity => Told::Entity(entry),
            Listed::Prefix(prefix) => Told::Prefix(prefix),
        })
    })
}

/// Logs why a scan is cut after this number of entities.
fn report_cut(reason: &CutReason, entities: u64, log: &LimitedLog) {
    log.line("cut scan", |left_out| {
        write_cut(reason, entities, left_out);
    });
}

fn write_cut(reason: &CutReason, entities: u64, left_out: Option<u64>) {
    let failure = match reason {
        CutReason::Failed(failure) => failure,
        CutReason::TooCostly(TooCostly { asked }) => {
            return tracing::info!(
                entities,
                asked,
                left_out,
                "a scan was cut off: its condition takes too many steps for an entity"
            );
        }
        CutReason::NoRight => {
            return tracing::info!(
                entities,
                left_out,
                "a scan was cut off: its client's token was revoked, or may not read these keys \
                 any more"
            );
        }
    };
    match failure {
        BatchFailure::Failed(error) => tracing::error!(
            %error,
            entities,
            left_out,
            "a scan was cut off: this node cannot read its next part"
        ),
        BatchFailure::TimedOut => {
            tracing::warn!(
                entities,
                left_out,
                "a scan was cut off: the disk did not answer in time"
            );
        }
        BatchFailure::Overloaded => tracing::warn!(
            entities,
            left_out,
            "a scan was cut off: the read queue or the memory for scans is full"
        ),
        BatchFailure::TooOld => tracing::info!(
            entities,
            left_out,
            "a scan was cut off: its snapshot, which keeps disk space, reached its maximum age. \
             The client can continue after the last key"
        ),
        BatchFailure::TooFewNodes(receipt) => {
            let outcomes = receipt.replicas.iter();
            let outcomes = outcomes.map(|line| format!("{} {}", line.url, line.outcome.word()));
            tracing::warn!(
                entities,
                left_out,
                nodes = outcomes.collect::<Vec<_>>().join(", "),
                "a scan of the cluster was cut off: too many nodes are missing. The client can \
                 continue after the last key"
            );
        }
    }
}

/// The trailer with the number of entities.
const COUNT: HeaderName = HeaderName::from_static("kvorum-count");
/// The trailer with the checksum of all body bytes.
const DIGEST: HeaderName = HeaderName::from_static("kvorum-digest");

fn encode(format: ScanFormat, entry: &Entry) -> BodyChunk {
    match format {
        ScanFormat::Plain => {
            let (key, value) = (entry.key(), entry.value_bytes());
            let copied = if value.len() > LONG_VALUE_BYTES {
                &[][..]
            } else {
                value
            };
            let mut head = Vec::with_capacity(key.len() + 1 + copied.len());
            head.extend_from_slice(key);
            head.push(b'\n');
            head.extend_from_slice(copied);
            let tail = if value.len() > LONG_VALUE_BYTES {
                entry.value_handle()
            } else {
                Bytes::new()
            };
            BodyChunk::new(Bytes::from(head), tail)
        }
        ScanFormat::JsonLines => BodyChunk::of_line(JsonLine::of(entry)),
        ScanFormat::KeyLines => BodyChunk::of_line(JsonLine::without_value(entry)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Expiry, LogBounds, ManualClock, Quota, Timestamp};
    use bytes::Buf;
    use std::task::Waker;

    #[tokio::test]
    async fn a_batch_that_is_not_read_in_time_cuts_the_scan() {
        let admitted = Quota::new(1).try_reserve(1);
        let log = Arc::new(LimitedLog::new(
            Arc::new(ManualClock::new(0)),
            LogBounds::REQUESTS,
        ));
        let mut stream = ScanStream::new(
            &log,
            ScanPlan {
                format: ScanFormat::Plain,
                limit: u64::MAX,
                now_unix_ms: 0,
                trailers: true,
            },
            Box::new(|_| Box::pin(std::future::pending())),
            None,
            admitted.unwrap(),
        );
        let mut context = Context::from_waker(Waker::noop());
        let timed_out = CutReason::Failed(BatchFailure::TimedOut);
        stream.state = StreamState::Reading(Box::pin(async { Err(timed_out) }));
        let cut = stream.poll_frame(&mut context);
        assert!(matches!(cut, Poll::Ready(Some(Err(StreamCut)))));
        // No trailers follow, which would make the stream look whole.
        let end = stream.poll_frame(&mut context);
        assert!(matches!(end, Poll::Ready(None)));
    }

    fn text(format: ScanFormat, key: &[u8], value: &[u8]) -> Vec<u8> {
        let entry = Entry::value(key, Timestamp::from_u64(9), value, Expiry::NEVER, 1);
        let mut chunk = encode(format, &entry);
        chunk.copy_to_bytes(chunk.remaining()).to_vec()
    }

    #[test]
    fn an_entity_is_key_newline_value() {
        assert_eq!(text(ScanFormat::Plain, b"k", b"v"), b"k\nv");
        assert_eq!(text(ScanFormat::Plain, b"k", b""), b"k\n");
        let long = vec![7; LONG_VALUE_BYTES + 1];
        let expected = [&b"k\n"[..], &long].concat();
        assert_eq!(text(ScanFormat::Plain, b"k", &long), expected);
    }
}
