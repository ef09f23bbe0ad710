//! A node while other nodes come and go: all that is kept for each node follows the layout.

use super::own_replica::{START_MS, open_one_of};
use crate::metrics::Series;
use crate::metrics_page::metric_families;
use crate::node::Node;
use crate::worker::Worker;
use base::ManualClock;
use cluster::{Layout, Member, Members, NodeId, NodeTable, NodeUrl};
use lsm_testing::{FaultyDisk, MemoryDisk};
use peer::{Dialing, LinkState, Transport};
use std::collections::BTreeSet;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

const A: NodeId = NodeId::new(0);
const B: NodeId = NodeId::new(1);
const C: NodeId = NodeId::new(2);
/// That of a node that has joined after others had come and gone.
const D: NodeId = NodeId::new(7);

/// Notes who is dialled, and reaches nobody.
#[derive(Default)]
struct NotedDials {
    hosts: Mutex<Vec<String>>,
    dialled: Notify,
}

impl NotedDials {
    /// Waits until a host is dialled that was not dialled before.
    async fn next_dial(&self, host: &str) {
        let is_dialled = || self.hosts.lock().unwrap().iter().any(|it| it == host);
        while !is_dialled() {
            self.dialled.notified().await;
        }
    }

    fn forget(&self) {
        self.hosts.lock().unwrap().clear();
    }
}

impl Transport for NotedDials {
    fn dial(&self, url: &NodeUrl) -> Dialing {
        self.hosts.lock().unwrap().push(url.host().to_owned());
        self.dialled.notify_one();
        Box::pin(pending())
    }
}

fn member(name: &str) -> Member {
    let url = format!("http://{name}:1").parse().unwrap();
    Member::named(name, url).unwrap()
}

fn layout_of(nodes: &[(NodeId, &str)]) -> Layout {
    let nodes: NodeTable<Member> = nodes.iter().map(|(id, name)| (*id, member(name))).collect();
    Layout::founding(Members::with_ids(nodes, A).unwrap())
}

/// The peers that the metrics of a node name.
fn peers_of_metrics(node: &Node) -> BTreeSet<String> {
    let mut peers = BTreeSet::new();
    for family in metric_families(node, None) {
        let labels: Vec<_> = match family.series {
            Series::Counters(series) | Series::Gauges(series) => {
                series.into_iter().flat_map(|(labels, _)| labels).collect()
            }
            Series::Histograms(_) => Vec::new(),
        };
        let of_peers = labels.into_iter().filter(|(name, _)| *name == "peer");
        peers.extend(of_peers.map(|(_, peer)| peer));
    }
    peers
}

#[tokio::test(start_paused = true)]
async fn links_hints_clocks_and_metrics_of_nodes_come_and_go_with_them() {
    let clock = Arc::new(ManualClock::new(START_MS));
    let disk = Arc::new(FaultyDisk::new(Arc::new(MemoryDisk::new())));
    let members = ["a", "b", "c"].map(member).to_vec();
    let members = Members::new(members, member("a").url()).unwrap();
    let node = Arc::new(open_one_of(members, &disk, &clock));
    let dials = Arc::new(NotedDials::default());
    let transport: Arc<dyn Transport> = Arc::clone(&dials) as _;
    let worker = Worker::new(Arc::clone(&node), 0, &transport);
    let tasks = tokio::task::LocalSet::new();
    let test = async {
        worker.spawn_upkeep();
        dials.next_dial("b").await;
        dials.next_dial("c").await;
        node.timestamps.record_clock(B, START_MS as i64);
        let link_to_b = worker.coordinator().peers.link(B).unwrap();
        let link_to_c = worker.coordinator().peers.link(C).unwrap();
        dials.forget();

        node.put_in_force(layout_of(&[(A, "a"), (C, "c"), (D, "d")]));
        dials.next_dial("d").await;
        let peers = &worker.coordinator().peers;
        assert_eq!(
            peers.layout().members().ids().collect::<Vec<_>>(),
            [A, C, D]
        );
        assert!(worker.link_status(D).is_some());
        // Requests that are under way may need the link of a node that has left.
        assert!(peers.link(B).is_some() && !peers.statuses().contains(B));
        assert_ne!(link_to_b.status().state, LinkState::Down);
        tokio::time::sleep(node.config.timeout + Duration::from_millis(1)).await;
        assert!(peers.link(B).is_none());
        // Whoever still holds it waits for nothing.
        assert_eq!(link_to_b.status().state, LinkState::Down);
        link_to_b.note_peer_dial();
        assert_eq!(link_to_b.status().state, LinkState::Down);
        assert!(std::rc::Rc::ptr_eq(&link_to_c, &peers.link(C).unwrap()));
        assert_eq!(node.timestamp_status().peers_ahead_ms, None, "b has no say");
        assert_eq!(
            peers_of_metrics(&node),
            ["a", "c", "d"].map(str::to_owned).into()
        );
        let names: BTreeSet<String> = node.layout().members().names().map(str::to_owned).collect();
        assert_eq!(names, ["a", "c", "d"].map(str::to_owned).into());

        // It moves to another host.
        let moved = Member::named("d", "http://elsewhere:1".parse().unwrap()).unwrap();
        let nodes = [(A, member("a")), (C, member("c")), (D, moved)];
        let members = Members::with_ids(nodes.into_iter().collect(), A).unwrap();
        node.put_in_force(Layout::founding(members));
        dials.next_dial("elsewhere").await;
        assert!(std::rc::Rc::ptr_eq(&link_to_c, &peers.link(C).unwrap()));
    };
    let test = tasks.run_until(test);
    tokio::time::timeout(Duration::from_secs(60), test)
        .await
        .unwrap();
}
