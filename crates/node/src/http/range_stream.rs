//! A range on its way to the client: one chunk an entity, batch by batch.
//!
//! A stream holds one batch at a time; the next is asked for when hyper has
//! taken the last chunk of this one, so a slow reader slows its scan and
//! nothing else. The store is read on the read pool. Whatever goes wrong ends
//! the body with an error, upon which hyper closes the connection without the
//! last chunk: a stream that was cut never looks whole.

use crate::admission::Share;
use crate::coordinator::{Batch, Coordinator};
use crate::http::body::{Chunk, LONG_VALUE_BYTES, RangeCut};
use crate::http::conditional::RangeFormat;
use crate::outbox::{Completion, Wait};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::{Buf, Bytes};
use http_body::Frame;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use lsm::{Clock, Entry, Scan};
use serde::Serialize;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// How a range is read and written.
pub(crate) struct RangePlan {
    /// How entities are written.
    pub(crate) format: RangeFormat,
    /// At most so many of them.
    pub(crate) limit: u64,
    /// Which versions have expired: those that have at this time.
    pub(crate) now_unix_ms: u64,
    /// Whether count and digest follow.
    pub(crate) trailers: bool,
    /// How long a batch may take.
    pub(crate) stall_timeout: Duration,
}

/// A range on its way.
pub(crate) struct RangeStream {
    plan: RangePlan,
    coordinator: Rc<Coordinator>,
    clock: Arc<dyn Clock>,
    state: State,
    count: u64,
    crc32c: u32,
    /// The stream's place among those that are streamed at a time.
    _place: Share,
}

enum State {
    /// A batch was asked for.
    Reading(Wait),
    /// Entities are handed out; then the scan goes on, if it is not at its end.
    Sending(std::vec::IntoIter<Entry>, Option<Box<Scan>>),
    /// Nothing is left but trailers.
    Ending,
    /// Nothing is left.
    Ended,
}

impl RangeStream {
    /// A stream that begins with `first`; its `entries` must not be an error.
    pub(crate) fn new(
        plan: RangePlan,
        coordinator: Rc<Coordinator>,
        clock: Arc<dyn Clock>,
        first: Vec<Entry>,
        scan: Option<Box<Scan>>,
        place: Share,
    ) -> Self {
        Self {
            plan,
            coordinator,
            clock,
            state: State::Sending(first.into_iter(), scan),
            count: 0,
            crc32c: 0,
            _place: place,
        }
    }

