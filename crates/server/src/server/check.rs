//! What a start would refuse, found without a start: no store is opened, and no file is made. Each
//! step is that of the start itself.

use super::{addresses_of, bind_all, open_file_bounds, take_stored_members, warn_of_file_size};
use crate::config::ServerConfig;
use crate::server::Server;
use crate::start_error::StartError;
use crate::trust::{read_tokens, tls_files};
use lsm::Disk;
use node::{Seams, check_data_folder};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tls::NodeTls;
use units::{bytes, counted};

/// How many memtables must have room on a disk before a node takes puts, beside the reserve.
const MEMTABLES_WITH_ROOM: u64 = 4;

/// What a start would find.
pub struct StartCheck {
    /// Each thing that it needs.
    pub checked: Vec<Checked>,
    /// With what the node speaks TLS, if it does and can.
    pub tls: Option<Arc<NodeTls>>,
}

/// A thing that a start needs.
#[derive(Debug)]
pub struct Checked {
    /// What it is, in a word.
    pub what: &'static str,
    /// How it is.
    pub outcome: Outcome,
}

/// How a thing is.
#[derive(Debug)]
pub enum Outcome {
    /// As it should be.
    Fine(String),
    /// The node starts, and does not do all that it should.
    Warning(String),
    /// The node does not start.
    Refusal(StartError),
}

impl Server {
    /// Checks what a start would check, as far as that makes nothing. What a start would warn of in its
    /// log is written to the log here, too.
    #[must_use]
    pub fn check(mut config: ServerConfig, seams: &Seams) -> StartCheck {
        take_stored_members(&mut config, &*seams.disk);
        let mut checked = Vec::new();
        let mut add = |what, outcome: Result<Outcome, StartError>| {
            let outcome = outcome.unwrap_or_else(Outcome::Refusal);
            checked.push(Checked { what, outcome });
        };
        let valid = config.validate().map_err(StartError::from);
        add(
            "options",
            valid.map(|()| Outcome::Fine(members_of(&config))),
        );
        add("tokens", tokens(&config, seams));
        let (node_tls, outcome) = match tls_files::load(&config, &*seams.clock) {
            Ok(node_tls) => {
                let expires = node_tls.as_ref().map(|it| tls_files::expiry_of(it));
                let text = expires.map_or_else(
                    || "the node does not speak TLS".to_owned(),
                    |expires| format!("valid until {expires}"),
                );
                (node_tls, Ok(Outcome::Fine(text)))
            }
            Err(error) => (None, Err(error.into())),
        };
        add("certificate", outcome);
        add("limits", limits(&mut config));
        add("addresses", addresses(&config));
        let data = check_data_folder(&config.node, &*seams.disk).map_err(StartError::from);
        add(
            "data folder",
            data.map(|holds| Outcome::Fine(folder_of(&config, holds))),
        );
        add("disk", Ok(disk(&config, &*seams.disk)));
        StartCheck {
            checked,
            tls: node_tls,
        }
    }
}

fn members_of(config: &ServerConfig) -> String {
    let node = &config.node;
    let (name, members) = (node.members.own_name(), node.members.count());
    match &node.join {
        Some(url) if node.is_alone() => format!("node {name}, which joins the cluster of {url}"),
        _ => format!("node {name} of {}", counted(members.into(), "node")),
    }
}

fn tokens(config: &ServerConfig, seams: &Seams) -> Result<Outcome, StartError> {
    Ok(Outcome::Fine(
        match read_tokens(&config.trust, &config.node.data, seams)? {
            None => "clients need none".to_owned(),
            Some(tokens) => counted(tokens.count() as u64, "token"),
        },
    ))
}

fn limits(config: &mut ServerConfig) -> Result<Outcome, StartError> {
    warn_of_file_size();
    let wanted = config.connections_max;
    let clients = open_file_bounds(config)?.clients;
    let text = format!("{} of clients", counted(clients as u64, "connection"));
    Ok(if clients < wanted {
        Outcome::Warning(format!("open files suffice for {text}, of {wanted}"))
    } else {
        Outcome::Fine(text)
    })
}

/// Whether the node can listen; by then nobody else does.
fn addresses(config: &ServerConfig) -> Result<Outcome, StartError> {
    let addresses = addresses_of(&bind_all(config)?)?;
    config.check_exposure(&addresses)?;
    let listed: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    Ok(Outcome::Fine(listed.join(", ")))
}

fn folder_of(config: &ServerConfig, holds_store: bool) -> String {
    let folder = config.node.data.display();
    if holds_store {
        format!("{folder} holds a store")
    } else {
        format!("{folder} holds no store: the node begins with an empty one")
    }
}

/// Whether the disk has room for more than the reserve.
fn disk(config: &ServerConfig, disk: &dyn Disk) -> Outcome {
    let memtable = config.resources().memory.memtable_bytes as u64;
    let wanted = config.node.disk_reserve_bytes + MEMTABLES_WITH_ROOM * memtable;
    // The folders below the nearest one that exists are made at the start.
    let mut above = config.node.data.ancestors();
    let found = above.find_map(|folder| {
        // The parent of a bare name.
        let empty = folder.as_os_str().is_empty();
        let folder = if empty { Path::new(".") } else { folder };
        disk.available_bytes(folder).ok()
    });
    match found {
        None => Outcome::Warning("the system does not say how much is free".to_owned()),
        Some(free) if free < wanted => Outcome::Warning(format!(
            "{} are free, and the node takes puts with {} (--disk-reserve-bytes and four times \
             --memtable-bytes)",
            bytes(free as f64),
            bytes(wanted as f64)
        )),
        Some(free) => Outcome::Fine(format!("{} are free", bytes(free as f64))),
    }
}
