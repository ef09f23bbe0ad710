//! The lines of a batch, as its body arrives.
//!
//! A line within one piece of the body is a slice of that piece. A line across several pieces is
//! assembled, and counts against the quota for uploads beyond [`FREE_BYTES`]. While the quota is
//! exhausted the lines pause, until memory is free or they are told to refuse the line. A line that
//! cannot be kept is skipped to its end.

use crate::admission::Uploads;
use base::Reservation;
use bytes::{Buf, Bytes};

/// How much of a line is put together without counting: each connection has buffers of
/// that size in any case.
pub(super) const FREE_BYTES: usize = 8 << 10;

/// A line.
#[derive(Debug)]
pub(super) struct Line {
    /// Its number, from 1.
    pub(super) number: u64,
    /// What it says.
    pub(super) text: LineText,
}

/// What a line says.
#[derive(Debug)]
pub(super) enum LineText {
    /// A whole line, and its reservation of memory if it counts. If not, nothing of it may be
    /// kept for long, because the piece in which it lies is kept with it.
    Whole(Bytes, Option<Reservation>),
    /// It is longer than any valid line.
    TooLong,
    /// There was no memory for it.
    Refused,
}

/// Splits a body into lines.
pub(super) struct Lines {
    line_bytes_max: usize,
    /// What has arrived and was not looked at.
    piece: Bytes,
    /// The reservation that covers `piece` and the pieces to come, of a body that is all here.
    body_reservation: Option<Reservation>,
    /// The beginning of a line whose end has not arrived.
    partial: Vec<u8>,
    partial_reservation: Option<Reservation>,
    /// Why the rest of the present line is skipped.
    skipped: Option<LineText>,
    /// How long the present line is so far, where there is no room for that.
    waits: Option<usize>,
    number: u64,
}

impl Lines {
    /// No lines yet. A line may have up to `line_bytes_max` bytes; `body_reservation` covers a
    /// body that is all here.
    pub(super) fn new(line_bytes_max: usize, body_reservation: Option<Reservation>) -> Self {
        Self {
            line_bytes_max,
            piece: Bytes::new(),
            body_reservation,
            partial: Vec::new(),
            partial_reservation: None,
            skipped: None,
            waits: None,
            number: 0,
        }
    }

    /// Adds a piece of the body. All lines before must have been taken.
    pub(super) fn push(&mut self, piece: Bytes) {
        debug_assert!(self.piece.is_empty());
        self.piece = piece;
    }

    /// Whether the memory of a line that is arriving counts.
    pub(super) fn is_counting(&self) -> bool {
        self.partial_reservation.is_some()
    }

    /// How long the line is for which there is no room, as far as it has arrived. Until there is,
    /// or it is refused, no line comes.
    pub(super) fn waiting_bytes(&self) -> Option<usize> {
        self.waits
    }

    /// How many lines have ended: what tells the present line from others.
    pub(super) fn ended(&self) -> u64 {
        self.number
    }

    /// How much the line lacks for which there is no room.
    pub(super) fn lacking(&self, uploads: &Uploads) -> usize {
        let bytes = self.waits.unwrap_or_default();
        uploads.lacking(
            self.partial_reservation.as_ref(),
            bytes,
            self.line_bytes_max,
        )
    }

    /// Refuses the line for which there is no room.
    pub(super) fn refuse(&mut self) {
        if self.waits.take().is_some() {
            self.skip(LineText::Refused);
        }
    }

    /// The next line whose end has arrived. Empty lines are passed over.
    pub(super) fn next(&mut self, uploads: &Uploads) -> Option<Line> {
        loop {
            if self.piece.is_empty() {
                // What is left of it has no bytes, and would keep all of what was read.
                self.piece = Bytes::new();
                return None;
            }
            let end = memchr::memchr(b'\n', &self.piece);
            // A line that lies in the piece alone takes no memory of its own.
            let is_alone = end.is_some() && self.partial.is_empty();
            if !is_alone && !self.make_room(end.unwrap_or(self.piece.len()), uploads) {
                return None;
            }
            let Some(end) = end else {
                let piece = std::mem::take(&mut self.piece);
                self.add(&piece);
                return None;
            };
            let rest = self.piece.split_to(end);
            self.piece.advance(1);
            let line = self.end_line(rest);
            if line.is_some() {
                return line;
            }
        }
    }

    /// The last line, if the body has ended without a line end.
    pub(super) fn last(&mut self) -> Option<Line> {
        self.end_line(Bytes::new())
    }

