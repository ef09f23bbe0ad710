//! The codec of sweep messages, as `mod.rs` draws them.

use super::{
    BOUND_KEY_BYTES_MAX, HELD_MAX, KEY_HASHES_MAX, SYMBOLS_MAX, SweepAnswer, SweepRequest,
    bound_steps_max,
};
use base::{ByteReader, Timestamp};
use bytes::Bytes;
use cluster::sweep::symbols::Symbol;
use cluster::sweep::{Digest, KeyBounds, PassId, PassKind, STEPS_MAX};
use cluster::{NODES_MAX, NodeNumber};

impl SweepRequest {
    /// Appends the request.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.pass().0);
        match self {
            Self::Begin { kind, .. } => {
                out.extend_from_slice(&[1, (*kind == PassKind::Full).into()]);
            }
            Self::Agree { cut, bounds, .. } => {
                out.push(2);
                put_u64(out, cut.as_u64());
                put_bounds(out, bounds);
            }
            Self::Advance { start, .. } => {
                out.push(3);
                put_key(out, start);
            }
            Self::Digest { range, end, .. } => {
                out.push(4);
                put_u32(out, *range);
                put_option_key(out, end.as_deref());
            }
            Self::Reconcile {
                range,
                with,
                theirs,
                ..
            } => {
                out.push(5);
                put_u32(out, *range);
                put_node(out, *with);
                put_digest(out, theirs);
            }
            Self::Symbols {
                range,
                asker,
                first,
                count,
                ..
            } => {
                out.push(6);
                put_u32(out, *range);
                put_node(out, *asker);
                put_u32(out, *first);
                put_u32(out, *count);
            }
            Self::Send {
                range,
                asker,
                key_hashes,
                ..
            } => {
                out.push(7);
                put_u32(out, *range);
                put_node(out, *asker);
                for hash in key_hashes.iter().take(KEY_HASHES_MAX) {
                    put_u64(out, *hash);
                }
            }
            Self::Announce { range, .. } => {
                out.push(8);
                put_u32(out, *range);
            }
            Self::Sync { .. } => out.push(9),
            Self::End { clean_with, .. } => {
                out.push(10);
                for node in clean_with {
                    put_node(out, *node);
                }
            }
            Self::Pull {
                range,
                asker,
                after,
                held,
                ..
            } => {
                out.push(11);
                put_u32(out, *range);
                put_node(out, *asker);
                put_option_key(out, after.as_deref());
                for hash in held.iter().take(HELD_MAX) {
                    put_u32(out, *hash);
                }
            }
        }
    }

    /// The request that a payload holds.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn decode(payload: &[u8]) -> Result<Self, &'static str> {
        let mut fields = Fields(ByteReader::new(payload));
        let pass = PassId(fields.u64()?);
        let request = match fields.u8()? {
            1 => Self::Begin {
                pass,
                kind: match fields.bool()? {
                    false => PassKind::Recent,
                    true => PassKind::Full,
                },
            },
            2 => Self::Agree {
                pass,
                cut: fields.timestamp()?,
                bounds: fields.bounds()?,
            },
            3 => Self::Advance {
                pass,
                start: fields.key()?,
            },
            4 => Self::Digest {
                pass,
                range: fields.u32()?,
                end: fields.option_key()?,
            },
            5 => Self::Reconcile {
                pass,
                range: fields.u32()?,
                with: fields.node()?,
                theirs: fields.digest()?,
            },
            6 => Self::Symbols {
                pass,
                range: fields.u32()?,
                asker: fields.node()?,
                first: fields.u32()?,
                count: fields.u32()?,
            },
            7 => Self::Send {
                pass,
                range: fields.u32()?,
                asker: fields.node()?,
                key_hashes: fields.rest_of(KEY_HASHES_MAX, Fields::u64)?,
            },
            8 => Self::Announce {
                pass,
                range: fields.u32()?,
            },
            9 => Self::Sync { pass },
            10 => Self::End {
                pass,
                clean_with: fields.rest_of(NODES_MAX, Fields::node)?,
            },
            11 => Self::Pull {
                pass,
                range: fields.u32()?,
                asker: fields.node()?,
                after: fields.option_key()?,
                held: fields.rest_of(HELD_MAX, Fields::u32)?,
            },
            _ => return Err("an unknown request of a sweep"),
        };
        fields.end()?;
        Ok(request)
    }
}

