//! The bytes of a connection on their way to and from the kernel: plain, or encrypted by
//! TLS.
//!
//! rustls holds what it has encrypted and the kernel has not taken, up to its own bound of
//! 64 KiB, and what it has received of a record, up to 18 KiB, or of a message of the
//! handshake in several records, up to 64 KiB. The first counts like other unsent bytes
//! (`channel`). The second takes memory that the connections of a runtime share, beyond the
//! first few KiB and as long as the record is not complete ([`RecordMemory`]).

use super::slow_clients::ConnectionProgress;
use crate::admission::shedding::{ConnectionQuota, Shed, Usage};
use crate::config::bounds::HANDSHAKE_BYTES_MAX;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::rustls::ServerConnection;
use tokio_rustls::server::TlsStream;

/// How many bytes of an incomplete record do not count: each TLS connection has a buffer
/// of about that size in any case.
const RECORD_FREE_BYTES: usize = 4 << 10;

/// By how many bytes at a time rustls extends the buffer of a connection.
const RECORD_STEP_BYTES: usize = 4 << 10;

/// A connection as its channel reads and writes it.
pub(crate) enum Wire {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS.
    Encrypted(Box<EncryptedStream>),
}

/// A TLS stream, and the memory that its incomplete record takes.
pub(crate) struct EncryptedStream {
    stream: TlsStream<CountedStream>,
    records: RecordMemory,
    /// What [`CountedStream::received`] was when the last plaintext came.
    counted: u64,
}

/// The memory for incomplete records, as one connection takes it.
///
/// A connection that needs some always gets it, and another one is shed if there is too
/// little. So clients that leave records incomplete do not disturb those that send.
pub(crate) struct RecordMemory {
    quota: Rc<ConnectionQuota>,
    owner: IpAddr,
    holder: Weak<dyn Shed>,
    usage: Option<Usage>,
}

impl RecordMemory {
    /// That of a connection of `owner`.
    pub(crate) fn new(
        quota: Rc<ConnectionQuota>,
        owner: IpAddr,
        progress: &Rc<ConnectionProgress>,
    ) -> Self {
        let holder: Rc<dyn Shed> = Rc::<ConnectionProgress>::clone(progress);
        Self {
            quota,
            owner,
            holder: Rc::downgrade(&holder),
            usage: None,
        }
    }

    /// So many bytes of a record are here, and the record is not complete.
    fn hold(&mut self, bytes: usize) {
        let bytes = bytes.min(HANDSHAKE_BYTES_MAX);
        if bytes <= RECORD_FREE_BYTES {
            return;
        }
        let counted = (bytes - RECORD_FREE_BYTES).next_multiple_of(RECORD_STEP_BYTES);
        if let Some(usage) = &self.usage {
            usage.grow_to(counted);
        } else {
            let holder = Weak::clone(&self.holder);
            self.usage = Some(self.quota.take(self.owner, counted, holder));
        }
    }

    /// The record is complete.
    fn leave(&mut self) {
        self.usage = None;
    }
}

impl Wire {
    /// The wire over a TLS stream whose handshake is over.
    pub(crate) fn encrypted(stream: TlsStream<CountedStream>, records: RecordMemory) -> Self {
        Self::Encrypted(Box::new(EncryptedStream {
            counted: stream.get_ref().0.received,
            stream,
            records,
        }))
    }

