use super::*;
use base::ManualClock;
use std::io::{BufRead, BufReader, Write};
use std::sync::mpsc::{Receiver, Sender, channel};

/// How long a test waits for what must come: it never does where the code is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// A pipe.
struct Pipe(io::PipeWriter);

impl Output for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn left_out(&mut self, by_writer: LeftOut) -> Vec<u8> {
        told(by_writer)
    }
}

fn told(by_writer: LeftOut) -> Vec<u8> {
    match by_writer.refused + by_writer.failed {
        0 => Vec::new(),
        count => format!("left out {count}\n").into_bytes(),
    }
}

/// What a test decides of each write.
type Decide = Box<dyn FnMut(&[u8]) -> io::Result<usize> + Send>;

/// Tells a test of each write.
struct Scripted {
    writes: Sender<String>,
    decide: Decide,
}

impl Output for Scripted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = (self.decide)(bytes)?;
        let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
        self.writes.send(text).map_err(|_| io::ErrorKind::Other)?;
        Ok(count)
    }

    fn reopen(&mut self) -> bool {
        self.writes.send("reopened".to_owned()).is_ok()
    }

    fn left_out(&mut self, by_writer: LeftOut) -> Vec<u8> {
        told(by_writer)
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(1_000))
}

fn scripted(
    clock: &Arc<ManualClock>,
    decide: impl FnMut(&[u8]) -> io::Result<usize> + Send + 'static,
) -> (LineWriter, Receiver<String>) {
    let (writes, written) = channel();
    let output = Scripted {
        writes,
        decide: Box::new(decide),
    };
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    (LineWriter::start("test", output, clock).unwrap(), written)
}

/// A writer to a pipe, the end that nobody reads yet, and how many lines went into it until
/// no more did.
fn stuck() -> (LineWriter, io::PipeReader, u64) {
    let (reader, writer) = io::pipe().unwrap();
    let lines = LineWriter::start("test", Pipe(writer), clock()).unwrap();
    let mut pushed = 0;
    let line = [&[b'x'; 999][..], b"\n"].concat();
    while lines.push(&line) {
        pushed += 1;
        assert!(pushed < 10_000, "the queue has a bound");
    }
    (lines, reader, pushed)
}

#[test]
fn whoever_writes_never_waits_for_a_reader_and_what_does_not_fit_is_told() {
    let (lines, reader, pushed) = stuck();
    let refused = (0..100)
        .filter(|_| !lines.push(&[b'x'; QUEUE_BYTES_MAX + 1]))
        .count() as u64;
    assert_eq!(refused, 100);
    assert!(!lines.flush(Duration::from_millis(1)));
    let (counts, counted) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for line in BufReader::new(reader).lines() {
                let line = line.unwrap();
                counts
                    .send(line.strip_prefix("left out ").map(str::to_owned))
                    .unwrap();
            }
            drop(counts);
        });
        assert!(lines.flush(PATIENCE));
        drop(lines);
    });
    let (told, whole): (Vec<_>, Vec<_>) = counted.iter().partition(Option::is_some);
    let told: u64 = told
        .iter()
        .flatten()
        .map(|count| count.parse::<u64>().unwrap())
        .sum();
    let whole = whole.len() as u64;
    // The line that showed that the queue is full was left out, too.
    assert_eq!((whole, told), (pushed, 101));
}

#[test]
fn an_output_that_is_stuck_does_not_hold_up_the_end() {
    let (lines, reader, _) = stuck();
    drop(lines);
    drop(reader);
}

#[test]
fn what_was_left_out_is_told_while_lines_go_on() {
    let clock = clock();
    let (lines, written) = scripted(&clock, |bytes| Ok(bytes.len()));
    assert!(!lines.push(&[b'x'; QUEUE_BYTES_MAX + 1]));
    let mut seen = String::new();
    // A line each tenth of a period: it never passes without one.
    for _ in 0..10 {
        assert!(lines.push(b"line\n"));
        seen.push_str(&written.recv_timeout(PATIENCE).unwrap());
        clock.advance(PERIOD / 10);
    }
    for _ in 0..1000 {
        assert!(lines.push(b"line\n"));
        seen.push_str(&written.recv_timeout(PATIENCE).unwrap());
        if seen.contains("left out 1\n") {
            return;
        }
    }
    panic!("it is never told: {seen}");
}

