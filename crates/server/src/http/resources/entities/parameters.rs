//! The parameters of `/v0/entities`.

use crate::http::query::keys::{bound_of, end_of_prefix, key_of};
use crate::http::query::replicas::{ReplicaParameters, ReplicaRules};
use crate::http::query::{ParameterError, QueryBytes, number_of, pairs, set, unknown};
use cluster::Replicas;
use query::{Expression, ExpressionError};

/// The longest delimiter, in bytes.
const DELIMITER_BYTES_MAX: usize = 16;

/// The parameters of `/v0/entities`.
#[derive(Debug)]
pub(crate) struct ScanParameters {
    /// The first key.
    pub(crate) start: QueryBytes,
    /// The key at which the scan ends without it; `None`: after the last key.
    pub(crate) end: Option<QueryBytes>,
    /// The greatest number of entities.
    pub(crate) limit: Option<u64>,
    /// What is told of the entities.
    pub(crate) telling: Telling,
    /// The delimiter by which keys are grouped, and the prefix that all keys have.
    pub(crate) delimiter: Option<(QueryBytes, usize)>,
    /// Which entities are told; all without it.
    pub(crate) condition: Option<Expression>,
    /// Whether the values of entities are read.
    pub(crate) needs_values: bool,
    /// Whose entities.
    pub(crate) scope: Scope,
}

impl ScanParameters {
    /// The same, which tell what matches the text of a condition.
    ///
    /// # Errors
    /// The condition is wrong.
    pub(crate) fn with_condition(self, text: Option<String>) -> Result<Self, ParameterError> {
        let Some(text) = text else {
            return Ok(self);
        };
        let condition = Expression::condition(&text).map_err(|error| condition_error(&error))?;
        Ok(Self {
            needs_values: self.needs_values || condition.needs_value(),
            condition: Some(condition),
            ..self
        })
    }

    /// How many entities are read at most: more than are told if some are not told, or grouped.
    pub(crate) fn read_max(&self) -> u64 {
        let tells_all = self.condition.is_none() && self.delimiter.is_none();
        self.limit.filter(|_| tells_all).unwrap_or(u64::MAX)
    }
}

/// Whose entities a scan tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Those of this node.
    Node,
    /// Those of the whole cluster: how many replicas each key has, and how many of them must
    /// answer.
    Cluster(Replicas),
}

/// What a scan tells of its entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// Their keys and values.
    Values,
    /// Their keys and versions.
    Keys,
    /// How many there are.
    Count,
}

