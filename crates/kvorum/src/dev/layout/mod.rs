//! The layout of a local cluster: its nodes, ports, folders and options.

mod node;

pub(super) use node::NodeLayout;

use super::folder::{
    AdminToken, Authority, ClusterFolderLock, KnownNode, MembersFile, make_folder,
};
use super::options::DevOptions;
use crate::access;
use crate::failure::Failure;
use crate::files;
use crate::logging::{LogFormat, LogLevel};
use crate::option_sources::{self, EarlyExit, Parsed};
use crate::resources;
use crate::serve::{NodeProgram, ServeCommand, ServeOptions};
use crate::values::ByteSize;
use clap::ValueEnum;
use client::Token;
use node::{folder_of, name_of, other_number};
use rustls::ClientConfig;
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Environment variables that would give every node the same identity.
const VARIABLES_OF_ONE_NODE: [&str; 7] = [
    "KVORUM_URL",
    "KVORUM_NAME",
    "KVORUM_LISTEN",
    "KVORUM_CLUSTER",
    "KVORUM_JOIN",
    "KVORUM_DATA",
    "KVORUM_CONFIG",
];

/// The variables that no node of the cluster sees: these, and those of commands to nodes.
pub(super) fn variables_removed() -> impl Iterator<Item = &'static str> {
    VARIABLES_OF_ONE_NODE
        .into_iter()
        .chain(access::CLIENT_VARIABLES)
}

/// How the parser refuses an option that a node is given twice.
const TWICE: &str = "cannot be used multiple times";

/// The layout of a local cluster.
pub(super) struct ClusterLayout {
    /// By ascending numbers.
    nodes: Mutex<Vec<Arc<NodeLayout>>>,
    /// The list that forms the cluster.
    founders: String,
    /// Whether the folder says who the nodes are.
    has_changed: bool,
    /// The folder that holds the folders of all nodes.
    pub(super) data: PathBuf,
    /// What signs the nodes' certificates; none without TLS.
    pub(super) authority: Option<Authority>,
    /// The token of the user; none if the nodes want none.
    pub(super) admin_token: Option<AdminToken>,
    log: Option<LogLevel>,
    log_format: Option<LogFormat>,
    /// The user's options for all nodes.
    serve: Vec<OsString>,
    /// The memory of each node; none if the user has set it.
    memory: Option<ByteSize>,
    /// The number of threads of each node; none if the user has set it.
    threads: Option<usize>,
}

impl ClusterLayout {
    /// The command that does `what` to the node of this name.
    pub(super) fn command(&self, what: &str, name: &str) -> String {
        let number = name.trim_start_matches("node-");
        let data = DevOptions::data_option(&self.data);
        format!("kvorum dev {what} {number}{data}")
    }

    /// Lays out the cluster and parses the options of each node as its process
    /// will. So one process reports a wrong option, in one line.
    ///
    /// # Errors
    /// Too few ports above `--port`, an option that a node would refuse; also a
    /// page to show instead of running.
    pub(super) fn new(options: &DevOptions) -> Result<Self, EarlyExit> {
        let known = MembersFile::read(&options.data)?;
        let has_changed = known.is_some();
        let (nodes, founders) = match known {
            Some(known) => (NodeLayout::known(options, &known.nodes)?, known.founders),
            None => NodeLayout::founders(options)?,
        };
        let count = u8::try_from(nodes.len()).unwrap_or(u8::MAX);
        let mut layout = Self {
            nodes: Mutex::new(nodes),
            founders,
            has_changed,
            data: options.data.clone(),
            authority: options.tls.then(|| Authority::of(&options.data)),
            admin_token: options.tokens.then(|| AdminToken::of(&options.data)),
            log: options.log,
            log_format: options.log_format,
            serve: options.serve.clone(),
            memory: None,
            threads: None,
        };
        let nodes = layout.nodes();
        if let Some(first) = nodes.first() {
            let (set, _) = layout.read_options(first)?;
            if set.memory.is_none() {
                layout.memory = Some(ByteSize(resources::memory_bytes_each(count)));
            }
            if set.threads.is_none() {
                layout.threads = Some(resources::threads_each(count));
            }
        }
        for node in &nodes {
            let (serve, parsed) = layout.read_options(node)?;
            serve
                .server_config(&|file| layout.read_file(file))
                .map_err(|error| parsed.refuse(&error))?;
        }
        Ok(layout)
    }

    /// The nodes now, by ascending numbers.
    pub(super) fn nodes(&self) -> Vec<Arc<NodeLayout>> {
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.clone()
    }

