//! Faults that `kvorum dev` injects into the links of a node for demonstrations: it cuts them, or
//! makes them slow. A node that `dev` did not start has no such faults.
//!
//! They sit between the node and the streams to and from its peers, so clients still reach the
//! node.
//!
//! ```text
//!   peers --> stream --> held for the delay --> frames --> node
//!   peers <-- stream <------------------------- frames <-- node
//! ```
//!
//! - While the links are **cut** no byte passes in either direction, and no stream breaks: as
//!   with a network that loses all packets, peers notice it by the silence.
//! - While they are **slow** each byte from a peer reaches the node late. So the node answers
//!   its peers late, and takes their answers late.
//!
//! Nothing is lost or reordered by either.

use crate::transport::{Dialing, Stream, Transport};
use bytes::Bytes;
use cluster::NodeUrl;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};

/// How much a slow stream holds at most, in bytes. It reads no more until some of that is due.
const HELD_BYTES_MAX: usize = 1 << 20;

/// What a part that is held takes beside its bytes, at most.
const PART_BYTES: usize = 64;

/// How many bytes a slow stream reads at a time.
const PART_READ_BYTES: usize = 16 << 10;

/// The faults of a node's links, which can be set at any time.
pub struct LinkFaults {
    now: watch::Sender<Faults>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    is_cut: bool,
    delay: Duration,
}

impl LinkFaults {
    /// Links without faults.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let (now, _) = watch::channel(Faults::default());
        Arc::new(Self { now })
    }

    /// Cuts the links, or joins them again.
    pub fn set_cut(&self, is_cut: bool) {
        self.now.send_modify(|faults| faults.is_cut = is_cut);
    }

    /// Has what peers send reach the node so late; zero for at once.
    pub fn set_delay(&self, delay: Duration) {
        self.now.send_modify(|faults| faults.delay = delay);
    }

    /// A transport that has these faults, and is `transport` but for them.
    #[must_use]
    pub fn around(self: &Arc<Self>, transport: Arc<dyn Transport>) -> Arc<dyn Transport> {
        Arc::new(FaultyTransport {
            transport,
            faults: Arc::clone(self),
        })
    }

    /// Waits until the links are not cut.
    async fn joined(self: Arc<Self>) {
        let mut faults = self.now.subscribe();
        // It cannot fail: `self` keeps the sender.
        let _joined = faults.wait_for(|now| !now.is_cut).await.is_ok();
    }

    /// The faults, once the links are not cut. `wait` is what this direction of a stream waits
    /// for meanwhile.
    fn poll_joined(self: &Arc<Self>, wait: &mut Wait, cx: &mut Context<'_>) -> Poll<Faults> {
        loop {
            let faults = *self.now.borrow();
            if !faults.is_cut {
                *wait = None;
                return Poll::Ready(faults);
            }
            let joined = wait.get_or_insert_with(|| Box::pin(Arc::clone(self).joined()));
            ready!(joined.as_mut().poll(cx));
            *wait = None;
        }
    }
}

/// Ends when the links are joined again. None as long as nobody waits for that.
type Wait = Option<Pin<Box<dyn Future<Output = ()>>>>;

/// A transport whose streams have faults.
struct FaultyTransport {
    transport: Arc<dyn Transport>,
    faults: Arc<LinkFaults>,
}

impl FaultyTransport {
    fn with_faults(&self, dialing: Dialing) -> Dialing {
        let faults = Arc::clone(&self.faults);
        Box::pin(async move {
            Arc::clone(&faults).joined().await;
            let stream: Box<dyn Stream> = Box::new(FaultyStream::new(dialing.await?, faults));
            Ok(stream)
        })
    }
}

impl Transport for FaultyTransport {
    fn dial(&self, url: &NodeUrl) -> Dialing {
        self.with_faults(self.transport.dial(url))
    }

    fn dial_for_lists(&self, url: &NodeUrl) -> Dialing {
        self.with_faults(self.transport.dial_for_lists(url))
    }

