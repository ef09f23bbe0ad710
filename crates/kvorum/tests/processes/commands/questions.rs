//! `kvorum scan` with conditions and aggregates: the recipes of docs/ask-questions.md, and what is
//! refused.

use crate::commands::keys::{cluster, run, succeed, url};
use crate::support::{free_port, free_ports, serve, started};

const PAGE: &str = include_str!("../../../../../docs/ask-questions.md");

/// The words of a line of a shell, with both kinds of quotes.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for character in line.chars() {
        match (quote, character) {
            (None, ' ') => words.extend(word.take()),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (Some(open), character) if open == character => quote = None,
            (_, character) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// The entities of the page, as lines of JSON.
fn entities() -> &'static str {
    let (_, rest) = PAGE.split_once("cat > orders.ndjson <<'END'\n").unwrap();
    rest.split_once("END\n").unwrap().0
}

/// The commands of the page, each with what it prints.
fn recipes() -> Vec<(&'static str, String)> {
    let mut recipes: Vec<(&str, String)> = Vec::new();
    for block in PAGE.split("```").skip(1).step_by(2) {
        for line in block.lines().filter(|line| !line.is_empty()) {
            if line.starts_with("kvorum scan ") {
                recipes.push((line, String::new()));
            } else if let Some((_, printed)) = recipes.last_mut() {
                printed.push_str(line);
                printed.push('\n');
            }
        }
    }
    recipes
}

#[test]
fn each_recipe_prints_what_its_page_says() {
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    let _node = started(&mut serve(port, folder.path()), port);
    let node = &*url(port);
    succeed(&["import", "-", "--url", node], entities().as_bytes());
    let recipes = recipes();
    assert!(recipes.len() >= 10, "{recipes:?}");
    for (line, expected) in recipes {
        let words = words(line);
        let mut arguments: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        arguments.extend(["--url", node]);
        let printed = String::from_utf8(succeed(&arguments, b"")).unwrap();
        assert_eq!(printed, expected, "{line}");
    }
}

#[test]
fn groups_are_of_the_whole_cluster_and_stderr_says_over_how_many_keys() {
    let folder = tempfile::tempdir().unwrap();
    let first = free_ports(3);
    let mut nodes = cluster(first, 3, folder.path());
    let all = [url(first), url(first + 1), url(first + 2)].join(",");
    succeed(&["import", "-", "--url", &all], entities().as_bytes());
    let question = [
        "scan",
        "orders/",
        "--where",
        "value.total > 100",
        "--count",
        "--by",
    ];
    let question = [&question[..], &["value.country", "--url", &all]].concat();
    let asked = run(&question, b"");
    assert_eq!(String::from_utf8_lossy(&asked.stdout), "DE\t2\nFR\t1\n");
    let stderr = String::from_utf8_lossy(&asked.stderr);
    assert!(stderr.contains("3 of 6 entities match"), "{stderr}");
    // A node that is down costs nothing but a further try.
    drop(nodes.remove(0));
    let json = succeed(&[&question[..], &["--json"]].concat(), b"");
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!((&json["keys"], &json["matched"]), (&6.into(), &3.into()));
    assert_eq!((&json["ack"], &json["from"]), (&2.into(), &3.into()));
    assert_eq!(json["groups"][0]["by"], serde_json::json!(["DE"]));
    let count = [
        "scan",
        "--where",
        "value.total > 100",
        "--count",
        "--json",
        "--url",
        &all,
    ];
    assert_eq!(succeed(&count, b""), b"{\"count\":3}\n");
}

#[test]
fn a_wrong_question_is_refused_before_a_node_is_asked() {
    for (arguments, lines) in [
        (
            &["scan", "--where", "value.total >"][..],
            &[
                "kvorum: value.total >",
                "kvorum:              ^",
                "kvorum: --where: ",
            ][..],
        ),
        (&["scan", "--sum", "1 +"], &["kvorum: 1 +", "^", "--sum: "]),
        (
            &["scan", "--count", "--by", "valu"],
            &["valu", "^", "--by: "],
        ),
        (
            &["scan", "--by", "key"],
            &["--by makes groups of what --count"],
        ),
        (&["scan", "--sum", "size", "--limit", "1"], &["--limit"]),
        (&["scan", "a", "--prefix", "b"], &["--prefix"]),
    ] {
        let refused = run(arguments, b"");
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        let stderr = String::from_utf8(refused.stderr).unwrap();
        let mut printed = stderr.lines();
        for expected in lines {
            let line = printed.next().unwrap_or_default();
            assert!(line.contains(expected), "{arguments:?}: {stderr}");
        }
    }
}
