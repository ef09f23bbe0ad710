//! The owners of keys among the targets: each target is asked for its name, because names
//! decide which node is the first replica of a key.

use super::placement::Placement;
use crate::http::response::ResponseDecoder;
use crate::target::Target;
use crate::{Credentials, Error};
use serde::Deserialize;
use std::io::{self, Read as _, Write as _};

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
/// [`Error::Unreachable`] and [`Error::Refused`] for a target that does not say its name,
/// [`Error::Plan`] for two targets that are one node.
pub(super) fn placement_of(targets: &[Target], access: &Credentials) -> Result<Placement, Error> {
    let names = targets.iter().map(|target| node_name(target, access));
    let names: Result<Vec<String>, Error> = names.collect();
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
/// [`Error::Unreachable`] if it does not answer, or not as a node does; [`Error::Refused`] if
/// it does not accept the token.
fn node_name(target: &Target, access: &Credentials) -> Result<String, Error> {
    let unreachable = |source| Error::Unreachable {
        target: format!("{}/v0/status", target.url()),
        source,
    };
    let (status, page) = status_of(target, access).map_err(unreachable)?;
    match status {
        200 => serde_json::from_slice::<NamedStatus>(&page)
            .map(|page| page.name)
            .map_err(|error| unreachable(error.into())),
        401 | 403 => Err(Error::Refused {
            target: target.url(),
            status,
        }),
        _ => Err(unreachable(io::Error::other("this is no status of a node"))),
    }
}

/// The status of an answer to a request for the status of a node, and its page.
fn status_of(target: &Target, access: &Credentials) -> io::Result<(u16, Vec<u8>)> {
    let mut stream = target.connect()?;
    let token = access.token.as_ref();
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
    let head = format!(
        "GET /v0/status HTTP/1.1\r\nHost: {}\r\n{}Connection: close\r\n\r\n",
        target.authority,
        token.unwrap_or_default()
    );
    stream.write_all(head.as_bytes())?;
    stream.flush()?;
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
    Ok((decoder.status(), body))
}
