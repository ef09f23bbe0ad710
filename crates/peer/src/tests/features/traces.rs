//! The traces that requests are part of.

use super::*;
use crate::{TRACES, wire::message};
use base::TraceId;

fn trace(last: u8) -> TraceId {
    let mut bytes = [0; 16];
    bytes[15] = last;
    TraceId::of(bytes).unwrap()
}

#[test]
fn the_frame_is_as_drawn() {
    let mut out = Vec::new();
    let id = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
    message::put_trace(&mut out, 0x11, TraceId::of(id).unwrap());
    let header = [16, 0, 0, 0, 25, 0x11, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(out[4..], [&header[..], &id].concat());
    assert_eq!(TraceId::of([0; 16]), None);
}

/// Short and long requests, in frames of their own and of many, with traces and without.
#[tokio::test(start_paused = true)]
async fn a_replica_knows_of_which_trace_a_request_is_part() {
    for features in [u64::MAX, !MANY, !TRACES] {
        run(async {
            let mut other = TestNode::named("asker");
            other.hello.protocol.features &= features;
            let mut asker = Asker::new(other.environment(50_000));
            asker.start();
            let (replica, freeze) = (Rc::<TestReplica>::default(), FreezeSwitch::default());
            let _serving = asker.accept(&replica, &freeze).await;
            asker.until(LinkState::Up).await;
            let long = long_value(200_000);
            let mut traces = Vec::new();
            for ticket in 0..60 {
                let key = ticket.to_string();
                let request = match ticket % 3 {
                    0 => PeerRequest::Write(entry(&key, b"value")),
                    1 => read_of(&key),
                    _ if ticket < 12 => PeerRequest::Write(entry(&key, &long)),
                    _ => read_of(&key),
                };
                let part_of = (ticket % 5 < 3).then(|| trace(ticket as u8 + 1));
                traces.push(part_of);
                let deadline = asker.after(ms(30_000));
                let link = &asker.link;
                link.call_in_trace(request, deadline, ticket, part_of)
                    .unwrap();
            }
            for _ in 0..traces.len() {
                let (request, reply) = replica.next().await;
                let ticket: usize = key_of(&request).parse().unwrap();
                let known = traces[ticket].filter(|_| features & TRACES != 0);
                assert_eq!(reply.trace(), known, "{ticket}");
            }
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_is_told_once_a_request_is_answered_or_dropped() {
    run(async {
        let (asker, replica, _freeze, _serving) = connected().await;
        let told = Rc::new(Cell::new(0));
        for ticket in 0..2 {
            asker.read(ticket).unwrap();
            let (_, mut reply) = replica.next().await;
            let seen = Rc::clone(&told);
            reply.call_on_answer(move || seen.set(seen.get() + 1));
            assert_eq!(told.get(), ticket);
            match ticket {
                0 => reply.send(PeerAnswer::Found(None)),
                _ => drop(reply),
            }
            assert_eq!(told.get(), ticket + 1);
        }
    })
    .await;
}
