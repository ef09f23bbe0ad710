//! The layout of a local cluster: its nodes, ports, folders and options.

use super::admin_token::AdminToken;
use super::authority::Authority;
use super::control::ClusterFolderLock;
use super::options::DevOptions;
use crate::access;
use crate::failure::Failure;
use crate::files;
use crate::layers::{self, EarlyExit, Parsed};
use crate::logging::{LogFormat, LogLevel};
use crate::resources;
use crate::serve::{NodeProgram, ServeCommand, ServeOptions};
use crate::values::ByteSize;
use clap::ValueEnum;
use rustls::ClientConfig;
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Environment variables that would give every node the same identity.
const VARIABLES_OF_ONE_NODE: [&str; 6] = [
    "KVORUM_URL",
    "KVORUM_NAME",
    "KVORUM_LISTEN",
    "KVORUM_CLUSTER",
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
    pub(super) nodes: Vec<NodeLayout>,
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

/// The layout of one node.
pub(super) struct NodeLayout {
    /// Its name, which stays the same when its port changes.
    pub(super) name: String,
    pub(super) address: SocketAddr,
    scheme: &'static str,
    data: PathBuf,
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
        let nodes = (0..options.nodes)
            .map(|index| NodeLayout::new(options, index))
            .collect::<Result<_, _>>()?;
        let mut layout = Self {
            nodes,
            data: options.data.clone(),
            authority: options.tls.then(|| Authority::of(&options.data)),
            admin_token: options.tokens.then(|| AdminToken::of(&options.data)),
            log: options.log,
            log_format: options.log_format,
            serve: options.serve.clone(),
            memory: None,
            threads: None,
        };
        if let Some(first) = layout.nodes.first() {
            let (set, _) = layout.read_options(first)?;
            if set.memory.is_none() {
                layout.memory = Some(ByteSize(resources::memory_bytes_each(options.nodes)));
            }
            if set.threads.is_none() {
                layout.threads = Some(resources::threads_each(options.nodes));
            }
        }
        for node in &layout.nodes {
            let (serve, parsed) = layout.read_options(node)?;
            serve
                .server_config(&|file| layout.read_file(file))
                .map_err(|error| parsed.refuse(&error))?;
        }
        Ok(layout)
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
        let (nodes, data) = (self.nodes.len(), &self.data);
        let mut numbers = 1..=usize::from(u8::MAX);
        match numbers.rfind(|number| folder_of(data, *number).exists()) {
            Some(kept) if kept != nodes => Err(Failure::usage(format!(
                "--nodes {nodes}: {} holds the data of a cluster of {kept} node{}: use --nodes \
                 {kept}, or choose another folder with --data",
                data.display(),
                if kept == 1 { "" } else { "s" },
            ))),
            _ => Ok(()),
        }
    }

    /// Binds each port for a moment, so that a port in use is reported before
    /// any node starts.
    ///
    /// # Errors
    /// A port in use.
    pub(super) fn check_ports(&self) -> Result<(), Failure> {
        for NodeLayout { address, .. } in &self.nodes {
            TcpListener::bind(address).map_err(|error| match error.kind() {
                io::ErrorKind::AddrInUse => Failure::failed(format!(
                    "port {} of {} is in use: stop what listens there, or choose another with \
                     --port",
                    address.port(),
                    address.ip()
                )),
                _ => Failure::failed(format!("cannot listen on {address}: {error}")),
            })?;
        }
        Ok(())
    }

    /// Creates the folders of all nodes, the last one first: then the greatest
    /// number in the folder is the number of nodes even after a crash in
    /// between.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub(super) fn make_folders(&self) -> Result<(), Failure> {
        let mut nodes = self.nodes.iter().rev();
        nodes.try_for_each(|node| make_folder(&node.data))
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

    /// Makes the certificates of all nodes, and returns what a client of them trusts; none
    /// without TLS.
    ///
    /// # Errors
    /// Files that cannot be read or written.
    pub(super) fn make_certificates(&self) -> Result<Option<Arc<ClientConfig>>, Failure> {
        let Some(authority) = &self.authority else {
            return Ok(None);
        };
        authority.make_files(self.nodes.iter().map(|node| &*node.name))?;
        authority.client_config().map(Some)
    }

    /// The arguments of a node's process.
    pub(super) fn arguments(&self, node: &NodeLayout) -> Vec<OsString> {
        let list: Vec<String> = self.nodes.iter().map(NodeLayout::member).collect();
        let mut arguments: Vec<OsString> = vec![
            "serve".into(),
            "--until-stdin-closes".into(),
            "--url".into(),
            node.url().into(),
            "--cluster".into(),
            list.join(",").into(),
            "--data".into(),
            node.data.clone().into(),
        ];
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
        let parsed = layers::parse::<NodeProgram>(&arguments, environment, &files::read);
        let parsed = parsed.map_err(|exit| match exit {
            // The user has given it once, and cannot see the other one.
            EarlyExit::Refuse(failure) if failure.line().ends_with(TWICE) => failure
                .with_more("'kvorum dev' sets it for each node: omit it after '--'")
                .into(),
            exit => exit,
        })?;
        let ServeCommand::Serve(options) = &parsed.program.command;
        if options.cluster.len() != self.nodes.len() {
            let line = "--cluster: dev writes the list of nodes itself: omit the option and use \
                        --nodes";
            return Err(Failure::usage(line).into());
        }
        Ok((options.clone(), parsed))
    }
}

