//! Connects to the first of several addresses that answers.
//!
//! Attempts overlap: the next address is tried as soon as an attempt has failed, or when none
//! has succeeded for [`STAGGER`]. The first connection wins, and the other attempts are given
//! up.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;
use tokio::net::TcpStream;

/// How long an attempt has before the next address is tried beside it. Shorter than the 250 ms
/// that RFC 8305 suggests, and not below its least value: nodes have one second to reach each
/// other, the handshakes included.
const STAGGER: Duration = Duration::from_millis(100);

/// The most addresses that are tried.
const ADDRESSES_MAX: usize = 16;

/// Connects to the first of these addresses that answers.
///
/// # Errors
/// That of the attempt that failed last; [`io::ErrorKind::NotFound`] without an address. If an
/// address stays silent, only the caller's patience ends the attempt.
pub async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    race(in_turn(addresses), TcpStream::connect).await
}

/// The same for a caller that blocks, for this long at most. Reads and writes of the stream
/// block, too.
///
/// # Errors
/// As [`connect`], and [`io::ErrorKind::TimedOut`].
pub fn connect_within(
    addresses: &[SocketAddr],
    longest: Duration,
) -> io::Result<std::net::TcpStream> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let connected = runtime.block_on(async {
        let connected = tokio::time::timeout(longest, connect(addresses)).await;
        connected
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??
            .into_std()
    })?;
    connected.set_nonblocking(false)?;
    Ok(connected)
}

/// The addresses in the order in which to try them: that of the resolver, but families take
/// turns, because often a whole family is out of reach.
fn in_turn(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let Some(first) = addresses.first() else {
        return Vec::new();
    };
    let is_first_family = |address: &&SocketAddr| address.is_ipv4() == first.is_ipv4();
    let mut one = addresses.iter().filter(is_first_family);
    let mut other = addresses.iter().filter(|address| !is_first_family(address));
    let mut ordered = Vec::new();
    while ordered.len() < addresses.len().min(ADDRESSES_MAX) {
        ordered.extend(one.next());
        ordered.extend(other.next());
    }
    ordered.truncate(ADDRESSES_MAX);
    ordered
}

async fn race<T, F: Future<Output = io::Result<T>>>(
    addresses: Vec<SocketAddr>,
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<T> {
    let mut left = addresses.into_iter();
    let mut attempts: Vec<Pin<Box<F>>> = Vec::new();
    let mut problem = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    loop {
        match left.next() {
            Some(address) => attempts.push(Box::pin(connect(address))),
            None if attempts.is_empty() => return Err(problem),
            None => {}
        }
        let ended = first_to_end(&mut attempts);
        let ended = if left.as_slice().is_empty() {
            Ok(ended.await)
        } else {
            tokio::time::timeout(STAGGER, ended).await
        };
        match ended {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) => problem = error,
            // The next address is tried beside those that are silent.
            Err(_) => {}
        }
    }
}

/// The result of the attempt that ends first, which is removed.
async fn first_to_end<T, F: Future<Output = io::Result<T>>>(
    attempts: &mut Vec<Pin<Box<F>>>,
) -> io::Result<T> {
    poll_fn(|cx| {
        for index in 0..attempts.len() {
            if let Poll::Ready(ended) = attempts[index].as_mut().poll(cx) {
                drop(attempts.remove(index));
                return Poll::Ready(ended);
            }
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use tokio::time::Instant;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// Addresses that are silent, refuse, or answer after a while.
    async fn racing(
        hosts: &[(&str, Option<Result<u64, ()>>)],
    ) -> (io::Result<SocketAddr>, Vec<u64>) {
        let addresses = hosts.iter().map(|(host, _)| address(host)).collect();
        let (begin, tried_at) = (Instant::now(), RefCell::new(Vec::new()));
        let connect = |address: SocketAddr| {
            tried_at
                .borrow_mut()
                .push(begin.elapsed().as_millis() as u64);
            let (_, answers) = hosts
                .iter()
                .find(|(host, _)| address == host.parse().unwrap())
                .unwrap();
            async move {
                match *answers {
                    None => std::future::pending().await,
                    Some(Err(())) => Err(io::ErrorKind::ConnectionRefused.into()),
                    Some(Ok(after_ms)) => {
                        tokio::time::sleep(Duration::from_millis(after_ms)).await;
                        Ok(address)
                    }
                }
            }
        };
        let raced = tokio::time::timeout(Duration::from_secs(9), race(addresses, connect)).await;
        let raced = raced.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        (raced, tried_at.into_inner())
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_is_silent_keeps_no_connection_from_the_next() {
        let (won, tried_at) = racing(&[("10.0.0.1:1", None), ("10.0.0.2:1", Some(Ok(5)))]).await;
        assert_eq!(won.unwrap(), address("10.0.0.2:1"));
        assert_eq!(tried_at, [0, 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_refuses_is_followed_at_once() {
        let (won, tried_at) = racing(&[
            ("10.0.0.1:1", Some(Err(()))),
            ("10.0.0.2:1", Some(Err(()))),
            ("10.0.0.3:1", Some(Ok(5))),
        ])
        .await;
        assert_eq!(won.unwrap(), address("10.0.0.3:1"));
        assert_eq!(tried_at, [0, 0, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_address_may_still_win() {
        let slow = ("10.0.0.1:1", Some(Ok(150)));
        let (won, tried_at) = racing(&[slow, ("10.0.0.2:1", None), ("10.0.0.3:1", None)]).await;
        assert_eq!(won.unwrap(), address("10.0.0.1:1"));
        assert_eq!(tried_at, [0, 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn it_fails_once_all_have_failed() {
        let refuses = Some(Err(()));
        let (lost, _) = racing(&[("10.0.0.1:1", refuses), ("10.0.0.2:1", refuses)]).await;
        assert_eq!(lost.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let (lost, _) = racing(&[("10.0.0.1:1", None), ("10.0.0.2:1", refuses)]).await;
        assert_eq!(lost.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let (lost, _) = racing(&[]).await;
        assert_eq!(lost.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn families_take_turns_and_the_number_of_attempts_is_bounded() {
        let of = |texts: &[&str]| texts.iter().map(|text| address(text)).collect::<Vec<_>>();
        let found = of(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "1.1.1.2:1"]);
        let turns = of(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "1.1.1.2:1", "[::3]:1"]);
        assert_eq!(in_turn(&found), turns);
        assert_eq!(in_turn(&found[3..]), found[3..]);
        assert_eq!(in_turn(&[]), []);
        assert_eq!(in_turn(&[address("1.1.1.1:1"); 99]).len(), ADDRESSES_MAX);
    }

    #[test]
    fn a_caller_that_blocks_gets_a_stream_that_blocks() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let mut connected = connect_within(&[there], Duration::from_secs(60)).unwrap();
        assert_eq!(connected.peer_addr().unwrap(), there);
        let (mut accepted, _) = listener.accept().unwrap();
        io::Write::write_all(&mut accepted, b"x").unwrap();
        io::Read::read_exact(&mut connected, &mut [0]).unwrap();
        drop((listener, accepted));
        let refused = connect_within(&[there], Duration::from_secs(60)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
