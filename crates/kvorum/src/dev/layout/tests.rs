use super::*;
use crate::commands::{Cli, Command};
use clap::Parser;
use std::net::TcpListener;

fn layout(words: &[&str]) -> Result<ClusterLayout, EarlyExit> {
    let all = ["kvorum", "dev"].iter().chain(words);
    match Cli::try_parse_from(all).unwrap().command {
        Command::Dev(options) => ClusterLayout::new(&options),
        _ => panic!("these words should parse as dev"),
    }
}

/// The arguments of the last node.
fn arguments(words: &[&str]) -> Vec<String> {
    let layout = layout(words).ok().unwrap();
    let arguments = layout.arguments(layout.nodes().last().unwrap());
    arguments
        .into_iter()
        .map(|argument| argument.into_string().unwrap())
        .collect()
}

/// The argument after `name`, which must occur once.
fn value_of<'a>(arguments: &'a [String], name: &str) -> &'a str {
    let mut positions = arguments
        .iter()
        .enumerate()
        .filter(|(_, argument)| *argument == name);
    let (position, _) = positions.next().unwrap();
    assert!(positions.next().is_none(), "{name} twice in {arguments:?}");
    &arguments[position + 1]
}

#[test]
fn three_nodes_share_a_list_the_memory_and_the_cores() {
    let arguments = arguments(&["--port", "7001", "--data", "d"]);
    assert_eq!(value_of(&arguments, "--url"), "http://127.0.0.1:7003");
    assert_eq!(value_of(&arguments, "--data"), "d/node-3");
    assert_eq!(
        value_of(&arguments, "--cluster"),
        "node-1=http://127.0.0.1:7001,node-2=http://127.0.0.1:7002,node-3=http://127.0.0.1:7003"
    );
    let memory = ByteSize(resources::memory_bytes_each(3)).to_string();
    assert_eq!(value_of(&arguments, "--memory"), memory);
    let threads = resources::threads_each(3).to_string();
    assert_eq!(value_of(&arguments, "--threads"), threads);
}

#[test]
fn a_node_that_is_added_joins_the_others_and_is_known_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
        - 3;
    let port = port.to_string();
    let founded = layout(&["--port", &port, "--data", data]).ok().unwrap();
    founded.make_folders().ok().unwrap();
    let added = founded.add().ok().unwrap();
    assert_eq!(added.name, "node-4");
    assert!(folder.path().join("node-4").exists());
    let text = |arguments: Vec<OsString>| -> Vec<String> {
        let arguments = arguments.into_iter();
        arguments.map(|it| it.into_string().unwrap()).collect()
    };
    let again = layout(&["--data", data]).ok().unwrap();
    let nodes = again.nodes();
    assert_eq!(nodes.len(), 4);
    let joins = text(again.arguments(&nodes[3]));
    assert_eq!(value_of(&joins, "--join"), nodes[0].url());
    assert_eq!(value_of(&joins, "--name"), "node-4");
    let forms = text(again.arguments(&nodes[0]));
    assert_eq!(value_of(&forms, "--cluster").split(',').count(), 3);
    for (words, word) in [
        (["--nodes", "3"], "--nodes 4"),
        (["--port", "1"], &*format!("--port {port}")),
        (["--tls", "--tokens"], "omit --tls"),
    ] {
        match layout(&[&["--data", data], &words[..]].concat()) {
            Err(EarlyExit::Refuse(failure)) => {
                assert!(failure.line().contains(word), "{}", failure.line());
            }
            _ => panic!("{words:?} should be refused"),
        }
    }
    again.remove(2).ok().unwrap();
    assert!(!folder.path().join("node-2").exists());
    let again = layout(&["--data", data]).ok().unwrap();
    let numbers: Vec<u8> = again.nodes().iter().map(|node| node.number).collect();
    assert_eq!(numbers, [1, 3, 4]);
    let forms = text(again.arguments(&again.nodes()[0]));
    assert_eq!(value_of(&forms, "--cluster").split(',').count(), 3);
}

#[test]
fn options_of_the_user_replace_the_computed_ones() {
    let set = ["--memory", "1GiB", "--threads", "7"];
    let arguments = arguments(&[&["--nodes", "2", "--"], &set[..]].concat());
    assert_eq!(value_of(&arguments, "--memory"), "1GiB");
    assert_eq!(value_of(&arguments, "--threads"), "7");
}

#[test]
fn log_options_are_passed_on_only_if_the_user_sets_them() {
    let silent = arguments(&[]);
    assert!(!silent.iter().any(|argument| argument.starts_with("--log")));
    let said = arguments(&["--log", "debug", "--log-format", "json"]);
    assert_eq!(value_of(&said, "--log"), "debug");
    assert_eq!(value_of(&said, "--log-format"), "json");
    let behind = arguments(&["--", "--log", "debug"]);
    assert_eq!(value_of(&behind, "--log"), "debug");
}

#[test]
fn options_that_no_node_accepts_are_refused() {
    for (words, word) in [
        (&["--port", "65534"][..], "not enough ports"),
        (&["--", "--name", "a"], "node-1"),
        (&["--", "--url", "http://127.0.0.1:1"], "omit it"),
        (&["--", "--cluster", "http://127.0.0.1:1"], "--nodes"),
        // The greatest value size is bound by the node's part of the
        // memory.
        (
            &["--", "--memory", "128MiB", "--value-bytes-max", "17MiB"],
            "eighth",
        ),
    ] {
        match layout(words) {
            Err(EarlyExit::Refuse(failure)) => {
                assert!(failure.line().contains(word), "{}", failure.line());
            }
            _ => panic!("{words:?} should be refused"),
        }
    }
}
