use super::*;

fn url(text: &str) -> NodeUrl {
    text.parse().unwrap()
}

/// The members in `list`, separated by commas, as the node at `own` sees them.
fn members(list: &str, own: &str) -> Result<Members, MembersError> {
    let nodes = list.split(',').map(|node| node.parse().unwrap()).collect();
    Members::new(nodes, &url(own))
}

#[test]
fn a_node_without_a_name_is_called_by_its_host_and_port() {
    for (text, name, address) in [
        ("http://a:1", "a:1", "http://a:1"),
        ("HTTP://A:01/", "a:1", "http://a:1"),
        ("https://a:1", "a:1", "https://a:1"),
        ("https://[::1]:1", "[::1]:1", "https://[::1]:1"),
        ("north=http://a:1", "north", "http://a:1"),
        ("North=http://A:1/", "North", "http://a:1"),
        // The name can be an address that the node has left.
        ("http://old:1=http://new:1", "http://old:1", "http://new:1"),
    ] {
        let node: Member = text.parse().unwrap();
        assert_eq!((node.name(), node.url()), (name, &url(address)), "{text}");
    }
}

#[test]
fn an_error_says_why_a_text_is_not_a_node() {
    let long = format!("{}=http://a:1", "x".repeat(Member::NAME_BYTES_MAX + 1));
    for (text, word) in [
        ("", "http://host:port"),
        ("north", "http://host:port"),
        ("north=", "http://host:port"),
        ("north=http://a", "no port"),
        ("=http://a:1", "is empty"),
        ("a=b=http://a:1", "`a=b` cannot be used"),
        ("a b=http://a:1", "`a b` cannot be used"),
        ("a\nb=http://a:1", "`a\\nb` cannot be used"),
        ("nörd=http://a:1", "cannot be used"),
        (&long, "at most 512"),
    ] {
        let error = text.parse::<Member>().unwrap_err().to_string();
        assert!(error.contains(word), "{text}: {error}");
        assert!(!error.contains('\n'), "{text}: {error}");
    }
}

#[test]
fn nodes_have_ids_by_name_in_any_order_of_the_list() {
    let expected = ["B", "a", "c:1"];
    for list in [
        "a=http://x:1,B=http://y:1,http://c:1",
        "http://c:1,B=http://y:1,a=http://x:1",
        "B=http://y:1,http://c:1,a=http://x:1",
    ] {
        let members = members(list, "http://x:1").unwrap();
        assert_eq!(members.names().collect::<Vec<_>>(), expected, "{list}");
        let own = members.own();
        assert_eq!(own.index(), 1, "{list}");
        assert_eq!(
            (members.own_name(), members.own_url()),
            ("a", &url("http://x:1"))
        );
        let ids: Vec<usize> = members.ids().map(NodeId::index).collect();
        assert_eq!(ids, [0, 1, 2]);
        let peers: Vec<usize> = members.peers().map(NodeId::index).collect();
        assert_eq!(peers, [0, 2]);
        for (id, name) in members.ids().zip(expected) {
            assert_eq!(members.name(id), name);
            assert_eq!(members.id_of(name), Some(id));
        }
        assert_eq!(members.id_of("c"), None);
        assert_eq!((members.count(), members.is_single_node()), (3, false));
    }
}

#[test]
fn a_list_that_is_not_a_cluster_is_refused() {
    let own = "http://a:1";
    for (list, word) in [
        ("http://b:1", "add its own URL, http://a:1"),
        ("http://a:2,http://b:1", "add its own URL, http://a:1"),
        ("http://a:1,http://b:1,HTTP://B:01/", "http://b:1 twice"),
        ("http://a:1,x=http://A:1", "http://a:1 twice"),
        ("http://a:1,x=https://A:1", "http://a:1 twice"),
        (
            "https://a:1,http://b:1",
            "https://a:1 for this node, whose own URL is http://a:1",
        ),
        ("x=http://a:1,x=http://b:1", "two nodes called x"),
        // The second node's URL is the first node's name.
        ("b:1=http://a:1,http://b:1", "two nodes called b:1"),
        ("http://a:1,http://b:0", "http://b:0 has port 0"),
    ] {
        let error = members(list, own).unwrap_err().to_string();
        assert!(error.contains(word), "{list}: {error}");
    }
}

#[test]
fn a_cluster_has_at_most_255_nodes() {
    let list = |nodes: usize| {
        let urls: Vec<String> = (1..=nodes).map(|port| format!("http://a:{port}")).collect();
        urls.join(",")
    };
    let most = members(&list(255), "http://a:255").unwrap();
    assert_eq!(most.count(), 255);
    assert_eq!(most.ids().count(), 255);
    assert_eq!(most.own_url().port(), 255);
    let error = members(&list(256), "http://a:1").unwrap_err();
    assert_eq!(error, MembersError::TooMany { nodes: 256 });
}

