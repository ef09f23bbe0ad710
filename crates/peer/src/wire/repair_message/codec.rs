//! The codec of repair messages, as `mod.rs` draws them.

use super::fields::{
    Fields, put_bounds, put_digest, put_key, put_node, put_option_key, put_u32, put_u64,
};
use super::session_id::put_session_id;
use super::{
    HELD_MAX, KEY_HASHES_MAX, OFFERS_MAX, Offer, RepairAnswer, RepairRequest, SYMBOLS_MAX,
};
use base::ByteReader;
use cluster::comparison::symbols::Symbol;
use cluster::{Epoch, NODES_MAX};

impl RepairRequest {
    /// Appends the request.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_session_id(out, self.session());
        match self {
            Self::Begin { epoch, .. } => {
                out.push(1);
                put_u64(out, epoch.as_u64());
            }
            Self::Close {
                gc_threshold,
                below,
                are_all,
                start,
                ..
            } => {
                out.push(14);
                put_u64(out, gc_threshold.as_u64());
                put_u64(out, below.as_u64());
                out.push((*are_all).into());
                put_key(out, start);
            }
            Self::Agree {
                cut,
                gc_threshold,
                reaches,
                bounds,
                ..
            } => {
                out.push(2);
                put_u64(out, cut.as_u64());
                put_u64(out, gc_threshold.as_u64());
                // The list of nodes has 255 names at most.
                out.push(reaches.len() as u8);
                out.extend_from_slice(reaches);
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
            Self::Finish { below, .. } => {
                out.push(15);
                put_u64(out, below.as_u64());
            }
            Self::Outcome {
                gc_threshold,
                single_copies,
                equal_with,
                has_all_of,
                ..
            } => {
                // Releases that do not know the other one take this.
                let is_mutual = equal_with == has_all_of;
                out.push(if is_mutual { 10 } else { 16 });
                put_u64(out, gc_threshold.as_u64());
                out.push(single_copies.len() as u8);
                for count in single_copies {
                    put_u64(out, *count);
                }
                if !is_mutual {
                    out.push(equal_with.len() as u8);
                    for node in equal_with {
                        put_node(out, *node);
                    }
                }
                for node in has_all_of {
                    put_node(out, *node);
                }
            }
            Self::Stream {
                range,
                asker,
                after,
                until,
                held,
                ..
            } => {
                out.push(11);
                put_u32(out, *range);
                put_node(out, *asker);
                put_option_key(out, after.as_deref());
                put_option_key(out, until.as_deref());
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
        let session = fields.session()?;
        let request = match fields.u8()? {
            1 => Self::Begin {
                session,
                epoch: Epoch::new(fields.u64()?),
            },
            2 => Self::Agree {
                session,
                cut: fields.timestamp()?,
                gc_threshold: fields.timestamp()?,
                reaches: fields.counted(Fields::u8)?,
                bounds: fields.bounds()?,
            },
            3 => Self::Advance {
                session,
                start: fields.key()?,
            },
            4 => Self::Digest {
                session,
                range: fields.u32()?,
                end: fields.option_key()?,
            },
            5 => Self::Reconcile {
                session,
                range: fields.u32()?,
                with: fields.node()?,
            },
            13 => Self::Recount {
                session,
                range: fields.u32()?,
                asker: fields.node()?,
            },
            6 => Self::Symbols {
                session,
                range: fields.u32()?,
                asker: fields.node()?,
                first: fields.u32()?,
                count: fields.u32()?,
            },
            7 => Self::Send {
                session,
                range: fields.u32()?,
                asker: fields.node()?,
                key_hashes: fields.rest_of(KEY_HASHES_MAX, Fields::u64)?,
            },
            8 => Self::Announce {
                session,
                range: fields.u32()?,
            },
            9 => Self::Sync { session },
            10 => {
                let gc_threshold = fields.timestamp()?;
                let single_copies = fields.counted(Fields::u64)?;
                let equal_with = fields.rest_of(NODES_MAX, Fields::node)?;
                Self::Outcome {
                    session,
                    gc_threshold,
                    single_copies,
                    has_all_of: equal_with.clone(),
                    equal_with,
                }
            }
            16 => Self::Outcome {
                session,
                gc_threshold: fields.timestamp()?,
                single_copies: fields.counted(Fields::u64)?,
                equal_with: fields.counted(Fields::node)?,
                has_all_of: fields.rest_of(NODES_MAX, Fields::node)?,
            },
            11 => Self::Stream {
                session,
                range: fields.u32()?,
                asker: fields.node()?,
                after: fields.option_key()?,
                until: fields.option_key()?,
                held: fields.rest_of(HELD_MAX, Fields::u32)?,
            },
            12 => Self::Offer {
                session,
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
            14 => Self::Close {
                session,
                gc_threshold: fields.timestamp()?,
                below: fields.timestamp()?,
                are_all: fields.bool()?,
                start: fields.key()?,
            },
            15 => Self::Finish {
                session,
                below: fields.timestamp()?,
            },
            _ => return Err("an unknown request of a repair"),
        };
        fields.end()?;
        Ok(request)
    }
}

impl RepairAnswer {
    /// Appends the answer.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Begun {
                greatest_seen,
                gc_threshold,
                closed,
                latest,
                may_raise,
                reach,
                bounds,
            } => {
                out.push(1);
                for timestamp in [greatest_seen, gc_threshold, closed, latest] {
                    put_u64(out, timestamp.as_u64());
                }
                out.extend_from_slice(&[(*may_raise).into(), *reach]);
                put_bounds(out, bounds);
            }
            Self::Done => out.push(2),
            Self::Advanced(end) => {
                out.push(3);
                put_option_key(out, end.as_deref());
            }
            Self::Digests {
                non_owned,
                announces,
                single_copies,
                digests,
            } => {
                out.push(4);
                put_u32(out, *non_owned);
                put_u32(out, *announces);
                put_u32(out, *single_copies);
                for digest in digests {
                    put_digest(out, digest);
                }
            }
            Self::Reconciled {
                asker_has_all,
                other_has_all,
                sent,
                received,
                below_cut,
            } => {
                // Releases that do not know the other one take this.
                if asker_has_all == other_has_all {
                    out.extend_from_slice(&[5, (*asker_has_all).into()]);
                } else {
                    out.extend_from_slice(&[16, (*asker_has_all).into()]);
                }
                put_u32(out, *sent);
                put_u32(out, *received);
                put_u32(out, *below_cut);
            }
            Self::Recounted(digest) => {
                out.push(11);
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
                below_cut,
            } => {
                out.extend_from_slice(&[7, (*all).into()]);
                put_u32(out, *sent);
                put_u32(out, *below_cut);
            }
            Self::Refused { greatest } => {
                out.push(8);
                greatest.encode(out);
            }
            Self::Announced {
                below_cut,
                not_told,
            } => {
                out.push(9);
                put_u32(out, *below_cut);
                for node in not_told {
                    put_node(out, *node);
                }
            }
            Self::Wanted {
                all,
                sent,
                below_cut,
                wanted,
            } => {
                out.extend_from_slice(&[10, (*all).into()]);
                put_u32(out, *sent);
                put_u32(out, *below_cut);
                for index in wanted.iter().take(OFFERS_MAX) {
                    out.extend_from_slice(&index.to_le_bytes());
                }
            }
            Self::Closed(closed) => {
                out.push(12);
                put_u64(out, closed.as_u64());
            }
            Self::Failed => out.push(14),
            Self::OtherEpoch { epoch } => {
                out.push(15);
                put_u64(out, epoch.as_u64());
            }
            Self::Synced { may_raise } => out.extend_from_slice(&[13, (*may_raise).into()]),
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
                gc_threshold: fields.timestamp()?,
                closed: fields.timestamp()?,
                latest: fields.timestamp()?,
                may_raise: fields.bool()?,
                reach: fields.u8()?,
                bounds: fields.bounds()?,
            },
            2 => Self::Done,
            3 => Self::Advanced(fields.option_key()?),
            4 => Self::Digests {
                non_owned: fields.u32()?,
                announces: fields.u32()?,
                single_copies: fields.u32()?,
                digests: fields.rest_of(NODES_MAX, Fields::digest)?,
            },
            kind @ (5 | 16) => {
                let asker_has_all = fields.bool()?;
                Self::Reconciled {
                    asker_has_all,
                    other_has_all: asker_has_all == (kind == 5),
                    sent: fields.u32()?,
                    received: fields.u32()?,
                    below_cut: fields.u32()?,
                }
            }
            11 => Self::Recounted(fields.digest()?),
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
                below_cut: fields.u32()?,
            },
            8 => Self::Refused {
                greatest: fields.token()?,
            },
            9 => Self::Announced {
                below_cut: fields.u32()?,
                not_told: fields.rest_of(NODES_MAX, Fields::node)?,
            },
            10 => Self::Wanted {
                all: fields.bool()?,
                sent: fields.u32()?,
                below_cut: fields.u32()?,
                wanted: fields.rest_of(OFFERS_MAX, Fields::u16)?,
            },
            12 => Self::Closed(fields.timestamp()?),
            13 => Self::Synced {
                may_raise: fields.bool()?,
            },
            14 => Self::Failed,
            15 => Self::OtherEpoch {
                epoch: Epoch::new(fields.u64()?),
            },
            _ => return Err("an unknown answer of a repair"),
        };
        fields.end()?;
        Ok(answer)
    }
}
