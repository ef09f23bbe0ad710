//! The client against three real nodes, of which one is killed. `check` builds it with the packed crate.

use kvorum::{
    BatchCondition, BatchOperation, Client, Condition, Error, Node, Operand, Replicas, ScanRequest,
    Scope, Settings,
};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};

const ANY: Replicas = Replicas {
    ack: None,
    from: None,
};
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// Three nodes, which end with the test.
struct Cluster {
    nodes: Child,
    output: BufReader<ChildStdout>,
    urls: Vec<String>,
}

impl Cluster {
    fn start() -> Self {
        let program = std::env::var("KVORUM_TEST_NODES").unwrap();
        let mut nodes = Command::new(program);
        let mut nodes = nodes
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(nodes.stdout.take().unwrap());
        let mut cluster = Self {
            nodes,
            output,
            urls: Vec::new(),
        };
        let told = cluster.line();
        let urls = told["urls"].as_array().unwrap().iter();
        cluster.urls = urls.map(|url| url.as_str().unwrap().to_owned()).collect();
        cluster
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(told.get("error"), None);
        told
    }

    /// Has it done, such as `kill 3`.
    fn order(&mut self, words: &str) {
        writeln!(self.nodes.stdin.as_mut().unwrap(), "{words}").unwrap();
        self.line();
    }

    fn client(&self) -> Client {
        let nodes = self.urls.iter().map(|url| url.parse().unwrap());
        Client::new(nodes.collect::<Vec<Node>>(), Settings::default()).unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.nodes.stdin.take());
        let _ = self.nodes.wait();
    }
}

fn status_of<T>(ended: Result<T, Error>) -> u16 {
    ended
        .err()
        .and_then(|error| error.refusal().map(|refusal| refusal.status))
        .unwrap_or(0)
}

async fn put_orders(client: &Client) {
    let orders = [
        ("1", r#"{"country":"DE","total":120.5}"#),
        ("2", r#"{"country":"FR","total":80}"#),
        ("3", r#"{"country":"DE","total":310}"#),
        ("4", r#"{"country":"FR","total":150}"#),
        ("note", "call back"),
    ];
    let puts = orders.map(|(key, value)| {
        BatchOperation::put(
            format!("order/{key}").as_bytes(),
            value.as_bytes(),
            None,
            None,
        )
    });
    for stored in client.batch(&puts, ANY).await.unwrap() {
        assert_eq!(stored.unwrap().status, 201);
    }
}

async fn batch(client: &Client) {
    let key = b"batch/\xff";
    let first = client.put(key, "1".into(), None, ANY).await.unwrap();
    let changed = Some(BatchCondition::Version("1"));
    let same = Some(BatchCondition::Version(&first.version));
    let operations = [
        BatchOperation::put(key, b"2", None, Some(BatchCondition::Absent)),
        BatchOperation::put(key, b"\xfe", Some(60), same),
        BatchOperation::get(key),
        BatchOperation::touch(key, None, changed),
        BatchOperation::touch(key, None, None),
        BatchOperation::delete(key, None),
        BatchOperation::get(key),
    ];
    let answers = client.batch(&operations, ANY).await.unwrap();
    let read = answers[2].as_ref().unwrap();
    assert_eq!(
        (read.value.as_deref(), read.expires.is_some()),
        (Some(&b"\xfe"[..]), true)
    );
    let statuses: Vec<u16> = answers.into_iter().map(status_of).collect();
    assert_eq!(statuses, [412, 0, 0, 412, 0, 0, 404]);
}

async fn questions(client: &Client) {
    put_orders(client).await;
    let mut orders = ScanRequest::all(Scope::Cluster);
    orders.set_prefix(b"order/");
    orders.condition = Some("value.total > 100".to_owned());
    assert_eq!(client.count(&orders).await.unwrap(), 3);
    let mut scan = client.scan(orders.clone());
    let mut keys = Vec::new();
    while let Some(entity) = scan.next().await.unwrap() {
        keys.push(String::from_utf8(entity.key).unwrap());
    }
    assert_eq!(keys, ["order/1", "order/3", "order/4"]);
    let operands = [Operand::Sum("value.total".to_owned())];
    let by = ["value.country".to_owned()];
    let found = client.aggregate(&orders, &by, &operands).await.unwrap();
    assert_eq!(
        (found.keys, found.matched, found.ack, found.from),
        (5, 3, Some(2), Some(3))
    );
    let groups = found
        .groups
        .iter()
        .map(|group| (&group.by[0], group.count, &group.aggregates[0].value));
    let expected = [("DE".into(), 2, 430.5.into()), ("FR".into(), 1, 150.into())];
    assert_eq!(
        groups.collect::<Vec<_>>(),
        expected
            .each_ref()
            .map(|(by, count, sum)| (by, *count, sum))
    );
    orders.condition = Some("value.total >".to_owned());
    assert_eq!(status_of(client.count(&orders).await), 400);
}

async fn traces(cluster: &Cluster) {
    let client = cluster.client();
    let client = client.with_traceparent(|| Some(format!("00-{TRACE}-b7ad6b7169203331-01")));
    let many = Replicas {
        ack: Some(9),
        from: Some(9),
    };
    let error = client.get(b"k", many).await.unwrap_err();
    assert_eq!(
        error.refusal().unwrap().problem.trace.as_deref(),
        Some(TRACE)
    );
}

/// Only writes under way at that moment may be unknown.
async fn killed_node(cluster: &mut Cluster) {
    let client = cluster.client();
    let mut stored = Vec::new();
    for number in 0..200 {
        if number == 50 {
            cluster.order("kill 1");
        }
        let key = format!("kill/{number:03}").into_bytes();
        match client.put(&key, key.clone().into(), None, ANY).await {
            Ok(_) => assert_eq!(client.get(&key, ANY).await.unwrap().value, key),
            Err(error) if error.is_unknown() => continue,
            Err(error) => panic!("{error}"),
        }
        stored.push(key);
    }
    assert!(stored.len() >= 198, "{}", stored.len());
    let mut range = ScanRequest::all(Scope::Cluster);
    range.set_prefix(b"kill/");
    assert!(client.count(&range).await.unwrap() >= stored.len() as u64);
    let newest = client.put(b"k", "1".into(), None, ANY).await.unwrap();
    let stale = Condition::matches("\"0000000000000001-0000000000000000\"");
    assert_eq!(status_of(client.delete_if(b"k", ANY, &stale).await), 412);
    let same = Condition::matches(newest.etag.as_deref().unwrap());
    client.delete_if(b"k", ANY, &same).await.unwrap();
}

#[tokio::test]
async fn three_nodes() {
    let mut cluster = Cluster::start();
    let client = cluster.client();
    batch(&client).await;
    questions(&client).await;
    traces(&cluster).await;
    killed_node(&mut cluster).await; // It is last, because it kills a node.
}