#[test]
fn what_cannot_be_written_is_counted_and_told_once_it_can_be_again() {
    let clock = clock();
    let mut failures = 1;
    let (lines, written) = scripted(&clock, move |bytes| {
        if failures > 0 {
            failures -= 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(bytes.len())
    });
    assert!(lines.push(b"one\ntwo\n"));
    assert!(lines.flush(PATIENCE));
    assert_eq!(lines.failed(), 2);
    assert!(
        written.try_recv().is_err(),
        "nothing is told where nothing can be written"
    );
    assert!(lines.push(b"three\n"));
    assert!(lines.flush(PATIENCE));
    let seen: String = written.try_iter().collect();
    assert_eq!(seen, "three\nleft out 2\n");
    assert_eq!((lines.failed(), lines.refused()), (2, 0));
}

/// Writes with what a disk has room for: a full one takes a part, and then nothing.
fn with_room(rooms: &[usize]) -> (LineWriter, Receiver<String>) {
    let mut rooms = Vec::from(rooms).into_iter();
    let mut is_full = false;
    scripted(&clock(), move |bytes| {
        if std::mem::take(&mut is_full) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let room = rooms.next().unwrap_or(usize::MAX);
        is_full = room > 0 && room < bytes.len();
        match room {
            0 => Err(io::ErrorKind::StorageFull.into()),
            room => Ok(bytes.len().min(room)),
        }
    })
}

#[test]
fn a_line_that_was_cut_is_ended_and_only_what_is_lost_of_a_piece_counts() {
    for (rooms, failed, expected) in [
        // A line is whole, one is cut.
        (&[6][..], 2, "one\ntw\nfour\nleft out 2\n"),
        // Nothing of the next piece is written, and then a part of it.
        (&[6, 0], 3, "one\ntw"),
        (&[6, 3], 3, "one\ntw\nfo"),
        // It ends with a line.
        (&[8], 1, "one\ntwo\nfour\nleft out 1\n"),
        // Only the end of the cut line.
        (&[6, 1], 3, "one\ntw\n"),
    ] {
        let (lines, written) = with_room(rooms);
        assert!(lines.push(b"one\ntwo\nthree\n"));
        assert!(lines.flush(PATIENCE));
        assert!(lines.push(b"four\n"));
        assert!(lines.flush(PATIENCE));
        let mut seen: String = written.try_iter().collect();
        assert_eq!(
            (seen.as_str(), lines.failed()),
            (expected, failed),
            "{rooms:?}"
        );
        assert!(lines.push(b"five\n"));
        assert!(lines.flush(PATIENCE));
        seen.extend(written.try_iter());
        for line in seen.lines() {
            let is_whole = ["one", "two", "four", "five"].contains(&line);
            let is_part = ["tw", "fo"].contains(&line);
            assert!(
                is_whole || is_part || line.starts_with("left out "),
                "{seen:?}"
            );
        }
        assert!(seen.contains("\nfive\n"), "{seen:?}");
    }
}

#[test]
fn what_could_not_be_told_is_told_later() {
    // The line is lost, the next one is written, and then there is no room for the report.
    let (lines, written) = with_room(&[0, 4, 5]);
    for line in ["one\n", "two\n"] {
        assert!(lines.push(line.as_bytes()));
        assert!(lines.flush(PATIENCE));
    }
    assert!(lines.push(b"six\n"));
    assert!(lines.flush(PATIENCE));
    let seen: String = written.try_iter().collect();
    assert_eq!(seen, "two\nleft \nsix\nleft out 1\n");
    assert_eq!(lines.failed(), 1, "a report is no line");
}

#[test]
fn a_new_file_does_not_begin_with_the_end_of_a_line_of_the_old_one() {
    let (lines, written) = with_room(&[2]);
    assert!(lines.push(b"one\n"));
    assert!(lines.flush(PATIENCE));
    lines.reopen();
    assert!(lines.push(b"two\n"));
    assert!(lines.flush(PATIENCE));
    let seen: String = written.try_iter().collect();
    assert_eq!(seen, "onreopenedtwo\nleft out 1\n");
}

#[test]
fn a_write_that_is_cut_short_or_would_block_goes_on() {
    let clock = clock();
    let mut turns = 0;
    let (lines, written) = scripted(&clock, move |bytes| {
        turns += 1;
        match turns % 3 {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            1 => Err(io::ErrorKind::Interrupted.into()),
            _ => Ok(bytes.len().min(3)),
        }
    });
    assert!(lines.push(b"one line\n"));
    assert!(lines.flush(PATIENCE));
    assert_eq!(written.try_iter().collect::<String>(), "one line\n");
}

#[test]
fn the_output_begins_anew_behind_the_lines_that_waited() {
    let clock = clock();
    let (pass, passed) = channel::<()>();
    let (lines, written) = scripted(&clock, move |bytes| {
        let _ = passed.recv();
        Ok(bytes.len())
    });
    for line in ["a\n", "b\n"] {
        assert!(lines.push(line.as_bytes()));
    }
    lines.reopen();
    assert!(lines.push(b"c\n"));
    drop(pass);
    assert!(lines.flush(PATIENCE));
    let seen: String = written.try_iter().collect();
    assert_eq!(seen, "a\nb\nreopenedc\n");
}

#[test]
fn pieces_are_whole_lines_and_as_many_as_a_pipe_takes_at_once() {
    let line = |bytes: usize| [&vec![b'x'; bytes - 1][..], b"\n"].concat();
    for (lines, end) in [
        (b"one".to_vec(), 3),
        (b"one\ntwo\n".to_vec(), 8),
        (line(PIECE_BYTES_MAX), PIECE_BYTES_MAX),
        ([line(4000), line(97)].concat(), 4000),
        ([line(4000), line(96), line(1)].concat(), 4096),
        ([line(10_000), line(1)].concat(), 10_000),
    ] {
        assert_eq!(piece_end(&lines), end);
    }
}
