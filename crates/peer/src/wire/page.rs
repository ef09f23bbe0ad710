//! Pages of scans: what a coordinator asks for, and what a node answers.
//!
//! ```text
//! page   = remaining ms u32 | from u8 | coordinator u8 | bytes u32
//!        | senders: a bit for each of 256 nodes | flags u8: 1 it has an end, 2 it names an epoch
//!        | start bytes u16 | epoch u64, if flags say so | start | end
//! paged  = flags u8: 1 more follows, 2 the answer counts | next bytes u16 | items bytes u32
//!        | next | items
//! item   = flags u8 | copies u8 | key bytes u16 | timestamp u64 | value bytes u32
//!        | expiry u64, if flags has EXPIRES | value hash u64, unless it is a tombstone
//!        | key | value, if flags has VALUE
//! ```
//!
//! A request that names no epoch is of epoch 0. So a node whose release knows no later one reads it.
//!
//! The flags of an item are those of an entry (`message/`), and 4: the value is here. Long items
//! travel in pieces, as a run does.

use super::entry_fields::{EntryFields, FLAG_EXPIRES, FLAG_TOMBSTONE};
use super::frame::{PIECE_BYTES, put_frame};
use base::{ByteReader, Entry, Expiry, KEY_BYTES_MAX, Kind, Timestamp};
use bytes::Bytes;
use cluster::pages::{PageItem, PageRequest, ScanPage};
use cluster::{Epoch, NodeId, NodeSet};

/// The most bytes of the items of a page.
pub const PAGE_BYTES_MAX: usize = 1 << 20;

/// The bytes of an item besides its key and value, at most.
pub const PAGE_ITEM_BYTES: usize = 32;

/// The longest bound of a page: the longest key, and one byte more.
const BOUND_BYTES_MAX: usize = KEY_BYTES_MAX + 1;

const FLAG_VALUE: u8 = 4;

const MORE_FOLLOWS: u8 = 1;
const COUNTS: u8 = 2;

const HAS_END: u8 = 1;
const HAS_EPOCH: u8 = 2;

const TOO_SHORT: &str = "a page that is too short";

/// A page as it travels. Its items are decoded by the node, because only the node knows what
/// it has asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedPage {
    items: Bytes,
    next: Option<Bytes>,
    counts: bool,
}

/// A page that has arrived, without its items if they are long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PagedHead<'a> {
    pub(crate) has_next: bool,
    pub(crate) counts: bool,
    pub(crate) next: &'a [u8],
    /// The length of all items.
    pub(crate) items_bytes: usize,
    /// The items, if they are short.
    pub(crate) items: &'a [u8],
}

impl EncodedPage {
    /// Encodes a page.
    #[must_use]
    pub fn of(page: &ScanPage) -> Self {
        let item_bytes = |item: &PageItem| PAGE_ITEM_BYTES + item.entry.data_bytes();
        let mut items = Vec::with_capacity(page.items.iter().map(item_bytes).sum());
        for item in &page.items {
            put_item(&mut items, item);
        }
        Self {
            items: items.into(),
            next: page.next.as_deref().map(Bytes::copy_from_slice),
            counts: page.counts,
        }
    }

    /// A page that has arrived.
    pub(crate) fn new(has_next: bool, counts: bool, next: Bytes, items: Bytes) -> Self {
        Self {
            items,
            next: has_next.then_some(next),
            counts,
        }
    }

