//! The owners of keys among the targets: each target is asked for its name, because names
//! decide which node is the first replica of a key.

use crate::Error;
use crate::http::response::ResponseDecoder;
use crate::placement::Placement;
use crate::target::{FIRST_CONNECT_TIMEOUT, Target};
use serde::Deserialize;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

/// The longest status page that is read, in bytes.
const STATUS_BYTES_MAX: usize = 1 << 20;

/// What is read of a status page.
#[derive(Deserialize)]
struct NamedStatus {
    name: String,
}

/// The placement over the targets, by the names that they say they have.
///
/// # Errors
/// [`Error::Unreachable`] for a target that does not say its name, [`Error::Plan`] for two
/// targets that are one node.
pub(super) fn placement_of(targets: &[Target]) -> Result<Placement, Error> {
    let names: Result<Vec<String>, Error> = targets.iter().map(node_name).collect();
    let names = names?;
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            return Err(Error::plan(format!(
                "two targets are the node {name}: name each node once to ask the owners of keys"
            )));
        }
    }
    Ok(Placement::new(names.iter().map(String::as_str)))
}

/// The name of the node, as it says.
///
/// # Errors
/// [`Error::Unreachable`] if it does not answer, or not as a node does.
fn node_name(target: &Target) -> Result<String, Error> {
    ask_name(target).map_err(|source| Error::Unreachable {
        target: format!("http://{}/v0/status", target.authority),
        source,
    })
}

fn ask_name(target: &Target) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&target.address, FIRST_CONNECT_TIMEOUT)?;
    stream.set_read_timeout(Some(FIRST_CONNECT_TIMEOUT))?;
    let head = format!("GET /v0/status HTTP/1.1\r\nHost: {}\r\n", target.authority);
    stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes())?;
    let no_status = || io::Error::other("this is no status of a node");
    let (mut pending, mut body) = (Vec::new(), Vec::new());
    let mut decoder = ResponseDecoder::new();
    let mut piece = [0; 4096];
    loop {
        let bytes = stream.read(&mut piece)?;
        pending.extend_from_slice(&piece[..bytes]);
        let taken = decoder
            .take(&pending, |piece| body.extend_from_slice(piece))
            .map_err(|_| no_status())?;
        pending.drain(..taken.bytes);
        if taken.is_complete {
            break;
        }
        if bytes == 0 || body.len() + pending.len() > STATUS_BYTES_MAX {
            return Err(no_status());
        }
    }
    if decoder.status() != 200 {
        return Err(no_status());
    }
    let status: NamedStatus = serde_json::from_slice(&body)?;
    Ok(status.name)
}
