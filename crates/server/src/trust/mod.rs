//! Who may do what on this node.
//!
//! With a tokens file a request needs a token, mostly one with a right; only public pages and
//! `/v0/peer` need none. Which right each method of a path needs is a column of the table of resources
//! (`http::resources`); what a right is, and which keys it covers, is in the crate `tokens`.
//! Without a tokens file whoever reaches the node may do everything, so such a node listens on
//! loopback only, unless its operator says otherwise (`config::trust`).
//!
//! - `tokens_in_force`: the tokens of the file, read again when it changes.
//! - `shared_tokens`: those that all nodes share, which operators change by a command.
//! - `audit`: what operators did, and whom the node refused, as a log of its own.
//! - `web_pages`: requests of web pages of other sites; `cors_origins`: those that are served.
//! - `tls_files`: the certificate of the node and the authorities that it trusts.
//! - `reloading`: the thread that rereads files that may change while the node runs.

pub(crate) mod audit;
pub(crate) mod cors_origins;
pub(crate) mod reloading;
mod shared_tokens;
pub(crate) mod tls_files;
pub(crate) mod tokens_in_force;
pub(crate) mod web_pages;

use crate::config::{LogKeys, TrustConfig};
use crate::start_error::StartError;
use audit::Audit;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use node::metrics::Family;
use node::{ConfigError, Seams};
use reloading::Reload;
pub(crate) use shared_tokens::TOKENS_VERSIONS;
use shared_tokens::TokensStore;
use std::path::Path;
use std::sync::Arc;
use tokens::{Need, RequestedKeys, Token, TokenHash, bearer};
use tokens_in_force::TokensInForce;

/// Who may do what.
pub(crate) struct Trust {
    tokens: Option<Arc<TokensInForce>>,
    audit: Option<Arc<Audit>>,
    log_keys: LogKeys,
}

/// Who sent a request.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// Anyone: the node asks nobody for a token.
    Anyone,
    /// Who has this token.
    Holder(Arc<Token>),
}

/// Why it is not known who sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unauthenticated {
    /// It has no token, or several.
    NoToken,
    /// Its token is not in force.
    NotInForce,
}

/// Reads the tokens file, and the tokens that nodes share, if there is such a file.
///
/// # Errors
/// One of them cannot be used.
pub(crate) fn read_tokens(
    config: &TrustConfig,
    folder: &Path,
    seams: &Seams,
) -> Result<Option<TokensInForce>, ConfigError> {
    let store = || TokensStore::new(&seams.disk, folder);
    let tokens = config.tokens_file.as_deref();
    let tokens = tokens.map(|file| TokensInForce::read(file, store(), &seams.clock));
    tokens
        .transpose()
        .map_err(|problem| ConfigError::new("tokens_file", problem))
}

impl Trust {
    /// Reads the tokens file and begins the audit log, if there are such.
    ///
    /// # Errors
    /// One of the files cannot be used, or the system starts no thread.
    pub(crate) fn new(
        config: &TrustConfig,
        folder: &Path,
        seams: &Seams,
    ) -> Result<Self, StartError> {
        let tokens = read_tokens(config, folder, seams)?;
        let clock = &seams.clock;
        let audit = config.audit_log.as_ref();
        let audit = audit.map(|target| Audit::start(target, clock));
        Ok(Self {
            tokens: tokens.map(Arc::new),
            audit: audit.transpose()?.map(Arc::new),
            log_keys: config.log_keys,
        })
    }

    /// What may change while the node runs.
    pub(crate) fn sources(&self) -> Vec<Arc<dyn Reload>> {
        let tokens = self
            .tokens
            .as_ref()
            .map(|tokens| Arc::clone(tokens) as Arc<dyn Reload>);
        let audit = self
            .audit
            .as_ref()
            .map(|audit| Arc::clone(audit) as Arc<dyn Reload>);
        tokens.into_iter().chain(audit).collect()
    }

    /// The audit log, if there is one.
    pub(crate) fn audit(&self) -> Option<&Audit> {
        self.audit.as_deref()
    }

    /// The tokens, if clients need some.
    pub(crate) fn tokens(&self) -> Option<&Arc<TokensInForce>> {
        self.tokens.as_ref()
    }

    /// A key as logs show it.
    pub(crate) fn shown(&self, key: &[u8]) -> Option<String> {
        self.log_keys.shown(key)
    }

    /// The metrics of what this is about.
    pub(crate) fn families(&self) -> Vec<Family> {
        let mut families = tokens_in_force::families(self.tokens.as_deref());
        families.extend(audit::families(self.audit.as_deref()));
        families
    }

    /// Whether the tokens file cannot be used now; `None` where clients need no tokens.
    pub(crate) fn is_file_unusable(&self) -> Option<bool> {
        self.tokens.as_ref().map(|tokens| tokens.is_stale())
    }

    /// Who sent a request with these fields.
    ///
    /// # Errors
    /// The node has a tokens file, and the request no token that is in force.
    pub(crate) fn caller(&self, fields: &HeaderMap) -> Result<Caller, Unauthenticated> {
        let Some(tokens) = &self.tokens else {
            return Ok(Caller::Anyone);
        };
        let mut given = fields.get_all(AUTHORIZATION).iter();
        let (Some(field), None) = (given.next(), given.next()) else {
            return Err(Unauthenticated::NoToken);
        };
        let token = bearer(field.as_bytes()).ok_or(Unauthenticated::NoToken)?;
        tokens
            .find(&TokenHash::of(token))
            .map(Caller::Holder)
            .ok_or(Unauthenticated::NotInForce)
    }

    /// Looks up again who a caller is, if the tokens have changed: a request may last
    /// longer than its token.
    pub(crate) fn refresh(&self, caller: &mut Caller) {
        let (Some(tokens), Caller::Holder(token)) = (&self.tokens, &*caller) else {
            return;
        };
        if token.is_superseded()
            && let Some(present) = tokens.find(&token.hash)
        {
            *caller = Caller::Holder(present);
        }
    }
}

impl Caller {
    /// Whether the caller may send a request with this need that asks for these keys.
    pub(crate) fn may(&self, need: Need, asked: RequestedKeys<'_>) -> bool {
        match self {
            Self::Anyone => true,
            Self::Holder(token) => !token.is_superseded() && token.rights.allow(need, asked),
        }
    }

    /// The name of the caller's token.
    pub(crate) fn token_name(&self) -> Option<&str> {
        match self {
            Self::Anyone => None,
            Self::Holder(token) => Some(&token.name),
        }
    }
}
