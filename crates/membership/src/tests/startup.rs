//! Which folders a node starts with, and the numbers of its starts.

use super::*;

#[test]
fn each_start_has_another_number_even_if_the_same_one_is_drawn() {
    let folder = Folder::new();
    let environment = || folder.environment(7);
    for starts in 1..4 {
        let node = Membership::open(environment(), layouts(), 1, false).unwrap();
        let mut numbers = node.starts().to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), starts);
    }
    let node = Membership::open(environment(), layouts(), 1, false).unwrap();
    let after = folder.after_crash().open(1);
    assert!(
        after.starts().starts_with(&node.starts()),
        "a start number is durable before a peer learns of it"
    );
}

#[test]
fn a_folder_of_another_node_or_cluster_is_refused() {
    let [a, _b, _c] = voters();
    let before = ClusterFile::load(&*a.disk, Path::new("/data")).unwrap();
    let refused = |members: Members| {
        let refused = a.open_as(members.clone(), 1, false).err().unwrap();
        // Accepting the store does not change that.
        assert!(a.open_as(members, 1, true).is_err());
        let line = refused.to_string();
        assert!(!line.contains('\n'), "{line}");
        (refused, line)
    };
    let (refusal, line) = refused(members("b", &NODES));
    assert!(
        matches!(refusal, MembershipError::OtherNode { .. }),
        "{line}"
    );
    for names in [&["a", "b", "c", "d"][..], &["a", "b"], &["a", "b", "d"]] {
        let (refusal, line) = refused(members("a", names));
        assert!(
            matches!(refusal, MembershipError::OtherNodes { .. }),
            "{line}"
        );
        assert!(
            line.contains("a, b, c") && line.contains(&names.join(", ")),
            "{line}"
        );
        let remedy = "start this node with the list that it had";
        assert!(line.contains(remedy), "it says what to do: {line}");
    }
    // A node that was in a cluster cannot be started without peers.
    let alone = Member::named("a", "http://127.0.0.1:1".parse().unwrap()).unwrap();
    let alone = Members::single_node(alone);
    refused(alone.clone());
    let after = ClusterFile::load(&*a.disk, Path::new("/data")).unwrap();
    assert_eq!(before, after, "a refusal changes nothing");
    // A node that had no peers cannot be started in a cluster.
    let folder = Folder::new();
    folder.open_as(alone, 1, false).unwrap();
    assert!(folder.open_as(members("a", &NODES), 1, false).is_err());
}

#[test]
fn a_folder_with_urls_as_names_says_how_to_keep_them() {
    let list = |text: &str| {
        let nodes = text.split(',').map(|node| node.parse().unwrap()).collect();
        Members::new(nodes, &"https://a:1".parse().unwrap()).unwrap()
    };
    let folder = Folder::new();
    let earlier = list("http://a:1=https://a:1,http://b:1=http://b:1");
    folder.open_as(earlier.clone(), 1, false).unwrap();
    let refused = folder.open_as(list("https://a:1,http://b:1"), 1, false);
    let line = refused.err().unwrap().to_string();
    let told = line.split_once("--cluster ").unwrap().1;
    assert_eq!(list(told), earlier, "{line}");
    assert!(
        folder
            .open_as(list("https://a:1,http://c:1"), 1, false)
            .is_err()
    );
    folder.open_as(list(told), 1, false).unwrap();
}

#[test]
fn a_node_may_move_to_another_address() {
    let [a, _b, _c] = voters();
    let at = |port: u16| -> NodeUrl { format!("http://10.0.0.1:{port}").parse().unwrap() };
    let nodes = NODES.iter().zip(1..);
    let nodes = nodes.map(|(name, port)| Member::named(name, at(port)).unwrap());
    let moved = Members::new(nodes.collect(), &at(1)).unwrap();
    let node = a.open_as(moved, 1, false).unwrap();
    assert!(node.durably_remembered(id_of("b")).is_some());
}

#[test]
fn a_list_that_has_not_changed_has_the_url_and_the_zone_of_the_present_start() {
    let folder = Folder::new();
    let open = |url: &str, zone: &str| {
        let own = Member::named("a", url.parse().unwrap()).unwrap();
        let layouts = Layouts::new(Layout::founding(Members::single_node(own)));
        let environment = MembershipEnvironment {
            is_cluster_of_one: true,
            zone: Some(zone.to_owned()),
            default_pair: Replicas::quorum(1),
            ..folder.environment(7)
        };
        let node = Membership::open(environment, layouts, 1, false).unwrap();
        node.list().unwrap()
    };
    let first = open("http://127.0.0.1:1", "rack-1");
    let moved = open("http://127.0.0.1:2", "rack-2");
    assert_eq!(first.cluster(), moved.cluster());
    let [listed] = moved.members() else {
        panic!("{moved:?}");
    };
    let is_at = (listed.member.url().to_string(), listed.zone.as_deref());
    assert_eq!(is_at, ("http://127.0.0.1:2".to_owned(), Some("rack-2")));
}