    /// The socket.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Encrypted(encrypted) => &encrypted.stream.get_ref().0.stream,
        }
    }

    /// The state of TLS, if there is TLS.
    pub(crate) fn tls(&self) -> Option<&ServerConnection> {
        match self {
            Self::Plain(_) => None,
            Self::Encrypted(encrypted) => Some(encrypted.stream.get_ref().1),
        }
    }

    /// The stream of a connection that becomes a peer's.
    pub(crate) fn into_stream(self) -> Box<dyn peer::Stream> {
        match self {
            Self::Plain(stream) => Box::new(stream),
            Self::Encrypted(encrypted) => Box::new(encrypted.stream),
        }
    }

    /// Reads at most `bytes_max` bytes and passes them to `take`, by way of `scratch` if
    /// they lie nowhere else. Returns their number, 0 at the end of the stream.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        bytes_max: usize,
        scratch: &mut [u8],
        take: impl FnOnce(&[u8]),
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => {
                let bytes_max = bytes_max.min(scratch.len());
                let mut buffer = ReadBuf::new(&mut scratch[..bytes_max]);
                ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;
                take(buffer.filled());
                Poll::Ready(Ok(buffer.filled().len()))
            }
            Self::Encrypted(encrypted) => {
                let plaintext = ready!(encrypted.poll_fill(cx))?;
                let bytes = plaintext.len().min(bytes_max);
                take(&plaintext[..bytes]);
                Pin::new(&mut encrypted.stream).consume(bytes);
                Poll::Ready(Ok(bytes))
            }
        }
    }

    /// Whether a part of a record was received, and nothing that could be read.
    pub(crate) fn has_incomplete_record(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Encrypted(encrypted) => encrypted.incomplete_bytes() > 0,
        }
    }

    /// Whether the other side has closed its side, as far as the node can tell without
    /// taking anything from the stream. Wakes `cx` when something changes.
    pub(crate) fn has_ended(&mut self, cx: &mut Context<'_>) -> bool {
        match self {
            Self::Plain(stream) => {
                let mut next = [0];
                match stream.poll_peek(cx, &mut ReadBuf::new(&mut next)) {
                    Poll::Ready(Ok(bytes)) => bytes == 0,
                    Poll::Ready(Err(_)) => true,
                    Poll::Pending => false,
                }
            }
            Self::Encrypted(encrypted) => match encrypted.poll_fill(cx) {
                Poll::Ready(Ok(plaintext)) => plaintext.is_empty(),
                Poll::Ready(Err(_)) => true,
                Poll::Pending => false,
            },
        }
    }

    /// Writes, or encrypts to be written. Slices share records.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match (self, slices) {
            // One slice is cheaper without a vector.
            (Self::Plain(stream), [slice]) => Pin::new(stream).poll_write(cx, slice),
            (Self::Plain(stream), _) => Pin::new(stream).poll_write_vectored(cx, slices),
            (Self::Encrypted(encrypted), [slice]) => {
                Pin::new(&mut encrypted.stream).poll_write(cx, slice)
            }
            (Self::Encrypted(encrypted), _) => {
                Pin::new(&mut encrypted.stream).poll_write_vectored(cx, slices)
            }
        }
    }

    /// Whether bytes are encrypted that the kernel has not taken.
    pub(crate) fn is_behind(&self) -> bool {
        self.tls().is_some_and(|tls| tls.wants_write())
    }

    /// Writes what is encrypted.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Encrypted(encrypted) => Pin::new(&mut encrypted.stream).poll_flush(cx),
        }
    }

    /// Closes the connection for writing.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Encrypted(encrypted) => Pin::new(&mut encrypted.stream).poll_shutdown(cx),
        }
    }
}

impl EncryptedStream {
    /// What was received of a record that is not complete, in bytes.
    fn incomplete_bytes(&self) -> u64 {
        self.stream.get_ref().0.received - self.counted
    }

    /// The plaintext that was received and not taken; none at the end of the stream.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let filled = Pin::new(&mut self.stream).poll_fill_buf(cx);
        if let Poll::Ready(result) = filled {
            result?;
            self.records.leave();
            self.counted = self.stream.get_ref().0.received;
            // The borrow of the first call would last too long; this one is ready at once.
            return Pin::new(&mut self.stream).poll_fill_buf(cx);
        }
        let incomplete_bytes = usize::try_from(self.incomplete_bytes()).unwrap_or(usize::MAX);
        self.records.hold(incomplete_bytes);
        Poll::Pending
    }
}

/// A socket that counts what is received.
pub(crate) struct CountedStream {
    stream: TcpStream,
    /// In bytes.
    received: u64,
}

impl CountedStream {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            received: 0,
        }
    }

    /// The socket.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.stream
    }
}

impl AsyncRead for CountedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        self.received += (buffer.filled().len() - before) as u64;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for CountedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::connection_slots::ConnectionScope;

    fn connection(quota: &Rc<ConnectionQuota>, last: u8) -> (RecordMemory, Rc<ConnectionProgress>) {
        let progress = Rc::new(ConnectionProgress::new(
            Rc::default(),
            ConnectionScope::AnyRequest,
        ));
        let owner = IpAddr::from([10, 0, 0, last]);
        (
            RecordMemory::new(Rc::clone(quota), owner, &progress),
            progress,
        )
    }

    #[test]
    fn an_incomplete_record_counts_as_rustls_buffers_it() {
        let quota = ConnectionQuota::new(1 << 20, "records");
        let (mut records, _progress) = connection(&quota, 1);
        for (bytes, counted) in [
            (0, 0),
            (4 << 10, 0),
            ((4 << 10) + 1, 4 << 10),
            (16 << 10, 12 << 10),
            // A message of the handshake in several records.
            (60 << 10, 56 << 10),
            (1 << 20, 60 << 10),
        ] {
            records.hold(bytes);
            assert_eq!(quota.used(), counted, "{bytes}");
        }
        records.leave();
        assert_eq!(quota.used(), 0);
        records.hold(5 << 10);
        drop(records);
        assert_eq!(quota.used(), 0);
    }

    #[test]
    fn clients_that_leave_records_incomplete_cut_off_no_client_that_sends() {
        let quota = ConnectionQuota::new(128 << 10, "records");
        let mut stalled: Vec<_> = (0..100).map(|_| connection(&quota, 1)).collect();
        for (records, _) in &mut stalled {
            records.hold(16 << 10);
        }
        let (mut sending, progress) = connection(&quota, 2);
        for _ in 0..10 {
            sending.hold(9 << 10);
            sending.hold(15 << 10);
            sending.leave();
        }
        assert!(!progress.is_cut());
        let cut = stalled.iter().filter(|(_, progress)| progress.is_cut());
        assert_eq!(cut.count(), 91, "ten fit, and one of them is shed");
        assert!(quota.used() <= 128 << 10);
    }
}
