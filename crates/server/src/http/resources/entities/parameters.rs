//! The parameters of `/v0/entities`.

use crate::http::query::keys::bound_of;
use crate::http::query::{ParameterError, QueryBytes, number_of, pairs, set, unknown};

/// The parameters of `/v0/entities`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RangeParameters {
    /// The first key.
    pub(crate) start: QueryBytes,
    /// The key at which the range ends without it; `None`: after the last key.
    pub(crate) end: Option<QueryBytes>,
    /// The greatest number of entities.
    pub(crate) limit: Option<u64>,
}

/// Reads the query.
///
/// # Errors
/// The first parameter that is not valid.
pub(crate) fn read(query: Option<&str>) -> Result<RangeParameters, ParameterError> {
    let (mut start, mut end, mut limit) = (None, None, None);
    for parameter in pairs(query) {
        let (name, value) = parameter?;
        match name.as_slice() {
            b"start" => set(&mut start, "start", bound_of("start", value)?)?,
            b"end" => set(&mut end, "end", bound_of("end", value)?)?,
            b"limit" => {
                let number = number_of("limit", &value)?;
                if number == 0 {
                    return Err(ParameterError::new("limit", "is 0: give at least 1"));
                }
                set(&mut limit, "limit", number)?;
            }
            _ => return Err(unknown(&name)),
        }
    }
    let start = start.ok_or_else(|| {
        ParameterError::new("start", "is missing: give the first key as start=KEY")
    })?;
    Ok(RangeParameters { start, end, limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_need_a_start() {
        let parsed = read(Some("start=a&end=b%00&limit=10")).unwrap();
        assert_eq!(parsed.start.as_slice(), b"a");
        assert_eq!(parsed.end.as_deref(), Some(&b"b\0"[..]));
        assert_eq!(parsed.limit, Some(10));
        assert_eq!(read(Some("start=b&end=a")).unwrap().limit, None);
        for (query, name) in [
            ("", "start"),
            ("end=a", "start"),
            ("start=", "start"),
            ("start=a&end=", "end"),
            ("start=a&limit=0", "limit"),
            ("start=a&limit=-1", "limit"),
            ("start=a&start=a", "start"),
            ("start=a&id=b", "id"),
        ] {
            assert_eq!(read(Some(query)).unwrap_err().parameter, name, "{query}");
        }
    }
}
