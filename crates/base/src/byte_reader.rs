//! Decodes the integers and byte strings of the formats on disk and on the wire.
//!
//! Integers of a fixed length are little-endian. A varint is LEB128: seven bits a
//! byte, low bits first; the high bit is set on all bytes but the last.

/// Takes values off the front of bytes that may end anywhere: each method
/// returns `None` when too few bytes are left, and takes nothing then.
#[derive(Clone, Copy, Debug)]
pub struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    /// Reads `bytes` from their beginning.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes that are left.
    #[inline]
    #[must_use]
    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    /// The next `count` bytes.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    /// The next byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    /// An integer of two bytes.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// An integer of four bytes.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// An integer of eight bytes.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// An integer of sixteen bytes.
    #[inline]
    pub fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    /// A varint. `None` also for one that does not fit 64 bits; some of its
    /// bytes may be taken then.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
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
    pub fn length(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }
}

/// Appends a varint.
#[inline]
pub fn put_varint(buffer: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        buffer.push(number as u8 | 0x80);
        number >>= 7;
    }
    buffer.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_in_order_until_too_few_bytes_are_left() {
        let bytes: Vec<u8> = (1..=34).collect();
        let mut reader = ByteReader::new(&bytes);
        assert_eq!(reader.u8(), Some(1));
        assert_eq!(reader.u16(), Some(0x0302));
        assert_eq!(reader.u32(), Some(0x0706_0504));
        assert_eq!(reader.u64(), Some(0x0f0e_0d0c_0b0a_0908));
        assert_eq!(
            reader.u128(),
            Some(0x1f1e_1d1c_1b1a_1918_1716_1514_1312_1110)
        );
        assert_eq!(reader.u32(), None);
        assert_eq!(reader.bytes(4), None);
        assert_eq!(reader.bytes(2), Some(&[32, 33][..]));
        assert_eq!(reader.array(), Some([34]));
        assert_eq!(reader.rest(), []);
        assert_eq!(reader.u8(), None);
    }

    #[test]
    fn varints_come_back() {
        let numbers = (0..64)
            .map(|shift| 1u64 << shift)
            .flat_map(|power| [power - 1, power, power + 1])
            .chain([u64::MAX]);
        for number in numbers {
            let mut buffer = Vec::new();
            put_varint(&mut buffer, number);
            let mut reader = ByteReader::new(&buffer);
            assert_eq!(reader.varint(), Some(number));
            assert!(reader.rest().is_empty());
            let cut = &buffer[..buffer.len() - 1];
            assert_eq!(ByteReader::new(cut).varint(), None, "{number} cut short");
        }
    }

    #[test]
    fn varints_past_64_bits_are_refused() {
        let mut bytes = [0xff; 10];
        bytes[9] = 0x02;
        assert_eq!(ByteReader::new(&bytes).varint(), None);
        assert_eq!(ByteReader::new(&[0x80; 11]).varint(), None);
    }
}
