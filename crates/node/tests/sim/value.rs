//! Values that name the operation that put them, so that any other bytes are garbage.

use bytes::Bytes;
use checker::{Content, OperationId};

/// The length of the operation's number, in front of the filling.
const HEAD_BYTES: usize = 8;

/// The value that an operation puts, of at least eight bytes.
pub(crate) fn of(number: OperationId, bytes: usize) -> Bytes {
    let head = (number.0 as u64).to_le_bytes();
    let filling = (HEAD_BYTES..bytes).map(|place| filling_at(number, place));
    head.into_iter().chain(filling).collect()
}

/// The operation that a value names, or garbage.
pub(crate) fn read(value: &[u8]) -> Content {
    let Some((head, filling)) = value.split_first_chunk::<HEAD_BYTES>() else {
        return Content::Garbage;
    };
    let number = OperationId(u64::from_le_bytes(*head) as usize);
    let expected = (HEAD_BYTES..).map(|place| filling_at(number, place));
    if filling
        .iter()
        .copied()
        .zip(expected)
        .all(|(is, be)| is == be)
    {
        Content::Value(number)
    } else {
        Content::Garbage
    }
}

fn filling_at(number: OperationId, place: usize) -> u8 {
    (number.0.wrapping_mul(31) ^ place ^ (place >> 8)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_names_its_operation_and_damage_shows() {
        for bytes in [8, 9, 300, 70_000] {
            let value = of(OperationId(77), bytes);
            assert_eq!(value.len(), bytes);
            assert_eq!(read(&value), Content::Value(OperationId(77)));
        }
        assert_eq!(read(b"short"), Content::Garbage);
        let mut damaged = of(OperationId(77), 300).to_vec();
        damaged[299] ^= 1;
        assert_eq!(read(&damaged), Content::Garbage);
    }
}
