//! The parameters of `/v0/batch`.

use crate::http::query::replicas::{ReplicaParameters, ReplicaRules};
use crate::http::query::{ParameterError, pairs, unknown};
use cluster::Replicas;

/// Reads the query.
///
/// # Errors
/// The first parameter that is not valid.
pub(super) fn read(query: Option<&str>, rules: ReplicaRules) -> Result<Replicas, ParameterError> {
    let mut replicas = ReplicaParameters::default();
    for parameter in pairs(query) {
        let (name, value) = parameter?;
        if !replicas.take(&name, &value)? {
            return Err(unknown(&name));
        }
    }
    replicas.replicas(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_the_pair_of_its_operations_and_nothing_else() {
        let rules = ReplicaRules {
            nodes: 3,
            default: None,
        };
        for (query, ack, from) in [
            (None, 2, 3),
            (Some("ack=1"), 1, 3),
            (Some("from=2&ack=1"), 1, 2),
            (Some("replicas=3%2F3"), 3, 3),
        ] {
            assert_eq!(read(query, rules), Ok(Replicas { ack, from }), "{query:?}");
        }
        for (query, name) in [
            ("id=a", "id"),
            ("ttl=1", "ttl"),
            ("ack=4", "ack"),
            ("ack=1&ack=1", "ack"),
            ("replicas=1/2&ack=1", "replicas"),
            ("&", ""),
        ] {
            assert_eq!(read(Some(query), rules).unwrap_err().parameter, name);
        }
    }
}
