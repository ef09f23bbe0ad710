//! Imports, scans and exports as users run them, over nodes that are killed and commands
//! that are killed: no line is lost, and what comes out is what went in, to the last byte.

use crate::commands::keys::{cluster, run, succeed, url};
use crate::support::{Process, free_port, free_ports, kvorum, serve, started, wait_until};
use api::Entity;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

/// Entities with keys and values of all kinds: text and not, with ends of lines, empty,
/// long, with and without an expiry.
fn entities(count: usize) -> Vec<Entity> {
    let mut random = fastrand::Rng::with_seed(18);
    let entities = (0..count).map(|number| {
        let key = match number % 4 {
            0 => format!("user/{number:06}").into_bytes(),
            1 => format!("line\n{number}\t\"%").into_bytes(),
            2 => [&b"\xff\0\xfe"[..], &number.to_be_bytes()].concat(),
            _ => format!("\u{e4}\u{1f980}{number}").into_bytes(),
        };
        let value: Vec<u8> = match number % 5 {
            0 => Vec::new(),
            1 => format!("{{\"n\":{number}}}\n").into_bytes(),
            2 => (0..random.usize(..3000)).map(|_| random.u8(..)).collect(),
            3 => "\u{1}\\".repeat(random.usize(..300)).into_bytes(),
            _ => "v".repeat(random.usize(..300)).into_bytes(),
        };
        let expires = (number % 3 == 0).then(|| "2126-11-22T16:00:00.250Z".to_owned());
        let entity = Entity {
            key: key.clone(),
            value: Some(value),
            version: None,
            expires,
        };
        (key, entity)
    });
    entities.collect::<BTreeMap<_, _>>().into_values().collect()
}

/// The lines of entities, as an export writes them.
fn text_of(entities: &[Entity]) -> Vec<u8> {
    let mut text = Vec::new();
    for entity in entities {
        entity.write_line(false, &mut text);
    }
    text
}

#[expect(clippy::disallowed_methods, reason = "a file of a user")]
fn write(file: &Path, text: &[u8]) {
    std::fs::write(file, text).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "a file of a user")]
fn read(file: &Path) -> Vec<u8> {
    std::fs::read(file).unwrap()
}

/// The member of a file of JSON, if it is there.
fn position(file: &Path) -> Option<u64> {
    if !file.exists() {
        return None;
    }
    let position: serde_json::Value = serde_json::from_slice(&read(file)).ok()?;
    position["lines"].as_u64()
}

