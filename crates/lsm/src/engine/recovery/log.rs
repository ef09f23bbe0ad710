//! The log as it is when a store is opened, compared with what the manifest says.

use super::RecoveryReport;
use crate::error::Error;
use crate::manifest::{LogClaim, Manifest};
use crate::options::Environment;
use crate::wal::{
    FreeSegments, SegmentBytes, SegmentContents, SegmentFormat, SegmentPlace, SegmentWriter,
    read_contents, segment_file_name, segment_of_file_name,
};
use std::ops::Range;
use std::path::Path;

/// The log of a store that is being opened.
pub(in crate::engine) struct RecoveredLog {
    /// The segments that have groups.
    pub(in crate::engine) segments: Vec<(u64, SegmentContents)>,
    /// The last of these segments.
    pub(in crate::engine) last: Option<LastSegment>,
    /// The segment in which the log goes on. Its file may exist, without groups.
    pub(in crate::engine) next: u64,
    /// The segments after that one, which were made ahead and have no groups.
    pub(in crate::engine) made_ahead: Range<u64>,
}

/// The last segment that has groups. It is to be sealed and made durable, because
/// a start must not serve records that it has read from the system's cache and that
/// the disk may still lose.
pub(in crate::engine) struct LastSegment {
    pub(in crate::engine) number: u64,
    pub(in crate::engine) format: SegmentFormat,
    /// Its header and its whole groups.
    pub(in crate::engine) bytes: Vec<u8>,
    pub(in crate::engine) sealed: bool,
}

/// Where the log of a store goes on that is being opened.
pub(in crate::engine) struct LogStart<'a> {
    pub(in crate::engine) environment: &'a Environment,
    /// The secret of the log.
    pub(in crate::engine) secret: u64,
    pub(in crate::engine) log: &'a RecoveredLog,
    pub(in crate::engine) free_segments: &'a FreeSegments,
}

impl<'a> LogStart<'a> {
    fn place(&self, segment: u64) -> SegmentPlace<'a> {
        SegmentPlace {
            disk: &*self.environment.disk,
            folder: &self.environment.folder,
            secret: self.secret,
            segment,
        }
    }

    /// Begins the next segment, with room for so many bytes, and makes the last one durable.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Sync`], [`Error::Io`]. It may be tried again.
    pub(in crate::engine) fn begin(&self, segment_bytes: u64) -> Result<SegmentWriter, Error> {
        // In this order: the next segment must exist before the last one is sealed.
        let writer = match self.free_segments.begin(self.log.next)? {
            Some(writer) => writer,
            None => SegmentWriter::create_in_place(self.place(self.log.next), segment_bytes)?,
        };
        if let Some(last) = &self.log.last {
            let place = self.place(last.number);
            SegmentWriter::restore(place, last.format, &last.bytes, last.sealed)?;
        }
        Ok(writer)
    }

    /// Goes on in the last segment, because the disk has no room for another one. If that is
    /// sealed, the next one exists and needs no room. One of an older format is not gone on in:
    /// groups are written in the newest one only, and a segment has one format.
    ///
    /// # Errors
    /// `error`, for any other, or without a segment to go on in; [`Error::Sync`], [`Error::Io`].
    pub(in crate::engine) fn resume(&self, error: Error) -> Result<SegmentWriter, Error> {
        match (&error, &self.log.last) {
            (Error::DiskFull, Some(last))
                if !last.sealed && last.format == SegmentFormat::NEWEST =>
            {
                SegmentWriter::resume(self.place(last.number), last.format, &last.bytes)
            }
            _ => Err(error),
        }
    }
}

/// Reads the live segments.
pub(in crate::engine) fn read_log(
    environment: &Environment,
    names: &[String],
    manifest: &Manifest,
    secret: u64,
    report: &mut RecoveryReport,
) -> Result<RecoveredLog, Error> {
    let Environment { folder, disk, .. } = environment;
    let least = manifest.progress.least_log_segment;
    let mut segments = Vec::new();
    let mut last_bytes = Vec::new();
    let live = names
        .iter()
        .filter_map(|name| segment_of_file_name(name))
        .filter(|number| *number >= least);
    let mut end = least;
    for number in live {
        let path = folder.join(segment_file_name(number));
        if number != end {
            return Err(Error::corrupt(
                &folder.join(segment_file_name(end)),
                0,
                format!("this log segment is missing; segment {number} is there"),
            ));
        }
        end = number + 1;
        let file = disk
            .open(&path)
            .map_err(|error| Error::io("open", &path, error))?;
        let mut bytes = SegmentBytes::of_file(&*file, &path)?;
        let segment = read_contents(&mut bytes, secret, number, &path)?;
        let is_behind_sealed = segments
            .last()
            .is_some_and(|(_, before): &(u64, SegmentContents)| before.sealed);
        if segment.format.is_none()
            && (is_behind_sealed || number <= manifest.progress.log_claim.segment)
        {
            return Err(Error::corrupt(
                &path,
                0,
                "this log segment has lost its header, which was durable, and with it all its \
                 records",
            ));
        }
        if !segment.is_empty() {
            last_bytes = bytes.into_first(segment.end as usize);
        }
        segments.push((number, segment));
    }
    check_claim(folder, manifest.progress.log_claim, &segments, end)?;
    // Segments that were made ahead, or whose first group was torn.
    while let Some((_, segment)) = segments.last()
        && segment.is_empty()
    {
        report.torn_bytes += segment.torn_bytes;
        segments.pop();
    }
    if let Some(((last, segment), before)) = segments.split_last() {
        for (number, segment) in before {
            if !segment.sealed {
                return Err(Error::corrupt(
                    &folder.join(segment_file_name(*number)),
                    segment.end,
                    "the log ends early here, but a later segment has records",
                ));
            }
        }
        if segment.sealed && end == last + 1 {
            return Err(missing_segment(folder, end));
        }
        report.torn_bytes += segment.torn_bytes;
    }
    let last = segments.last().and_then(|(number, segment)| {
        Some(LastSegment {
            number: *number,
            // Known, because the segment has groups.
            format: segment.format?,
            bytes: last_bytes,
            sealed: segment.sealed,
        })
    });
    let next = least + segments.len() as u64;
    Ok(RecoveredLog {
        segments,
        last,
        next,
        made_ahead: next + 1..end.max(next + 1),
    })
}

