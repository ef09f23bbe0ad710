//! The bytes of a segment's file, of which no more are read than are asked for.

use crate::disk::DiskFile;
use crate::error::Error;
use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

/// How many bytes are read at a time, unless more are asked for.
pub(super) const PIECE_BYTES: usize = 1 << 20;

/// The bytes of a segment. Those from the first on that were asked for are in memory.
pub(crate) struct SegmentBytes<'a> {
    first: Cow<'a, [u8]>,
    /// The file that holds the rest, and its path.
    rest: Option<(&'a dyn DiskFile, &'a Path)>,
    length: usize,
    /// Bytes that are not kept.
    passed: Vec<u8>,
}

impl<'a> SegmentBytes<'a> {
    /// The bytes of a file, without room behind them that was never written.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn of_file(file: &'a dyn DiskFile, path: &'a Path) -> Result<Self, Error> {
        let length = file
            .written_end()
            .map_err(|error| Error::io("read the length of", path, error))?;
        Ok(Self {
            first: Cow::Owned(Vec::new()),
            rest: Some((file, path)),
            length: length as usize,
            passed: Vec::new(),
        })
    }

    /// Bytes that are in memory.
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self {
            first: Cow::Borrowed(bytes),
            rest: None,
            length: bytes.len(),
            passed: Vec::new(),
        }
    }

    /// How many bytes there are.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// The bytes from the first on: at least up to `end`, unless there are fewer. They stay in
    /// memory.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn first(&mut self, end: usize) -> Result<&[u8], Error> {
        let from = self.first.len();
        if end > from
            && from < self.length
            && let Some((file, path)) = self.rest
        {
            let until = end.max(from.saturating_add(PIECE_BYTES)).min(self.length);
            let bytes = self.first.to_mut();
            // The system gives memory only for what is written to it.
            bytes.reserve_exact(self.length - from);
            bytes.resize(until, 0);
            read(file, path, &mut bytes[from..], from)?;
        }
        Ok(&self.first)
    }

    /// The bytes in `range`, or those of them that there are. They are not kept.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn pass(&mut self, range: Range<usize>) -> Result<&[u8], Error> {
        let start = range.start.min(self.length);
        let range = start..range.end.clamp(start, self.length);
        let Some((file, path)) = self.rest.filter(|_| range.end > self.first.len()) else {
            return Ok(&self.first[range]);
        };
        self.passed.resize(range.len(), 0);
        read(file, path, &mut self.passed, range.start)?;
        Ok(&self.passed)
    }

    /// The bytes up to `end`, which were asked for.
    pub(crate) fn into_first(self, end: usize) -> Vec<u8> {
        let mut bytes = self.first.into_owned();
        bytes.truncate(end);
        bytes
    }
}

fn read(file: &dyn DiskFile, path: &Path, room: &mut [u8], from: usize) -> Result<(), Error> {
    file.read_exact_at(room, from as u64)
        .map_err(|error| Error::io("read", path, error))
}
