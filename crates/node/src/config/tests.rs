use super::*;
use cluster::Member;

fn url(text: &str) -> NodeUrl {
    text.parse().unwrap()
}

/// The first of these nodes, with all defaults.
fn member(urls: &[&str]) -> NodeConfig {
    let nodes = urls.iter().map(|text| Member::unnamed(url(text))).collect();
    NodeConfig::new(Members::new(nodes, &url(urls[0])).unwrap(), "data")
}

const ONE_MACHINE: [&str; 3] = ["http://localhost:1", "http://127.0.0.1:2", "http://[::1]:3"];

#[test]
fn nodes_that_others_could_reach_need_a_secret() {
    let far = ["http://localhost:1", "http://10.0.0.5:1"];
    let error = member(&far).validate().unwrap_err();
    assert_eq!(error.field, "cluster_secret");
    assert!(error.problem.contains("http://10.0.0.5:1"), "{error}");
    let mut with_secret = member(&far);
    with_secret.cluster_secret = Some(Secrets::new(vec![Secret::new(&[7; 16]).unwrap()]).unwrap());
    assert_eq!(with_secret.validate(), Ok(()));
    assert_eq!(member(&ONE_MACHINE).validate(), Ok(()));
    let lone = NodeConfig::new(url("http://10.0.0.5:1"), "data");
    assert_eq!(lone.validate(), Ok(()));
}

#[test]
fn only_a_node_that_joins_or_is_the_only_one_of_a_cluster_has_a_zone() {
    let with_zone = |config: NodeConfig, zone: &str| {
        let zone = Some(zone.to_owned());
        let field = NodeConfig { zone, ..config }.validate().err();
        field.map(|error| error.field)
    };
    let alone = || NodeConfig::new(url("http://localhost:1"), "data");
    assert_eq!(with_zone(alone(), "rack-1"), Some("zone"));
    assert_eq!(with_zone(member(&ONE_MACHINE), "rack-1"), Some("zone"));
    let joins = || NodeConfig {
        join: Some(url("http://localhost:2")),
        ..alone()
    };
    assert_eq!(with_zone(joins(), "rack-1"), None);
    assert_eq!(with_zone(joins(), "rack 1"), Some("zone"));
    assert_eq!(with_zone(joins(), &"r".repeat(65)), Some("zone"));
    let listed = NodeConfig {
        is_listed: true,
        ..alone()
    };
    assert_eq!(with_zone(listed, "rack-1"), None);
}