/// Compares the segments, whose numbers are below `end`, with what the manifest
/// claims.
fn check_claim(
    folder: &Path,
    claim: LogClaim,
    segments: &[(u64, SegmentContents)],
    end: u64,
) -> Result<(), Error> {
    if end <= claim.segment {
        return Err(missing_segment(folder, end));
    }
    for (number, segment) in segments {
        let what = if *number < claim.segment && !segment.sealed {
            "the log ends early here, but the manifest claims a later segment".to_owned()
        } else if *number == claim.segment && segment.end < claim.bytes {
            format!(
                "the log ends early here, but the manifest claims {} synced bytes",
                claim.bytes
            )
        } else {
            continue;
        };
        let path = folder.join(segment_file_name(*number));
        return Err(Error::corrupt(&path, segment.end, what));
    }
    Ok(())
}

fn missing_segment(folder: &Path, number: u64) -> Error {
    let path = folder.join(segment_file_name(number));
    Error::corrupt(&path, 0, "this log segment is missing")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Disk;
    use crate::options::Options;
    use crate::testing::{MemoryDisk, environment};
    use base::{Entry, Timestamp};
    use std::sync::Arc;

    /// The secret of the log whose first segment the fixtures are.
    const SECRET: u64 = 0x5ec2e7;

    /// A process was killed, of this release or of an older one, and its disk is full.
    #[test]
    fn a_log_goes_on_in_a_segment_of_the_newest_format_only() {
        let fixtures = [
            (
                SegmentFormat::V1,
                32,
                &include_bytes!("../../../tests/fixtures/log-v1.wal")[..],
            ),
            (
                SegmentFormat::V2,
                40,
                &include_bytes!("../../../tests/fixtures/log-v2.wal")[..],
            ),
        ];
        for (format, seal_bytes, fixture) in fixtures {
            let bytes = &fixture[..fixture.len() - seal_bytes];
            let disk = Arc::new(MemoryDisk::new());
            let (environment, _executor) = environment(Arc::clone(&disk) as _);
            let folder = &environment.folder;
            disk.create_folder(folder).unwrap();
            let path = folder.join(segment_file_name(1));
            let file = disk.create(&path).unwrap();
            file.write_all_at(bytes, 0).unwrap();
            file.set_len(4096).unwrap();
            disk.set_capacity(disk.used_bytes());
            let log = RecoveredLog {
                segments: Vec::new(),
                last: Some(LastSegment {
                    number: 1,
                    format,
                    bytes: bytes.to_vec(),
                    sealed: false,
                }),
                next: 2,
                made_ahead: 3..3,
            };
            let free_segments =
                FreeSegments::open(&environment, &Options::default(), SECRET, &[], 0);
            let start = LogStart {
                environment: &environment,
                secret: SECRET,
                log: &log,
                free_segments: &free_segments,
            };
            let mut entries = 5;
            match start.begin(0).or_else(|error| start.resume(error)) {
                Ok(mut writer) => {
                    let delete = Entry::tombstone(b"a", Timestamp::from_u64(6), 1);
                    writer.append([&delete]).unwrap();
                    entries += 1;
                }
                Err(error) => assert!(matches!(error, Error::DiskFull), "{error}"),
            }
            let is_newest = format == SegmentFormat::NEWEST;
            let mut found = SegmentBytes::of_file(&*file, &path).unwrap();
            let found = read_contents(&mut found, SECRET, 1, &path).unwrap();
            assert_eq!((found.format, found.sealed), (Some(format), false));
            assert_eq!(found.entries.len(), entries, "{format:?}");
            assert_eq!(entries == 6, is_newest, "{format:?}");
        }
    }
}
