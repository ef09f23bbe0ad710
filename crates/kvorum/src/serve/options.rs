//! The options of `serve`. The command line, the environment, the file,
//! `--help` and `docs/reference/configuration.md` are all derived from this list.
//!
//! A default that depends on the machine is written into the text as `[default:
//! …]`; every other default is the server's own ([`ServerConfig`]).

use super::secret_file;
use super::values::{
    BackupPlace, CompressionOption, DurabilityOption, FilterOption, LogKeysOption, backup_target,
    open_bucket,
};
use crate::files::ReadFile;
use crate::logging::LogOptions;
use crate::option_sources::OptionError;
use crate::resources;
use crate::values::{
    ByteSize, IntervalOption, Switch, TimeSpan, address, count, interval, member, name, size, span,
    url,
};
use backup::TargetPlace;
use clap::{Args, Parser, Subcommand};
use cluster::{Member, Members, NodeUrl, Replicas};
use server::{AuditTarget, ServerConfig, TlsConfig, TlsFiles, TrustConfig, bounds};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

/// The program as the process of a node sees it: `serve` alone.
#[derive(Debug, Parser)]
#[command(
    name = "kvorum",
    version,
    propagate_version = true,
    max_term_width = 100
)]
pub(crate) struct NodeProgram {
    #[command(subcommand)]
    pub(crate) command: ServeCommand,
}

/// The command with these options.
#[derive(Debug, Subcommand)]
pub(crate) enum ServeCommand {
    /// Run a node
    #[command(after_help = SERVE_AFTER_HELP, allow_negative_numbers = true)]
    Serve(Box<ServeOptions>),
}

const SERVE_AFTER_HELP: &str = "\
SIZE is a number of bytes: 4096, 64KB (1000 bytes each), 128MiB (1024 KiB each).
TIME is a whole number with the unit ms, s, m, h or d: 500ms.
INTERVAL is a TIME, or off for never. SWITCH is on or off; an option alone means on.

All options but --accept-data-loss and --drop-future-versions, which are for one start, can
also be set in the environment, in capitals (KVORUM_READ_THREADS=8), and all of these but
--config in the file that --config names, without the dashes (read-threads = 8). The command
line overrides the environment, and the environment overrides the file.";