/// Reads the query. Returns the text of its condition apart, which takes work to compile.
///
/// # Errors
/// The first parameter that is not valid.
pub(crate) fn read(
    query: Option<&str>,
    rules: ReplicaRules,
) -> Result<(ScanParameters, Option<String>), ParameterError> {
    let (mut start, mut end, mut prefix, mut limit) = (None, None, None, None);
    let (mut values, mut count, mut scope, mut delimiter) = (None, None, None, None);
    let mut condition = None;
    let mut replicas = ReplicaParameters::default();
    let mut first_of_pair = None;
    for parameter in pairs(query) {
        let (name, value) = parameter?;
        match name.as_slice() {
            b"start" => set(&mut start, "start", bound_of("start", value)?)?,
            b"end" => set(&mut end, "end", bound_of("end", value)?)?,
            b"prefix" => set(&mut prefix, "prefix", key_of("prefix", value)?)?,
            b"limit" => {
                let number = number_of("limit", &value)?;
                if number == 0 {
                    return Err(ParameterError::new("limit", "is 0: give at least 1"));
                }
                set(&mut limit, "limit", number)?;
            }
            b"delimiter" => {
                let bytes = value.len();
                if !(1..=DELIMITER_BYTES_MAX).contains(&bytes) {
                    let detail = format_args!("has {bytes} bytes: give 1 to {DELIMITER_BYTES_MAX}");
                    return Err(ParameterError::new("delimiter", detail));
                }
                set(&mut delimiter, "delimiter", value)?;
            }
            b"where" => set(&mut condition, "where", condition_of(&value)?)?,
            b"values" => set(
                &mut values,
                "values",
                check_value("values", &value, "omit")?,
            )?,
            b"count" => set(&mut count, "count", check_value("count", &value, "only")?)?,
            b"scope" => set(
                &mut scope,
                "scope",
                check_value("scope", &value, "cluster")?,
            )?,
            _ if replicas.take(&name, &value)? => first_of_pair = first_of_pair.or(Some(name)),
            _ => return Err(unknown(&name)),
        }
    }
    let first_of_pair = first_of_pair.as_deref().map(String::from_utf8_lossy);
    let scope = scope_of(scope.is_some(), first_of_pair.as_deref(), replicas, rules)?;
    if delimiter.is_some() && count.is_some() {
        return Err(ParameterError::new(
            "count",
            "counts entities, and delimiter groups them: leave one of both out",
        ));
    }
    if delimiter.is_some() && condition.is_some() {
        return Err(ParameterError::new(
            "where",
            "selects entities, and delimiter groups them: leave one of both out",
        ));
    }
    let prefix_bytes = prefix.as_ref().map_or(0, |prefix| prefix.len());
    let is_cluster = scope != Scope::Node;
    let (start, end) = range_of(start, end, prefix, delimiter.is_some(), is_cluster)?;
    let telling = match (count, values) {
        (Some(()), _) => Telling::Count,
        (None, Some(())) => Telling::Keys,
        (None, None) => Telling::Values,
    };
    let parameters = ScanParameters {
        start,
        end,
        limit,
        telling,
        needs_values: telling == Telling::Values,
        condition: None,
        delimiter: delimiter.map(|delimiter| (delimiter, prefix_bytes)),
        scope,
    };
    Ok((parameters, condition))
}

/// Whose entities are told: those of the cluster, or those of this node, where no parameter is one of
/// `ack` and `from`.
///
/// # Errors
/// The first parameter of the pair, without a cluster or out of range.
pub(super) fn scope_of(
    is_cluster: bool,
    first_of_pair: Option<&str>,
    replicas: ReplicaParameters,
    rules: ReplicaRules,
) -> Result<Scope, ParameterError> {
    match (is_cluster, first_of_pair) {
        (true, _) => Ok(Scope::Cluster(replicas.replicas(rules)?)),
        (false, None) => Ok(Scope::Node),
        (false, Some(name)) => Err(ParameterError::new(
            name,
            "applies to scans of the whole cluster only: add scope=cluster, or leave it out",
        )),
    }
}

/// The first key of a range, and the key at which it ends without it.
///
/// # Errors
/// The parameter that is missing, or too much.
pub(super) fn range_of(
    start: Option<QueryBytes>,
    end: Option<QueryBytes>,
    prefix: Option<QueryBytes>,
    has_delimiter: bool,
    is_cluster: bool,
) -> Result<(QueryBytes, Option<QueryBytes>), ParameterError> {
    match (prefix, start) {
        (Some(prefix), None) if end.is_none() => {
            let end = end_of_prefix(&prefix);
            Ok((prefix, end))
        }
        // A level of a tree goes on behind its last line.
        (Some(prefix), Some(start)) if end.is_none() && has_delimiter => {
            let end = end_of_prefix(&prefix);
            Ok((start.max(prefix), end))
        }
        (None, None) if has_delimiter || is_cluster => Ok((QueryBytes::from_slice(&[0]), end)),
        (Some(_), _) => Err(ParameterError::new(
            "prefix",
            "replaces start and end: leave these out, or the prefix; with delimiter, start may say \
             where to continue",
        )),
        (None, Some(start)) => Ok((start, end)),
        (None, None) => Err(ParameterError::new(
            "start",
            "is missing: give the first key as start=KEY, or prefix=PREFIX; a scan with \
             scope=cluster begins at the first key by itself",
        )),
    }
}

/// Reads the text of a condition.
fn condition_of(value: &[u8]) -> Result<String, ParameterError> {
    let text = std::str::from_utf8(value);
    let text = text.map_err(|_| ParameterError::new("where", "is not UTF-8"))?;
    Ok(text.to_owned())
}

