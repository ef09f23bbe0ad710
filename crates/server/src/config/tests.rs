use super::*;
use cluster::{Member, NodeUrl};

fn url(text: &str) -> NodeUrl {
    text.parse().unwrap()
}

/// A node with every default.
fn alone() -> ServerConfig {
    ServerConfig::new(url("http://localhost:8080"), "data")
}

/// The first of these nodes, with defaults for all else.
fn member(urls: &[&str]) -> ServerConfig {
    let nodes = urls.iter().map(|text| Member::unnamed(url(text))).collect();
    ServerConfig::new(Members::new(nodes, &url(urls[0])).unwrap(), "data")
}

/// A node of three that speaks TLS.
fn with_tls() -> ServerConfig {
    let mut config = member(
        &ONE_MACHINE
            .map(|url| url.replace("http:", "https:"))
            .each_ref()
            .map(String::as_str),
    );
    config.tls = Some(TlsConfig {
        files: TlsFiles {
            certificate: "c.pem".into(),
            key: "k.pem".into(),
            peer_ca: Some("ca.pem".into()),
        },
        is_optional: false,
    });
    config
}

const ONE_MACHINE: [&str; 3] = ["http://localhost:1", "http://127.0.0.1:2", "http://[::1]:3"];

#[test]
fn localhost_is_an_ipv4_and_an_ipv6_address() {
    let config = ServerConfig::new(url("http://LOCALHOST:7"), "data");
    let addresses = config.addresses().unwrap();
    assert_eq!(
        addresses,
        ["127.0.0.1:7".parse().unwrap(), "[::1]:7".parse().unwrap()]
    );
}

#[test]
fn the_parts_of_the_memory_do_not_exceed_it() {
    for memory_mib in [128u64, 192, 256, 1024, 8192, 65536] {
        for value_bytes_max in [Some(1), Some(1 << 20), None] {
            for threads in [1, 2, 4, 8, 16, 64] {
                for mut config in [alone(), member(&ONE_MACHINE), with_tls()] {
                    config.set_memory_bytes(memory_mib << 20);
                    if let Some(value_bytes_max) = value_bytes_max {
                        config.node.value_bytes_max = value_bytes_max;
                    }
                    config.threads = threads;
                    let split = config.memory_split();
                    let fits = split.planned_bytes() as u64 <= config.memory_bytes;
                    let context = format!("{memory_mib} MiB, {threads} threads: {split:?}");
                    // Only the buffers of many threads' handshakes may not fit; then the node
                    // does not start.
                    assert!(fits || threads > 8 && memory_mib <= 256, "{context}");
                    let refused = config.validate().err().map(|error| error.field);
                    assert_eq!(refused, (!fits).then_some("memory_bytes"), "{context}");
                    let sixteenth = usize::try_from(config.memory_bytes / 16).unwrap();
                    let cache_least = match config.tls {
                        None => sixteenth / 4 * 3,
                        Some(_) => sixteenth / 4,
                    };
                    assert!(split.node.cache_bytes >= cache_least, "{context}");
                }
            }
        }
    }
}

#[test]
fn chunked_batches_take_a_quarter_of_a_sixteenth() {
    for (memory_mib, streams) in [(128, 10), (1024, 85), (4096, 341), (65_536, 1024)] {
        let mut config = alone();
        config.set_memory_bytes(memory_mib << 20);
        let split = config.memory_split();
        assert_eq!(split.batch_streams_max, streams, "{memory_mib} MiB");
    }
}

#[test]
fn ranges_of_repairs_take_a_small_part_of_the_memory() {
    for (memory_mib, range_mib) in [(128, 4), (256, 4), (512, 16), (65_536, 16)] {
        let mut config = member(&ONE_MACHINE);
        config.set_memory_bytes(memory_mib << 20);
        let range_bytes = config.memory_split().node.repair_range_bytes_max();
        assert_eq!(range_bytes >> 20, range_mib, "{memory_mib} MiB");
        // Two ranges of a session, and twice a range streamed of each.
        assert!(2 * 2 * range_bytes as u64 <= config.memory_bytes / 8);
    }
}

