use super::*;
use crate::testing::store::{TestStore, Trailers, entities, stream};
use crate::testing::{Request, SETTINGS, Script, TestNode, client_of, closed_node};
use crate::{Node, Remedy};

fn sample(count: usize) -> (TestStore, Vec<Entity>) {
    let entities = entities(count, &mut fastrand::Rng::with_seed(5));
    (TestStore::of(entities.clone()), entities)
}

async fn read(client: &Client, request: ScanRequest) -> Result<Vec<Entity>, Error> {
    let mut reader = client.scan(request);
    let mut read = Vec::new();
    while let Some(entity) = reader.next().await? {
        assert_eq!(entity.version.as_deref(), Some("9"));
        read.push(Entity {
            version: None,
            ..entity
        });
    }
    Ok(read)
}

fn client(nodes: &[&Node]) -> Client {
    client_of(nodes.iter().map(|node| (*node).clone()).collect(), SETTINGS)
}

/// The scan of all keys.
fn of_all() -> Request {
    Request {
        method: "GET".to_owned(),
        target: "/v0/entities?start=%00".to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
    }
}

/// The answer to the scan of all keys.
fn whole(store: &TestStore) -> Vec<u8> {
    store.answer(&of_all())
}

#[tokio::test]
async fn a_stream_that_is_cut_anywhere_goes_on_at_another_node() {
    let (store, all) = sample(12);
    let answer = whole(&store);
    for cut in 0..=answer.len() {
        let dies = TestNode::new(vec![Script::Cut(answer[..cut].to_vec())]);
        let lives = store.node();
        let client = client(&[&dies.node, &lives.node]);
        let read = read(&client, ScanRequest::all(Scope::Cluster)).await;
        assert_eq!(read.unwrap(), all, "cut at {cut}");
        let asked = lives.lines().len();
        assert_eq!(asked, usize::from(cut < answer.len()), "cut at {cut}");
    }
}

