//! The options by which a command reaches nodes: whom to ask, whom to trust, and which token or
//! certificate to show. All commands that talk to nodes use them.
//!
//! A token is never given on the command line, where every user of the machine could read it.

use crate::contexts::{self, Context, Contexts};
use crate::failure::Failure;
use crate::files;
use crate::private_file;
use crate::values;
use clap::Args;
use client::{Error, Node, Token};
use cluster::NodeUrl;
use rustls::ClientConfig;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tls::{Authorities, HandshakeFailure, Identity, MaterialError};

/// The variables that only commands to nodes read; a node passes over them.
pub const CLIENT_VARIABLES: [&str; 4] = [
    CA_VARIABLE,
    CONTEXT_VARIABLE,
    TOKEN_VARIABLE,
    TOKEN_FILE_VARIABLE,
];

/// The variable that names the file of authorities, unless `--ca` names one.
const CA_VARIABLE: &str = "KVORUM_CA";

/// The variable that names the context, unless `--context` names one.
const CONTEXT_VARIABLE: &str = "KVORUM_CONTEXT";

/// The variable that has the token, unless `--token-file` names a file.
const TOKEN_VARIABLE: &str = "KVORUM_TOKEN";

/// The variable that names the file of the token, unless `--token-file` or [`TOKEN_VARIABLE`] is
/// given.
const TOKEN_FILE_VARIABLE: &str = "KVORUM_TOKEN_FILE";

/// The variable that names the nodes, with commas, unless `--url` names them.
const URL_VARIABLE: &str = "KVORUM_URL";

/// The node that is asked if none is named.
const URL_DEFAULT: &str = "http://127.0.0.1:8080";

/// A variable of the environment; one that is empty is not set.
fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// What is said of the variable that names nodes in place of the current context, if it is set.
pub fn winning_variable() -> Option<String> {
    let named = [CONTEXT_VARIABLE, URL_VARIABLE]
        .into_iter()
        .find_map(|name| Some((name, variable(name)?)));
    named.map(|(name, value)| {
        format!(
            "{name} is set, so commands use {} and not the current context",
            value.to_string_lossy()
        )
    })
}

/// The options of all commands that speak with nodes.
///
/// A context is whole: if one is used, the variables for authorities and tokens are not read, and
/// only the command line can replace a part of the context. If `--url` names the nodes, a
/// context is used only if `--context` names it, too. So a token goes to no cluster but its own.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Access")]
pub struct AccessOptions {
    /// A cluster that 'kvorum context add' has saved [default: KVORUM_CONTEXT, or the current context unless nodes are named]
    #[arg(long, value_name = "NAME", value_parser = contexts::name)]
    context: Option<String>,
    #[command(flatten)]
    trust: TrustOptions,
}

/// Whom to trust, and which token or certificate to show.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Access")]
pub struct TrustOptions {
    /// A PEM file with the authorities that sign the certificates of https:// nodes [default: KVORUM_CA, or the authorities of the system]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// A PEM file with the certificate that the command shows to nodes that ask for one
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// A PEM file with the private key of --client-cert
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
    /// A file whose first line is the token to show to nodes [default: the token in KVORUM_TOKEN, or the file in KVORUM_TOKEN_FILE, or none]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Also send the token to other machines over http://, where others can read it
    #[arg(long)]
    token_in_clear: bool,
    /// The token of the environment.
    #[arg(skip)]
    token: Option<OsString>,
    /// What names the file of the token, if not the option.
    #[arg(skip)]
    token_origin: Option<&'static str>,
}

/// What the options say.
pub struct Access {
    trust: Trust,
    /// Made only when the first `https://` node needs it, because it takes time to read all
    /// authorities. All nodes share it, so that later connections can resume the sessions of
    /// earlier ones.
    config: OnceLock<Arc<ClientConfig>>,
    token: Option<Token>,
    token_in_clear: bool,
}

/// The files for TLS.
struct Trust {
    ca: Option<PathBuf>,
    identity: Option<(PathBuf, PathBuf)>,
}

impl AccessOptions {
    /// The nodes to ask, at least one, and how to reach them. `given` are the nodes of `--url`.
    ///
    /// # Errors
    /// A context that does not exist; an invalid URL in it or in the environment; a file that
    /// cannot be read or has something else in it; a token that no node gives out; `--ca` without a
    /// node by `https://`.
    pub fn reach(&self, given: &[NodeUrl]) -> Result<(Vec<NodeUrl>, Access), Failure> {
        let named = variable(URL_VARIABLE);
        let variable_names = self.context.is_none() && given.is_empty();
        let chosen = if variable_names {
            variable(CONTEXT_VARIABLE).map(|name| name.to_string_lossy().into_owned())
        } else {
            self.context.clone()
        };
        let is_named = !given.is_empty() || named.is_some();
        let context = if chosen.is_some() || !is_named {
            let is_of_variable = variable_names && chosen.is_some();
            let found = saved(&Contexts::read()?, chosen);
            found.map_err(|failure| {
                if is_of_variable {
                    failure.with_origin(CONTEXT_VARIABLE)
                } else {
                    failure
                }
            })?
        } else {
            None
        };
        let nodes = match (&context, named) {
            _ if !given.is_empty() => given.to_vec(),
            (Some((name, context)), _) => context
                .nodes()
                .map_err(|failure| failure.with_origin(&format!("context {name}")))?,
            (None, Some(named)) => {
                let named = named.to_string_lossy();
                let nodes = named.split(',').map(values::url);
                let nodes: Result<_, String> = nodes.collect();
                nodes.map_err(|problem| Failure::usage(problem).with_origin(URL_VARIABLE))?
            }
            (None, None) => {
                vec![values::url(URL_DEFAULT).map_err(Failure::usage)?]
            }
        };
        self.trust.check_ca(&nodes)?;
        let access = match &context {
            Some((_, context)) => self.trust.or(context).access(&nodes),
            None => self.trust.or_environment().access(&nodes),
        };
        Ok((nodes, access?))
    }
}

