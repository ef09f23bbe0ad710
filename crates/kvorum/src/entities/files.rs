//! The files of long commands: an incomplete export, and the position of an import.

#![expect(
    clippy::disallowed_methods,
    reason = "what a user exports and imports is no part of a store"
)]

use super::compression::Compression;
use client::Position;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much is gathered before it is written, and looked at from the end.
const BUFFER_BYTES: usize = 256 << 10;

/// How many bytes of lines a member of a compressed file has.
const MEMBER_BYTES: usize = 1 << 20;

/// How gzip and zstd begin.
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The version of a position as it is written now.
const POSITION_VERSION: u32 = 2;

/// The name with more behind it.
pub(super) fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(suffix);
    name.into()
}

/// An export that is not whole yet.
pub(super) struct Partial {
    file: BufWriter<File>,
    path: PathBuf,
    whole: PathBuf,
    /// The length of the file, with what was gathered for it.
    bytes: u64,
    compression: Compression,
    /// The lines of the next member, if it is compressed.
    lines: Vec<u8>,
    /// The last line of a compressed file when it was opened.
    last_line: Option<Vec<u8>>,
}

/// Why an export cannot be written.
#[derive(Debug)]
pub(super) enum PartialError {
    /// There is one that was cut.
    IsThere(PathBuf),
    /// There is a file of the name already.
    WholeIsThere(PathBuf),
    /// The file's own name is that of a folder.
    IsFolder(PathBuf),
    /// The folder is missing in which the file is to be.
    NoFolder(PathBuf),
    /// The system refuses something.
    System(PathBuf, io::Error),
}

impl Partial {
    /// Opens the partial file of `whole`, whose name says how it is compressed. With `resumes` it may
    /// be there, and what stands behind its last whole line, or member, is cut off. With `overwrites` a file `whole` may be there, and
    /// is replaced in the end.
    ///
    /// # Errors
    /// [`PartialError`].
    pub(super) fn open(
        whole: &Path,
        resumes: bool,
        overwrites: bool,
    ) -> Result<Self, PartialError> {
        // Otherwise only its last step would fail.
        if whole.is_dir() {
            return Err(PartialError::IsFolder(whole.to_owned()));
        }
        if !overwrites && whole.symlink_metadata().is_ok() {
            return Err(PartialError::WholeIsThere(whole.to_owned()));
        }
        let path = with_suffix(whole, ".partial");
        let mut options = File::options();
        // It may hold all values of a cluster, for which others need a token.
        options.read(true).write(true).mode(0o600);
        let opened = if resumes {
            options.create(true).truncate(false).open(&path)
        } else {
            options.create_new(true).open(&path)
        };
        let mut file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => PartialError::IsThere(path.clone()),
            io::ErrorKind::NotFound => PartialError::NoFolder(path.clone()),
            _ => PartialError::System(path.clone(), error),
        })?;
        let system = |error| PartialError::System(path.clone(), error);
        let compression = Compression::of(whole);
        let (bytes, last_line) = if compression == Compression::None {
            let length = file.seek(SeekFrom::End(0)).map_err(system)?;
            let last = end_of_line_before(&mut file, length).map_err(system)?;
            (last.map_or(0, |last| last + 1), None)
        } else {
            let members = compression.whole_members(&mut file).map_err(system)?;
            (members.end, members.last_line)
        };
        file.set_len(bytes).map_err(system)?;
        file.seek(SeekFrom::Start(bytes)).map_err(system)?;
        Ok(Self {
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            path,
            whole: whole.to_owned(),
            bytes,
            compression,
            lines: Vec::new(),
            last_line,
        })
    }

    /// The last line, with its end, of a file that was opened a moment ago.
    ///
    /// # Errors
    /// [`PartialError`].
    pub(super) fn last_line(&mut self) -> Result<Option<Vec<u8>>, PartialError> {
        if self.compression != Compression::None {
            return Ok(self.last_line.take());
        }
        let Some(end) = self.bytes.checked_sub(1) else {
            return Ok(None);
        };
        let file = self.file.get_mut();
        let mut read = || {
            let begin = end_of_line_before(file, end)?.map_or(0, |before| before + 1);
            file.seek(SeekFrom::Start(begin))?;
            let mut line = Vec::new();
            file.read_to_end(&mut line)?;
            Ok(line)
        };
        read().map(Some).map_err(|error| self.system(error))
    }

    /// The length of what was written until now, where it can be cut off later.
    ///
    /// # Errors
    /// [`PartialError`].
    pub(super) fn mark(&mut self) -> Result<u64, PartialError> {
        self.end_member()?;
        Ok(self.bytes)
    }

    /// Appends a line.
    ///
    /// # Errors
    /// [`PartialError`].
    pub(super) fn write(&mut self, line: &[u8]) -> Result<(), PartialError> {
        if self.compression == Compression::None {
            return self.append(line);
        }
        self.lines.extend_from_slice(line);
        if self.lines.len() >= MEMBER_BYTES {
            self.end_member()?;
        }
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), PartialError> {
        self.bytes += bytes.len() as u64;
        let written = self.file.write_all(bytes);
        written.map_err(|error| self.system(error))
    }

    fn end_member(&mut self) -> Result<(), PartialError> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let member = self.compression.member(&self.lines);
        let member = member.map_err(|error| self.system(error))?;
        self.lines.clear();
        self.append(&member)
    }

    /// Writes what was gathered.
    ///
    /// # Errors
    /// [`PartialError`].
    pub(super) fn flush(&mut self) -> Result<(), PartialError> {
        self.end_member()?;
        self.file.flush().map_err(|error| self.system(error))
    }

    /// Cuts off what stands behind a place.
    ///
    /// # Errors
    /// [`PartialError`].
    pub(super) fn cut_at(mut self, bytes: u64) -> Result<(), PartialError> {
        self.flush()?;
        let cut = self.file.get_ref().set_len(bytes);
        cut.map_err(|error| self.system(error))
    }

    /// Gives the file its own name, once it is on the disk. Returns its length.
    ///
    /// # Errors
    /// [`PartialError`].
    pub(super) fn finish(mut self) -> Result<u64, PartialError> {
        self.flush()?;
        let finished = self.file.get_ref().sync_all();
        let finished = finished.and_then(|()| fs::rename(&self.path, &self.whole));
        finished.map_err(|error| self.system(error))?;
        Ok(self.bytes)
    }

    fn system(&self, error: io::Error) -> PartialError {
        PartialError::System(self.path.clone(), error)
    }
}

