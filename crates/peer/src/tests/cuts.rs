//! Networks that are cut and joined again.

use super::*;

/// Serves what arrives for the link. While the network is cut, nothing passes on the
/// connections that there are, and those that are dialled are lost.
struct CutNetwork {
    is_cut: Rc<Cell<bool>>,
    freeze: RefCell<FreezeSwitch>,
}

impl CutNetwork {
    fn around(asker: &mut Asker) -> Rc<Self> {
        let (_, none) = mpsc::unbounded_channel();
        let mut arrivals = std::mem::replace(&mut asker.arrivals, none);
        let network = Rc::new(Self {
            is_cut: Rc::default(),
            freeze: RefCell::default(),
        });
        let serving = Rc::clone(&network);
        tokio::task::spawn_local(async move {
            let mut lost = Vec::new();
            while let Some(stream) = arrivals.recv().await {
                if serving.is_cut.get() {
                    lost.push(stream);
                    continue;
                }
                let freeze = FreezeSwitch::default();
                serving.freeze.replace(freeze.clone());
                let replica = Rc::<TestReplica>::default();
                replica.is_prompt.set(true);
                let environment = TestNode::named("replica").environment(90_000);
                let stream = Box::new(Freezable(stream, freeze));
                tokio::task::spawn_local(serve(stream, Bytes::new(), environment, replica, || {}));
            }
        });
        network
    }

    /// What was sent over a connection before a cut is sent again by TCP, but only after waits
    /// that double, so it may take as long as the cut has taken. Here it never is.
    fn cut(&self) {
        self.is_cut.set(true);
        self.freeze.borrow().set(true);
    }

    fn join(&self) {
        self.is_cut.set(false);
    }
}

#[tokio::test(start_paused = true)]
async fn a_link_works_again_soon_after_a_cut_however_long_it_was() {
    run(async {
        let mut asker = Asker::new(TestNode::named("asker").environment(50_000));
        let network = CutNetwork::around(&mut asker);
        asker.start();
        asker.until(LinkState::Up).await;
        for (ticket, cut_ms) in [600, 1_300, 2_500, 900, 4_700, 7_990, 30_001]
            .into_iter()
            .enumerate()
        {
            network.cut();
            tokio::time::sleep(ms(cut_ms)).await;
            assert!(asker.link.is_down());
            network.join();
            let joined = Instant::now();
            asker.until(LinkState::Up).await;
            let took = joined.elapsed();
            assert!(took < ms(1_500), "{took:?} after a cut of {cut_ms} ms");
            asker.read(ticket as u64).unwrap();
            let (answered, answer) = asker.answers.next().await;
            assert_eq!((answered, answer), (ticket as u64, PeerAnswer::Found(None)));
            tokio::time::sleep(ms(50)).await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_cut_off_is_dialled_about_once_a_second() {
    run(async {
        let mut asker = Asker::new(TestNode::named("asker").environment(50_000));
        let network = CutNetwork::around(&mut asker);
        asker.start();
        asker.until(LinkState::Up).await;
        network.cut();
        let before = asker.network.dialled.load(Ordering::Relaxed);
        tokio::time::sleep(ms(60_000)).await;
        let dialled = asker.network.dialled.load(Ordering::Relaxed) - before;
        assert!((50..=62).contains(&dialled), "{dialled}");
    })
    .await;
}