    /// The next chunk, or the trailers, or the end.
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunk>, RangeCut>>> {
        loop {
            match &mut self.state {
                State::Sending(entries, scan) => {
                    if self.count >= self.plan.limit {
                        self.state = State::Ending;
                        continue;
                    }
                    if let Some(entry) = entries.find(|entry| entry.is_live(self.plan.now_unix_ms))
                    {
                        return Poll::Ready(Some(Ok(Frame::data(self.chunk_of(&entry)))));
                    }
                    let Some(scan) = scan.take() else {
                        self.state = State::Ending;
                        continue;
                    };
                    match self.ask_for_more(scan) {
                        Ok(wait) => self.state = State::Reading(wait),
                        Err(cut) => return self.cut(cut),
                    }
                }
                State::Reading(wait) => {
                    let answer = match Pin::new(wait).poll(cx) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(answer) => answer,
                    };
                    match batch_of(answer) {
                        Some(Batch {
                            scan,
                            entries: Ok(entries),
                        }) => {
                            let scan = (!entries.is_empty()).then_some(scan);
                            self.state = State::Sending(entries.into_iter(), scan);
                        }
                        Some(Batch {
                            entries: Err(error),
                            ..
                        }) => {
                            tracing::error!(%error, "a range was cut: its next part cannot be read");
                            return self.cut(RangeCut);
                        }
                        None => {
                            tracing::warn!("a range was cut: the disk is too slow");
                            return self.cut(RangeCut);
                        }
                    }
                }
                State::Ending => {
                    self.state = State::Ended;
                    if self.plan.trailers {
                        return Poll::Ready(Some(Ok(Frame::trailers(self.trailers()))));
                    }
                }
                State::Ended => return Poll::Ready(None),
            }
        }
    }

    fn cut(&mut self, cut: RangeCut) -> Poll<Option<Result<Frame<Chunk>, RangeCut>>> {
        self.state = State::Ended;
        Poll::Ready(Some(Err(cut)))
    }

    fn ask_for_more(&self, scan: Box<Scan>) -> Result<Wait, RangeCut> {
        let deadline = self
            .clock
            .monotonic()
            .saturating_add(self.plan.stall_timeout);
        let wait = self.coordinator.waiters().register(deadline);
        self.coordinator
            .ask_for_batch(scan, wait.ticket())
            .map_err(|_| RangeCut)?;
        Ok(wait)
    }

    fn chunk_of(&mut self, entry: &Entry) -> Chunk {
        let chunk = encode(self.plan.format, entry);
        self.count += 1;
        if self.plan.trailers {
            let mut slices = [std::io::IoSlice::new(&[]); 2];
            let parts = chunk.chunks_vectored(&mut slices);
            for part in &slices[..parts] {
                self.crc32c = crc32c::crc32c_append(self.crc32c, part);
            }
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

/// The trailer with the number of entities.
const COUNT: HeaderName = HeaderName::from_static("kvorum-count");
/// The trailer with the checksum of all body bytes.
const DIGEST: HeaderName = HeaderName::from_static("kvorum-digest");

/// What an answer says of a scan.
pub(crate) fn batch_of(answer: Option<Completion>) -> Option<Batch> {
    match answer {
        Some(Completion::Scanned(scan, entries)) => Some(Batch { scan, entries }),
        _ => None,
    }
}

/// A line of JSON: what is not UTF-8 goes as base64 under another name.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
    version: String,
}

fn encode(format: RangeFormat, entry: &Entry) -> Chunk {
    match format {
        RangeFormat::Plain => {
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
            Chunk::new(Bytes::from(head), tail)
        }
        RangeFormat::JsonLines => {
            let key = std::str::from_utf8(entry.key()).ok();
            let value = std::str::from_utf8(entry.value_bytes()).ok();
            let line = Line {
                key,
                key_base64: key.is_none().then(|| BASE64.encode(entry.key())),
                value,
                value_base64: value.is_none().then(|| BASE64.encode(entry.value_bytes())),
                version: entry.timestamp().to_string(),
            };
            // Strings always have a JSON form.
            let mut json = serde_json::to_vec(&line).unwrap_or_default();
            json.push(b'\n');
            Chunk::new(Bytes::from(json), Bytes::new())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lsm::{Expiry, Timestamp};

    fn text(format: RangeFormat, key: &[u8], value: &[u8]) -> Vec<u8> {
        let entry = Entry::value(key, Timestamp::from_u64(9), value, Expiry::NEVER, 1);
        let mut chunk = encode(format, &entry);
        chunk.copy_to_bytes(chunk.remaining()).to_vec()
    }

    #[test]
    fn an_entity_is_key_newline_value() {
        assert_eq!(text(RangeFormat::Plain, b"k", b"v"), b"k\nv");
        assert_eq!(text(RangeFormat::Plain, b"k", b""), b"k\n");
        let long = vec![7; LONG_VALUE_BYTES + 1];
        let expected = [&b"k\n"[..], &long].concat();
        assert_eq!(text(RangeFormat::Plain, b"k", &long), expected);
    }

    #[test]
    fn a_line_is_json_and_base64_where_it_must_be() {
        for (key, value, line) in [
            (
                &b"k\n"[..],
                &b"v\""[..],
                "{\"key\":\"k\\n\",\"value\":\"v\\\"\",\"version\":\"9\"}\n",
            ),
            (
                b"\xff",
                b"",
                "{\"key_base64\":\"/w==\",\"value\":\"\",\"version\":\"9\"}\n",
            ),
            (
                b"k",
                b"\xff\xfe",
                "{\"key\":\"k\",\"value_base64\":\"//4=\",\"version\":\"9\"}\n",
            ),
        ] {
            let written = text(RangeFormat::JsonLines, key, value);
            assert_eq!(String::from_utf8(written).unwrap(), line);
        }
    }
}
