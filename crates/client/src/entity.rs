//! Requests for one key: read, write, delete, and list its replicas.

use crate::client::{Client, Message, Repeat};
use crate::connection::Answer;
use crate::error::Error;
use crate::query::{Replicas, Target};
use bytes::Bytes;
use hyper::Method;
use serde::{Deserialize, Serialize};

/// The longest value that is read, in bytes: the greatest that a node can be configured to
/// take.
const VALUE_BYTES_MAX: u64 = 1 << 30;

/// The longest page about a key, in bytes: far above a line for each of 255 nodes.
const PAGE_BYTES_MAX: u64 = 16 << 20;

/// What the head of an answer says about an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EntityHead {
    /// The URL of the node that answered.
    pub node: String,
    /// The version, a decimal number.
    pub version: String,
    /// How many replicas had answered, of how many: `2/3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acks: Option<String>,
    /// When the entity expires (RFC 3339), if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

impl EntityHead {
    /// What the head of an answer says that has the status of success.
    ///
    /// # Errors
    /// [`Error::OtherServer`] without a version, which every node names.
    fn of(answer: &Answer) -> Result<Self, Error> {
        let text = |name| answer.header(name).map(str::to_owned);
        let version = text("kvorum-version").filter(|version| version.parse::<u64>().is_ok());
        Ok(Self {
            node: answer.node().to_owned(),
            version: version.ok_or_else(|| answer.other("its answer names no version"))?,
            acks: text("kvorum-acks"),
            expires: text("kvorum-expires"),
        })
    }
}

/// An entity that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What the head says.
    pub head: EntityHead,
    /// The value.
    pub value: Vec<u8>,
}

/// The replicas of a key.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct KeyReplicas {
    /// All nodes, in the order in which they are replicas of the key.
    pub replicas: Vec<KeyReplica>,
}

/// A node as a replica of a key. Behind the URL is what it holds, if that was asked for.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct KeyReplica {
    /// Its name.
    pub name: String,
    /// Its URL.
    pub url: String,
    /// The version that it holds, a decimal number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `value` or `tombstone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// When the version expires (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// The length of the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_bytes: Option<u64>,
    /// For how many replicas the version was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<u8>,
    /// Whether it should hold the newest version and does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<bool>,
    /// Why it is not known what the node holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
}

impl Client {
    /// Reads a key.
    ///
    /// # Errors
    /// [`Error`]; a key without a value is a refusal with status 404.
    pub async fn get(&self, key: &[u8], replicas: Replicas) -> Result<Found, Error> {
        let message = Message::new(Method::GET, entity(key, replicas));
        self.ask(Repeat::Always, async |node| {
            let mut answer = self.send(node, &message).await?;
            Ok(Found {
                head: EntityHead::of(&answer)?,
                value: answer.read_all(VALUE_BYTES_MAX).await?,
            })
        })
        .await
    }

    /// Gives a key a value, which expires after `ttl_seconds` if that is given.
    ///
    /// # Errors
    /// [`Error`]. With [`Error::Silent`], [`Error::Cut`] and a refusal with status 504 the
    /// write may have happened, or happen later.
    pub async fn put(
        &self,
        key: &[u8],
        value: Bytes,
        ttl_seconds: Option<u64>,
        replicas: Replicas,
    ) -> Result<EntityHead, Error> {
        let target = entity(key, replicas).with_number("ttl", ttl_seconds);
        let mut message = Message::new(Method::PUT, target);
        message.body = value;
        self.write(&message).await
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// As for [`Self::put`].
    pub async fn delete(&self, key: &[u8], replicas: Replicas) -> Result<EntityHead, Error> {
        let message = Message::new(Method::DELETE, entity(key, replicas));
        self.write(&message).await
    }

    async fn write(&self, message: &Message) -> Result<EntityHead, Error> {
        self.ask(self.repeat_of_writes(), async |node| {
            let mut answer = self.send(node, message).await?;
            answer.read_all(PAGE_BYTES_MAX).await?;
            EntityHead::of(&answer)
        })
        .await
    }

    /// Where a key lies, and with `has_versions` what each node holds of it.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn replicas(&self, key: &[u8], has_versions: bool) -> Result<KeyReplicas, Error> {
        let mut target = Target::new("/v0/replicas").with("id", key);
        if has_versions {
            target = target.with("versions", b"true");
        }
        let message = Message::new(Method::GET, target);
        self.ask(Repeat::Always, async |node| {
            let mut answer = self.send(node, &message).await?;
            let page = answer.read_all(PAGE_BYTES_MAX).await?;
            serde_json::from_slice(&page).map_err(|error| answer.other(error.to_string()))
        })
        .await
    }
}

fn entity(key: &[u8], replicas: Replicas) -> Target {
    Target::new("/v0/entity")
        .with("id", key)
        .with_replicas(replicas)
}