    /// Lays out another node, which joins: it has the smallest number that is free, and its port
    /// follows from that. Its folder and its certificate are made, and the folder of the cluster
    /// knows it from now on.
    ///
    /// # Errors
    /// No number or port is free; a file or a folder cannot be made.
    pub(super) fn add(&self) -> Result<Arc<NodeLayout>, Failure> {
        let mut nodes = self.nodes();
        let is_free = |number: &u8| nodes.iter().all(|node| node.number != *number);
        let number = (1..=u8::MAX).find(is_free);
        let (Some(number), Some(first)) = (number, nodes.first()) else {
            return Err(Failure::failed("a cluster has at most 255 nodes"));
        };
        let port = u32::from(first.address.port()) - u32::from(first.number) + u32::from(number);
        let port = u16::try_from(port)
            .map_err(|_| Failure::failed("there is no port left for another node"))?;
        let node = Arc::new(NodeLayout {
            number,
            name: name_of(number),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            scheme: first.scheme,
            data: folder_of(&self.data, number.into()),
            has_joined: true,
        });
        node.check_port()?;
        // One of this name may have left something.
        if node.data.exists() {
            node.remove_folder()?;
        }
        make_folder(&node.data)?;
        if let Some(authority) = &self.authority {
            authority.make_files([&*node.name])?;
        }
        nodes.push(Arc::clone(&node));
        nodes.sort_by_key(|node| node.number);
        self.set_nodes(nodes)?;
        Ok(node)
    }

    /// Forgets a node, whose process has ended, with its folder.
    ///
    /// # Errors
    /// A file cannot be written, or the folder cannot be deleted.
    pub(super) fn remove(&self, number: u8) -> Result<(), Failure> {
        let (gone, kept): (Vec<_>, Vec<_>) = self
            .nodes()
            .into_iter()
            .partition(|node| node.number == number);
        self.set_nodes(kept)?;
        gone.iter().try_for_each(|node| node.remove_folder())
    }