/// The options of `serve`. An option without a value is set in no layer.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServeOptions {
    /// The node's own URL as clients use it, http://HOST:PORT or https://HOST:PORT; required
    #[arg(long, value_parser = url, value_name = "URL")]
    pub(crate) url: Option<NodeUrl>,
    /// The folder for the node's store and nothing else; created if it does not exist; required
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Refuse to start if the data folder holds no store, for example because its disk is not mounted
    #[arg(long, value_enum, value_name = "SWITCH", num_args = 0..=1, default_missing_value = "on", default_value_t = Switch::from_bool(defaults().node.expect_data))]
    pub(crate) expect_data: Switch,
    /// Addresses to listen on [default: all addresses that the URL's host resolves to]
    #[arg(long, value_name = "IP:PORT", value_delimiter = ',', value_parser = address)]
    pub(crate) listen: Vec<SocketAddr>,
    /// Another host name by which clients reach the node, such as the name of a proxy. The node always serves localhost, IP addresses and the hosts in --url and --cluster. Requests for other hosts get 421. Can be given several times
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) host: Vec<String>,
    /// An origin whose web pages may use the node from browsers, with its scheme and its port. Requests of pages of any other origin but the node's own are answered 403. Can be given several times
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',')]
    pub(crate) cors_origin: Vec<String>,
    /// A TOML file with more options
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// All nodes of the cluster, including this one; the same list on every node. The name of a node without a NAME is the HOST:PORT of its URL [default: this node alone]
    #[arg(long, value_parser = member, value_name = "[NAME=]URL", value_delimiter = ',', help_heading = "Cluster")]
    pub(crate) cluster: Vec<Member>,
    /// The URL of a member of a cluster that this node joins. It waits, on an empty data folder, until an operator lets it join ('kvorum admin members join NAME' at a member). Keep the option: once the folder knows the list of members, only that counts. Not with --cluster, which forms a cluster
    #[arg(long, value_parser = url, value_name = "URL", help_heading = "Cluster")]
    pub(crate) join: Option<NodeUrl>,
    /// What the node fails together with, such as a rack. The replicas of a key are in different zones as long as there are enough; a node without a zone fails alone. For a node that joins, and for the only node of a cluster; once the folder knows the list of members, only that counts
    #[arg(long, value_parser = name, value_name = "ZONE", help_heading = "Cluster")]
    pub(crate) zone: Option<String>,
    /// The node's name, which decides which keys the node holds [default: the name in --cluster, or HOST:PORT of the URL]
    #[arg(long, value_parser = name, value_name = "NAME", help_heading = "Cluster")]
    pub(crate) name: Option<String>,
    /// How many replicas must answer a request that sets neither `ack` nor `from` [default: more than half of --from]
    #[arg(long, value_name = "ACK", value_parser = count(1..=u8::MAX), help_heading = "Cluster")]
    pub(crate) ack: Option<u8>,
    /// How many replicas a key has for a request that does not set `from` [default: the number of nodes]
    #[arg(long, value_name = "FROM", value_parser = count(1..=u8::MAX), help_heading = "Cluster")]
    pub(crate) from: Option<u8>,
    /// A file whose first line is the secret that all nodes of the cluster share, at least 16 bytes; a second line is accepted, too, while the secret changes; read again when it changes [default: no secret, which only a cluster on one machine allows]
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub(crate) cluster_secret_file: Option<PathBuf>,
    /// Count the reads and acks of the node's store although it has lost data: acknowledged writes may be lost for good
    #[arg(long, value_enum, value_name = "SWITCH", help_heading = "Cluster", num_args = 0..=1, default_missing_value = "on", default_value_t = Switch::from_bool(defaults().node.accept_data_loss))]
    pub(crate) accept_data_loss: Switch,
    /// At this start, permanently drop versions whose timestamp is further ahead of the clock than twice --clock-drift-max
    #[arg(long, value_enum, value_name = "SWITCH", help_heading = "Cluster", num_args = 0..=1, default_missing_value = "on", default_value_t = Switch::from_bool(defaults().node.drop_future_versions))]
    pub(crate) drop_future_versions: Switch,
    /// How far the node's clock may differ from the clocks of most other nodes; beyond that the node refuses writes from clients
    #[arg(long, value_parser = span(bounds::CLOCK_DRIFT), value_name = "TIME", help_heading = "Cluster", default_value_t = TimeSpan(defaults().node.clock_drift_max))]
    pub(crate) clock_drift_max: TimeSpan,
    /// Disk space for writes that other nodes have missed; the oldest are dropped first
    #[arg(long, value_parser = size(bounds::HINT_BYTES), value_name = "SIZE", help_heading = "Cluster", default_value_t = ByteSize(defaults().node.hint_bytes_max))]
    pub(crate) hint_bytes_max: ByteSize,
    /// How long writes that another node has missed are kept for it
    #[arg(long, value_parser = span(bounds::HINT_AGE), value_name = "TIME", help_heading = "Cluster", default_value_t = TimeSpan(defaults().node.hint_age_max))]
    pub(crate) hint_age_max: TimeSpan,
    /// The least time that tombstones are kept; they go later, once a full repair has shown all nodes equal
    #[arg(long, value_parser = span(bounds::GC_GRACE), value_name = "TIME", help_heading = "Cluster", default_value_t = TimeSpan(defaults().node.gc_grace))]
    pub(crate) gc_grace: TimeSpan,
    /// How often an incremental repair begins: the nodes compare what has changed since they last agreed, and send each other what is missing; off for never
    #[arg(long, value_parser = interval(bounds::REPAIR_INTERVAL), value_name = "INTERVAL", help_heading = "Cluster", default_value_t = IntervalOption(defaults().node.repair_interval))]
    pub(crate) repair_interval: IntervalOption,
    /// How often a full repair begins: the nodes compare everything, and verify every stored block; off: only to rebuild a store
    #[arg(long, value_parser = interval(bounds::REPAIR_INTERVAL), value_name = "INTERVAL", help_heading = "Cluster", default_value_t = IntervalOption(defaults().node.full_repair_interval))]
    pub(crate) full_repair_interval: IntervalOption,

    /// A folder or an S3 bucket for backups of the cluster, by the name that commands give; the same one, which they share, on all nodes. Can be given several times
    #[arg(long, value_parser = backup_target, value_name = "NAME=PLACE", value_delimiter = ',', help_heading = "Cluster")]
    pub(crate) backup_target: Vec<(String, BackupPlace)>,

    /// The node's certificate, followed by those between it and its authority, in PEM; read again when it changes [default: no TLS]
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of the certificate, in PEM; read again when it changes [default: none]
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Certificates of the authorities that sign the nodes' certificates, in PEM. With it nodes verify each other, and a client may show a certificate of these authorities [default: none, which only a lone node allows]
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(crate) tls_peer_ca: Option<PathBuf>,
    /// Also accept connections without TLS, while a cluster moves to TLS node by node
    #[arg(long, value_enum, value_name = "SWITCH", help_heading = "TLS", num_args = 0..=1, default_missing_value = "on", default_value_t = Switch::from_bool(false))]
    pub(crate) tls_optional: Switch,

    /// The node's memory budget, at most what the machine or the cgroup has [default: a quarter of the memory of the machine or the cgroup, at least 128MiB]
    #[arg(long, value_parser = size(bounds::MEMORY_BYTES), value_name = "SIZE", help_heading = "Store")]
    pub(crate) memory: Option<ByteSize>,
    /// Use huge pages of memory if the system offers them: reads from memory take less CPU time,
    /// but the first access to such a page waits until 2MiB are zeroed
    #[arg(long, value_enum, value_name = "SWITCH", help_heading = "Store", num_args = 0..=1, default_missing_value = "on", default_value_t = Switch::from_bool(false))]
    pub(crate) huge_pages: Switch,
    /// When a write is acknowledged: sync (once it is on stable storage), interval=TIME (immediately; synced within TIME), os (immediately; synced when the operating system decides)
    #[arg(long, value_name = "MODE", help_heading = "Store", default_value_t = DurabilityOption(defaults().node.durability))]
    pub(crate) durability: DurabilityOption,
    /// Compression of stored data
    #[arg(long, value_enum, value_name = "NAME", help_heading = "Store", default_value_t = defaults().node.compression.into())]
    pub(crate) compression: CompressionOption,
    /// The false-positive rate of the tables' Bloom filters, between 0 and 1; none for no filters
    #[arg(long, value_name = "SHARE", help_heading = "Store", default_value_t = FilterOption(defaults().node.filter_false_positive_rate))]
    pub(crate) filter: FilterOption,
    /// Whether the tables of the last level, nine tenths of a large store, have filters, too: off saves disk space and reads of keys that are there, on saves reads of keys that are not
    #[arg(long, value_enum, value_name = "SWITCH", help_heading = "Store", num_args = 0..=1, default_missing_value = "on", default_value_t = Switch::from_bool(defaults().node.last_level_filters))]
    pub(crate) last_level_filters: Switch,
    /// From how many bytes on a value is kept apart from its key, so that overwrites of long values write less and take more space; files that older releases do not read [default: no values are]
    #[arg(long, value_parser = size(bounds::BLOB_VALUE_BYTES), value_name = "SIZE", help_heading = "Store")]
    pub(crate) blob_value_bytes_min: Option<ByteSize>,
    /// Whether tables are merged in the background
    #[arg(long, value_enum, value_name = "SWITCH", help_heading = "Store", num_args = 0..=1, default_missing_value = "on", default_value_t = Switch::from_bool(defaults().node.compaction))]
    pub(crate) compaction: Switch,
    /// How many compactions may run at a time [default: half of the cores, at least 1, at most 4]
    #[arg(long, value_parser = count(bounds::COMPACTIONS), value_name = "COUNT", help_heading = "Store")]
    pub(crate) compactions_max: Option<usize>,
    /// How much compaction may write per second, unless it falls behind
    #[arg(long, value_parser = size(bounds::COMPACTION_BYTES_PER_SECOND), value_name = "SIZE", help_heading = "Store", default_value_t = ByteSize(defaults().node.compaction_bytes_per_second))]
    pub(crate) compaction_bytes_per_second: ByteSize,
    /// The size at which a memtable is flushed to a table, up to a sixth of --memory [default: 1/16 of --memory, at most 64MiB]
    #[arg(long, value_parser = size(bounds::MEMTABLE_BYTES), value_name = "SIZE", help_heading = "Store")]
    pub(crate) memtable_bytes: Option<ByteSize>,
    /// Disk space held in reserve, so that deletes and compaction continue when the disk is full
    #[arg(long, value_parser = size(bounds::DISK_RESERVE_BYTES), value_name = "SIZE", help_heading = "Store", default_value_t = ByteSize(defaults().node.disk_reserve_bytes))]
    pub(crate) disk_reserve_bytes: ByteSize,

    /// A TOML file of the tokens that clients need, with their rights; read again when it changes [default: clients need no token]
    #[arg(long, value_name = "FILE", help_heading = "Trust")]
    pub(crate) tokens_file: Option<PathBuf>,
    /// Let other machines reach the node although clients need no token: anyone who can reach it
    /// may read, write and delete everything
    #[arg(long, value_enum, value_name = "SWITCH", help_heading = "Trust", num_args = 0..=1, default_missing_value = "on", default_value_t = Switch::from_bool(defaults().trust.open))]
    pub(crate) open: Switch,
    /// Let tokens cross a network in the clear, because something else encrypts it
    #[arg(long, value_enum, value_name = "SWITCH", help_heading = "Trust", num_args = 0..=1, default_missing_value = "on", default_value_t = Switch::from_bool(defaults().trust.tokens_in_clear))]
    pub(crate) tokens_in_clear: Switch,

    /// Where to log what operators did and whom the node refused: a file, which is reopened on
    /// SIGHUP, or stderr [default: nowhere]
    #[arg(long, value_name = "FILE", help_heading = "Trust")]
    pub(crate) audit_log: Option<PathBuf>,
    /// How keys appear in logs: plain, hash (the beginning of their SHA-256), or off
    #[arg(long, value_enum, value_name = "HOW", help_heading = "Trust", default_value_t = LogKeysOption::Hash)]
    pub(crate) log_keys: LogKeysOption,

    /// Threads that serve connections [default: one per core]
    #[arg(long, value_parser = count(bounds::THREADS), value_name = "COUNT", help_heading = "Limits")]
    pub(crate) threads: Option<usize>,
    /// Threads for reads that wait for the disk [default: four per core]
    #[arg(long, value_parser = count(bounds::READ_THREADS), value_name = "COUNT", help_heading = "Limits")]
    pub(crate) read_threads: Option<usize>,
    /// Reads that may wait for a read thread
    #[arg(long, value_parser = count(bounds::COUNTS), value_name = "COUNT", help_heading = "Limits", default_value_t = defaults().node.read_queue)]
    pub(crate) read_queue: usize,
    /// Requests that the node processes at a time
    #[arg(long, value_parser = count(bounds::COUNTS), value_name = "COUNT", help_heading = "Limits", default_value_t = defaults().requests_in_flight_max)]
    pub(crate) requests_in_flight_max: usize,
    /// Requests that may wait to be processed; further ones are answered 503
    #[arg(long, value_parser = count(bounds::REQUESTS_QUEUED), value_name = "COUNT", help_heading = "Limits", default_value_t = defaults().requests_queued_max)]
    pub(crate) requests_queued_max: usize,
    /// Open connections of clients, fewer if the limit of open files is low; further ones are answered 503, but for /health/live and /health/ready [default: one per 128KiB of --memory, from 256 to 16384]
    #[arg(long, value_parser = count(bounds::COUNTS), value_name = "COUNT", help_heading = "Limits")]
    pub(crate) connections_max: Option<usize>,
    /// Scans that are being streamed at a time; as many as --requests-queued-max more wait for
    /// --timeout, and further ones are answered 503 [default: one per 2MiB of --memory, from 4 to
    /// 1024]
    #[arg(long, value_parser = count(bounds::COUNTS), value_name = "COUNT", help_heading = "Limits")]
    pub(crate) scans_max: Option<usize>,
    /// The longest value that clients may send, up to an eighth of --memory; longer ones are answered 413 [default: 16MiB; less if --memory is below 256MiB]
    #[arg(long, value_parser = size(bounds::VALUE_BYTES), value_name = "SIZE", help_heading = "Limits")]
    pub(crate) value_bytes_max: Option<ByteSize>,

    /// How long the replicas may take to answer before a request is answered 504; use the same on
    /// all nodes, because a rebuild waits this long for writes in progress
    #[arg(long, value_parser = span(bounds::TIMES), value_name = "TIME", help_heading = "Time limits", default_value_t = TimeSpan(defaults().node.timeout))]
    pub(crate) timeout: TimeSpan,
    /// How long a connection may be idle between requests
    #[arg(long, value_parser = span(bounds::TIMES), value_name = "TIME", help_heading = "Time limits", default_value_t = TimeSpan(defaults().idle_timeout))]
    pub(crate) idle_timeout: TimeSpan,
    /// How long the head of a request may take to arrive
    #[arg(long, value_parser = span(bounds::TIMES), value_name = "TIME", help_heading = "Time limits", default_value_t = TimeSpan(defaults().head_timeout))]
    pub(crate) head_timeout: TimeSpan,
    /// The time over which the body of a request must average 64KiB per second, or end
    #[arg(long, value_parser = span(bounds::TIMES), value_name = "TIME", help_heading = "Time limits", default_value_t = TimeSpan(defaults().body_timeout))]
    pub(crate) body_timeout: TimeSpan,
    /// How long a client may read less than 8KiB per second of a response before its connection is
    /// closed
    #[arg(long, value_parser = span(bounds::TIMES), value_name = "TIME", help_heading = "Time limits", default_value_t = TimeSpan(defaults().stall_timeout))]
    pub(crate) stall_timeout: TimeSpan,
    /// How long admitted requests may take to finish when the node stops, up to 8s
    #[arg(long, value_parser = span(bounds::DRAIN_TIMEOUT), value_name = "TIME", help_heading = "Time limits", default_value_t = TimeSpan(defaults().drain_timeout))]
    pub(crate) drain_timeout: TimeSpan,

    /// Serve /debug/profile: anyone who can reach the node can then see what it does internally, and slow it down
    #[arg(long, value_enum, value_name = "SWITCH", help_heading = "Debugging", num_args = 0..=1, default_missing_value = "on", default_value_t = Switch::from_bool(defaults().debug_endpoints))]
    pub(crate) debug_endpoints: Switch,

    /// Log each request that takes at least this long, with where its time went; off for never
    #[arg(long, value_parser = interval(bounds::TIMES), value_name = "INTERVAL", help_heading = "Debugging", default_value_t = IntervalOption(defaults().slow_request))]
    pub(crate) slow_request: IntervalOption,

    /// Send spans of sampled requests to this collector, as OpenTelemetry's OTLP over HTTP (http://HOST:4318). A request is sampled if its field traceparent says so [default: no traces]
    #[arg(long, value_parser = url, value_name = "URL", help_heading = "Debugging")]
    pub(crate) otlp_endpoint: Option<NodeUrl>,
    /// The share of the requests without traceparent that are sampled, too: 0.01 is one in a hundred
    #[arg(long, value_name = "RATIO", help_heading = "Debugging", default_value_t = defaults().trace_sample)]
    pub(crate) trace_sample: f64,

    #[command(flatten)]
    pub(crate) log: LogOptions,

    /// Stops the node when its standard input ends: a child learns that its
    /// parent is gone, however the parent ended.
    #[arg(long, hide = true)]
    pub(crate) until_stdin_closes: bool,
}

