//! `ack` and `from` in queries.

use super::{ParameterError, number_of, set};
use cluster::Replicas;

/// What the cluster allows `ack` and `from` to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplicaRules {
    /// The number of nodes.
    pub(crate) nodes: u8,
    /// The pair that the operator chose for requests that name neither.
    pub(crate) default: Option<Replicas>,
}

/// `ack` and `from` as a query gives them, in either spelling.
#[derive(Debug, Default)]
pub(crate) struct ReplicaParameters {
    ack: Option<u64>,
    from: Option<u64>,
    pair: Option<(u64, u64)>,
}

impl ReplicaParameters {
    /// Takes a parameter if it is one of these.
    ///
    /// # Errors
    /// It is not valid, or was given before.
    pub(crate) fn take(&mut self, name: &[u8], value: &[u8]) -> Result<bool, ParameterError> {
        match name {
            b"ack" => set(&mut self.ack, "ack", number_of("ack", value)?)?,
            b"from" => set(&mut self.from, "from", number_of("from", value)?)?,
            b"replicas" => set(&mut self.pair, "replicas", pair_of(value)?)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The pair, completed with defaults.
    ///
    /// # Errors
    /// Both spellings were given, or the parameter is out of range.
    pub(crate) fn replicas(self, rules: ReplicaRules) -> Result<Replicas, ParameterError> {
        let Some((ack, from)) = self.pair else {
            return replicas_of(self.ack, self.from, rules);
        };
        if self.ack.is_some() || self.from.is_some() {
            return Err(ParameterError::new(
                "replicas",
                "is another spelling of ack and from: give one or the other",
            ));
        }
        replicas_of(Some(ack), Some(from), rules).map_err(|error| ParameterError {
            // Its text names the part of the pair.
            parameter: "replicas".to_owned(),
            ..error
        })
    }
}

/// Reads `ACK/FROM`.
fn pair_of(value: &[u8]) -> Result<(u64, u64), ParameterError> {
    let slash = value
        .iter()
        .position(|byte| *byte == b'/')
        .ok_or_else(|| ParameterError::new("replicas", "is not a pair: give it as ACK/FROM"))?;
    Ok((
        number_of("replicas", &value[..slash])?,
        number_of("replicas", &value[slash + 1..])?,
    ))
}

/// Completes the pair with defaults, and checks `1 <= ack <= from <= nodes`.
///
/// # Errors
/// The parameter that is out of range.
pub(crate) fn replicas_of(
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
                let range = up_to(rules.nodes);
                let detail = format_args!("is out of range: give {range}, the number of nodes");
                ParameterError::new("from", detail)
            })?,
    };
    let ack = match ack {
        // The operator's `ack` belongs to the operator's `from`.
        None if is_from_given => quorum(from),
        None => default.ack,
        Some(number) => u8::try_from(number)
            .ok()
            .filter(|ack| (1..=from).contains(ack))
            .ok_or_else(|| {
                let range = up_to(from);
                let detail = format_args!("is out of range: give {range}, which is `from`");
                ParameterError::new("ack", detail)
            })?,
    };
    Ok(Replicas { ack, from })
}

/// The numbers from 1 to the last one.
fn up_to(last: u8) -> String {
    match last {
        1 => "1".to_owned(),
        last => format!("1 to {last}"),
    }
}

/// More than half.
fn quorum(from: u8) -> u8 {
    from / 2 + 1
}
