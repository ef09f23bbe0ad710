//! A connection waits for one poll for events before it writes.

use super::*;
use crate::connection::outgoing::Outgoing;
use crate::wire::message;
use tokio::task::yield_now;

/// A stream that counts the writes to it.
struct Counting {
    stream: DuplexStream,
    writes: Rc<Cell<usize>>,
}

impl AsyncRead for Counting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Counting {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.writes.update(|writes| writes + 1);
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A replica that has not answered so many reads yet.
struct SilentReplica {
    asker: Asker,
    replies: Vec<Reply>,
    /// How often the replica has written since it was asked.
    writes: Rc<Cell<usize>>,
}

impl SilentReplica {
    async fn new(reads: u64) -> Self {
        let mut asker = Asker::new(TestNode::named("asker").environment(50_000));
        asker.start();
        let (replica, writes) = (Rc::<TestReplica>::default(), Rc::<Cell<usize>>::default());
        let stream = Box::new(Counting {
            stream: asker.arrivals.recv().await.unwrap(),
            writes: Rc::clone(&writes),
        });
        let environment = TestNode::named("replica").environment(90_000);
        let serving = serve(
            stream,
            Bytes::new(),
            environment,
            Rc::clone(&replica),
            || {},
        );
        tokio::task::spawn_local(serving);
        asker.until(LinkState::Up).await;
        let mut replies = Vec::new();
        for ticket in 0..reads {
            asker.read(ticket).unwrap();
        }
        for _ in 0..reads {
            replies.push(replica.next().await.1);
        }
        // Until the first heartbeat is answered; the next one comes much later.
        tokio::time::sleep(ms(10)).await;
        writes.set(0);
        Self {
            asker,
            replies,
            writes,
        }
    }

    fn answer(&mut self) {
        let reply = self.replies.pop().unwrap();
        reply.send(PeerAnswer::Found(None));
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_next_events_bring_goes_into_the_same_write() {
    run(async {
        let mut asked = SilentReplica::new(3).await;
        asked.answer();
        asked.answer();
        // The runtime polls for events before it comes back to this task.
        yield_now().await;
        assert_eq!(asked.writes.get(), 0);
        asked.answer();
        for _ in 0..3 {
            asked.asker.answers.next().await;
        }
        assert_eq!(asked.writes.get(), 1);
    })
    .await;
}

#[test]
fn no_frame_waits_for_a_second_poll() {
    let outgoing = Outgoing::default();
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(
        outgoing.poll_gather(cx).is_ready(),
        "nothing is to be written"
    );
    for call in 0..5 {
        outgoing.push(|out| message::put_read(out, 2 * call, ms(9), b"key"));
        assert!(outgoing.poll_gather(cx).is_pending());
        outgoing.push(|out| message::put_read(out, 2 * call + 1, ms(9), b"key"));
        assert!(outgoing.poll_gather(cx).is_ready());
    }
}

/// The first piece of a long value fills a batch, so nothing is gained by waiting.
#[tokio::test(start_paused = true)]
async fn a_full_batch_is_written_at_once() {
    run(async {
        let mut asked = SilentReplica::new(1).await;
        let reply = asked.replies.pop().unwrap();
        let found = entry("0", &long_value(4 * frame::PIECE_BYTES));
        reply.send(PeerAnswer::Found(Some(found)));
        yield_now().await;
        assert!(asked.writes.get() > 0);
    })
    .await;
}