impl SweepAnswer {
    /// Appends the answer.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Begun {
                greatest_seen,
                bounds,
            } => {
                out.push(1);
                put_u64(out, greatest_seen.as_u64());
                put_bounds(out, bounds);
            }
            Self::Done => out.push(2),
            Self::Advanced(end) => {
                out.push(3);
                put_option_key(out, end.as_deref());
            }
            Self::Digests { surplus, digests } => {
                out.push(4);
                put_u32(out, *surplus);
                for digest in digests {
                    put_digest(out, digest);
                }
            }
            Self::Reconciled {
                is_equal,
                sent,
                received,
            } => {
                out.extend_from_slice(&[5, (*is_equal).into()]);
                put_u32(out, *sent);
                put_u32(out, *received);
            }
            Self::Symbols(symbols) => {
                out.push(6);
                for symbol in symbols.iter().take(SYMBOLS_MAX) {
                    put_u64(out, symbol.key_hashes);
                    put_u64(out, symbol.timestamps);
                    put_u32(out, symbol.content_hashes);
                    put_u32(out, symbol.checks);
                    put_u32(out, symbol.items as u32);
                }
            }
            Self::Sent { all, sent } => {
                out.extend_from_slice(&[7, (*all).into()]);
                put_u32(out, *sent);
            }
            Self::Unknown => out.push(8),
        }
    }

    /// The answer that a payload holds.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn decode(payload: &[u8]) -> Result<Self, &'static str> {
        let mut fields = Fields(ByteReader::new(payload));
        let answer = match fields.u8()? {
            1 => Self::Begun {
                greatest_seen: fields.timestamp()?,
                bounds: fields.bounds()?,
            },
            2 => Self::Done,
            3 => Self::Advanced(fields.option_key()?),
            4 => Self::Digests {
                surplus: fields.u32()?,
                digests: fields.rest_of(NODES_MAX, Fields::digest)?,
            },
            5 => Self::Reconciled {
                is_equal: fields.bool()?,
                sent: fields.u32()?,
                received: fields.u32()?,
            },
            6 => Self::Symbols(fields.rest_of(SYMBOLS_MAX, |fields| {
                Ok(Symbol {
                    key_hashes: fields.u64()?,
                    timestamps: fields.u64()?,
                    content_hashes: fields.u32()?,
                    checks: fields.u32()?,
                    items: fields.u32()? as i32,
                })
            })?),
            7 => Self::Sent {
                all: fields.bool()?,
                sent: fields.u32()?,
            },
            8 => Self::Unknown,
            _ => return Err("an unknown answer of a sweep"),
        };
        fields.end()?;
        Ok(answer)
    }
}

fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_node(out: &mut Vec<u8>, node: NodeNumber) {
    // The list of nodes has 255 names at most.
    out.push(node.index() as u8);
}

fn put_key(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(&(key.len() as u16).to_le_bytes());
    out.extend_from_slice(key);
}

fn put_digest(out: &mut Vec<u8>, digest: &Digest) {
    put_u64(out, digest.items);
    out.extend_from_slice(&digest.sum.to_le_bytes());
}

fn put_option_key(out: &mut Vec<u8>, key: Option<&[u8]>) {
    out.push(key.is_some().into());
    if let Some(key) = key {
        put_key(out, key);
    }
}

fn put_bounds(out: &mut Vec<u8>, bounds: &[KeyBounds]) {
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

/// Reads a payload, field by field.
struct Fields<'a>(ByteReader<'a>);

/// What is wrong with a payload that ends too soon.
const TOO_SHORT: &str = "too short a payload";

impl<'a> Fields<'a> {
    fn bool(&mut self) -> Result<bool, &'static str> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err("neither yes nor no"),
        }
    }

    fn u8(&mut self) -> Result<u8, &'static str> {
        self.0.u8().ok_or(TOO_SHORT)
    }

    fn u32(&mut self) -> Result<u32, &'static str> {
        self.0.u32().ok_or(TOO_SHORT)
    }

    fn u64(&mut self) -> Result<u64, &'static str> {
        self.0.u64().ok_or(TOO_SHORT)
    }

    fn timestamp(&mut self) -> Result<Timestamp, &'static str> {
        self.u64().map(Timestamp::from_u64)
    }

    fn node(&mut self) -> Result<NodeNumber, &'static str> {
        self.u8().map(NodeNumber::new)
    }

    fn digest(&mut self) -> Result<Digest, &'static str> {
        Ok(Digest {
            items: self.u64()?,
            sum: self.0.u128().ok_or(TOO_SHORT)?,
        })
    }

    fn key_of(&mut self, bytes_max: usize) -> Result<&'a [u8], &'static str> {
        let bytes = usize::from(self.0.u16().ok_or(TOO_SHORT)?);
        match bytes <= bytes_max {
            true => self.0.bytes(bytes).ok_or(TOO_SHORT),
            false => Err("too long a key"),
        }
    }

    fn key(&mut self) -> Result<Bytes, &'static str> {
        // The end of what was scanned is the key after one.
        self.key_of(base::KEY_BYTES_MAX + 1)
            .map(Bytes::copy_from_slice)
    }

    fn option_key(&mut self) -> Result<Option<Bytes>, &'static str> {
        match self.bool()? {
            true => self.key().map(Some),
            false => Ok(None),
        }
    }

    fn bounds(&mut self) -> Result<Vec<KeyBounds>, &'static str> {
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

    /// All that follows is a list of at most `most`.
    fn rest_of<T>(
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

    fn end(&self) -> Result<(), &'static str> {
        match self.0.rest() {
            [] => Ok(()),
            _ => Err("too long a payload"),
        }
    }
}
