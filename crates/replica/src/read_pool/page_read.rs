//! Reads pages for scans of the whole cluster from this node's own store.
//!
//! Each page has its own snapshot, which ends with it: the next page begins after its last key. So
//! a scan of another node holds nothing here, however slowly its client reads.

use crate::shared_bounds::SharedBounds;
use base::{EntryRef, LONG_VALUE_BYTES};
use cluster::Layout;
use cluster::pages::{PageItem, PageRequest, Part, ScanPage};
use lsm::{Engine, Error};
use peer::PAGE_ITEM_BYTES;
use std::sync::Arc;

/// How many bytes of keys and values a page is read from, at most.
pub const PAGE_BYTES_MAX: u32 = 256 << 10;

/// The page to read.
pub struct PageRead {
    /// What is asked for.
    pub request: PageRequest,
    /// The layout in force.
    pub layout: Arc<Layout>,
    /// Says what was set aside.
    pub bounds: Arc<SharedBounds>,
}

impl PageRead {
    /// Reads the page. May read the disk.
    ///
    /// # Errors
    /// See [`lsm::Scan::advance`]. Damage that was not known before is an error, too: it
    /// will have been noted soon.
    pub fn read(&self, engine: &Engine) -> Result<ScanPage, Error> {
        let request = &self.request;
        let start = request.start.as_slice();
        let damage = engine.damage_from(start);
        let damage = damage.filter(|(first, _)| {
            let end = request.end.as_deref();
            end.is_none_or(|end| **first < *end)
        });
        if let Some((first, last)) = &damage
            && **first <= *start
        {
            return Ok(self.uncounted(last.as_deref()));
        }
        let met = engine.damage_met();
        let before = self.bounds.before_read();
        let end = match &damage {
            Some((first, _)) => Some(&**first),
            None => request.end.as_deref(),
        };
        let scan = engine.scan(start, end);
        let mut scan = match damage {
            // It passes over the damaged block, which an ordinary scan would look into at its
            // end.
            Some(_) => scan.for_comparison(base::Timestamp::ZERO),
            None => scan.of_long_range(),
        };
        let bytes_max = request.bytes.min(PAGE_BYTES_MAX) as usize;
        let mut items = Vec::new();
        let mut bytes = 0;
        let next = loop {
            if bytes >= bytes_max {
                break scan.last_key().map(|last| [last, &[0]].concat());
            }
            if !scan.advance()? {
                // What comes next is damaged, or nothing.
                break damage.as_ref().map(|(first, _)| first.to_vec());
            }
            let entry = scan.entry();
            // What is short takes far more memory than its bytes.
            bytes += PAGE_ITEM_BYTES + entry.data_bytes();
            items.extend(self.item(entry));
        };
        // What was set aside meanwhile may still be in the page.
        if engine.damage_met() != met || self.bounds.was_set_aside_since(before) {
            return Err(Error::Overloaded);
        }
        Ok(ScanPage {
            items,
            next: next.filter(|next| {
                let end = request.end.as_deref();
                end.is_none_or(|end| next.as_slice() < end)
            }),
            counts: true,
        })
    }

    /// The page of a damaged part that ends with the key `last`, or with the last of all.
    fn uncounted(&self, last: Option<&[u8]>) -> ScanPage {
        let behind = last.map(|last| [last, &[0]].concat());
        ScanPage {
            items: Vec::new(),
            next: behind.filter(|behind| {
                let end = self.request.end.as_deref();
                end.is_none_or(|end| behind.as_slice() < end)
            }),
            counts: false,
        }
    }

    fn item(&self, entry: EntryRef<'_>) -> Option<PageItem> {
        let own = self.layout.members().own();
        let placement = self.layout.placements().for_scans();
        let part = self.request.part_of(own, entry.key(), placement);
        let is_short = entry.value_bytes().len() <= LONG_VALUE_BYTES;
        match part {
            Part::None => None,
            Part::Replica => Some(PageItem::of(entry, false)),
            Part::Sender => Some(PageItem::of(entry, is_short)),
        }
    }
}
