//! Reads segments, and distinguishes a torn tail from damage.

use super::group::{GroupHeader, SegmentFormat, read_group};
use super::segment_bytes::{PIECE_BYTES, SegmentBytes};
use super::{PAGE_BYTES, SEGMENT_HEADER_BYTES, SEGMENT_MAGIC, segment_tag};
use crate::error::Error;
use base::{ByteReader, Entry};
use std::collections::BTreeSet;
use std::path::Path;

/// So many bytes behind the last whole group are searched in any case. If a disk has lost what
/// was synced there, earlier groups may show again.
const SEARCHED_BYTES_MIN: usize = 4 << 20;

/// A file was no segment with a number further back than this: the one that has been free for
/// longest is used first, and few are kept.
const EARLIER_SEGMENTS: u64 = 1024;

/// What a segment file holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SegmentContents {
    /// The format; `None` if not even the file's header is whole.
    pub(crate) format: Option<SegmentFormat>,
    /// The entries of its whole groups, in the order in which they were written.
    pub(crate) entries: Vec<Entry>,
    /// The promises of its whole groups: keys with their ballots as timestamps.
    pub(crate) promises: Vec<Entry>,
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
        self.entries.is_empty() && self.promises.is_empty() && !self.sealed
    }
}

/// Decodes the bytes of a whole segment file. Any bytes give contents or an error.
///
/// # Errors
/// As [`read_contents`].
pub(super) fn read_segment(
    bytes: &[u8],
    secret: u64,
    segment: u64,
    path: &Path,
) -> Result<SegmentContents, Error> {
    read_contents(&mut SegmentBytes::of(bytes), secret, segment, path)
}

/// Reads a segment. Its groups stay in memory; behind them it reads as far as a group of it
/// may lie.
///
/// # Errors
/// [`Error::Corrupt`] if bytes that were synced are damaged, [`Error::Invalid`] for a format
/// of another version, [`Error::Io`].
pub(crate) fn read_contents(
    bytes: &mut SegmentBytes<'_>,
    secret: u64,
    segment: u64,
    path: &Path,
) -> Result<SegmentContents, Error> {
    let tag = segment_tag(secret, segment);
    let format = read_segment_header(bytes.first(SEGMENT_HEADER_BYTES)?, tag, path)?;
    let (mut entries, mut promises) = (Vec::new(), Vec::new());
    let mut end = 0;
    let mut sealed = false;
    if let Some(format) = format {
        end = SEGMENT_HEADER_BYTES;
        while !sealed {
            let header_end = end + format.group_header_bytes();
            let Some(header) = GroupHeader::read(&bytes.first(header_end)?[end..], format, tag)
            else {
                break;
            };
            let group_end = end.saturating_add(header.group_bytes(format));
            let Some(group) = read_group(&bytes.first(group_end)?[end..], format, tag) else {
                break;
            };
            sealed = group.is_seal;
            entries.extend(group.entries);
            promises.extend(group.promises);
            end += group.bytes;
        }
    }
    let mut torn_bytes = 0;
    if !sealed {
        let tail = Tail {
            start: end,
            tag,
            secret,
            segment,
            format,
        };
        torn_bytes = match tail.search(bytes)? {
            Found::Torn(torn_bytes) => torn_bytes as u64,
            Found::Claim(claim) => {
                return Err(Error::corrupt(
                    path,
                    end as u64,
                    format!(
                        "this group of the log is damaged, although the group at offset {claim} \
                         says that it was synced"
                    ),
                ));
            }
        };
    }
    Ok(SegmentContents {
        format,
        entries,
        promises,
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
    let computed = base::crc32c_append(base::crc32c(&header[0..12]), &header[16..]);
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

/// What follows the last whole group of a segment without a seal. It may be damaged although it
/// was synced; then a later group says so. Or nothing of the segment is there any more.
///
/// A segment is written from its beginning to its end, and a sync covers all that is before. So
/// where a group of an earlier segment still stands in the file, nothing was synced from there
/// on. What comes behind it is not read. Neither is room that was never written.
struct Tail {
    /// Where it begins.
    start: usize,
    tag: u64,
    secret: u64,
    segment: u64,
    /// The format of the segment. Without its header the groups may have either.
    format: Option<SegmentFormat>,
}

/// What the search of a tail has found.
enum Found {
    /// A group at this offset says that bytes of the tail were synced before it was written.
    Claim(usize),
    /// No such group. So many bytes belong to torn groups of this segment, at least.
    Torn(usize),
}

impl Tail {
    fn search(&self, bytes: &mut SegmentBytes<'_>) -> Result<Found, Error> {
        let formats = self
            .format
            .as_ref()
            .map_or(&SegmentFormat::ALL[..], std::slice::from_ref);
        // How many bytes behind its beginning a header may need.
        let overlap = formats.iter().map(|it| it.group_header_bytes()).max();
        let overlap = overlap.unwrap_or(0) - 1;
        let is_of_zeros = self.format != Some(SegmentFormat::V2);
        let mut earlier = EarlierTags::default();
        let mut torn_end = self.start + self.torn_in_page(bytes)?;
        let mut at = self.start;
        while at < bytes.length() {
            let piece = bytes.pass(at..at + PIECE_BYTES + overlap)?;
            let mut is_earlier = false;
            for format in formats {
                let begins = memchr::memmem::find_iter(piece, format.group_magic());
                // One that begins later is found in the next piece.
                for begin in begins.take_while(|begin| *begin < PIECE_BYTES) {
                    let Some((tag, header)) = GroupHeader::read_any(&piece[begin..], *format)
                    else {
                        continue;
                    };
                    if tag == self.tag {
                        if header.synced > self.start as u64 {
                            return Ok(Found::Claim(at + begin));
                        }
                        let end = (at + begin).saturating_add(header.group_bytes(*format));
                        torn_end = torn_end.max(end);
                    } else if self.format.is_some() {
                        is_earlier |= earlier.include(tag, self.secret, self.segment);
                    }
                }
            }
            if is_of_zeros {
                torn_end = torn_end.max(at + written_bytes(piece));
            }
            at += PIECE_BYTES;
            if is_earlier && at - self.start >= SEARCHED_BYTES_MIN {
                break;
            }
        }
        Ok(Found::Torn(torn_end.min(bytes.length()) - self.start))
    }

    /// How many bytes of a torn group are in the page in which the tail begins: up to the last
    /// one that is not zero, because the writer clears the page behind a group.
    fn torn_in_page(&self, bytes: &mut SegmentBytes<'_>) -> Result<usize, Error> {
        let page_end = self.start.next_multiple_of(PAGE_BYTES);
        Ok(written_bytes(bytes.pass(self.start..page_end)?))
    }
}

/// The tags of the segments that may have had a file before.
#[derive(Default)]
struct EarlierTags(BTreeSet<u64>);

impl EarlierTags {
    /// Whether `tag` is that of a segment before this one.
    fn include(&mut self, tag: u64, secret: u64, segment: u64) -> bool {
        if self.0.is_empty() {
            let before = segment.saturating_sub(EARLIER_SEGMENTS)..segment;
            self.0 = before.map(|number| segment_tag(secret, number)).collect();
        }
        self.0.contains(&tag)
    }
}

/// The bytes up to the last one that is not zero.
fn written_bytes(bytes: &[u8]) -> usize {
    let last = bytes.iter().rposition(|byte| *byte != 0);
    last.map_or(0, |last| last + 1)
}
