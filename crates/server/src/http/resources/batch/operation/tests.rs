//! Lines as operations.

use super::*;
use base::Quota;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

const VALUE_BYTES_MAX: usize = 100;

fn read(line: &str) -> Result<Operation, LineError> {
    let line = Bytes::copy_from_slice(line.as_bytes());
    read_from(&line, TextMemory::Line)
}

fn read_from(line: &Bytes, memory: TextMemory) -> Result<Operation, LineError> {
    Operation::read(line, VALUE_BYTES_MAX, memory)
}

fn put(key: &'static [u8], value: &'static [u8], expires: Expires) -> Operation {
    Operation {
        key: Bytes::from_static(key),
        action: Action::Put {
            value: Bytes::from_static(value),
            expires,
        },
        condition: None,
    }
}

#[test]
fn a_line_is_an_operation() {
    let of = |action, key: &'static [u8]| Operation {
        key: Bytes::from_static(key),
        action,
        condition: None,
    };
    let with = |condition, operation| Operation {
        condition: Some(Box::new(condition)),
        ..operation
    };
    let nine = Condition::version(Timestamp::from_u64(9));
    for (line, operation) in [
        (
            r#"{"op":"put","key":"k","value":"v"}"#,
            put(b"k", b"v", Expires::Never),
        ),
        (
            r#" { "value" : "" , "key" : "k" , "op" : "put" , "ttl" : null } "#,
            put(b"k", b"", Expires::Never),
        ),
        (
            r#"{"op":"p\u0075t","key":"\u00e4\n","value":"\ud83d\ude00\""}"#,
            put(
                "\u{e4}\n".as_bytes(),
                "\u{1f600}\"".as_bytes(),
                Expires::Never,
            ),
        ),
        (
            r#"{"op":"put","key_base64":"/w==","value_base64":"//4=","ttl":60}"#,
            put(b"\xff", b"\xff\xfe", Expires::AfterSeconds(60)),
        ),
        (
            r#"{"op":"put","key":"k","value":"v","ttl":281474976710}"#,
            put(b"k", b"v", Expires::AfterSeconds(TTL_SECONDS_MAX)),
        ),
        (
            r#"{"op":"put","key":"k","value":"v","expires":"2026-11-22T17:00:00+01:00"}"#,
            put(b"k", b"v", Expires::AtUnixMs(1_795_363_200_000)),
        ),
        (
            "{\"op\":\"put\",\"key\":\"k\",\"value\":\"v\"}\r",
            put(b"k", b"v", Expires::Never),
        ),
        (r#"{"op":"get","key":"k"}"#, of(Action::Get, b"k")),
        (
            r#"{"key_base64":"AA==","op":"get"}"#,
            of(Action::Get, b"\0"),
        ),
        (r#"{"op":"delete","key":"k"}"#, of(Action::Delete, b"k")),
        (
            r#"{"op":"put","key":"k","value":"v","if_absent":true,"if_version":null}"#,
            with(Condition::absent(), put(b"k", b"v", Expires::Never)),
        ),
        (
            r#"{"op":"put","key":"k","value":"v","if_absent":false,"touch":false}"#,
            put(b"k", b"v", Expires::Never),
        ),
        (
            r#"{"op":"delete","key":"k","if_version":"9"}"#,
            with(nine.clone(), of(Action::Delete, b"k")),
        ),
        (
            r#"{"op":"put","key":"k","touch":true,"ttl":60,"if_version":"9"}"#,
            with(
                nine,
                of(
                    Action::Touch {
                        expires: Expires::AfterSeconds(60),
                    },
                    b"k",
                ),
            ),
        ),
        (
            r#"{"op":"put","key":"k","touch":true}"#,
            of(
                Action::Touch {
                    expires: Expires::Never,
                },
                b"k",
            ),
        ),
    ] {
        assert_eq!(read(line), Ok(operation), "{line}");
    }
}

#[test]
fn a_line_that_is_not_exactly_right_is_malformed() {
    let long_key = format!(r#"{{"op":"get","key":"{}"}}"#, "k".repeat(4097));
    for (line, part) in [
        ("", "not a line of JSON: it ends too early"),
        ("x", "not a line of JSON: see column 1"),
        ("[]", "it is an array"),
        (r#" ["get","k",null,null,null,null,null]"#, "it is an array"),
        (
            r#"{"op":"get","key":"k"} {}"#,
            "not a line of JSON: see column",
        ),
        (r#"{"op":"get","key":"k""#, "ends too early"),
        ("\u{feff}{}", "not a line of JSON"),
        ("{}", "it has no `op`"),
        (r#"{"op":"get"}"#, "no key"),
        (r#"{"op":"get","key":null}"#, "no key"),
        (r#"{"op":"get","key":""}"#, "`key` is empty"),
        (&long_key, "`key` has 4097 bytes"),
        (r#"{"op":"get","key":1}"#, "`key` has to be a string"),
        (r#"{"op":"get","key":"a","key":"b"}"#, "`key` twice"),
        (r#"{"op":"get","key":"a","key_base64":"YQ=="}"#, "give one"),
        (r#"{"op":"get","key_base64":"YQ"}"#, "not base64"),
        (r#"{"op":"get","key_base64":"!"}"#, "not base64"),
        (r#"{"op":"get","key":"\ud800"}"#, "not a line of JSON"),
        (
            r#"{"op":"get","key":"k","id":"k"}"#,
            "there is no field `id`",
        ),
        (r#""get""#, "it is a string"),
        ("7", "an object"),
        (r#"{"op":"GET","key":"k"}"#, "`op` is not"),
        (r#"{"op":"get","key":"k","value":"v"}"#, "a get has no"),
        (r#"{"op":"delete","key":"k","ttl":1}"#, "a delete has no"),
        (
            r#"{"op":"delete","key":"k","expires":"2026-11-22T16:00:00Z"}"#,
            "a delete has no",
        ),
        (r#"{"op":"put","key":"k"}"#, "no value"),
        (r#"{"op":"put","key":"k","value":null}"#, "no value"),
        (r#"{"op":"put","key":"k","value":"v","ttl":0}"#, "`ttl`"),
        (
            r#"{"op":"put","key":"k","value":"v","ttl":281474976711}"#,
            "`ttl`",
        ),
        (
            r#"{"op":"put","key":"k","value":"v","ttl":1.5}"#,
            "`ttl` has to be a whole number",
        ),
        (
            r#"{"op":"put","key":"k","value":"v","ttl":-1}"#,
            "`ttl` has to be a whole number",
        ),
        (
            r#"{"op":"put","key":"k","value":"v","ttl":"1"}"#,
            "`ttl` has to be a whole number",
        ),
        (
            r#"{"op":"put","key":"k","value":"v","expires":"soon"}"#,
            "`expires`",
        ),
        (
            r#"{"op":"put","key":"k","value":"v","ttl":1,"expires":"2026-11-22T16:00:00Z"}"#,
            "give one",
        ),
        (
            r#"{"op":"put","key":"k","value":"v","if_absent":true,"if_version":"9"}"#,
            "give one",
        ),
        (
            r#"{"op":"put","key":"k","value":"v","if_absent":"true"}"#,
            "`if_absent` has to be true or false",
        ),
        (
            r#"{"op":"put","key":"k","value":"v","if_version":9}"#,
            "`if_version` has to be a string",
        ),
        (
            r#"{"op":"put","key":"k","value":"v","if_version":"+9"}"#,
            "`if_version` is not a version",
        ),
        (
            r#"{"op":"put","key":"k","value":"v","if_version":""}"#,
            "`if_version` is not a version",
        ),
        (
            r#"{"op":"put","key":"k","value":"v","touch":true}"#,
            "keeps the value",
        ),
        (r#"{"op":"put","key":"k","touch":false}"#, "no value"),
        (
            r#"{"op":"delete","key":"k","touch":true}"#,
            "a delete has no",
        ),
        (r#"{"op":"get","key":"k","if_version":"9"}"#, "no condition"),
        (r#"{"op":"get","key":"k","if_absent":true}"#, "no condition"),
    ] {
        match read(line) {
            Err(LineError::Malformed(detail)) => assert!(detail.contains(part), "{line}: {detail}"),
            other => panic!("{line}: {other:?}"),
        }
    }
    let not_utf8 = Bytes::from_static(b"{\"op\":\"get\",\"key\":\"\xff\"}");
    let not_utf8 = read_from(&not_utf8, TextMemory::Own);
    assert!(matches!(not_utf8, Err(LineError::Malformed(_))));
}

#[test]
fn what_is_wrong_is_said_in_few_words_however_long_the_line_is() {
    let long = "\u{7f}".repeat(1 << 20);
    for line in [
        format!(r#"{{"op":"get","key":"k","ttl":"{long}"}}"#),
        format!(r#"{{"op":"get","key":"k","{long}":1}}"#),
        format!(r#"{{"op":"get","key":"k","\n{long}":1}}"#),
        format!(r#"{{"op":"{long}","key":"k"}}"#),
        format!(r#"{{"op":"get","key":"{long}"}}"#),
        format!(r#"{{"op":"get","key_base64":"{long}"}}"#),
        format!(r#"{{"op":"put","key":"k","value":"v","expires":"{long}"}}"#),
        format!(r#"{{"op":"get","key":{{"{long}":1}}}}"#),
        format!(r#"{{"op":"get","key":["{long}"]}}"#),
        format!(r#"{{"op":"get","key":"k","ttl":["{long}"]}}"#),
        format!(r#"{{"op":"get","key":"k","ttl":{}}}"#, "9".repeat(1 << 20)),
        format!(r#""{long}""#),
        format!(r#"["{long}"]"#),
        long,
    ] {
        match read(&line) {
            Err(LineError::Malformed(detail)) => {
                assert!(detail.len() < 300, "{} bytes", detail.len());
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_value_has_the_bound_of_the_node() {
    for (value_bytes, is_taken) in [(VALUE_BYTES_MAX, true), (VALUE_BYTES_MAX + 1, false)] {
        let value = "v".repeat(value_bytes);
        let text = format!(r#"{{"op":"put","key":"k","value":"{value}"}}"#);
        let encoded = BASE64.encode(&value);
        let base64 = format!(r#"{{"op":"put","key":"k","value_base64":"{encoded}"}}"#);
        for line in [text, base64] {
            assert_eq!(read(&line).is_ok(), is_taken, "{line}");
            assert_eq!(read(&line) == Err(LineError::ValueTooLong), !is_taken);
        }
    }
}

#[test]
fn text_without_escapes_is_copied_from_a_line_that_does_not_count() {
    let line = Bytes::from_static(br#"{"op":"put","key":"abc","value":"value"}"#);
    let reservation = Quota::new(1).try_reserve(1).ok();
    for (reservation, is_in_line) in [(reservation.as_ref(), true), (None, false)] {
        let memory = TextMemory::of(reservation);
        let operation = read_from(&line, memory).unwrap();
        let Action::Put { value, .. } = operation.action else {
            panic!("a put");
        };
        assert_eq!(
            (&operation.key[..], &value[..]),
            (&b"abc"[..], &b"value"[..])
        );
        for part in [&operation.key, &value] {
            let is_found = line.as_ptr_range().contains(&part.as_ptr());
            assert_eq!(is_found, is_in_line, "{memory:?}");
        }
    }
}

#[test]
fn the_reader_survives_mutations_of_lines() {
    let lines = [
        r#"{"op":"put","key":"k\u00e4\n","value":"v\ud83d\ude00\"","ttl":60}"#,
        r#"{"op":"put","key_base64":"/w==","value_base64":"//4=","expires":"2026-11-22T16:00:00Z"}"#,
        r#"{"key":"k","op":"delete"}"#,
    ];
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..20_000 {
        let mut line = lines[random.usize(..lines.len())].as_bytes().to_vec();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..line.len());
            match random.u8(..5) {
                0 => line.truncate(at.max(1)),
                1 => line[at] ^= 1 << random.u8(..8),
                2 => line[at] = random.u8(..),
                3 => line.insert(at, b"\\\"{}:,[0e"[random.usize(..9)]),
                _ => drop(line.remove(at.min(line.len().saturating_sub(2)))),
            }
            if line.is_empty() {
                line.push(b'{');
            }
        }
        let line = Bytes::from(line);
        if let Ok(operation) = read_from(&line, TextMemory::Line) {
            assert!((1..=4096).contains(&operation.key.len()), "{line:?}");
        }
    }
}
