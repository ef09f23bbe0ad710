//! Sends spans to a collector, on a thread of its own: OTLP 1 over HTTP, as protobuf.
//!
//! Requests put their spans into a bounded queue, and never wait: what does not fit is dropped and
//! counted. The thread sends batches, each on a connection of its own. What a collector does not
//! take for a while is sent again, a few times. At the end, what waits gets one attempt within
//! [`FLUSH_MAX`].

use super::otlp::{self, KeyValue, PartialSuccess, Span};
use base::{Backoff, Clock, LogLimiter, LogRate, Random};
use bytes::Bytes;
use cluster::NodeUrl;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

/// How many requests may wait whose spans were not sent yet: a few MiB.
const QUEUE_REQUESTS_MAX: usize = 1024;

/// How many spans make a batch that is sent at once, and how long fewer wait for more.
const BATCH_SPANS: usize = 512;
const BATCH_DELAY: Duration = Duration::from_secs(1);

/// How long a batch may take: the connection, and the answer.
const POST_MAX: Duration = Duration::from_secs(10);

/// How much of an answer is read.
const ANSWER_BYTES_MAX: usize = 4096;

/// How often a batch is sent at most, and how long to wait in between.
const ATTEMPTS_MAX: u32 = 5;
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_LONGEST: Duration = Duration::from_secs(8);

/// How long the end of the node waits for the last spans.
const FLUSH_MAX: Duration = Duration::from_millis(500);

/// What became of spans.
#[derive(Debug, Default)]
pub(crate) struct ExportCounts {
    /// The collector has accepted them.
    pub(crate) exported: AtomicU64,
    /// They did not fit into the queue.
    pub(crate) queue_full: AtomicU64,
    /// The collector did not take their batch.
    pub(crate) not_taken: AtomicU64,
    /// The collector dropped them from a batch that it has accepted.
    pub(crate) rejected: AtomicU64,
}

