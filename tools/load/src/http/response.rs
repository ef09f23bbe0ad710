//! Decodes responses that arrive in pieces.
//!
//! A body is passed on piece by piece and never kept, so a response may have
//! any length. Bytes that [`ResponseDecoder::take`] does not consume are part
//! of a head or of a chunk's size. Their number is bounded, and the caller
//! passes them again together with the bytes that follow.

use std::mem::MaybeUninit;

/// The longest head, in bytes.
const HEAD_BYTES_MAX: usize = 32 << 10;

/// The most headers, and the most trailers.
const HEADERS_MAX: usize = 64;

/// A response that violates HTTP or a limit above. Its connection cannot be
/// used any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct BadResponse;

/// The result of decoding some bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Consumed {
    /// How many bytes were consumed.
    pub(crate) bytes: usize,
    /// Whether the response is complete.
    pub(crate) is_complete: bool,
}

/// The part of the response that comes next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum DecoderState {
    Head,
    Body { bytes_left: u64 },
    BodyUntilClose,
    ChunkSize,
    Chunk { bytes_left: u64 },
    ChunkEnd,
    Trailers,
    Complete,
}

/// Decodes one response after another.
#[derive(Clone, Debug)]
pub(crate) struct ResponseDecoder {
    state: DecoderState,
    status: u16,
    is_last: bool,
    chunks: u64,
    /// Whether the tag of an entity is kept.
    keeps_etag: bool,
    /// That tag, with its quotes.
    etag: Option<Box<[u8]>>,
}

impl ResponseDecoder {
    pub(crate) fn new() -> Self {
        Self {
            state: DecoderState::Head,
            status: 0,
            is_last: false,
            chunks: 0,
            keeps_etag: false,
            etag: None,
        }
    }

    /// Begins the next response.
    pub(crate) fn restart(&mut self) {
        *self = Self::new();
    }

    /// The status; 0 before the head is complete.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// Whether the server accepts no more requests on this connection.
    pub(crate) fn is_last(&self) -> bool {
        self.is_last
    }

    /// The number of chunks of the body so far, without the empty last one.
    pub(crate) fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Has the tag of the next response's entity kept.
    pub(crate) fn keep_etag(&mut self) {
        self.keeps_etag = true;
    }

    /// Takes the tag that was kept.
    pub(crate) fn take_etag(&mut self) -> Option<Box<[u8]>> {
        self.etag.take()
    }

    /// Whether the response is complete if the connection ends now.
    pub(crate) fn may_end(&self) -> bool {
        matches!(
            self.state,
            DecoderState::BodyUntilClose | DecoderState::Complete
        )
    }

    /// Decodes as much of `bytes` as possible, and passes pieces of the body to
    /// `body`.
    ///
    /// # Errors
    /// [`BadResponse`].
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        mut body: impl FnMut(&[u8]),
    ) -> Result<Consumed, BadResponse> {
        let mut rest = bytes;
        loop {
            let taken = match self.state {
                DecoderState::Complete => break,
                DecoderState::Head => self.take_head(rest)?,
                DecoderState::Body { bytes_left } => {
                    let (bytes_left, taken) = take_body(bytes_left, rest, &mut body);
                    self.state = match bytes_left {
                        0 => DecoderState::Complete,
                        bytes_left => DecoderState::Body { bytes_left },
                    };
                    taken
                }
                DecoderState::BodyUntilClose => {
                    body(rest);
                    rest.len()
                }
                DecoderState::ChunkSize => self.take_chunk_size(rest)?,
                DecoderState::Chunk { bytes_left } => {
                    let (bytes_left, taken) = take_body(bytes_left, rest, &mut body);
                    self.state = match bytes_left {
                        0 => DecoderState::ChunkEnd,
                        bytes_left => DecoderState::Chunk { bytes_left },
                    };
                    taken
                }
                DecoderState::ChunkEnd => self.take_chunk_end(rest)?,
                DecoderState::Trailers => self.take_trailers(rest)?,
            };
            rest = &rest[taken..];
            if taken == 0 && self.state != DecoderState::Complete {
                break;
            }
        }
        if rest.len() > HEAD_BYTES_MAX && self.state != DecoderState::Complete {
            return Err(BadResponse);
        }
        Ok(Consumed {
            bytes: bytes.len() - rest.len(),
            is_complete: self.state == DecoderState::Complete,
        })
    }

    fn take_head(&mut self, bytes: &[u8]) -> Result<usize, BadResponse> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default()
            .parse_response_with_uninit_headers(&mut response, bytes, &mut headers)
            .map_err(|_| BadResponse)?;
        let httparse::Status::Complete(taken) = parsed else {
            return Ok(0);
        };
        let status = response.code.ok_or(BadResponse)?;
        if (100..200).contains(&status) {
            return Ok(taken);
        }
        self.status = status;
        self.is_last = response.version == Some(0);
        let mut length = None;
        let mut is_chunked = false;
        for header in response.headers.iter() {
            if header.name.eq_ignore_ascii_case("content-length") {
                length = Some(decimal(header.value).ok_or(BadResponse)?);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                is_chunked = header.value.eq_ignore_ascii_case(b"chunked");
            } else if header.name.eq_ignore_ascii_case("connection") {
                self.is_last = header.value.eq_ignore_ascii_case(b"close");
            } else if self.keeps_etag && header.name.eq_ignore_ascii_case("etag") {
                self.etag = Some(header.value.into());
            }
        }
        self.state = match length {
            _ if matches!(status, 204 | 304) => DecoderState::Complete,
            _ if is_chunked => DecoderState::ChunkSize,
            Some(0) => DecoderState::Complete,
            Some(bytes_left) => DecoderState::Body { bytes_left },
            None => {
                self.is_last = true;
                DecoderState::BodyUntilClose
            }
        };
        Ok(taken)
    }

    fn take_chunk_size(&mut self, bytes: &[u8]) -> Result<usize, BadResponse> {
        let httparse::Status::Complete((taken, bytes_left)) =
            httparse::parse_chunk_size(bytes).map_err(|_| BadResponse)?
        else {
            return Ok(0);
        };
        self.state = match bytes_left {
            0 => DecoderState::Trailers,
            bytes_left => {
                self.chunks += 1;
                DecoderState::Chunk { bytes_left }
            }
        };
        Ok(taken)
    }

    fn take_chunk_end(&mut self, bytes: &[u8]) -> Result<usize, BadResponse> {
        match bytes {
            [b'\r', b'\n', ..] => {
                self.state = DecoderState::ChunkSize;
                Ok(2)
            }
            [] | [b'\r'] => Ok(0),
            _ => Err(BadResponse),
        }
    }

    fn take_trailers(&mut self, bytes: &[u8]) -> Result<usize, BadResponse> {
        let mut trailers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        match httparse::parse_headers(bytes, &mut trailers).map_err(|_| BadResponse)? {
            httparse::Status::Complete((taken, _)) => {
                self.state = DecoderState::Complete;
                Ok(taken)
            }
            httparse::Status::Partial => Ok(0),
        }
    }
}

/// Passes the part of `bytes` that belongs to the body to `body`, which lacks
/// `bytes_left`. Returns what it lacks then, and how many bytes were consumed.
fn take_body(bytes_left: u64, bytes: &[u8], body: &mut impl FnMut(&[u8])) -> (u64, usize) {
    let taken = usize::try_from(bytes_left).map_or(bytes.len(), |left| left.min(bytes.len()));
    if taken > 0 {
        body(&bytes[..taken]);
    }
    (bytes_left - taken as u64, taken)
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests;
