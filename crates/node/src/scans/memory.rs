//! The memory that scans share.

/// How the memory for scans is divided, in bytes. The batch that a scan of this node reads
/// has its room on top; of the rest scans of this node have one half.
pub(crate) struct ScanMemory {
    /// Batches of scans of this node.
    pub(crate) batches_bytes: usize,
    /// Pages of scans of the whole cluster.
    pub(crate) windows_bytes: usize,
    /// Pages that are made for peers.
    pub(crate) peer_pages_bytes: usize,
}

impl ScanMemory {
    /// Divides so many bytes, of which the batch of a scan of this node has its own.
    pub(crate) fn of(scans_bytes: usize, batch_bytes: usize) -> Self {
        let eighth = scans_bytes.saturating_sub(batch_bytes) / 8;
        // Small nodes, as tests have them, tell some pages, too.
        let windows_bytes = (3 * eighth).max(1 << 20);
        let peer_pages_bytes = eighth.max(512 << 10);
        Self {
            batches_bytes: scans_bytes - 4 * eighth,
            windows_bytes,
            peer_pages_bytes,
        }
    }
}
