//! When a connection has taken too long.

use super::*;

const TIMEOUTS: SlowClientTimeouts = SlowClientTimeouts {
    idle: Duration::from_secs(75),
    head: Duration::from_secs(10),
    body: Duration::from_secs(5),
    stall: Duration::from_secs(30),
};

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn progress() -> ConnectionProgress {
    ConnectionProgress::new(Rc::new(Cell::new(at(100))), ConnectionScope::AnyRequest)
}

#[test]
fn an_idle_connection_is_overdue_after_the_idle_timeout() {
    let progress = progress();
    assert!(!progress.is_overdue(at(174), TIMEOUTS));
    assert!(progress.is_overdue(at(175), TIMEOUTS));
}

#[test]
fn a_head_that_trickles_in_must_be_complete_within_the_head_timeout() {
    let progress = progress();
    progress.received(1);
    progress.now.set(at(105));
    progress.received(1);
    assert!(!progress.is_overdue(at(109), TIMEOUTS));
    assert!(progress.is_overdue(at(110), TIMEOUTS));
    progress.request_begins();
    assert!(!progress.is_overdue(at(110), TIMEOUTS));
    progress.request_ends();
    assert!(!progress.is_overdue(at(110), TIMEOUTS));
}

#[test]
fn a_handshake_and_a_part_of_a_record_have_the_time_of_a_head() {
    let progress = progress();
    progress.enter(Phase::Handshake);
    assert!(!progress.is_overdue(at(109), TIMEOUTS));
    assert!(progress.is_overdue(at(110), TIMEOUTS));
    progress.enter(Phase::Idle);
    assert!(!progress.is_overdue(at(110), TIMEOUTS));
    progress.receives_record();
    progress.now.set(at(105));
    progress.receives_record();
    assert!(!progress.is_overdue(at(109), TIMEOUTS));
    assert!(progress.is_overdue(at(110), TIMEOUTS));
    // The head that was in the record.
    progress.received(9);
    assert_eq!(progress.head_bytes(), Some(9));
}

#[test]
fn a_body_must_keep_its_least_rate_in_each_span() {
    let progress = progress();
    progress.request_begins();
    progress.body_begins();
    let least = 5 * BODY_BYTES_PER_SECOND as usize;
    progress.received(least);
    assert!(!progress.is_overdue(at(105), TIMEOUTS));
    progress.received(least - 1);
    assert!(!progress.is_overdue(at(109), TIMEOUTS));
    assert!(progress.is_overdue(at(110), TIMEOUTS));
}

#[test]
fn a_batch_may_pause_for_the_stall_timeout_and_long_lines_keep_the_least_rate() {
    let progress = progress();
    progress.request_begins();
    progress.continue_batch(Phase::Lines);
    progress.now.set(at(120));
    progress.continue_batch(Phase::Lines);
    assert!(!progress.is_overdue(at(129), TIMEOUTS));
    assert!(progress.is_overdue(at(130), TIMEOUTS));
    // Nothing but a line that is answered counts, which has the batch go on.
    progress.received(1);
    assert!(progress.is_overdue(at(130), TIMEOUTS));
    progress.continue_batch(Phase::Request);
    progress.continue_batch(Phase::Lines);
    assert!(!progress.is_overdue(at(149), TIMEOUTS));
    assert!(progress.is_overdue(at(150), TIMEOUTS));
    progress.continue_batch(Phase::Request);
    assert!(!progress.is_overdue(at(999), TIMEOUTS));
    let least = 30 * BODY_BYTES_PER_SECOND as usize;
    for (bytes, is_late) in [(least, false), (least - 1, true)] {
        progress.continue_batch(Phase::Request);
        progress.now.set(at(1000));
        progress.continue_batch(Phase::LongLine);
        progress.received(bytes);
        assert!(!progress.is_overdue(at(1029), TIMEOUTS));
        assert_eq!(progress.is_overdue(at(1030), TIMEOUTS), is_late);
    }
}

#[test]
fn a_slow_body_is_reported_to_its_reader_and_other_delays_end_the_connection() {
    let progress = progress();
    progress.request_begins();
    progress.body_begins();
    progress.end_if_overdue(at(105), TIMEOUTS);
    assert_eq!(
        (progress.is_body_late(), progress.is_cut.get()),
        (true, false)
    );
    progress.blocked();
    progress.end_if_overdue(at(130), TIMEOUTS);
    assert!(
        progress.is_cut.get(),
        "the client does not read the answer either"
    );
}

#[test]
fn a_client_must_read_answers_in_every_phase() {
    let progress = progress();
    progress.request_begins();
    progress.blocked();
    progress.now.set(at(120));
    progress.blocked();
    assert!(!progress.is_overdue(at(129), TIMEOUTS));
    assert!(progress.is_overdue(at(130), TIMEOUTS));
    progress.blocked_since.set(None);
    assert!(!progress.is_overdue(at(130), TIMEOUTS));
}

#[test]
fn a_client_must_read_at_the_least_rate_while_the_node_waits_for_it() {
    let least = 30 * ANSWER_BYTES_PER_SECOND as usize;
    // The client reads a thirtieth of `bytes` every other second, so the node
    // waits for it for 30 of 60 seconds.
    for (bytes, is_cut) in [(30, true), (least - 30, true), (least, false)] {
        let progress = progress();
        progress.request_begins();
        let mut was_cut = false;
        for second in 0..60 {
            progress.now.set(at(100 + second));
            match second % 2 {
                0 => progress.blocked(),
                _ => progress.sent(bytes / 30),
            }
            was_cut |= progress.is_overdue(at(100 + second), TIMEOUTS);
        }
        assert_eq!(was_cut, is_cut, "{bytes}");
    }
    // That the client read much before does not excuse that it reads nothing now.
    let progress = progress();
    progress.request_begins();
    progress.sent(1 << 30);
    progress.blocked();
    assert!(!progress.is_overdue(at(129), TIMEOUTS));
    assert!(progress.is_overdue(at(130), TIMEOUTS));
}

#[test]
fn the_length_of_a_head_counts_from_the_end_of_the_last_request() {
    let progress = progress();
    assert_eq!(progress.head_bytes(), Some(0));
    progress.received(5);
    progress.received(7);
    assert_eq!(progress.head_bytes(), Some(12));
    progress.request_begins();
    progress.body_begins();
    progress.received(9);
    assert_eq!(progress.head_bytes(), None);
    progress.request_ends();
    progress.received(1);
    assert_eq!(progress.head_bytes(), Some(1));
}
