//! The nodes of an experiment: child processes on free ports of this machine,
//! with their data in a temporary folder. They never outlive the laboratory,
//! which kills them when it is done with them. If the laboratory ends
//! otherwise, the system closes the pipe to the stdin of each node, and the
//! node ends.

mod certificates;
mod equality;
mod event;
mod metrics;
mod node;
mod ports;
mod usage;

pub(crate) use certificates::Certificates;
pub(crate) use equality::StoreComparison;
pub(crate) use event::NodeEvent;
pub(crate) use metrics::MetricsSnapshot;
pub(crate) use node::LabNode;
pub(crate) use usage::Usage;

use crate::Error;
use crate::context::ExperimentContext;
use ports::free_ports;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use tempfile::TempDir;

/// The layout of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterLayout<'a> {
    /// The number of nodes, at least one.
    pub(crate) nodes: usize,
    /// The memory of each node, as `--memory` takes it.
    pub(crate) memory: &'a str,
    /// More options of each node. Without `--threads` the nodes share the
    /// cores, as under `kvorum dev`.
    pub(crate) options: &'a [&'a str],
}

impl<'a> ClusterLayout<'a> {
    /// Three nodes of 512 MiB each.
    pub(crate) fn of_three(options: &'a [&'a str]) -> Self {
        Self {
            nodes: 3,
            memory: "512MiB",
            options,
        }
    }
}

/// A running cluster. When it is dropped, its nodes are killed and its data is
/// removed.
pub(crate) struct LabCluster {
    // The fields are dropped in this order, so no node writes to the folder
    // while it is removed.
    pub(crate) nodes: Vec<LabNode>,
    folder: TempDir,
}

impl LabCluster {
    /// Starts nodes with empty folders, and waits until each node sees all
    /// nodes up.
    ///
    /// # Errors
    /// A node that does not start.
    pub(crate) fn start(
        context: &ExperimentContext<'_>,
        layout: ClusterLayout<'_>,
    ) -> Result<Self, Error> {
        let folder = tempfile::Builder::new()
            .prefix("kvorum-lab-")
            .tempdir()
            .map_err(Error::system("a temporary folder"))?;
        let ports = free_ports(layout.nodes)?;
        let url = |index: usize| format!("http://127.0.0.1:{}", ports[index]);
        let members: Vec<String> = (0..layout.nodes)
            .map(|index| format!("{}={}", name(index), url(index)))
            .collect();
        let members = ["--cluster".into(), members.join(",").into()];
        let nodes = (0..layout.nodes)
            .map(|index| new_node(context, layout, folder.path(), index, url(index), &members));
        let mut cluster = Self {
            nodes: nodes.collect(),
            folder,
        };
        for node in &mut cluster.nodes {
            node.start()?;
        }
        for node in &mut cluster.nodes {
            node.wait_until_up(context)?;
        }
        for node in &mut cluster.nodes {
            node.wait_until_complete(context)?;
        }
        Ok(cluster)
    }

    /// Starts another node, as the last one, with an empty folder. It waits to join.
    ///
    /// # Errors
    /// There is no port for it, or it cannot be started.
    pub(crate) fn add(
        &mut self,
        context: &ExperimentContext<'_>,
        layout: ClusterLayout<'_>,
    ) -> Result<(), Error> {
        let index = self.nodes.len();
        // The port of a node that is down is free, and yet its own.
        let ports = free_ports(index + 1)?.into_iter();
        let mut urls = ports.map(|port| format!("http://127.0.0.1:{port}"));
        let is_new = |url: &String| self.nodes.iter().all(|node| node.url() != url);
        let url = urls.find(is_new);
        let url =
            url.ok_or_else(|| Error::system("a free port")(io::ErrorKind::AddrInUse.into()))?;
        let joins = [
            "--name".into(),
            name(index).into(),
            "--join".into(),
            self.nodes[0].url().into(),
        ];
        let mut node = new_node(context, layout, self.folder.path(), index, url, &joins);
        node.start()?;
        self.nodes.push(node);
        Ok(())
    }

    /// The URLs of all nodes, as targets of a load.
    pub(crate) fn targets(&self) -> Vec<String> {
        self.nodes
            .iter()
            .map(|node| node.url().to_owned())
            .collect()
    }

    /// The usage of all nodes together.
    pub(crate) fn usage(&self) -> Usage {
        let mut all = Usage::default();
        for node in &self.nodes {
            all += node.usage();
        }
        all
    }
}

fn name(index: usize) -> String {
    format!("node-{}", index + 1)
}

/// A node that has not been started; `cluster` are the options that say who the others are.
fn new_node(
    context: &ExperimentContext<'_>,
    layout: ClusterLayout<'_>,
    folder: &Path,
    index: usize,
    url: String,
    cluster: &[OsString],
) -> LabNode {
    let name = name(index);
    let data = folder.join(&name);
    let mut arguments: Vec<OsString> = vec![
        "serve".into(),
        "--until-stdin-closes".into(),
        "--url".into(),
        url.clone().into(),
        "--data".into(),
        data.clone().into(),
        "--memory".into(),
        layout.memory.into(),
        "--log".into(),
        "warn".into(),
    ];
    arguments.extend_from_slice(cluster);
    if !layout.options.contains(&"--threads") {
        let threads = (context.cores() / layout.nodes).max(1);
        arguments.extend(["--threads".into(), threads.to_string().into()]);
    }
    if context.has_profiles() {
        arguments.push("--debug-endpoints".into());
    }
    arguments.extend(layout.options.iter().map(OsString::from));
    LabNode {
        log: folder.join(format!("{name}.log")),
        program: context.program().to_owned(),
        name,
        url,
        arguments,
        data,
        process: None,
    }
}

#[cfg(test)]
mod tests;
