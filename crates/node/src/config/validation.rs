//! Checking a configuration.

use super::{ConfigError, NodeConfig, bounds};
use cluster::layout::ListedMember;

impl NodeConfig {
    /// Checks everything that can be checked without starting.
    ///
    /// # Errors
    /// The first invalid field, and what to do about it.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let value_bytes_max = self.value_bytes_max as u64;
        bounds::check("value_bytes_max", &value_bytes_max, &bounds::VALUE_BYTES)?;
        self.validate_store()?;
        bounds::check("read_queue", &self.read_queue, &bounds::COUNTS)?;
        bounds::check("timeout", &self.timeout, &bounds::TIMES)?;
        self.validate_cluster()
    }

    fn validate_store(&self) -> Result<(), ConfigError> {
        bounds::check(
            "compactions_max",
            &self.compactions_max,
            &bounds::COMPACTIONS,
        )?;
        bounds::check(
            "compaction_bytes_per_second",
            &self.compaction_bytes_per_second,
            &bounds::COMPACTION_BYTES_PER_SECOND,
        )?;
        bounds::check(
            "disk_reserve_bytes",
            &self.disk_reserve_bytes,
            &bounds::DISK_RESERVE_BYTES,
        )?;
        match self.filter_false_positive_rate {
            Some(rate) if !(rate > 0.0 && rate < 1.0) => Err(ConfigError::new(
                "filter_false_positive_rate",
                "give a number between 0 and 1",
            )),
            _ => Ok(()),
        }
    }

    /// A hint that is younger than the grace, by clocks that differ as far as they may,
    /// would bring what every store refuses.
    fn validate_grace(&self) -> Result<(), ConfigError> {
        bounds::check("gc_grace", &self.gc_grace, &bounds::GC_GRACE)?;
        let clocks = self.clock_drift_max.saturating_mul(2);
        let least = self.hint_age_max.saturating_add(clocks);
        if self.gc_grace < least {
            Err(ConfigError::new(
                "gc_grace",
                format!(
                    "is {:?}: give at least {least:?}, which is hint_age_max ({:?}) plus twice \
                     clock_drift_max ({:?}), or lower one of these",
                    self.gc_grace, self.hint_age_max, self.clock_drift_max
                ),
            ))
        } else {
            Ok(())
        }
    }

    fn validate_zone(&self) -> Result<(), ConfigError> {
        let Some(zone) = &self.zone else {
            return Ok(());
        };
        ListedMember::check_zone(zone)
            .map_err(|error| ConfigError::new("zone", error.to_string()))?;
        if self.join.is_none() && !self.is_cluster_of_one() {
            return Err(ConfigError::new(
                "zone",
                "only a node that joins a cluster, or the only node of a cluster, can have a zone: \
                 start with a cluster of one node, and let the others join it",
            ));
        }
        Ok(())
    }

    fn validate_cluster(&self) -> Result<(), ConfigError> {
        bounds::check(
            "clock_drift_max",
            &self.clock_drift_max,
            &bounds::CLOCK_DRIFT,
        )?;
        bounds::check("hint_bytes_max", &self.hint_bytes_max, &bounds::HINT_BYTES)?;
        bounds::check("hint_age_max", &self.hint_age_max, &bounds::HINT_AGE)?;
        for (field, interval) in [
            ("repair_interval", self.repair_interval),
            ("full_repair_interval", self.full_repair_interval),
        ] {
            if let Some(interval) = interval {
                bounds::check(field, &interval, &bounds::REPAIR_INTERVAL)?;
            }
        }

        self.validate_grace()?;
        self.validate_zone()?;

        // A node alone has no peers, and on one machine no other machine can connect.
        if self.is_alone() || self.cluster_secret.is_some() {
            return Ok(());
        }
        let members = self.members.iter().map(|(_, node)| node.url());
        let mut urls = members.chain(&self.join);
        match urls.find(|url| !url.is_loopback()) {
            None => Ok(()),
            Some(url) => Err(ConfigError::new(
                "cluster_secret",
                format!(
                    "it is missing: give all nodes the same secret. Only a cluster on one machine \
                     (localhost, 127.0.0.1, [::1]) needs none, and {url} is on another"
                ),
            )),
        }
    }
}
