use super::*;
use crate::logs::line_writer::{LeftOut, Output};
use base::ManualClock;
use serde_json::Value;
use std::path::Path;

fn started(file: &Path) -> Audit {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(1_795_363_200_123));
    Audit::start(&AuditTarget::File(file.to_owned()), &clock).unwrap()
}

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn an_event_is_a_line_of_json() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit");
    let audit = started(&file);
    let event = Event {
        client: Some("10.0.0.9:41022".parse().unwrap()),
        method: Some("PUT"),
        path: Some("/v0/entity"),
        status: Some(403),
        token: Some("shop"),
        key: Some("a\"\n".to_owned()),
        ..Event::default()
    };
    audit.note(EventKind::NoRight, &event);
    drop(audit);
    let expected = serde_json::json!({
        "time": "2026-11-22T16:00:00.123Z", "event": "no-right", "client": "10.0.0.9:41022",
        "method": "PUT", "path": "/v0/entity", "status": 403, "token": "shop", "key": "a\"\n",
    });
    assert_eq!(lines(&file), [expected]);
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn what_is_too_much_is_counted_by_kind() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit");
    let audit = started(&file);
    for _ in 0..1000 {
        audit.note(EventKind::NoToken, &Event::default());
    }
    audit.note(EventKind::Admin, &Event::default());
    drop(audit);
    let lines = lines(&file);
    let of_kind = |kind: &str| {
        let of_kind = lines.iter().filter(|line| line["event"] == kind);
        let left_out = |line: &&Value| line.get("left_out").is_some();
        let (left_out, told): (Vec<&Value>, Vec<&Value>) = of_kind.partition(left_out);
        let left_out: u64 = left_out
            .iter()
            .map(|line| line["left_out"].as_u64().unwrap())
            .sum();
        (told.len() as u64, left_out)
    };
    let (told, left_out) = of_kind("no-token");
    assert_eq!((told, told + left_out), (50, 1000));
    assert_eq!(of_kind("admin"), (1, 0), "one kind does not hide another");
}

#[test]
fn a_file_that_was_renamed_is_opened_again_when_it_is_ordered() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit");
    let audit = started(&file);
    audit.note(EventKind::Admin, &Event::default());
    let renamed = folder.path().join("audit.1");
    #[expect(clippy::disallowed_methods, reason = "as a tool for logs does")]
    std::fs::rename(&file, &renamed).unwrap();
    audit.reload(false);
    audit.note(EventKind::NoRight, &Event::default());
    audit.reload(true);
    audit.note(EventKind::NoPeer, &Event::default());
    drop(audit);
    let events = |file: &Path| -> Vec<Value> {
        lines(file)
            .iter()
            .map(|line| line["event"].clone())
            .collect()
    };
    assert_eq!(events(&renamed), ["admin", "no-right"]);
    assert_eq!(events(&file), ["no-peer"]);
}

#[test]
fn what_was_left_out_is_written_while_events_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit");
    let clock = Arc::new(ManualClock::new(1_795_363_200_123));
    let seam = Arc::clone(&clock) as Arc<dyn Clock>;
    let audit = Audit::start(&AuditTarget::File(file.clone()), &seam).unwrap();
    let text = || std::fs::read_to_string(&file).unwrap();
    // A flood of which each line but a few is left out, and that never pauses.
    for _ in 0..200 {
        let before = text();
        for _ in 0..5 {
            audit.note(EventKind::NoToken, &Event::default());
        }
        clock.advance(std::time::Duration::from_millis(200));
        // The limit admits two of five.
        while text() == before {
            std::thread::yield_now();
        }
        if before.contains("\"left_out\":") {
            return;
        }
    }
    panic!("a flood hides how much of it was left out");
}

#[test]
fn what_could_not_be_written_is_told_in_the_file_until_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit");
    let audit = started(&file);
    audit.note(EventKind::NoToken, &Event::default());
    let target = AuditTarget::File(file);
    let mut output = OpenTarget::open(target, Arc::clone(&audit.shared)).unwrap();
    let told = |lines: Vec<u8>| -> Vec<(String, u64)> {
        let lines = String::from_utf8(lines).unwrap();
        let lines = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let told = |line: Value| {
            let event = line["event"].as_str().unwrap().to_owned();
            (event, line["left_out"].as_u64().unwrap())
        };
        lines.map(told).collect()
    };
    let leave_out = |kind: EventKind| lock(&audit.shared.limiters)[kind.row()].leave_out();
    let lost = |failed| LeftOut { refused: 0, failed };
    leave_out(EventKind::NoToken);
    let first = [("no-token".to_owned(), 1), ("lost".to_owned(), 3)];
    assert_eq!(told(output.left_out(lost(3))), first);
    // Not written: it is told with what has come since.
    leave_out(EventKind::NoToken);
    leave_out(EventKind::Admin);
    let second = [
        ("admin".to_owned(), 1),
        ("no-token".to_owned(), 2),
        ("lost".to_owned(), 4),
    ];
    assert_eq!(told(output.left_out(lost(4))), second);
    output.told();
    assert_eq!(told(output.left_out(lost(0))), []);
    let refused = LeftOut {
        refused: 5,
        failed: 0,
    };
    assert_eq!(
        told(output.left_out(refused)),
        [],
        "they are counted by kind"
    );
}
