//! A network in memory, and nodes on it that can be frozen.

use super::*;

/// A network with one address. The other end of each dialled stream comes out of a
/// channel.
pub(crate) struct Network {
    arrivals: mpsc::UnboundedSender<DuplexStream>,
    refuses: AtomicBool,
    pub(crate) dialled: AtomicUsize,
    dialled_at: Mutex<Vec<Instant>>,
}

impl Network {
    pub(crate) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<DuplexStream>) {
        let (arrivals, receiver) = mpsc::unbounded_channel();
        let network = Self {
            arrivals,
            refuses: AtomicBool::new(false),
            dialled: AtomicUsize::new(0),
            dialled_at: Mutex::default(),
        };
        (Arc::new(network), receiver)
    }

    pub(crate) fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::Relaxed);
    }

    /// The times between one attempt to dial and the next.
    pub(crate) fn waits(&self) -> Vec<Duration> {
        let times = self.dialled_at.lock().unwrap();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
}

pub(crate) fn replica_url() -> NodeUrl {
    "http://replica.test:7".parse().unwrap()
}

impl Transport for Network {
    fn dial(&self, url: &NodeUrl) -> Dialing {
        assert_eq!(*url, replica_url());
        self.dialled.fetch_add(1, Ordering::Relaxed);
        self.dialled_at.lock().unwrap().push(Instant::now());
        let result = if self.refuses.load(Ordering::Relaxed) {
            Err(io::ErrorKind::ConnectionRefused.into())
        } else {
            let (ours, theirs) = tokio::io::duplex(256 << 10);
            match self.arrivals.send(theirs) {
                Ok(()) => Ok(Box::new(ours) as Box<dyn Stream>),
                Err(_) => Err(io::ErrorKind::ConnectionRefused.into()),
            }
        };
        Box::pin(async { result })
    }
}

/// Freezes a node: while it is on, the node neither reads nor writes.
#[derive(Clone, Default)]
pub(crate) struct FreezeSwitch(Arc<(AtomicBool, Mutex<Vec<Waker>>)>);

impl FreezeSwitch {
    pub(crate) fn set(&self, is_frozen: bool) {
        self.0.0.store(is_frozen, Ordering::Relaxed);
        for waker in self.0.1.lock().unwrap().drain(..) {
            waker.wake();
        }
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        if !self.0.0.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        self.0.1.lock().unwrap().push(cx.waker().clone());
        Poll::Pending
    }
}

/// A stream of a node that can be frozen.
pub(crate) struct Freezable(pub(crate) DuplexStream, pub(super) FreezeSwitch);

impl AsyncRead for Freezable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        std::task::ready!(self.1.poll(cx));
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Freezable {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.1.poll(cx));
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
