//! Certificates that are wrong, as the nodes on both sides of a connection see them.

use crate::fixtures::authority::{Authority, NodeFiles, client};
use crate::fixtures::cluster::{ClusterNode, TestCluster, node_locations};
use crate::support::{Process, wait_until};
use rustix::process::Signal;
use serde_json::Value;

/// Two nodes of a cluster over TLS that know each other, and a third that has yet to start.
fn two_of_three(authority: &Authority) -> (TestCluster, NodeFiles) {
    let mut cluster = TestCluster::new(node_locations());
    let folder = cluster.folder.path().to_owned();
    let over_tls = client(&folder, &[authority]);
    let mut files = cluster.nodes.iter_mut().map(|node| {
        let files = NodeFiles::new(&folder, node.name);
        files.trust(&[authority]);
        authority.issue(&files, node.location.address);
        node.options = files.options();
        node.list = node.list.replace("http://", "https://");
        node.is_https = true;
        node.client = Some(over_tls.clone());
        files
    });
    let third = files.by_ref().last().unwrap();
    drop(files);
    for index in 0..2 {
        cluster[index].start(&[]);
    }
    wait_until("two nodes that know each other", || {
        (cluster[0].state_of("b") == "up" && cluster[1].state_of("a") == "up").then_some(())
    });
    (cluster, third)
}

/// Why a node has no TLS connection to another one, once its status says so.
fn tls_failure(node: &ClusterNode, other: &str) -> Value {
    wait_until("the status to say why there is no connection", || {
        let status = node.status().ok()?;
        let mut members = status["cluster"].as_array()?.iter();
        let member = members.find(|member| member["name"] == other)?;
        (member["problem"] == "tls").then(|| member["tls_failure"].clone())
    })
}

/// The advice of the first node about the third with this runbook.
fn advice_about_third(cluster: &TestCluster, runbook: &str) -> Value {
    wait_until("the first node to tell what to do", || {
        let mut connection = cluster[0].connect().ok()?;
        let answer = connection.request("GET", "/v0/cluster", "", b"").ok()?;
        let page: Value = serde_json::from_slice(&answer.body).ok()?;
        let mut advice = page["advice"].as_array()?.iter();
        let is_it = |advice: &&Value| advice["node"] == "c" && advice["runbook"] == runbook;
        advice.find(is_it).cloned()
    })
}

#[test]
fn nodes_say_what_is_wrong_with_a_certificate_and_what_to_do() {
    let (authority, other) = (Authority::new("authority"), Authority::new("other"));
    let (mut cluster, third) = two_of_three(&authority);
    let address = cluster[2].location.address;
    // Of an authority that the third node trusts, and the others do not.
    third.trust(&[&authority, &other]);
    other.issue(&third, address);
    cluster[2].spawn(&[]);
    let unknown = "not from an authority that is trusted here: have one sign it";
    cluster[0].wait_until_logged(&["cannot connect to a peer", "name=\"c\"", unknown]);
    cluster[0].wait_until_logged(&["handshake with a client failed", unknown]);
    cluster[2].wait_until_logged(&["name=\"a\"", "refuses this side's certificate", "alert"]);
    assert_ne!(cluster[0].state_of("c"), "up");
    // What logs say, an operator sees everywhere else.
    let failure = tls_failure(&cluster[0], "c");
    assert_eq!(failure["reason"], "certificate", "{failure}");
    let cause = "its certificate is not from an authority that is trusted here";
    assert_eq!(failure["cause"], cause, "{failure}");
    let advice = advice_about_third(&cluster, "Handshakes fail");
    assert!(advice["what"].as_str().unwrap().contains(cause), "{advice}");
    assert!(
        advice["remedy"]
            .as_str()
            .unwrap()
            .starts_with("Have one sign it"),
        "{advice}"
    );
    let runbook = advice["runbook_url"].as_str().unwrap();
    assert!(runbook.starts_with("https://"), "{advice}");
    assert!(
        runbook.ends_with("/#/runbooks?at=handshakes-fail"),
        "{advice}"
    );
    wait_until("the metrics to say it", || {
        let mut connection = cluster[0].connect().ok()?;
        let page = connection.request("GET", "/metrics", "", b"").ok()?;
        let page = String::from_utf8(page.body).ok()?;
        let line = "kvorum_peer_problem{peer=\"c\",problem=\"tls\"} 1";
        page.lines()
            .any(|other| other.starts_with(line))
            .then_some(())
    });
    cluster[2].kill();
    // The two go on, and the third joins them once it has what it needs.
    authority.issue(&third, address);
    cluster[2].start(&[]);
    cluster.wait_until_joined();
}