    /// The page. Its long entries share the memory of what has arrived.
    ///
    /// # Errors
    /// What is wrong with it. Which keys it has, and their order, is not checked here.
    pub fn decode(&self) -> Result<ScanPage, &'static str> {
        let mut reader = ByteReader::new(&self.items);
        let mut items = Vec::new();
        while !reader.rest().is_empty() {
            items.push(self.item(&mut reader)?);
        }
        Ok(ScanPage {
            items,
            next: self.next.as_ref().map(|next| next.to_vec()),
            counts: self.counts,
        })
    }

    fn item(&self, reader: &mut ByteReader<'_>) -> Result<PageItem, &'static str> {
        let EntryFields {
            flags,
            copies,
            key_bytes,
            timestamp,
            kind,
            value_bytes,
            expiry,
        } = EntryFields::read(reader, FLAG_VALUE)?;
        let value_hash = match kind {
            Kind::Value => reader.u64().ok_or(TOO_SHORT)?,
            Kind::Tombstone => 0,
        };
        let has_value = flags & FLAG_VALUE != 0;
        let data_bytes = if has_value {
            key_bytes.saturating_add(value_bytes as usize)
        } else {
            key_bytes
        };
        let data = reader.bytes(data_bytes).ok_or(TOO_SHORT)?;
        let data = self.items.slice_ref(data);
        Ok(PageItem {
            entry: Entry::from_data(data, key_bytes, timestamp, kind, expiry, copies),
            value_bytes,
            value_hash,
            has_value,
        })
    }

    /// As an entry whose key is where the next page begins, and whose value the items are.
    pub(crate) fn as_entry(&self) -> Entry {
        let next = self.next.as_deref().unwrap_or_default();
        let data = if next.is_empty() {
            self.items.clone()
        } else {
            [next, &self.items].concat().into()
        };
        let (zero, never) = (Timestamp::ZERO, Expiry::NEVER);
        Entry::from_data(data, next.len(), zero, Kind::Value, never, 0)
    }

    /// Whether another page follows, and whether this one counts.
    pub(crate) fn flags(&self) -> (bool, bool) {
        (self.next.is_some(), self.counts)
    }
}

fn put_item(out: &mut Vec<u8>, item: &PageItem) {
    let entry = &item.entry;
    let is_value = entry.kind() == Kind::Value;
    let flags = [
        (!is_value, FLAG_TOMBSTONE),
        (entry.expiry() != Expiry::NEVER, FLAG_EXPIRES),
        (item.has_value && is_value, FLAG_VALUE),
    ];
    let set = flags.iter().filter(|(is_set, _)| *is_set);
    out.push(set.fold(0, |sum, (_, flag)| sum | flag));
    out.push(entry.copies());
    out.extend_from_slice(&(entry.key().len() as u16).to_le_bytes());
    out.extend_from_slice(&entry.timestamp().as_u64().to_le_bytes());
    out.extend_from_slice(&item.value_bytes.to_le_bytes());
    if entry.expiry() != Expiry::NEVER {
        out.extend_from_slice(&entry.expiry().unix_ms().to_le_bytes());
    }
    if is_value {
        out.extend_from_slice(&item.value_hash.to_le_bytes());
    }
    out.extend_from_slice(entry.key());
    if item.has_value {
        out.extend_from_slice(entry.value_bytes());
    }
}

/// Appends the fields of a request behind the time that it has.
pub(crate) fn put_request(out: &mut Vec<u8>, request: &PageRequest) {
    out.push(request.from);
    out.push(request.coordinator.index() as u8);
    out.extend_from_slice(&request.bytes.to_le_bytes());
    out.extend_from_slice(&request.senders.to_bytes());
    let epoch = Some(request.epoch).filter(|epoch| *epoch > Epoch::default());
    let end = if request.end.is_some() { HAS_END } else { 0 };
    out.push(end | if epoch.is_some() { HAS_EPOCH } else { 0 });
    out.extend_from_slice(&(request.start.len() as u16).to_le_bytes());
    if let Some(epoch) = epoch {
        out.extend_from_slice(&epoch.as_u64().to_le_bytes());
    }
    out.extend_from_slice(&request.start);
    out.extend_from_slice(request.end.as_deref().unwrap_or_default());
}

