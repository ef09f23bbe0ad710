//! The parameters of `/v0/entity`.

use crate::http::query::keys::{key_missing, key_of};
use crate::http::query::replicas::{ReplicaParameters, ReplicaRules};
use crate::http::query::{ParameterError, QueryBytes, number_of, pairs, set, switch_of, unknown};
use cluster::Replicas;

/// The longest time to live, in seconds: the range of a timestamp.
pub(crate) const TTL_SECONDS_MAX: u64 = (1 << 48) / 1000;

/// The parameters of `/v0/entity`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntityParameters {
    /// The key.
    pub(crate) key: QueryBytes,
    /// How many replicas, and how many of them must answer.
    pub(crate) replicas: Replicas,
    /// After how many seconds the version expires; `PUT` only.
    pub(crate) ttl_seconds: Option<u64>,
    /// Whether the value stays and only its expiry changes; `PUT` only.
    pub(crate) is_touch: bool,
}

/// Reads the query. `ttl` and `touch` are allowed only if `is_put`.
///
/// # Errors
/// The first parameter that is not valid.
pub(crate) fn read(
    query: Option<&str>,
    is_put: bool,
    rules: ReplicaRules,
) -> Result<EntityParameters, ParameterError> {
    let (mut key, mut ttl_seconds, mut touch) = (None, None, None);
    let mut replicas = ReplicaParameters::default();
    for parameter in pairs(query) {
        let (name, value) = parameter?;
        if replicas.take(&name, &value)? {
            continue;
        }
        match name.as_slice() {
            b"id" => set(&mut key, "id", key_of("id", value)?)?,
            b"ttl" if is_put => set(&mut ttl_seconds, "ttl", ttl_of(&value)?)?,
            b"touch" if is_put => set(&mut touch, "touch", switch_of("touch", &value)?)?,
            b"ttl" | b"touch" => {
                return Err(ParameterError::new(
                    String::from_utf8_lossy(&name),
                    "is not a parameter of this method, but of PUT: leave it out",
                ));
            }
            _ => return Err(unknown(&name)),
        }
    }
    let key = key.ok_or_else(key_missing)?;
    Ok(EntityParameters {
        key,
        replicas: replicas.replicas(rules)?,
        ttl_seconds,
        is_touch: touch.unwrap_or(false),
    })
}

fn ttl_of(value: &[u8]) -> Result<u64, ParameterError> {
    if !value.iter().all(u8::is_ascii_digit) {
        return Err(ParameterError::new(
            "ttl",
            "is not a whole number of seconds: give 300 for 5 minutes",
        ));
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use base::KEY_BYTES_MAX;

    const ALONE: ReplicaRules = ReplicaRules {
        nodes: 1,
        default: None,
    };

    fn nodes(nodes: u8) -> ReplicaRules {
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
            let parsed = read(Some(query), false, ALONE).unwrap();
            assert_eq!(parsed.key.as_slice(), key, "{query}");
        }
        let longest = format!("id={}", "%41".repeat(KEY_BYTES_MAX));
        let parsed = read(Some(&longest), false, ALONE).unwrap();
        assert_eq!(parsed.key.len(), KEY_BYTES_MAX);
    }

    #[test]
    fn a_parameter_that_is_not_exactly_right_is_refused_by_name() {
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
            ("id=a&touch=", "touch"),
            ("id=a&touch=1", "touch"),
            ("id=a&touch=true&touch=true", "touch"),
        ] {
            let error = read(Some(query), true, ALONE).unwrap_err();
            assert_eq!(error.parameter, name, "{query}: {}", error.detail);
        }
        assert_eq!(read(None, true, ALONE).unwrap_err().parameter, "id");
        for (query, name) in [("id=a&ttl=5", "ttl"), ("id=a&touch=true", "touch")] {
            let error = read(Some(query), false, ALONE).unwrap_err();
            assert_eq!(error.parameter, name);
        }
        for (query, is_touch) in [("id=a&touch=true", true), ("id=a&touch=false", false)] {
            assert_eq!(read(Some(query), true, ALONE).unwrap().is_touch, is_touch);
        }
        for (query, detail) in [
            ("id=a&ttl=5m", "`ttl` is not a whole number of seconds"),
            ("id=a&replicas=2/1", "`ack` is out of range: give 1"),
        ] {
            let error = read(Some(query), true, ALONE).unwrap_err();
            assert!(error.detail.starts_with(detail), "{}", error.detail);
        }
    }

    #[test]
    fn missing_ack_and_from_have_defaults() {
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
            let parsed = read(Some(query), false, rules).unwrap();
            assert_eq!(
                parsed.replicas,
                Replicas { ack, from },
                "{query} of {nodes}"
            );
        }
        assert!(read(Some("id=a&ack=3&from=2"), false, nodes(5)).is_err());
        assert!(read(Some("id=a&from=6"), false, nodes(5)).is_err());
    }

    #[test]
    fn times_to_live_are_whole_seconds() {
        for (query, seconds) in [
            ("id=a", None),
            ("id=a&ttl=1", Some(1)),
            ("id=a&ttl=281474976710", Some(TTL_SECONDS_MAX)),
        ] {
            let parsed = read(Some(query), true, ALONE).unwrap();
            assert_eq!(parsed.ttl_seconds, seconds);
        }
    }
}