#[test]
fn peers_share_with_uploads_and_have_room_for_the_longest_value() {
    let mut lone = alone();
    let mut shared = member(&ONE_MACHINE);
    for config in [&mut lone, &mut shared] {
        config.set_memory_bytes(1 << 30);
    }
    let (lone, shared) = (lone.memory_split(), shared.memory_split());
    assert_eq!(lone.node.peer_bytes, 0);
    let incoming = |split: MemorySplit| {
        split.uploads_short_bytes + split.uploads_long_bytes + split.node.peer_bytes
    };
    assert_eq!(incoming(shared), incoming(lone));
    assert_eq!(shared.node.peer_bytes, incoming(shared) / 2);
    assert_eq!(shared.node.cache_bytes, lone.node.cache_bytes);

    let mut narrow = member(&ONE_MACHINE);
    narrow.node.value_bytes_max = 16 << 20;
    let split = narrow.memory_split();
    assert!(
        split.node.peer_bytes > narrow.node.value_bytes_max,
        "{split:?}"
    );
    // In base64, with a key and names.
    assert!(
        split.uploads_long_bytes > narrow.node.value_bytes_max / 3 * 4,
        "{split:?}"
    );
}

#[test]
fn the_longest_value_follows_from_the_memory_unless_it_is_given() {
    for (memory_mib, value_mib) in [(128, 5), (192, 10), (256, 16), (1024, 16), (65_536, 16)] {
        let mut config = alone();
        config.set_memory_bytes(memory_mib << 20);
        assert_eq!(config.node.value_bytes_max, value_mib << 20, "{memory_mib}");
        // Repairs of long values in the background rest on what is left beside one.
        let least = config.memory_split().node.answers_bytes;
        assert!(least >= config.node.value_bytes_max, "{memory_mib}");
    }
}

#[test]
fn what_long_values_take_in_the_store_is_planned() {
    let mut config = alone();
    let with = |config: &mut ServerConfig, value_bytes_max| {
        config.node.value_bytes_max = value_bytes_max;
        config.memory_split()
    };
    assert_eq!(with(&mut config, 64 << 10).store_values_bytes, 0);
    let short = with(&mut config, 1 << 20);
    // One in each memtable, and what all reads of long blocks share.
    assert_eq!(short.store_values_bytes, (3 + 8) << 20);
    let long = with(&mut config, 6 << 20);
    assert_eq!(long.store_values_bytes, (3 * 6 + 2 * 6) << 20);
    assert!(long.node.memtable_bytes < short.node.memtable_bytes);
    assert!(
        long.planned_bytes() as u64 <= config.memory_bytes,
        "{long:?}"
    );
}

#[test]
fn the_cache_makes_up_for_larger_memtables() {
    let mut config = alone();
    config.set_memory_bytes(1 << 30);
    let before = config.memory_split();
    config.memtable_bytes = Some(before.node.memtable_bytes + (1 << 20));
    let after = config.memory_split();
    assert_eq!(after.node.cache_bytes, before.node.cache_bytes - (3 << 20));
    assert_eq!(after.planned_bytes(), before.planned_bytes());
}