/// What is wrong with a condition, and where.
pub(super) fn condition_error(error: &ExpressionError) -> ParameterError {
    ParameterError::new("where", format_args!("is no condition: {error}"))
}

/// Checks a parameter that has one value.
fn check_value(name: &str, value: &[u8], known: &str) -> Result<(), ParameterError> {
    if value == known.as_bytes() {
        return Ok(());
    }
    let detail = format_args!("has an unknown value: write {name}={known}, or leave it out");
    Err(ParameterError::new(name, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::KEY_BYTES_MAX;

    fn read(query: Option<&str>) -> Result<ScanParameters, ParameterError> {
        let rules = ReplicaRules {
            nodes: 5,
            default: None,
        };
        let (parameters, condition) = super::read(query, rules)?;
        parameters.with_condition(condition)
    }

    #[test]
    fn only_scans_of_the_cluster_have_a_pair() {
        for (query, ack, from) in [
            ("start=a&scope=cluster", 3, 5),
            ("start=a&scope=cluster&from=2", 2, 2),
            ("scope=cluster&prefix=a&ack=1", 1, 5),
            ("start=a&scope=cluster&replicas=1%2F3", 1, 3),
        ] {
            let scope = Scope::Cluster(Replicas { ack, from });
            assert_eq!(read(Some(query)).unwrap().scope, scope, "{query}");
        }
        assert_eq!(read(Some("start=a")).unwrap().scope, Scope::Node);
        for (query, name) in [
            ("start=a&scope=", "scope"),
            ("start=a&scope=node", "scope"),
            ("start=a&scope=cluster&scope=cluster", "scope"),
            ("start=a&ack=1", "ack"),
            ("start=a&from=1", "from"),
            ("start=a&replicas=1/1", "replicas"),
            ("start=a&scope=cluster&ack=6", "ack"),
            ("start=a&scope=cluster&from=0", "from"),
            ("start=a&scope=cluster&replicas=2/1", "replicas"),
            ("start=a&scope=cluster&replicas=1/2&ack=1", "replicas"),
            ("scope=cluster&start=", "start"),
        ] {
            assert_eq!(read(Some(query)).unwrap_err().parameter, name, "{query}");
        }
    }

    #[test]
    fn a_scan_of_the_cluster_begins_at_the_first_key() {
        for (query, end) in [
            ("scope=cluster", None),
            ("end=b&scope=cluster", Some(&b"b"[..])),
            ("count=only&scope=cluster", None),
        ] {
            let parsed = read(Some(query)).unwrap();
            assert_eq!(parsed.start.as_slice(), b"\0", "{query}");
            assert_eq!(parsed.end.as_deref(), end, "{query}");
        }
    }

    #[test]
    fn a_delimiter_lists_a_level_from_anywhere() {
        for (query, start, end, prefix_bytes) in [
            ("delimiter=%2F", &b"\0"[..], None, 0),
            ("delimiter=::&start=b&end=c", b"b", Some(&b"c"[..]), 0),
            ("delimiter=%2F&prefix=a%2F", b"a/", Some(b"a0"), 2),
            (
                "delimiter=%2F&prefix=a%2F&start=a%2Fb0",
                b"a/b0",
                Some(b"a0"),
                2,
            ),
            ("delimiter=%2F&prefix=a%2F&start=A", b"a/", Some(b"a0"), 2),
        ] {
            let parsed = read(Some(query)).unwrap();
            assert_eq!(parsed.start.as_slice(), start, "{query}");
            assert_eq!(parsed.end.as_deref(), end, "{query}");
            assert_eq!(parsed.delimiter.unwrap().1, prefix_bytes, "{query}");
        }
        for (query, name) in [
            ("delimiter=", "delimiter"),
            ("delimiter=01234567890123456", "delimiter"),
            ("delimiter=a&delimiter=a", "delimiter"),
            ("delimiter=a&count=only", "count"),
            ("delimiter=a&prefix=a&end=b", "prefix"),
        ] {
            assert_eq!(read(Some(query)).unwrap_err().parameter, name, "{query}");
        }
    }

    #[test]
    fn scans_need_a_start() {
        let parsed = read(Some("start=a&end=b%00&limit=10")).unwrap();
        assert_eq!(parsed.start.as_slice(), b"a");
        assert_eq!(parsed.end.as_deref(), Some(&b"b\0"[..]));
        assert_eq!(parsed.limit, Some(10));
        assert_eq!(parsed.telling, Telling::Values);
        assert_eq!(read(Some("start=b&end=a")).unwrap().limit, None);
        let long = format!("prefix={}", "a".repeat(KEY_BYTES_MAX + 1));
        for (query, name) in [
            ("", "start"),
            ("end=a", "start"),
            ("start=", "start"),
            ("start=a&end=", "end"),
            ("start=a&limit=0", "limit"),
            ("start=a&limit=-1", "limit"),
            ("start=a&start=a", "start"),
            ("start=a&id=b", "id"),
            ("prefix=", "prefix"),
            ("prefix=a&prefix=a", "prefix"),
            ("prefix=a&start=a", "prefix"),
            ("start=a&prefix=a", "prefix"),
            ("prefix=a&end=b", "prefix"),
            (&long, "prefix"),
            ("start=a&values=", "values"),
            ("start=a&values=all", "values"),
            ("start=a&values=omit&values=omit", "values"),
            ("start=a&count=", "count"),
            ("start=a&count=Only", "count"),
            ("count=only", "start"),
        ] {
            assert_eq!(read(Some(query)).unwrap_err().parameter, name, "{query}");
        }
    }

    #[test]
    fn a_prefix_stands_for_a_start_and_an_end() {
        for (query, start, end) in [
            ("prefix=a", &b"a"[..], Some(&b"b"[..])),
            ("prefix=user%2F", b"user/", Some(b"user0")),
            ("prefix=a%FE", b"a\xfe", Some(b"a\xff")),
            ("prefix=a%FF%FF", b"a\xff\xff", Some(b"b")),
            ("prefix=%FF%FF", b"\xff\xff", None),
            ("prefix=%00", b"\0", Some(b"\x01")),
        ] {
            let parsed = read(Some(query)).unwrap();
            assert_eq!(parsed.start.as_slice(), start, "{query}");
            assert_eq!(parsed.end.as_deref(), end, "{query}");
        }
        let longest = format!("prefix={}", "a".repeat(KEY_BYTES_MAX));
        assert_eq!(read(Some(&longest)).unwrap().start.len(), KEY_BYTES_MAX);
    }

    #[test]
    fn a_condition_is_checked_and_says_what_is_read() {
        for (query, needs_values, read_max) in [
            ("prefix=a&limit=2", true, 2),
            ("prefix=a&limit=2&values=omit", false, 2),
            ("prefix=a&limit=2&where=value.total>100", true, u64::MAX),
            ("prefix=a&limit=2&where=version>7", true, u64::MAX),
            (
                "prefix=a&limit=2&values=omit&where=version>7",
                false,
                u64::MAX,
            ),
            ("prefix=a&count=only&where=size>7", true, u64::MAX),
        ] {
            let parsed = read(Some(query)).unwrap();
            assert_eq!(parsed.needs_values, needs_values, "{query}");
            assert_eq!(parsed.read_max(), read_max, "{query}");
        }
        for query in [
            "prefix=a&where=",
            "prefix=a&where=key",
            "prefix=a&where=%FF",
            "prefix=a&where=true&where=true",
            "prefix=a&where=true&delimiter=a",
        ] {
            assert_eq!(read(Some(query)).unwrap_err().parameter, "where", "{query}");
        }
    }

    #[test]
    fn a_scan_tells_values_or_keys_or_only_their_number() {
        for (query, telling) in [
            ("prefix=a&values=omit", Telling::Keys),
            ("prefix=a&count=only", Telling::Count),
            ("count=only&start=a&values=omit", Telling::Count),
        ] {
            assert_eq!(read(Some(query)).unwrap().telling, telling, "{query}");
        }
    }
}
