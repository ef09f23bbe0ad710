//! Files of zstd, decompressed piece by piece. Such files may be appended to each other.

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, Read};

/// What a reader of compressed bytes decompresses to.
pub(super) struct ZstdReader<R> {
    compressed: R,
    frame: FrameDecoder,
    /// Whether a frame has begun, and has not ended.
    is_within: bool,
}

impl<R: BufRead> ZstdReader<R> {
    pub(super) fn new(compressed: R) -> Self {
        Self {
            compressed,
            frame: FrameDecoder::new(),
            is_within: false,
        }
    }

    /// Begins the next frame. Returns whether there is one.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.compressed.fill_buf()?.is_empty() {
            match self.frame.init(&mut self.compressed) {
                Ok(()) => {
                    self.is_within = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let mut skipped = (&mut self.compressed).take(length);
                    if io::copy(&mut skipped, &mut io::sink())? < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }

    /// Ends a frame all of whose bytes were taken.
    fn end(&mut self) -> io::Result<()> {
        self.is_within = false;
        let expected = self.frame.get_checksum_from_data();
        if expected.is_some() && self.frame.get_calculated_checksum() != expected {
            let what = "a checksum does not match";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_within && !self.begin()? {
                return Ok(0);
            }
            while self.frame.can_collect() == 0 && !self.frame.is_finished() {
                let some = BlockDecodingStrategy::UptoBlocks(1);
                let decoded = self.frame.decode_blocks(&mut self.compressed, some);
                decoded.map_err(io::Error::other)?;
            }
            let read = self.frame.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            self.end()?;
        }
    }
}
