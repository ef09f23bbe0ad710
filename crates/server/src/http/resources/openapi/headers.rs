//! The header fields of answers, as the document describes them.

use serde_json::{Map, Value, json};

/// A header field of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    field: &'static Field,
    /// Whether each answer of this kind has it.
    is_always: bool,
}

/// What a header field says.
#[derive(Debug)]
pub(super) struct Field {
    name: &'static str,
    text: &'static str,
    /// A pattern of its value.
    pattern: &'static str,
}

impl Header {
    /// A field that each answer of a kind has.
    pub(super) const fn always(field: &'static Field) -> Self {
        Self {
            field,
            is_always: true,
        }
    }

    /// A field that an answer may have.
    pub(super) const fn sometimes(field: &'static Field) -> Self {
        Self {
            field,
            is_always: false,
        }
    }
}

pub(super) const ETAG: Field = Field {
    name: "ETag",
    text: "The version's timestamp and a hash of the value.",
    pattern: "^\"[0-9a-f]{16}-[0-9a-f]{16}\"$",
};
pub(super) const VERSION: Field = Field {
    name: "Kvorum-Version",
    text: "The version's timestamp, a decimal number.",
    pattern: "^[0-9]{1,20}$",
};
pub(super) const ACKS: Field = Field {
    name: "Kvorum-Acks",
    text: "The acks or answers that had arrived when the node replied, and of how many replicas.",
    pattern: "^[0-9]{1,3}/[0-9]{1,3}$",
};
pub(super) const EXPIRES: Field = Field {
    name: "Kvorum-Expires",
    text: "When the entity expires (RFC 3339, UTC), if it does.",
    pattern: "^[0-9T:.-]+Z$",
};
pub(super) const SANDBOX: Field = Field {
    name: "Content-Security-Policy",
    text: "A browser that shows a value runs nothing of it.",
    pattern: "^sandbox$",
};
pub(super) const ASSET_TAG: Field = Field {
    name: "ETag",
    text: "A hash of the file.",
    pattern: "^\"[0-9a-f]{16}\"$",
};
pub(super) const POLICY: Field = Field {
    name: "Content-Security-Policy",
    text: "A browser loads and runs only files of this node.",
    pattern: "^default-src 'none'; ",
};
pub(super) const VARY: Field = Field {
    name: "Vary",
    text: "The request fields that decide about the answer: `accept` about its format, and on a \
           node with `--cors-origin` the `origin` of the page that asks.",
    pattern: "^(accept|origin|accept, origin)$",
};
const ALLOW_ORIGIN: Field = Field {
    name: "Access-Control-Allow-Origin",
    text: "The origin of the page that asks, if the node was started with `--cors-origin` and it.",
    pattern: "^[a-z][a-z0-9+.-]*://[^/]+$",
};
const EXPOSE_HEADERS: Field = Field {
    name: "Access-Control-Expose-Headers",
    text: "The fields of the answer that a page of another origin may read.",
    pattern: "^[a-z-]+(, [a-z-]+)*$",
};
pub(super) const ALLOW_METHODS: Field = Field {
    name: "Access-Control-Allow-Methods",
    text: "The methods that a page of another origin may use.",
    pattern: "^[A-Z]+(, [A-Z]+)*$",
};
pub(super) const ALLOW_HEADERS: Field = Field {
    name: "Access-Control-Allow-Headers",
    text: "The fields that a page of another origin may send.",
    pattern: "^[a-z-]+(, [a-z-]+)*$",
};
pub(super) const MAX_AGE: Field = Field {
    name: "Access-Control-Max-Age",
    text: "For how many seconds a browser may remember this.",
    pattern: "^[0-9]+$",
};
pub(super) const ALLOW_PRIVATE_NETWORK: Field = Field {
    name: "Access-Control-Allow-Private-Network",
    text: "A page of a public site may use a node of a private network.",
    pattern: "^true$",
};
pub(super) const TRAILER: Field = Field {
    name: "Trailer",
    text: "The trailers that end a whole stream, for clients that send `TE: trailers`: \
           `Kvorum-Count`, the number of entities, and `Kvorum-Digest`, `crc32c=` and eight \
           hexadecimal digits over all bytes of the body.",
    pattern: "^kvorum-count, kvorum-digest$",
};
pub(super) const UPGRADE: Field = Field {
    name: "Upgrade",
    text: "The protocol between nodes.",
    pattern: "^[a-z0-9./-]+$",
};
const RETRY_AFTER: Field = Field {
    name: "Retry-After",
    text: "When to try again, in seconds.",
    pattern: "^[0-9]+$",
};
const WWW_AUTHENTICATE: Field = Field {
    name: "WWW-Authenticate",
    text: "That a token is needed; with `invalid_token`, that the one which was sent is not in \
           force.",
    pattern: "^Bearer realm=\"kvorum\"(, error=\"invalid_token\")?$",
};
pub(super) const ALLOW: Field = Field {
    name: "Allow",
    text: "The methods of the resource.",
    pattern: "^[A-Z]+(, [A-Z]+)*$",
};
const NOSNIFF: Field = Field {
    name: "X-Content-Type-Options",
    text: "No browser may guess the type.",
    pattern: "^nosniff$",
};
const CACHE_CONTROL: Field = Field {
    name: "Cache-Control",
    text: "`no-cache` on a `200` or `304` of `GET` and `HEAD`: a cache asks again before it \
           uses what it keeps. `no-store` on all others.",
    pattern: "^(no-cache|no-store)$",
};

/// What each answer has.
const OF_ALL: [Header; 5] = [
    Header::always(&NOSNIFF),
    Header::always(&CACHE_CONTROL),
    Header::sometimes(&VARY),
    Header::sometimes(&ALLOW_ORIGIN),
    Header::sometimes(&EXPOSE_HEADERS),
];

/// The fields that a type of problem brings along.
pub(super) fn of_problem(name: &str, status: u16) -> Vec<Header> {
    match (name, status) {
        ("no-such-entity", _) => vec![Header::sometimes(&VERSION), Header::always(&ACKS)],
        ("other-version", _) => [&ETAG, &VERSION, &ACKS].map(Header::always).to_vec(),
        ("not-enough-replicas" | "disk-full", _) => vec![Header::always(&ACKS)],
        (_, 401) => vec![Header::always(&WWW_AUTHENTICATE)],
        (_, 405) => vec![Header::always(&ALLOW)],
        (_, 503) => vec![Header::always(&RETRY_AFTER)],
        _ => Vec::new(),
    }
}

/// The fields of answers with one status. Each item of `kinds` has those of one kind of
/// answer; a field is required if all kinds have it.
pub(super) fn describe(kinds: &[Vec<Header>]) -> Value {
    let mut described = Map::new();
    for header in kinds.iter().flatten().chain(&OF_ALL) {
        let field = header.field;
        let is_in_all = |header: &Header| header.is_always && header.field.name == field.name;
        let is_required = OF_ALL.iter().any(is_in_all)
            || kinds.iter().all(|headers| headers.iter().any(is_in_all));
        described.insert(
            field.name.to_owned(),
            json!({
                "description": field.text,
                "required": is_required,
                "schema": {"type": "string", "pattern": field.pattern},
            }),
        );
    }
    Value::Object(described)
}