/// Decodes what [`put_request`] writes.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn decode_request(fields: &[u8]) -> Result<PageRequest, &'static str> {
    let mut reader = ByteReader::new(fields);
    let [from, coordinator] = reader.array().ok_or(TOO_SHORT)?;
    let bytes = reader.u32().ok_or(TOO_SHORT)?;
    let senders = NodeSet::from_bytes(reader.array().ok_or(TOO_SHORT)?);
    let [flags, s0, s1] = reader.array().ok_or(TOO_SHORT)?;
    let epoch = if flags & HAS_EPOCH == 0 {
        Epoch::default()
    } else {
        Epoch::new(reader.u64().ok_or(TOO_SHORT)?)
    };
    let start = reader.bytes(usize::from(u16::from_le_bytes([s0, s1])));
    let start = start.ok_or(TOO_SHORT)?;
    let end = reader.rest();
    let has_end = flags & HAS_END != 0;
    if from == 0 || flags > (HAS_END | HAS_EPOCH) || !has_end && !end.is_empty() {
        return Err("a page of no replicas, or with an end that it does not name");
    }
    if start.len() > BOUND_BYTES_MAX || end.len() > BOUND_BYTES_MAX {
        return Err("a bound that is too long");
    }
    Ok(PageRequest {
        epoch,
        start: start.to_vec(),
        end: has_end.then(|| end.to_vec()),
        from,
        bytes,
        coordinator: NodeId::new(coordinator),
        senders,
    })
}

/// Appends a page; if its items are long, they follow in pieces. `page` is as
/// [`EncodedPage::as_entry`] returns it.
pub(crate) fn put_paged(
    out: &mut Vec<u8>,
    kind: u8,
    call: u64,
    (has_next, counts): (bool, bool),
    page: &Entry,
) {
    put_frame(out, kind, call, |out| {
        let more = if has_next { MORE_FOLLOWS } else { 0 };
        out.push(more | if counts { COUNTS } else { 0 });
        out.extend_from_slice(&(page.key().len() as u16).to_le_bytes());
        out.extend_from_slice(&(page.value_bytes().len() as u32).to_le_bytes());
        out.extend_from_slice(page.key());
        if page.value_bytes().len() <= PIECE_BYTES {
            out.extend_from_slice(page.value_bytes());
        }
    });
}

