use super::*;
use crate::testing::store::{TestStore, entities, stream};
use crate::testing::tls::{TestAuthority, trusting_nobody};
use crate::testing::{SETTINGS, Script, TestNode, client_of, until};
use crate::{Remedy, Replicas, ScanRequest, Scope};
use api::Entity;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Mutex;

/// What an import has told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<(Position, Vec<LineFailure>)>>);

impl ImportObserver for Told {
    fn progress(&mut self, progress: &ImportProgress, _is_last: bool) -> io::Result<()> {
        self.0.lock().unwrap().0 = progress.position;
        Ok(())
    }

    fn passed_over(&mut self, failure: &LineFailure) {
        self.0.lock().unwrap().1.push(failure.clone());
    }

    fn waits(&mut self, _waiting: &Waiting) {}
}

fn settings() -> ImportSettings {
    ImportSettings {
        operation: ImportOperation::Put,
        replicas: Replicas::default(),
        shards: NonZeroUsize::new(3).unwrap(),
        patience: Duration::from_secs(60),
        passes_over: false,
    }
}

fn text_of(entities: &[Entity]) -> Vec<u8> {
    let mut text = Vec::new();
    for entity in entities {
        entity.write_line(false, &mut text);
    }
    text
}

async fn import_into<const N: usize>(
    nodes: [&TestNode; N],
    text: &[u8],
    from: Position,
    settings: ImportSettings,
    told: &Told,
) -> Result<ImportProgress, ImportError> {
    let nodes = nodes.iter().map(|node| node.node.clone()).collect();
    let client = Arc::new(client_of(nodes, SETTINGS));
    let input = io::Cursor::new(text.to_vec());
    import(client, input, from, settings, &mut told.clone()).await
}

/// Lines whose keys repeat, and what is there once the last line of each key has won.
fn repeating(lines: usize, random: &mut fastrand::Rng) -> (Vec<u8>, Vec<Entity>) {
    let base = entities(lines / 4, random);
    let mut last = BTreeMap::new();
    let all: Vec<Entity> = (0..lines)
        .map(|number| {
            let mut entity = base[random.usize(..base.len())].clone();
            entity.value = Some(format!("of line {number}").into_bytes());
            last.insert(entity.key.clone(), entity.clone());
            entity
        })
        .collect();
    (text_of(&all), last.into_values().collect())
}

/// A node that fails in every way that a node can, now and then.
fn failing_node(store: &TestStore, seed: u64) -> TestNode {
    let (store, mut random) = (store.clone(), fastrand::Rng::with_seed(seed));
    TestNode::answering(move |request| match random.u8(..8) {
        0 => Script::status(503, "Retry-After: 0\r\n", r#"{"detail":"busy"}"#),
        1 => Script::Cut(Vec::new()),
        2 => {
            // Some operations are done, and fewer are answered.
            let done = random.usize(..200);
            let lines = request.body.split_inclusive(|byte| *byte == b'\n');
            let body: Vec<u8> = lines.take(done).flatten().copied().collect();
            let answer = stream(&store.run(&body, |_| 201), None);
            Script::Cut(answer[..random.usize(..answer.len())].to_vec())
        }
        3 => {
            let statuses = [201, 201, 503, 504, 507];
            let lines = store.run(&request.body, |_| statuses[random.usize(..5)]);
            Script::Answer(stream(&lines, None))
        }
        _ => Script::Answer(store.answer(request)),
    })
}

#[tokio::test]
async fn every_line_arrives_however_nodes_fail_and_the_last_line_of_a_key_wins() {
    for seed in 0..3 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (text, expected) = repeating(4000, &mut random);
        let store = TestStore::default();
        let (one, two) = (failing_node(&store, seed), failing_node(&store, !seed));
        let told = Told::default();
        let imported = import_into([&one, &two], &text, Position::default(), settings(), &told);
        let imported = imported.await.unwrap();
        assert!(store.entities() == expected, "seed {seed}");
        assert_eq!(imported.position.bytes, text.len() as u64);
        assert_eq!((imported.position.lines, imported.stored), (4000, 4000));
    }
}

#[tokio::test]
async fn an_import_that_is_killed_anywhere_goes_on_without_losing_a_line() {
    for seed in 0..5 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (text, expected) = repeating(20_000, &mut random);
        let store = TestStore::default();
        // The import is killed when a batch arrives, which may be done or not.
        let mut left = random.usize(1..20);
        let (killed, mut kill) = mpsc::channel(100);
        let node = {
            let (store, mut random) = (store.clone(), random.clone());
            TestNode::answering(move |request| {
                left = left.saturating_sub(1);
                if left == 0 {
                    let _ = killed.try_send(());
                    if random.bool() {
                        store.run(&request.body, |_| 201);
                    }
                    return Script::Cut(Vec::new());
                }
                Script::Answer(store.answer(request))
            })
        };
        let told = Told::default();
        tokio::select! {
            ended = import_into([&node], &text, Position::default(), settings(), &told) => {
                panic!("it ended: {ended:?}");
            }
            _ = kill.recv() => {}
        }
        let position = told.0.lock().unwrap().0;
        let node = store.node();
        let resumed = import_into([&node], &text, position, settings(), &told).await;
        assert_eq!(resumed.unwrap().position.lines, 20_000);
        assert!(
            store.entities() == expected,
            "seed {seed}, from {position:?}"
        );
    }
}