    /// Makes room for so much more of the present line, if it counts and is kept. Returns whether
    /// there is room.
    fn make_room(&mut self, part_bytes: usize, uploads: &Uploads) -> bool {
        let bytes = self.partial.len() + part_bytes;
        let counts = self.body_reservation.is_none()
            && self.skipped.is_none()
            && (FREE_BYTES + 1..=self.line_bytes_max).contains(&bytes);
        let reservation = &mut self.partial_reservation;
        let has_room = !counts
            || uploads
                .cover(reservation, bytes, self.line_bytes_max)
                .is_ok();
        self.waits = (!has_room).then_some(bytes);
        has_room
    }

    /// Adds a part of a line whose end has not arrived, for which there is room.
    fn add(&mut self, part: &[u8]) {
        let of_body = self.split_body_reservation(part.len());
        if self.skipped.is_some() {
            return;
        }
        let bytes = self.partial.len() + part.len();
        if bytes > self.line_bytes_max {
            return self.skip(LineText::TooLong);
        }
        // The body counts already.
        match (of_body, &mut self.partial_reservation) {
            (Some(reservation), Some(whole)) => whole.join(reservation),
            (Some(reservation), none) => *none = Some(reservation),
            (None, _) => {}
        }
        self.partial.extend_from_slice(part);
    }

    /// The line that ends with `rest`; `None` if it is empty.
    fn end_line(&mut self, rest: Bytes) -> Option<Line> {
        self.number += 1;
        let number = self.number;
        if self.partial.is_empty() && self.skipped.is_none() {
            let is_too_long = rest.len() > self.line_bytes_max;
            if !is_too_long && rest.trim_ascii().is_empty() {
                // Its reservation stays: a line beside it may keep the block in which it lies.
                return None;
            }
            // The line end counts, too.
            let reservation = self.split_body_reservation(rest.len() + 1);
            let text = if is_too_long {
                // Also a line of nothing but spaces, which need not come in one piece.
                LineText::TooLong
            } else {
                LineText::Whole(rest, reservation)
            };
            return Some(Line { number, text });
        }
        self.add(&rest);
        drop(self.split_body_reservation(1));
        if let Some(text) = self.skipped.take() {
            return Some(Line { number, text });
        }
        let line = Bytes::from(std::mem::take(&mut self.partial));
        let reservation = self.partial_reservation.take();
        let is_empty = line.trim_ascii().is_empty();
        let text = LineText::Whole(line, reservation);
        (!is_empty).then_some(Line { number, text })
    }

    fn skip(&mut self, why: LineText) {
        self.partial = Vec::new();
        self.partial_reservation = None;
        self.skipped = Some(why);
    }

