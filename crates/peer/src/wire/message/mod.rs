//! Messages: what frames say after the handshake.
//!
//! ```text
//! kind  message  payload
//!    1  write    remaining ms u32 | entry
//!    2  read     remaining ms u32 | key
//!    3  stored   newer version u8: 0 none | 1 at, timestamp u64
//!                                    | 2 unknown, bound on timestamps u64
//!                                    | 3 overtaken, timestamp u64
//!    4  found    entry
//!    5  absent
//!    6  missed   reason u8: 1 timeout, 2 refused, 3 overloaded, 4 full, 5 failed, 6 learner
//!                                    | 7 obsolete, closed timestamp or GC threshold u64
//!                                    | 8 undecided
//!                                          (7 and 8 only with the feature `GC_THRESHOLD`)
//!                                    | 9 other epoch
//!    7  ping                                (call: any number, which the pong repeats)
//!    8  pong     wall clock in ms u64
//!    9  piece    the next bytes of the value of this call
//!   10  replica state code u8, as in hellos     (only with the feature `REPLICA_STATE`)
//!   11  session  remaining ms u32 | request, as drawn in `repair_message/`
//!   12  session  answer, as drawn there
//!       answer
//!   13  repair   remaining ms u32 | session, as drawn there | entry
//!       write
//!   14  run      is last u8 | position u16, in thousandths | run bytes u32 | run
//!                                          (11 to 14 only with the feature `SESSIONS`)
//!   15  report   acknowledged writes u64 | GC threshold u64
//!            | 0 u64 and the report of the list of members, if there is one, as drawn in
//!            `store_report.rs`; or a timestamp of earlier releases
//!                                          (only with the feature `REPORT`)
//!   16  GC threshold  u64                  (of all later answers of the connection;
//!                                          with a call: of the long value that answers it)
//!   17  repair   remaining ms u32 | GC threshold u64 | entry
//!                                          (16 and 17 only with the feature `GC_THRESHOLD`)
//!   18  writes   remaining ms u32 | for each write: call u64 | entry
//!   19  newer    for each write that is stored: call u64 | newer version, as in `stored`
//!                                          (18 and 19 only with the feature `MANY`)
//!   21  page     request, as drawn in `page.rs`
//!   22  paged    a page, as drawn there
//!                                          (21 and 22 only with the feature `PAGES`)
//!   25  trace    id, 16 bytes, the highest first
//!                                          (of the request with this call, which comes before
//!                                          any other trace; only with the feature `TRACES`)
//!   26  read     remaining ms u32 | seed u64 | hash of the value u128 | entry without its value
//!       unless same                        (answered as a read of its key is)
//!   27  same                               (an answer to 26; both only with the feature `SAME`)
//!   28  examine  remaining ms u32
//!   29  examined node report, as drawn in `node_report.rs`
//!                                          (28 and 29 only with the feature `EXAMINATION`)
//!   60  backup   remaining ms u32 | request, as drawn in `backup_message.rs`
//!   61  backup   answer, as drawn there
//!       answer                             (60 and 61 only with the feature `BACKUPS`)
//!   64  promise  remaining ms u32 | request, as drawn in `promise_message.rs`
//!   65  promise  answer, as drawn there
//!       answer                             (to 64, and to 66 if the version is refused)
//!   66  accept   remaining ms u32 | ballot u64 | entry
//!                                          (answered as a write is; 64 to 66 only with the
//!                                          feature `PROMISES`)
//!   30  contact  bits u8: 1 the acceptor serves all requests of the dialler, 2 all links of
//!            the acceptor to the dialler are up | whatever later releases add
//!                                          (only with the feature `CONTACT`)
//!   62  list     remaining ms u32 | request, as drawn in `list_message.rs`
//!   63  listed   answer, as drawn there      (62 and 63 only with the feature `LISTS`)
//!
//! entry = flags u8 | copies u8 | key bytes u16 | timestamp u64 | value bytes u32
//!       | expiry u64, if flags has EXPIRES | key | value
//! ```
//!
//! `remaining ms` is how long the dialler still waits; a later answer need not be
//! sent.
//!
//! If a value is longer than [`PIECE_BYTES`], its entry arrives without it. The
//! value follows in pieces, between other frames. Each piece but the last has
//! exactly that size. See `connection/assembly.rs`. A run (`run.rs`) travels in the same way.
//!
//! `writes` and `newer_versions` say the same as a frame for each write, with one header and one
//! checksum for all. Entries in `writes` have short values.
//!
//! Requests, their pieces and pings go from the dialler to the acceptor; the other
//! messages go back.