/// The context that the user has chosen, or else the current one, with its name.
fn saved(
    contexts: &Contexts,
    chosen: Option<String>,
) -> Result<Option<(String, Context)>, Failure> {
    let Some(name) = chosen.or_else(|| contexts.current.clone()) else {
        return Ok(None);
    };
    let context = contexts.get(&name)?.clone();
    Ok(Some((name, context)))
}

impl TrustOptions {
    /// These, and where they say nothing what the context says.
    fn or(&self, context: &Context) -> Self {
        let of_user = self.clone();
        let identity = of_user.client_cert.zip(of_user.client_key);
        let saved = context.client_cert.clone().zip(context.client_key.clone());
        let (client_cert, client_key) = identity.or(saved).unzip();
        Self {
            ca: of_user.ca.or_else(|| context.ca.clone()),
            client_cert,
            client_key,
            token_file: of_user.token_file.or_else(|| context.token_file.clone()),
            token_in_clear: of_user.token_in_clear || context.token_in_clear,
            ..Self::default()
        }
    }

    /// These, and where they say nothing what the environment says.
    fn or_environment(&self) -> Self {
        let mut whole = self.clone();
        whole.ca = whole
            .ca
            .or_else(|| variable(CA_VARIABLE).map(PathBuf::from));
        if whole.token_file.is_none() {
            whole.token = variable(TOKEN_VARIABLE);
            if whole.token.is_none() {
                let file = variable(TOKEN_FILE_VARIABLE).map(PathBuf::from);
                whole.token_origin = file.as_ref().map(|_| TOKEN_FILE_VARIABLE);
                whole.token_file = file;
            }
        }
        whole
    }

    /// What they say, with absolute paths, as a context of these nodes.
    ///
    /// # Errors
    /// The folder in which the command runs is gone; files that cannot be used, so that nothing
    /// unusable is saved.
    pub fn context(&self, nodes: &[NodeUrl]) -> Result<Context, Failure> {
        self.check_ca(nodes)?;
        self.access(nodes)?;
        let absolute = |file: &Option<PathBuf>| {
            let file = file.as_ref().map(std::path::absolute).transpose();
            file.map_err(|error| Failure::failed(format!("cannot find this folder: {error}")))
        };
        Ok(Context {
            urls: nodes.iter().map(ToString::to_string).collect(),
            ca: absolute(&self.ca)?,
            client_cert: absolute(&self.client_cert)?,
            client_key: absolute(&self.client_key)?,
            token_file: absolute(&self.token_file)?,
            token_in_clear: self.token_in_clear,
        })
    }

    /// Refuses authorities where nothing would be encrypted.
    fn check_ca(&self, nodes: &[NodeUrl]) -> Result<(), Failure> {
        if self.ca.is_some() && !nodes.iter().any(NodeUrl::is_https) {
            return Err(Failure::usage(
                "--ca: no URL begins with https://, so nothing would be encrypted: write https://, \
                 or omit --ca",
            ));
        }
        Ok(())
    }

    /// What they say about these nodes.
    ///
    /// # Errors
    /// A file that cannot be read or has something else in it; a token that no node gives out.
    fn access(&self, nodes: &[NodeUrl]) -> Result<Access, Failure> {
        let access = Access {
            trust: Trust {
                ca: self.ca.clone(),
                identity: self.client_cert.clone().zip(self.client_key.clone()),
            },
            config: OnceLock::new(),
            token: self.token()?,
            token_in_clear: self.token_in_clear,
        };
        if nodes.iter().any(NodeUrl::is_https) {
            access.tls()?;
        }
        Ok(access)
    }

    fn token(&self) -> Result<Option<Token>, Failure> {
        if let Some(file) = &self.token_file {
            let origin = self.token_origin.unwrap_or("--token-file");
            return token_of_file(origin, file).map(Some);
        }
        let token = self.token.as_ref();
        token
            .map(|token| parse_token(&token.to_string_lossy(), TOKEN_VARIABLE))
            .transpose()
    }
}

