//! Appends messages to what is sent.

use super::{
    ABSENT, ACCEPT, BACKUP, BACKUP_ANSWER, CONTACT, EXAMINE, EXAMINED, FOUND, GC_THRESHOLD, LIST,
    LISTED, MISSED, NEWER, NEWER_VERSIONS, NO_NEWER, OBSOLETE, OVERTAKEN, PAGE, PAGED, PIECE, PING,
    PONG, PROMISE, PROMISE_ANSWER, READ, READ_UNLESS_SAME, REPAIR, REPAIR_WRITE, REPLICA_STATE,
    REPORT, RUN, SAME, SESSION, SESSION_ANSWER, STORED, TRACE, UNKNOWN, WRITE, WRITES,
};
use crate::wire::backup_message::{BackupAnswer, BackupRequest};
use crate::wire::contact::Contact;
use crate::wire::entry_fields::{FLAG_EXPIRES, FLAG_TOMBSTONE};
use crate::wire::frame::{PIECE_BYTES, begin_frame, put_frame};
use crate::wire::list_message::{ListAnswer, ListRequest};
use crate::wire::node_report::NodeReport;
use crate::wire::page;
use crate::wire::promise_message::{PromiseAnswer, PromiseRequest};
use crate::wire::repair_message::put_session_id;
use crate::wire::repair_message::{RepairAnswer, RepairRequest};
use crate::wire::same::ValueHash;
use crate::wire::store_report::{ListReport, StoreReport};
use base::{Entry, EntryRef, Expiry, Kind, NewerVersion, Timestamp, TraceId};
use cluster::pages::PageRequest;
use cluster::repair::SessionId;
use cluster::{Miss, ReplicaState};
use std::time::Duration;

/// Whether the value of an entry travels in pieces.
pub(crate) fn is_long(entry: &Entry) -> bool {
    entry.value_bytes().len() > PIECE_BYTES
}

/// Appends a write; if its value is long, the value follows in pieces.
pub(crate) fn put_write(out: &mut Vec<u8>, call: u64, remaining: Duration, entry: &Entry) {
    put_frame(out, WRITE, call, |out| {
        put_remaining(out, remaining);
        put_entry(out, entry);
    });
}

/// Appends the beginning of a frame of many writes.
pub(crate) fn begin_writes(out: &mut Vec<u8>, remaining_ms: u32) {
    begin_frame(out, WRITES, 0);
    out.extend_from_slice(&remaining_ms.to_le_bytes());
}

/// Appends a write, whose value is short, to a frame of many.
pub(crate) fn put_write_item(out: &mut Vec<u8>, call: u64, entry: &Entry) {
    out.extend_from_slice(&call.to_le_bytes());
    put_entry(out, entry);
}

/// Appends the beginning of a frame of many answers to writes that are stored.
pub(crate) fn begin_newer_versions(out: &mut Vec<u8>) {
    begin_frame(out, NEWER_VERSIONS, 0);
}

/// Appends one answer of such a frame: the write is stored, and what newer version the replica
/// held.
pub(crate) fn put_newer_version_item(out: &mut Vec<u8>, call: u64, newer_version: NewerVersion) {
    out.extend_from_slice(&call.to_le_bytes());
    put_newer_version(out, newer_version);
}

/// Appends a repair write; a long value is yet to follow.
pub(crate) fn put_repair_write(
    out: &mut Vec<u8>,
    call: u64,
    remaining: Duration,
    session: SessionId,
    entry: &Entry,
) {
    put_frame(out, REPAIR_WRITE, call, |out| {
        put_remaining(out, remaining);
        put_session_id(out, session);
        put_entry(out, entry);
    });
}

/// Appends a repair; a long value is yet to follow.
pub(crate) fn put_repair(
    out: &mut Vec<u8>,
    call: u64,
    remaining: Duration,
    gc_threshold: Timestamp,
    entry: &Entry,
) {
    put_frame(out, REPAIR, call, |out| {
        put_remaining(out, remaining);
        out.extend_from_slice(&gc_threshold.as_u64().to_le_bytes());
        put_entry(out, entry);
    });
}

/// The call of what a store names with all later answers. No call has this number.
pub(crate) const ALL_LATER: u64 = 0;

/// Appends the GC threshold that the store names with its later answers, or with the long value
/// that answers a call.
pub(crate) fn put_gc_threshold(out: &mut Vec<u8>, call: u64, gc_threshold: Timestamp) {
    put_frame(out, GC_THRESHOLD, call, |out| {
        out.extend_from_slice(&gc_threshold.as_u64().to_le_bytes());
    });
}

/// Appends a request of a repair session.
pub(crate) fn put_session(
    out: &mut Vec<u8>,
    call: u64,
    remaining: Duration,
    request: &RepairRequest,
) {
    put_frame(out, SESSION, call, |out| {
        put_remaining(out, remaining);
        request.encode(out);
    });
}

/// Appends the answer to a request of a repair session.
pub(crate) fn put_session_answer(out: &mut Vec<u8>, call: u64, answer: &RepairAnswer) {
    put_frame(out, SESSION_ANSWER, call, |out| answer.encode(out));
}