#[test]
fn a_node_does_not_start_with_a_certificate_that_the_others_would_refuse() {
    let (authority, other) = (Authority::new("authority"), Authority::new("other"));
    let (mut cluster, third) = two_of_three(&authority);
    let address = cluster[2].location.address;
    let cases: [(&dyn Fn(), &str); 4] = [
        (
            &|| other.issue(&third, address),
            "is not from an authority in",
        ),
        (
            &|| authority.issue_expired(&third, address),
            "has expired: renew it",
        ),
        (
            &|| third.write_self_made(address),
            "is not from an authority in",
        ),
        (
            &|| authority.issue_for_server(&third, address),
            "both extended key usages, serverAuth and clientAuth",
        ),
    ];
    for (write, words) in cases {
        write();
        let end = Process::spawn(&mut cluster[2].command(&[])).end();
        let line = end.stderr.lines().last().unwrap_or_default();
        assert_eq!(end.code, Some(2), "{line}");
        for word in ["c.pem", "other nodes would refuse", words] {
            assert!(line.contains(word), "{word}: {line}");
        }
    }
    // While it runs, such a certificate leaves the good one in force.
    authority.issue(&third, address);
    cluster[2].start(&[]);
    cluster.wait_until_joined();
    other.issue(&third, address);
    cluster[2].signal(Signal::HUP);
    cluster[2].wait_until_logged(&["ERROR", "cannot be used", "is not from an authority in"]);
    let status = cluster[2].status().unwrap();
    let problem = status["tls"]["problem"].as_str().unwrap();
    assert!(problem.contains("other nodes would refuse"), "{problem}");
    // It is told through the other nodes, too.
    advice_about_third(&cluster, "The files of TLS cannot be used");
    cluster[0].stop();
    cluster[0].start(&[]);
    cluster.wait_until_joined();
}

#[test]
fn a_node_that_is_reached_under_another_name_is_refused() {
    let authority = Authority::new("authority");
    let (mut cluster, _files) = two_of_three(&authority);
    let address = cluster[2].location.address;
    // The first node looks for the third under a name that its certificate does not have.
    cluster[0].stop();
    let list = cluster[0].list.clone();
    let elsewhere = format!("https://localhost:{}", address.port());
    cluster[0].list = list.replace(&format!("https://{address}"), &elsewhere);
    cluster[2]
        .options
        .push(format!("--listen={address},127.0.0.1:{}", address.port()));
    cluster[2].start(&[]);
    cluster[0].start(&[]);
    cluster[0].wait_until_logged(&[
        "cannot connect to a peer",
        "name=\"c\"",
        "not for localhost: issue one for the host of its URL",
    ]);
    assert_ne!(cluster[0].state_of("c"), "up");
    let failure = tls_failure(&cluster[0], "c");
    let cause = failure["cause"].as_str().unwrap();
    assert!(cause.ends_with("not for localhost"), "{failure}");
}

#[test]
fn a_node_without_tls_is_told_how_to_reach_nodes_with_it() {
    let authority = Authority::new("authority");
    let (mut cluster, _files) = two_of_three(&authority);
    let third = &mut cluster[2];
    third.options.push("--tls-optional".to_owned());
    third.list = third.list.replace("https://", "http://");
    third.is_https = false;
    third.start(&[]);
    cluster[2].wait_until_logged(&["name=\"a\"", "write its URL with https:// in --cluster"]);
    assert_ne!(cluster[2].state_of("a"), "up");
    let failure = tls_failure(&cluster[2], "a");
    assert_eq!(failure["reason"], "plain", "{failure}");
}