/// The defaults of a node. Its URL and its folder have none.
fn defaults() -> ServerConfig {
    ServerConfig::new(
        NodeUrl::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        "",
    )
}

impl ServeOptions {
    /// The node that these options describe. `read_file` returns the text of a
    /// file that an option names.
    ///
    /// # Errors
    /// An option that contradicts another one, or whose file is wrong.
    pub(crate) fn server_config(
        &self,
        read_file: ReadFile<'_>,
    ) -> Result<ServerConfig, OptionError> {
        let url = required("url", self.url.as_ref())?;
        let data = required("data", self.data.as_ref())?;

        if self.join.is_some() && !self.cluster.is_empty() {
            return Err(OptionError::new(
                "join",
                "--cluster forms a cluster, and --join joins one that is there: give one of them. A \
                 node that has joined keeps --join",
            ));
        }
        if self.join.as_ref() == Some(url) {
            return Err(OptionError::new(
                "join",
                "it is the node's own URL: give the URL of a member of the cluster",
            ));
        }
        let mut config = ServerConfig::new(self.members(url)?, data);
        config.node.is_listed = !self.cluster.is_empty();
        config.node.join.clone_from(&self.join);
        config.node.zone.clone_from(&self.zone);
        let memory_bytes = self.memory.map(|size| size.0);
        config.set_memory_bytes(memory_bytes.unwrap_or_else(resources::memory_bytes_default));
        config.node.expect_data = self.expect_data == Switch::On;
        config.listen.clone_from(&self.listen);
        config.hosts.clone_from(&self.host);
        config.tls = self.tls()?;
        config.cors_origins.clone_from(&self.cors_origin);

        config.replicas_default = self.replicas_default(config.node.members.count())?;
        config.node.default_pair = config.replicas_default;
        if let Some(file) = &self.cluster_secret_file {
            let secret = secret_file::read(file, read_file);
            let refuse = |problem| OptionError::new(CLUSTER_SECRET_FILE, problem);
            config.node.cluster_secret = Some(secret.map_err(refuse)?);
        }
        config.node.accept_data_loss = self.accept_data_loss == Switch::On;
        config.node.drop_future_versions = self.drop_future_versions == Switch::On;
        config.node.clock_drift_max = self.clock_drift_max.0;
        config.node.hint_bytes_max = self.hint_bytes_max.0;
        config.node.hint_age_max = self.hint_age_max.0;
        config.node.gc_grace = self.gc_grace.0;
        config.node.repair_interval = self.repair_interval.0;
        config.node.full_repair_interval = self.full_repair_interval.0;

        for (name, place) in &self.backup_target {
            let place = match place {
                BackupPlace::Folder(folder) => TargetPlace::Folder(folder.clone()),
                BackupPlace::Bucket(bucket) => {
                    let refuse = |problem| OptionError::new("backup-target", problem);
                    let opened = open_bucket(bucket, read_file).map_err(refuse)?;
                    TargetPlace::Opened(Arc::new(opened))
                }
            };
            config.node.backup_targets.insert(name.clone(), place);
        }

        config.node.durability = self.durability.0;
        config.node.compression = self.compression.into();
        config.node.filter_false_positive_rate = self.filter.0;
        config.node.last_level_filters = self.last_level_filters == Switch::On;
        config.node.blob_value_bytes_min = self
            .blob_value_bytes_min
            .map(|size| in_memory("blob-value-bytes-min", size))
            .transpose()?;
        config.node.compaction = self.compaction == Switch::On;
        set_if_given(&mut config.node.compactions_max, self.compactions_max);
        config.node.compaction_bytes_per_second = self.compaction_bytes_per_second.0;
        config.memtable_bytes = self
            .memtable_bytes
            .map(|size| in_memory("memtable-bytes", size))
            .transpose()?;
        config.node.disk_reserve_bytes = self.disk_reserve_bytes.0;

        set_if_given(&mut config.threads, self.threads);
        set_if_given(&mut config.read_threads, self.read_threads);
        config.node.read_queue = self.read_queue;
        config.requests_in_flight_max = self.requests_in_flight_max;
        config.requests_queued_max = self.requests_queued_max;
        set_if_given(&mut config.connections_max, self.connections_max);
        config.scans_max = self.scans_max;
        let value_bytes_max = self
            .value_bytes_max
            .map(|size| in_memory("value-bytes-max", size))
            .transpose()?;
        set_if_given(&mut config.node.value_bytes_max, value_bytes_max);

        config.node.timeout = self.timeout.0;
        config.idle_timeout = self.idle_timeout.0;
        config.head_timeout = self.head_timeout.0;
        config.body_timeout = self.body_timeout.0;
        config.stall_timeout = self.stall_timeout.0;
        config.drain_timeout = self.drain_timeout.0;

        config.trust = self.trust();
        config.slow_request = self.slow_request.0;

        config.otlp_endpoint.clone_from(&self.otlp_endpoint);
        config.trace_sample = self.trace_sample;

        config.debug_endpoints = self.debug_endpoints == Switch::On;

        config.validate().map_err(|error| OptionError {
            option: option_of(error.field),
            problem: with_options(&error.problem),
        })?;
        Ok(config)
    }

