//! Node reports: what a node reports about itself to a peer, when somebody looks at the cluster
//! through that peer.
//!
//! ```text
//! node report = data bytes u64 | free bytes u64 | hints u64 | requests in 1000 s u64
//!             | background share in thousandths u16 | reads | writes
//!             | status bytes u32 | status | disk bytes u64 | whatever later releases add
//! reads, writes = p50 u64 | p99 u64 | p99.9 u64, in microseconds
//! ```
//!
//! A number with all bits set means unknown. The status is the node's own account in the words of
//! the layer above, which this one only carries. If it is too long for a frame, all bits of its
//! length are set, and there is none. Earlier releases end before its length, or behind the status.

use base::ByteReader;
use bytes::Bytes;

/// The longest status that travels, in bytes.
pub const REPORT_STATUS_BYTES_MAX: usize = 64 << 10;

/// Stands for the length of a status that is too long.
const TOO_LONG: u32 = u32::MAX;

/// Stands for a number that is not known.
const UNKNOWN: u64 = u64::MAX;

/// How a node is, as it says itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// What the tables and the log of its store take, in bytes.
    pub data_bytes: u64,
    /// What the disk of its data folder has left for it, in bytes; `None` if the disk did not
    /// tell in time.
    pub free_bytes: Option<u64>,
    /// The hints that it keeps for all other nodes.
    pub hints: u64,
    /// The requests for keys and the operations of batches that it has answered lately, as
    /// many as that is in 1000 seconds.
    pub requests_per_1000_s: u64,
    /// The share of its time in which its background work may work, in thousandths.
    pub background_permille: u16,
    /// How long `GET`s and `HEAD`s of keys took lately; `None` if there were none.
    pub reads: Option<LatencyQuantiles>,
    /// How long `PUT`s and `DELETE`s took lately; `None` if there were none.
    pub writes: Option<LatencyQuantiles>,
    /// The status of the node.
    pub status: ReportedStatus,
    /// What the disk of its data folder has in all, in bytes; `None` if it is not known.
    pub disk_bytes: Option<u64>,
}

/// The status of a node, as it says itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportedStatus {
    /// In the words of the layer above.
    Told(Bytes),
    /// It is too long for a report to another node.
    TooLong,
    /// The node does not tell it.
    Untold,
}

/// Times that a half, 99% and 99.9% of the requests did not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyQuantiles {
    /// A half, in microseconds.
    pub p50_us: u64,
    /// 99%, in microseconds.
    pub p99_us: u64,
    /// 99.9%, in microseconds.
    pub p999_us: u64,
}

impl NodeReport {
    /// Appends the payload of a frame.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for number in [
            self.data_bytes,
            self.free_bytes.unwrap_or(UNKNOWN),
            self.hints,
            self.requests_per_1000_s,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.background_permille.to_le_bytes());
        for quantiles in [self.reads, self.writes] {
            let numbers = quantiles.map_or([UNKNOWN; 3], |quantiles| {
                [quantiles.p50_us, quantiles.p99_us, quantiles.p999_us]
            });
            for number in numbers {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        let (bytes, status) = match &self.status {
            ReportedStatus::Told(status) if status.len() <= REPORT_STATUS_BYTES_MAX => {
                // The limit fits.
                (u32::try_from(status.len()).unwrap_or(TOO_LONG), &status[..])
            }
            ReportedStatus::Told(_) | ReportedStatus::TooLong => (TOO_LONG, &[][..]),
            ReportedStatus::Untold => (0, &[][..]),
        };
        out.extend_from_slice(&bytes.to_le_bytes());
        out.extend_from_slice(status);
        out.extend_from_slice(&self.disk_bytes.unwrap_or(UNKNOWN).to_le_bytes());
    }

    /// Reads what [`NodeReport::encode`] has written, and passes over what a later release has
    /// added; `None` if it is too short.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let reader = &mut ByteReader::new(bytes);
        Some(Self {
            data_bytes: reader.u64()?,
            free_bytes: known(reader.u64()?),
            hints: reader.u64()?,
            requests_per_1000_s: reader.u64()?,
            background_permille: u16::from_le_bytes(reader.array()?),
            reads: LatencyQuantiles::decode(reader)?,
            writes: LatencyQuantiles::decode(reader)?,
            status: decode_status(reader)?,
            disk_bytes: decode_disk_bytes(reader)?,
        })
    }
}

/// The status, which earlier releases leave out.
fn decode_status(reader: &mut ByteReader<'_>) -> Option<ReportedStatus> {
    if reader.rest().is_empty() {
        return Some(ReportedStatus::Untold);
    }
    Some(match reader.u32()? {
        TOO_LONG => ReportedStatus::TooLong,
        0 => ReportedStatus::Untold,
        bytes => {
            let bytes = reader.bytes(usize::try_from(bytes).ok()?)?;
            ReportedStatus::Told(Bytes::copy_from_slice(bytes))
        }
    })
}

/// The size of the disk, which earlier releases leave out. The inner `None` stands for one that
/// is not known.
fn decode_disk_bytes(reader: &mut ByteReader<'_>) -> Option<Option<u64>> {
    if reader.rest().is_empty() {
        return Some(None);
    }
    reader.u64().map(known)
}

impl LatencyQuantiles {
    /// The inner `None` stands for times that are not known.
    fn decode(reader: &mut ByteReader<'_>) -> Option<Option<Self>> {
        let numbers = [reader.u64()?, reader.u64()?, reader.u64()?];
        let [Some(p50_us), Some(p99_us), Some(p999_us)] = numbers.map(known) else {
            return Some(None);
        };
        Some(Some(Self {
            p50_us,
            p99_us,
            p999_us,
        }))
    }
}

fn known(number: u64) -> Option<u64> {
    (number != UNKNOWN).then_some(number)
}
