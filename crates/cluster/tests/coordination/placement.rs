//! Golden cases of placement: where keys have gone, keys must go for ever.
//!
//! `nodes NAME..` sets the nodes; `KEY -> NAME..` tells the key's whole ranking.

use crate::script;
use cluster::Placement;

#[test]
fn keys_go_where_they_went() {
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
    let ranking = placement.ranking(event.as_bytes(), u8::MAX);
    let names: Vec<&str> = ranking
        .iter()
        .map(|node| names[node.index()].as_str())
        .collect();
    names.join(" ")
}
