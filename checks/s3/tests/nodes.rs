//! Whole nodes, which back up to a bucket and are restored from it. `KVORUM` names the program.

#![allow(clippy::disallowed_methods, reason = "files and threads of a test")]

use s3_check::{BUCKET, KEY, SECRET, Server};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A process, which ends when it is dropped.
struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended.
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}

fn kvorum() -> Command {
    Command::new(std::env::var("KVORUM").expect("KVORUM names the program"))
}

fn run(words: &[&str]) -> Output {
    kvorum().args(words).output().unwrap()
}

fn succeed(words: &[&str]) -> String {
    let output = run(words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn ports<const N: usize>() -> [u16; N] {
    let sockets = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    sockets.map(|socket| socket.local_addr().unwrap().port())
}

fn urls(ports: &[u16]) -> Vec<String> {
    let urls = ports.iter().map(|port| format!("http://127.0.0.1:{port}"));
    urls.collect()
}

/// The value of --cluster.
fn list(urls: &[String]) -> String {
    let nodes = urls.iter().enumerate();
    let nodes = nodes.map(|(node, url)| format!("n{node}={url}"));
    nodes.collect::<Vec<_>>().join(",")
}

fn serve(data: &Path, url: &str, list: &str, place: &str) -> Node {
    let mut command = kvorum();
    command.args(["serve", "--data", data.to_str().unwrap(), "--url", url]);
    command.args([
        "--cluster",
        list,
        "--backup-target",
        &format!("cloud={place}"),
    ]);
    Node(
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    )
}

/// Repeats a command until it succeeds.
fn retry(words: &[&str]) -> String {
    let began = Instant::now();
    loop {
        let output = run(words);
        if output.status.success() {
            return String::from_utf8(output.stdout).unwrap();
        }
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{words:?}: {output:?}"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_cluster_is_backed_up_to_a_bucket_and_restored_from_it() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let credentials = folder.path().join("credentials");
    let text = format!("AWS_ACCESS_KEY_ID={KEY}\nAWS_SECRET_ACCESS_KEY={SECRET}\n");
    std::fs::write(&credentials, text).unwrap();
    std::fs::set_permissions(&credentials, PermissionsExt::from_mode(0o600)).unwrap();
    let place = format!(
        "{}&credentials={}",
        server.place("kvorum"),
        credentials.display()
    );
    let urls_ = urls(&ports::<3>());
    let list_ = list(&urls_);
    let data = |node: usize| folder.path().join(format!("data-{node}"));
    let nodes: Vec<Node> = (0..3)
        .map(|node| serve(&data(node), &urls_[node], &list_, &place))
        .collect();
    let url = urls_[0].as_str();
    retry(&["put", "k", "one", "--ack", "3", "--url", url]);
    retry(&["admin", "backup", "cloud", "--url", url]);
    succeed(&["put", "k", "two", "--ack", "3", "--url", url]);
    retry(&["admin", "backup", "cloud", "--keep", "5", "--url", url]);
    let listed = succeed(&["admin", "backup", "list", "cloud", "--url", url]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    let verified = succeed(&["admin", "backup", "verify", "cloud", "--url", url]);
    assert!(verified.contains("are as they were stored"), "{verified}");
    let pruned = succeed(&[
        "admin", "backup", "prune", "cloud", "--keep", "1", "--url", url,
    ]);
    assert!(pruned.starts_with("removed 1 backup"), "{pruned}");
    drop(nodes);
    assert!(
        server
            .folder
            .path()
            .join(BUCKET)
            .join("kvorum/cluster.json")
            .exists()
    );

    let urls_ = urls(&ports::<2>());
    let list_ = list(&urls_);
    let restored = |node: usize| folder.path().join(format!("restored-{node}"));
    for (node, url) in urls_.iter().enumerate() {
        let data = restored(node);
        succeed(&[
            "restore",
            "--from",
            &place,
            "--data",
            data.to_str().unwrap(),
            "--url",
            url,
            "--cluster",
            &list_,
        ]);
    }
    let _nodes: Vec<Node> = urls_
        .iter()
        .enumerate()
        .map(|(node, url)| serve(&restored(node), url, &list_, &place))
        .collect();
    let url = urls_[0].as_str();
    let value = retry(&["get", "k", "--ack", "2", "--url", url]);
    assert!(value.starts_with("two"), "{value}");
    // The bucket belongs to the cluster that was, until this one takes it over.
    let refused = run(&["admin", "backup", "cloud", "--url", url]);
    let line = String::from_utf8(refused.stderr).unwrap();
    assert!(line.contains("belongs to another cluster"), "{line}");
    retry(&["admin", "backup", "cloud", "--adopt", "--url", url]);
    retry(&["admin", "backup", "cloud", "--url", url]);
}
