//! A connection, seen from either side.

use crate::message::{Fields, Reply, Request, find};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ConnectionCommon, SideData, StreamOwned};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::ops::DerefMut;
use std::sync::Arc;
use std::time::Duration;

/// How long a connection waits for the other side. Nothing takes nearly as long, even on a
/// busy machine: so a test that would wait for ever fails.
pub const WAIT_MAX: Duration = Duration::from_secs(180);

/// How many bytes are read ahead at most.
const BUFFER_BYTES: usize = 64 << 10;

/// The bytes of a connection.
pub trait Stream: Read + Write + Send {
    /// The socket below.
    fn socket(&self) -> &TcpStream;

    /// Says above the socket that nothing follows; fails as a write does.
    fn close_notify(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl<C, S> Stream for StreamOwned<C, TcpStream>
where
    C: DerefMut<Target = ConnectionCommon<S>> + Send,
    S: SideData + Send,
{
    fn socket(&self) -> &TcpStream {
        &self.sock
    }

    fn close_notify(&mut self) -> io::Result<()> {
        self.conn.send_close_notify();
        self.flush()
    }
}

/// A connection.
///
/// # Errors
/// All of it fails as its socket does, after [`WAIT_MAX`] at the latest. What reads a message
/// fails with [`UnexpectedEof`](io::ErrorKind) if the connection ends before the message does,
/// and panics if the message is malformed.
pub struct Connection {
    stream: BufReader<Box<dyn Stream>>,
}

impl Connection {
    /// Connects to a server.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::over(TcpStream::connect_timeout(&address, WAIT_MAX)?)
    }

    /// Connects to a server whose certificate is for its IP address. The handshake comes with
    /// the first request.
    pub fn connect_tls(address: SocketAddr, config: Arc<ClientConfig>) -> io::Result<Self> {
        let tls = ClientConnection::new(config, ServerName::from(address.ip()));
        let socket = TcpStream::connect_timeout(&address, WAIT_MAX)?;
        Self::over(StreamOwned::new(tls.map_err(io::Error::other)?, socket))
    }

    /// A connection that exists.
    pub fn over(stream: impl Stream + 'static) -> io::Result<Self> {
        let socket = stream.socket();
        socket.set_read_timeout(Some(WAIT_MAX))?;
        socket.set_write_timeout(Some(WAIT_MAX))?;
        socket.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::with_capacity(BUFFER_BYTES, Box::new(stream)),
        })
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes.as_ref())
    }

    /// Closes this side.
    pub fn finish(&mut self) -> io::Result<()> {
        self.stream.get_mut().close_notify()?;
        self.stream.get_ref().socket().shutdown(Shutdown::Write)
    }

    /// Sends a request with further header lines, each with its line end, and reads the
    /// response.
    pub fn request(
        &mut self,
        method: &str,
        target: &str,
        headers: &str,
        body: &[u8],
    ) -> io::Result<Reply> {
        let length = match body.len() {
            0 if method != "PUT" => String::new(),
            bytes => format!("content-length: {bytes}\r\n"),
        };
        let head =
            format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\n{headers}{length}\r\n");
        self.send([head.as_bytes(), body].concat())?;
        self.reply_to(method)
    }

    /// Reads the response to a request with this method.
    pub fn reply_to(&mut self, method: &str) -> io::Result<Reply> {
        let (status, headers) = self.head()?;
        let has_body = method != "HEAD" && !matches!(status, 100..200 | 204 | 304);
        let (body, chunks, trailers) = if has_body {
            self.body(&headers, Self::rest)?
        } else {
            Default::default()
        };
        Ok(Reply {
            status,
            headers,
            body,
            chunks,
            trailers,
        })
    }

    /// Reads the status and the header fields of a response, also those of an interim one.
    pub fn head(&mut self) -> io::Result<(u16, Fields)> {
        let line = self.line()?;
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let ["HTTP/1.1" | "HTTP/1.0", status, _] = words[..] else {
            panic!("{line:?}");
        };
        assert_eq!(status.len(), 3, "{line:?}");
        Ok((status.parse().unwrap(), self.fields()?))
    }

    /// Reads a chunk of a message whose head was read; [`None`] at its end. Panics if there are
    /// trailers.
    pub fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let chunk = self.chunk_or_end()?;
        if chunk.is_none() {
            assert_eq!(self.fields()?, []);
        }
        Ok(chunk)
    }

    /// Reads so many bytes.
    pub fn take(&mut self, bytes: usize) -> io::Result<Vec<u8>> {
        let mut taken = vec![0; bytes];
        self.stream.read_exact(&mut taken)?;
        Ok(taken)
    }

    /// Reads everything up to the end of the connection, which may be a reset.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Err(error) if error.kind() != io::ErrorKind::ConnectionReset => Err(error),
            _ => Ok(rest),
        }
    }

    /// Reads a request.
    pub fn receive(&mut self) -> io::Result<Request> {
        let mut request = self.receive_head()?;
        self.receive_body(&mut request)?;
        Ok(request)
    }

    /// Reads a request up to its body, whose chunks come with [`Self::chunk`].
    pub fn receive_head(&mut self) -> io::Result<Request> {
        let line = self.line()?;
        let words: Vec<&str> = line.split(' ').collect();
        let [method, target, "HTTP/1.1"] = words[..] else {
            panic!("{line:?}");
        };
        Ok(Request {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: self.fields()?,
            body: Vec::new(),
        })
    }

    /// Reads the body of a request whose head was read.
    pub fn receive_body(&mut self, request: &mut Request) -> io::Result<()> {
        let (body, _, _) = self.body(&request.headers, |_| Ok(Vec::new()))?;
        request.body = body;
        Ok(())
    }

    /// Reads a body as these fields tell its length, or by `otherwise` if they do not: its
    /// bytes, its chunks, and the trailers.
    fn body(
        &mut self,
        headers: &Fields,
        otherwise: fn(&mut Self) -> io::Result<Vec<u8>>,
    ) -> io::Result<(Vec<u8>, Vec<Vec<u8>>, Fields)> {
        let coding = find(headers, "transfer-encoding");
        let body = match (coding, find(headers, "content-length")) {
            (Some("chunked"), None) => {
                let mut chunks = Vec::new();
                while let Some(chunk) = self.chunk_or_end()? {
                    chunks.push(chunk);
                }
                return Ok((chunks.concat(), chunks, self.fields()?));
            }
            (None, Some(bytes)) => self.take(bytes.parse().unwrap())?,
            (None, None) => otherwise(self)?,
            told => panic!("a body with the length {told:?}"),
        };
        Ok((body, Vec::new(), Vec::new()))
    }

    fn chunk_or_end(&mut self) -> io::Result<Option<Vec<u8>>> {
        let size = usize::from_str_radix(&self.line()?, 16).unwrap();
        if size == 0 {
            return Ok(None);
        }
        let chunk = self.take(size)?;
        assert_eq!(self.line()?, "", "what follows a chunk");
        Ok(Some(chunk))
    }

    fn fields(&mut self) -> io::Result<Fields> {
        let mut fields = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(fields);
            }
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("{line:?}"));
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        if !line.ends_with('\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        assert!(line.ends_with("\r\n"), "{line:?} ends without CR");
        line.truncate(line.len() - 2);
        Ok(line)
    }
}
