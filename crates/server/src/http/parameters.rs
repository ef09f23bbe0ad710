//! The parameters of a request: a pure function of the raw query.
//!
//! A query is `name=value` pairs between `&`s. Names and values are
//! percent-decoded to bytes, UTF-8 or not; a `+` is a space, as the form encoders
//! of clients write it. All that is not exactly right is refused, with a text
//! that names the parameter and says what to do: a typing error must not become
//! another key.

use base::KEY_BYTES_MAX;
use cluster::Replicas;
use smallvec::SmallVec;
use std::fmt;
use std::ops::RangeInclusive;

/// A key, or another decoded value: short ones need no allocation.
pub(crate) type KeyBytes = SmallVec<[u8; 64]>;

/// The longest time to live, in seconds: the range of a timestamp.
pub(crate) const TTL_SECONDS_MAX: u64 = (1 << 48) / 1000;

/// For how many seconds a profile may be recorded.
const PROFILE_SECONDS: RangeInclusive<u64> = 1..=60;

/// For how many it is where nothing is said.
const PROFILE_SECONDS_DEFAULT: u64 = 10;

/// The parameters of `/v0/entity`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntityParameters {
    /// The key.
    pub(crate) key: KeyBytes,
    /// How many replicas, and how many answers.
    pub(crate) replicas: Replicas,
    /// In how many seconds the version expires; `PUT` only.
    pub(crate) ttl_seconds: Option<u64>,
}

/// The parameters of `/v0/entities`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RangeParameters {
    /// The first key.
    pub(crate) start: KeyBytes,
    /// The key that is not reached any more; `None`: up to the last.
    pub(crate) end: Option<KeyBytes>,
    /// At most so many entities.
    pub(crate) limit: Option<u64>,
}

/// The parameters of `/debug/profile`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProfileParameters {
    /// What to record.
    pub(crate) kind: profile::ProfileKind,
    /// For how long.
    pub(crate) seconds: u64,
}

/// What the cluster allows `ack` and `from` to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplicaRules {
    /// The number of nodes.
    pub(crate) nodes: u8,
    /// What the operator chose where a request says nothing.
    pub(crate) default: Option<Replicas>,
}

/// A parameter that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParameterError {
    /// Its name.
    pub(crate) parameter: String,
    /// What is wrong with it and what to do.
    pub(crate) detail: String,
}

impl ParameterError {
    fn new(parameter: impl Into<String>, detail: impl fmt::Display) -> Self {
        let parameter = parameter.into();
        let detail = format!("`{parameter}` {detail}");
        Self { parameter, detail }
    }
}

/// Reads the query of `/v0/entity`; `ttl` is known only where `with_ttl`.
///
/// # Errors
/// The first parameter that cannot be.
pub(crate) fn entity(
    query: Option<&str>,
    with_ttl: bool,
    rules: ReplicaRules,
) -> Result<EntityParameters, ParameterError> {
    let mut key = None;
    let (mut ack, mut from, mut pair, mut ttl_seconds) = (None, None, None, None);
    for parameter in pairs(query) {
        let (name, value) = parameter?;
        match name.as_slice() {
            b"id" => set(&mut key, "id", key_of("id", value)?)?,
            b"ack" => set(&mut ack, "ack", number_of("ack", &value)?)?,
            b"from" => set(&mut from, "from", number_of("from", &value)?)?,
            b"replicas" => set(&mut pair, "replicas", pair_of(&value)?)?,
            b"ttl" if with_ttl => set(&mut ttl_seconds, "ttl", ttl_of(&value)?)?,
            b"ttl" => {
                return Err(ParameterError::new(
                    "ttl",
                    "is for PUT only: leave it out here",
                ));
            }
            _ => return Err(unknown(&name)),
        }
    }
    let key = key.ok_or_else(key_missing)?;
    if pair.is_some() && (ack.is_some() || from.is_some()) {
        return Err(ParameterError::new(
            "replicas",
            "is another spelling of ack and from: give one or the other",
        ));
    }
    let replicas = match pair {
        Some((ack, from)) => replicas_of(Some(ack), Some(from), rules).map_err(|error| {
            let detail = format!("is out of range: {}", error.detail);
            ParameterError::new("replicas", detail)
        }),
        None => replicas_of(ack, from, rules),
    }?;
    Ok(EntityParameters {
        key,
        replicas,
        ttl_seconds,
    })
}