mod encode;
mod fields;
mod many;

pub(crate) use encode::{
    ALL_LATER, begin_newer_versions, begin_writes, is_long, put_absent, put_accept, put_backup,
    put_backup_answer, put_contact, put_entry_head, put_examine, put_examined, put_found,
    put_gc_threshold, put_list, put_listed, put_missed, put_newer_version_item, put_page,
    put_paged, put_piece, put_ping, put_pong, put_promise, put_promise_answer, put_read,
    put_read_unless_same, put_repair, put_repair_write, put_replica_state, put_report, put_run,
    put_same, put_session, put_session_answer, put_stored, put_trace, put_write, put_write_item,
    remaining_ms,
};

pub(crate) use many::{Entries, Many, NewerVersions};

use fields::{Fields, miss_of_code};

use crate::wire::contact::Contact;
use crate::wire::frame::{Frame, FrameError};
use crate::wire::page::{PagedHead, decode_paged};
use crate::wire::same::{HeldVersion, ValueHash};
use crate::wire::store_report::StoreReport;
use base::{Entry, Expiry, Kind, NewerVersion, Timestamp, TraceId};
use cluster::Miss;
use cluster::ReplicaState;
use cluster::repair::SessionId;
use std::time::Duration;

const WRITE: u8 = 1;
const READ: u8 = 2;
const STORED: u8 = 3;
const FOUND: u8 = 4;
const ABSENT: u8 = 5;
const MISSED: u8 = 6;
const PING: u8 = 7;
const PONG: u8 = 8;
const PIECE: u8 = 9;
const REPLICA_STATE: u8 = 10;
const SESSION: u8 = 11;
const SESSION_ANSWER: u8 = 12;
const REPAIR_WRITE: u8 = 13;
const RUN: u8 = 14;
const REPORT: u8 = 15;

const GC_THRESHOLD: u8 = 16;
const REPAIR: u8 = 17;

const WRITES: u8 = 18;
const NEWER_VERSIONS: u8 = 19;

const PAGE: u8 = 21;
const PAGED: u8 = 22;

const TRACE: u8 = 25;
const READ_UNLESS_SAME: u8 = 26;
const SAME: u8 = 27;

const EXAMINE: u8 = 28;
const EXAMINED: u8 = 29;

const CONTACT: u8 = 30;

const BACKUP: u8 = 60;
const BACKUP_ANSWER: u8 = 61;
const LIST: u8 = 62;
const LISTED: u8 = 63;

const PROMISE: u8 = 64;
const PROMISE_ANSWER: u8 = 65;
const ACCEPT: u8 = 66;

const OBSOLETE: u8 = 7;

const NO_NEWER: u8 = 0;
const NEWER: u8 = 1;
const UNKNOWN: u8 = 2;
/// Only to a dialler that has the feature `PROMISES`.
const OVERTAKEN: u8 = 3;

