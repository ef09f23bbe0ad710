use super::*;
use crate::Client;
use crate::testing::{SETTINGS, client_of, closed_node};
use http_testing::Connection;
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const NONE: Replicas = Replicas {
    ack: None,
    from: None,
};

/// What a node does with a batch of a pipeline.
enum Step {
    /// Answers so many lines, the oldest ones that it has not answered.
    Answer(usize),
    /// The same, and closes the connection.
    Cut(usize),
}

/// A node that answers a pipeline: the `n`th line of all with the version `n`.
struct PipelineNode {
    node: crate::Node,
    connections: Arc<AtomicUsize>,
    /// The most lines that waited at a time.
    waiting_max: Arc<AtomicUsize>,
}

impl PipelineNode {
    /// `steps` says what it does with each batch; beyond them it answers what it has.
    fn new(steps: Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let node = Self {
            node: crate::Node::new("127.0.0.1", port),
            connections: Arc::default(),
            waiting_max: Arc::default(),
        };
        let connections = Arc::clone(&node.connections);
        let waiting_max = Arc::clone(&node.waiting_max);
        let steps = Arc::new(Mutex::new(steps.into_iter()));
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                connections.fetch_add(1, Ordering::SeqCst);
                let mut connection = Connection::over(stream).unwrap();
                let (steps, waiting_max) = (Arc::clone(&steps), Arc::clone(&waiting_max));
                std::thread::spawn(move || {
                    while connection.receive_head().is_ok() {
                        let mut next = || steps.lock().unwrap().next();
                        if !serve(&mut connection, &mut next, &waiting_max) {
                            return;
                        }
                    }
                });
            }
        });
        node
    }
}

/// Serves a pipeline. Returns whether it came to its end.
fn serve(
    connection: &mut Connection,
    next: &mut dyn FnMut() -> Option<Step>,
    waiting_max: &AtomicUsize,
) -> bool {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    let _ = connection.send(head);
    let (mut received, mut answered) = (0, 0);
    while let Ok(Some(lines)) = connection.chunk() {
        received += lines.iter().filter(|byte| **byte == b'\n').count();
        waiting_max.fetch_max(received - answered, Ordering::SeqCst);
        let (count, is_cut) = match next() {
            None => (received - answered, false),
            Some(Step::Answer(count)) => (count, false),
            Some(Step::Cut(count)) => (count, true),
        };
        for _ in 0..count {
            let line = format!("{{\"status\":201,\"version\":\"{answered}\"}}\n");
            let _ = connection.send(format!("{:x}\r\n{line}\r\n", line.len()));
            answered += 1;
        }
        if is_cut {
            return false;
        }
    }
    connection.send("0\r\n\r\n").is_ok()
}

fn batch(operations: usize) -> Vec<BatchOperation> {
    let put = |number: usize| BatchOperation::put(number.to_string().as_bytes(), b"v", None, None);
    (0..operations).map(put).collect()
}

async fn open(client: &Client, batches_max: usize) -> Pipeline<'_> {
    let batches_max = NonZeroUsize::new(batches_max).unwrap();
    client.pipeline(NONE, batches_max).await.unwrap()
}

/// The versions that a batch has written, of the operations that are known to be done.
fn versions(answers: &BatchAnswers) -> Vec<&str> {
    let done = answers.iter().filter_map(|answer| answer.as_ref().ok());
    done.map(|answer| answer.version.as_deref().unwrap())
        .collect()
}

/// The node answers nothing until the third batch is there.
#[tokio::test]
async fn batches_are_sent_before_those_before_them_are_answered_and_answered_in_order() {
    let node = PipelineNode::new(vec![Step::Answer(0), Step::Answer(0), Step::Answer(6)]);
    let client = client_of(vec![node.node.clone()], SETTINGS);
    let mut pipeline = open(&client, 4).await;
    for operations in [2, 0, 1, 3] {
        pipeline.send(&batch(operations)).await.unwrap();
    }
    let mut told = Vec::new();
    while let Some(answers) = pipeline.next().await {
        told.push(versions(&answers).join(" "));
    }
    assert_eq!(told, ["0 1", "", "2", "3 4 5"]);
    assert_eq!(node.waiting_max.load(Ordering::SeqCst), 6);
    // It goes on, and then its connection is used again.
    pipeline.send(&batch(1)).await.unwrap();
    assert_eq!(versions(&pipeline.next().await.unwrap()), ["6"]);
    pipeline.finish().await;
    open(&client, 3).await.finish().await;
    assert_eq!(node.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn so_many_batches_wait_as_may_and_their_answers_are_kept() {
    // It answers one batch less than it has got.
    let steps = (0..20).map(|number| Step::Answer(if number < 2 { 0 } else { 5 }));
    let node = PipelineNode::new(steps.collect());
    let client = client_of(vec![node.node.clone()], SETTINGS);
    let mut pipeline = open(&client, 3).await;
    for _ in 0..20 {
        pipeline.send(&batch(5)).await.unwrap();
    }
    assert_eq!(node.waiting_max.load(Ordering::SeqCst), 15);
    let mut told = Vec::new();
    while let Some(answers) = pipeline.answered() {
        told.extend(versions(&answers).into_iter().map(str::to_owned));
    }
    let expected: Vec<String> = (0..5 * 17).map(|number| number.to_string()).collect();
    assert_eq!(told, expected, "the last three batches wait");
}

#[tokio::test]
async fn a_pipeline_that_breaks_tells_what_is_done_and_that_the_rest_is_unknown() {
    let node = PipelineNode::new(vec![Step::Answer(0), Step::Answer(0), Step::Cut(3)]);
    let client = client_of(vec![node.node.clone()], SETTINGS);
    let mut pipeline = open(&client, 4).await;
    for _ in 0..3 {
        pipeline.send(&batch(2)).await.unwrap();
    }
    let mut told = Vec::new();
    while let Some(answers) = pipeline.next().await {
        let unknown = |answer: &Result<BatchAnswer, Error>| {
            let error = answer.as_ref().unwrap_err();
            assert!(error.is_unknown(), "{error}");
        };
        let done = versions(&answers).len();
        answers[done..].iter().for_each(unknown);
        told.push((done, answers.len()));
    }
    assert_eq!(told, [(2, 2), (1, 2), (0, 2)]);
    // Nothing of a batch is done that comes later.
    let error = pipeline.send(&batch(1)).await.unwrap_err();
    assert!(!error.is_unknown(), "{error}");
    assert!(pipeline.next().await.is_none());
    pipeline.finish().await;
    open(&client, 1).await;
    assert_eq!(node.connections.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_pipeline_opens_at_the_first_node_that_takes_it() {
    let node = PipelineNode::new(Vec::new());
    let client = client_of(vec![closed_node(), node.node.clone()], SETTINGS);
    let mut pipeline = open(&client, 1).await;
    pipeline.send(&batch(1)).await.unwrap();
    assert_eq!(versions(&pipeline.next().await.unwrap()), ["0"]);
    assert!(pipeline.next().await.is_none());
}
