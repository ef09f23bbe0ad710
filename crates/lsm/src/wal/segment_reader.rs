//! Reads segments, and distinguishes a torn tail from damage.

use super::group::{GroupHeader, SegmentFormat, read_group};
use super::{PAGE_BYTES, SEGMENT_HEADER_BYTES, SEGMENT_MAGIC, segment_tag};
use crate::error::Error;
use base::{ByteReader, Entry};
use std::path::Path;

/// What a segment file holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SegmentContents {
    /// The format; `None` if not even the file's header is whole.
    pub(crate) format: Option<SegmentFormat>,
    /// The entries of its whole groups, in the order in which they were written.
    pub(crate) entries: Vec<Entry>,
    /// Where its last whole group ends, which may be a seal; 0 if not even the file's
    /// header is whole.
    pub(crate) end: u64,
    /// Whether it ends with a seal.
    pub(crate) sealed: bool,
    /// How many bytes of torn groups follow the end, as far as they can be told from what
    /// the file held before.
    pub(crate) torn_bytes: u64,
}

impl SegmentContents {
    /// Whether it has no whole group: it was created ahead, or its first group is torn.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && !self.sealed
    }
}

/// Decodes the bytes of a whole segment file. Any bytes give contents or an error.
///
/// # Errors
/// [`Error::Corrupt`] if bytes that were synced are damaged,
/// [`Error::Invalid`] for a format of another version.
pub(crate) fn read_segment(
    bytes: &[u8],
    secret: u64,
    segment: u64,
    path: &Path,
) -> Result<SegmentContents, Error> {
    let tag = segment_tag(secret, segment);
    let format = read_segment_header(bytes, tag, path)?;
    let mut entries = Vec::new();
    let mut end = 0;
    let mut sealed = false;
    if let Some(format) = format {
        end = SEGMENT_HEADER_BYTES;
        while !sealed {
            let Some(group) = read_group(&bytes[end..], format, tag) else {
                break;
            };
            sealed = group.entries.is_empty();
            entries.extend(group.entries);
            end += group.bytes;
        }
    }
    let mut torn_bytes = 0;
    if !sealed {
        let tail = Tail {
            bytes: &bytes[end..],
            start: end,
            tag,
        };
        // Without the header the groups may have either format.
        let formats = format
            .as_ref()
            .map_or(&SegmentFormat::ALL[..], std::slice::from_ref);
        for format in formats {
            if let Some(claim) = tail.find_claim(*format) {
                return Err(Error::corrupt(
                    path,
                    end as u64,
                    format!(
                        "this group of the log is damaged, although the group at offset {claim} \
                         says that it was synced"
                    ),
                ));
            }
        }
        torn_bytes = match format {
            Some(SegmentFormat::V2) => tail.torn_bytes(),
            Some(SegmentFormat::V1) | None => written_bytes(tail.bytes),
        } as u64;
    }
    Ok(SegmentContents {
        format,
        entries,
        end: end as u64,
        sealed,
        torn_bytes,
    })
}

/// The format of a segment; `None` if the file's header is not whole.
///
/// # Errors
/// [`Error::Corrupt`] if the segment has another tag, [`Error::Invalid`] for a format of
/// another version.
pub(super) fn read_segment_header(
    bytes: &[u8],
    tag: u64,
    path: &Path,
) -> Result<Option<SegmentFormat>, Error> {
    let Some(header) = bytes.get(..SEGMENT_HEADER_BYTES) else {
        return Ok(None);
    };
    let mut fields = ByteReader::new(header);
    let fields = (fields.u64(), fields.u32(), fields.u32(), fields.u64());
    let (Some(magic), Some(version), Some(crc), Some(header_tag)) = fields else {
        return Ok(None);
    };
    let computed = crc32c::crc32c_append(crc32c::crc32c(&header[0..12]), &header[16..]);
    if magic != SEGMENT_MAGIC || crc != computed {
        return Ok(None);
    }
    let Some(format) = SegmentFormat::of_version(version) else {
        return Err(Error::Invalid(format!(
            "{} has log format {version}; this release reads formats 1 to {}",
            path.display(),
            SegmentFormat::NEWEST.version()
        )));
    };
    if header_tag != tag {
        return Err(Error::corrupt(
            path,
            16,
            "this is a segment of another store or has another number",
        ));
    }
    Ok(Some(format))
}

/// What follows the last whole group of a segment without a seal.
struct Tail<'a> {
    bytes: &'a [u8],
    /// The offset in the segment at which it begins.
    start: usize,
    tag: u64,
}

impl Tail<'_> {
    /// The whole headers of groups of this segment, each with its place in the tail. What
    /// another segment has left in the file has another tag.
    fn headers(&self, format: SegmentFormat) -> impl Iterator<Item = (usize, GroupHeader)> {
        memchr::memmem::find_iter(self.bytes, format.group_magic()).filter_map(move |at| {
            let header = GroupHeader::read(&self.bytes[at..], format, self.tag)?;
            Some((at, header))
        })
    }

    /// The offset of a group whose header says that bytes of the tail were synced before it
    /// was written.
    fn find_claim(&self, format: SegmentFormat) -> Option<usize> {
        self.headers(format)
            .find(|(_, header)| header.synced > self.start as u64)
            .map(|(at, _)| self.start + at)
    }

    /// How many bytes belong to torn groups of this segment, at least: up to the last group
    /// whose header is whole, and up to the last byte in the page of the segment's end that
    /// is not zero, because the writer clears the page behind a group.
    fn torn_bytes(&self) -> usize {
        let rest_of_page = self.start.next_multiple_of(PAGE_BYTES) - self.start;
        let in_page = written_bytes(&self.bytes[..rest_of_page.min(self.bytes.len())]);
        let format = SegmentFormat::V2;
        let ends = self
            .headers(format)
            .map(|(at, header)| at.saturating_add(header.group_bytes(format)));
        let in_groups = ends.max().unwrap_or(0).min(self.bytes.len());
        in_groups.max(in_page)
    }
}

/// The bytes up to the last one that is not zero.
fn written_bytes(bytes: &[u8]) -> usize {
    let last = bytes.iter().rposition(|byte| *byte != 0);
    last.map_or(0, |last| last + 1)
}
