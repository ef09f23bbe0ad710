//! The memory for the pages of a scan of the whole cluster.
//!
//! A scan begins with memory for small pages, two of each node. It waits for that in a queue before
//! it asks any node, so nobody waits while holding memory. Longer pages are for scans that turn out
//! to be long: they share half of the memory of all scans, and a scan that gets none of it
//! continues with small pages.

use base::{Quota, Refused, Reservation};
use replica::PAGE_BYTES_MAX;
use replica::SCAN_MEMORY;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// The size of the first pages of a scan, in bytes.
pub(super) const PAGE_BYTES_MIN: u32 = 16 << 10;

/// The memory for the pages of a scan of the whole cluster, until it is dropped.
pub struct ScanWindow {
    held: RefCell<Reservation>,
    nodes: usize,
    /// For which size of pages there is room.
    page_bytes: Cell<u32>,
    page_bytes_max: u32,
}

impl ScanWindow {
    /// Waits for room for two small pages of each of so many nodes, behind the scans that came
    /// before. `page_bytes_max` is the size of any page, at most.
    ///
    /// # Errors
    /// None in practice.
    pub(crate) async fn take(
        windows: &Arc<Quota>,
        nodes: usize,
        page_bytes_max: u32,
    ) -> Result<Self, Refused> {
        let page_bytes_max = fitting(windows.max(), nodes).min(page_bytes_max);
        let page_bytes = PAGE_BYTES_MIN.min(page_bytes_max);
        let held = windows
            .reserve(pages_bytes(page_bytes, nodes), &SCAN_MEMORY)
            .await?;
        Ok(Self {
            held: RefCell::new(held),
            nodes,
            page_bytes: Cell::new(page_bytes),
            page_bytes_max,
        })
    }

    /// The size of pages of which the scan has two of each node, at most `wanted`: it takes
    /// more memory for that if some is left for long scans.
    pub(super) fn page_bytes(&self, wanted: u32) -> u32 {
        let wanted = wanted.min(self.page_bytes_max);
        let has = self.page_bytes.get();
        if wanted <= has {
            return wanted;
        }
        let more = pages_bytes(wanted - has, self.nodes);
        if self.held.borrow_mut().grow_within_half(more) {
            self.page_bytes.set(wanted);
        }
        self.page_bytes.get()
    }
}

/// The size of the pages of a scan, at most, in bytes: so that four scans have room.
fn fitting(windows_bytes: usize, nodes: usize) -> u32 {
    let fitting = windows_bytes / (8 * nodes.max(1));
    let fitting = u32::try_from(fitting).unwrap_or(u32::MAX);
    fitting.clamp(PAGE_BYTES_MIN, PAGE_BYTES_MAX)
}

/// Two pages of each node, in bytes.
fn pages_bytes(page_bytes: u32, nodes: usize) -> usize {
    2 * nodes * page_bytes as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn begin(windows: &Arc<Quota>, page_bytes_max: u32) -> Option<ScanWindow> {
        let mut taken = pin!(ScanWindow::take(windows, 3, page_bytes_max));
        match taken.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(window) => Some(window.unwrap()),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_scan_takes_what_small_pages_need_and_more_as_it_goes_on() {
        let windows = Quota::new(12 << 20);
        let window = begin(&windows, u32::MAX).unwrap();
        assert_eq!(windows.used(), 6 * (16 << 10));
        assert_eq!(window.page_bytes(100), 100);
        assert_eq!(window.page_bytes(32 << 10), 32 << 10);
        assert_eq!(window.page_bytes(16 << 10), 16 << 10);
        assert_eq!(windows.used(), 6 * (32 << 10));
        assert_eq!(window.page_bytes(u32::MAX), PAGE_BYTES_MAX);
        assert_eq!(windows.used(), 6 * (256 << 10));
        let small = begin(&windows, 300).unwrap();
        assert_eq!(small.page_bytes(u32::MAX), 300);
        drop((window, small));
        assert_eq!(windows.used(), 0);
    }

    #[test]
    fn long_scans_leave_half_of_the_memory_to_short_ones() {
        let windows = Quota::new(3 << 20);
        let long: Vec<_> = (0..4).map(|_| begin(&windows, u32::MAX).unwrap()).collect();
        let grown: u32 = long.iter().map(|window| window.page_bytes(u32::MAX)).sum();
        assert!(grown > 4 * PAGE_BYTES_MIN, "{grown}");
        let half = 3 << 19;
        assert!(windows.used() <= half);
        let mut short = Vec::new();
        while let Some(window) = begin(&windows, u32::MAX) {
            assert_eq!(
                window.page_bytes(u32::MAX),
                PAGE_BYTES_MIN,
                "nothing is spare"
            );
            short.push(window);
        }
        assert!(short.len() >= half / (6 * (16 << 10)), "{}", short.len());
        short.pop();
        assert!(begin(&windows, u32::MAX).is_some());
    }
}
