//! Requests for one key: read, write, delete, and list its replicas.
//!
//! A write may have a [`Condition`]. Such a write is repeated only after an answer that says that
//! nothing was done: otherwise the repeat could find its own first attempt, and take it for that
//! of another client.

use crate::client::{Client, Message, Repeat};
use crate::connection::Answer;
use crate::error::Error;
use crate::query::{Replicas, Target};
use bytes::Bytes;
use hyper::Method;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

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
    /// The entity tag, with its quotes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
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
            etag: text("etag"),
            acks: text("kvorum-acks"),
            expires: text("kvorum-expires"),
        })
    }
}

/// What must hold of a key for a write to take effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// The key has a value with one of these entity tags, or any value: `*` (`If-Match`).
    pub if_match: Option<String>,
    /// The key has no value with any of these entity tags, or none at all: `*` (`If-None-Match`).
    pub if_none_match: Option<String>,
}

impl Condition {
    /// The value has this entity tag, which an [`EntityHead`] names.
    #[must_use]
    pub fn matches(etag: &str) -> Self {
        Self {
            if_match: Some(etag.to_owned()),
            if_none_match: None,
        }
    }

    /// The key has no value.
    #[must_use]
    pub fn absent() -> Self {
        Self {
            if_match: None,
            if_none_match: Some("*".to_owned()),
        }
    }

    /// Whether it holds for every key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn headers(&self) -> Vec<(&'static str, Cow<'static, str>)> {
        let fields = [
            ("if-match", &self.if_match),
            ("if-none-match", &self.if_none_match),
        ];
        let given = fields.into_iter().filter_map(|(name, tags)| {
            let tags = tags.clone()?;
            Some((name, Cow::Owned(tags)))
        });
        given.collect()
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
        let message = self.message(Method::GET, entity(key, replicas));
        let limits = self.settings().limits;
        self.ask(Repeat::Always, async |node| {
            let read = |answer: &Answer, value| {
                let head = EntityHead::of(answer)?;
                Ok(Found { head, value })
            };
            self.fetch(limits, node, &message, VALUE_BYTES_MAX, read)
                .await
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
        let unconditional = Condition::default();
        self.put_if(key, value, ttl_seconds, replicas, &unconditional)
            .await
    }

    /// As [`Self::put`], if the condition holds.
    ///
    /// # Errors
    /// [`Error`]. A condition that does not hold is a refusal with status 412, and nothing is
    /// written. With [`Error::is_unknown`] the write may have happened, or happen later; it is
    /// never repeated.
    pub async fn put_if(
        &self,
        key: &[u8],
        value: Bytes,
        ttl_seconds: Option<u64>,
        replicas: Replicas,
        condition: &Condition,
    ) -> Result<EntityHead, Error> {
        let target = entity(key, replicas).with_number("ttl", ttl_seconds);
        let mut message = self.message(Method::PUT, target);
        message.body = value;
        self.write(message, condition).await
    }

    /// Keeps the value of a key, which expires after `ttl_seconds` from now on, or never, if the
    /// condition holds. A key without a value is a condition that does not hold.
    ///
    /// # Errors
    /// As for [`Self::put_if`].
    pub async fn touch(
        &self,
        key: &[u8],
        ttl_seconds: Option<u64>,
        replicas: Replicas,
        condition: &Condition,
    ) -> Result<EntityHead, Error> {
        let target = entity(key, replicas)
            .with("touch", b"true")
            .with_number("ttl", ttl_seconds);
        let mut message = self.message(Method::PUT, target);
        message.headers = condition.headers();
        self.write_with(&message, Repeat::IfNotDone).await
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// As for [`Self::put`].
    pub async fn delete(&self, key: &[u8], replicas: Replicas) -> Result<EntityHead, Error> {
        let unconditional = Condition::default();
        self.delete_if(key, replicas, &unconditional).await
    }

    /// As [`Self::delete`], if the condition holds.
    ///
    /// # Errors
    /// As for [`Self::put_if`].
    pub async fn delete_if(
        &self,
        key: &[u8],
        replicas: Replicas,
        condition: &Condition,
    ) -> Result<EntityHead, Error> {
        let message = self.message(Method::DELETE, entity(key, replicas));
        self.write(message, condition).await
    }

    async fn write(
        &self,
        mut message: Message,
        condition: &Condition,
    ) -> Result<EntityHead, Error> {
        message.headers = condition.headers();
        let repeat = if condition.is_empty() {
            self.repeat_of_writes()
        } else {
            Repeat::IfNotDone
        };
        self.write_with(&message, repeat).await
    }

    async fn write_with(&self, message: &Message, repeat: Repeat) -> Result<EntityHead, Error> {
        let limits = self.settings().limits;
        self.ask(repeat, async |node| {
            let read = |answer: &Answer, _| EntityHead::of(answer);
            self.fetch(limits, node, message, PAGE_BYTES_MAX, read)
                .await
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
        let message = self.message(Method::GET, target);
        let limits = self.settings().limits;
        self.ask(Repeat::Always, async |node| {
            self.fetch(limits, node, &message, PAGE_BYTES_MAX, Answer::json)
                .await
        })
        .await
    }
}

fn entity(key: &[u8], replicas: Replicas) -> Target {
    Target::new("/v0/entity")
        .with("id", key)
        .with_replicas(replicas)
}
