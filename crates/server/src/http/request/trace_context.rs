//! The trace that a request is part of (W3C Trace Context): `traceparent`.
//!
//! ```text
//! 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//! version  id of the trace             of the parent    flags
//! ```
//!
//! Problems and logs that result from the request carry the ID of the trace, on its replicas, too.
//! A field that is not exactly right is ignored, as the standard says.

use crate::traces::TraceParent;
use base::TraceId;
use std::num::NonZeroU64;

/// The length of the field in the version that is known.
const BYTES: usize = 55;

/// The flag of a client that records the trace.
const SAMPLED: u128 = 1;

/// What the value of a field says.
pub(crate) fn trace_of(field: &[u8]) -> Option<TraceParent> {
    let (known, rest) = field.split_at_checked(BYTES)?;
    let version = number(&known[..2])?;
    let is_long = match version {
        0 => !rest.is_empty(),
        0xff => true,
        // A later version may have more, which begins with a dash.
        _ => rest.first().is_some_and(|byte| *byte != b'-'),
    };
    let dashes = [2, 35, 52].map(|place| known[place] == b'-');
    if is_long || dashes != [true; 3] {
        return None;
    }
    let (trace, parent) = (number(&known[3..35])?, number(&known[36..52])?);
    let flags = number(&known[53..])?;
    Some(TraceParent {
        trace: TraceId::of(trace.to_be_bytes())?,
        span: NonZeroU64::new(u64::try_from(parent).ok()?)?,
        is_sampled: flags & SAMPLED != 0,
    })
}

/// A number of lower-case hexadecimal digits.
fn number(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number: u128, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_is_exactly_right_names_a_trace() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let right = format!("00-{trace}-00f067aa0ba902b7-01");
        let zeros = "0".repeat(32);
        for (field, is_right) in [
            (right.clone(), true),
            (right.replace("-01", "-ff"), true),
            (right.replacen("00-", "cc-", 1), true),
            (right.replacen("00-", "cc-", 1) + "-more", true),
            (right.replacen("00-", "cc-", 1) + "more", false),
            (right.replacen("00-", "ff-", 1), false),
            (right.clone() + "-more", false),
            (right.to_uppercase(), false),
            (right.replace(trace, &zeros), false),
            (right.replace("00f067aa0ba902b7", &zeros[..16]), false),
            (right.replace('-', "_"), false),
            (right.replace("-01", "-0g"), false),
            (right[..54].to_owned(), false),
            (String::new(), false),
        ] {
            let read = trace_of(field.as_bytes());
            assert_eq!(read.is_some(), is_right, "{field}");
            if let Some(read) = read {
                assert_eq!(read.trace.to_string(), trace);
                assert_eq!(read.span.get(), 0x00f0_67aa_0ba9_02b7);
            }
        }
    }

    #[test]
    fn the_last_flag_says_whether_the_client_records_the_trace() {
        for (flags, is_sampled) in [("00", false), ("01", true), ("02", false), ("ff", true)] {
            let field = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
            let read = trace_of(field.as_bytes()).unwrap();
            assert_eq!(read.is_sampled, is_sampled, "{flags}");
        }
    }
}
