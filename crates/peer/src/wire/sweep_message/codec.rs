//! The codec of sweep messages, as `mod.rs` draws them.

use super::fields::{
    Fields, put_bounds, put_digest, put_incarnation, put_key, put_node, put_option_key, put_u32,
    put_u64,
};
use super::{
    FencedStore, HELD_MAX, KEY_HASHES_MAX, OFFERS_MAX, Offer, SYMBOLS_MAX, SweepAnswer,
    SweepRequest,
};
use base::ByteReader;
use cluster::NODES_MAX;
use cluster::sweep::symbols::Symbol;
use cluster::sweep::{PassId, PassKind};

impl SweepRequest {
    /// Appends the request.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.pass().0);
        match self {
            Self::Begin {
                kind, is_resumed, ..
            } => {
                let is_full = *kind == PassKind::Full;
                out.extend_from_slice(&[1, is_full.into(), (*is_resumed).into()]);
            }
            Self::Fence { fence, .. } => {
                out.push(14);
                put_u64(out, fence.as_u64());
            }
            Self::Forget { forgotten, .. } => {
                out.push(15);
                put_u64(out, forgotten.as_u64());
            }
            Self::Disregard {
                below, vouching, ..
            } => {
                out.push(16);
                put_u64(out, below.as_u64());
                out.extend(vouching.iter().map(|vouching| *vouching as u8));
            }
            Self::Agree {
                cut,
                forgotten,
                reaches,
                stores,
                bounds,
                ..
            } => {
                out.push(2);
                put_u64(out, cut.as_u64());
                put_u64(out, forgotten.as_u64());
                // The list of nodes has 255 names at most.
                out.push(reaches.len() as u8);
                for (reach, store) in reaches.iter().zip(stores) {
                    out.push(*reach);
                    put_u64(out, store.store_id);
                    put_u64(out, store.start);
                }
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
            Self::Reconcile { range, with, .. } => {
                out.push(5);
                put_u32(out, *range);
                put_node(out, *with);
            }
            Self::Recount { range, asker, .. } => {
                out.push(13);
                put_u32(out, *range);
                put_node(out, *asker);
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
            Self::Offer {
                range,
                asker,
                offers,
                ..
            } => {
                out.push(12);
                put_u32(out, *range);
                put_node(out, *asker);
                for offer in offers.iter().take(OFFERS_MAX) {
                    put_key(out, &offer.key);
                    put_u64(out, offer.timestamp.as_u64());
                    put_u32(out, offer.content_hash);
                    out.push(offer.copies);
                }
            }
            Self::End {
                is_conclusive,
                single_copies,
                clean_with,
                ..
            } => {
                out.extend_from_slice(&[10, (*is_conclusive).into(), single_copies.len() as u8]);
                for count in single_copies {
                    put_u64(out, *count);
                }
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
                kind: if fields.bool()? {
                    PassKind::Full
                } else {
                    PassKind::Recent
                },
                is_resumed: fields.bool()?,
            },
            2 => {
                let (cut, forgotten) = (fields.timestamp()?, fields.timestamp()?);
                let nodes = fields.counted(|fields| Ok((fields.u8()?, fields.store()?)))?;
                let (reaches, stores) = nodes.into_iter().unzip();
                Self::Agree {
                    pass,
                    cut,
                    forgotten,
                    reaches,
                    stores,
                    bounds: fields.bounds()?,
                }
            }
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
            },
            13 => Self::Recount {
                pass,
                range: fields.u32()?,
                asker: fields.node()?,
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
                is_conclusive: fields.bool()?,
                single_copies: fields.counted(Fields::u64)?,
                clean_with: fields.rest_of(NODES_MAX, Fields::node)?,
            },
            11 => Self::Pull {
                pass,
                range: fields.u32()?,
                asker: fields.node()?,
                after: fields.option_key()?,
                held: fields.rest_of(HELD_MAX, Fields::u32)?,
            },
            12 => Self::Offer {
                pass,
                range: fields.u32()?,
                asker: fields.node()?,
                offers: fields.rest_of(OFFERS_MAX, |fields| {
                    Ok(Offer {
                        key: fields.key()?,
                        timestamp: fields.timestamp()?,
                        content_hash: fields.u32()?,
                        copies: fields.u8()?,
                    })
                })?,
            },
            14 => Self::Fence {
                pass,
                fence: fields.timestamp()?,
            },
            15 => Self::Forget {
                pass,
                forgotten: fields.timestamp()?,
            },
            16 => Self::Disregard {
                pass,
                below: fields.timestamp()?,
                vouching: fields.rest_of(NODES_MAX, Fields::vouching)?,
            },
            _ => return Err("an unknown request of a repair"),
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
                incarnation,
                start,
                greatest_seen,
                forgotten,
                latest_fence,
                reach,
                bounds,
            } => {
                out.push(1);
                put_incarnation(out, *incarnation);
                put_u64(out, *start);
                put_u64(out, greatest_seen.as_u64());
                put_u64(out, forgotten.as_u64());
                put_u64(out, latest_fence.as_u64());
                out.push(*reach);
                put_bounds(out, bounds);
            }
            Self::Done => out.push(2),
            Self::Advanced(end) => {
                out.push(3);
                put_option_key(out, end.as_deref());
            }
            Self::Digests {
                surplus,
                announces,
                single_copies,
                digests,
            } => {
                out.push(4);
                put_u32(out, *surplus);
                put_u32(out, *announces);
                put_u32(out, *single_copies);
                for digest in digests {
                    put_digest(out, digest);
                }
            }
            Self::Reconciled {
                is_equal,
                sent,
                received,
                below_fence,
            } => {
                out.extend_from_slice(&[5, (*is_equal).into()]);
                put_u32(out, *sent);
                put_u32(out, *received);
                put_u32(out, *below_fence);
            }
            Self::Recounted(digest) => {
                out.push(12);
                put_digest(out, digest);
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
            Self::Sent {
                all,
                sent,
                below_fence,
            } => {
                out.extend_from_slice(&[7, (*all).into()]);
                put_u32(out, *sent);
                put_u32(out, *below_fence);
            }
            Self::Unknown => out.push(8),
            Self::Announced {
                sent,
                unsettled,
                below_fence,
                not_told,
            } => {
                out.push(9);
                put_u32(out, *sent);
                put_u32(out, *unsettled);
                put_u32(out, *below_fence);
                for node in not_told {
                    put_node(out, *node);
                }
            }
            Self::Wanted {
                all,
                sent,
                unsettled,
                below_fence,
                wanted,
            } => {
                out.extend_from_slice(&[10, (*all).into()]);
                put_u32(out, *sent);
                put_u32(out, *unsettled);
                put_u32(out, *below_fence);
                for index in wanted.iter().take(OFFERS_MAX) {
                    out.extend_from_slice(&index.to_le_bytes());
                }
            }
            Self::Synced(incarnation) => {
                out.push(11);
                put_incarnation(out, *incarnation);
            }
            Self::Fenced(store) => {
                let FencedStore {
                    incarnation,
                    before,
                    fence,
                    forgotten,
                    greatest,
                    lacks_nothing,
                } = store;
                out.push(13);
                put_incarnation(out, *incarnation);
                for timestamp in [before, fence, forgotten, greatest] {
                    put_u64(out, timestamp.as_u64());
                }
                out.push((*lacks_nothing).into());
            }
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
                incarnation: fields.incarnation()?,
                start: fields.u64()?,
                greatest_seen: fields.timestamp()?,
                forgotten: fields.timestamp()?,
                latest_fence: fields.timestamp()?,
                reach: fields.u8()?,
                bounds: fields.bounds()?,
            },
            2 => Self::Done,
            3 => Self::Advanced(fields.option_key()?),
            4 => Self::Digests {
                surplus: fields.u32()?,
                announces: fields.u32()?,
                single_copies: fields.u32()?,
                digests: fields.rest_of(NODES_MAX, Fields::digest)?,
            },
            5 => Self::Reconciled {
                is_equal: fields.bool()?,
                sent: fields.u32()?,
                received: fields.u32()?,
                below_fence: fields.u32()?,
            },
            12 => Self::Recounted(fields.digest()?),
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
                below_fence: fields.u32()?,
            },
            8 => Self::Unknown,
            9 => Self::Announced {
                sent: fields.u32()?,
                unsettled: fields.u32()?,
                below_fence: fields.u32()?,
                not_told: fields.rest_of(NODES_MAX, Fields::node)?,
            },
            10 => Self::Wanted {
                all: fields.bool()?,
                sent: fields.u32()?,
                unsettled: fields.u32()?,
                below_fence: fields.u32()?,
                wanted: fields.rest_of(OFFERS_MAX, Fields::u16)?,
            },
            11 => Self::Synced(fields.incarnation()?),
            13 => Self::Fenced(FencedStore {
                incarnation: fields.incarnation()?,
                before: fields.timestamp()?,
                fence: fields.timestamp()?,
                forgotten: fields.timestamp()?,
                greatest: fields.timestamp()?,
                lacks_nothing: fields.bool()?,
            }),
            _ => return Err("an unknown answer of a repair"),
        };
        fields.end()?;
        Ok(answer)
    }
}
