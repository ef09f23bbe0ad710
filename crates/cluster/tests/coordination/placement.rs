//! Golden cases of placement: a key must have the same replicas for ever.
//!
//! `nodes NAME..` sets the nodes; `KEY -> NAME..` is the whole preference list of a key.

use crate::script;
use cluster::Placement;

#[test]
fn keys_keep_their_replicas() {
    script::run(
        "placement.txt",
        include_str!("../golden/placement.txt"),
        step,
    );
}

struct Nodes {
    names: Vec<String>,
    placement: Placement,
}

fn step(nodes: &mut Option<Nodes>, event: &str) -> String {
    if let Some(names) = event.strip_prefix("nodes ") {
        let names: Vec<String> = names.split(' ').map(str::to_owned).collect();
        let placement = Placement::new(names.iter().map(String::as_str));
        let told = format!("{} nodes", placement.nodes());
        *nodes = Some(Nodes { names, placement });
        return told;
    }
    let Nodes { names, placement } = nodes.as_ref().unwrap();
    let preference_list = placement.preference_list(event.as_bytes(), u8::MAX);
    let names: Vec<&str> = preference_list
        .iter()
        .map(|node| names[node.index()].as_str())
        .collect();
    names.join(" ")
}