impl NodeLayout {
    fn new(options: &DevOptions, index: u8) -> Result<Self, Failure> {
        let port = options.port.checked_add(index.into()).ok_or_else(|| {
            Failure::usage("--port: there are not enough ports above it for all nodes")
        })?;
        let number = usize::from(index) + 1;
        Ok(Self {
            name: format!("node-{number}"),
            data: folder_of(&options.data, number),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            scheme: if options.tls { "https" } else { "http" },
        })
    }

    pub(super) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Deletes the folder with everything in it, and creates it anew, empty.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn lose_folder(&self) -> Result<(), Failure> {
        std::fs::remove_dir_all(&self.data).map_err(|error| {
            let folder = self.data.display();
            Failure::failed(format!("cannot delete the folder {folder}: {error}"))
        })?;
        make_folder(&self.data)
    }

    /// The node as an item of `--cluster`.
    fn member(&self) -> String {
        format!("{}={}", self.name, self.url())
    }
}

/// Creates a folder that only its user may enter, unless it exists.
pub(super) fn make_folder(folder: &Path) -> Result<(), Failure> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(folder).map_err(|error| {
        let folder = folder.display();
        match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                Failure::usage(format!("--data: {folder} is not a folder"))
            }
            _ => Failure::failed(format!(
                "cannot create the folder {folder}: {error}; --data names another one"
            )),
        }
    })
}

/// The folder of node `number`, counted from 1.
fn folder_of(data: &Path, number: usize) -> PathBuf {
    data.join(format!("node-{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{Cli, Command};
    use clap::Parser;

    fn layout(words: &[&str]) -> Result<ClusterLayout, EarlyExit> {
        let all = ["kvorum", "dev"].iter().chain(words);
        match Cli::try_parse_from(all).unwrap().command {
            Command::Dev(options) => ClusterLayout::new(&options),
            _ => panic!("these words should parse as dev"),
        }
    }

    /// The arguments of the last node.
    fn arguments(words: &[&str]) -> Vec<String> {
        let layout = layout(words).ok().unwrap();
        let arguments = layout.arguments(layout.nodes.last().unwrap());
        arguments
            .into_iter()
            .map(|argument| argument.into_string().unwrap())
            .collect()
    }

    /// The argument after `name`, which must occur once.
    fn value_of<'a>(arguments: &'a [String], name: &str) -> &'a str {
        let mut positions = arguments
            .iter()
            .enumerate()
            .filter(|(_, argument)| *argument == name);
        let (position, _) = positions.next().unwrap();
        assert!(positions.next().is_none(), "{name} twice in {arguments:?}");
        &arguments[position + 1]
    }

    #[test]
    fn three_nodes_share_a_list_the_memory_and_the_cores() {
        let arguments = arguments(&["--port", "7001", "--data", "d"]);
        assert_eq!(value_of(&arguments, "--url"), "http://127.0.0.1:7003");
        assert_eq!(value_of(&arguments, "--data"), "d/node-3");
        assert_eq!(
            value_of(&arguments, "--cluster"),
            "node-1=http://127.0.0.1:7001,node-2=http://127.0.0.1:7002,node-3=http://127.0.0.1:7003"
        );
        let memory = ByteSize(resources::memory_bytes_each(3)).to_string();
        assert_eq!(value_of(&arguments, "--memory"), memory);
        let threads = resources::threads_each(3).to_string();
        assert_eq!(value_of(&arguments, "--threads"), threads);
    }

    #[test]
    fn options_of_the_user_replace_the_computed_ones() {
        let set = ["--memory", "1GiB", "--threads", "7"];
        let arguments = arguments(&[&["--nodes", "2", "--"], &set[..]].concat());
        assert_eq!(value_of(&arguments, "--memory"), "1GiB");
        assert_eq!(value_of(&arguments, "--threads"), "7");
    }

    #[test]
    fn log_options_are_passed_on_only_if_the_user_sets_them() {
        let silent = arguments(&[]);
        assert!(!silent.iter().any(|argument| argument.starts_with("--log")));
        let said = arguments(&["--log", "debug", "--log-format", "json"]);
        assert_eq!(value_of(&said, "--log"), "debug");
        assert_eq!(value_of(&said, "--log-format"), "json");
        let behind = arguments(&["--", "--log", "debug"]);
        assert_eq!(value_of(&behind, "--log"), "debug");
    }

    #[test]
    fn options_that_no_node_accepts_are_refused() {
        for (words, word) in [
            (&["--port", "65534"][..], "not enough ports"),
            (&["--", "--name", "a"], "node-1"),
            (&["--", "--url", "http://127.0.0.1:1"], "omit it"),
            (&["--", "--cluster", "http://127.0.0.1:1"], "--nodes"),
            // The greatest value size is bound by the node's part of the
            // memory.
            (
                &["--", "--memory", "128MiB", "--value-bytes-max", "17MiB"],
                "eighth",
            ),
        ] {
            match layout(words) {
                Err(EarlyExit::Refuse(failure)) => {
                    assert!(failure.line().contains(word), "{}", failure.line());
                }
                _ => panic!("{words:?} should be refused"),
            }
        }
    }
}