/// The queue, and the thread that empties it. The thread ends when this is dropped.
pub(super) struct Exporter {
    queue: mpsc::Sender<Vec<Span>>,
    counts: Arc<ExportCounts>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system cannot start it.
    pub(super) fn start(work: Work) -> io::Result<Self> {
        let (queue, spans) = mpsc::channel(QUEUE_REQUESTS_MAX);
        let (stop, stopped) = oneshot::channel();
        let counts = Arc::clone(&work.counts);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::Builder::new().name("traces".to_owned());
        let thread = thread.spawn(move || runtime.block_on(work.run(spans, stopped)))?;
        Ok(Self {
            queue,
            counts,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Leaves the spans of a request to the thread.
    pub(super) fn push(&self, spans: Vec<Span>) {
        if let Err(refused) = self.queue.try_send(spans) {
            let spans = refused.into_inner().len() as u64;
            self.counts.queue_full.fetch_add(spans, Ordering::Relaxed);
        }
    }

    /// What became of the spans.
    pub(super) fn counts(&self) -> &ExportCounts {
        &self.counts
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that exports traces panicked");
        }
    }
}

/// What the thread has.
pub(super) struct Work {
    collector: NodeUrl,
    resource: Vec<KeyValue>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    resolver: dial::Resolver,
    counts: Arc<ExportCounts>,
    /// What is being sent.
    batch: Vec<Span>,
    log: LogLimiter,
}

/// Why a collector did not take a batch.
#[derive(Debug)]
struct NotTaken {
    reason: String,
    /// Whether it may take it later.
    is_passing: bool,
}

impl NotTaken {
    fn for_now(reason: String) -> Self {
        Self {
            reason,
            is_passing: true,
        }
    }
}

impl From<io::Error> for NotTaken {
    fn from(error: io::Error) -> Self {
        Self::for_now(error.to_string())
    }
}

impl From<hyper::Error> for NotTaken {
    fn from(error: hyper::Error) -> Self {
        Self::for_now(error.to_string())
    }
}

impl Work {
    /// Spans of what `resource` describes are for this collector.
    pub(super) fn new(
        collector: NodeUrl,
        resource: Vec<KeyValue>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Self {
        Self {
            collector,
            resource,
            clock,
            random,
            resolver: dial::Resolver::default(),
            counts: Arc::default(),
            batch: Vec::new(),
            log: LogLimiter::new(LogRate::FAILURES),
        }
    }

    async fn run(mut self, mut spans: mpsc::Receiver<Vec<Span>>, stopped: oneshot::Receiver<()>) {
        let sending = async {
            while self.fill(&mut spans).await {
                self.deliver().await;
            }
        };
        tokio::select! {
            () = sending => {}
            _ = stopped => {}
        }
        if timeout(FLUSH_MAX, self.flush(&mut spans)).await.is_err() {
            while let Ok(more) = spans.try_recv() {
                self.batch.extend(more);
            }
            self.drop_batch();
        }
    }

    /// Sends what waits, each batch once. One that was being sent is sent once more; a collector
    /// knows its spans by their IDs.
    async fn flush(&mut self, spans: &mut mpsc::Receiver<Vec<Span>>) {
        loop {
            while self.batch.len() < BATCH_SPANS
                && let Ok(more) = spans.try_recv()
            {
                self.batch.extend(more);
            }
            if self.batch.is_empty() {
                return;
            }
            match self.post(self.body()).await {
                Ok(answer) => self.accept(&answer),
                Err(_) => self.drop_batch(),
            }
        }
    }

    /// Waits for spans, then for more until the batch is full. Returns whether there are any.
    async fn fill(&mut self, spans: &mut mpsc::Receiver<Vec<Span>>) -> bool {
        let Some(first) = spans.recv().await else {
            return false;
        };
        self.batch.extend(first);
        let filling = async {
            while self.batch.len() < BATCH_SPANS
                && let Some(more) = spans.recv().await
            {
                self.batch.extend(more);
            }
        };
        // What has come by then is a batch, too.
        let _is_full = timeout(BATCH_DELAY, filling).await.is_ok();
        true
    }

    /// Sends the batch until the collector takes it, a few times at most.
    async fn deliver(&mut self) {
        let body = self.body();
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        loop {
            let sent = timeout(POST_MAX, self.post(body.clone())).await;
            let late = |_| Err(NotTaken::for_now("it does not answer in time".to_owned()));
            let not_taken = match sent.unwrap_or_else(late) {
                Ok(answer) => return self.accept(&answer),
                Err(not_taken) => not_taken,
            };
            self.warn(&not_taken);
            backoff.fail();
            if !not_taken.is_passing || backoff.failures() >= ATTEMPTS_MAX {
                return self.drop_batch();
            }
            sleep(backoff.jittered_wait(&*self.random)).await;
        }
    }

    fn body(&self) -> Bytes {
        otlp::body(&self.resource, &self.batch).into()
    }

    /// Counts the batch that the collector has accepted, and forgets it.
    fn accept(&mut self, answer: &PartialSuccess) {
        let spans = self.batch.len() as u64;
        let rejected = u64::try_from(answer.rejected_spans).unwrap_or(0).min(spans);
        let counts = &self.counts;
        let exported = spans - rejected;
        counts.exported.fetch_add(exported, Ordering::Relaxed);
        counts.rejected.fetch_add(rejected, Ordering::Relaxed);
        self.batch.clear();
        if rejected > 0 || !answer.error_message.is_empty() {
            self.warn_of_part(rejected, &answer.error_message);
        } else if self.log.forget_last() {
            tracing::info!(collector = %self.collector, "the collector takes traces again");
        }
    }

    /// Counts the batch that the collector did not take, and forgets it.
    fn drop_batch(&mut self) {
        let spans = self.batch.len() as u64;
        self.counts.not_taken.fetch_add(spans, Ordering::Relaxed);
        self.batch.clear();
    }

    fn warn_of_part(&mut self, rejected: u64, reason: &str) {
        if self.log.admits_failure(reason, self.clock.monotonic()) {
            tracing::warn!(
                collector = %self.collector,
                rejected,
                reason = ?reason,
                "the collector has taken traces, but not all of their spans, or it warns"
            );
        }
    }

    fn warn(&mut self, not_taken: &NotTaken) {
        let reason = &*not_taken.reason;
        if self.log.admits_failure(reason, self.clock.monotonic()) {
            tracing::warn!(
                collector = %self.collector,
                reason,
                "the collector does not take traces: their spans are dropped if that lasts; \
                 requests go on as before"
            );
        }
    }

    /// Sends a body. Returns what the collector says of it, having accepted it.
    async fn post(&self, body: Bytes) -> Result<PartialSuccess, NotTaken> {
        let (host, port) = (self.collector.host(), self.collector.port());
        let addresses = self.resolver.addresses(host, port).await?;
        let socket = dial::connect(&addresses).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
        let connection = tokio::spawn(connection);
        let request = Request::post("/v1/traces")
            .header(HOST, self.collector.authority())
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(Once(Some(body)))
            .map_err(|error| NotTaken {
                reason: error.to_string(),
                is_passing: false,
            })?;
        let answered = async {
            let answer = sender.send_request(request).await?;
            check_status(answer.status())?;
            let body = short_body(answer.into_body()).await;
            Ok(PartialSuccess::read(&body))
        };
        let answered = answered.await;
        connection.abort();
        answered
    }
}

/// The body of an answer as far as it comes; nothing of a long one. The collector has accepted the
/// batch whatever becomes of its answer.
async fn short_body(mut body: Incoming) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let data = frame.into_data().unwrap_or_default();
        if bytes.len() + data.len() > ANSWER_BYTES_MAX {
            return Vec::new();
        }
        bytes.extend_from_slice(&data);
    }
    bytes
}

/// Whether the collector has accepted the batch.
fn check_status(status: StatusCode) -> Result<(), NotTaken> {
    if status.is_success() {
        return Ok(());
    }
    let is_passing = matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    );
    Err(NotTaken {
        reason: format!("it answers {status}"),
        is_passing,
    })
}

/// A body in one piece.
struct Once(Option<Bytes>);

impl Body for Once {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