#[tokio::test]
async fn the_type_of_lines_may_have_parameters_and_another_type_is_another_server() {
    let (store, all) = sample(3);
    let whole = String::from_utf8(whole(&store)).unwrap();
    for (media_type, is_right) in [
        ("application/x-ndjson; charset=utf-8", true),
        ("Application/X-NDJSON ;charset=utf-8", true),
        ("application/x-ndjson-seq", false),
        ("application/json; charset=utf-8", false),
        ("", false),
    ] {
        let answer = whole.replacen("application/x-ndjson", media_type, 1);
        let node = TestNode::new(vec![Script::Cut(answer.into_bytes())]);
        let read = read(&client(&[&node.node]), ScanRequest::all(Scope::Cluster)).await;
        if is_right {
            assert_eq!(read.unwrap(), all, "{media_type}");
        } else {
            assert!(
                matches!(read, Err(Error::OtherServer { .. })),
                "{media_type}: {read:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_whole_stream_must_agree_with_its_trailers() {
    let (store, all) = sample(3);
    let lines = |edit: &dyn Fn(&mut Vec<String>)| {
        let mut lines: Vec<String> = all
            .iter()
            .map(|entity| {
                let mut line = Vec::new();
                let version = Some("9".to_owned());
                Entity {
                    version,
                    ..entity.clone()
                }
                .write_line(true, &mut line);
                String::from_utf8(line).unwrap()
            })
            .collect();
        edit(&mut lines);
        lines
    };
    let right = lines(&|_| {});
    let with = |count, digest| stream(&right, Some(Trailers { count, digest }));
    let ok = || Some(Trailers::default());
    let table = [
        ("right", with(None, None), None),
        (
            "a digest in small letters",
            {
                let text = String::from_utf8(with(None, None)).unwrap();
                let (body, digest) = text.split_once("crc32c=").unwrap();
                format!("{body}crc32c={}", digest.to_lowercase()).into_bytes()
            },
            None,
        ),
        (
            "another digest",
            with(None, Some("crc32c=00000000")),
            Some("digest"),
        ),
        (
            "another count",
            with(Some("4"), None),
            Some("3 entities arrived, but 4"),
        ),
        (
            "no trailers",
            stream(&right, None),
            Some("without count and digest"),
        ),
        (
            "a part of a line",
            stream(
                &lines(&|lines| {
                    lines[2].pop();
                }),
                ok(),
            ),
            Some("within a line"),
        ),
        (
            "no JSON",
            stream(&lines(&|lines| lines[1] = "key\n".to_owned()), ok()),
            Some("line 2"),
        ),
        (
            "keys fall",
            stream(&lines(&|lines| lines.swap(0, 1)), ok()),
            Some("out of order"),
        ),
        (
            "a key twice",
            stream(&lines(&|lines| lines[1] = lines[0].clone()), ok()),
            Some("out of order"),
        ),
    ];
    for (name, answer, problem) in table {
        let (node, other) = (TestNode::new(vec![Script::Answer(answer)]), store.node());
        let client = client(&[&node.node, &other.node]);
        let read = read(&client, ScanRequest::all(Scope::Cluster)).await;
        match problem {
            None => assert_eq!(read.unwrap(), all, "{name}"),
            Some(problem) => {
                let error = read.unwrap_err();
                assert!(matches!(error, Error::Damaged { .. }), "{name}: {error}");
                assert!(error.to_string().contains(problem), "{name}: {error}");
                assert_eq!(error.remedy(), Remedy::Other);
            }
        }
        assert!(other.lines().is_empty(), "{name}");
    }
}

#[tokio::test]
async fn a_scan_asks_for_what_it_needs() {
    let (store, all) = sample(30);
    let node = store.node();
    let client = client(&[&node.node]);
    let mut request = ScanRequest::all(Scope::Node);
    request.set_prefix(b"a");
    request.limit = Some(2);
    request.has_values = false;
    let found = read(&client, request.clone()).await.unwrap();
    let with_prefix = all.iter().filter(|entity| entity.key.starts_with(b"a"));
    let keys: Vec<&[u8]> = with_prefix.take(2).map(|entity| &*entity.key).collect();
    assert_eq!(
        found.iter().map(|entity| &*entity.key).collect::<Vec<_>>(),
        keys
    );
    assert!(found.iter().all(|entity| entity.value.is_none()));
    let asked: Vec<_> = node.requests().collect();
    assert_eq!(asked[0].method, "GET");
    assert_eq!(
        asked[0].target,
        "/v0/entities?start=a&end=b&limit=2&values=omit"
    );
    assert_eq!(asked[0].header("te"), Some("trailers"));
    assert_eq!(asked[0].header("accept"), Some("application/x-ndjson"));
    // Nothing is asked for an empty scan.
    request.end = Some(request.start.clone());
    assert!(read(&client, request.clone()).await.unwrap().is_empty());
    assert_eq!(client.count(&request).await.unwrap(), 0);
    assert!(node.lines().is_empty());
}

#[tokio::test]
async fn a_limit_counts_over_all_streams() {
    let (store, all) = sample(9);
    let answer = whole(&store);
    let fourth = answer
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'}')
        .nth(3)
        .unwrap()
        .0;
    // Behind the line, and its end.
    let dies = TestNode::new(vec![Script::Cut(answer[..fourth + 4].to_vec())]);
    let lives = store.node();
    for (limit, asked) in [(4, 0), (6, 1)] {
        let client = client(&[&dies.node, &lives.node]);
        let request = ScanRequest {
            limit: Some(limit),
            ..ScanRequest::all(Scope::Cluster)
        };
        let read = read(&client, request).await.unwrap();
        assert_eq!(read, all[..usize::try_from(limit).unwrap()]);
        let lines = lives.lines();
        assert_eq!(lines.len(), asked);
        assert!(
            lines.iter().all(|line| line.contains("limit=2")),
            "{lines:?}"
        );
    }
}

/// What a node lists by a delimiter, from the key on that the request names.
fn listed(request: &Request) -> Vec<u8> {
    let query = request.target.split_once("start=").unwrap().1;
    let start = query.split('&').next().unwrap();
    let start = crate::parse_percent(start.as_bytes()).unwrap();
    let lines = [
        ("a/", "{\"prefix\":\"a/\"}\n"),
        ("b", "{\"key\":\"b\",\"version\":\"9\"}\n"),
        ("c/", "{\"prefix\":\"c/\"}\n"),
    ];
    let lines = lines.iter().filter(|(name, _)| name.as_bytes() >= &*start);
    let lines: Vec<String> = lines.map(|(_, line)| (*line).to_owned()).collect();
    stream(&lines, Some(Trailers::default()))
}

#[tokio::test]
async fn a_level_of_a_tree_goes_on_behind_its_last_line() {
    let mut request = ScanRequest::all(Scope::Cluster);
    request.delimiter = Some(b"/".to_vec());
    let all = listed(&of_all());
    for cut in 0..=all.len() {
        let dies = TestNode::new(vec![Script::Cut(all[..cut].to_vec())]);
        let lives = TestNode::answering(|request| Script::Answer(listed(request)));
        let client = client(&[&dies.node, &lives.node]);
        let mut reader = client.scan(request.clone());
        let mut told = Vec::new();
        while let Some(line) = reader.next_line().await.unwrap() {
            told.push(match line {
                ListedLine::Entity(entity) => entity.key,
                ListedLine::Prefix(prefix) => prefix,
            });
        }
        assert_eq!(told, [&b"a/"[..], b"b", b"c/"], "cut at {cut}");
    }
}

#[tokio::test]
async fn a_level_below_a_prefix_names_the_prefix_and_the_delimiter() {
    let node = TestNode::answering(|_| Script::Answer(stream(&[], Some(Trailers::default()))));
    let client = client(&[&node.node]);
    let mut request = ScanRequest::all(Scope::Cluster);
    request.set_prefix(b"b/");
    request.delimiter = Some(b"/".to_vec());
    assert!(client.scan(request).next_line().await.unwrap().is_none());
    let asked = "start=b%2F&delimiter=%2F&prefix=b%2F&scope=cluster";
    assert!(node.lines()[0].contains(asked), "{:?}", node.lines());
}

#[tokio::test]
async fn the_scan_of_a_node_stays_at_that_node_and_patience_ends() {
    let node = TestNode::new(vec![Script::Cut(Vec::new())]);
    let (store, _) = sample(1);
    let other = store.node();
    let settings = Settings {
        retries: 1,
        ..SETTINGS
    };
    let client = client_of(vec![node.node.clone(), other.node.clone()], settings);
    let error = read(&client, ScanRequest::all(Scope::Node))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Cut { .. }), "{error}");
    assert_eq!((node.lines().len(), other.lines().len()), (2, 0));
}

