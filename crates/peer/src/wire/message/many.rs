//! Frames of many items.

use super::{Fields, Frame, FrameError};
use base::{ByteReader, Entry, NewerVersion};

/// Many items of one frame, each with its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Many<'a, K> {
    frame: Frame<'a>,
    rest: &'a [u8],
    kind: K,
}

/// Items that are entries to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entries;

/// Items that are newer-version checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewerVersions;

/// What the items of a frame are.
pub(crate) trait ItemKind<'a> {
    /// An item.
    type Item;

    /// Reads an item.
    fn read(fields: &mut Fields<'a>) -> Result<Self::Item, FrameError>;
}

impl<'a> ItemKind<'a> for Entries {
    type Item = Entry;

    fn read(fields: &mut Fields<'a>) -> Result<Entry, FrameError> {
        let head = fields.entry()?;
        let long = fields.frame.malformed("a long value among many");
        head.whole().ok_or(long)
    }
}

impl<'a> ItemKind<'a> for NewerVersions {
    type Item = NewerVersion;

    fn read(fields: &mut Fields<'a>) -> Result<NewerVersion, FrameError> {
        fields.newer_version()
    }
}

impl<'a, K: ItemKind<'a>> Many<'a, K> {
    /// The items that are left of a payload.
    pub(super) fn of(fields: &mut Fields<'a>, kind: K) -> Self {
        Self {
            frame: fields.frame,
            rest: fields.take_rest(),
            kind,
        }
    }
}

impl<'a, K: ItemKind<'a>> Iterator for Many<'a, K> {
    /// The call and the item.
    type Item = Result<(u64, K::Item), FrameError>;

    /// Nothing follows an error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let mut fields = Fields {
            frame: self.frame,
            reader: ByteReader::new(self.rest),
        };
        let call = fields.u64();
        let item = call.and_then(|call| Ok((call, K::read(&mut fields)?)));
        self.rest = if item.is_ok() {
            fields.take_rest()
        } else {
            &[]
        };
        Some(item)
    }
}
