//! The entry point for fuzzing what peers send. Whatever the bytes are, decoding
//! must not panic, must end, and must take no more memory than is allowed.

use super::handshake::fuzz_hello;
use crate::connection::assembly::Assembler;
use crate::wire::backup_message::{BackupAnswer, BackupRequest};
use crate::wire::frame::{Decoder, FrameError, HEADER_BYTES, PAYLOAD_BYTES_MAX};
use crate::wire::list_message::{ListAnswer, ListRequest};
use crate::wire::message::Message;
use crate::wire::node_report::{NodeReport, ReportedStatus};
use crate::wire::promise_message::{PromiseAnswer, PromiseRequest};
use crate::wire::run::Run;
use base::Quota;
use bytes::Bytes;

/// Half of the room for values, so that a few fit into a fuzzer's memory.
const HALF_OF_ROOM_BYTES: usize = 1 << 20;

/// Decodes `bytes` as frames, as they are and with repaired lengths and checksums.
/// The result must not depend on the sizes in which the bytes arrive.
pub fn fuzz_frames(bytes: &[u8]) {
    let mut repaired = bytes.to_vec();
    repair(&mut repaired);
    for bytes in [bytes, &repaired] {
        let whole = take_all(bytes, bytes.len().max(1));
        let piecemeal = take_all(bytes, 7);
        assert_eq!(
            whole, piecemeal,
            "the frames depend on the sizes in which their bytes arrive"
        );
    }
}

