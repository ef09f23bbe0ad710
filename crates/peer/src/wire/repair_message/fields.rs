//! Reads and writes the fields of repair messages.

use super::session_id::take_session_id;
use super::{BOUND_KEY_BYTES_MAX, bound_steps_max};
use base::{ByteReader, Timestamp};
use bytes::Bytes;
use cluster::comparison::{Digest, KeyBounds, STEPS_MAX};
use cluster::repair::{SessionId, Token};
use cluster::{NODES_MAX, NodeId};

/// Reads a payload, field by field.
pub(super) struct Fields<'a>(pub(super) ByteReader<'a>);

/// What is wrong with a payload that ends too soon.
const TOO_SHORT: &str = "too short a payload";

impl<'a> Fields<'a> {
    pub(super) fn bool(&mut self) -> Result<bool, &'static str> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err("neither yes nor no"),
        }
    }

    pub(super) fn u8(&mut self) -> Result<u8, &'static str> {
        self.0.u8().ok_or(TOO_SHORT)
    }

    pub(super) fn u16(&mut self) -> Result<u16, &'static str> {
        self.0.u16().ok_or(TOO_SHORT)
    }

    pub(super) fn u32(&mut self) -> Result<u32, &'static str> {
        self.0.u32().ok_or(TOO_SHORT)
    }

    pub(super) fn u64(&mut self) -> Result<u64, &'static str> {
        self.0.u64().ok_or(TOO_SHORT)
    }

    pub(super) fn timestamp(&mut self) -> Result<Timestamp, &'static str> {
        self.u64().map(Timestamp::from_u64)
    }

    pub(super) fn node(&mut self) -> Result<NodeId, &'static str> {
        self.u8().map(NodeId::new)
    }

    pub(super) fn token(&mut self) -> Result<Token, &'static str> {
        Token::decode(&mut self.0).ok_or(TOO_SHORT)
    }

    pub(super) fn session(&mut self) -> Result<SessionId, &'static str> {
        take_session_id(&mut self.0)
    }

    pub(super) fn digest(&mut self) -> Result<Digest, &'static str> {
        Ok(Digest {
            items: self.u64()?,
            sum: self.0.u128().ok_or(TOO_SHORT)?,
        })
    }

    fn key_of(&mut self, bytes_max: usize) -> Result<&'a [u8], &'static str> {
        let bytes = usize::from(self.u16()?);
        if bytes <= bytes_max {
            self.0.bytes(bytes).ok_or(TOO_SHORT)
        } else {
            Err("too long a key")
        }
    }

    pub(super) fn key(&mut self) -> Result<Bytes, &'static str> {
        // The end of what was scanned is the key after one.
        self.key_of(base::KEY_BYTES_MAX + 1)
            .map(Bytes::copy_from_slice)
    }

    pub(super) fn option_key(&mut self) -> Result<Option<Bytes>, &'static str> {
        if self.bool()? {
            self.key().map(Some)
        } else {
            Ok(None)
        }
    }

    pub(super) fn bounds(&mut self) -> Result<Vec<KeyBounds>, &'static str> {
        self.rest_of(NODES_MAX, |fields| {
            let steps = usize::from(fields.u8()?);
            if steps > STEPS_MAX {
                return Err("too many steps");
            }
            let mut read = Vec::with_capacity(steps);
            for _ in 0..steps {
                let key = fields.key_of(BOUND_KEY_BYTES_MAX)?.to_vec();
                read.push((key, fields.timestamp()?));
            }
            Ok(KeyBounds::from_steps(read))
        })
    }

    /// A list that begins with the number of its elements.
    pub(super) fn counted<T>(
        &mut self,
        read: impl Fn(&mut Self) -> Result<T, &'static str>,
    ) -> Result<Vec<T>, &'static str> {
        let count = self.u8()?;
        (0..count).map(|_| read(self)).collect()
    }

    /// All that follows is a list of at most `most`.
    pub(super) fn rest_of<T>(
        &mut self,
        most: usize,
        read: impl Fn(&mut Self) -> Result<T, &'static str>,
    ) -> Result<Vec<T>, &'static str> {
        let mut list = Vec::new();
        while !self.0.rest().is_empty() {
            if list.len() == most {
                return Err("too long a list");
            }
            list.push(read(self)?);
        }
        Ok(list)
    }

    pub(super) fn end(&self) -> Result<(), &'static str> {
        match self.0.rest() {
            [] => Ok(()),
            _ => Err("too long a payload"),
        }
    }
}

pub(super) fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(super) fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(super) fn put_node(out: &mut Vec<u8>, node: NodeId) {
    // The list of nodes has 255 names at most.
    out.push(node.index() as u8);
}

pub(super) fn put_key(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(&(key.len() as u16).to_le_bytes());
    out.extend_from_slice(key);
}

pub(super) fn put_digest(out: &mut Vec<u8>, digest: &Digest) {
    put_u64(out, digest.items);
    out.extend_from_slice(&digest.sum.to_le_bytes());
}

pub(super) fn put_option_key(out: &mut Vec<u8>, key: Option<&[u8]>) {
    out.push(key.is_some().into());
    if let Some(key) = key {
        put_key(out, key);
    }
}

pub(super) fn put_bounds(out: &mut Vec<u8>, bounds: &[KeyBounds]) {
    let steps_max = bound_steps_max(bounds.len());
    for bounds in bounds {
        // The longer list would not fit, and lower bounds are safe.
        let bounds = bounds.clone().with_steps_at_most(steps_max);
        out.push(bounds.steps().count() as u8);
        for (key, bound) in bounds.steps() {
            put_key(out, key);
            put_u64(out, bound.as_u64());
        }
    }
}