/// Where the last end of a line before a place is.
fn end_of_line_before(file: &mut File, place: u64) -> io::Result<Option<u64>> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut end = place;
    while end > 0 {
        let begin = end.saturating_sub(BUFFER_BYTES as u64);
        let bytes = usize::try_from(end - begin).unwrap_or(BUFFER_BYTES);
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(&mut buffer[..bytes])?;
        if let Some(found) = buffer[..bytes].iter().rposition(|byte| *byte == b'\n') {
            return Ok(Some(begin + found as u64));
        }
        end = begin;
    }
    Ok(None)
}

/// The file with the position of an import into these nodes.
#[derive(Clone, Debug)]
pub(super) struct PositionFile {
    path: PathBuf,
    urls: Vec<String>,
}

/// What a position of any version has.
#[derive(Deserialize)]
struct PositionVersion {
    version: u32,
}

/// A position as it is written.
#[derive(Deserialize, Serialize)]
struct PositionDocument {
    version: u32,
    #[serde(flatten)]
    position: Position,
    /// The nodes of the cluster that has what stands before the position.
    urls: Vec<String>,
}

impl PositionFile {
    pub(super) fn new(path: PathBuf, urls: Vec<String>) -> Self {
        Self { path, urls }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The position, if the file is there. A cluster has many nodes, of which an import may name
    /// others when it goes on, but not only others: these may be of another cluster, which lacks
    /// what stands before the position.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(super) fn read(&self) -> Result<Option<Position>, String> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        // Another version may have other members.
        let version: PositionVersion =
            serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        if version.version != POSITION_VERSION {
            let version = version.version;
            return Err(format!(
                "its version is {version}, and this program knows {POSITION_VERSION}"
            ));
        }
        let document: PositionDocument =
            serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        let is_of_these = document.urls.iter().any(|url| self.urls.contains(url));
        if document.position.bytes > 0 && !is_of_these {
            return Err(format!(
                "it belongs to an import into {}: give at least one of these nodes",
                document.urls.join(", ")
            ));
        }
        Ok(Some(document.position))
    }