#[tokio::test]
async fn the_position_is_told_while_the_import_runs() {
    // The node holds one batch back until the position was told that others allow.
    let (text, expected) = repeating(20_000, &mut fastrand::Rng::with_seed(1));
    let store = TestStore::default();
    let told = Told::default();
    let node = {
        let (store, told) = (store.clone(), told.clone());
        let mut batches = 0;
        TestNode::answering(move |request| {
            batches += 1;
            if batches == 20 {
                until("a position", || told.0.lock().unwrap().0.lines > 0);
            }
            Script::Answer(store.answer(request))
        })
    };
    let imported = import_into([&node], &text, Position::default(), settings(), &told);
    imported.await.unwrap();
    assert!(store.entities() == expected);
}

#[tokio::test]
async fn what_is_exported_and_imported_is_exported_the_same() {
    for seed in 0..4 {
        let all = entities(2000, &mut fastrand::Rng::with_seed(seed));
        let text = text_of(&all);
        let store = TestStore::default();
        let node = store.node();
        let told = Told::default();
        let imported = import_into([&node], &text, Position::default(), settings(), &told);
        imported.await.unwrap();
        let client = client_of(vec![node.node.clone()], SETTINGS);
        let mut reader = client.scan(ScanRequest::all(Scope::Cluster));
        let mut again = Vec::new();
        while let Some(entity) = reader.next().await.unwrap() {
            entity.write_line(false, &mut again);
        }
        assert!(again == text, "seed {seed}");
    }
}

#[tokio::test]
async fn a_line_that_cannot_be_stored_ends_the_import_or_is_passed_over() {
    let all = entities(3000, &mut fastrand::Rng::with_seed(3));
    let lines = all.len() as u64;
    let good = text_of(&all);
    let bad = [&good[..], b"{\"key\":\"k\"}\n", &good].concat();
    let store = TestStore::default();
    let node = store.node();
    let told = Told::default();
    let ended = import_into([&node], &bad, Position::default(), settings(), &told).await;
    let Err(ImportError::Line(failure)) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(failure.line, lines + 1);
    // All before it is stored, and known to be.
    assert!(store.entities() == all);
    assert_eq!(told.0.lock().unwrap().0.lines, lines);
    let passing = ImportSettings {
        passes_over: true,
        ..settings()
    };
    let ended = import_into([&node], &bad, Position::default(), passing, &told)
        .await
        .unwrap();
    assert_eq!(ended.position.passed_over, 1);
    assert_eq!(
        (ended.position.lines, ended.stored),
        (2 * lines + 1, 2 * lines)
    );
    assert_eq!(told.0.lock().unwrap().1, [failure]);
    // A line that a node refuses.
    let refusing = {
        let store = store.clone();
        TestNode::answering(move |request| {
            let long = request.body.len() > 100_000_000;
            let lines = store.run(
                &request.body,
                |index| if index == 7 && !long { 413 } else { 201 },
            );
            Script::Answer(stream(&lines, None))
        })
    };
    let ended = import_into([&refusing], &good, Position::default(), settings(), &told).await;
    let Err(ImportError::Line(failure)) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(failure.problem, "why 413");
    let ended = import_into([&refusing], &good, Position::default(), passing, &told)
        .await
        .unwrap();
    assert_eq!(ended.position.passed_over + ended.stored, lines);
    assert!(ended.position.passed_over > 0);
}

#[tokio::test]
async fn patience_ends_and_a_node_without_batches_is_no_reason_to_wait() {
    let text = text_of(&entities(10, &mut fastrand::Rng::with_seed(4)));
    let busy = TestNode::new(vec![Script::status(503, "", r#"{"detail":"busy"}"#)]);
    let told = Told::default();
    let impatient = ImportSettings {
        patience: Duration::from_millis(1),
        ..settings()
    };
    let ended = import_into([&busy], &text, Position::default(), impatient, &told).await;
    let Err(ImportError::GaveUp(Waiting { problem, .. })) = ended else {
        panic!("{ended:?}");
    };
    assert!(problem.contains("busy"), "{problem}");
    assert_eq!(told.0.lock().unwrap().0, Position::default());
    let unknown = r#"{"type":"urn:kvorum:problem:unknown-path","detail":"nothing"}"#;
    let old = Script::status(400, "", unknown);
    let other = Script::status(200, "Content-Type: text/html\r\n", "<html>\n");
    for script in [old, other] {
        let node = TestNode::new(vec![script]);
        let ended = import_into([&node], &text, Position::default(), settings(), &told).await;
        assert!(matches!(ended, Err(ImportError::Refused(_))), "{ended:?}");
        assert!(!node.lines().is_empty());
    }
}

#[tokio::test]
async fn an_import_does_not_wait_for_nodes_that_it_does_not_trust() {
    let text = text_of(&entities(10, &mut fastrand::Rng::with_seed(5)));
    let authority = TestAuthority::new();
    let server = authority.server(&authority.identity("127.0.0.1", false));
    let mut nodes = [0; 2].map(|_| TestNode::with_tls(vec![Script::Hang], Arc::clone(&server)));
    for node in &mut nodes {
        node.node = node.node.clone().with_tls(trusting_nobody()).unwrap();
    }
    let told = Told::default();
    let patient = ImportSettings {
        patience: Duration::from_secs(1 << 30),
        ..settings()
    };
    let ended = import_into(
        [&nodes[0], &nodes[1]],
        &text,
        Position::default(),
        patient,
        &told,
    );
    let ended = ended.await;
    let Err(ImportError::Refused(error)) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(error.remedy(), Remedy::Identify, "{error}");
    let line = error.to_string();
    for node in &nodes {
        assert!(line.contains(node.node.url()), "{line}");
    }
}