/// Appends a read.
pub(crate) fn put_read(out: &mut Vec<u8>, call: u64, remaining: Duration, key: &[u8]) {
    put_frame(out, READ, call, |out| {
        put_remaining(out, remaining);
        out.extend_from_slice(key);
    });
}

/// Appends the trace of the request with this call, which follows.
pub(crate) fn put_trace(out: &mut Vec<u8>, call: u64, trace: TraceId) {
    put_frame(out, TRACE, call, |out| out.extend_from_slice(trace.bytes()));
}

/// Appends a read by one that holds a version; `seed` is that of the connection.
pub(crate) fn put_read_unless_same(
    out: &mut Vec<u8>,
    call: u64,
    remaining: Duration,
    held: &Entry,
    seed: u64,
) {
    put_frame(out, READ_UNLESS_SAME, call, |out| {
        put_remaining(out, remaining);
        ValueHash::of(held.value_bytes(), seed).encode(out);
        put_entry_head(out, held.lend());
        out.extend_from_slice(held.key());
    });
}

/// Appends the answer that the replica holds the same version.
pub(crate) fn put_same(out: &mut Vec<u8>, call: u64) {
    put_frame(out, SAME, call, |_| {});
}

/// Appends the answer that a write is stored.
pub(crate) fn put_stored(out: &mut Vec<u8>, call: u64, newer_version: NewerVersion) {
    put_frame(out, STORED, call, |out| {
        put_newer_version(out, newer_version);
    });
}

fn put_newer_version(out: &mut Vec<u8>, newer_version: NewerVersion) {
    let (newer_version, timestamp) = match newer_version {
        NewerVersion::None => return out.push(NO_NEWER),
        NewerVersion::At(newest) => (NEWER, newest),
        NewerVersion::Overtaken(newest) => (OVERTAKEN, newest),
        NewerVersion::Unknown(bound) => (UNKNOWN, bound),
    };
    out.push(newer_version);
    out.extend_from_slice(&timestamp.as_u64().to_le_bytes());
}

/// Appends the version that was found; if its value is long, the value follows in
/// pieces.
pub(crate) fn put_found(out: &mut Vec<u8>, call: u64, entry: &Entry) {
    put_frame(out, FOUND, call, |out| put_entry(out, entry));
}

/// Appends the answer that there is no version.
pub(crate) fn put_absent(out: &mut Vec<u8>, call: u64) {
    put_frame(out, ABSENT, call, |_| {});
}

/// Appends why a request was not handled.
pub(crate) fn put_missed(out: &mut Vec<u8>, call: u64, miss: Miss) {
    put_frame(out, MISSED, call, |out| {
        out.push(code_of_miss(miss));
        if let Miss::Obsolete { below } = miss {
            out.extend_from_slice(&below.as_u64().to_le_bytes());
        }
    });
}

/// Appends a ping; its pong repeats `token`.
pub(crate) fn put_ping(out: &mut Vec<u8>, token: u64) {
    put_frame(out, PING, token, |_| {});
}

/// Appends the answer to a ping.
pub(crate) fn put_pong(out: &mut Vec<u8>, token: u64, unix_ms: u64) {
    let unix_ms = unix_ms.to_le_bytes();
    put_frame(out, PONG, token, |out| out.extend_from_slice(&unix_ms));
}

/// Appends how this side's store stands.
pub(crate) fn put_replica_state(out: &mut Vec<u8>, replica_state: ReplicaState) {
    put_frame(out, REPLICA_STATE, 0, |out| out.push(replica_state as u8));
}

/// Appends how this side deals with the other.
pub(crate) fn put_contact(out: &mut Vec<u8>, contact: Contact) {
    put_frame(out, CONTACT, 0, |out| out.push(contact.code()));
}

/// Appends what this side has.
pub(crate) fn put_report(out: &mut Vec<u8>, report: StoreReport) {
    put_frame(out, REPORT, 0, |out| {
        out.extend_from_slice(&report.acknowledged.to_le_bytes());
        out.extend_from_slice(&report.gc_threshold.as_u64().to_le_bytes());
        if report.list != ListReport::default() {
            out.extend_from_slice(&0u64.to_le_bytes());
            report.list.encode(out);
        }
    });
}

/// Appends a request about the list of members.
pub(crate) fn put_list(out: &mut Vec<u8>, call: u64, remaining: Duration, request: &ListRequest) {
    put_frame(out, LIST, call, |out| {
        put_remaining(out, remaining);
        request.encode(out);
    });
}

/// Appends the answer to one.
pub(crate) fn put_listed(out: &mut Vec<u8>, call: u64, answer: &ListAnswer) {
    put_frame(out, LISTED, call, |out| answer.encode(out));
}

/// Appends a request for a page of a range.
pub(crate) fn put_page(out: &mut Vec<u8>, call: u64, remaining: Duration, request: &PageRequest) {
    put_frame(out, PAGE, call, |out| {
        put_remaining(out, remaining);
        page::put_request(out, request);
    });
}