    /// The replicas of requests that choose none; `None` for a quorum of all nodes.
    fn replicas_default(&self, nodes: u8) -> Result<Option<Replicas>, OptionError> {
        if self.ack.is_none() && self.from.is_none() {
            return Ok(None);
        }
        let from = self.from.unwrap_or(nodes);
        let ack = self.ack.unwrap_or(Replicas::quorum(from).ack);
        let pair = Replicas::new(ack, from).ok_or_else(|| {
            OptionError::new(
                "ack",
                format!(
                    "a key has {}: give at most {from}",
                    units::counted(from.into(), "replica")
                ),
            )
        })?;
        Ok(Some(pair))
    }

    /// How the node speaks TLS.
    fn tls(&self) -> Result<Option<TlsConfig>, OptionError> {
        let (certificate, key) = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => (certificate.clone(), key.clone()),
            (Some(_), None) => {
                let problem = "it is missing: give the key of the certificate of --tls-cert";
                return Err(OptionError::new("tls-key", problem));
            }
            (None, _) => {
                let given = [
                    ("--tls-key", self.tls_key.is_some()),
                    ("--tls-peer-ca", self.tls_peer_ca.is_some()),
                    ("--tls-optional", self.tls_optional == Switch::On),
                ];
                return match given.iter().find(|(_, is_given)| *is_given) {
                    None => Ok(None),
                    Some((option, _)) => Err(OptionError::new(
                        "tls-cert",
                        format!("it is missing, and {option} is of no use without it"),
                    )),
                };
            }
        };
        Ok(Some(TlsConfig {
            files: TlsFiles {
                certificate,
                key,
                peer_ca: self.tls_peer_ca.clone(),
            },
            is_optional: self.tls_optional == Switch::On,
        }))
    }

    /// Who may do what.
    fn trust(&self) -> TrustConfig {
        TrustConfig {
            tokens_file: self.tokens_file.clone(),
            tokens_in_clear: self.tokens_in_clear == Switch::On,
            open: self.open == Switch::On,
            audit_log: self.audit_log.as_ref().map(|target| {
                if target.as_os_str() == "stderr" {
                    AuditTarget::Stderr
                } else {
                    AuditTarget::File(target.clone())
                }
            }),
            log_keys: self.log_keys.into(),
        }
    }

    /// All nodes of the cluster, as the node at `url` sees them.
    fn members(&self, url: &NodeUrl) -> Result<Members, OptionError> {
        if self.cluster.is_empty() {
            let own = match &self.name {
                Some(name) => Member::named(name, url.clone())
                    .map_err(|error| OptionError::new("name", error.to_string()))?,
                None => Member::unnamed(url.clone()),
            };
            return Ok(Members::single_node(own));
        }
        let members = Members::new(self.cluster.clone(), url)
            .map_err(|error| OptionError::new("cluster", error.to_string()))?;
        // The other nodes know this node by the name in their lists.
        match &self.name {
            Some(name) if name != members.own_name() => Err(OptionError::new(
                "name",
                format!(
                    "--cluster names this node {}, not {name}: write {name}={url} there on all \
                     nodes, or omit --name here",
                    members.own_name()
                ),
            )),
            _ => Ok(members),
        }
    }
}

