use super::*;
use crate::new_token::{NewToken, Stanza};
use crate::rights::{Need, RequestedKeys};
use base::SeededRandom;

const HASH: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn with(lines: &str) -> String {
    format!("[[token]]\nname = \"shop\"\nsha256 = \"{HASH}\"\n{lines}\n")
}

#[test]
fn a_token_has_the_rights_that_its_lines_name() {
    let text = with(
        "read = true\nwrite = [\"cart/\", { base64 = \"/wA=\" }]\nmetrics = true\nadmin = false",
    );
    let table = read(&text).unwrap();
    let token = table.find(&TokenHash::of(b"abc")).unwrap();
    assert_eq!(token.name, "shop");
    let rights = &token.rights;
    assert!(rights.allow(Need::Read, RequestedKeys::Range(b"", None)));
    assert!(rights.allow(Need::Write, RequestedKeys::Key(b"cart/1")));
    assert!(rights.allow(Need::Write, RequestedKeys::Key(b"\xff\x00x")));
    assert!(!rights.allow(Need::Write, RequestedKeys::Key(b"\xff\x01")));
    assert!((rights.metrics, rights.admin) == (true, false));

    assert_eq!(token.expires_unix_ms, None);
    let until = read(&with("expires = \"2026-11-28T01:00:00.5+01:00\"")).unwrap();
    assert_eq!(until.next_expiry_unix_ms(), Some(1_795_824_000_500));

    let table = read(&with("")).unwrap();
    let token = table.find(&TokenHash::of(b"abc")).unwrap();
    assert_eq!(token.rights, Rights::default());
    // Hexadecimal digits of either case.
    assert_eq!(read(&with("").replace("ba78", "BA78")).unwrap().len(), 1);
}

#[test]
fn a_file_that_is_not_exactly_right_is_refused_in_a_line_that_says_where() {
    let two = |other: &str| format!("{}{other}", with(""));
    let many = "\"a\",".repeat(PREFIXES_MAX + 1);
    let long = "a".repeat(PREFIX_BYTES_MAX + 1);
    for (text, words) in [
        (String::new(), &["no tokens"][..]),
        ("[[tokens]]\n".to_owned(), &["line 1", "tokens"]),
        ("token = 5".to_owned(), &["line 1"]),
        ("[[token]\n".to_owned(), &["line 1"]),
        ("[[token]]\nname = \"a\"\n".to_owned(), &["sha256"]),
        (with("reed = true"), &["line 4", "reed"]),
        (with("read = \"a/\""), &["line 4", "list of prefixes"]),
        (with("read = [5]"), &["line 4", "prefix"]),
        (with("read = [\"\"]"), &["shop", "read", "write true"]),
        (
            with("write = [{ base64 = \"\" }]"),
            &["shop", "write", "empty"],
        ),
        (
            with("write = [{ base64 = \"*\" }]"),
            &["shop", "write", "base64"],
        ),
        (with("write = [{ base65 = \"\" }]"), &["line 4"]),
        (with(&format!("read = [{many}]")), &["shop", "257 prefixes"]),
        (with(&format!("read = [\"{long}\"]")), &["4097 bytes"]),
        (with("admin = 1"), &["line 4", "boolean"]),
        (with("expires = 5"), &["line 4", "string"]),
        (
            with("expires = \"in May\""),
            &["shop", "expires is no time"],
        ),
        (with("expires = \"1969-12-31T00:00:00Z\""), &["expires"]),
        (with("admin = true\nadmin = true"), &["line 5", "duplicate"]),
        (with("").replace("ba78", "ba7"), &["shop", "63 characters"]),
        (with("").replace("ba78", "xa78"), &["shop", "hexadecimal"]),
        (with("").replace("shop", ""), &["not a valid name"]),
        (
            with("").replace("shop", "a b"),
            &["`a b`", "not a valid name"],
        ),
        (two(&with("")), &["two tokens", "shop"]),
        (
            two(&with("").replace("shop", "b")),
            &["`shop` and `b`", "same"],
        ),
        (" ".repeat(FILE_BYTES_MAX + 1), &["bytes"]),
    ] {
        let error = read(&text).unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "{word}: {error}");
        }
        assert!(!error.contains('\n'), "{error}");
    }
    let tokens: String = (0..=TOKENS_MAX)
        .map(|number| format!("[[token]]\nname='{number}'\nsha256='{number:064x}'\n"))
        .collect();
    let error = read(&tokens).unwrap_err().to_string();
    assert!(error.contains("10001 tokens"), "{error}");
}

#[test]
fn a_token_that_stands_in_the_file_by_mistake_is_not_shown() {
    let secret = "kvorum_TheSecretPart-_0";
    for text in [
        with("").replace(HASH, secret),
        with(&format!("read = \"{secret}\"")),
        with(&format!("admin = \"{secret}\"")),
        with(&format!("{secret} = true")),
        with("").replace("shop", secret).replace("ba78", ""),
        format!("token = \"{secret}\""),
        secret.to_owned(),
        format!("[[token]]\nname = \"{secret} {secret}\"\nsha256 = \"\"\n"),
    ] {
        let error = read(&text).unwrap_err().to_string();
        assert!(!error.contains("TheSecretPart"), "{error}");
    }
}

#[test]
fn a_stanza_is_read_as_what_it_was_written_from() {
    let random = SeededRandom::new(1);
    let mut text = String::new();
    let all: [(&[&[u8]], bool); 3] = [
        (&[], true),
        (&[b"a\"\\\n", "\u{e4}".as_bytes()], true),
        (&[b"\xff\x00"], false),
    ];
    for (number, (prefixes, read_and_write)) in all.into_iter().enumerate() {
        let token = NewToken::draw(&random);
        let stanza = Stanza {
            name: format!("t{number}"),
            hash: token.hash(),
            read: true,
            write: read_and_write,
            prefixes: prefixes.iter().map(|prefix| prefix.to_vec()).collect(),
            admin: !read_and_write,
            metrics: read_and_write,
            expires_unix_s: None,
        };
        text.push_str(&stanza.to_string());
        let table = read(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let found = table.find(&TokenHash::of(token.text().as_bytes())).unwrap();
        let keys = match prefixes {
            [] => KeySet::all(),
            prefixes => KeySet::of_prefixes(prefixes),
        };
        let none = KeySet::none();
        assert_eq!(found.rights.read, keys);
        assert_eq!(
            &found.rights.write,
            if read_and_write { &keys } else { &none }
        );
        assert_eq!(found.rights.admin, !read_and_write);
        assert_eq!(found.rights.metrics, read_and_write);
        assert!(!text.contains(token.text()));
    }
    assert_eq!(read(&text).unwrap().len(), 3);
}