/// Appends a page of a range; if its items are long, they follow in pieces. `page` is an
/// entry whose key is where the next page begins, and whose value the items are.
pub(crate) fn put_paged(out: &mut Vec<u8>, call: u64, flags: (bool, bool), page: &Entry) {
    page::put_paged(out, PAGED, call, flags, page);
}

/// Appends a request for a node report.
pub(crate) fn put_examine(out: &mut Vec<u8>, call: u64, remaining: Duration) {
    put_frame(out, EXAMINE, call, |out| put_remaining(out, remaining));
}

/// Appends the node report of this node.
pub(crate) fn put_examined(out: &mut Vec<u8>, call: u64, report: &NodeReport) {
    put_frame(out, EXAMINED, call, |out| report.encode(out));
}

/// Appends a request for a backup.
pub(crate) fn put_backup(
    out: &mut Vec<u8>,
    call: u64,
    remaining: Duration,
    request: &BackupRequest,
) {
    put_frame(out, BACKUP, call, |out| {
        put_remaining(out, remaining);
        request.encode(out);
    });
}

/// Appends the answer to a request for a backup.
pub(crate) fn put_backup_answer(out: &mut Vec<u8>, call: u64, answer: &BackupAnswer) {
    put_frame(out, BACKUP_ANSWER, call, |out| answer.encode(out));
}

/// Appends a request of a conditional write.
pub(crate) fn put_promise(
    out: &mut Vec<u8>,
    call: u64,
    remaining: Duration,
    request: &PromiseRequest,
) {
    put_frame(out, PROMISE, call, |out| {
        put_remaining(out, remaining);
        request.encode(out);
    });
}

/// Appends the answer to a request of a conditional write.
pub(crate) fn put_promise_answer(out: &mut Vec<u8>, call: u64, answer: PromiseAnswer) {
    put_frame(out, PROMISE_ANSWER, call, |out| answer.encode(out));
}

/// Appends a version that is to be accepted; a long value is yet to follow.
pub(crate) fn put_accept(
    out: &mut Vec<u8>,
    call: u64,
    remaining: Duration,
    ballot: Timestamp,
    entry: &Entry,
) {
    put_frame(out, ACCEPT, call, |out| {
        put_remaining(out, remaining);
        out.extend_from_slice(&ballot.as_u64().to_le_bytes());
        put_entry(out, entry);
    });
}

/// Appends the next piece of a long value.
pub(crate) fn put_piece(out: &mut Vec<u8>, call: u64, piece: &[u8]) {
    put_frame(out, PIECE, call, |out| out.extend_from_slice(piece));
}

fn put_remaining(out: &mut Vec<u8>, remaining: Duration) {
    out.extend_from_slice(&remaining_ms(remaining).to_le_bytes());
}

/// A remaining time as it is sent, in milliseconds.
pub(crate) fn remaining_ms(remaining: Duration) -> u32 {
    // Rounded up, so that less than a millisecond is not sent as none.
    let remaining_ms = remaining.as_micros().div_ceil(1000);
    u32::try_from(remaining_ms).unwrap_or(u32::MAX)
}

/// Appends a run; if it is long, its bytes follow in pieces.
pub(crate) fn put_run(
    out: &mut Vec<u8>,
    call: u64,
    is_last: bool,
    position_permille: u16,
    bytes: &[u8],
) {
    put_frame(out, RUN, call, |out| {
        out.push(is_last.into());
        out.extend_from_slice(&position_permille.to_le_bytes());
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        if bytes.len() <= PIECE_BYTES {
            out.extend_from_slice(bytes);
        }
    });
}

fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    put_entry_head(out, entry.lend());
    out.extend_from_slice(entry.key());
    if !is_long(entry) {
        out.extend_from_slice(entry.value_bytes());
    }
}

/// Appends an entry without its key and value.
pub(crate) fn put_entry_head(out: &mut Vec<u8>, entry: EntryRef<'_>) {
    let expires = entry.expiry() != Expiry::NEVER;
    let tombstone = entry.kind() == Kind::Tombstone;
    let tombstone_flag = if tombstone { FLAG_TOMBSTONE } else { 0 };
    out.push(tombstone_flag | if expires { FLAG_EXPIRES } else { 0 });
    out.push(entry.copies());
    out.extend_from_slice(&(entry.key().len() as u16).to_le_bytes());
    out.extend_from_slice(&entry.timestamp().as_u64().to_le_bytes());
    out.extend_from_slice(&(entry.value_bytes().len() as u32).to_le_bytes());
    if expires {
        out.extend_from_slice(&entry.expiry().unix_ms().to_le_bytes());
    }
}

fn code_of_miss(miss: Miss) -> u8 {
    match miss {
        // A replica that waited for a silent node is itself late for the dialler.
        Miss::Timeout | Miss::Suspected => 1,
        // Only the dialler notices that the other side does not know a request.
        Miss::Refused | Miss::Unsupported => 2,
        Miss::Overloaded => 3,
        Miss::Full => 4,
        Miss::Failed => 5,
        Miss::Learner => 6,
        Miss::Undecided => 8,
        Miss::OtherEpoch => 9,
        Miss::Obsolete { .. } => OBSOLETE,
    }
}
