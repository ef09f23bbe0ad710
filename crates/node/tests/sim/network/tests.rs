//! Tests of the network: order, stalls, losses, and hosts without power.

use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::LocalSet;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(30);

fn network() -> Network {
    Network::new(3, &(1..=20), 0, Dice::new(5), Trace::new())
}

/// Runs `test` while a network runs.
async fn with_network<F: Future<Output = ()>>(test: impl FnOnce(Network) -> F) {
    let network = network();
    let set = LocalSet::new();
    set.spawn_local(network.clone().run());
    set.run_until(test(network)).await;
}

/// A connection from host 0 to host 1, and the further connections to host 1.
async fn connected(network: &Network) -> (SimStream, SimStream, mpsc::Receiver<SimStream>) {
    let mut arrivals = network.listen(1);
    let dialer = network.dial(0, 1).await.unwrap();
    let accepter = arrivals.recv().await.unwrap();
    (dialer, accepter, arrivals)
}

#[tokio::test(start_paused = true)]
async fn bytes_arrive_in_order_and_late() {
    with_network(async |network| {
        let (mut one, mut other, _arrivals) = connected(&network).await;
        let sent: Vec<u8> = (0..200_000_u32).map(|number| number as u8).collect();
        let began = Instant::now();
        let expected = sent.clone();
        let writer = tokio::task::spawn_local(async move {
            one.write_all(&sent).await.unwrap();
            one.shutdown().await.unwrap();
            one
        });
        let mut received = Vec::new();
        other.read_to_end(&mut received).await.unwrap();
        assert!(received == expected);
        assert!(
            began.elapsed() >= Duration::from_millis(3),
            "a full pipe waits for its reader"
        );
        // The other direction still works.
        other.write_all(b"answer").await.unwrap();
        let mut one = writer.await.unwrap();
        let mut answer = [0; 6];
        one.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"answer");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_cut_path_stalls_bytes_one_way_and_nobody_connects() {
    with_network(async |network| {
        let (mut one, mut other, _arrivals) = connected(&network).await;
        network.cut(0, 1);
        one.write_all(b"ab").await.unwrap();
        other.write_all(b"cd").await.unwrap();
        let mut bytes = [0; 2];
        one.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"cd");
        assert!(timeout(LONG, other.read_exact(&mut bytes)).await.is_err());
        assert!(timeout(LONG, network.dial(1, 0)).await.is_err());
        network.cut(0, 1);
        network.heal(0, 1);
        assert!(timeout(LONG, other.read_exact(&mut bytes)).await.is_err());
        let dialing = network.clone();
        let dialing = tokio::task::spawn_local(async move { dialing.dial(0, 1).await.is_ok() });
        tokio::task::yield_now().await;
        network.heal(0, 1);
        other.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"ab");
        assert!(timeout(LONG, dialing).await.unwrap().unwrap());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_fails_at_both_ends() {
    with_network(async |network| {
        let (mut one, mut other, _arrivals) = connected(&network).await;
        one.write_all(b"in flight").await.unwrap();
        network.lose(1, 0);
        let error = other.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        let error = one.write_all(b"more").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_process_is_heard_of() {
    with_network(async |network| {
        let (mut one, mut other, _arrivals) = connected(&network).await;
        other.write_all(b"last").await.unwrap();
        network.stop_listening(1);
        drop(other);
        let mut received = Vec::new();
        one.read_to_end(&mut received).await.unwrap();
        assert_eq!(received, b"last");
        let error = network.dial(0, 1).await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        // Sending to a closed socket leads to an error later.
        one.write_all(b"x").await.unwrap();
        sleep(LONG).await;
        assert!(one.write_all(b"x").await.is_err());
        drop(one);
        assert!(network.lock().connections.is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_power_cut_is_silent_until_the_host_is_back() {
    with_network(async |network| {
        let (mut one, other, _arrivals) = connected(&network).await;
        network.cut_power(1);
        drop(other);
        one.write_all(b"x").await.unwrap();
        assert!(timeout(LONG, one.read_u8()).await.is_err());
        assert!(timeout(LONG, network.dial(0, 1)).await.is_err());
        let _arrivals = network.listen(1);
        let error = one.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        drop(one);
        assert!(network.lock().connections.is_empty());
        assert!(network.dial(0, 1).await.is_ok());
    })
    .await;
}