/// A message that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// Store this version.
    Write {
        /// How long the dialler still waits for the answer.
        remaining: Duration,
        /// The version.
        entry: EntryHead<'a>,
    },
    /// Find the freshest version of a key.
    Read {
        /// How long the dialler still waits for the answer.
        remaining: Duration,
        /// The key.
        key: &'a [u8],
    },
    /// Find the freshest version of a key, and say only that it is the same if it is this one.
    ReadUnlessSame {
        /// How long the dialler still waits for the answer.
        remaining: Duration,
        /// The version that the dialler holds, without its value.
        held: EntryHead<'a>,
        /// The hash of that value.
        hash: ValueHash,
    },
    /// The freshest version is the one that the dialler holds.
    Same,
    /// The request with the call of this frame, which follows, is part of this trace.
    Trace(TraceId),
    /// The version is stored.
    Stored {
        /// What newer versions the replica held when the version first arrived.
        newer_version: NewerVersion,
    },
    /// The freshest version.
    Found(EntryHead<'a>),
    /// The key has no version.
    Absent,
    /// The request was not handled.
    Missed(Miss),
    /// A heartbeat, which the acceptor answers with a pong.
    Ping,
    /// The answer to a ping.
    Pong {
        /// The acceptor's wall clock, in milliseconds since the Unix epoch.
        unix_ms: u64,
    },
    /// The next piece of a long value.
    Piece(&'a [u8]),
    /// How the acceptor's store stands.
    ReplicaState(ReplicaState),
    /// What the acceptor has.
    Report(StoreReport),
    /// A request of a repair session.
    Session {
        /// How long the dialler waits for the answer.
        remaining: Duration,
        /// The request.
        request: &'a [u8],
    },
    /// The answer to a request of a repair session.
    SessionAnswer(&'a [u8]),
    /// Store this version, which a repair session brings.
    RepairWrite {
        /// How long the dialler waits for the answer.
        remaining: Duration,
        /// The session.
        session: SessionId,
        /// The version.
        entry: EntryHead<'a>,
    },
    /// A run of versions, which answers a request to stream a range.
    Run(RunHead<'a>),
    /// The GC threshold that the acceptor's store names with its answers from here on, or with the
    /// long value that answers the frame's call.
    GcThreshold(Timestamp),
    /// Store these versions.
    Writes {
        /// How long the dialler still waits for the answers.
        remaining: Duration,
        /// The versions.
        writes: Many<'a, Entries>,
    },
    /// These versions are stored.
    NewerVersions(Many<'a, NewerVersions>),
    /// Store this version, with which a store has answered a read.
    Repair {
        /// How long the dialler waits for the answer.
        remaining: Duration,
        /// The GC threshold that the store has named.
        gc_threshold: Timestamp,
        /// The version.
        entry: EntryHead<'a>,
    },
    /// Tell the next keys of a range.
    Page {
        /// How long the dialler waits for the answer.
        remaining: Duration,
        /// The request.
        request: &'a [u8],
    },
    /// A page of a range.
    Paged(PagedHead<'a>),
    /// Send your node report.
    Examine {
        /// How long the dialler waits for the answer.
        remaining: Duration,
    },
    /// The node report of the acceptor, in bytes.
    Examined(&'a [u8]),
    /// A request for a backup.
    Backup {
        /// How long the dialler waits for the answer.
        remaining: Duration,
        /// The request.
        request: &'a [u8],
    },
    /// The answer to a request for a backup.
    BackupAnswer(&'a [u8]),
    /// A request of a conditional write.
    Promise {
        /// How long the dialler waits for the answer.
        remaining: Duration,
        /// The request.
        request: &'a [u8],
    },
    /// The answer to a request of a conditional write.
    PromiseAnswer(&'a [u8]),
    /// Store this version, if the promise of its ballot is kept.
    Accept {
        /// How long the dialler waits for the answer.
        remaining: Duration,
        /// The ballot.
        ballot: Timestamp,
        /// The version.
        entry: EntryHead<'a>,
    },
    /// How the acceptor deals with the dialler.
    Contact(Contact),
    /// A request about the list of members.
    List {
        /// How long the dialler waits for the answer.
        remaining: Duration,
        /// The request.
        request: &'a [u8],
    },
    /// The answer to one.
    Listed(&'a [u8]),
}

/// A run that has arrived, without its bytes if it is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunHead<'a> {
    pub(crate) is_last: bool,
    pub(crate) position_permille: u16,
    /// The length of the whole run.
    pub(crate) run_bytes: usize,
    /// The run, if it is short.
    pub(crate) bytes: &'a [u8],
}

/// An entry that has arrived, without its value if that is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryHead<'a> {
    pub(crate) kind: Kind,
    pub(crate) copies: u8,
    pub(crate) timestamp: Timestamp,
    pub(crate) expiry: Expiry,
    pub(crate) key: &'a [u8],
    /// The length of the whole value.
    pub(crate) value_bytes: usize,
    /// The value, if it is short.
    value: &'a [u8],
}

impl<'a> EntryHead<'a> {
    /// What stands for a page whose items are yet to arrive.
    pub(crate) fn of_page(head: &PagedHead<'a>) -> Self {
        Self {
            key: head.next,
            ..Self::of_run(head.items_bytes)
        }
    }

    /// What stands for a run of so many bytes, which are yet to arrive.
    pub(crate) fn of_run(run_bytes: usize) -> Self {
        Self {
            kind: Kind::Value,
            copies: 0,
            timestamp: Timestamp::ZERO,
            expiry: Expiry::NEVER,
            key: &[],
            value_bytes: run_bytes,
            value: &[],
        }
    }

    /// The version whose value has this hash.
    pub(crate) fn with_hash(&self, hash: ValueHash) -> HeldVersion {
        HeldVersion {
            timestamp: self.timestamp,
            kind: self.kind,
            expiry: self.expiry,
            copies: self.copies,
            value_bytes: self.value_bytes,
            hash,
        }
    }

    /// The entry, if its value has arrived with it.
    pub(crate) fn whole(&self) -> Option<Entry> {
        if self.value.len() < self.value_bytes {
            return None;
        }
        let (key, timestamp, copies) = (self.key, self.timestamp, self.copies);
        Some(match self.kind {
            Kind::Value => Entry::value(key, timestamp, self.value, self.expiry, copies),
            Kind::Tombstone => Entry::tombstone(key, timestamp, copies),
        })
    }
}

impl<'a> Message<'a> {
    /// Decodes the message in a frame.
    ///
    /// # Errors
    /// [`FrameError::Malformed`].
    pub(crate) fn decode(frame: Frame<'a>) -> Result<Self, FrameError> {
        let mut fields = Fields::of(frame);
        let message = match frame.kind {
            WRITE => Self::Write {
                remaining: fields.remaining()?,
                entry: fields.entry()?,
            },
            READ => Self::Read {
                remaining: fields.remaining()?,
                key: fields.key_of(fields.reader.rest().len())?,
            },
            READ_UNLESS_SAME => Self::ReadUnlessSame {
                remaining: fields.remaining()?,
                hash: ValueHash::decode(fields.array()?),
                held: fields.entry_head()?,
            },
            SAME => Self::Same,
            TRACE => {
                let id = TraceId::of(fields.array()?);
                Self::Trace(id.ok_or_else(|| frame.malformed("a trace of 0"))?)
            }
            STORED => Self::Stored {
                newer_version: fields.newer_version()?,
            },
            FOUND => Self::Found(fields.entry()?),
            ABSENT => Self::Absent,
            MISSED => {
                let [reason] = fields.array()?;
                Self::Missed(match miss_of_code(reason) {
                    Some(miss) => miss,
                    None if reason == OBSOLETE => Miss::Obsolete {
                        below: Timestamp::from_u64(fields.u64()?),
                    },
                    None => return Err(frame.malformed("an unknown reason")),
                })
            }
            PING => Self::Ping,
            PONG => Self::Pong {
                unix_ms: fields.u64()?,
            },
            PIECE => Self::Piece(fields.bytes(frame.payload.len())?),
            REPLICA_STATE => {
                let [code] = fields.array()?;
                Self::ReplicaState(ReplicaState::from_code(code))
            }
            REPORT => {
                let report = StoreReport {
                    acknowledged: fields.u64()?,
                    gc_threshold: fields.timestamp()?,
                    list: fields.list_report(),
                };
                Self::Report(report)
            }
            SESSION => Self::Session {
                remaining: fields.remaining()?,
                request: fields.take_rest(),
            },
            SESSION_ANSWER => Self::SessionAnswer(fields.take_rest()),
            REPAIR_WRITE => Self::RepairWrite {
                remaining: fields.remaining()?,
                session: fields.session()?,
                entry: fields.entry()?,
            },
            RUN => Self::Run(fields.run()?),
            GC_THRESHOLD => Self::GcThreshold(fields.timestamp()?),
            REPAIR => Self::Repair {
                remaining: fields.remaining()?,
                gc_threshold: fields.timestamp()?,
                entry: fields.entry()?,
            },
            PAGE => Self::Page {
                remaining: fields.remaining()?,
                request: fields.take_rest(),
            },
            PAGED => {
                let head = decode_paged(fields.take_rest());
                Self::Paged(head.map_err(|what| frame.malformed(what))?)
            }
            WRITES => Self::Writes {
                remaining: fields.remaining()?,
                writes: Many::of(&mut fields, Entries),
            },
            NEWER_VERSIONS => Self::NewerVersions(Many::of(&mut fields, NewerVersions)),
            EXAMINE => Self::Examine {
                remaining: fields.remaining()?,
            },
            EXAMINED => Self::Examined(fields.take_rest()),
            BACKUP => Self::Backup {
                remaining: fields.remaining()?,
                request: fields.take_rest(),
            },
            BACKUP_ANSWER => Self::BackupAnswer(fields.take_rest()),
            PROMISE => Self::Promise {
                remaining: fields.remaining()?,
                request: fields.take_rest(),
            },
            PROMISE_ANSWER => Self::PromiseAnswer(fields.take_rest()),
            ACCEPT => Self::Accept {
                remaining: fields.remaining()?,
                ballot: fields.timestamp()?,
                entry: fields.entry()?,
            },
            CONTACT => {
                let [code] = fields.array()?;
                let _from_later_releases = fields.take_rest();
                Self::Contact(Contact::from_code(code))
            }
            LIST => Self::List {
                remaining: fields.remaining()?,
                request: fields.take_rest(),
            },
            LISTED => Self::Listed(fields.take_rest()),
            _ => return Err(frame.malformed("an unknown kind")),
        };
        fields.end()?;
        Ok(message)
    }
}
