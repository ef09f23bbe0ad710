//! Backups as an operator meets them: made under load, cut off by kills, restored elsewhere.

#![expect(
    clippy::disallowed_methods,
    reason = "the folders belong to other processes"
)]

use crate::fixtures::client_load::under_load;
use crate::fixtures::cluster::{TestCluster, node_locations};
use crate::fixtures::ledger::Ledger;
use crate::support::{
    Process, copy_folder, free_ports, kvorum, run_to_end, started, wait_until, wait_until_ok,
};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

/// A cluster whose nodes share a folder for backups.
fn cluster() -> (TestCluster, PathBuf) {
    let mut cluster = TestCluster::new(node_locations());
    let target = cluster.folder.path().join("nas");
    std::fs::create_dir(&target).unwrap();
    let option = format!("--backup-target=nas={}", target.display());
    for node in &mut cluster.nodes {
        node.options = vec![option.clone(), "--timeout=2s".to_owned()];
    }
    cluster.start_all();
    (cluster, target)
}

fn run(words: &[&str]) -> Output {
    run_to_end(&mut kvorum(words))
}

fn succeed(words: &[&str]) -> String {
    let output = run(words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn url(cluster: &TestCluster, node: usize) -> String {
    format!("http://{}", cluster[node].location.address)
}

fn addresses(cluster: &TestCluster) -> Vec<SocketAddr> {
    let nodes = cluster.nodes.iter();
    nodes.map(|node| node.location.address).collect()
}

/// Backs up, and returns the backup.
fn back_up(url: &str, more: &[&str]) -> Value {
    let words = [&["admin", "backup", "nas", "--json", "--url", url], more].concat();
    serde_json::from_str(&succeed(&words)).unwrap()
}

/// The IDs of the complete backups, the newest first.
fn list(url: &str) -> Vec<String> {
    let words = ["admin", "backup", "list", "nas", "--json", "--url", url];
    let listed: Value = serde_json::from_str(&succeed(&words)).unwrap();
    let backups = listed["backups"].as_array().unwrap().iter();
    let ids = backups.map(|backup| backup["id"].as_str().unwrap().to_owned());
    ids.collect()
}

fn verify(url: &str, id: &str) {
    let words = ["admin", "backup", "verify", "nas", "--id", id, "--url", url];
    let said = succeed(&words);
    assert!(said.contains("are as they were stored"), "{said}");
}

/// All that a cluster has: keys, values, versions and expiry, as lines.
fn export(url: &str) -> String {
    wait_until_ok("an export", || {
        let output = run(&["export", "-", "--versions", "--url", url]);
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(output)
        }
    })
}

fn restore(target: &Path, data: &Path, url: &str, list: &str, id: &str) -> String {
    let (target, data) = (target.to_str().unwrap(), data.to_str().unwrap());
    succeed(&[
        "restore",
        "--from",
        target,
        "--backup",
        id,
        "--data",
        data,
        "--url",
        url,
        "--cluster",
        list,
    ])
}

#[test]
fn a_cluster_that_was_destroyed_comes_back_with_as_many_nodes_and_with_fewer() {
    let (mut cluster, target) = cluster();
    let first = url(&cluster, 0);
    let addresses = addresses(&cluster);
    let mut ledgers: Vec<Ledger> = (0..4).map(|name| Ledger::new(name, 200, 300)).collect();
    let began = std::time::Instant::now();
    let mut under_way = Value::Null;
    let load = under_load(&mut ledgers, &addresses, |load| {
        load.go_on(Duration::from_millis(500), 300);
        under_way = back_up(&first, &[]);
        load.go_on(Duration::from_millis(200), 100);
    });
    load.assert_served(began - Duration::from_secs(2));
    assert_eq!(under_way["missing"], serde_json::json!([]));
    assert_eq!(under_way["nodes"].as_array().unwrap().len(), 3);

    // What expires later, and what was deleted, with 3 of 3 replicas.
    for (key, words) in [("lasts", &["--ttl", "30d"][..]), ("goes", &[])] {
        let words = [&["put", key, "v", "--ack", "3", "--url", &first], words].concat();
        succeed(&words);
    }
    succeed(&["delete", "goes", "--ack", "3", "--url", &first]);
    let backup = back_up(&first, &[]);
    let id = backup["id"].as_str().unwrap();
    assert!(backup["new_bytes"].as_u64() < backup["bytes"].as_u64());
    let expected = export(&first);
    assert!(expected.contains("\"lasts\"") && expected.contains("\"expires\""));
    succeed(&["put", "later", "v", "--url", &first]);
    for node in &mut cluster.nodes {
        node.kill();
        std::fs::remove_dir_all(&node.data).unwrap();
    }

    // The same names, with new folders.
    for node in &mut cluster.nodes {
        let (data, list) = (node.data.clone(), node.list.clone());
        let own = format!("http://{}", node.location.address);
        let said = restore(&target, &data, &own, &list, id);
        let start = format!("{} has its own tables, of the backup {id}", node.name);
        assert!(said.starts_with(&start), "{said}");
    }
    for node in &mut cluster.nodes {
        node.start(&[]);
    }
    cluster.wait_until_joined();
    assert_eq!(export(&first), expected);
    for node in 0..3 {
        let node = url(&cluster, node);
        let get = run(&["get", "goes", "--ack", "3", "--url", &node]);
        assert_eq!(get.status.code(), Some(1), "{get:?}");
    }
    // It is another cluster, until it takes the target over.
    let words = ["admin", "backup", "nas", "--url", &first];
    let refused = run(&words);
    let line = String::from_utf8(refused.stderr).unwrap();
    assert!(
        line.contains("belongs to another cluster, of a, b, c"),
        "{line}"
    );
    let next = back_up(&first, &["--adopt"]);
    assert_eq!(next["missing"], serde_json::json!([]));
    let next = next["id"].as_str().unwrap();
    verify(&first, next);
    for node in &mut cluster.nodes {
        node.kill();
    }

    // Other nodes, of another number.
    for count in [2, 1] {
        let ports = free_ports(count);
        let urls = (0..count).map(|node| format!("http://127.0.0.1:{}", ports + node));
        let urls: Vec<String> = urls.collect();
        let list = urls.iter().enumerate();
        let list = list.map(|(node, url)| format!("new-{node}={url}"));
        let list = list.collect::<Vec<_>>().join(",");
        let mut nodes = Vec::new();
        for (port, url) in (ports..).zip(&urls) {
            let data = cluster.folder.path().join(format!("{count}-{port}"));
            let said = restore(&target, &data, url, &list, next);
            assert!(said.contains("of which it is a replica now"), "{said}");
            let mut command = crate::support::serve(port, &data);
            nodes.push((port, Process::spawn(command.args(["--cluster", &list]))));
        }
        for (port, node) in &mut nodes {
            node.wait_until_up(*port);
        }
        assert_eq!(export(&urls[0]), expected, "{count} nodes");
    }
}

/// Whether a folder below the target has a file whose name ends like this.
fn has(target: &Path, folder: &str, end: &str) -> bool {
    let Ok(files) = std::fs::read_dir(target.join(folder)) else {
        return false;
    };
    let mut names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    names.any(|name| name.ends_with(end))
}

#[test]
fn a_kill_at_any_stage_leaves_the_backups_that_were_complete() {
    let (mut cluster, target) = cluster();
    let value = "v".repeat(60_000);
    let mut written = 0;
    let mut write = |cluster: &TestCluster| {
        // What was written before is in tables that the target has.
        let mut connection = cluster[0].connect().unwrap();
        for _ in 0..20 {
            written += 1;
            let target = format!("/v0/entity?id={written}&ack=3&from=3");
            wait_until("a write to all replicas", || {
                let answer = connection.request("PUT", &target, "", value.as_bytes());
                (answer.unwrap().status == 201).then_some(())
            });
        }
    };
    write(&cluster);
    let mut good = vec![
        back_up(&url(&cluster, 0), &[])["id"]
            .as_str()
            .unwrap()
            .to_owned(),
    ];
    // The coordinator is node 0; the others have their parts in it.
    type Reached = fn(&Path) -> bool;
    let stages: [(&str, usize, Reached); 4] = [
        ("begun", 1, |target| has(target, "running", ".json")),
        ("storing", 0, |target| has(target, "tables", ".tmp")),
        ("stored", 1, |target| has(target, "nodes", ".json")),
        ("completing", 0, |target| has(target, "backups", ".tmp")),
    ];
    for (stage, victim, is_reached) in stages {
        write(&cluster);
        for below in ["tables", "nodes", "running"] {
            // What an earlier kill has left must not look like this stage.
            let files = std::fs::read_dir(target.join(below)).unwrap();
            for file in files.map(|file| file.unwrap().path()) {
                let is_table = file.extension().is_some_and(|it| it == "sst");
                if !is_table && below != "nodes" {
                    std::fs::remove_file(file).unwrap();
                } else if below == "nodes" {
                    let name = file.file_name().unwrap().to_str().unwrap();
                    if !good.iter().any(|id| name.starts_with(&**id)) {
                        std::fs::remove_file(&file).unwrap();
                    }
                }
            }
        }
        let nodes_before = std::fs::read_dir(target.join("nodes")).unwrap().count();
        let asked = url(&cluster, 0);
        let mut command = kvorum(&["admin", "backup", "nas", "--url", &asked]);
        let mut backup = Process::spawn(&mut command);
        let mut ended = None;
        wait_until("the stage of the backup", || {
            ended = backup.child.try_wait().unwrap();
            let is_new = stage != "stored"
                || std::fs::read_dir(target.join("nodes")).unwrap().count() > nodes_before;
            (ended.is_some() || (is_reached(&target) && is_new)).then_some(())
        });
        cluster[victim].kill();
        let end = backup.end();
        let asked = url(&cluster, 2);
        let listed = list(&asked);
        let kept = &listed[listed.len() - good.len()..];
        assert_eq!(kept, good, "{stage}, node {victim}");
        if listed.len() > good.len() {
            // It was complete when the kill came.
            good.insert(0, listed[0].clone());
            assert_eq!(listed, good);
        } else {
            assert_ne!(end.code, Some(0), "{stage}, node {victim}: {end:?}");
        }
        for id in &listed {
            verify(&asked, id);
        }
        cluster[victim].start(&[]);
        cluster.wait_until_joined();
    }
    // A node may still keep what was frozen for a coordinator that is gone.
    let last = wait_until_ok("a backup after all kills", || {
        let asked = url(&cluster, 1);
        let words = ["admin", "backup", "nas", "--json", "--url", &asked];
        let output = run(&words);
        if output.status.success() {
            Ok(serde_json::from_slice::<Value>(&output.stdout).unwrap())
        } else {
            Err(output)
        }
    });
    let expected = export(&url(&cluster, 0));
    for node in &mut cluster.nodes {
        node.kill();
        std::fs::remove_dir_all(&node.data).unwrap();
        let own = format!("http://{}", node.location.address);
        let id = last["id"].as_str().unwrap();
        restore(&target, &node.data, &own, &node.list, id);
    }
    for node in &mut cluster.nodes {
        node.start(&[]);
    }
    cluster.wait_until_joined();
    assert_eq!(export(&url(&cluster, 0)), expected);
}

#[test]
fn a_backup_says_what_is_missing_and_each_failure_has_its_line_and_code() {
    let (mut cluster, target) = cluster();
    let asked = url(&cluster, 0);
    succeed(&["put", "k", "v", "--ack", "3", "--url", &asked]);
    let good = back_up(&asked, &[]);
    let refused = |words: &[&str], code: i32, parts: &[&str]| {
        let words = [&["admin", "backup"], words, &["--url", &asked]].concat();
        let output = run(&words);
        let line = String::from_utf8(output.stderr.clone()).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        assert_eq!(line.lines().count(), 1, "{line}");
        for part in parts {
            assert!(line.contains(part), "{part}: {line}");
        }
    };
    // A target is a name.
    refused(&["tape"], 1, &["no backup target of this name, but nas"]);
    refused(&["list", "/etc"], 2, &["is no name of a target"]);
    refused(
        &["verify", "nas", "--id", "latest"],
        2,
        &["no name of a backup"],
    );
    let other = "20200101T000000Z-00000000";
    refused(
        &["verify", "nas", "--id", other],
        1,
        &["there is no backup", other],
    );

    // A folder that is away, and one that is not shared.
    let away = target.with_extension("away");
    std::fs::rename(&target, &away).unwrap();
    refused(&["nas"], 1, &["cannot open"]);
    refused(&["list", "nas"], 1, &["cannot open"]);
    std::fs::rename(&away, &target).unwrap();

    // A node that is down.
    cluster[2].kill();
    refused(&["nas"], 1, &["c: "]);
    let lacking = back_up(&asked, &["--missing-max", "1"]);
    assert_eq!(lacking["missing"], serde_json::json!(["c"]));
    let listed = succeed(&["admin", "backup", "list", "nas", "--url", &asked]);
    assert!(listed.contains("it lacks c"), "{listed}");
    cluster[2].start(&[]);
    cluster.wait_until_joined();

    // A damaged table.
    let tables = std::fs::read_dir(target.join("tables")).unwrap();
    let table = tables.map(|file| file.unwrap().path()).next().unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&table, &bytes).unwrap();
    let id = good["id"].as_str().unwrap();
    let verified = run(&[
        "admin", "backup", "verify", "nas", "--id", id, "--url", &asked,
    ]);
    let newest = run(&["admin", "backup", "verify", "nas", "--url", &asked]);
    let codes = [verified.status.code(), newest.status.code()];
    assert!(codes.contains(&Some(1)), "{verified:?} {newest:?}");
    bytes[middle] ^= 1;
    std::fs::write(&table, &bytes).unwrap();
    verify(&asked, id);

    // Only the newest stays.
    let words = [
        "admin", "backup", "prune", "nas", "--keep", "1", "--url", &asked,
    ];
    let pruned = succeed(&words);
    assert!(pruned.starts_with("removed 1 backup"), "{pruned}");
    assert_eq!(list(&asked), [lacking["id"].as_str().unwrap()]);
    verify(&asked, lacking["id"].as_str().unwrap());
}

