//! The input of an import: its lines, as sections of operations.
//!
//! Input in gzip or zstd is decompressed. A position counts decompressed bytes, so an import can
//! continue from the same lines in any form.

use super::caller::{ImportOperation, ImportSettings, LineFailure, Position};
use super::zstd::ZstdReader;
use api::Entity;
use crc_fast::{CrcAlgorithm, Digest};
use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::num::NonZeroUsize;

/// The longest line, in bytes; also that of a value of 16 MiB whose characters all need
/// escapes.
const LINE_BYTES_MAX: u64 = 128 << 20;

/// How many lines, and how many bytes, a section has for each shard.
const SHARD_LINES: usize = 500;
const SHARD_BYTES: usize = 256 << 10;

/// How gzip and zstd begin.
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// What some programs write before text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// How much is read at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// The operations of one shard in a section.
#[derive(Debug, Default)]
pub(super) struct Operations {
    /// Their lines, as a batch takes them.
    pub(super) body: Vec<u8>,
    /// One for each line of `body`.
    pub(super) list: Vec<Operation>,
}

/// A line of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    /// Its number in the input, from 1.
    pub(super) line: u64,
    /// The checksum of its key: the same key has the same one.
    pub(super) key_crc32c: u32,
    /// Where its line in the body ends.
    pub(super) body_end: usize,
}

impl Operations {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// Lines of the input.
#[derive(Debug)]
pub(super) struct Section {
    /// What each shard has to do.
    pub(super) parts: Vec<Operations>,
    /// The position behind its last line, without those that are passed over.
    pub(super) end: Position,
    /// The lines that are passed over.
    pub(super) failures: Vec<LineFailure>,
}

impl Section {
    /// The length of all batches.
    pub(super) fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.body.len()).sum()
    }
}

/// Why there are no more sections.
#[derive(Debug)]
pub(super) enum InputError {
    /// It cannot be read.
    Read(io::Error),
    /// It is not the input of the position.
    Other(Position),
    /// A line is wrong.
    Line(LineFailure),
}

/// The bytes of the lines, wherever they come from.
enum Source<R> {
    Plain(Begun<R>),
    /// Files of gzip may be appended to each other.
    Gzip(Box<MultiGzDecoder<BufReader<Begun<R>>>>),
    /// As are those of zstd.
    Zstd(Box<ZstdReader<BufReader<Begun<R>>>>),
}

/// A reader of which the first bytes were read before.
type Begun<R> = Chain<Cursor<Vec<u8>>, R>;

impl<R: Read> Source<R> {
    fn open(mut input: R) -> io::Result<Self> {
        let mut first = Vec::new();
        let magic_bytes = ZSTD_MAGIC.len() as u64;
        input.by_ref().take(magic_bytes).read_to_end(&mut first)?;
        let (is_gzip, is_zstd) = (first.starts_with(GZIP_MAGIC), first == ZSTD_MAGIC);
        let begun = Cursor::new(first).chain(input);
        let buffered = |begun| BufReader::with_capacity(BUFFER_BYTES, begun);
        Ok(if is_gzip {
            Self::Gzip(Box::new(MultiGzDecoder::new(buffered(begun))))
        } else if is_zstd {
            Self::Zstd(Box::new(ZstdReader::new(buffered(begun))))
        } else {
            Self::Plain(begun)
        })
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(plain) => plain.read(buffer),
            Self::Gzip(gzip) => {
                let read = gzip.read(buffer);
                read.map_err(|error| io::Error::new(error.kind(), format!("gzip: {error}")))
            }
            Self::Zstd(zstd) => {
                let read = zstd.read(buffer);
                read.map_err(|error| io::Error::new(error.kind(), format!("zstd: {error}")))
            }
        }
    }
}

/// An input that is read section by section.
pub(super) struct Input<R> {
    reader: BufReader<Source<R>>,
    position: Position,
    /// The checksum of what was read, to which more can be added.
    digest: Digest,
    shards: NonZeroUsize,
    operation: ImportOperation,
    passes_over: bool,
    line: Vec<u8>,
    /// What ends the input behind the section before it.
    error: Option<InputError>,
}

