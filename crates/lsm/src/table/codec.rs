//! Numbers and byte strings as the table format writes them.
//!
//! Fixed numbers are little-endian; a varint is LEB128: seven bits a byte, low
//! bits first, the high bit set on all but the last byte.

/// The structure of some bytes is not the one that the format prescribes. The
/// text says what was found; the caller knows the file and the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

/// Appends a varint.
pub(super) fn put_varint(buffer: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        buffer.push(number as u8 | 0x80);
        number >>= 7;
    }
    buffer.push(number as u8);
}

/// Bytes that are taken from the front; taking more than there are gives `None`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes not yet taken.
    pub(super) fn rest(self) -> &'a [u8] {
        self.0
    }

    #[inline]
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    #[inline]
    pub(super) fn u8(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    #[inline]
    pub(super) fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }

    #[inline]
    pub(super) fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    /// A varint; `None` also for one that does not fit 64 bits.
    #[inline]
    pub(super) fn varint(&mut self) -> Option<u64> {
        let first = self.u8()?;
        if first < 0x80 {
            return Some(u64::from(first));
        }
        let mut number = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// A varint that counts bytes in memory.
    #[inline]
    pub(super) fn length(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_come_back() {
        let numbers = (0..64)
            .map(|shift| 1u64 << shift)
            .flat_map(|power| [power - 1, power, power + 1])
            .chain([u64::MAX]);
        for number in numbers {
            let mut buffer = Vec::new();
            put_varint(&mut buffer, number);
            let mut input = Input::new(&buffer);
            assert_eq!(input.varint(), Some(number));
            assert!(input.rest().is_empty());
            let cut = &buffer[..buffer.len() - 1];
            assert_eq!(Input::new(cut).varint(), None, "{number} cut short");
        }
    }

    #[test]
    fn varints_past_64_bits_are_refused() {
        let mut bytes = [0xff; 10];
        bytes[9] = 0x02;
        assert_eq!(Input::new(&bytes).varint(), None);
        assert_eq!(Input::new(&[0x80; 11]).varint(), None);
    }
}
