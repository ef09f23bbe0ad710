//! A socket, with TLS over it for a target with `https://`.
//!
//! TLS is the library's own buffered form: it keeps what could not be written yet, and what
//! has arrived and was not read yet. So a socket with TLS may have bytes to read or to write
//! of which the system knows nothing.

use crate::Error;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// How TLS is spoken with a target.
#[derive(Clone, Debug)]
pub(crate) struct TargetTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TargetTls {
    /// TLS with the server of this host, which its certificate must name.
    ///
    /// # Errors
    /// [`Error::Plan`] for a host that no certificate can name.
    pub(crate) fn new(config: Arc<ClientConfig>, host: &str) -> Result<Self, Error> {
        let name = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        match ServerName::try_from(name.to_owned()) {
            Ok(name) => Ok(Self { config, name }),
            Err(_) => Err(Error::plan(format!(
                "no certificate can be for the host {host}"
            ))),
        }
    }
}

/// A socket. Both directions are those of its `TcpStream`: they block, or do not.
pub(crate) struct Socket {
    stream: TcpStream,
    tls: Option<Box<Tls>>,
}

struct Tls {
    connection: ClientConnection,
    /// Bytes that have arrived and were not read.
    unread: usize,
}

impl Socket {
    /// A socket whose handshake, if it has TLS, has not begun.
    ///
    /// # Errors
    /// TLS cannot begin.
    pub(crate) fn new(stream: TcpStream, tls: Option<&TargetTls>) -> io::Result<Self> {
        let tls = match tls {
            None => None,
            Some(TargetTls { config, name }) => {
                let connection = ClientConnection::new(Arc::clone(config), name.clone());
                Some(Box::new(Tls {
                    connection: connection.map_err(io::Error::other)?,
                    unread: 0,
                }))
            }
        };
        Ok(Self { stream, tls })
    }

    /// The connection below it.
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Goes on with the handshake as far as the socket lets it. Returns whether it is done,
    /// as it is at once without TLS.
    ///
    /// # Errors
    /// It failed; an error of rustls in it says why.
    pub(crate) fn shake_hands(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else {
            return Ok(true);
        };
        loop {
            if !is_ready(tls.send(&mut self.stream))? {
                return Ok(false);
            }
            if !tls.connection.is_handshaking() {
                return Ok(true);
            }
            if !is_ready(tls.receive(&mut self.stream))? {
                return Ok(false);
            }
        }
    }

    /// Whether bytes wait to be written, although all were taken.
    pub(crate) fn has_unsent(&self) -> bool {
        self.tls
            .as_ref()
            .is_some_and(|tls| tls.connection.wants_write())
    }

    /// Whether bytes have arrived of which the system does not know any more.
    pub(crate) fn has_unread(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.unread > 0)
    }
}

/// Whether the socket was ready for what was done.
fn is_ready<T>(done: io::Result<T>) -> io::Result<bool> {
    match done {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

impl Tls {
    /// Sends all that waits.
    fn send(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(stream) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads once from the stream, and decrypts what has come. Returns whether more may come.
    fn receive(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        let bytes = self.connection.read_tls(stream)?;
        match self.connection.process_new_packets() {
            Ok(state) => {
                self.unread = state.plaintext_bytes_to_read();
                match bytes {
                    0 if self.connection.is_handshaking() => {
                        Err(io::ErrorKind::UnexpectedEof.into())
                    }
                    bytes => Ok(bytes > 0 && !state.peer_has_closed()),
                }
            }
            Err(error) => {
                // The alert that says why; the connection is lost anyway.
                let _ = self.connection.write_tls(stream);
                Err(io::Error::new(io::ErrorKind::InvalidData, error))
            }
        }
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return self.stream.read(into);
        };
        // What has come may be for TLS alone, such as the tickets of a session.
        while tls.unread == 0 && tls.receive(&mut self.stream)? {}
        let bytes = tls.connection.reader().read(into)?;
        tls.unread = tls.unread.saturating_sub(bytes);
        Ok(bytes)
    }
}

impl Write for Socket {
    /// With TLS it may take bytes without sending all of them.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return self.stream.write(bytes);
        };
        tls.send(&mut self.stream)?;
        let taken = tls.connection.writer().write(bytes)?;
        is_ready(tls.send(&mut self.stream)).map(|_| taken)
    }

    /// Sends what was taken and not sent.
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => tls.send(&mut self.stream),
            None => Ok(()),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests;