/// Reads the query of `/v0/entities`.
///
/// # Errors
/// The first parameter that cannot be.
pub(crate) fn range(query: Option<&str>) -> Result<RangeParameters, ParameterError> {
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

/// Reads the query of `/debug/profile`.
///
/// # Errors
/// The first parameter that cannot be.
pub(crate) fn profile(query: Option<&str>) -> Result<ProfileParameters, ParameterError> {
    let (mut kind, mut seconds) = (None, None);
    for parameter in pairs(query) {
        let (name, value) = parameter?;
        match name.as_slice() {
            b"kind" => set(&mut kind, "kind", kind_of(&value)?)?,
            b"seconds" => set(&mut seconds, "seconds", seconds_of(&value)?)?,
            _ => return Err(unknown(&name)),
        }
    }
    Ok(ProfileParameters {
        kind: kind.ok_or_else(|| {
            ParameterError::new("kind", "is missing: give kind=cpu, alloc or lock")
        })?,
        seconds: seconds.unwrap_or(PROFILE_SECONDS_DEFAULT),
    })
}

fn kind_of(value: &[u8]) -> Result<profile::ProfileKind, ParameterError> {
    std::str::from_utf8(value)
        .ok()
        .and_then(profile::ProfileKind::of_word)
        .ok_or_else(|| ParameterError::new("kind", "is unknown: give cpu, alloc or lock"))
}

fn seconds_of(value: &[u8]) -> Result<u64, ParameterError> {
    let seconds = number_of("seconds", value)?;
    if PROFILE_SECONDS.contains(&seconds) {
        return Ok(seconds);
    }
    let (least, most) = (PROFILE_SECONDS.start(), PROFILE_SECONDS.end());
    Err(ParameterError::new(
        "seconds",
        format_args!("is out of range: give {least} to {most}"),
    ))
}

/// Checks that there are no parameters.
///
/// # Errors
/// The first one.
pub(crate) fn none(query: Option<&str>) -> Result<(), ParameterError> {
    match pairs(query).next() {
        None => Ok(()),
        Some(Err(error)) => Err(error),
        Some(Ok((name, _))) => Err(unknown(&name)),
    }
}

fn key_missing() -> ParameterError {
    ParameterError::new("id", "is missing: give the key as id=KEY")
}

/// Reads a query that names a key and nothing else.
///
/// # Errors
/// The first parameter that cannot be.
pub(crate) fn key_only(query: Option<&str>) -> Result<KeyBytes, ParameterError> {
    let mut key = None;
    for parameter in pairs(query) {
        let (name, value) = parameter?;
        match name.as_slice() {
            b"id" => set(&mut key, "id", key_of("id", value)?)?,
            _ => return Err(unknown(&name)),
        }
    }
    key.ok_or_else(key_missing)
}

/// The decoded names and values of a query. An empty query has none.
fn pairs(
    query: Option<&str>,
) -> impl Iterator<Item = Result<(KeyBytes, KeyBytes), ParameterError>> {
    query
        .filter(|query| !query.is_empty())
        .into_iter()
        .flat_map(|query| query.as_bytes().split(|byte| *byte == b'&'))
        .map(|pair| {
            if pair.is_empty() {
                return Err(ParameterError {
                    parameter: String::new(),
                    detail: "the query has an empty parameter: remove the stray `&`".to_owned(),
                });
            }
            let (name, value) = match pair.iter().position(|byte| *byte == b'=') {
                Some(place) => (&pair[..place], &pair[place + 1..]),
                None => (pair, &[][..]),
            };
            let broken = || {
                ParameterError::new(
                    shown(name),
                    "has a broken percent escape: write `%` and two hexadecimal digits",
                )
            };
            Ok((
                decode(name).ok_or_else(broken)?,
                decode(value).ok_or_else(broken)?,
            ))
        })
}

/// Decodes what a form encoder wrote; `None` for a broken escape.
fn decode(encoded: &[u8]) -> Option<KeyBytes> {
    if !encoded.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Some(KeyBytes::from_slice(encoded));
    }
    let mut decoded = KeyBytes::new();
    let mut rest = encoded.iter();
    while let Some(byte) = rest.next() {
        decoded.push(match byte {
            b'%' => {
                let high = hex_digit(*rest.next()?)?;
                let low = hex_digit(*rest.next()?)?;
                high << 4 | low
            }
            b'+' => b' ',
            byte => *byte,
        });
    }
    Some(decoded)
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// A name as an error may show it: short and printable.
fn shown(name: &[u8]) -> String {
    let short = &name[..name.len().min(64)];
    short.escape_ascii().to_string()
}

fn unknown(name: &[u8]) -> ParameterError {
    ParameterError::new(
        shown(name),
        "is no parameter of this resource: check the spelling",
    )
}

/// Sets what must be given once.
fn set<T>(slot: &mut Option<T>, name: &str, value: T) -> Result<(), ParameterError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(ParameterError::new(
            name,
            "is given more than once: give it once",
        )),
    }
}

fn key_of(name: &str, value: KeyBytes) -> Result<KeyBytes, ParameterError> {
    check_length(name, value, KEY_BYTES_MAX)
}