    fn split_body_reservation(&mut self, bytes: usize) -> Option<Reservation> {
        let reservation = self.body_reservation.as_mut()?;
        Some(reservation.split(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::LONG_VALUE_BYTES;
    use std::time::Duration;

    fn uploads(long_bytes: usize) -> Uploads {
        Uploads::new((LONG_VALUE_BYTES, long_bytes), 0, Duration::ZERO)
    }

    fn all(body: &[u8], size: usize, line_bytes_max: usize) -> Vec<(u64, String)> {
        let uploads = uploads(0);
        let mut lines = Lines::new(line_bytes_max, None);
        let mut found = Vec::new();
        let mut take = |line: Line| {
            let text = match line.text {
                LineText::Whole(text, _) => String::from_utf8(text.to_vec()).unwrap(),
                LineText::TooLong => "too long".to_owned(),
                LineText::Refused => "refused".to_owned(),
            };
            found.push((line.number, text));
        };
        for piece in body.chunks(size) {
            lines.push(Bytes::copy_from_slice(piece));
            while let Some(line) = lines.next(&uploads) {
                take(line);
            }
        }
        lines.last().into_iter().for_each(take);
        assert_eq!(uploads.used(), 0, "what a line took is free again");
        found
    }

    #[test]
    fn lines_are_the_same_however_their_bytes_arrive() {
        let body = b"one\n\ntwo\r\n   \nthree is too long\nfour\n          \n\n5";
        for size in 1..=body.len() {
            let lines = all(body, size, 8);
            let expected = [
                (1, "one"),
                (3, "two\r"),
                (5, "too long"),
                (6, "four"),
                (7, "too long"),
                (9, "5"),
            ];
            let lines: Vec<_> = lines
                .iter()
                .map(|(number, text)| (*number, text.as_str()))
                .collect();
            assert_eq!(lines, expected, "{size}");
        }
        assert_eq!(all(b"", 1, 8), []);
        assert_eq!(all(b"\n", 1, 8), []);
    }

    /// The pieces that hyper hands over share a buffer, which is free again only once all of
    /// them are gone.
    #[test]
    fn nothing_of_a_piece_is_kept_once_its_lines_are_taken() {
        let uploads = uploads(0);
        let mut lines = Lines::new(4 << 20, None);
        let piece = Bytes::from([&b"line"[..], &[b'\n'; 16 << 10]].concat());
        lines.push(piece.clone());
        let line = lines.next(&uploads).unwrap();
        assert!(lines.next(&uploads).is_none());
        assert!(matches!(line.text, LineText::Whole(text, None) if text == "line"));
        assert!(piece.is_unique(), "only the test keeps what was read");
    }

    #[test]
    fn a_long_line_counts_while_it_arrives_and_is_refused_without_room() {
        let uploads = uploads(1 << 20);
        let mut lines = Lines::new(4 << 20, None);
        let piece = Bytes::from(vec![b'x'; FREE_BYTES]);
        lines.push(piece.clone());
        assert!(lines.next(&uploads).is_none());
        assert!(!lines.is_counting());
        lines.push(piece.clone());
        assert!(lines.next(&uploads).is_none());
        assert!(lines.is_counting());
        assert_eq!(uploads.used(), 2 * FREE_BYTES);
        let mut pushed = 2;
        while lines.waiting_bytes().is_none() {
            lines.push(piece.clone());
            assert!(lines.next(&uploads).is_none());
            pushed += 1;
        }
        assert_eq!(lines.waiting_bytes(), Some(pushed * FREE_BYTES));
        assert!(lines.lacking(&uploads) > 0);
        assert!(lines.next(&uploads).is_none(), "it stands still");
        lines.refuse();
        assert!(!lines.is_counting());
        for _ in 0..3 {
            assert!(lines.next(&uploads).is_none());
            lines.push(piece.clone());
        }
        assert!(lines.next(&uploads).is_none());
        lines.push(Bytes::from_static(b"end\nnext\n"));
        let line = lines.next(&uploads).unwrap();
        assert!(matches!(line.text, LineText::Refused), "{line:?}");
        let next = lines.next(&uploads).unwrap();
        assert!(matches!(next.text, LineText::Whole(text, None) if text == "next"));
        assert_eq!(uploads.used(), 0);
    }

    #[test]
    fn a_line_for_which_there_is_no_room_goes_on_once_there_is() {
        let uploads = uploads(1 << 20);
        let mut held = None;
        uploads.cover(&mut held, 1 << 20, 1 << 20).unwrap();
        let mut lines = Lines::new(4 << 20, None);
        let line = [&[b'x'; 100 << 10][..], b"end"].concat();
        lines.push(Bytes::copy_from_slice(&line[..70 << 10]));
        assert!(lines.next(&uploads).is_none());
        assert_eq!(lines.waiting_bytes(), Some(70 << 10));
        drop(held);
        assert!(lines.next(&uploads).is_none());
        assert_eq!(lines.waiting_bytes(), None);
        lines.push(Bytes::from([&line[70 << 10..], b"\nnext\n"].concat()));
        let whole = lines.next(&uploads).unwrap().text;
        assert!(matches!(&whole, LineText::Whole(text, Some(_)) if *text == line));
        drop(whole);
        let next = lines.next(&uploads).unwrap();
        assert!(matches!(next.text, LineText::Whole(text, None) if text == "next"));
        assert_eq!(uploads.used(), 0);
    }

    #[test]
    fn a_body_that_is_all_here_counts_once_and_is_freed_line_by_line() {
        let uploads = uploads(1 << 20);
        let mut reservation = None;
        let body = [vec![b'x'; 300], b"\nabc\n".to_vec()].concat();
        uploads
            .cover(&mut reservation, body.len(), body.len())
            .unwrap();
        let mut lines = Lines::new(4 << 20, reservation);
        let mut held = Vec::new();
        for piece in body.chunks(100) {
            lines.push(Bytes::copy_from_slice(piece));
            while let Some(line) = lines.next(&uploads) {
                held.push(line);
            }
        }
        assert!(lines.last().is_none());
        assert_eq!(uploads.used(), 304);
        held.remove(0);
        assert_eq!(uploads.used(), 4);
        held.clear();
        assert_eq!(uploads.used(), 0);
    }

    #[test]
    fn empty_lines_count_as_long_as_others_of_the_body_may_keep_their_blocks() {
        let uploads = uploads(1 << 20);
        let mut reservation = None;
        let body = Bytes::from([&[b'\n'; 100][..], b"abc\n"].concat());
        uploads
            .cover(&mut reservation, body.len(), body.len())
            .unwrap();
        let mut lines = Lines::new(4 << 20, reservation);
        lines.push(body);
        let line = lines.next(&uploads).unwrap();
        assert!(lines.next(&uploads).is_none() && lines.last().is_none());
        assert_eq!(uploads.used(), 104);
        drop(lines);
        assert_eq!(uploads.used(), 4);
        drop(line);
        assert_eq!(uploads.used(), 0);
    }
}
