//! Files of lines that are compressed, as their names say: `.gz` with gzip, `.zst` with zstd.
//!
//! A file is a row of members, each of which decompresses by itself to whole lines. Programs read
//! such a file as they read one that was compressed at once. After a kill an export goes on behind
//! the last whole member.

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// How much is read at a time.
const BUFFER_BYTES: usize = 256 << 10;

/// The longest member that is read, in bytes of lines: one of an export is hardly longer than its
/// longest line.
const MEMBER_BYTES_MAX: u64 = 256 << 20;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    /// Not at all.
    None,
    /// With gzip.
    Gzip,
    /// With zstd.
    Zstd,
}

/// The members of a file that are whole.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WholeMembers {
    /// Where they end, in bytes of the file.
    pub(super) end: u64,
    /// The last line in them.
    pub(super) last_line: Option<Vec<u8>>,
}

impl Compression {
    /// That which the name of a file asks for.
    pub(super) fn of(file: &Path) -> Self {
        let end = file.extension().and_then(|end| end.to_str());
        match end {
            Some(end) if end.eq_ignore_ascii_case("gz") => Self::Gzip,
            Some(end) if end.eq_ignore_ascii_case("zst") => Self::Zstd,
            _ => Self::None,
        }
    }

    /// Lines as a member.
    ///
    /// # Errors
    /// Those of the compression.
    pub(super) fn member(self, lines: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::None => Ok(lines.to_vec()),
            Self::Gzip => {
                let level = flate2::Compression::default();
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
                encoder.write_all(lines)?;
                encoder.finish()
            }
            Self::Zstd => Ok(compress_to_vec(lines, CompressionLevel::Fastest)),
        }
    }

    /// Finds the whole members of a file; behind them may be a part of one. Of a file that is not
    /// compressed there is none.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn whole_members(self, file: &mut File) -> io::Result<WholeMembers> {
        file.seek(SeekFrom::Start(0))?;
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
        let mut found = WholeMembers::default();
        while self != Self::None && !reader.fill_buf()?.is_empty() {
            let mut lines = Vec::new();
            if self.read_member(&mut reader, &mut lines).is_err() {
                // It was cut.
                break;
            }
            found.end = reader.stream_position()?;
            let last = lines.split_inclusive(|byte| *byte == b'\n').next_back();
            found.last_line = last.map(<[u8]>::to_vec).or(found.last_line);
        }
        Ok(found)
    }

    fn read_member(self, reader: &mut impl BufRead, lines: &mut Vec<u8>) -> io::Result<()> {
        let read = match self {
            Self::None => 0,
            Self::Gzip => {
                let decoder = flate2::bufread::GzDecoder::new(reader);
                decoder.take(MEMBER_BYTES_MAX).read_to_end(lines)?
            }
            Self::Zstd => {
                let mut frame = FrameDecoder::new();
                let decoder = StreamingDecoder::new_with_decoder(reader, &mut frame);
                let decoder = decoder.map_err(io::Error::other)?;
                let read = decoder.take(MEMBER_BYTES_MAX).read_to_end(lines)?;
                let expected = frame.get_checksum_from_data();
                if expected.is_some() && frame.get_calculated_checksum() != expected {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                read
            }
        };
        if read as u64 == MEMBER_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_how_a_file_is_compressed() {
        for (name, compression) in [
            ("a.ndjson", Compression::None),
            ("gz", Compression::None),
            ("a.ndjson.gz", Compression::Gzip),
            ("a.GZ", Compression::Gzip),
            ("/x.gz/a.zst", Compression::Zstd),
            ("a.zst.partial", Compression::None),
        ] {
            assert_eq!(Compression::of(Path::new(name)), compression, "{name}");
        }
    }

    #[test]
    fn whatever_is_cut_off_the_members_before_it_are_found() {
        for compression in [Compression::Gzip, Compression::Zstd] {
            let members = [&b"one\ntwo\n"[..], b"three\n", b"four\nfive\n"];
            let members = members.map(|lines| compression.member(lines).unwrap());
            let whole = members.concat();
            let ends = [
                members[0].len(),
                members[0].len() + members[1].len(),
                whole.len(),
            ];
            for bytes in 0..=whole.len() {
                let mut file = tempfile::tempfile().unwrap();
                file.write_all(&whole[..bytes]).unwrap();
                let found = compression.whole_members(&mut file).unwrap();
                let count = ends.iter().filter(|end| **end <= bytes).count();
                let (end, last) = match count {
                    0 => (0, None),
                    1 => (ends[0], Some("two\n")),
                    2 => (ends[1], Some("three\n")),
                    _ => (ends[2], Some("five\n")),
                };
                let last_line = last.map(|line| line.as_bytes().to_vec());
                let end = end as u64;
                assert_eq!(found, WholeMembers { end, last_line }, "{bytes}");
            }
        }
    }
}
