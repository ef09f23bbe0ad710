//! Checks whether a plan can be carried out.

use super::{Ask, Operation, Plan, Rate, SizeDistribution};
use crate::{Error, target};

/// The longest key that a node accepts, in bytes.
const KEY_BYTES_MAX: usize = 4096;

/// The most digits of a key's number. No machine stores more keys.
pub(crate) const KEY_DIGITS_MAX: usize = 12;

/// The longest value that any node accepts, in bytes.
const VALUE_BYTES_MAX: usize = 1 << 30;

/// The most connections: about the number of ports of one address.
const CONNECTIONS_MAX: usize = 60_000;

/// The most threads.
const THREADS_MAX: usize = 256;

/// The highest rate, in requests per second.
const RATE_MAX: f64 = 1e9;

/// The longest time to live that a node accepts, in seconds.
const TTL_SECONDS_MAX: u64 = 281_474_976_710;

/// The most operations of a batch.
const BATCH_MAX: usize = 100_000;

/// The longest batch that a node accepts, in bytes.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// The most batches of a connection that wait for their answers.
const PIPELINE_MAX: usize = 1024;

/// The most bytes of an operation of a batch beside its key and its value.
const LINE_BYTES: usize = 80;

/// The longest run, in seconds: a week.
const SECONDS_MAX: f64 = 7.0 * 24.0 * 3600.0;

/// The most memory that the requests in flight may take, in bytes.
const REQUEST_BYTES_MAX: usize = 4 << 30;

impl Plan {
    /// Checks whether the plan can be carried out.
    ///
    /// # Errors
    /// [`Error::Plan`] says what to change.
    pub fn check(&self) -> Result<(), Error> {
        demand(
            !self.targets.is_empty(),
            "there is no target: name at least one",
        )?;
        for target in &self.targets {
            target::parse(target)?;
        }
        within("connections", self.connections, 1, CONNECTIONS_MAX)?;
        within("threads", self.threads, 1, THREADS_MAX)?;
        demand(
            self.connections >= self.threads && self.connections >= self.targets.len(),
            "give at least one connection for each thread and for each target",
        )?;
        if let Rate::PerSecond(rate) = self.rate {
            demand(
                rate > 0.0 && rate <= RATE_MAX,
                "give a rate above 0 and at most 1000000000 per second",
            )?;
        }
        for (name, seconds, least) in [
            ("warm-up", self.warmup_seconds, 0.0),
            ("run", self.seconds, 0.001),
            ("timeout", self.timeout_seconds, 0.001),
        ] {
            demand(
                (least..=SECONDS_MAX).contains(&seconds),
                format!("give the {name} from {least} to {SECONDS_MAX} seconds"),
            )?;
        }
        self.check_operations()?;
        self.check_batch()?;
        demand(self.keys >= 1, "give at least one key")?;
        size("keys", self.key_bytes, 1, KEY_BYTES_MAX)?;
        size("values", self.value_bytes, 0, VALUE_BYTES_MAX)?;
        self.key_bytes.key_digits(self.keys)?;
        let values = self
            .batch
            .unwrap_or(1)
            .saturating_mul(self.pipeline.unwrap_or(1))
            .saturating_mul(self.connections);
        demand(
            self.value_bytes.bounds().1.saturating_mul(values) <= REQUEST_BYTES_MAX,
            "the values in flight over all connections could take more than 4GiB: use fewer \
             connections or shorter values",
        )?;
        demand(
            self.scan_limit >= 1,
            "let a scan request at least one entity",
        )?;
        demand(
            self.ttl_seconds
                .is_none_or(|ttl| (1..=TTL_SECONDS_MAX).contains(&ttl)),
            format!("give a time to live of 1 to {TTL_SECONDS_MAX} seconds"),
        )?;
        match self.replicas {
            Some((ack, from)) if ack < 1 || ack > from => Err(Error::plan(
                "give at least one replica that must answer, and at most as many as a key has",
            )),
            _ => Ok(()),
        }
    }

    fn check_batch(&self) -> Result<(), Error> {
        let Some(operations) = self.batch else {
            return demand(
                self.pipeline.is_none(),
                "a pipeline has batches: give the number of operations of a batch",
            );
        };
        if let Some(batches) = self.pipeline {
            within("batches a pipeline", batches, 1, PIPELINE_MAX)?;
            demand(
                self.rate == Rate::Max,
                "a pipeline has no rate: omit the rate, or the pipeline",
            )?;
        }
        within("operations a batch", operations, 1, BATCH_MAX)?;
        demand(
            self.ask == Ask::Any,
            "the keys of a batch have different owners: send batches to any node, not to the owner",
        )?;
        let is_single = |(operation, weight): &(Operation, f64)| {
            *weight > 0.0 && (*operation == Operation::Scan || operation.writes_back())
        };
        demand(
            !self.operations.iter().any(is_single),
            "a batch has puts, inserts, gets and deletes only: leave out other operations",
        )?;
        let line_bytes = LINE_BYTES
            .saturating_add(self.key_bytes.bounds().1)
            .saturating_add(self.value_bytes.bounds().1.div_ceil(3).saturating_mul(4));
        demand(
            line_bytes.saturating_mul(operations) <= BATCH_BYTES_MAX,
            "a batch could have more than 16MiB: give it fewer operations or shorter values",
        )
    }

    fn check_operations(&self) -> Result<(), Error> {
        let mut weights = self.operations.iter().map(|(_, weight)| *weight);
        demand(
            weights
                .clone()
                .all(|weight| weight.is_finite() && weight >= 0.0)
                && weights.any(|weight| weight > 0.0),
            "give operations weights of 0 or more, and at least one a weight above 0",
        )
    }
}

impl SizeDistribution {
    /// The number of digits in a key, one byte less than the shortest key has.
    ///
    /// # Errors
    /// [`Error::Plan`] if they cannot distinguish `keys` keys.
    pub(crate) fn key_digits(self, keys: u64) -> Result<usize, Error> {
        let (least, _) = self.bounds();
        let digits = least.saturating_sub(1).min(KEY_DIGITS_MAX);
        if digits == 0 || 10u64.pow(digits as u32) < keys {
            let needed = (1..).find(|digits| 10u64.saturating_pow(*digits) >= keys);
            return Err(Error::plan(format!(
                "{keys} keys need more digits than {least} bytes have: give keys of at least {} \
                 bytes, or fewer keys",
                needed.unwrap_or(1) + 1
            )));
        }
        Ok(digits)
    }
}

fn demand(is_so: bool, otherwise: impl Into<String>) -> Result<(), Error> {
    if is_so {
        Ok(())
    } else {
        Err(Error::plan(otherwise))
    }
}

fn within(what: &str, number: usize, least: usize, most: usize) -> Result<(), Error> {
    demand(
        (least..=most).contains(&number),
        format!("give from {least} to {most} {what}"),
    )
}

fn size(what: &str, size: SizeDistribution, least: usize, most: usize) -> Result<(), Error> {
    let (from, to) = size.bounds();
    demand(
        from >= least && from <= to && to <= most,
        format!("give {what} from {least} to {most} bytes, the smaller bound first"),
    )?;
    if let SizeDistribution::Exponential(mean, most) = size {
        demand(
            mean >= 1 && mean <= most,
            format!("give {what} a mean size from 1 byte to their greatest size"),
        )?;
    }
    Ok(())
}
