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
