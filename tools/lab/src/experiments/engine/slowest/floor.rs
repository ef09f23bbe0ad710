//! What the disk of the nodes itself allows: a bare loop of syncs.

use crate::Error;
use serde::Serialize;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// The length of the file whose bytes are written again and again, as those of a log.
const FILE_BYTES: u64 = 64 << 20;

/// How long syncs took, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct SyncTimes {
    /// How many there were.
    pub(super) count: usize,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) p999_ms: f64,
    pub(super) max_ms: f64,
}

impl SyncTimes {
    /// The distribution of these times, in milliseconds.
    pub(super) fn new(times_ms: impl IntoIterator<Item = f64>) -> Self {
        let mut times_ms: Vec<f64> = times_ms.into_iter().collect();
        times_ms.sort_by(f64::total_cmp);
        let last = times_ms.len().saturating_sub(1);
        let at = |share: f64| {
            let index = (last as f64 * share).ceil() as usize;
            times_ms.get(index).copied().unwrap_or(f64::NAN)
        };
        Self {
            count: times_ms.len(),
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: at(1.0),
        }
    }
}

/// Writes `bytes` bytes and syncs them, again and again for this time, over bytes that the
/// file already has. Nothing else happens meanwhile.
///
/// # Errors
/// The file cannot be written.
pub(super) fn bare_syncs(bytes: usize, time: Duration) -> Result<SyncTimes, Error> {
    let failed = Error::system("sync a temporary file");
    let looped = || -> std::io::Result<Vec<f64>> {
        let file = tempfile::tempfile()?;
        let chunk = vec![1; 1 << 20];
        for offset in (0..FILE_BYTES).step_by(chunk.len()) {
            file.write_all_at(&chunk, offset)?;
        }
        file.sync_all()?;
        sync_for(&file, &vec![2; bytes.clamp(1, 1 << 20)], time)
    };
    Ok(SyncTimes::new(looped().map_err(failed)?))
}

fn sync_for(file: &File, bytes: &[u8], time: Duration) -> std::io::Result<Vec<f64>> {
    let (mut times_ms, mut offset) = (Vec::new(), 0);
    let begun = Instant::now();
    while begun.elapsed() < time {
        if offset + bytes.len() as u64 > FILE_BYTES {
            offset = 0;
        }
        let began = Instant::now();
        file.write_all_at(bytes, offset)?;
        file.sync_data()?;
        times_ms.push(began.elapsed().as_secs_f64() * 1e3);
        offset += bytes.len() as u64;
    }
    Ok(times_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times = SyncTimes::new((1..=1_000).rev().map(f64::from));
        let expected = SyncTimes {
            count: 1_000,
            p50_ms: 501.0,
            p99_ms: 991.0,
            p999_ms: 1_000.0,
            max_ms: 1_000.0,
        };
        assert_eq!(times, expected);
        assert!(SyncTimes::new([]).max_ms.is_nan());
    }

    #[test]
    fn a_bare_sync_takes_some_time() {
        let times = bare_syncs(512, Duration::from_millis(20)).unwrap();
        assert!(times.count > 0 && times.p50_ms > 0.0, "{times:?}");
    }
}