    /// Replaces the position. The file always holds a whole one.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn write(&self, position: Position) -> io::Result<()> {
        let document = PositionDocument {
            version: POSITION_VERSION,
            position,
            urls: self.urls.clone(),
        };
        let mut text = serde_json::to_vec(&document)?;
        text.push(b'\n');
        let next = with_suffix(&self.path, ".tmp");
        let mut file = File::create(&next)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&next, &self.path)
    }

    /// Removes the file, if it is there.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// A file that is imported.
pub(super) struct FileInput {
    file: File,
    size: InputSize,
}

/// How long a file is, and how much of it was read.
#[derive(Clone)]
pub(super) struct InputSize {
    bytes: u64,
    read: Arc<AtomicU64>,
    is_compressed: bool,
}

impl FileInput {
    /// Opens a file.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let mut first = [0; ZSTD_MAGIC.len()];
        let has_begin = bytes > 0 && file.read_exact(&mut first).is_ok();
        let is_compressed = has_begin && (first.starts_with(GZIP_MAGIC) || first == ZSTD_MAGIC);
        // What is no file of a disk, such as a pipe, has no length and cannot be read again.
        if bytes > 0 {
            file.seek(SeekFrom::Start(0))?;
        }
        let size = InputSize {
            bytes,
            read: Arc::default(),
            is_compressed,
        };
        Ok(Self { file, size })
    }

    /// How long it is.
    pub(super) fn size(&self) -> InputSize {
        self.size.clone()
    }
}

impl InputSize {
    /// The share of the file that is done, once these bytes of its lines are. How many lines
    /// there are in a compressed file is not known, so of that what was read counts.
    pub(super) fn share(&self, bytes_done: u64) -> f64 {
        let done = if self.is_compressed {
            self.read.load(Ordering::Relaxed)
        } else {
            bytes_done
        };
        done as f64 / self.bytes.max(1) as f64
    }
}