const CLUSTER_SECRET_FILE: &str = "cluster-secret-file";

/// The option that sets a field of [`ServerConfig`] or of its `node`.
pub(super) fn option_of(field: &str) -> String {
    match field {
        "hosts" => "host".to_owned(),
        "cors_origins" => "cors-origin".to_owned(),
        "memory_bytes" => "memory".to_owned(),
        "filter_false_positive_rate" => "filter".to_owned(),
        "replicas_default" => "from".to_owned(),
        "cluster_secret" => CLUSTER_SECRET_FILE.to_owned(),
        field => field.replace('_', "-"),
    }
}

/// The fields that the problems of other fields name.
const NAMED_FIELDS: [&str; 6] = [
    "otlp_endpoint",
    "hint_age_max",
    "clock_drift_max",
    "tls_cert",
    "tls_key",
    "tls_optional",
];

/// A problem in which fields are named by their options.
fn with_options(problem: &str) -> String {
    let name =
        |problem: String, field: &str| problem.replace(field, &format!("--{}", option_of(field)));
    NAMED_FIELDS.into_iter().fold(problem.to_owned(), name)
}

fn set_if_given<T>(field: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *field = given;
    }
}

fn required<'a, T>(name: &str, given: Option<&'a T>) -> Result<&'a T, OptionError> {
    given.ok_or_else(|| {
        let variable = name.to_ascii_uppercase();
        OptionError::new(
            name,
            format!(
                "it is missing: set it here, as KVORUM_{variable}, or as `{name}` in the file of \
                 --config"
            ),
        )
    })
}

/// A size as a number that the machine can address.
fn in_memory(name: &str, size: ByteSize) -> Result<usize, OptionError> {
    usize::try_from(size.0)
        .map_err(|_| OptionError::new(name, format!("this machine cannot address {size}")))
}

#[cfg(test)]
mod tests;
