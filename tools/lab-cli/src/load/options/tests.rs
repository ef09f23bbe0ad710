use super::*;
use crate::commands::{Command, Program};
use clap::Parser;

fn options(words: &str) -> LoadOptions {
    let all = ["kvorum-lab", "load"]
        .into_iter()
        .chain(words.split_whitespace());
    match Program::try_parse_from(all).unwrap().command {
        Command::Load(options) => *options,
        _ => panic!("these words should parse as load"),
    }
}

#[test]
fn options_become_a_plan() {
    let plan = options(
        "get --url http://a:1,http://b:2 --rate 30000 --connections 8 --threads 2 \
         --duration 20s --warmup 0 --timeout 2s --keys 5000 --key-choice sequential \
         --key-bytes 20 --value-bytes 64..1KiB --ack 2 --from 3 --ttl 60 --verify off --seed 9 --ask first-replica",
    )
    .plan()
    .unwrap();
    let expected = Plan {
        ask: Ask::Owner,
        targets: vec!["http://a:1".to_owned(), "http://b:2".to_owned()],
        connections: 8,
        threads: 2,
        rate: load::plan::Rate::PerSecond(30_000.0),
        warmup_seconds: 0.0,
        seconds: 20.0,
        timeout_seconds: 2.0,
        operations: vec![(Operation::Get, 1.0)],
        keys: 5_000,
        key_choice: KeyChoice::Sequential,
        key_bytes: load::plan::SizeDistribution::Fixed(20),
        value_bytes: load::plan::SizeDistribution::Uniform(64, 1024),
        scan_limit: 100,
        replicas: Some((2, 3)),
        ttl_seconds: Some(60),
        batch: None,
        pipeline: None,
        verify: false,
        seed: 9,
        access: load::Credentials::default(),
    };
    assert_eq!(plan, expected);
}

#[test]
fn a_batch_takes_operations_that_it_can_have_on_any_node() {
    let plan = options("put --batch 100 --keys 5000").plan().unwrap();
    assert_eq!((plan.batch, plan.pipeline), (Some(100), None));
    let plan = options("put --batch 100 --pipeline 4").plan().unwrap();
    assert_eq!(plan.pipeline, Some(4));
    for words in [
        "scan --batch 2",
        "ycsb-f --batch 2",
        "put --batch 2 --url http://a:1,http://b:2 --ask first-replica",
        "put --batch 100000 --value-bytes 1KiB",
        "put --batch 100 --pipeline 4 --rate 10",
    ] {
        assert!(options(words).plan().is_err(), "{words}");
    }
}

#[test]
fn workloads_choose_operations_and_keys() {
    let table = [
        (
            "",
            vec![(Operation::Get, 50.0), (Operation::Put, 50.0)],
            KeyChoice::Uniform,
        ),
        (
            "mixed --mix delete=1",
            vec![(Operation::Delete, 1.0)],
            KeyChoice::Uniform,
        ),
        ("scan", vec![(Operation::Scan, 1.0)], KeyChoice::Uniform),
        (
            "ycsb-b",
            vec![(Operation::Get, 95.0), (Operation::Put, 5.0)],
            KeyChoice::Zipfian,
        ),
        (
            "ycsb-d",
            vec![(Operation::Get, 95.0), (Operation::Insert, 5.0)],
            KeyChoice::Latest,
        ),
        (
            "ycsb-c --key-choice uniform",
            vec![(Operation::Get, 1.0)],
            KeyChoice::Uniform,
        ),
    ];
    for (words, operations, key_choice) in table {
        let plan = options(words).plan().unwrap();
        assert_eq!(
            (plan.operations, plan.key_choice),
            (operations, key_choice),
            "{words}"
        );
    }
}

#[test]
fn a_probe_is_shorter_than_a_run() {
    assert_eq!(options("put").plan().unwrap().seconds, 10.0);
    let search = options("put --find-breaking-point --p99 5ms");
    assert_eq!(search.plan().unwrap().seconds, 5.0);
    assert_eq!(search.bound().p99_ms, 5.0);
    assert!(options("fill --find-breaking-point").plan().is_err());
}

#[test]
fn contradictory_options_are_refused() {
    for (words, part) in [
        (
            "put --connections 2 --threads 3",
            "one connection for each thread",
        ),
        ("put --key-bytes 4 --keys 10000", "at least 5"),
        ("put --value-bytes 5000000000", "give values from"),
        ("fill --rate 1000", "a fill has no rate"),
        ("get --mix get=1,put=1", "for the workload mixed"),
    ] {
        let refusal = options(words).plan().unwrap_err();
        assert!(refusal.line().contains(part), "{words}: {}", refusal.line());
    }
}