impl Read for FileInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.size.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_partial_file_goes_on_behind_its_last_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().join("e");
        let path = folder.path().join("e.partial");
        let long = "x".repeat(2 * BUFFER_BYTES + 3);
        for (text, kept, last) in [
            ("", 0, None),
            ("no end", 0, None),
            ("one\n", 4, Some("one\n")),
            ("one\ntwo\nthr", 8, Some("two\n")),
            (&format!("one\n{long}"), 4, Some("one\n")),
            (
                &format!("one\n{long}\nt"),
                4 + long.len() + 1,
                Some(&*format!("{long}\n")),
            ),
        ] {
            fs::write(&path, text).unwrap();
            let mut partial = Partial::open(&whole, true, true).unwrap();
            assert_eq!(partial.mark().unwrap(), kept as u64);
            let line = partial.last_line().unwrap();
            assert_eq!(line.as_deref(), last.map(str::as_bytes));
            partial.write(b"next\n").unwrap();
            partial.finish().unwrap();
            let expected = format!("{}next\n", &text[..kept]);
            assert_eq!(fs::read_to_string(&whole).unwrap(), expected);
            assert!(!path.exists());
        }
        fs::write(&path, "one\n").unwrap();
        let refused = Partial::open(&whole, false, true).err().unwrap();
        assert!(matches!(refused, PartialError::IsThere(there) if there == path));
        let mut partial = Partial::open(&whole, true, true).unwrap();
        partial.write(b"two\n").unwrap();
        partial.cut_at(4).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n");
        fs::remove_file(&path).unwrap();
        let refused = Partial::open(&whole, false, false).err().unwrap();
        assert!(matches!(refused, PartialError::WholeIsThere(there) if there == whole));
        assert!(!path.exists(), "nothing was begun");
        let _partial = Partial::open(&whole, false, true).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "others may read all values");
    }

    #[test]
    fn a_compressed_file_goes_on_behind_its_last_whole_member() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, line) = (folder.path().join("e"), |number: u64| format!("{number}\n"));
        let mut expected = String::new();
        for number in 0..300_000 {
            expected += &line(number);
        }
        assert!(expected.len() > MEMBER_BYTES);
        fs::write(&plain, &expected).unwrap();
        for name in ["e.gz", "e.zst"] {
            let whole = folder.path().join(name);
            let mut partial = Partial::open(&whole, false, false).unwrap();
            assert_eq!(partial.last_line().unwrap(), None);
            for number in 0..200_000 {
                partial.write(line(number).as_bytes()).unwrap();
            }
            partial.flush().unwrap();
            let mark = partial.mark().unwrap();
            partial
                .write(b"what a damaged stream has brought\n")
                .unwrap();
            partial.cut_at(mark).unwrap();
            // A kill in the middle of a member.
            let path = with_suffix(&whole, ".partial");
            let bytes = fs::metadata(&path).unwrap().len();
            assert_eq!(bytes, mark);
            File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_len(bytes - 3)
                .unwrap();
            let mut partial = Partial::open(&whole, true, false).unwrap();
            let last = partial.last_line().unwrap().unwrap();
            let last = String::from_utf8(last).unwrap();
            let last: u64 = last.trim().parse().unwrap();
            assert!((100_000..199_999).contains(&last), "{last}");
            for number in last + 1..300_000 {
                partial.write(line(number).as_bytes()).unwrap();
            }
            let bytes = partial.finish().unwrap();
            let compressed = fs::read(&whole).unwrap();
            assert_eq!(compressed.len() as u64, bytes);
            assert!(bytes < expected.len() as u64 / 2);
            let mut read = String::new();
            if name == "e.gz" {
                let mut decoder = flate2::read::MultiGzDecoder::new(&compressed[..]);
                decoder.read_to_string(&mut read).unwrap();
            } else {
                let mut left = &compressed[..];
                while !left.is_empty() {
                    let decoder = ruzstd::decoding::StreamingDecoder::new(&mut left);
                    decoder.unwrap().read_to_string(&mut read).unwrap();
                }
            }
            assert!(read == expected);
        }
    }

    #[test]
    fn a_file_that_cannot_be_made_is_refused_before_anything_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing/e");
        for resumes in [false, true] {
            let refused = |whole: &Path| Partial::open(whole, resumes, false).err().unwrap();
            assert!(matches!(refused(&missing), PartialError::NoFolder(_)));
            assert!(matches!(refused(folder.path()), PartialError::IsFolder(_)));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(!with_suffix(folder.path(), ".partial").exists());
    }

    #[test]
    fn the_share_of_a_file_is_that_of_its_lines_or_of_what_was_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        for (bytes, shares) in [
            (&b"line\nline\n"[..], [0.5, 0.5]),
            (b"\x1f\x8b gzip", [0.0, 1.0]),
            (b"\x28\xb5\x2f\xfd zstd", [0.0, 1.0]),
            (b"", [5.0, 5.0]),
        ] {
            fs::write(&path, bytes).unwrap();
            let mut input = FileInput::open(&path).unwrap();
            let size = input.size();
            let before = size.share(5);
            let mut all = Vec::new();
            input.read_to_end(&mut all).unwrap();
            assert_eq!(all, bytes);
            assert_eq!([before, size.share(5)], shares);
        }
    }

    #[test]
    fn a_position_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = PositionFile::new(folder.path().join("p"), vec!["http://a".into()]);
        assert_eq!(file.read(), Ok(None));
        let position = Position {
            lines: 3,
            bytes: 99,
            crc32c: 7,
            passed_over: 1,
        };
        file.write(position).unwrap();
        assert_eq!(file.read(), Ok(Some(position)));
        let text = fs::read_to_string(file.path()).unwrap();
        assert!(
            text.starts_with(r#"{"version":2,"lines":3,"bytes":99,"#),
            "{text}"
        );
        fs::write(file.path(), text.replace("\"version\":2", "\"version\":3")).unwrap();
        assert!(file.read().unwrap_err().contains("version is 3"));
        fs::write(file.path(), "").unwrap();
        assert!(file.read().is_err());
        file.remove().unwrap();
        file.remove().unwrap();
        assert_eq!(file.read(), Ok(None));
    }

    #[test]
    fn an_import_goes_on_where_one_of_its_nodes_is_named_again() {
        let folder = tempfile::tempdir().unwrap();
        let into = |urls: &[&str]| {
            let urls = urls.iter().map(|url| (*url).to_owned()).collect();
            PositionFile::new(folder.path().join("p"), urls)
        };
        let mut position = Position::default();
        into(&["http://a", "http://b"]).write(position).unwrap();
        let is_read = into(&["http://c"]).read();
        assert_eq!(is_read, Ok(Some(position)), "nothing is stored");
        position.bytes = 9;
        into(&["http://a", "http://b"]).write(position).unwrap();
        assert!(into(&["http://c", "http://b"]).read().unwrap().is_some());
        let problem = into(&["http://c"]).read().unwrap_err();
        assert!(problem.contains("http://a, http://b"), "{problem}");
    }
}