#[test]
fn restored_nodes_and_those_of_the_old_cluster_refuse_each_other() {
    let (mut cluster, target) = cluster();
    let asked = url(&cluster, 0);
    succeed(&["put", "k", "v", "--ack", "3", "--url", &asked]);
    let id = back_up(&asked, &[])["id"].as_str().unwrap().to_owned();
    for node in &mut cluster.nodes {
        node.stop();
    }
    let old = cluster.folder.path().join("old");
    copy_folder(&cluster[2].data, &old);
    for node in &mut cluster.nodes {
        std::fs::remove_dir_all(&node.data).unwrap();
        let own = format!("http://{}", node.location.address);
        restore(&target, &node.data, &own, &node.list, &id);
    }
    // A node of the old cluster, and one that was forgotten in the restore.
    let restored = cluster[2].data.clone();
    let empty = cluster.folder.path().join("empty");
    for node in 0..2 {
        cluster[node].start(&[]);
    }
    for data in [old, empty] {
        cluster[2].data = data;
        cluster[2].start(&[]);
        cluster[0].wait_until_logged(&["WARN", "name=\"c\"", "different clusters"]);
        cluster[2].wait_until_logged(&["WARN", "name=\"a\"", "different clusters"]);
        assert_ne!(cluster[0].state_of("c"), "up");
        assert_ne!(cluster[2].state_of("a"), "up");
        cluster[2].stop();
        // The other side says the same thing once.
        cluster[2].clear_log();
    }
    cluster[2].data = restored;
    cluster[2].start(&[]);
    cluster.wait_until_joined();
    let value = succeed(&["get", "k", "--ack", "3", "--url", &asked]);
    assert!(value.starts_with('v'), "{value}");

    // A folder that was used is left alone, and no node starts with a part of a store.
    let own = format!("http://{}", cluster[2].location.address);
    let (data, list) = (cluster[2].data.clone(), cluster[2].list.clone());
    let words = ["restore", "--from", target.to_str().unwrap(), "--data"];
    let words = [&words[..], &[data.to_str().unwrap(), "--url", &own]].concat();
    let again = run(&[&words[..], &["--cluster", &list]].concat());
    let line = String::from_utf8(again.stderr).unwrap();
    assert_eq!(again.status.code(), Some(1), "{line}");
    assert!(line.contains("is not empty"), "{line}");
    let part = cluster.folder.path().join("part");
    std::fs::create_dir(&part).unwrap();
    std::fs::copy(data.join("RESTORED"), part.join("RESTORING")).unwrap();
    let port = free_ports(1);
    let end = Process::spawn(&mut crate::support::serve(port, &part)).end();
    assert_eq!(end.code, Some(2), "{end:?}");
    assert!(end.stderr.contains("repeat `kvorum restore`"), "{end:?}");
}

#[test]
fn a_schedule_makes_a_backup_once_the_newest_is_old_enough() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("nas");
    std::fs::create_dir(&target).unwrap();
    let port = free_ports(1);
    let mut command = crate::support::serve(port, &folder.path().join("data"));
    command.arg(format!("--backup-target=nas={}", target.display()));
    let _node = started(&mut command, port);
    let asked = format!("http://127.0.0.1:{port}");
    let every = [
        "admin", "backup", "nas", "--every", "1h", "--keep", "2", "--url", &asked,
    ];
    let mut schedule = Process::spawn(&mut kvorum(&every));
    wait_until("the first backup", || {
        (list(&asked).len() == 1).then_some(())
    });
    schedule.child.kill().unwrap();
    schedule.end();
    for _ in 0..2 {
        back_up(&asked, &[]);
    }
    assert_eq!(list(&asked).len(), 3);
    // Another one sees that there is a new one, and has nothing to do.
    let mut other = kvorum(&every);
    let mut other = Process::spawn(other.stderr(std::process::Stdio::piped()));
    let stderr = other.child.stderr.take().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(stderr));
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("the next backup is due"), "{line}");
    assert_eq!(list(&asked).len(), 3);
}