#[test]
fn an_invalid_field_is_named() {
    let valid = alone();
    assert_eq!(valid.validate(), Ok(()));
    let refused = |change: fn(&mut ServerConfig), word: &str| {
        let mut config = valid.clone();
        change(&mut config);
        let error = config.validate().unwrap_err();
        let text = error.to_string();
        assert!(text.contains(word), "{text} should name {word}");
    };
    refused(|config| config.memory_bytes = 1 << 20, "memory");
    refused(|config| config.threads = 0, "threads");
    refused(|config| config.threads = 1 << 20, "threads");
    refused(|config| config.node.value_bytes_max = 0, "value_bytes_max");
    refused(
        |config| config.node.value_bytes_max = 32 << 20,
        "eighth of the memory",
    );
    refused(|config| config.memtable_bytes = Some(1), "memtable_bytes");
    refused(
        |config| config.memtable_bytes = Some(64 << 20),
        "half of the memory",
    );
    refused(|config| config.node.compactions_max = 5, "compactions_max");
    refused(
        |config| config.node.compaction_bytes_per_second = 0,
        "compaction_bytes_per_second",
    );
    refused(
        |config| config.drain_timeout = Duration::from_secs(60),
        "drain_timeout",
    );
    refused(|config| config.node.timeout = Duration::ZERO, "timeout");
    refused(
        |config| config.node.filter_false_positive_rate = Some(1.0),
        "filter_false_positive_rate",
    );
    refused(
        |config| config.node.clock_drift_max = Duration::ZERO,
        "clock_drift_max",
    );
    refused(|config| config.node.hint_bytes_max = 0, "hint_bytes_max");
    for host in ["", "a:80", "http://a", "a/b", "a b", "[::1"] {
        let mut config = valid.clone();
        config.hosts = vec!["fine.example".to_owned(), host.to_owned()];
        assert_eq!(config.validate().unwrap_err().field, "hosts", "{host}");
    }
    for origin in ["", "*", "null", "app.example", "https://app.example/"] {
        let mut config = valid.clone();
        config.cors_origins = vec!["https://app.example".to_owned(), origin.to_owned()];
        assert_eq!(
            config.validate().unwrap_err().field,
            "cors_origins",
            "{origin}"
        );
    }
    refused(
        |config| config.node.hint_age_max = Duration::ZERO,
        "hint_age_max",
    );
    refused(
        |config| config.node.repair_interval = Some(Duration::ZERO),
        "repair_interval",
    );
    refused(
        |config| config.node.full_repair_interval = Some(Duration::MAX),
        "full_repair_interval",
    );
}

#[test]
fn the_default_pair_fits_the_number_of_nodes() {
    for (ack, from, word) in [
        (1, 1, None),
        (2, 3, None),
        (3, 3, None),
        (2, 1, Some("ack is at least 1 and at most from")),
        (0, 1, Some("ack is at least 1 and at most from")),
        (1, 4, Some("the number of nodes, which is 3")),
    ] {
        let mut config = member(&ONE_MACHINE);
        config.replicas_default = Some(Replicas { ack, from });
        match word {
            None => assert_eq!(config.validate(), Ok(()), "{ack}/{from}"),
            Some(word) => {
                let error = config.validate().unwrap_err();
                assert_eq!(error.field, "replicas_default");
                assert!(error.problem.contains(word), "{ack}/{from}: {error}");
            }
        }
    }
    let mut config = alone();
    config.replicas_default = Some(Replicas { ack: 1, from: 2 });
    assert!(config.validate().is_err());
}

#[test]
fn urls_and_tls_fit_together() {
    let files = |peer_ca: bool| TlsFiles {
        certificate: "c.pem".into(),
        key: "k.pem".into(),
        peer_ca: peer_ca.then(|| "ca.pem".into()),
    };
    let of = |urls: &[&str], tls: Option<(bool, bool)>| {
        let mut config = member(urls);
        config.tls = tls.map(|(peer_ca, is_optional)| TlsConfig {
            files: files(peer_ca),
            is_optional,
        });
        config.validate().map_err(|error| error.field)
    };
    let (plain, tls) = ("http://localhost:1", "https://localhost:1");
    let (plain_peer, tls_peer) = ("http://localhost:2", "https://localhost:2");
    let (only, optional) = (Some((true, false)), Some((true, true)));
    for (urls, configured, result) in [
        (&[plain][..], None, Ok(())),
        (&[tls], None, Err("tls_cert")),
        (&[tls], Some((false, false)), Ok(())),
        (&[tls], Some((false, true)), Ok(())),
        (&[plain], only, Err("tls_cert")),
        (&[plain], optional, Ok(())),
        (&[plain, plain_peer], optional, Ok(())),
        (&[plain, plain_peer], only, Err("tls_cert")),
        (&[tls, plain_peer], optional, Ok(())),
        (&[tls, plain_peer], only, Err("tls_cert")),
        (&[plain, tls_peer], None, Err("tls_peer_ca")),
        (&[plain, tls_peer], optional, Ok(())),
        (&[tls, tls_peer], Some((false, false)), Err("tls_peer_ca")),
        (&[tls, tls_peer], only, Ok(())),
    ] {
        assert_eq!(of(urls, configured), result, "{urls:?} {configured:?}");
    }
}

