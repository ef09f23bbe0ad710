//! The condition of a write: `If-Match` and `If-None-Match` (RFC 9110, 13.1).
//!
//! Unlike a read, a write with a field that cannot be read is refused: to ignore a condition
//! would lose data.

use crate::http::problem::Problem;
use crate::http::request::entity_tag::{Comparison, EntityTag, TagList, is_any};
use cluster::{Condition, Matches};
use hyper::HeaderMap;
use hyper::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};

/// The condition of a write; `None` if the request has none. A version is known by its timestamp
/// alone, so the hash in a tag is not compared.
///
/// # Errors
/// A field that is neither `*` nor a list of tags.
pub(crate) fn condition_of(headers: &HeaderMap) -> Result<Option<Condition>, Problem> {
    let condition = Condition {
        matches: matches_of(headers, &IF_MATCH, Comparison::Strong)?,
        matches_none: matches_of(headers, &IF_NONE_MATCH, Comparison::Weak)?,
    };
    Ok((condition != Condition::default()).then_some(condition))
}

/// There is a value: the condition of a write that keeps it, unless it names another one.
pub(crate) fn any_value() -> Condition {
    Condition {
        matches: Some(Matches::Any),
        matches_none: None,
    }
}

/// What a field names; tags that no version has name nothing.
fn matches_of(
    headers: &HeaderMap,
    name: &HeaderName,
    comparison: Comparison,
) -> Result<Option<Matches>, Problem> {
    let lists: Vec<&[u8]> = headers
        .get_all(name)
        .iter()
        .map(|list| list.as_bytes())
        .collect();
    match lists[..] {
        [] => return Ok(None),
        [list] if is_any(list) => return Ok(Some(Matches::Any)),
        _ => {}
    }
    let (mut versions, mut has_tags) = (Vec::new(), false);
    for tag in lists.into_iter().flat_map(TagList) {
        let tag = tag.map_err(|_| Problem::bad_condition(name.as_str()))?;
        has_tags = true;
        if tag.counts(comparison) {
            versions.extend(EntityTag::timestamp_of(tag.opaque));
        }
    }
    if !has_tags {
        return Err(Problem::bad_condition(name.as_str()));
    }
    Ok(Some(Matches::Versions(versions.into())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Timestamp;

    fn headers(fields: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    fn versions(versions: &[u64]) -> Option<Matches> {
        let versions = versions.iter().copied().map(Timestamp::from_u64);
        Some(Matches::Versions(versions.collect()))
    }

    const TAG: &str = "\"0000000000000abc-2d06800538d394c2\"";
    const OTHER_HASH: &str = "\"0000000000000abd-0000000000000000\"";

    #[test]
    fn a_field_names_versions() {
        let both = format!("{TAG} ,, {OTHER_HASH}");
        let weak = format!("W/{TAG}, \"a,b\"");
        for (value, strong, when_weak) in [
            ("*", Some(Matches::Any), Some(Matches::Any)),
            (" * ", Some(Matches::Any), Some(Matches::Any)),
            (TAG, versions(&[0xabc]), versions(&[0xabc])),
            (&both, versions(&[0xabc, 0xabd]), versions(&[0xabc, 0xabd])),
            (&weak, versions(&[]), versions(&[0xabc])),
            ("\"\"", versions(&[]), versions(&[])),
        ] {
            let fields = headers(&[(IF_MATCH, value)]);
            let condition = condition_of(&fields).unwrap().unwrap();
            assert_eq!(condition.matches, strong, "{value}");
            assert_eq!(condition.matches_none, None);
            let fields = headers(&[(IF_NONE_MATCH, value)]);
            let condition = condition_of(&fields).unwrap().unwrap();
            assert_eq!(condition.matches_none, when_weak, "{value}");
            assert_eq!(condition.matches, None);
        }
        assert_eq!(condition_of(&HeaderMap::new()).unwrap(), None);
        let fields = headers(&[
            (IF_MATCH, TAG),
            (IF_MATCH, OTHER_HASH),
            (IF_NONE_MATCH, "*"),
        ]);
        let condition = condition_of(&fields).unwrap().unwrap();
        assert_eq!(condition.matches, versions(&[0xabc, 0xabd]));
        assert_eq!(condition.matches_none, Some(Matches::Any));
    }

    #[test]
    fn a_field_that_cannot_be_read_is_refused() {
        for value in [
            "",
            ",",
            "a",
            "\"",
            "W/",
            "w/\"a\"",
            "\"a\" \"b\"",
            "\"a b\"",
            "\"a\", *",
            "*, \"a\"",
            "* *",
        ] {
            for name in [IF_MATCH, IF_NONE_MATCH] {
                let problem = condition_of(&headers(&[(name, value)])).unwrap_err();
                assert_eq!(problem.status(), 400, "{value}");
            }
        }
        for second in ["*", TAG] {
            let fields = headers(&[(IF_MATCH, "*"), (IF_MATCH, second)]);
            assert!(condition_of(&fields).is_err(), "{second}");
        }
    }
}