#[test]
fn an_import_that_is_killed_goes_on_and_an_export_gives_back_every_byte() {
    let (folder, first) = (tempfile::tempdir().unwrap(), free_ports(3));
    let mut nodes = cluster(first, 3, folder.path());
    let urls = [url(first), url(first + 1), url(first + 2)].join(",");
    wait_until("the first write", || {
        let output = run(&["put", "k", "v", "--ack", "3", "--url", &urls], b"");
        output.status.success().then_some(())
    });
    succeed(&["delete", "k", "--ack", "3", "--url", &urls], b"");
    let all = entities(6000);
    let text = text_of(&all);
    let file = folder.path().join("all.ndjson");
    write(&file, &text);
    let kept = folder.path().join("kept");
    let import = |input: &str, more: &[&str]| {
        let kept = kept.to_str().unwrap();
        let words = [
            "import",
            input,
            "--ack",
            "3",
            "--url",
            &urls,
            "--position",
            kept,
        ];
        [&words[..], more]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<String>>()
    };

    // The import gets two thirds of the lines, and is killed once some of them are known to
    // be stored, while others are under way.
    let mut half = Process::spawn(kvorum(&import("-", &[])).stdin(Stdio::piped()));
    let mut stdin = half.child.stdin.take().unwrap();
    stdin.write_all(&text[..text.len() / 3 * 2]).unwrap();
    let lines = wait_until("a position", || position(&kept).filter(|lines| *lines > 0));
    half.signal(Signal::KILL);
    half.end();
    assert!(lines < 6000, "{lines}");

    // Without --resume it does not begin anew by itself.
    let file = file.to_str().unwrap();
    let words = import(file, &[]);
    let output = run(&words.iter().map(String::as_str).collect::<Vec<_>>(), b"");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let words = import(file, &["--resume", "--json"]);
    let done = succeed(&words.iter().map(String::as_str).collect::<Vec<_>>(), b"");
    let done: serde_json::Value = serde_json::from_slice(&done).unwrap();
    assert_eq!(done["lines"], 6000, "{done}");
    assert!(
        done["stored"].as_u64().unwrap() <= 6000 - lines,
        "{done} from {lines}"
    );
    assert!(!kept.exists());

    // Each node gives back what went in.
    let out = folder.path().join("out.ndjson");
    let name = out.to_str().unwrap();
    for node in 0..3 {
        let node = url(first + node);
        if out.exists() {
            let refused = run(&["export", name, "--node", "--url", &node], b"");
            let line = String::from_utf8(refused.stderr).unwrap();
            assert_eq!(refused.status.code(), Some(2), "{line}");
            assert!(line.contains("--overwrite"), "{line}");
            write(&out, b"earlier");
        }
        succeed(
            &["export", name, "--node", "--overwrite", "--url", &node],
            b"",
        );
        assert!(read(&out) == text, "{node}");
    }

    // An export that was cut within a line goes on behind the last whole one.
    let partial = folder.path().join("out.ndjson.partial");
    write(&partial, &text[..text.len() / 2]);
    let output = run(&["export", name, "--overwrite", "--url", &urls], b"");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    succeed(
        &["export", name, "--resume", "--overwrite", "--url", &urls],
        b"",
    );
    assert!(read(&out) == text && !partial.exists());

    // Compressed, it is the same input.
    for end in ["gz", "zst"] {
        let packed = folder.path().join(format!("out.ndjson.{end}"));
        let name = packed.to_str().unwrap();
        succeed(&["export", name, "--url", &urls], b"");
        assert!(read(&packed).len() < text.len(), "{end}");
        let done = succeed(
            &["import", name, "--json", "--ack", "3", "--url", &urls],
            b"",
        );
        let done: serde_json::Value = serde_json::from_slice(&done).unwrap();
        assert_eq!(done["stored"], 6000, "{end}");
        succeed(&["export", name, "--overwrite", "--url", &urls], b"");
    }
    let name = out.to_str().unwrap();
    succeed(&["export", name, "--overwrite", "--url", &urls], b"");
    assert!(read(&out) == text);

    // A node is killed while a scan runs.
    let keys = || all.iter().filter(|entity| entity.key.starts_with(b"user/"));
    let arguments = ["scan", "--prefix", "user/", "--json", "--url", &urls];
    let mut scan = Process::spawn(&mut kvorum(&arguments));
    let mut lines = BufReader::new(scan.child.stdout.take().unwrap()).split(b'\n');
    let mut found = vec![lines.next().unwrap().unwrap()];
    nodes[0].signal(Signal::KILL);
    nodes[0].end();
    found.extend(lines.map(Result::unwrap));
    assert_eq!(scan.end().code, Some(0));
    let found: Vec<Entity> = found
        .iter()
        .map(|line| Entity::parse(line).unwrap())
        .collect();
    let are_equal = found.iter().zip(keys()).all(|(found, put)| {
        (&found.key, &found.value, &found.expires) == (&put.key, &put.value, &put.expires)
    });
    assert!(
        are_equal && found.len() == keys().count(),
        "{}",
        found.len()
    );
}