/// A bound of a range: a key, or the longest key and a byte more, by which a
/// range goes on behind it.
fn bound_of(name: &str, value: KeyBytes) -> Result<KeyBytes, ParameterError> {
    check_length(name, value, KEY_BYTES_MAX + 1)
}

fn check_length(name: &str, value: KeyBytes, bytes_max: usize) -> Result<KeyBytes, ParameterError> {
    let bytes = value.len();
    if bytes == 0 {
        let detail = format_args!("is empty: give 1 to {bytes_max} bytes");
        return Err(ParameterError::new(name, detail));
    }
    if bytes > bytes_max {
        let detail = format_args!("has {bytes} bytes: give 1 to {bytes_max}");
        return Err(ParameterError::new(name, detail));
    }
    Ok(value)
}

fn number_of(name: &str, value: &[u8]) -> Result<u64, ParameterError> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(ParameterError::new(
            name,
            "is no whole number: give ASCII digits only",
        ));
    }
    value
        .iter()
        .try_fold(0u64, |number, digit| {
            number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        })
        .ok_or_else(|| ParameterError::new(name, "is out of range: give a smaller number"))
}

fn pair_of(value: &[u8]) -> Result<(u64, u64), ParameterError> {
    let place = value
        .iter()
        .position(|byte| *byte == b'/')
        .ok_or_else(|| ParameterError::new("replicas", "is no pair: give it as ACK/FROM"))?;
    Ok((
        number_of("replicas", &value[..place])?,
        number_of("replicas", &value[place + 1..])?,
    ))
}

fn ttl_of(value: &[u8]) -> Result<u64, ParameterError> {
    match number_of("ttl", value)? {
        0 => Err(ParameterError::new(
            "ttl",
            "is 0: give at least 1 second, or DELETE the key",
        )),
        seconds @ 1..=TTL_SECONDS_MAX => Ok(seconds),
        _ => Err(ParameterError::new(
            "ttl",
            format_args!("is out of range: give at most {TTL_SECONDS_MAX} seconds"),
        )),
    }
}

/// Fills in what was not given, and checks `1 <= ack <= from <= nodes`.
fn replicas_of(
    ack: Option<u64>,
    from: Option<u64>,
    rules: ReplicaRules,
) -> Result<Replicas, ParameterError> {
    let default = rules.default.map_or(
        Replicas {
            ack: quorum(rules.nodes),
            from: rules.nodes,
        },
        |chosen| Replicas {
            ack: chosen.ack,
            from: chosen.from,
        },
    );
    let is_from_given = from.is_some();
    let from = match from {
        None => default.from,
        Some(number) => u8::try_from(number)
            .ok()
            .filter(|from| (1..=rules.nodes).contains(from))
            .ok_or_else(|| {
                let nodes = rules.nodes;
                ParameterError::new(
                    "from",
                    format_args!("is out of range: give 1 to {nodes}, the number of nodes"),
                )
            })?,
    };
    let ack = match ack {
        // The operator's pair stands only as a whole.
        None if is_from_given => quorum(from),
        None => default.ack,
        Some(number) => u8::try_from(number)
            .ok()
            .filter(|ack| (1..=from).contains(ack))
            .ok_or_else(|| {
                ParameterError::new(
                    "ack",
                    format_args!("is out of range: give 1 to {from}, which is `from`"),
                )
            })?,
    };
    Ok(Replicas { ack, from })
}