impl Access {
    /// The node at a URL.
    ///
    /// # Errors
    /// The token would be sent in clear; the files for TLS cannot be read.
    pub fn node(&self, url: &NodeUrl) -> Result<Node, Failure> {
        self.check_token(url)?;
        let mut node = Node::new(url.host(), url.port());
        if url.is_https() {
            let with_tls = node.with_tls(self.tls()?);
            node = with_tls.map_err(|error| Failure::usage(error.to_string()))?;
        }
        if let Some(token) = &self.token {
            node = node.with_token(token.clone());
        }
        Ok(node)
    }

    /// What a program with connections of its own needs to reach nodes: the configuration of
    /// TLS if one of them has it, and the token.
    ///
    /// # Errors
    /// As [`Self::node`].
    pub fn credentials(
        &self,
        nodes: &[NodeUrl],
    ) -> Result<(Option<Arc<ClientConfig>>, Option<&str>), Failure> {
        nodes.iter().try_for_each(|url| self.check_token(url))?;
        let has_tls = nodes.iter().any(NodeUrl::is_https);
        let tls = has_tls.then(|| self.tls()).transpose()?;
        Ok((tls, self.token.as_ref().map(Token::reveal)))
    }

    fn check_token(&self, url: &NodeUrl) -> Result<(), Failure> {
        if self.token.is_none() || self.token_in_clear || url.is_https() || url.is_loopback() {
            return Ok(());
        }
        Err(Failure::denied(format!(
            "{url}: the token would cross the network in the clear: write https://, or allow it \
             with --token-in-clear"
        )))
    }

    fn tls(&self) -> Result<Arc<ClientConfig>, Failure> {
        if let Some(config) = self.config.get() {
            return Ok(Arc::clone(config));
        }
        let config = self.trust.config()?;
        Ok(Arc::clone(self.config.get_or_init(|| config)))
    }
}

impl Trust {
    fn config(&self) -> Result<Arc<ClientConfig>, Failure> {
        let refused = |error: MaterialError| Failure::usage(error.to_string());
        let authorities = match &self.ca {
            Some(file) => Authorities::read(file),
            None => Authorities::of_system(),
        };
        let authorities = authorities.map_err(refused)?;
        let identity = self.identity.as_ref();
        let identity = identity.map(|(certificate, key)| Identity::read(certificate, key));
        let identity = identity.transpose().map_err(refused)?;
        tls::client_config(&authorities, identity.as_ref()).map_err(refused)
    }
}

fn token_of_file(origin: &str, file: &Path) -> Result<Token, Failure> {
    let line = private_file::first_line(file, &files::read);
    let line = line.map_err(|problem| Failure::usage(problem).with_origin(origin))?;
    parse_token(&line, &file.display().to_string())
}

fn parse_token(text: &str, place: &str) -> Result<Token, Failure> {
    Token::parse(text).map_err(|error| Failure::usage(format!("{place} has no token: {error}")))
}

/// The failure of a request to a node that does not trust the command, or that the command
/// does not trust.
pub fn denied(error: &Error) -> Failure {
    with_tip(Failure::denied(error.to_string()), tip(error))
}

/// The same for a handshake that failed; `line` says with whom and why.
pub fn distrusted(line: String, failure: HandshakeFailure) -> Failure {
    with_tip(Failure::denied(line), tip_of_handshake(failure))
}

/// The failure of a request that a node has refused with this status; `line` says why.
pub fn refused(status: u16, line: String) -> Failure {
    match status {
        401 | 403 => with_tip(Failure::denied(line), tip_of_status(status)),
        _ => Failure::failed(line),
    }
}

/// The line of an error. Where no node listens, it says how nodes are named.
pub fn line_of(error: &Error) -> String {
    let is_closed = |error: &Error| matches!(error, Error::Unreachable { problem: None, .. });
    match error {
        Error::Unreachable {
            node,
            problem: None,
        } => {
            let is_default = if node == URL_DEFAULT {
                "; it is the node that is asked where none is named"
            } else {
                ""
            };
            format!("{error} with --url, {URL_VARIABLE} or a context{is_default}")
        }
        Error::AllFailed(errors) if errors.iter().any(is_closed) => {
            format!("{error}; nodes are named with --url, {URL_VARIABLE} or a context")
        }
        error => error.to_string(),
    }
}

fn with_tip(failure: Failure, tip: Option<&str>) -> Failure {
    match tip {
        Some(tip) => failure.with_more(tip),
        None => failure,
    }
}

/// The option that helps, if one does.
fn tip(error: &Error) -> Option<&'static str> {
    match error {
        Error::Distrusted { failure, .. } => tip_of_handshake(*failure),
        Error::Refused(refusal) => tip_of_status(refusal.status),
        Error::AllFailed(errors) => errors.iter().find_map(tip),
        _ => None,
    }
}

fn tip_of_handshake(failure: HandshakeFailure) -> Option<&'static str> {
    match failure {
        HandshakeFailure::Certificate => Some("--ca names the file of trusted authorities"),
        HandshakeFailure::Refused => {
            Some("--client-cert and --client-key name the certificate to show")
        }
        _ => None,
    }
}

fn tip_of_status(status: u16) -> Option<&'static str> {
    (status == 401).then_some("give a token with --token-file, KVORUM_TOKEN or KVORUM_TOKEN_FILE")
}