/// Decodes frames from bytes that arrive `size` at a time; returns how many were
/// valid, and what was wrong with the next one.
fn take_all(bytes: &[u8], size: usize) -> (usize, Option<FrameError>) {
    let mut decoder = Decoder::new(&[], PAYLOAD_BYTES_MAX);
    let mut values = Assembler::new(Quota::new(2 * HALF_OF_ROOM_BYTES));
    let mut frames = 0;
    for bytes in bytes.chunks(size) {
        decoder.push(bytes);
        loop {
            match take(&mut decoder, &mut values) {
                Ok(true) => frames += 1,
                Ok(false) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

/// Decodes the next frame, if there is one.
fn take(decoder: &mut Decoder, values: &mut Assembler<()>) -> Result<bool, FrameError> {
    let Some(frame) = decoder.next()? else {
        return Ok(false);
    };
    fuzz_hello(frame);
    match Message::decode(frame)? {
        Message::Examined(bytes) => {
            let report = NodeReport::decode(bytes);
            if let Some(ReportedStatus::Told(status)) = report.map(|report| report.status) {
                assert!(status.len() < bytes.len());
            }
        }
        Message::List { request, .. } => {
            if let Ok(request) = ListRequest::decode(request) {
                request.encode(&mut Vec::new());
            }
        }
        Message::Listed(answer) => {
            if let Ok(answer) = ListAnswer::decode(answer) {
                answer.encode(&mut Vec::new());
            }
        }
        Message::Write { entry, .. }
        | Message::Repair { entry, .. }
        | Message::Accept { entry, .. }
        | Message::Found(entry) => {
            if let Some(whole) = entry.whole() {
                assert_eq!(whole.key(), entry.key);
            } else {
                values.begin(frame, &entry, ())?;
            }
        }
        Message::Backup { request, .. } => drop(BackupRequest::decode(request)),
        Message::BackupAnswer(answer) => drop(BackupAnswer::decode(answer)),
        Message::Promise { request, .. } => drop(PromiseRequest::decode(request)),
        Message::PromiseAnswer(answer) => drop(PromiseAnswer::decode(answer)),
        Message::Run(head) if head.bytes.len() < head.run_bytes => {
            values.begin_run(frame, &head, ())?;
        }
        Message::Run(head) => {
            let run = Run::new(Bytes::copy_from_slice(head.bytes), true, 0);
            let _entries = run.entries().is_ok();
        }
        Message::Piece(piece) => drop(values.piece(frame, piece)?),
        Message::Writes { writes, .. } => {
            for write in writes {
                let (_, entry) = write?;
                assert!(!entry.key().is_empty());
            }
        }
        Message::NewerVersions(newer_versions) => {
            for newer_version in newer_versions {
                let _newer_version = newer_version?;
            }
        }
        _ => {}
    }
    Ok(true)
}

/// Cuts bytes into frames of the lengths that they name, and sets the right
/// checksums. A length that is too long is reduced to what is left.
fn repair(mut bytes: &mut [u8]) {
    while bytes.len() >= HEADER_BYTES {
        let wanted = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize;
        let payload_bytes = wanted % (bytes.len() - HEADER_BYTES + 1);
        let (frame, rest) = bytes.split_at_mut(HEADER_BYTES + payload_bytes);
        frame[4..8].copy_from_slice(&(payload_bytes as u32).to_le_bytes());
        let crc = base::crc32c(&frame[4..]);
        frame[..4].copy_from_slice(&crc.to_le_bytes());
        bytes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::end_frame;
    use crate::wire::message;
    use crate::wire::run::RunWriter;
    use base::{Entry, Expiry, Timestamp, TraceId};
    use cluster::Miss;
    use cluster::ReplicaState;
    use std::time::Duration;

    /// One message of each kind, and a long value.
    fn valid() -> Vec<u8> {
        let mut out = Vec::new();
        let second = Duration::from_secs(1);
        let at = Timestamp::from_u64(5);
        let short = Entry::value(b"key", at, b"value", Expiry::at_unix_ms(7), 3);
        let long = Entry::value(b"key", at, &[7; 70_000], Expiry::NEVER, 3);
        message::put_write(&mut out, 1, second, &short);
        message::put_write(&mut out, 2, second, &long);
        message::put_read(&mut out, 3, second, b"key");
        message::put_trace(&mut out, 12, TraceId::of([7; 16]).unwrap());
        message::put_read_unless_same(&mut out, 13, second, &long, 5);
        message::put_same(&mut out, 13);
        message::put_examine(&mut out, 14, second);
        message::put_examined(&mut out, 14, &crate::tests::REPORT);
        let request = BackupRequest::GiveUp { hold: 1 };
        message::put_backup(&mut out, 15, second, &request);
        message::put_backup_answer(&mut out, 15, &BackupAnswer::GivenUp);
        let request = PromiseRequest::Release {
            key: Bytes::from_static(b"key"),
            ballot: at,
        };
        message::put_promise(&mut out, 16, second, &request);
        message::put_promise_answer(&mut out, 16, PromiseAnswer::Released);
        message::put_accept(&mut out, 17, second, at, &short);
        message::put_piece(&mut out, 2, &long.value_bytes()[..1 << 16]);
        message::put_stored(&mut out, 4, base::NewerVersion::At(at));
        message::put_stored(&mut out, 4, base::NewerVersion::None);
        message::put_found(&mut out, 5, &short);
        message::put_found(&mut out, 5, &Entry::tombstone(b"key", at, 1));
        message::put_piece(&mut out, 2, &long.value_bytes()[1 << 16..]);
        message::put_absent(&mut out, 6);
        message::put_missed(&mut out, 7, Miss::Full);
        message::put_ping(&mut out, 8);
        message::put_pong(&mut out, 8, 9);
        message::put_replica_state(&mut out, ReplicaState::Voter);
        message::put_contact(&mut out, crate::Contact::FULL);
        let writes = out.len();
        message::begin_writes(&mut out, 9);
        for entry in [&short, &Entry::tombstone(b"key", at, 1)] {
            message::put_write_item(&mut out, 11, entry);
        }
        end_frame(&mut out, writes);
        let newer_versions = out.len();
        message::begin_newer_versions(&mut out);
        for newer_version in [base::NewerVersion::None, base::NewerVersion::At(at)] {
            message::put_newer_version_item(&mut out, 11, newer_version);
        }
        end_frame(&mut out, newer_versions);
        for entries in [1, 3] {
            let mut run = RunWriter::default();
            for _ in 0..entries {
                run.push(Entry::value(b"key", at, &[7; 30_000], Expiry::NEVER, 3).lend());
            }
            let run = run.finish(true, 9);
            message::put_run(&mut out, 10, true, 9, run.bytes());
            if entries == 3 {
                for piece in run.bytes().chunks(1 << 16) {
                    message::put_piece(&mut out, 10, piece);
                }
            }
        }
        out
    }

    #[test]
    fn valid_frames_are_decoded_and_need_no_repair() {
        assert_eq!(take_all(&valid(), 1), (31, None));
        let mut repaired = valid();
        repair(&mut repaired);
        assert!(repaired == valid());
    }

    #[test]
    fn the_decoder_survives_mutations_of_valid_frames() {
        let valid = valid();
        let mut random = fastrand::Rng::with_seed(19);
        for _ in 0..300 {
            let mut bytes = valid.clone();
            for _ in 0..random.usize(1..6) {
                let at = random.usize(0..bytes.len());
                let end = bytes.len().min(at + random.usize(0..200));
                match random.u8(0..5) {
                    0 => bytes.truncate(at.max(1)),
                    1 if bytes.len() > 1000 => drop(bytes.drain(at..end)),
                    2 => bytes.extend_from_within(at..end),
                    3 => bytes[at] ^= 1 << random.u8(0..8),
                    _ => bytes[at] = random.u8(..),
                }
            }
            fuzz_frames(&bytes);
        }
    }
}