#[test]
fn each_failure_of_a_transfer_has_its_exit_code_and_one_line() {
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    let _node = started(&mut serve(port, &folder.path().join("data")), port);
    let (node, down) = (&*url(port), &*url(free_port()));
    let file = |name: &str, text: &str| {
        let file = folder.path().join(name);
        write(&file, text.as_bytes());
        file.to_str().unwrap().to_owned()
    };
    let good = &*file(
        "good",
        "{\"key\":\"a\",\"value\":\"1\"}\n\n{\"key\":\"b\",\"value\":\"2\"}",
    );
    let bad = &*file("bad", "{\"key\":\"c\",\"value\":\"3\"}\n{\"key\":\"d\"}\n");
    let cut = &*file("cut", "{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"b\",");
    file("old.position", "{\"version\":9}\n");
    let old = &*file("old", "");
    file(
        "other.position",
        &format!(
            "{{\"version\":2,\"lines\":1,\"bytes\":5,\"crc32c\":1,\"passed_over\":0,\
             \"urls\":[\"{node}\"]}}\n"
        ),
    );
    let other = &*file("other", "123456\n");
    let nowhere = &*folder
        .path()
        .join("none")
        .join("e")
        .to_str()
        .unwrap()
        .to_owned();
    let table: &[(&[&str], i32, &[&str])] = &[
        (
            &["import", good, "--url", node],
            0,
            &["imported 2 entities"],
        ),
        (
            &["import", "no-such-file", "--url", node],
            2,
            &["cannot open no-such-file"],
        ),
        (
            &["import", bad, "--url", node],
            4,
            &["line 2", "no value", "--resume", "--keep-going"],
        ),
        (
            &["import", bad, "--url", node],
            2,
            &["bad.position", "--resume"],
        ),
        (
            &["import", bad, "--resume", "--url", down],
            2,
            &["bad.position", "at least one of these nodes", node],
        ),
        (
            &["import", cut, "--url", node],
            4,
            &["line 2", "ends too early"],
        ),
        (
            &["import", old, "--url", node],
            2,
            &["old.position", "version is 9"],
        ),
        (
            &["import", other, "--resume", "--url", node],
            2,
            &["the input differs", "other.position"],
        ),
        (
            &["import", "-", "--resume", "--url", node],
            2,
            &["--position"],
        ),
        (
            &["import", good, "--ack", "2", "--url", node],
            2,
            &["`ack`"],
        ),
        (
            &["import", good, "--patience", "1ms", "--url", down],
            3,
            &["start the node"],
        ),
        (&["export", nowhere, "--url", node], 2, &["cannot", "none"]),
        (
            &["export", "-", "--resume", "--url", node],
            2,
            &["--resume"],
        ),
        (&["scan", "--start", "a", "--prefix", "b"], 2, &["--prefix"]),
        (&["scan", "--prefix", ""], 2, &["--prefix is empty"]),
        (
            &["scan", "--node", "--ack", "1", "--url", node],
            2,
            &["--node"],
        ),
        (
            &["scan", "--retries", "0", "--url", down],
            3,
            &["refuses connections"],
        ),
        (
            &["scan", "--count", "--retries", "0", "--url", down],
            3,
            &["refuses connections"],
        ),
    ];
    for (arguments, code, words) in table {
        let output = run(arguments, b"");
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(*code), "{arguments:?}: {line}");
        assert_eq!(line.lines().count(), 1, "{arguments:?}: {line}");
        for word in *words {
            assert!(
                line.contains(word),
                "{arguments:?} should name {word}: {line}"
            );
        }
    }
    let beginning = folder.path().join("good.position");
    assert!(!beginning.exists(), "nothing was stored");
    // An import that was killed before its first line leaves one.
    let text = r#"{"version":2,"lines":0,"bytes":0,"crc32c":0,"passed_over":0,"urls":[]}"#;
    write(&beginning, text.as_bytes());
    succeed(&["import", good, "--url", node], b"");
    // The lines that are passed over are named, and the others stored.
    let passing = run(
        &["import", bad, "--resume", "--keep-going", "--url", node],
        b"",
    );
    let lines = String::from_utf8(passing.stderr).unwrap();
    assert_eq!(passing.status.code(), Some(4), "{lines}");
    assert!(
        lines.contains("line 2: ") && lines.contains("1 of 2 lines"),
        "{lines}"
    );
    let keys = succeed(&["scan", "--node", "--values-omit", "--url", node], b"");
    assert_eq!(keys, b"a\nb\nc\n");
    assert_eq!(succeed(&["scan", "--count", "--url", node], b""), b"3\n");
    let some = succeed(
        &[
            "scan",
            "--start",
            "a%00",
            "--key-percent",
            "--limit",
            "1",
            "--url",
            node,
        ],
        b"",
    );
    assert_eq!(some, b"b\t2\n");
    assert_eq!(
        succeed(&["export", "-", "--prefix", "c", "--url", node], b""),
        b"{\"key\":\"c\",\"value\":\"3\"}\n"
    );
}
