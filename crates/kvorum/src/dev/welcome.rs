//! The text that the user sees when a local cluster is up.

use super::layout::ClusterLayout;
use super::options::DevOptions;
use std::fmt::Write as _;

/// The text: the nodes, and what to try. `console` is the address of the console.
pub(super) fn text(layout: &ClusterLayout, console: &str) -> String {
    let (nodes, data) = (layout.nodes(), &layout.data);
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "The cluster is up. Ctrl-C stops it; its data stays in {}.\n",
        data.display()
    );
    for node in &nodes {
        let _ = writeln!(text, "  {}  {}", node.name, node.url());
    }
    // The tour needs three nodes.
    let tour = match nodes.len() {
        3 => ", and take the tour: what happens when nodes fail",
        _ => "",
    };
    let _ = writeln!(text, "\nOpen the console{tour}:\n  {console}");
    let (program_access, curl_access) = access(layout);
    // The write goes to one node, the read to another, the scan to a
    // third.
    let url = |index: usize| nodes[index % nodes.len()].url();
    let (first, second, third) = (url(0), url(1), url(2));
    let program = std::env::args_os()
        .next()
        .unwrap_or_else(|| "kvorum".into());
    let program = program.display();
    let _ = writeln!(
        text,
        "\nTry:\n  \
         {program} put hello world --url {first}{program_access}\n  \
         {program} get hello --url {second}{program_access}\n  \
         {program} scan --url {third}{program_access}"
    );
    let replicas = match nodes.len() {
        1 => "",
        2 => "&ack=2&from=2",
        _ => "&ack=2&from=3",
    };
    let _ = writeln!(
        text,
        "\nThe same with any HTTP client:\n  \
         curl{curl_access} -X PUT --data-binary 'world' '{first}/v0/entity?id=hello{replicas}'\n  \
         curl{curl_access} '{second}/v0/entity?id=hello{replicas}'\n  \
         curl{curl_access} -H 'Accept: application/x-ndjson' '{third}/v0/entities?scope=cluster'"
    );
    let data_option = DevOptions::data_option(data);
    let number = nodes.len().min(2);
    // A node alone has no network to others.
    let network = match nodes.len() {
        1 => "",
        _ => {
            ", lose its network (cut, join), have a slow one (slow, unslow), have a wrong clock (skew, unskew)"
        }
    };
    let _ = writeln!(
        text,
        "\nThen let a node crash (kill), stop (stop, start), hang (freeze, thaw){network} or lose \
         its disk (wipe), and see what survives:\n  {program} dev kill {number}{data_option}"
    );
    if nodes.len() > 2 {
        let _ = writeln!(
            text,
            "  {program} get hello --url {first}{program_access}\n  \
             {program} replicas hello --versions --url {first}{program_access}"
        );
    }
    if nodes.len() > 2 {
        let _ = writeln!(
            text,
            "\nAdd a node while clients use the cluster, and remove it again:\n  \
             {program} dev add{data_option}\n  {program} dev remove{data_option}"
        );
    }
    let _ = writeln!(
        text,
        "\nSee the state of all nodes, and what to do:\n  {program} admin status --url \
         {first}{program_access}"
    );
    text
}

/// The options that the program and curl need to reach the nodes.
fn access(layout: &ClusterLayout) -> (String, String) {
    let (mut program, mut curl) = (String::new(), String::new());
    // Writing to a string does not fail.
    if let Some(authority) = &layout.authority {
        let certificate = authority.certificate();
        let _ = write!(program, " --ca {}", certificate.display());
        let _ = write!(curl, " --cacert {}", certificate.display());
    }
    if let Some(token) = &layout.admin_token {
        let (file, header) = (token.token_file.display(), token.header_file.display());
        let _ = write!(program, " --token-file {file}");
        // The arguments of a process are shown to all users of the machine.
        let _ = write!(curl, " -H @{header}");
    }
    (program, curl)
}
