//! What changes while a cluster serves: it moves to TLS, its certificates and their
//! authority are exchanged, its secret changes. No request fails meanwhile.

use crate::fixtures::authority::{Authority, NodeFiles, client};
use crate::fixtures::cluster::{ClusterNode, TestCluster, node_locations, write_secret};
use crate::fixtures::steady_load::SteadyLoad;
use crate::support::wait_until;
use rustix::process::Signal;

const CLIENTS: usize = 4;
const EXCHANGES: usize = 100;

/// The files of all nodes, with certificates of an authority.
fn files_of(cluster: &TestCluster, authority: &Authority) -> [NodeFiles; 3] {
    [0, 1, 2].map(|index| {
        let node = &cluster[index];
        let files = NodeFiles::new(cluster.folder.path(), node.name);
        files.trust(&[authority]);
        authority.issue(&files, node.location.address);
        files
    })
}

fn load_on(cluster: &TestCluster) -> SteadyLoad {
    SteadyLoad::new([0, 1, 2].map(|index| cluster[index].location.address))
}

/// Runs `change` while the load goes on, and checks that no request has failed.
fn under_load(load: &SteadyLoad, change: impl FnOnce()) {
    std::thread::scope(|scope| {
        let _end = load.end_on_drop();
        for name in 0..CLIENTS {
            scope.spawn(move || load.run(name));
        }
        change();
        let before = load.requests();
        wait_until("more requests", || {
            (load.requests() > before + 100).then_some(())
        });
    });
    assert_eq!(load.failures(), Vec::<String>::new());
}

/// Restarts each node in turn with what `change` changes.
fn restart_each(
    cluster: &mut TestCluster,
    load: &SteadyLoad,
    mut change: impl FnMut(usize, &mut ClusterNode),
) {
    for index in 0..3 {
        load.set_available(index, false);
        cluster[index].stop();
        change(index, &mut cluster[index]);
        start_and_join(cluster, load, index);
    }
}

/// Starts a node, and waits until all runtimes of all nodes reach each other: only then
/// may the next node be stopped.
fn start_and_join(cluster: &mut TestCluster, load: &SteadyLoad, index: usize) {
    cluster[index].start(&[]);
    cluster.wait_until_joined();
    for node in &cluster.nodes {
        wait_until("links of all runtimes", || {
            let page = node
                .connect()
                .and_then(|mut connection| connection.request("GET", "/metrics", "", b""));
            let page = String::from_utf8(page.ok()?.body).unwrap();
            let links = page
                .lines()
                .filter(|line| line.starts_with("kvorum_peer_up{"));
            let up = links.filter(|line| line.ends_with(" 1.0")).count();
            (up == 2).then_some(())
        });
    }
    load.set_available(index, true);
}

#[test]
fn a_cluster_moves_to_tls_node_by_node_without_a_failed_request() {
    let mut cluster = TestCluster::start();
    let authority = Authority::new("authority");
    let files = files_of(&cluster, &authority);
    let over_tls = client(cluster.folder.path(), &[&authority]);
    let load = load_on(&cluster);
    under_load(&load, || {
        // 1. Certificates on all nodes, which still take what has no TLS.
        restart_each(&mut cluster, &load, |index, node| {
            node.options = files[index].options();
            node.options.push("--tls-optional".to_owned());
        });
        // Clients move whenever they like.
        load.set_client(Some(over_tls.clone()));
        // 2. The nodes reach each other over TLS.
        restart_each(&mut cluster, &load, |_, node| {
            node.list = node.list.replace("http://", "https://");
            node.is_https = true;
            node.client = Some(over_tls.clone());
        });
        // 3. Nothing without TLS is taken any more.
        restart_each(&mut cluster, &load, |index, node| {
            node.options = files[index].options();
        });
    });
    for node in &mut cluster.nodes {
        node.client = None;
        let refused = node
            .connect()
            .unwrap()
            .request("GET", "/v0/status", "", b"");
        assert_eq!(refused.unwrap().status, 400);
    }
}

#[test]
fn certificates_and_their_authority_are_exchanged_under_load() {
    let mut cluster = TestCluster::new(node_locations());
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let files = files_of(&cluster, &old);
    let over_tls = client(cluster.folder.path(), &[&old, &new]);
    for (node, files) in cluster.nodes.iter_mut().zip(&files) {
        node.options = files.options();
        node.list = node.list.replace("http://", "https://");
        node.is_https = true;
        node.client = Some(over_tls.clone());
    }
    cluster.start_all();
    let load = load_on(&cluster);
    load.set_client(Some(over_tls));
    under_load(&load, || {
        let mut reloads = [0; 3];
        for exchange in 0..EXCHANGES {
            let (index, round) = (exchange % 3, exchange / 3);
            // First all trust both authorities, then all have a certificate of the new one,
            // then nobody trusts the old one.
            let trusted: &[&Authority] = match round {
                0..10 => &[&old],
                10..20 => &[&old, &new],
                _ => &[&new],
            };
            files[index].trust(trusted);
            let authority = if round < 15 { &old } else { &new };
            authority.issue(&files[index], cluster[index].location.address);
            cluster[index].signal(Signal::HUP);
            reloads[index] += 1;
            wait_until("the files to be in force", || {
                let status = cluster[index].status().unwrap();
                (status["tls"]["reloads"] == reloads[index]).then_some(())
            });
            if exchange % 10 == 9 {
                // The links of a node that starts are made with what is in force now.
                load.set_available(index, false);
                cluster[index].stop();
                start_and_join(&mut cluster, &load, index);
                reloads[index] = 0;
            }
        }
    });
}

#[test]
fn the_secret_changes_node_by_node() {
    let mut cluster = TestCluster::new(node_locations());
    let write = |cluster: &TestCluster, index: usize, text: &str| {
        write_secret(cluster.folder.path(), &format!("secret-{index}"), text)
    };
    let (old, new) = ("the secret until today", "the secret from today on");
    for index in 0..3 {
        let file = write(&cluster, index, old);
        cluster[index].options = vec!["--cluster-secret-file".to_owned(), file];
    }
    cluster.start_all();
    for (step, text) in [
        format!("{old}\n{new}\n"),
        format!("{new}\n{old}\n"),
        format!("{new}\n"),
    ]
    .iter()
    .enumerate()
    {
        for index in 0..3 {
            cluster[index].clear_log();
            write(&cluster, index, text);
            cluster[index].signal(Signal::HUP);
            let accepted = if step == 2 {
                "accepted=1"
            } else {
                "accepted=2"
            };
            cluster[index].wait_until_logged(&["cluster's secret has changed", accepted]);
            if index == 0 {
                // Its links to nodes that have not changed yet are made anew.
                cluster[index].stop();
                cluster[index].start(&[]);
                cluster.wait_until_joined();
            }
        }
    }
    // What cannot be used is said, and changes nothing.
    write(&cluster, 1, "short\n");
    cluster[1].signal(Signal::HUP);
    cluster[1].wait_until_logged(&["ERROR", "16 to 4096", "keeps the previous secret"]);
    cluster[0].stop();
    cluster[0].start(&[]);
    cluster.wait_until_joined();
}
