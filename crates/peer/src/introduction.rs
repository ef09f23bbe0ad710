//! One request about the list of members to a node that is no member, or from one: over a connection
//! of its own, because there is no link between the two.

use crate::handshake::{self, HANDSHAKE_BYTES_MAX, HandshakeEnvironment, Session};
use crate::transport::Transport;
use crate::wire::frame::{Decoder, PAYLOAD_BYTES_MAX};
use crate::wire::list_message::{ListAnswer, ListRequest};
use crate::wire::message::{self, Message};
use crate::{LISTS, PeerEnvironment};
use cluster::{Fate, NodeUrl};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

/// How long it may take in all.
const INTRODUCTION_MAX: Duration = Duration::from_secs(2);

/// The number of the only call.
const CALL: u64 = 1;

/// What a node has answered.
#[derive(Clone, Debug)]
pub struct Introduced {
    /// Its name.
    pub name: String,
    /// Its answer.
    pub answer: ListAnswer,
}

/// Asks the node at `url`, which must be called `expected` if that is given.
///
/// # Errors
/// Why there is no answer, for people.
pub async fn introduce(
    transport: &dyn Transport,
    url: &NodeUrl,
    environment: &PeerEnvironment,
    expected: Option<&str>,
    request: &ListRequest,
) -> Result<Introduced, String> {
    let asked = ask(transport, url, environment, expected, request);
    let late = || format!("no answer within {INTRODUCTION_MAX:?}");
    let answered = tokio::time::timeout(INTRODUCTION_MAX, asked).await;
    answered.unwrap_or_else(|_| Err(late()))
}

async fn ask(
    transport: &dyn Transport,
    url: &NodeUrl,
    environment: &PeerEnvironment,
    expected: Option<&str>,
    request: &ListRequest,
) -> Result<Introduced, String> {
    let mut stream = transport
        .dial_for_lists(url)
        .await
        .map_err(|it| it.to_string())?;
    let mut decoder = Decoder::new(&[], HANDSHAKE_BYTES_MAX);
    let environment = HandshakeEnvironment {
        introduces: true,
        ..environment.handshake()
    };
    let shaken = handshake::dial(&mut *stream, &mut decoder, environment, expected);
    let Session {
        peer, negotiated, ..
    } = shaken.await.map_err(|it| it.to_string())?;
    if !negotiated.has(LISTS) {
        return Err("its release does not know changes of the list of members".to_owned());
    }
    decoder.allow(PAYLOAD_BYTES_MAX);
    let mut frame = Vec::new();
    message::put_list(&mut frame, CALL, INTRODUCTION_MAX, request);
    let sent = async {
        stream.write_all(&frame).await?;
        stream.flush().await
    };
    sent.await.map_err(|it| it.to_string())?;
    loop {
        while let Some(frame) = decoder.next().map_err(|it| it.to_string())? {
            match Message::decode(frame).map_err(|it| it.to_string())? {
                Message::Listed(bytes) => {
                    let answer = ListAnswer::decode(bytes).map_err(str::to_owned)?;
                    return Ok(Introduced {
                        name: peer.name,
                        answer,
                    });
                }
                Message::Missed(miss) => {
                    return Err(format!(
                        "it refuses to answer: {}",
                        Fate::Missed(miss).word()
                    ));
                }
                _ => {}
            }
        }
        let filled = decoder.fill(&mut *stream).await;
        if filled.map_err(|it| it.to_string())? == 0 {
            return Err("it has closed the connection".to_owned());
        }
    }
}