#[test]
fn the_hash_covers_the_names_only() {
    let hash = |list: &str, own: &str| members(list, own).unwrap().names_hash();
    let first = hash("a=http://x:1,b=http://y:1", "http://x:1");
    // Nodes of different releases compare it, so it must never change.
    assert_eq!(first, 17_728_237_027_163_311_433);
    for (same, own) in [
        ("b=http://y:1,a=http://x:1", "http://y:1"),
        ("a=http://elsewhere:9,b=http://y:1", "http://y:1"),
    ] {
        assert_eq!(hash(same, own), first, "{same}");
    }
    let unnamed = hash("http://x:1,http://y:1", "http://x:1");
    assert_eq!(hash("https://x:1,http://y:1", "http://y:1"), unnamed);
    for other in [
        "a=http://x:1",
        "a=http://x:1,c=http://y:1",
        "a=http://x:1,b=http://y:1,c=http://z:1",
        "http://x:1,http://y:1",
    ] {
        assert_ne!(hash(other, "http://x:1"), first, "{other}");
    }
    assert_ne!(
        hash("ab=http://x:1,c=http://y:1", "http://x:1"),
        hash("a=http://x:1,bc=http://y:1", "http://x:1"),
    );
}

#[test]
fn a_list_is_loopback_only_if_all_nodes_are() {
    let of = |list| members(list, "http://localhost:1").unwrap();
    assert!(of("http://localhost:1,http://127.0.0.1:2,http://[::1]:3").is_loopback_only());
    assert!(!of("http://localhost:1,http://10.0.0.1:1").is_loopback_only());
}

#[test]
fn a_node_without_peers_learns_its_port() {
    let mut unnamed = Members::from(url("http://[::1]:0"));
    assert!(unnamed.is_single_node());
    unnamed.set_own_port(7);
    assert_eq!(unnamed.own_name(), "[::1]:7");
    assert_eq!(unnamed.own_url(), &url("http://[::1]:7"));
    // The port is known now, so it stays.
    unnamed.set_own_port(8);
    assert_eq!(unnamed.own_url(), &url("http://[::1]:7"));

    let node = Member::named("north", url("http://h:0")).unwrap();
    let mut named = Members::single_node(node);
    named.set_own_port(7);
    assert_eq!(
        (named.own_name(), named.own_url()),
        ("north", &url("http://h:7"))
    );
}

#[test]
fn the_id_in_timestamps_counts_from_1_and_is_0_without_peers() {
    let list = "c=http://c:1,a=http://a:1,b=http://b:1";
    for (own, id) in [("http://a:1", 1), ("http://b:1", 2), ("http://c:1", 3)] {
        assert_eq!(members(list, own).unwrap().id_in_timestamps(), id);
    }
    let alone = members("a=http://a:1", "http://a:1").unwrap();
    assert_eq!(alone.id_in_timestamps(), 0);
    let all: Vec<String> = (0..255).map(|node| format!("http://n{node}:1")).collect();
    let ids: std::collections::BTreeSet<u8> = all
        .iter()
        .map(|own| members(&all.join(","), own).unwrap().id_in_timestamps())
        .collect();
    assert_eq!(
        ids.into_iter().collect::<Vec<_>>(),
        (1..=255).collect::<Vec<_>>()
    );
}

#[test]
fn the_ids_of_a_changed_list_have_holes_and_no_order() {
    let node = |id: u8, name: &str| {
        let url = url(&format!("http://{name}:1"));
        (NodeId::new(id), Member::named(name, url).unwrap())
    };
    let nodes: NodeTable<Member> = [node(0, "m"), node(2, "z"), node(7, "a")]
        .into_iter()
        .collect();
    let members = Members::with_ids(nodes.clone(), NodeId::new(7)).unwrap();
    assert_eq!(Members::with_ids(nodes, NodeId::new(1)), None);
    assert_eq!((members.count(), members.own_name()), (3, "a"));
    assert_eq!(members.id_in_timestamps(), 8);
    assert_eq!(members.names().collect::<Vec<_>>(), ["m", "z", "a"]);
    assert_eq!(members.sorted_names(), ["a", "m", "z"]);
    assert_eq!(
        members.peers().map(NodeId::index).collect::<Vec<_>>(),
        [0, 2]
    );
    assert_eq!(members.id_of("z"), Some(NodeId::new(2)));
    let nobody = NodeId::new(1);
    assert_eq!(
        (members.name(nobody), members.url(nobody)),
        (Members::NO_NAME, None)
    );
    // Nodes that know each other by other IDs still see that they have the same list.
    let founding = Members::new(
        ["a", "m", "z"].map(|name| node(0, name).1).to_vec(),
        &url("http://a:1"),
    );
    assert_eq!(members.names_hash(), founding.unwrap().names_hash());
}
