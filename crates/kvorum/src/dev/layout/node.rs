//! The layout of one node.

use crate::dev::folder::{KnownNode, make_folder};
use crate::dev::options::{self, DevOptions};
use crate::failure::Failure;
use cluster::NodeUrl;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The layout of one node.
pub(in crate::dev) struct NodeLayout {
    /// From 1.
    pub(in crate::dev) number: u8,
    /// Its name, which stays the same when its port changes.
    pub(in crate::dev) name: String,
    pub(in crate::dev) address: SocketAddr,
    pub(super) scheme: &'static str,
    pub(super) data: PathBuf,
    /// Whether it joins, or has joined, a cluster that others have formed.
    pub(super) has_joined: bool,
}

impl NodeLayout {
    /// The nodes that form a cluster, with their list.
    pub(super) fn founders(options: &DevOptions) -> Result<(Vec<Arc<Self>>, String), Failure> {
        let port = options.port.unwrap_or(options::PORT);
        let numbers = 1..=options.nodes.unwrap_or(options::NODES);
        let nodes = numbers.map(|number| {
            let port = port.checked_add(u16::from(number) - 1).ok_or_else(|| {
                Failure::usage("--port: there are not enough ports above it for all nodes")
            })?;
            Ok(Arc::new(Self {
                number,
                name: name_of(number),
                data: folder_of(&options.data, number.into()),
                address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
                scheme: if options.tls { "https" } else { "http" },
                has_joined: false,
            }))
        });
        let nodes: Vec<Arc<Self>> = nodes.collect::<Result<_, Failure>>()?;
        let list: Vec<String> = nodes.iter().map(|node| node.member()).collect();
        Ok((nodes, list.join(",")))
    }

    /// The nodes that the folder of a cluster knows.
    ///
    /// # Errors
    /// The options want others.
    pub(super) fn known(
        options: &DevOptions,
        known: &[KnownNode],
    ) -> Result<Vec<Arc<Self>>, Failure> {
        let data = options.data.display();
        if let Some(wanted) = options.nodes
            && usize::from(wanted) != known.len()
        {
            return Err(other_number(wanted.into(), known.len(), &options.data));
        }
        let nodes = known.iter().map(|node| {
            let url: NodeUrl = node.url.parse().map_err(|error| {
                Failure::failed(format!("{data} has a node at {}: {error}", node.url))
            })?;
            let (scheme, other, remedy) = if options.tls {
                ("https", "http", "omit --tls")
            } else {
                ("http", "https", "add --tls")
            };
            if !node.url.starts_with(&format!("{scheme}://")) {
                return Err(Failure::usage(format!(
                    "--tls: the nodes of {data} have URLs with {other}, which they keep since one \
                     was added or removed: {remedy}, or choose another folder with --data"
                )));
            }
            Ok(Arc::new(Self {
                number: node.number,
                name: name_of(node.number),
                data: folder_of(&options.data, node.number.into()),
                address: SocketAddr::from((Ipv4Addr::LOCALHOST, url.port())),
                scheme,
                has_joined: node.has_joined,
            }))
        });
        let nodes: Vec<Arc<Self>> = nodes.collect::<Result<_, Failure>>()?;
        if let (Some(wanted), Some(first)) = (options.port, nodes.first()) {
            let port = first
                .address
                .port()
                .saturating_sub(u16::from(first.number) - 1);
            if wanted != port {
                return Err(Failure::usage(format!(
                    "--port {wanted}: the nodes of {data} keep their ports since one was added or \
                     removed: use --port {port}, or choose another folder with --data"
                )));
            }
        }
        Ok(nodes)
    }

    pub(in crate::dev) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Deletes the folder with everything in it, and creates it anew, empty.
    ///
    /// # Errors
    /// Those of the system.
    pub(in crate::dev) fn lose_folder(&self) -> Result<(), Failure> {
        self.remove_folder()?;
        make_folder(&self.data)
    }

    pub(super) fn remove_folder(&self) -> Result<(), Failure> {
        std::fs::remove_dir_all(&self.data).map_err(|error| {
            let folder = self.data.display();
            Failure::failed(format!("cannot delete the folder {folder}: {error}"))
        })
    }

    /// Binds the port for a moment.
    pub(super) fn check_port(&self) -> Result<(), Failure> {
        let address = self.address;
        TcpListener::bind(address).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Failure::failed(format!(
                "port {} of {} is in use: stop what listens there, or choose another with --port",
                address.port(),
                address.ip()
            )),
            _ => Failure::failed(format!("cannot listen on {address}: {error}")),
        })?;
        Ok(())
    }

    /// The node as an item of `--cluster`.
    pub(super) fn member(&self) -> String {
        format!("{}={}", self.name, self.url())
    }
}

/// What is said if the options want another number of nodes than there are.
pub(super) fn other_number(wanted: usize, kept: usize, data: &Path) -> Failure {
    Failure::usage(format!(
        "--nodes {wanted}: {} holds the data of a cluster of {kept} node{}: use --nodes {kept}, or \
         choose another folder with --data",
        data.display(),
        if kept == 1 { "" } else { "s" },
    ))
}

/// The name of node `number`.
pub(super) fn name_of(number: u8) -> String {
    format!("node-{number}")
}

/// The folder of node `number`, counted from 1.
pub(super) fn folder_of(data: &Path, number: usize) -> PathBuf {
    data.join(format!("node-{number}"))
}
