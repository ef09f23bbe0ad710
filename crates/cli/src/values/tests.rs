use super::*;

#[test]
fn sizes() {
    let table = [
        ("0", 0),
        ("4096", 4096),
        ("1B", 1),
        ("64KB", 64_000),
        ("64KiB", 65_536),
        ("128MiB", 128 << 20),
        ("128mib", 128 << 20),
        ("3GB", 3_000_000_000),
        ("2TiB", 2 << 40),
    ];
    for (text, bytes) in table {
        assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
    }
    for text in [
        "", "MiB", "-1", "1.5GiB", "12x", "1 MiB", "1e3MiB", "1MiBs", "0x10",
    ] {
        let refused = text.parse::<ByteSize>().unwrap_err();
        assert!(refused.contains("whole number"), "{text}: {refused}");
    }
    for text in [
        "99999999TiB",
        "18446744073709551616",
        "99999999999999999999B",
    ] {
        let refused = text.parse::<ByteSize>().unwrap_err();
        assert!(refused.contains("64 bits"), "{text}: {refused}");
    }
}

#[test]
fn spans() {
    let table = [
        ("1ms", 1),
        ("500ms", 500),
        ("1s", 1_000),
        ("2m", 120_000),
        ("1h", 3_600_000),
        ("7d", 604_800_000),
    ];
    for (text, ms) in table {
        assert_eq!(
            text.parse(),
            Ok(TimeSpan(Duration::from_millis(ms))),
            "{text}"
        );
    }
    for text in ["", "1", "0s", "-1s", "1.5s", "1 s", "1w", "1e3s", "1M"] {
        assert!(text.parse::<TimeSpan>().is_err(), "{text}");
    }
    for text in ["99999999999999999h", "99999999999999999999ms"] {
        let refused = text.parse::<TimeSpan>().unwrap_err();
        assert!(refused.contains("64 bits"), "{text}: {refused}");
    }
}

#[test]
fn replicas() {
    let pair = cluster::Replicas { ack: 2, from: 3 };
    assert_eq!("2/3".parse(), Ok(ReplicasOption(pair)));
    for text in ["", "2", "0/3", "4/3", "2/3/4", "a/b", "1/256"] {
        assert!(text.parse::<ReplicasOption>().is_err(), "{text}");
    }
}

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

#[test]
fn a_displayed_value_parses_to_itself() {
    for bytes in [0, 1, 1_000, 1 << 10, 5 << 20, (1 << 30) + 1, u64::MAX] {
        let size = ByteSize(bytes);
        assert_eq!(size.to_string().parse(), Ok(size), "{size}");
    }
    for ms in [1, 999, 1_000, 1_500, 60_000, 3_600_000, 86_400_000] {
        let span = TimeSpan(Duration::from_millis(ms));
        assert_eq!(span.to_string().parse(), Ok(span), "{span}");
    }
}