#[test]
fn tokens_cross_a_network_over_tls_or_where_the_operator_says_so() {
    let (only, optional) = (Some(false), Some(true));
    for (tls, in_clear, address, starts) in [
        (None, false, "127.0.0.1:80", true),
        (None, false, "[::ffff:127.0.0.1]:80", true),
        (None, false, "10.0.0.1:80", false),
        (None, true, "10.0.0.1:80", true),
        (only, false, "10.0.0.1:80", true),
        (only, true, "10.0.0.1:80", true),
        // What comes without TLS may carry a token, too.
        (optional, false, "10.0.0.1:80", false),
        (optional, false, "[2001:db8::1]:80", false),
        (optional, false, "127.0.0.1:80", true),
        (optional, true, "10.0.0.1:80", true),
    ] {
        let mut config = with_tls();
        config.trust.tokens_file = Some("tokens.toml".into());
        config.trust.tokens_in_clear = in_clear;
        config.tls = config
            .tls
            .zip(tls)
            .map(|(tls, is_optional)| TlsConfig { is_optional, ..tls });
        let checked = config.check_exposure(&[address.parse().unwrap()]);
        let refused = checked.err().map(|error| error.field);
        let expected = (!starts).then_some("tokens_in_clear");
        assert_eq!(refused, expected, "{tls:?} {in_clear} {address}");
    }
}

#[test]
fn tls_connections_are_planned_for() {
    for (memory_mib, threads, handshakes, of_peers, planned_for_each) in [
        (128, 2, 16, 8, false),
        (128, 16, 80, 5, false),
        (1024, 2, 128, 8, true),
        (1024, 64, 512, 8, true),
    ] {
        let mut config = with_tls();
        config.threads = threads;
        config.set_memory_bytes(memory_mib << 20);
        let tls = config.memory_split().tls;
        assert_eq!(tls.handshakes_max, handshakes, "{memory_mib} MiB");
        assert_eq!(tls.peer_handshakes_max, of_peers * threads);
        assert!(tls.records_bytes >= threads * (64 << 10), "{tls:?}");
        let for_all = config.connections_max * (10 << 10);
        assert_eq!(
            tls.connections_bytes == for_all,
            planned_for_each,
            "{tls:?}"
        );
    }
    assert_eq!(alone().memory_split().tls, TlsSplit::default());
}

#[test]
fn an_address_is_listened_on_once() {
    for (given, listened) in [
        (&["127.0.0.1:1"][..], &["127.0.0.1:1"][..]),
        (&["127.0.0.1:1", "127.0.0.1:1"], &["127.0.0.1:1"]),
        (&["127.0.0.1:0", "127.0.0.1:0"], &["127.0.0.1:0"]),
        (&["0.0.0.0:1", "[::]:1"], &["0.0.0.0:1", "[::]:1"]),
        (&["127.0.0.1:1", "0.0.0.0:1"], &["0.0.0.0:1"]),
        (&["[::1]:1", "0.0.0.0:1"], &["[::1]:1", "0.0.0.0:1"]),
        (&["[::]:1", "[::1]:1", "[::]:1"], &["[::]:1"]),
        (&["127.0.0.1:2", "0.0.0.0:1"], &["127.0.0.1:2", "0.0.0.0:1"]),
    ] {
        let addresses = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let found = without_covered(&addresses(given));
        assert_eq!(found, addresses(listened), "{given:?}");
    }
}
