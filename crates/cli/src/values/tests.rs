use super::*;

#[test]
fn bounds() {
    let number = count(1..=9);
    assert_eq!((number("1"), number("9")), (Ok(1), Ok(9)));
    for text in ["", "0", "10", "-1", "1.0", "x", "99999999999999999999999"] {
        assert_eq!(
            number(text),
            Err("write a whole number from 1 to 9".to_owned()),
            "{text}"
        );
    }
    let bytes = size(1 << 10..=1 << 20);
    assert_eq!(bytes("1KiB"), Ok(ByteSize(1 << 10)));
    assert_eq!(bytes("2MiB"), Err("give 1KiB to 1MiB".to_owned()));
    let time = span(Duration::from_millis(1)..=Duration::from_secs(8));
    assert_eq!(time("8s"), Ok(TimeSpan(Duration::from_secs(8))));
    assert_eq!(time("9s"), Err("give 1ms to 8s".to_owned()));
}

#[test]
fn a_value_expires_after_seconds_or_a_time() {
    for (text, seconds) in [("1", 1), ("300", 300), ("5m", 300), ("30d", 2_592_000)] {
        assert_eq!(ttl(text), Ok(seconds));
    }
    for text in ["", "0", "0s", "500ms", "-1", "5 m", "soon"] {
        assert!(ttl(text).is_err(), "{text}");
    }
}

#[test]
fn intervals() {
    let interval = interval(Duration::from_secs(1)..=Duration::from_secs(7 * 86_400));
    for text in ["1s", "10m", "7d", "off"] {
        assert_eq!(interval(text).unwrap().to_string(), text);
    }
    assert_eq!(interval("off"), Ok(IntervalOption(None)));
    assert_eq!(interval("8d"), Err("give 1s to 7d, or off".to_owned()));
    for text in ["", "on", "none", "0s", "Off"] {
        assert!(interval(text).is_err(), "{text}");
    }
}

#[test]
fn urls() {
    assert_eq!(url("http://H:1/"), Ok("http://h:1".parse().unwrap()));
    assert_eq!(url("https://h:1"), Ok("HTTPS://H:1/".parse().unwrap()));
    for text in [
        "http://h:0",
        "http://h:00/",
        "http://h",
        "h:1",
        "https://h",
        "ftp://h:1",
    ] {
        assert!(url(text).is_err(), "{text}");
        assert!(member(text).is_err(), "{text}");
        assert!(member(&format!("name={text}")).is_err(), "{text}");
    }
}

#[test]
fn members() {
    let north = member("north=http://H:1/").unwrap();
    assert_eq!(
        (north.name(), north.url()),
        ("north", &url("http://h:1").unwrap())
    );
    assert_eq!(member("http://H:1/").unwrap().name(), "h:1");
    for text in ["", "north", "=http://h:1", "no rth=http://h:1"] {
        assert!(member(text).is_err(), "{text}");
    }
    assert_eq!(name("north"), Ok("north".to_owned()));
    for text in ["", "a b", "a=b", "a,b"] {
        assert!(name(text).is_err(), "{text}");
    }
}