    fn accept(&self, stream: Box<dyn Stream>) -> Box<dyn Stream> {
        let stream = self.transport.accept(stream);
        Box::new(FaultyStream::new(stream, Arc::clone(&self.faults)))
    }
}

/// A stream to or from a peer.
struct FaultyStream {
    stream: Box<dyn Stream>,
    faults: Arc<LinkFaults>,
    reading: Wait,
    writing: Wait,
    held: DelayedInput,
}

impl FaultyStream {
    fn new(stream: Box<dyn Stream>, faults: Arc<LinkFaults>) -> Self {
        Self {
            stream,
            faults,
            reading: None,
            writing: None,
            held: DelayedInput::default(),
        }
    }
}

impl AsyncRead for FaultyStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let faults = ready!(this.faults.poll_joined(&mut this.reading, cx));
        if faults.delay.is_zero() && this.held.is_empty() {
            return Pin::new(&mut this.stream).poll_read(cx, buffer);
        }
        this.held.gather(&mut this.stream, faults.delay, cx);
        this.held.poll_hand_over(cx, buffer)
    }
}

impl AsyncWrite for FaultyStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        ready!(this.faults.poll_joined(&mut this.writing, cx));
        Pin::new(&mut this.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(this.faults.poll_joined(&mut this.writing, cx));
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// What has arrived on a slow stream and may not be read yet, the oldest first.
#[derive(Default)]
struct DelayedInput {
    parts: VecDeque<(Instant, Bytes)>,
    /// What the parts take.
    bytes: usize,
    /// How the stream has ended, once it has.
    end: Option<io::Result<()>>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl DelayedInput {
    fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.end.is_none()
    }

    /// Takes what has arrived, as far as there is room. It may be read after the delay.
    fn gather(&mut self, stream: &mut Box<dyn Stream>, delay: Duration, cx: &mut Context<'_>) {
        let mut bytes = [0; PART_READ_BYTES];
        while self.end.is_none() && self.bytes < HELD_BYTES_MAX {
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    let part = Bytes::copy_from_slice(buffer.filled());
                    self.bytes += part.len() + PART_BYTES;
                    self.parts.push_back((Instant::now() + delay, part));
                }
                Poll::Ready(end) => self.end = Some(end),
                Poll::Pending => return,
            }
        }
    }

    /// Hands over what may be read by now.
    fn poll_hand_over(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let Some((due, part)) = self.parts.front_mut() else {
                // Without an end, the stream wakes the reader when something arrives.
                return match self.end.take() {
                    Some(end) => Poll::Ready(end),
                    None => Poll::Pending,
                };
            };
            if *due <= Instant::now() {
                let bytes = part.len().min(buffer.remaining());
                buffer.put_slice(&part.split_to(bytes));
                self.bytes -= bytes;
                if part.is_empty() {
                    self.bytes -= PART_BYTES;
                    self.parts.pop_front();
                }
                return Poll::Ready(Ok(()));
            }
            let due = *due;
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
            if timer.deadline() != due {
                timer.as_mut().reset(due);
            }
            ready!(timer.as_mut().poll(cx));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{sleep, timeout};

    const DELAY: Duration = Duration::from_millis(250);

    /// More than any of these tests waits for.
    const LONG: Duration = Duration::from_secs(3600);

    /// A transport whose only stream leads nowhere.
    struct NoTransport;

    impl Transport for NoTransport {
        fn dial(&self, _url: &NodeUrl) -> Dialing {
            Box::pin(async {
                let stream: Box<dyn Stream> = Box::new(duplex(1).0);
                Ok(stream)
            })
        }
    }

    /// The node's end of a stream, and the peer's.
    fn stream(faults: &Arc<LinkFaults>, capacity: usize) -> (Box<dyn Stream>, DuplexStream) {
        let (ours, theirs) = duplex(capacity);
        let transport = faults.around(Arc::new(NoTransport));
        (transport.accept(Box::new(ours)), theirs)
    }

    async fn read(stream: &mut (impl AsyncRead + Unpin), bytes: usize) -> String {
        let mut read = vec![0; bytes];
        stream.read_exact(&mut read).await.unwrap();
        String::from_utf8(read).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_passes_a_cut_either_way_and_all_of_it_passes_later() {
        let faults = LinkFaults::new();
        let (mut node, mut peer) = stream(&faults, 64);
        faults.set_cut(true);
        peer.write_all(b"to the node").await.unwrap();
        assert!(timeout(LONG, node.read_u8()).await.is_err());
        assert!(timeout(LONG, node.write_all(b"x")).await.is_err());
        assert!(timeout(LONG, peer.read_u8()).await.is_err());
        faults.set_cut(false);
        assert_eq!(read(&mut node, 11).await, "to the node");
        node.write_all(b"back").await.unwrap();
        assert_eq!(read(&mut peer, 4).await, "back");
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_go_on_when_the_links_are_joined() {
        let faults = LinkFaults::new();
        faults.set_cut(true);
        let (mut node, mut peer) = stream(&faults, 64);
        let transport = faults.around(Arc::new(NoTransport));
        let url = "http://a:1".parse().unwrap();
        assert!(timeout(LONG, transport.dial(&url)).await.is_err());
        let dialling = transport.dial(&url);
        let join = async {
            sleep(DELAY).await;
            faults.set_cut(false);
        };
        let exchange = async {
            node.write_all(b"hello").await.unwrap();
            read(&mut peer, 5).await
        };
        let begun = Instant::now();
        let (dialled, heard, ()) = tokio::join!(dialling, exchange, join);
        assert!(dialled.is_ok());
        assert_eq!(heard, "hello");
        assert!(begun.elapsed() >= DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_link_delays_each_byte_alike_and_then_its_end() {
        let faults = LinkFaults::new();
        faults.set_delay(DELAY);
        let (mut node, mut peer) = stream(&faults, 64);
        let begun = Instant::now();
        let gap = DELAY / 10;
        let told = async {
            for word in [b"one", b"two"] {
                peer.write_all(word).await.unwrap();
                sleep(gap).await;
            }
            drop(peer);
        };
        let heard = async {
            let mut heard = Vec::new();
            for _ in 0..2 {
                let word = read(&mut node, 3).await;
                heard.push((word, begun.elapsed()));
            }
            assert_eq!(node.read(&mut [0; 1]).await.unwrap(), 0);
            heard
        };
        let (heard, ()) = tokio::join!(heard, told);
        // A timer of tokio fires at the next whole millisecond.
        let near = |at: Duration, expected: Duration| at.abs_diff(expected) <= DELAY / 100;
        assert_eq!((&*heard[0].0, &*heard[1].0), ("one", "two"));
        assert!(near(heard[0].1, DELAY), "{heard:?}");
        assert!(near(heard[1].1, DELAY + gap), "{heard:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_link_that_is_fast_again_keeps_the_order() {
        let faults = LinkFaults::new();
        faults.set_delay(DELAY);
        let (mut node, mut peer) = stream(&faults, 64);
        peer.write_all(b"one").await.unwrap();
        assert!(timeout(DELAY / 2, node.read_u8()).await.is_err());
        faults.set_delay(Duration::ZERO);
        peer.write_all(b"two").await.unwrap();
        assert_eq!(read(&mut node, 6).await, "onetwo");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_link_holds_no_more_than_its_bound() {
        let faults = LinkFaults::new();
        faults.set_delay(LONG);
        let (mut node, mut peer) = stream(&faults, 4 * HELD_BYTES_MAX);
        peer.write_all(&vec![7; 3 * HELD_BYTES_MAX]).await.unwrap();
        assert!(timeout(DELAY, node.read_u8()).await.is_err());
        // What it has not taken fills the pipe, so that the peer can send no more.
        let rest = vec![7; 3 * HELD_BYTES_MAX];
        assert!(timeout(DELAY, peer.write_all(&rest)).await.is_err());
        let mut all = vec![0; 3 * HELD_BYTES_MAX];
        node.read_exact(&mut all).await.unwrap();
        assert!(all.iter().all(|byte| *byte == 7));
    }
}