/// Decodes the payload that [`put_paged`] writes.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn decode_paged(payload: &[u8]) -> Result<PagedHead<'_>, &'static str> {
    let mut reader = ByteReader::new(payload);
    let [flags, n0, n1] = reader.array().ok_or(TOO_SHORT)?;
    if flags & !(MORE_FOLLOWS | COUNTS) != 0 {
        return Err("unknown flags");
    }
    let items_bytes = reader.u32().ok_or(TOO_SHORT)? as usize;
    let next_bytes = usize::from(u16::from_le_bytes([n0, n1]));
    if next_bytes > BOUND_BYTES_MAX || items_bytes > PAGE_BYTES_MAX {
        return Err("a page that is too long");
    }
    let next = reader.bytes(next_bytes).ok_or(TOO_SHORT)?;
    let items = reader.rest();
    let is_whole = items.len() == items_bytes;
    let is_long = items.is_empty() && items_bytes > PIECE_BYTES;
    if !is_whole && !is_long {
        return Err("items of another length than it says");
    }
    Ok(PagedHead {
        has_next: flags & MORE_FOLLOWS != 0,
        counts: flags & COUNTS != 0,
        next,
        items_bytes,
        items,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn page() -> ScanPage {
        let at = Timestamp::from_u64;
        let value = |key: &[u8], value: &[u8], expiry| Entry::value(key, at(3), value, expiry, 3);
        let items = vec![
            PageItem::of(value(b"a", b"", Expiry::NEVER).lend(), false),
            PageItem::of(value(b"b", b"value", Expiry::at_unix_ms(7)).lend(), true),
            PageItem::of(value(b"c", b"value", Expiry::at_unix_ms(7)).lend(), false),
            PageItem::of(Entry::tombstone(b"d", at(u64::MAX), 2).lend(), false),
        ];
        ScanPage {
            items,
            next: Some(b"d\0".to_vec()),
            counts: true,
        }
    }

    pub(crate) fn request() -> PageRequest {
        PageRequest {
            epoch: Epoch::default(),
            start: b"start".to_vec(),
            end: Some(b"the end".to_vec()),
            from: 2,
            bytes: 70_000,
            coordinator: NodeId::new(3),
            senders: [0, 9].map(NodeId::new).into_iter().collect(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let empty = ScanPage {
            items: Vec::new(),
            next: None,
            counts: false,
        };
        for page in [page(), empty] {
            let encoded = EncodedPage::of(&page);
            assert_eq!(encoded.decode().as_ref(), Ok(&page));
            let mut frame = Vec::new();
            put_paged(&mut frame, 22, 1, encoded.flags(), &encoded.as_entry());
            let head = decode_paged(&frame[crate::wire::frame::HEADER_BYTES..]).unwrap();
            let next = Bytes::copy_from_slice(head.next);
            let items = Bytes::copy_from_slice(head.items);
            let arrived = EncodedPage::new(head.has_next, head.counts, next, items);
            assert_eq!(arrived, encoded);
        }
        let endless = PageRequest {
            end: None,
            ..request()
        };
        let of_later_list = PageRequest {
            epoch: Epoch::new(7),
            ..endless.clone()
        };
        for request in [request(), endless, of_later_list] {
            let mut out = Vec::new();
            put_request(&mut out, &request);
            assert_eq!(decode_request(&out), Ok(request));
        }
    }

    #[test]
    fn a_page_and_its_request_are_as_drawn() {
        let page = EncodedPage::of(&ScanPage {
            items: page().items[1..2].to_vec(),
            ..page()
        });
        let mut out = Vec::new();
        put_paged(&mut out, 22, 1, page.flags(), &page.as_entry());
        let head = [3, 2, 0, 38, 0, 0, 0, b'd', 0];
        let (at, value_bytes, expiry) = ([3, 0, 0, 0, 0, 0, 0, 0], [5, 0, 0, 0], [7, 0, 0, 0]);
        let hash = self::page().items[1].value_hash.to_le_bytes();
        let item = [
            &[6, 3, 1, 0][..],
            &at,
            &value_bytes,
            &expiry,
            &[0; 4],
            &hash,
            b"bvalue",
        ];
        assert_eq!(
            out[crate::wire::frame::HEADER_BYTES..],
            [&head[..], &item.concat()].concat()
        );
        let mut out = Vec::new();
        put_request(&mut out, &request());
        let mut senders = [0; 32];
        (senders[0], senders[1]) = (1, 2);
        let fields = [
            &[2, 3, 0x70, 0x11, 1, 0][..],
            &senders,
            &[1, 5, 0],
            b"startthe end",
        ];
        assert_eq!(out, fields.concat());
        let mut out = Vec::new();
        let epoch = Epoch::new(0x0102);
        put_request(&mut out, &PageRequest { epoch, ..request() });
        let fields = [
            &[2, 3, 0x70, 0x11, 1, 0][..],
            &senders,
            &[3, 5, 0, 2, 1, 0, 0, 0, 0, 0, 0],
            b"startthe end",
        ];
        assert_eq!(out, fields.concat());
    }

    #[test]
    fn what_is_cut_short_or_damaged_is_an_error_and_never_a_panic() {
        let sound = EncodedPage::of(&page());
        let bytes = sound.items;
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let damaged = EncodedPage::new(false, true, Bytes::new(), damaged.into());
            assert_ne!(damaged.decode().map(|page| page.items), Ok(page().items));
        }
        for end in 1..bytes.len() {
            let cut = EncodedPage::new(false, true, Bytes::new(), bytes.slice(..end));
            assert_ne!(cut.decode().map(|page| page.items.len()), Ok(4));
        }
        let mut out = Vec::new();
        put_request(&mut out, &request());
        for end in 0..out.len() - "the end".len() - "start".len() {
            assert!(decode_request(&out[..end]).is_err());
        }
    }
}