#[test]
fn a_prefix_ends_before_the_next_one() {
    for (prefix, end) in [
        (&b"a"[..], Some(&b"b"[..])),
        (b"user/", Some(b"user0")),
        (b"a\xff", Some(b"b")),
        (b"\xff\xff", None),
    ] {
        let mut request = ScanRequest::all(Scope::Cluster);
        request.set_prefix(prefix);
        assert_eq!(request.end.as_deref(), end);
        assert_eq!(request.start, prefix);
    }
}

#[tokio::test]
async fn the_count_of_one_node_is_never_that_of_another() {
    let other = TestNode::new(vec![Script::status(200, "", "{\"count\":7}")]);
    let client = client(&[&closed_node(), &other.node]);
    for (scope, expected) in [(Scope::Cluster, Some(7)), (Scope::Node, None)] {
        let counted = client.count(&ScanRequest::all(scope)).await;
        assert_eq!(counted.ok(), expected, "{scope:?}");
    }
    assert_eq!(other.lines().len(), 1);
}

#[tokio::test]
async fn the_page_of_another_server_is_no_scan() {
    let fields = "Content-Type: text/html\r\n";
    let other = TestNode::new(vec![Script::status(200, fields, "<html>\n")]);
    let client = client(&[&other.node]);
    let all = ScanRequest::all(Scope::Cluster);
    let counted = client.count(&all).await.unwrap_err();
    let error = read(&client, all).await.unwrap_err();
    for error in [counted, error] {
        assert!(matches!(error, Error::OtherServer { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_scan_is_given_up_after_the_silence_that_the_caller_allows() {
    let (store, all) = sample(3);
    let (hangs, lives) = (TestNode::new(vec![Script::Hang]), store.node());
    let nodes = vec![hangs.node.clone(), lives.node.clone()];
    let settings = Settings {
        scan_silence_max: Some(Duration::from_millis(100)),
        ..SETTINGS
    };
    let client = client_of(nodes, settings);
    let request = ScanRequest::all(Scope::Cluster);
    assert_eq!(read(&client, request).await.unwrap(), all);
}
