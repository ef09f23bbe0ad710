//! What all layers of the store share: versions of keys and their order, the seams for
//! time and chance, and bounds on memory.
//!
//! - [`Entry`] is one version of one key, [`EntryRef`] one whose bytes are lent,
//!   [`Timestamp`] what orders versions;
//!   [`Rank`] is the whole rule of which version wins.
//! - [`Quota`], [`Permits`] and [`FairQuota`] bound what is taken of anything.
//! - [`ByteReader`] decodes the integers of all formats, and [`crc32c`] is their checksum.
//! - [`Clock`] and [`Random`] are seams: a real side each, and one for tests. [`BootId`]
//!   tells one boot of the machine from another.
//! - [`Hold`] holds something off for a moment, and says whether it lasted.
//! - [`Backoff`] is how long to wait after failures.
//! - [`WorkTimer`] says how long a thread worked, without its waits for a processor.
//! - [`LogLimiter`] and [`LimitedLog`] bound what is written to the log.
//! - [`TraceId`] names what a request is part of, in logs.

mod backoff;
mod boot_id;

mod byte_reader;
mod checksum;
mod clock;
mod entry;
mod entry_ref;
mod log_limiter;
mod newer_version;
mod quota;
mod random;
mod timestamp;
mod trace_id;
mod work_timer;

pub use backoff::{Backoff, jittered};
pub use boot_id::BootId;
pub use byte_reader::{ByteReader, put_varint};
pub use checksum::{crc32c, crc32c_append};
pub use clock::{Clock, ManualClock, SystemClock, overdue_check_period};
pub use entry::{Entry, Expiry, KEY_BYTES_MAX, Kind, Rank, VALUE_BYTES_MAX};
pub use entry_ref::EntryRef;
pub use log_limiter::{LimitedLog, LogBounds, LogLimiter, LogRate};
pub use newer_version::NewerVersion;
pub use quota::{
    Admitted, BatchPermits, FairQuota, Hold, InLine, LONG_VALUE_BYTES, Permit, Permits, Promise,
    QueuedPermit, Quota, Refused, Reservation, Turn,
};
pub use random::{OsRandom, Random, SeededRandom};
pub use timestamp::Timestamp;
pub use trace_id::TraceId;
pub use work_timer::WorkTimer;