impl<R: Read> Input<R> {
    /// Reads up to a position, and checks that the input is the same up to there.
    ///
    /// # Errors
    /// [`InputError`].
    pub(super) fn open(
        input: R,
        from: Position,
        settings: ImportSettings,
    ) -> Result<Self, InputError> {
        let source = Source::open(input).map_err(InputError::Read)?;
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, source);
        let (mut left, mut digest) = (from.bytes, Digest::new(CrcAlgorithm::Crc32Iscsi));
        while left > 0 {
            let bytes = reader.fill_buf().map_err(InputError::Read)?;
            let taken = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
            if taken == 0 {
                return Err(InputError::Other(from));
            }
            digest.update(&bytes[..taken]);
            reader.consume(taken);
            left -= taken as u64;
        }
        if digest.finalize() as u32 != from.crc32c {
            return Err(InputError::Other(from));
        }
        Ok(Self {
            reader,
            digest,
            position: Position {
                passed_over: 0,
                ..from
            },
            shards: settings.shards,
            operation: settings.operation,
            passes_over: settings.passes_over,
            line: Vec::new(),
            error: None,
        })
    }

    /// The next lines; `None` at the end of the input.
    ///
    /// # Errors
    /// [`InputError`]; the sections before it are whole.
    pub(super) fn next_section(&mut self) -> Result<Option<Section>, InputError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let shards = self.shards.get();
        let mut section = Section {
            parts: (0..shards).map(|_| Operations::default()).collect(),
            end: self.position,
            failures: Vec::new(),
        };
        let (mut lines, mut bytes) = (0, 0);
        while lines < shards * SHARD_LINES && bytes < shards * SHARD_BYTES {
            let read = self.add_line(&mut section);
            match read {
                Ok(0) => break,
                Ok(read) => (lines, bytes) = (lines + 1, bytes + read),
                Err(error) if section.end == self.position => return Err(error),
                Err(error) => {
                    self.error = Some(error);
                    break;
                }
            }
        }
        let is_end = section.end == self.position;
        section.end = self.position;
        Ok((!is_end).then_some(section))
    }

    /// Reads a line into a section. Returns its length, which is 0 at the end of the input.
    fn add_line(&mut self, section: &mut Section) -> Result<usize, InputError> {
        self.line.clear();
        let mut reader = (&mut self.reader).take(LINE_BYTES_MAX);
        let read = reader.read_until(b'\n', &mut self.line);
        let bytes = read.map_err(InputError::Read)?;
        if bytes == 0 {
            return Ok(0);
        }
        let number = self.position.lines + 1;
        let entity = self.entity(bytes);
        match entity {
            Ok(None) => {}
            Ok(Some(entity)) => {
                let key_crc32c = crc_fast::crc32_iscsi(&entity.key);
                let shard = key_crc32c as usize % section.parts.len();
                let part = &mut section.parts[shard];
                match self.operation {
                    ImportOperation::Put => entity.write_put(&mut part.body),
                    ImportOperation::PutIfUnchanged => {
                        entity.write_put_if(entity.version.as_deref(), &mut part.body);
                    }
                    ImportOperation::Delete => entity.write_delete(&mut part.body),
                }
                part.list.push(Operation {
                    line: number,
                    key_crc32c,
                    body_end: part.body.len(),
                });
            }
            Err(problem) => {
                let failure = LineFailure {
                    line: number,
                    problem,
                };
                if !self.passes_over || bytes as u64 == LINE_BYTES_MAX {
                    return Err(InputError::Line(failure));
                }
                section.failures.push(failure);
            }
        }
        self.position.lines = number;
        self.position.bytes += bytes as u64;
        self.digest.update(&self.line);
        self.position.crc32c = self.digest.finalize() as u32;
        Ok(bytes)
    }

    /// The entity of the present line; `None` if the line is empty.
    fn entity(&self, bytes: usize) -> Result<Option<Entity>, String> {
        if bytes as u64 == LINE_BYTES_MAX && self.line.last() != Some(&b'\n') {
            return Err(format!(
                "it is longer than {LINE_BYTES_MAX} bytes: is the input made of lines?"
            ));
        }
        let mut line = &*self.line;
        if self.position.lines == 0 {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        let entity = Entity::parse(line)?;
        if entity.value.is_none() && self.operation != ImportOperation::Delete {
            return Err("it has no value: give `value` or `value_base64`".to_owned());
        }
        if entity.version.is_none() && self.operation == ImportOperation::PutIfUnchanged {
            return Err("it has no version: export with --versions".to_owned());
        }
        Ok(Some(entity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    /// How lines are imported by two shards.
    fn settings(operation: ImportOperation, passes_over: bool) -> ImportSettings {
        ImportSettings {
            operation,
            replicas: crate::query::Replicas::default(),
            shards: NonZeroUsize::new(2).unwrap(),
            patience: std::time::Duration::from_secs(1),
            passes_over,
        }
    }

    fn sections(
        text: &[u8],
        from: Position,
        passes_over: bool,
    ) -> (Vec<Section>, Option<InputError>) {
        let settings = settings(ImportOperation::Put, passes_over);
        let mut input = match Input::open(text, from, settings) {
            Ok(input) => input,
            Err(error) => return (Vec::new(), Some(error)),
        };
        let mut sections = Vec::new();
        loop {
            match input.next_section() {
                Ok(Some(section)) => sections.push(section),
                Ok(None) => return (sections, None),
                Err(error) => return (sections, Some(error)),
            }
        }
    }

    #[test]
    fn a_put_on_a_condition_names_the_version_of_its_line() {
        let settings = settings(ImportOperation::PutIfUnchanged, false);
        let text =
            b"{\"key\":\"k\",\"value\":\"v\",\"version\":\"9\"}\n{\"key\":\"k\",\"value\":\"v\"}\n";
        let mut input = Input::open(&text[..], Position::default(), settings).unwrap();
        let section = input.next_section().unwrap().unwrap();
        let body: Vec<u8> = section
            .parts
            .into_iter()
            .flat_map(|part| part.body)
            .collect();
        let expected = "{\"op\":\"put\",\"key\":\"k\",\"value\":\"v\",\"if_version\":\"9\"}\n";
        assert_eq!(String::from_utf8(body).unwrap(), expected);
        let refused = input.next_section().unwrap_err();
        assert!(matches!(&refused, InputError::Line(it) if it.problem.contains("no version")));
    }

    fn numbers(sections: &[Section]) -> Vec<u64> {
        let operations = sections.iter().flat_map(|section| &section.parts);
        let mut lines: Vec<u64> = operations
            .flat_map(|part| part.list.iter().map(|operation| operation.line))
            .collect();
        lines.sort_unstable();
        lines
    }

    fn line(number: usize) -> String {
        format!("{{\"key\":\"k{number}\",\"value\":\"v\"}}\n")
    }

    #[test]
    fn an_input_goes_on_at_every_position_without_losing_a_line() {
        let mut text: Vec<u8> = (1..=3000)
            .flat_map(|number| line(number).into_bytes())
            .collect();
        text.pop();
        let (whole, error) = sections(&text, Position::default(), false);
        assert!(error.is_none() && whole.len() == 3, "{}", whole.len());
        assert_eq!(numbers(&whole), (1..=3000).collect::<Vec<u64>>());
        for section in &whole {
            let from = section.end;
            let (rest, error) = sections(&text, from, false);
            assert!(error.is_none());
            assert_eq!(
                numbers(&rest),
                (from.lines + 1..=3000).collect::<Vec<u64>>()
            );
        }
        assert_eq!(whole[2].end.bytes, text.len() as u64);
    }

    #[test]
    fn gzip_and_zstd_give_the_same_lines_and_positions() {
        let text: String = (1..=3000).map(line).collect();
        let (plain, _) = sections(text.as_bytes(), Position::default(), false);
        let gzip = |part: &str| {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(part.as_bytes()).unwrap();
            encoder.finish().unwrap()
        };
        let zstd = |part: &str| {
            let level = ruzstd::encoding::CompressionLevel::Fastest;
            ruzstd::encoding::compress_to_vec(part.as_bytes(), level)
        };
        // Two files that were appended to each other.
        let (first, second) = text.split_at(text.len() / 3);
        for (name, zipped) in [
            ("gzip", [gzip(first), gzip(second)].concat()),
            ("zstd", [zstd(first), zstd(second)].concat()),
        ] {
            check_compressed(name, &zipped, &plain);
        }
    }

    fn check_compressed(name: &str, zipped: &[u8], plain: &[Section]) {
        let (whole, error) = sections(zipped, Position::default(), false);
        assert!(error.is_none());
        let ends = |sections: &[Section]| -> Vec<Position> {
            sections.iter().map(|section| section.end).collect()
        };
        assert_eq!(ends(&whole), ends(plain));
        assert_eq!(numbers(&whole), numbers(plain));
        let (rest, error) = sections(zipped, plain[0].end, false);
        assert!(error.is_none());
        assert_eq!(ends(&rest), ends(&plain[1..]));
        // One that was cut is no whole input.
        let (_, error) = sections(&zipped[..zipped.len() - 9], Position::default(), false);
        let Some(InputError::Read(error)) = error else {
            panic!("{error:?}");
        };
        assert!(error.to_string().contains(name), "{error}");
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_line() {
        let text = [BYTE_ORDER_MARK, line(1).as_bytes(), line(2).as_bytes()].concat();
        let (whole, error) = sections(&text, Position::default(), false);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(numbers(&whole), [1, 2]);
        assert_eq!(whole[0].end.bytes, text.len() as u64);
        let later = [line(1).as_bytes(), BYTE_ORDER_MARK, line(2).as_bytes()].concat();
        let (_, error) = sections(&later, Position::default(), false);
        assert!(matches!(error, Some(InputError::Line(failure)) if failure.line == 2));
        for short in [&b""[..], b"\n", BYTE_ORDER_MARK] {
            let (none, error) = sections(short, Position::default(), false);
            assert!(error.is_none() && numbers(&none).is_empty(), "{short:?}");
        }
    }

    #[test]
    fn another_input_is_noticed() {
        let text = [line(1), line(2)].concat().into_bytes();
        let (whole, _) = sections(&text, Position::default(), false);
        let mut other = text.clone();
        other[8] = b'x';
        for other in [&other[..], &text[..text.len() - 1], b""] {
            let (_, error) = sections(other, whole[0].end, false);
            assert!(matches!(error, Some(InputError::Other(_))));
        }
    }

    #[test]
    fn a_wrong_line_is_named_and_what_stands_before_it_is_whole() {
        let text = [&line(1), "\n", "{\"key\":\"k\"}\n", &line(4)].concat();
        let (before, error) = sections(text.as_bytes(), Position::default(), false);
        assert_eq!(numbers(&before), [1]);
        assert_eq!(before[0].end.lines, 2);
        let Some(InputError::Line(failure)) = error else {
            panic!("{error:?}");
        };
        assert_eq!(failure.line, 3);
        assert!(failure.problem.contains("no value"), "{failure:?}");
        let (all, error) = sections(text.as_bytes(), Position::default(), true);
        assert!(error.is_none());
        assert_eq!((numbers(&all), all[0].failures.len()), (vec![1, 4], 1));
    }

    #[test]
    fn lines_of_keys_to_delete_need_no_value() {
        let text =
            b"{\"key\":\"a\"}\n{\"key_base64\":\"/w==\",\"version\":\"7\",\"value\":\"v\"}\n";
        let settings = settings(ImportOperation::Delete, false);
        let mut input = Input::open(&text[..], Position::default(), settings).unwrap();
        let section = input.next_section().unwrap().unwrap();
        let parts = section.parts.into_iter();
        let mut lines: Vec<String> = parts
            .map(|part| String::from_utf8(part.body).unwrap())
            .collect();
        lines.sort_unstable();
        assert_eq!(
            lines.concat(),
            "{\"op\":\"delete\",\"key\":\"a\"}\n{\"op\":\"delete\",\"key_base64\":\"/w==\"}\n"
        );
    }

    #[test]
    fn one_key_stays_in_one_shard() {
        let text: String = (0..200).map(|number| line(number % 7)).collect();
        let (sections, _) = sections(text.as_bytes(), Position::default(), false);
        for part in &sections[0].parts {
            let is_rising = part.list.is_sorted_by_key(|operation| operation.line);
            assert!(is_rising);
        }
        let [one, two] = &*sections[0].parts else {
            panic!("two shards");
        };
        let shared = one.list.iter().any(|operation| {
            let key = operation.key_crc32c;
            two.list.iter().any(|other| other.key_crc32c == key)
        });
        assert!(!shared && !one.is_empty() && !two.is_empty());
    }
}