    /// Has the folder say from now on who the nodes are.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn keep_nodes(&self) -> Result<(), Failure> {
        self.set_nodes(self.nodes())
    }

    fn set_nodes(&self, nodes: Vec<Arc<NodeLayout>>) -> Result<(), Failure> {
        let known = nodes.iter().map(|node| KnownNode {
            number: node.number,
            url: node.url(),
            has_joined: node.has_joined,
        });
        let file = MembersFile {
            founders: self.founders.clone(),
            nodes: known.collect(),
        };
        file.write(&self.data)?;
        *self.nodes.lock().unwrap_or_else(PoisonError::into_inner) = nodes;
        Ok(())
    }

    /// Reads a file that options name, which may be one that is not made yet.
    fn read_file(&self, file: &Path) -> io::Result<String> {
        match &self.admin_token {
            Some(token) if token.secret_file == file => token.read_secret(),
            _ => files::read(file),
        }
    }

    /// Locks the folder of the cluster, if it exists. A folder with the data of
    /// a cluster of another size is refused, because keys would be looked up on
    /// the wrong nodes.
    ///
    /// # Errors
    /// The folder is in use or has the data of another number of nodes.
    pub(super) fn take_folder(&self) -> Result<Option<ClusterFolderLock>, Failure> {
        if !self.data.exists() {
            return Ok(None);
        }
        let lock = ClusterFolderLock::take(&self.data)?;
        self.check_number()?;
        Ok(Some(lock))
    }

    /// Creates the folder of the cluster and locks it.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub(super) fn make_folder(&self) -> Result<ClusterFolderLock, Failure> {
        make_folder(&self.data)?;
        ClusterFolderLock::take(&self.data)
    }

    fn check_number(&self) -> Result<(), Failure> {
        // Where the folder says who the nodes are, the options were compared with that.
        let (nodes, data) = (self.nodes().len(), &self.data);
        let mut numbers = 1..=usize::from(u8::MAX);
        match numbers.rfind(|number| folder_of(data, *number).exists()) {
            Some(kept) if kept != nodes && !self.has_changed => {
                Err(other_number(nodes, kept, data))
            }
            _ => Ok(()),
        }
    }

    /// Binds each port for a moment, so that a port in use is reported before
    /// any node starts.
    ///
    /// # Errors
    /// A port in use.
    pub(super) fn check_ports(&self) -> Result<(), Failure> {
        self.nodes().iter().try_for_each(|node| node.check_port())
    }

    /// Creates the folders of all nodes, the last one first: then the greatest
    /// number in the folder is the number of nodes even after a crash in
    /// between.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub(super) fn make_folders(&self) -> Result<(), Failure> {
        let nodes = self.nodes();
        let mut last_first = nodes.iter().rev();
        last_first.try_for_each(|node| make_folder(&node.data))
    }

    /// Makes the files of tokens, if the nodes want any.
    ///
    /// # Errors
    /// See [`AdminToken::make_files`].
    pub(super) fn make_tokens(&self) -> Result<(), Failure> {
        self.admin_token
            .as_ref()
            .map_or(Ok(()), AdminToken::make_files)
    }

    /// The token with all rights, whose file is made; none if the nodes want none.
    ///
    /// # Errors
    /// The file cannot be read, or holds no token.
    pub(super) fn token(&self) -> Result<Option<Token>, Failure> {
        let Some(token) = &self.admin_token else {
            return Ok(None);
        };
        let file = token.token_file.display();
        let text = files::read(&token.token_file)
            .map_err(|error| Failure::failed(format!("cannot read {file}: {error}")))?;
        let token = Token::parse(text.trim());
        token
            .map(Some)
            .map_err(|error| Failure::failed(format!("{file} holds no token: {error}")))
    }

    /// Makes the certificates of all nodes, and returns what a client of them trusts; none
    /// without TLS.
    ///
    /// # Errors
    /// Files that cannot be read or written.
    pub(super) fn make_certificates(&self) -> Result<Option<Arc<ClientConfig>>, Failure> {
        let Some(authority) = &self.authority else {
            return Ok(None);
        };
        authority.make_files(self.nodes().iter().map(|node| &*node.name))?;
        authority.client_config().map(Some)
    }

    /// The arguments of a node's process.
    pub(super) fn arguments(&self, node: &NodeLayout) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec![
            "serve".into(),
            "--until-stdin-closes".into(),
            "--url".into(),
            node.url().into(),
            "--data".into(),
            node.data.clone().into(),
        ];
        let nodes = self.nodes();
        match nodes.iter().find(|other| other.number != node.number) {
            Some(other) if node.has_joined => {
                arguments.extend(["--join".into(), other.url().into()]);
                arguments.extend(["--name".into(), node.name.clone().into()]);
            }
            _ => arguments.extend(["--cluster".into(), self.founders.clone().into()]),
        }
        if let Some(authority) = &self.authority {
            let files = authority.files_of(&node.name);
            arguments.extend(["--tls-cert".into(), files.certificate.into()]);
            arguments.extend(["--tls-key".into(), files.key.into()]);
            arguments.extend(["--tls-peer-ca".into(), authority.certificate().into()]);
        }
        if let Some(token) = &self.admin_token {
            arguments.extend(["--tokens-file".into(), token.tokens_file.clone().into()]);
            let secret = token.secret_file.clone().into();
            arguments.extend(["--cluster-secret-file".into(), secret]);
        }
        if let Some(memory) = self.memory {
            arguments.extend(["--memory".into(), memory.to_string().into()]);
        }
        if let Some(threads) = self.threads {
            arguments.extend(["--threads".into(), threads.to_string().into()]);
        }
        // Options that are not set here may come from the environment.
        let level = self.log.and_then(|level| level.to_possible_value());
        let format = self
            .log_format
            .and_then(|format| format.to_possible_value());
        for (name, value) in [("--log", level), ("--log-format", format)] {
            if let Some(value) = value {
                arguments.extend([name.into(), value.get_name().into()]);
            }
        }
        arguments.extend(self.serve.iter().cloned());
        arguments
    }

    /// Parses the options of a node as its process will.
    fn read_options(
        &self,
        node: &NodeLayout,
    ) -> Result<(Box<ServeOptions>, Parsed<NodeProgram>), EarlyExit> {
        let mut arguments = vec![OsString::from("kvorum")];
        arguments.extend(self.arguments(node));
        let kept = |name: &OsString| variables_removed().all(|removed| name != removed);
        let environment = std::env::vars_os().filter(|(name, _)| kept(name));
        let parsed = option_sources::parse::<NodeProgram>(&arguments, environment, &files::read);
        let parsed = parsed.map_err(|exit| match exit {
            // The user has given it once, and cannot see the other one.
            EarlyExit::Refuse(failure) if failure.line().ends_with(TWICE) => failure
                .with_more("'kvorum dev' sets it for each node: omit it after '--'")
                .into(),
            exit => exit,
        })?;
        let ServeCommand::Serve(options) = &parsed.program.command;
        let listed = if node.has_joined {
            0
        } else {
            self.founders.split(',').count()
        };
        if options.cluster.len() != listed {
            let line = "--cluster: dev writes the list of nodes itself: omit the option and use \
                        --nodes";
            return Err(Failure::usage(line).into());
        }
        Ok((options.clone(), parsed))
    }
}

#[cfg(test)]
mod tests;
