//! What a configuration cannot be.

use super::{ConfigError, NodeConfig, bounds};
use cluster::{NodeUrl, Replicas};

impl NodeConfig {
    /// Checks everything that can be checked without starting.
    ///
    /// # Errors
    /// The first field that cannot be, and what to do about it.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_memory()?;
        self.validate_store()?;
        self.validate_requests()?;
        self.validate_cluster()
    }

    fn validate_memory(&self) -> Result<(), ConfigError> {
        bounds::check("memory_bytes", &self.memory_bytes, &bounds::MEMORY_BYTES)?;
        let value_bytes_max = self.value_bytes_max as u64;
        bounds::check("value_bytes_max", &value_bytes_max, &bounds::VALUE_BYTES)?;
        check(
            "value_bytes_max",
            value_bytes_max <= self.memory_bytes / 8,
            "the longest value may be an eighth of the memory: lower it, or give more memory",
        )?;
        if let Some(memtable_bytes) = self.memtable_bytes.map(|bytes| bytes as u64) {
            bounds::check("memtable_bytes", &memtable_bytes, &bounds::MEMTABLE_BYTES)?;
            check(
                "memtable_bytes",
                memtable_bytes <= self.memory_bytes / 6,
                "there are three memtables, which may take half of the memory: \
                 lower it, or give more memory",
            )?;
        }
        Ok(())
    }

    fn validate_store(&self) -> Result<(), ConfigError> {
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
        check(
            "filter_false_positive_rate",
            self.filter_false_positive_rate
                .is_none_or(|rate| rate > 0.0 && rate < 1.0),
            "give a number between 0 and 1",
        )
    }

    fn validate_requests(&self) -> Result<(), ConfigError> {
        bounds::check("threads", &self.threads, &bounds::THREADS)?;
        bounds::check("read_threads", &self.read_threads, &bounds::READ_THREADS)?;
        bounds::check(
            "requests_queued_max",
            &self.requests_queued_max,
            &bounds::REQUESTS_QUEUED,
        )?;
        for (field, number) in [
            ("read_queue", self.read_queue),
            ("requests_in_flight_max", self.requests_in_flight_max),
            ("connections_max", self.connections_max),
            ("scans_max", self.scans_max.unwrap_or(1)),
        ] {
            bounds::check(field, &number, &bounds::COUNTS)?;
        }
        for (field, duration) in [
            ("timeout", self.timeout),
            ("idle_timeout", self.idle_timeout),
            ("head_timeout", self.head_timeout),
            ("body_timeout", self.body_timeout),
            ("scan_stall_timeout", self.scan_stall_timeout),
        ] {
            bounds::check(field, &duration, &bounds::TIMES)?;
        }
        for host in &self.hosts {
            check(
                "hosts",
                is_host(host),
                &format!(
                    "`{}` is no host: give a name, without http:// and without a port",
                    host.escape_debug()
                ),
            )?;
        }
        bounds::check("drain_timeout", &self.drain_timeout, &bounds::DRAIN_TIMEOUT)
    }

    fn validate_cluster(&self) -> Result<(), ConfigError> {
        if let Some(pair) = self.replicas_default {
            let nodes = self.members.count();
            check(
                "replicas_default",
                Replicas::new(pair.ack, pair.from).is_some(),
                "ack is at least 1 and at most from",
            )?;
            check(
                "replicas_default",
                pair.from <= nodes,
                &format!("from is at most the number of nodes, which is {nodes}"),
            )?;
        }
        bounds::check(
            "clock_drift_max",
            &self.clock_drift_max,
            &bounds::CLOCK_DRIFT,
        )?;
        bounds::check("hint_bytes_max", &self.hint_bytes_max, &bounds::HINT_BYTES)?;
        bounds::check("hint_age_max", &self.hint_age_max, &bounds::HINT_AGE)?;

        // A lone node has nobody to know, and on one machine nobody else is near.
        if self.members.is_alone() || self.cluster_secret.is_some() {
            return Ok(());
        }
        let mut urls = self.members.numbers().map(|node| self.members.url(node));
        match urls.find(|url| !url.is_loopback()) {
            None => Ok(()),
            Some(url) => Err(ConfigError::new(
                "cluster_secret",
                format!(
                    "it is missing: only nodes of one machine (localhost, 127.0.0.1, [::1]) can \
                     do without a secret, and {url} is none; give all nodes the same"
                ),
            )),
        }
    }
}

/// Whether a text is a host as it stands in a URL.
fn is_host(text: &str) -> bool {
    let url: Result<NodeUrl, _> = format!("http://{text}:0").parse();
    url.is_ok()
}

fn check(field: &'static str, holds: bool, otherwise: &str) -> Result<(), ConfigError> {
    if holds {
        Ok(())
    } else {
        Err(ConfigError::new(field, otherwise))
    }
}
