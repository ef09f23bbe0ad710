use super::*;
use crate::layers::Key;
use clap::CommandFactory;
use std::fmt::Write as _;

/// The page that describes every option.
const PAGE: &str = include_str!("../../../../docs/configuration.md");

fn serve(words: &[&str]) -> ServeOptions {
    let all = ["kvorum", "serve"].iter().chain(words);
    match Cli::try_parse_from(all).unwrap().command {
        Command::Serve(options) => *options,
        Command::Dev(_) => panic!("these words mean serve"),
    }
}

const LEAST: [&str; 4] = ["--url", "http://localhost:8080", "--data", "d"];

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn defaults_are_those_of_the_node() {
    let memory = [&LEAST[..], &["--memory", "128MiB"]].concat();
    let config = serve(&memory).node_config().unwrap();
    let expected = NodeConfig::new("http://localhost:8080", "d");
    assert_eq!(format!("{config:?}"), format!("{expected:?}"));
}

#[test]
fn every_option_reaches_the_node() {
    let untouched = format!("{:?}", serve(&LEAST).node_config().unwrap());
    for (name, value) in [
        ("--listen", "127.0.0.1:1"),
        ("--name", "n"),
        ("--replicas", "1/1"),
        ("--memory", "1TiB"),
        ("--durability", "os"),
        ("--compression", "none"),
        ("--filter", "none"),
        ("--compaction", "off"),
        ("--compaction-bytes-per-second", "1MiB"),
        ("--memtable-bytes", "1MiB"),
        ("--disk-reserve-bytes", "1MiB"),
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
        ("--scan-stall-timeout", "777ms"),
        ("--drain-timeout", "777ms"),
    ] {
        let words = [&LEAST[..], &[name, value]].concat();
        let config = serve(&words).node_config().unwrap();
        assert_ne!(format!("{config:?}"), untouched, "{name}");
    }
}

#[test]
fn a_cluster_is_its_own_node_alone() {
    for (cluster, word) in [
        ("http://localhost:8080", None),
        ("http://localhost:8080/", None),
        ("http://localhost:8081", Some("does not name this node")),
        (
            "http://localhost:8080,http://localhost:8081",
            Some("not supported yet"),
        ),
    ] {
        let words = [&LEAST[..], &["--cluster", cluster]].concat();
        let result = serve(&words).node_config();
        match word {
            None => assert!(result.is_ok(), "{cluster}"),
            Some(word) => {
                let failure = result.unwrap_err();
                assert!(failure.problem.contains(word), "{}", failure.problem);
            }
        }
    }
}

#[test]
fn what_cannot_be_beside_other_options_is_named_by_its_option() {
    for (words, option, word) in [
        (
            &["--memory", "128MiB", "--value-bytes-max", "32MiB"],
            "value-bytes-max",
            "eighth",
        ),
        (
            &["--memory", "128MiB", "--memtable-bytes", "64MiB"],
            "memtable-bytes",
            "half",
        ),
        (
            &["--memory", "128MiB", "--replicas", "1/2"],
            "replicas",
            "number of nodes",
        ),
    ] {
        let words = [&LEAST[..], words].concat();
        let error = serve(&words).node_config().unwrap_err();
        assert_eq!(error.option, option);
        assert!(error.problem.contains(word), "{}", error.problem);
    }
    let names: Vec<String> = Key::all().into_iter().map(|key| key.name).collect();
    for field in [
        "memory_bytes",
        "filter_false_positive_rate",
        "replicas_default",
        "scans_max",
    ] {
        assert!(names.contains(&option_of(field)), "{field}");
    }
}

/// The rows of the table of options, made from the definition.
fn rows() -> String {
    let cli = Cli::command();
    let serve = cli.find_subcommand("serve").unwrap();
    let mut rows = String::new();
    for key in Key::all() {
        let argument = serve
            .get_arguments()
            .find(|argument| argument.get_long() == Some(&key.name))
            .unwrap();
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
        writeln!(
            rows,
            "| `--{name}` | `{name}` | `{variable}` | {value} | {default} | {meaning} |",
            name = key.name,
            variable = key.variable(),
        )
        .unwrap();
    }
    rows
}

#[test]
fn the_page_has_the_table_of_options() {
    let table = PAGE
        .split_once("|---|---|---|---|---|---|\n")
        .and_then(|(_, rest)| rest.split_once("\n\n"))
        .map(|(table, _)| table);
    let rows = rows();
    assert!(
        table == Some(rows.trim_end()),
        "docs/configuration.md should hold:\n{rows}"
    );
}
