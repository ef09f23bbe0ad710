use super::*;

const MS: u64 = 1_000_000;

/// A request to the first node, due at `due` ms, sent at `sent` and answered at `received`.
/// `waited_for` is when the request before it was sent.
fn request(due: u64, sent: u64, received: u64, waited_for: Option<u64>) -> SlowRequest {
    SlowRequest {
        due: Duration::from_millis(due),
        sent: Duration::from_millis(sent),
        woke: Duration::from_millis(received),
        received: Duration::from_millis(received),
        target: 0,
        port: 5_000,
        waited_for: waited_for.map(Duration::from_millis),
    }
}

/// The recording of these lines. A word that begins with `@` is a time in milliseconds.
fn recording(lines: &str) -> Recording {
    let in_ns = |word: &str| match word.strip_prefix('@') {
        Some(ms) => (ms.parse::<u64>().unwrap() * MS).to_string(),
        None => word.to_owned(),
    };
    let mut text = String::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<String> = line.split(' ').map(in_ns).collect();
        text.push_str(&(words.join(" ") + "\n"));
    }
    text.push_str("left-out 0 0\n");
    Recording::parse(&text).unwrap()
}

fn explained(request: SlowRequest, recordings: &[Recording], ack: usize) -> SlowWrite {
    explain(&[request], recordings, ack).remove(0)
}

/// A request at 100 ms that is answered at 120 ms, with version 7.
const STEPS: &str = "steps 5000 1 7 @101 @101 @101 @101 @119 @119 @118 0 0 0";

#[test]
fn the_longest_part_is_the_cause() {
    let cases = [
        // Its own sync.
        (
            "span @101 @103 2 7 queue;engine write;gather
             span @103 @118 2 7 queue;engine write;commit
             span @104 @117 2 0 disk;log sync",
            Cause::Sync,
            13.0,
        ),
        // The same while a table was synced.
        (
            "span @101 @103 2 7 queue;engine write;gather
             span @103 @118 2 7 queue;engine write;commit
             span @104 @117 2 0 disk;log sync
             span @100 @116 3 0 disk;table sync",
            Cause::SyncBesideOthers,
            13.0,
        ),
        // The sync of the group before.
        (
            "span @101 @115 2 7 queue;engine write;gather
             span @115 @118 2 7 queue;engine write;commit
             span @100 @114 2 0 disk;log sync
             span @116 @118 2 0 disk;log sync",
            Cause::QueueBehindSync,
            13.0,
        ),
        (
            "span @101 @115 2 7 queue;engine write;gather
             span @115 @118 2 7 queue;engine write;commit",
            Cause::Queue,
            14.0,
        ),
        // The outcome was there, and the runtime had no processor.
        (
            "span @101 @102 2 7 queue;engine write;gather
             span @102 @103 2 7 queue;engine write;commit
             span @103 @119 1 1000000 runtime;busy",
            Cause::Processor,
            16.0,
        ),
        // The runtime was busy with others.
        (
            "span @101 @102 2 7 queue;engine write;gather
             span @102 @103 2 7 queue;engine write;commit
             span @103 @119 1 16000000 runtime;busy",
            Cause::Runtime,
            16.0,
        ),
        ("", Cause::Unknown, 18.0),
    ];
    for (spans, cause, cause_ms) in cases {
        let recording = recording(&format!("{spans}\n{STEPS}"));
        let told = explained(request(100, 100, 120, None), &[recording], 1);
        assert_eq!(told.cause, cause, "{spans}: {told:?}");
        assert!((told.cause_ms - cause_ms).abs() < 0.1, "{spans}: {told:?}");
        assert!(!told.is_behind_another && !told.is_at_peer, "{told:?}");
        assert_eq!(told.latency_ms, 20.0);
    }
}

#[test]
fn the_answer_that_was_enough_decides_whose_time_counts() {
    let own = "steps 5000 1 7 @101 @101 @101 @101 @119 @119 @103 @118 0 0
               span @101 @102 2 7 queue;engine write;gather
               span @102 @103 2 7 queue;engine write;commit";
    let synced = "span @102 @103 2 7 queue;engine write;gather
                  span @103 @117 2 7 queue;engine write;commit
                  span @103 @116 2 0 disk;log sync";
    let late = "span @115 @116 2 7 queue;engine write;gather
                span @116 @117 2 7 queue;engine write;commit";
    for (peer, expected) in [(synced, (Cause::Sync, true)), (late, (Cause::Peers, false))] {
        let recordings = [own, peer].map(recording);
        let told = explained(request(100, 100, 120, None), &recordings, 2);
        assert_eq!((told.cause, told.is_at_peer), expected, "{told:?}");
        // The own answer was there much earlier.
        let alone = explained(request(100, 100, 120, None), &recordings, 1);
        assert_ne!((alone.cause, alone.is_at_peer), expected, "{alone:?}");
    }
    let told = explained(
        request(100, 100, 120, None),
        &[own, synced].map(recording),
        2,
    );
    assert_eq!(
        (told.moments_ms["sync ended"], told.longest_sync_ms),
        (16.0, 13.0)
    );
}

#[test]
fn a_request_without_a_connection_has_the_cause_of_the_one_before() {
    let recording = recording(&format!(
        "steps 5000 1 6 @90 @90 @90 @90 @114 @115 @114 0 0 0
         span @90 @91 2 6 queue;engine write;gather
         span @91 @114 2 6 queue;engine write;commit
         span @91 @113 2 0 disk;log sync
         {STEPS}"
    ));
    // Due at 100 ms, sent when the other was answered, at 116 ms.
    let told = explained(request(100, 116, 120, Some(90)), &[recording], 1);
    assert!(told.is_behind_another, "{told:?}");
    assert_eq!((told.cause, told.cause_ms), (Cause::Sync, 16.0));
}

#[test]
fn a_generator_that_is_late_is_the_cause() {
    let steps = "steps 5000 1 7 @101 @101 @101 @101 @102 @102 @102 0 0 0";
    let recording = [recording(steps)];
    // It read late, and it sent late though a connection was free.
    for (due, received) in [(100, 120), (80, 103)] {
        let told = explained(request(due, 100, received, None), &recording, 1);
        assert_eq!(told.cause, Cause::Generator, "{told:?}");
        assert!(!told.is_behind_another, "{told:?}");
    }
}
