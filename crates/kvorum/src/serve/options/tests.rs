use super::*;
use crate::option_sources::{self, LayeredOption};
use clap::CommandFactory;
use std::ffi::OsString;
use std::io;
use std::path::Path;

/// The page that describes every option.
const PAGE: &str = include_str!("../../../../../docs/reference/configuration.md");

fn serve(words: &[&str]) -> ServeOptions {
    let all = ["kvorum", "serve"].iter().chain(words);
    let ServeCommand::Serve(options) = NodeProgram::try_parse_from(all).unwrap().command;
    *options
}

/// The configuration that these words describe. The only file is a secret.
fn node(words: &[&str]) -> Result<ServerConfig, OptionError> {
    serve(words).server_config(&|file| {
        if file == Path::new("secret.txt") {
            Ok("0123456789abcdef\n".to_owned())
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    })
}

const LEAST: [&str; 4] = ["--url", "http://localhost:8080", "--data", "d"];

#[test]
fn defaults_are_those_of_the_node() {
    let memory = [&LEAST[..], &["--memory", "128MiB"]].concat();
    let config = node(&memory).unwrap();
    let url: NodeUrl = "http://localhost:8080".parse().unwrap();
    let expected = ServerConfig::new(url, "d");
    assert_eq!(format!("{config:?}"), format!("{expected:?}"));
}

#[test]
fn every_option_reaches_the_node() {
    let untouched = node(&LEAST).unwrap();
    let other_compactions = match untouched.node.compactions_max {
        1 => "2",
        _ => "1",
    };
    let untouched = format!("{untouched:?}");
    for (name, value) in [
        ("--expect-data", "on"),
        ("--listen", "127.0.0.1:1"),
        ("--host", "kv.example"),
        ("--cors-origin", "https://app.example"),
        ("--cluster", "n=http://localhost:8080"),
        ("--name", "n"),
        ("--join", "http://localhost:8081"),
        ("--zone", "rack-1"),
        ("--cluster-secret-file", "secret.txt"),
        ("--accept-data-loss", "on"),
        ("--drop-future-versions", "on"),
        ("--clock-drift-max", "7m"),
        ("--hint-bytes-max", "777MiB"),
        ("--hint-age-max", "7m"),
        ("--gc-grace", "11d"),
        ("--repair-interval", "off"),
        ("--full-repair-interval", "7m"),
        ("--backup-target", "nas=/mnt/nas"),
        (
            "--backup-target",
            "cloud=s3://bucket?endpoint=http://localhost:1",
        ),
        ("--ack", "1"),
        ("--from", "1"),
        ("--tls-cert", "c.pem"),
        ("--tls-key", "k.pem"),
        ("--tls-peer-ca", "ca.pem"),
        ("--tls-optional", "on"),
        ("--memory", "1TiB"),
        ("--durability", "os"),
        ("--compression", "none"),
        ("--filter", "none"),
        ("--last-level-filters", "off"),
        ("--blob-value-bytes-min", "1MiB"),
        ("--compaction", "off"),
        ("--compactions-max", other_compactions),
        ("--compaction-bytes-per-second", "1MiB"),
        ("--memtable-bytes", "1MiB"),
        ("--disk-reserve-bytes", "1MiB"),
        ("--tokens-file", "t"),
        ("--open", "on"),
        ("--audit-log", "a"),
        ("--log-keys", "plain"),
        ("--slow-request", "7m"),
        ("--otlp-endpoint", "http://localhost:4318"),
        ("--trace-sample", "0.01"),
        ("--tokens-in-clear", "on"),
        ("--threads", "777"),
        ("--read-threads", "777"),
        ("--read-queue", "777"),
        ("--requests-in-flight-max", "777"),
        ("--requests-queued-max", "777"),
        ("--connections-max", "777"),
        ("--scans-max", "777"),
        ("--value-bytes-max", "777"),
        ("--timeout", "777ms"),
        ("--idle-timeout", "777ms"),
        ("--head-timeout", "777ms"),
        ("--body-timeout", "777ms"),
        ("--stall-timeout", "777ms"),
        ("--drain-timeout", "777ms"),
    ] {
        let word = format!("{name}={value}");
        let (mut words, mut untouched) = (LEAST.to_vec(), untouched.clone());
        if name.starts_with("--tls-") {
            // None of these options stands alone.
            words[1] = "https://localhost:8080";
            let with = [&words[..], &["--tls-cert=a", "--tls-key=b"]].concat();
            untouched = format!("{:?}", node(&with).unwrap());
            words = with;
            words.retain(|word| !word.starts_with(name));
        }
        if name == "--zone" {
            // It goes with one of these.
            let with = [&words[..], &["--join=http://localhost:8081"]].concat();
            untouched = format!("{:?}", node(&with).unwrap());
            words = with;
        }
        if name == "--trace-sample" {
            let with = [&words[..], &["--otlp-endpoint=http://localhost:4318"]].concat();
            untouched = format!("{:?}", node(&with).unwrap());
            words = with;
        }
        words.push(&word);
        let config = node(&words).unwrap();
        assert_ne!(format!("{config:?}"), untouched, "{name}");
    }
}

#[test]
fn a_cluster_is_a_list_that_holds_the_node() {
    let with = |words: &[&str]| node(&[&LEAST[..], words].concat());
    let names = |config: &ServerConfig| config.node.members.names().collect::<Vec<_>>().join(" ");
    for (words, expected, own) in [
        (&[][..], "localhost:8080", "localhost:8080"),
        (&["--name", "a"], "a", "a"),
        (
            &["--cluster", "http://LocalHost:8080/"],
            "localhost:8080",
            "localhost:8080",
        ),
        (
            &[
                "--cluster",
                "b=http://localhost:8080,a=http://localhost:8081",
            ],
            "a b",
            "b",
        ),
        (
            &["--name", "b", "--cluster", "b=http://localhost:8080"],
            "b",
            "b",
        ),
    ] {
        let config = with(words).unwrap();
        assert_eq!(
            (&*names(&config), config.node.name()),
            (expected, own),
            "{words:?}"
        );
    }
    for (words, option, word) in [
        (
            &["--cluster", "http://localhost:8081"][..],
            "cluster",
            "does not name this node",
        ),
        (
            &[
                "--cluster",
                "http://localhost:8080,a=http://localhost:8080/",
            ],
            "cluster",
            "twice",
        ),
        (
            &[
                "--cluster",
                "a=http://localhost:8080,a=http://localhost:8081",
            ],
            "cluster",
            "two nodes called a",
        ),
        (
            &["--name", "a", "--cluster", "http://localhost:8080"],
            "name",
            "write a=http://localhost:8080 there",
        ),
    ] {
        let error = with(words).unwrap_err();
        assert_eq!(error.option, option, "{words:?}: {error:?}");
        assert!(error.problem.contains(word), "{words:?}: {error:?}");
    }
}

#[test]
fn a_switch_needs_no_value() {
    for (words, expected) in [
        (&[][..], false),
        (&["--accept-data-loss"], true),
        (&["--accept-data-loss=on"], true),
        (&["--accept-data-loss=off"], false),
        (&["--accept-data-loss", "off"], false),
        (&["--accept-data-loss", "--name", "n"], true),
    ] {
        let config = node(&[&LEAST[..], words].concat()).unwrap();
        assert_eq!(config.node.accept_data_loss, expected, "{words:?}");
    }
}

#[test]
fn the_secret_reaches_the_node_and_is_not_shown() {
    let words = [&LEAST[..], &["--cluster-secret-file", "secret.txt"]].concat();
    let config = node(&words).unwrap();
    assert!(!format!("{config:?}").contains("0123"));
    let secret = config.node.cluster_secret.unwrap();
    assert_eq!(secret.list()[0].as_bytes(), b"0123456789abcdef");
}

#[test]
fn a_contradiction_names_its_option() {
    for (words, option, word) in [
        (
            &["--memory", "128MiB", "--value-bytes-max", "32MiB"][..],
            "value-bytes-max",
            "eighth",
        ),
        (
            &["--memory", "128MiB", "--memtable-bytes", "64MiB"],
            "memtable-bytes",
            "half",
        ),
        (
            &["--memory", "128MiB", "--from", "2"],
            "from",
            "number of nodes",
        ),
        (&["--ack", "2"], "ack", "a key has 1 replica: give"),
        (
            &["--gc-grace", "4h"],
            "gc-grace",
            "--hint-age-max (10800s) plus twice --clock-drift-max (3600s)",
        ),
        (
            &["--cluster", "http://localhost:8080,http://10.0.0.5:8080"],
            "cluster-secret-file",
            "http://10.0.0.5:8080",
        ),
        (&["--host", "my_host:80"], "host", "my_host:80"),
        (&["--tls-cert", "c.pem"], "tls-key", "missing"),
        (&["--tls-key", "k.pem"], "tls-cert", "--tls-key"),
        (&["--tls-peer-ca", "ca.pem"], "tls-cert", "--tls-peer-ca"),
        (&["--tls-optional"], "tls-cert", "--tls-optional"),
        (
            &["--tls-cert", "c.pem", "--tls-key", "k.pem"],
            "tls-cert",
            "http://localhost:8080 is a URL without it: write https:// for all nodes, or add \
             --tls-optional",
        ),
        (
            &["--cluster", "http://localhost:8080,https://localhost:8081"],
            "tls-peer-ca",
            "https://localhost:8081 is reached over TLS",
        ),
        (&["--cors-origin", "*"], "cors-origin", "origin of pages"),
        (
            &["--cluster-secret-file", "absent.txt"],
            "cluster-secret-file",
            "cannot read absent.txt",
        ),
    ] {
        let words = [&LEAST[..], words].concat();
        let error = node(&words).unwrap_err();
        assert_eq!(error.option, option);
        assert!(error.problem.contains(word), "{}", error.problem);
    }
    let names: Vec<String> = LayeredOption::all(&NodeProgram::command())
        .into_iter()
        .map(|key| key.name)
        .collect();
    for field in [
        "memory_bytes",
        "filter_false_positive_rate",
        "replicas_default",
        "cluster_secret",
        "clock_drift_max",
        "scans_max",
    ] {
        assert!(names.contains(&option_of(field)), "{field}");
    }
}

/// The heading on the page for the options that `--help` lists without one.
const WITHOUT_HEADING: &str = "Node";

const TABLE_HEAD: &str = "\
| Option | Environment | Value | Default | Meaning |
|---|---|---|---|---|
";

/// The page's tables of options in the order and the groups of `--help`, each
/// with its heading, made from the definition.
fn tables() -> Vec<String> {
    let program = NodeProgram::command();
    let serve = program.find_subcommand("serve").unwrap();
    let mut tables: Vec<(&str, String)> = Vec::new();
    for key in LayeredOption::all(&program) {
        let argument = serve
            .get_arguments()
            .find(|argument| argument.get_long() == Some(&key.name))
            .unwrap();
        let heading = argument.get_help_heading().unwrap_or(WITHOUT_HEADING);
        if tables.last().is_none_or(|(last, _)| *last != heading) {
            tables.push((heading, String::new()));
        }
        let (_, rows) = tables.last_mut().unwrap();
        rows.push_str(&row(&key, argument));
    }
    tables
        .iter()
        .map(|(heading, rows)| format!("### {heading}\n\n{TABLE_HEAD}{rows}\n"))
        .collect()
}

/// The row of one option.
fn row(key: &LayeredOption, argument: &clap::Arg) -> String {
    let help = argument.get_help().unwrap().to_string();
    let (meaning, default) = match help.split_once(" [default: ") {
        Some((meaning, default)) => (meaning, default.trim_end_matches(']').to_owned()),
        None => {
            let defaults = argument.get_default_values().iter();
            let default: Vec<_> = defaults.map(|value| value.to_str().unwrap()).collect();
            (help.as_str(), format!("`{}`", default.join(",")))
        }
    };
    let default = if default == "``" { "" } else { &default };
    let values = argument.get_possible_values();
    let value = if values.is_empty() {
        argument.get_value_names().unwrap()[0].to_string()
    } else {
        let names: Vec<_> = values.iter().map(|value| value.get_name()).collect();
        names.join(", ")
    };
    format!(
        "| `--{name}` | {variable} | {value} | {default} | {meaning} |\n",
        name = key.name,
        variable = if key.is_for_one_start() {
            "only the command line".to_owned()
        } else {
            format!("`{}`", key.variable())
        },
    )
}

#[test]
fn the_page_has_a_table_of_options_for_each_heading() {
    let tables = tables();
    for table in &tables {
        assert!(
            PAGE.contains(table),
            "docs/reference/configuration.md should hold this table, with an empty line behind it:\n{table}"
        );
    }
    let rows_in = |text: &str| text.matches("\n| `--").count();
    let of_serve = PAGE.split_once("## Options of `serve`").unwrap().1;
    let of_serve = of_serve.split_once("\n## ").unwrap().0;
    let expected: usize = tables.iter().map(|table| rows_in(table)).sum();
    assert_eq!(
        rows_in(of_serve),
        expected,
        "rows in docs/reference/configuration.md"
    );
}

#[test]
fn the_shipped_configuration_is_valid_with_all_that_it_suggests() {
    let shipped = include_str!("../../../../../packaging/kvorum.toml");
    let lines = shipped.lines().map(|line| match line.strip_prefix("# ") {
        Some(option) if option.contains(" = ") => option,
        _ => line,
    });
    let all: Vec<&str> = lines.collect();
    for text in [format!("url = 'http://a:1'\n{shipped}"), all.join("\n")] {
        let read = |file: &Path| {
            let is_config = file == Path::new("kvorum.toml");
            Ok(if is_config { &text } else { "0123456789abcdef" }.to_owned())
        };
        let arguments = ["kvorum", "serve", "--config", "kvorum.toml"].map(OsString::from);
        let parsed = option_sources::parse::<NodeProgram>(&arguments, [], &read).unwrap();
        let ServeCommand::Serve(options) = parsed.program.command;
        options.server_config(&read).unwrap();
    }
}

#[test]
fn shipped_manifests_set_only_variables_that_exist() {
    let program = NodeProgram::command();
    let known: Vec<String> = LayeredOption::all(&program)
        .iter()
        .map(LayeredOption::variable)
        .collect();
    for manifest in [
        include_str!("../../../../../packaging/compose.yml"),
        include_str!("../../../../../packaging/kubernetes.yml"),
        include_str!("../../../../../packaging/image"),
    ] {
        let words = manifest.split(|of: char| !of.is_ascii_uppercase() && of != '_');
        let variables: Vec<_> = words.filter(|word| word.starts_with("KVORUM_")).collect();
        assert!(!variables.is_empty());
        for variable in variables {
            assert!(known.iter().any(|name| name == variable), "{variable}");
        }
    }
}
