//! What conditions mean, as tables.

#![expect(clippy::panic, reason = "a test may panic")]

use query::{Entity, Expression, OutOfFuel, Subject};

const VALUE: &str = r#" {"total": 120.5, "count": 3, "country": "DE", "paid": true, "none": null,
    "big": 9223372036854775807, "tags": ["new", "b\u00fc"], "items": [{"sku": "a", "price": 5},
    {"sku": "b", "price": 50}], "at": "2026-01-31T12:00:00+01:00", "esc\"aped": 1, "twice": 1,
    "twice": 2, "empty": [], "address": {"city": "Köln"}} "#;

fn entity(value: &[u8]) -> Entity<'_> {
    Entity {
        key: b"order/7",
        version: 42,
        expires_unix_ms: Some(1_800_000_000_000),
        value,
        now_unix_ms: 1_799_999_000_000,
    }
}

fn matches(text: &str, value: &[u8]) -> Result<bool, OutOfFuel> {
    let expression = Expression::condition(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let entity = entity(value);
    expression.matches(&Subject::new(&entity))
}

#[test]
fn conditions_that_match() {
    for text in [
        "true",
        "key == 'order/7'",
        "key.startsWith('order/') && key.endsWith('7') && key.contains('er')",
        "version == 42 && size > 100 && size(key) == 7",
        "expires > now && expires - now == duration('1000s')",
        "expires == timestamp('2027-01-15T08:00:00Z')",
        "value.total > 100",
        "value.total == 120.5 && value['total'] >= 120.5 && value.total != 120",
        "value.count + 1 == 4 && value.count * 2.5 == 7.5 && value.count / 2 == 1",
        "-value.count == -3 && value.count % 2 == 1 && value.count - 5 < 0",
        "value.big == 9223372036854775807 && value.big < 9223372036854775808.0",
        "-9223372036854775808 < 0 && 0x10 == 16 && 1e3 == 1000",
        "value.country in ['DE', 'FR'] && !(value.country in ['IT'])",
        "'new' in value.tags && 'city' in value.address && 'b\\u00fc' in value.tags",
        "value.paid && value.none == null && value.country != null",
        "has(value.address.city) && !has(value.address.street) && !has(value.x.y.z)",
        "size(value.tags) == 2 && value.items.size() == 2 && size(value.address) == 1",
        "size(value.address.city) == 4",
        "value.items.exists(i, i.price > 40) && !value.items.all(i, i.price > 40)",
        "value.items.exists_one(i, i.sku == 'a') && value.empty.all(x, false)",
        "value.items.exists(i, value.tags.exists(t, t == 'new' && i.sku == 'b'))",
        "value.address.exists(name, name == 'city')",
        "value.items[1].price == 50 && value.items[0]['sku'] == 'a'",
        "value.items[value.count - 2].sku == 'b'",
        "timestamp(value.at) == timestamp('2026-01-31T11:00:00Z')",
        "timestamp(value.at) + duration('1h30m') < now && timestamp(0) < now",
        "value.country.matches('^D[A-F]$') && !value.country.matches('^X')",
        "int(value.total) == 120 && double(value.count) == 3.0 && string(value.count) == '3'",
        "value.twice == 2 && value['esc\"aped'] == 1",
        "(value.count > 2 ? value.total : 0) > 100",
        "{'DE': 1, 'FR': 2}[value.country] == 1",
        "value.tags == ['new', 'bü'] && value.address == {'city': 'Köln'}",
        "[value.count, value.total] == [3, 120.5]",
        "'a' + 'b' == 'ab' && r'\\d' == '\\\\d' && \"x\" == 'x'",
        "// a comment\nvalue.paid // another",
        // One part that decides is enough.
        "value.missing > 1 || value.paid",
        "!(value.missing > 1 && value.paid == false)",
        "[1, 'a', 3].exists(x, x > 2)",
    ] {
        assert_eq!(matches(text, VALUE.as_bytes()), Ok(true), "{text}");
    }
}

#[test]
fn what_does_not_fit_is_no_match() {
    for text in [
        "value.missing > 1",
        "!(value.missing > 1)",
        "value.country > 1",
        "value.total > 'a'",
        "value.total",
        "!value.total",
        "value.items > 1",
        "value.big + 1 > 0",
        "value.count / 0 == 0",
        "value.count % 0 == 0",
        "value.items[2].price > 0",
        "value.country.matches('a') || value.count.matches('a')",
        "value.none > 0",
        "value.country in value.country",
        "timestamp(value.country) < now",
        "value.items.all(i, i.weight > 0)",
        "{'a': 1}[value.country] == 1",
        "value.count ? true : false",
    ] {
        assert_eq!(matches(text, VALUE.as_bytes()), Ok(false), "{text}");
    }
    for value in [
        &b""[..],
        b"text",
        b"{",
        br#"{"total": 120} x"#,
        br#"{"total": 120, "rest": }"#,
        b"{\"total\": 120, \"rest\": \"\xff\"}",
        b"\xff",
        b"[120]",
        b"120",
    ] {
        assert_eq!(matches("value.total > 100", value), Ok(false), "{value:?}");
        assert_eq!(matches("!has(value.total)", value), Ok(true), "{value:?}");
    }
    assert_eq!(matches("value > 100", b"120"), Ok(true));
    assert_eq!(matches("value == 'a'", br#""a""#), Ok(true));
}

#[test]
fn an_error_points_at_its_place() {
    for (text, place, problem) in [
        ("", "^", "empty"),
        ("value.total >", "             ^", "ends too early"),
        ("value.total = 1", "            ^", "`==`"),
        ("total > 1", "^", "value.total"),
        ("value.total > 1 2", "                ^", "operator"),
        ("key > 1", "    ^", "text cannot be compared with a number"),
        ("version && true", "^", "a number, where true or false"),
        ("key", "^", "not a condition"),
        ("value.a.map(x, x)", "        ^", "`map` is no function"),
        ("size()", "^", "size(value.items)"),
        ("has(key)", "^", "has(value.total)"),
        ("key.matches('(')", "            ^", "regular expression"),
        ("key.matches('.{900}.{900}')", "            ^", "table"),
        ("key.matches(value.a)", "            ^", "quotes"),
        (
            "expires > timestamp('soon')",
            "                    ^",
            "2026-01-31",
        ),
        ("key == 'a", "       ^", "end"),
        ("key == '\\q'", "        ^", "escape"),
        ("99999999999999999999 > 1", "^", "64 bits"),
        ("true &&\n  nope", "  ^", "nope"),
        ("'ü' == nope", "       ^", "nope"),
        ("value.a.exists(x, y > 1)", "                  ^", "`y`"),
        ("value..a", "      ^", "name"),
        ("value[-1] == 1", "     ^", "count from 0"),
    ] {
        let error = Expression::condition(text).unwrap_err();
        let lines = error.to_string();
        assert_eq!(lines.lines().last(), Some(place), "{text}: {lines}");
        assert!(error.problem.contains(problem), "{text}: {lines}");
    }
    let long = format!("{}true", "true && ".repeat(600));
    assert!(
        Expression::condition(&long)
            .unwrap_err()
            .problem
            .contains("4096")
    );
}

#[test]
fn depth_is_bounded_and_length_is_not() {
    let chain = vec!["true"; 500].join(" && ");
    assert_eq!(matches(&chain, b""), Ok(true));
    for deep in [
        format!("{}true{}", "(".repeat(500), ")".repeat(500)),
        format!("{}{}", "[".repeat(2000), "]".repeat(2000)),
        format!("{}true", "!".repeat(2000)),
        format!("{}1 > 0", "-".repeat(2000)),
        format!("{}true", "true ? true : ".repeat(200)),
        format!("{}1 > 0", "1+".repeat(500)),
        format!("value{} > 0", ".a".repeat(500)),
        format!("value{} > 0", "[value.a]".repeat(200)),
    ] {
        let error = Expression::condition(&deep).unwrap_err();
        assert!(error.problem.contains("too deep"), "{error}");
    }
    let nested = format!("{}true{}", "(".repeat(40), ")".repeat(40));
    assert_eq!(matches(&nested, b""), Ok(true));
}

#[test]
fn a_runaway_ends_for_want_of_fuel() {
    let list = vec!["1"; 2000].join(",");
    let value = format!(r#"{{"a":[{list}],"t":"{}"}}"#, "ab".repeat(5000));
    for text in [
        "value.a.all(x, value.a.all(y, x + y > 0))",
        "value.a.all(x, value.a == value.a)",
        "value.a.all(x, value.t.matches('(a|b|ab)*') && value.t.contains('b'))",
        // What decides does not hide it.
        "value.a.all(x, value.a.all(y, x + y > 0)) || true",
        "has(value.a[value.a.all(x, value.a.all(y, x + y > 0)) ? 0 : 1])",
    ] {
        assert_eq!(matches(text, value.as_bytes()), Err(OutOfFuel), "{text}");
    }
    assert_eq!(
        matches("value.a.all(x, x == 1)", value.as_bytes()),
        Ok(true)
    );
}

#[test]
fn keys_and_expiries_of_all_kinds() {
    let expression = |text| Expression::condition(text).unwrap();
    let entity = Entity {
        key: b"a\xff",
        expires_unix_ms: None,
        ..entity(b"")
    };
    for (text, is) in [
        ("key.startsWith('a')", true),
        ("size(key) == 2", true),
        ("key == 'a'", false),
        ("key > 'a'", true),
        ("expires == null", true),
        ("expires > now", false),
        ("expires == null || expires > now", true),
    ] {
        let found = expression(text).matches(&Subject::new(&entity));
        assert_eq!(found, Ok(is), "{text}");
    }
    for (text, needs) in [
        ("key == 'a' && expires > now && version > 1", false),
        ("size > 1", true),
        ("key in [value.a]", true),
        ("size(key) > 1", false),
    ] {
        assert_eq!(expression(text).needs_value(), needs, "{text}");
    }
}

#[test]
fn what_compares_long_texts_takes_fuel() {
    let value = format!(
        r#"{{"a":"{}","l":[{}]}}"#,
        "a".repeat(200_000),
        vec!["1"; 1000].join(",")
    );
    for text in [
        "value.l.all(y, key.startsWith('b') || [value.a].exists(x, x.startsWith(x)))",
        "[value.a].exists(x, value.l.exists(y, !x.endsWith(x)))",
        "[value.a].exists(x, value.l.exists(y, {x: 1} != {x: 1}))",
    ] {
        assert_eq!(matches(text, value.as_bytes()), Err(OutOfFuel), "{text}");
    }
}

#[test]
fn an_element_that_has_no_value_does_not_fit() {
    let value = br#"{"a":[1,1e400],"t":["a","\ud800"],"m":{"x":1e400},"n":{"x":1,"\ud800":2}}"#;
    for text in [
        "value.a.all(x, x < 10)",
        "value.a.exists_one(x, x == 1)",
        "value.a.exists(x, x > 10)",
        "value.a.all(x, true)",
        "!(2 in value.a)",
        "size(value.a) == 1",
        "value.a == [1]",
        "value.a != [1, 2]",
        "value.t.all(x, x == 'a')",
        "value.t == ['a']",
        "value.m != {'y': 1}",
        "value.m == {}",
        "value.n.all(x, x == 'x')",
        "value.n == {'x': 1}",
        "size(value.n) > 0",
    ] {
        assert_eq!(matches(text, value), Ok(false), "{text}");
    }
    // What decides does not need it.
    for text in [
        "value.a.exists(x, x == 1)",
        "!value.a.all(x, x > 1)",
        "1 in value.a",
        "value.a[0] == 1",
        "'x' in value.n",
        "value.a != null && value.m != null && value.m != [1]",
    ] {
        assert_eq!(matches(text, value), Ok(true), "{text}");
    }
}

#[test]
fn the_patterns_of_an_expression_are_bounded_together() {
    let many = |count: usize, pattern: &str| {
        let part = format!("key.matches('{pattern}')");
        Expression::condition(&vec![part; count].join(" || "))
    };
    assert!(many(8, "^a").is_ok());
    let error = many(9, "^a").unwrap_err();
    assert!(error.problem.contains("more than 8 patterns"), "{error}");
    let large = "(abcdefghijklmnopqrstuvwxyz){15}";
    assert!(many(1, large).is_ok());
    let error = many(8, large).unwrap_err();
    assert!(error.problem.contains("together"), "{error}");
}