/// More than half.
fn quorum(from: u8) -> u8 {
    from / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONE: ReplicaRules = ReplicaRules {
        nodes: 1,
        default: None,
    };

    fn of(nodes: u8) -> ReplicaRules {
        ReplicaRules {
            nodes,
            default: None,
        }
    }

    #[test]
    fn keys_are_the_decoded_bytes() {
        for (query, key) in [
            ("id=a", &b"a"[..]),
            ("id=a+b", b"a b"),
            ("id=+", b" "),
            ("id=a%2Bb", b"a+b"),
            ("id=a=b", b"a=b"),
            ("id=%61%20%2b", b"a +"),
            ("id=%00%ff", b"\x00\xff"),
            ("%69d=k", b"k"),
            ("id=\u{e4}", "\u{e4}".as_bytes()),
        ] {
            let parsed = entity(Some(query), false, LONE).unwrap();
            assert_eq!(parsed.key.as_slice(), key, "{query}");
        }
        let longest = format!("id={}", "%41".repeat(KEY_BYTES_MAX));
        let parsed = entity(Some(&longest), false, LONE).unwrap();
        assert_eq!(parsed.key.len(), KEY_BYTES_MAX);
    }

    #[test]
    fn what_is_not_exactly_right_is_refused_by_name() {
        let long = format!("id={}", "a".repeat(KEY_BYTES_MAX + 1));
        for (query, name) in [
            ("", "id"),
            ("id", "id"),
            ("id=", "id"),
            ("ID=a", "ID"),
            ("id=%", "id"),
            ("id=%4", "id"),
            ("id=%4g", "id"),
            ("id=a&i%=b", "i%"),
            ("id=a&id=a", "id"),
            ("id=a&", ""),
            ("&id=a", ""),
            ("id=a&key=b", "key"),
            ("id=a&=b", ""),
            (&long, "id"),
            ("id=a&ack=0", "ack"),
            ("id=a&ack=2", "ack"),
            ("id=a&ack=+1", "ack"),
            ("id=a&ack=-1", "ack"),
            ("id=a&ack=1.0", "ack"),
            ("id=a&ack=", "ack"),
            ("id=a&ack=%D9%A1", "ack"),
            ("id=a&ack=1&ack=1", "ack"),
            ("id=a&from=0", "from"),
            ("id=a&from=2", "from"),
            ("id=a&from=257", "from"),
            ("id=a&from=99999999999999999999999", "from"),
            ("id=a&replicas=1", "replicas"),
            ("id=a&replicas=1/", "replicas"),
            ("id=a&replicas=1/1/1", "replicas"),
            ("id=a&replicas=1/1&ack=1", "replicas"),
            ("id=a&replicas=1/1&from=1", "replicas"),
            ("id=a&replicas=2/2", "replicas"),
            ("id=a&replicas=2/1", "replicas"),
            ("id=a&replicas=0/1", "replicas"),
            ("id=a&ttl=0", "ttl"),
            ("id=a&ttl=281474976711", "ttl"),
            ("id=a&ttl=1s", "ttl"),
        ] {
            let error = entity(Some(query), true, LONE).unwrap_err();
            assert_eq!(error.parameter, name, "{query}: {}", error.detail);
        }
        assert_eq!(entity(None, true, LONE).unwrap_err().parameter, "id");
        let error = entity(Some("id=a&ttl=5"), false, LONE).unwrap_err();
        assert_eq!(error.parameter, "ttl");
    }

    #[test]
    fn what_is_not_given_of_the_replicas_is_filled_in() {
        let chosen = Some(Replicas { ack: 1, from: 3 });
        for (query, nodes, default, ack, from) in [
            ("id=a", 1, None, 1, 1),
            ("id=a", 2, None, 2, 2),
            ("id=a", 3, None, 2, 3),
            ("id=a", 4, None, 3, 4),
            ("id=a", 5, None, 3, 5),
            ("id=a", 255, None, 128, 255),
            ("id=a", 5, chosen, 1, 3),
            ("id=a&from=2", 5, chosen, 2, 2),
            ("id=a&from=3", 5, None, 2, 3),
            ("id=a&from=3", 5, chosen, 2, 3),
            ("id=a&ack=2", 5, chosen, 2, 3),
            ("id=a&ack=5", 5, None, 5, 5),
            ("id=a&ack=1&from=2", 5, None, 1, 2),
            ("id=a&replicas=1/2", 5, None, 1, 2),
            ("id=a&replicas=1%2F2", 5, None, 1, 2),
            ("replicas=01/002&id=a", 5, None, 1, 2),
        ] {
            let rules = ReplicaRules { nodes, default };
            let parsed = entity(Some(query), false, rules).unwrap();
            assert_eq!(
                parsed.replicas,
                Replicas { ack, from },
                "{query} of {nodes}"
            );
        }
        assert!(entity(Some("id=a&ack=3&from=2"), false, of(5)).is_err());
        assert!(entity(Some("id=a&from=6"), false, of(5)).is_err());
    }

    #[test]
    fn times_to_live_are_whole_seconds() {
        for (query, seconds) in [
            ("id=a", None),
            ("id=a&ttl=1", Some(1)),
            ("id=a&ttl=281474976710", Some(TTL_SECONDS_MAX)),
        ] {
            let parsed = entity(Some(query), true, LONE).unwrap();
            assert_eq!(parsed.ttl_seconds, seconds);
        }
    }

    #[test]
    fn ranges_need_a_start() {
        let parsed = range(Some("start=a&end=b%00&limit=10")).unwrap();
        assert_eq!(parsed.start.as_slice(), b"a");
        assert_eq!(parsed.end.as_deref(), Some(&b"b\0"[..]));
        assert_eq!(parsed.limit, Some(10));
        assert_eq!(range(Some("start=b&end=a")).unwrap().limit, None);
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
            assert_eq!(range(Some(query)).unwrap_err().parameter, name, "{query}");
        }
    }

    #[test]
    fn resources_without_parameters_take_none() {
        assert_eq!(none(None), Ok(()));
        assert_eq!(none(Some("")), Ok(()));
        assert!(none(Some("a=b")).is_err());
        assert!(none(Some("&")).is_err());
    }
}
