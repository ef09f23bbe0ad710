//! Tokens of the whole cluster: each change is brought to all members, one by one.
//!
//! A record of a token says which change of its name it is, and of two the later one counts; so it does
//! not matter in which order nodes get them, or how often. Each command first asks all nodes what they
//! have, and then gives each what it lacks, its own change included. A node that cannot be reached is
//! named, and gets everything with the next command.

use crate::access::Access;
use crate::admin::status::{Member, members};
use crate::admin::target::{ANSWER_BYTES_MAX, Target, query_form};
use crate::failure::Failure;
use crate::node_client::{NodeRequest, refusal};
use crate::stdout::{print_json, print_lines};
use api::tokens::{SharedToken, SharedTokens};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cluster::NodeUrl;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use tokens::Stanza;
use units::{Columns, lines_of};

/// How long a node may take to make a change durable.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The records of all nodes, of each name the last one.
type Records = BTreeMap<String, SharedToken>;

/// All members, and what they share.
pub(super) struct SharedByAll {
    access: Access,
    nodes: Vec<Asked>,
    records: Records,
}

/// A member that was asked.
struct Asked {
    member: Member,
    answer: Result<SharedTokens, Failure>,
}

/// What `list --json` prints.
#[derive(Serialize)]
struct Listed<'a> {
    tokens: Vec<ListedToken<'a>>,
    not_reached: Vec<&'a str>,
}

/// A token, with the nodes that lack it.
#[derive(Serialize)]
struct ListedToken<'a> {
    #[serde(flatten)]
    token: &'a SharedToken,
    missing: Vec<&'a str>,
}

impl SharedByAll {
    /// Asks all members.
    ///
    /// # Errors
    /// No node says who the members are, or none of them has a tokens file.
    pub(super) fn ask(target: &Target) -> Result<Self, Failure> {
        let (node, access) = target.choose()?;
        let members = members(&node, &access)?;
        let nodes = members.into_iter().map(|member| Asked {
            answer: ask(&member, &access, "GET", "/v0/admin/tokens"),
            member,
        });
        let nodes: Vec<Asked> = nodes.collect();
        if let Some(denied) = nodes.iter().find_map(Asked::denied) {
            return Err(denied.clone());
        }
        let mut records = Records::new();
        for token in nodes.iter().flat_map(Asked::tokens) {
            let known = records.get(&token.name);
            if known.is_none_or(|known| order(known) < order(token)) {
                records.insert(token.name.clone(), token.clone());
            }
        }
        let answers = || nodes.iter().filter_map(|node| node.answer.as_ref().ok());
        if answers().next().is_some() && answers().all(|answer| !answer.has_tokens_file) {
            return Err(Failure::failed(
                "the nodes ask nobody for a token: start all of them with --tokens-file first, whose \
                 tokens each of them has by itself",
            ));
        }
        Ok(Self {
            access,
            nodes,
            records,
        })
    }

    /// The token that is in force under a name.
    pub(super) fn in_force(&self, name: &str) -> Option<&SharedToken> {
        self.records.get(name).filter(|record| !record.revoked)
    }

    /// Whether a node has a token of this name in its own file.
    pub(super) fn is_in_a_file(&self, name: &str) -> bool {
        let answers = self
            .nodes
            .iter()
            .filter_map(|node| node.answer.as_ref().ok());
        let mut names = answers.flat_map(|answer| &answer.from_file);
        names.any(|known| known == name)
    }

    /// Adds a change, which is sent with all else that nodes lack.
    pub(super) fn add(&mut self, record: SharedToken) {
        let known = self.records.get(&record.name);
        let change = known.map_or(0, |known| known.change) + 1;
        let record = SharedToken { change, ..record };
        self.records.insert(record.name.clone(), record);
    }

    /// Gives each node what it lacks.
    ///
    /// # Errors
    /// The nodes that were not reached, or refuse.
    pub(super) fn send(self) -> Result<(), Failure> {
        let mut failures = Vec::new();
        for Asked { member, answer } in &self.nodes {
            let sent = match answer {
                Ok(answer) => self.send_to(member, answer),
                Err(failure) => Err(failure.clone()),
            };
            if let Err(failure) = sent {
                failures.push((&*member.name, failure));
            }
        }
        let Some((_, first)) = failures.first() else {
            return Ok(());
        };
        let names: Vec<&str> = failures.iter().map(|(name, _)| *name).collect();
        let line = format!(
            "{} {} not been told ({}): run 'kvorum admin token sync' once that is well",
            names.join(", "),
            if names.len() == 1 { "has" } else { "have" },
            first.line()
        );
        Err(if failures.iter().all(|(_, failure)| failure.is_denied()) {
            Failure::denied(line)
        } else {
            Failure::failed(line)
        })
    }

    fn send_to(&self, member: &Member, has: &SharedTokens) -> Result<(), Failure> {
        for record in self.records.values() {
            if has.tokens.contains(record) {
                continue;
            }
            let json = serde_json::to_string(record)
                .map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))?;
            let target = format!("/v0/admin/tokens?token={}", query_form(&json));
            ask(member, &self.access, "POST", &target)?;
        }
        Ok(())
    }

    /// Prints all tokens that are not revoked, and who lacks something.
    ///
    /// # Errors
    /// Some nodes were not reached, or lack what others have.
    pub(super) fn print(&self, as_json: bool) -> Result<(), Failure> {
        let tokens: Vec<ListedToken<'_>> = self
            .records
            .values()
            .map(|token| ListedToken {
                token,
                missing: self.missing(token),
            })
            .filter(|listed| !listed.token.revoked || !listed.missing.is_empty())
            .collect();
        let not_reached = self.nodes.iter().filter(|node| node.answer.is_err());
        let not_reached: Vec<&str> = not_reached.map(|node| &*node.member.name).collect();
        let is_missing = tokens.iter().any(|listed| !listed.missing.is_empty());
        if as_json {
            print_json(&Listed {
                tokens,
                not_reached: not_reached.clone(),
            })?;
        } else {
            let titles = ["token", "rights", "expires", "missing on"].map(str::to_owned);
            let rows = tokens.iter().map(ListedToken::row);
            let rows: Vec<_> = std::iter::once(titles).chain(rows).collect();
            print_lines(lines_of(Columns::Left, &rows))?;
        }
        if !not_reached.is_empty() {
            return Err(Failure::failed(format!(
                "{} could not be asked: run 'kvorum admin token sync' once all nodes are up",
                not_reached.join(", ")
            )));
        }
        if is_missing {
            return Err(Failure::failed(
                "some nodes lack what others have: 'kvorum admin token sync' gives it to them",
            ));
        }
        Ok(())
    }

    /// The nodes that have answered, and do not have this record.
    fn missing(&self, token: &SharedToken) -> Vec<&str> {
        let lacks = |node: &&Asked| {
            let answer = node.answer.as_ref();
            answer.is_ok_and(|answer| !answer.tokens.contains(token))
        };
        let nodes = self.nodes.iter().filter(lacks);
        nodes.map(|node| &*node.member.name).collect()
    }
}

impl Asked {
    fn tokens(&self) -> &[SharedToken] {
        self.answer.as_ref().map_or(&[], |answer| &answer.tokens)
    }

    /// Why the node does not let this command in, if it does not.
    fn denied(&self) -> Option<&Failure> {
        let failure = self.answer.as_ref().err();
        failure.filter(|failure| failure.is_denied())
    }
}

impl ListedToken<'_> {
    fn row(&self) -> [String; 4] {
        let token = self.token;
        let given = [
            ("read", token.read),
            ("write", token.write),
            ("admin", token.admin),
            ("metrics", token.metrics),
        ];
        let rights = given.iter().filter(|(_, is_given)| *is_given);
        let rights: Vec<&str> = rights.map(|(right, _)| *right).collect();
        let mut rights = rights.join(", ");
        if token.revoked {
            rights = "revoked".to_owned();
        } else if !token.prefixes_base64.is_empty() {
            let shown = token.prefixes_base64.iter().map(|prefix| {
                let bytes = BASE64.decode(prefix).unwrap_or_default();
                String::from_utf8_lossy(&bytes).into_owned()
            });
            rights += &format!(" of {}", shown.collect::<Vec<_>>().join(", "));
        }
        let expires = token.expires.clone().unwrap_or_else(|| "never".to_owned());
        [token.name.clone(), rights, expires, self.missing.join(", ")]
    }
}

/// Which of two records of a name counts: the greater one.
fn order(record: &SharedToken) -> (u64, bool, &str) {
    (record.change, record.revoked, &record.sha256)
}

/// A new token as a record.
pub(super) fn record_of(stanza: &Stanza) -> SharedToken {
    let prefixes = stanza.prefixes.iter().map(|prefix| BASE64.encode(prefix));
    SharedToken {
        name: stanza.name.clone(),
        change: 0,
        revoked: false,
        sha256: stanza.hash.to_string(),
        read: stanza.read,
        write: stanza.write,
        prefixes_base64: prefixes.collect(),
        admin: stanza.admin,
        metrics: stanza.metrics,
        expires: stanza.expires(),
    }
}

/// The revocation of a token.
pub(super) fn revocation_of(token: &SharedToken) -> SharedToken {
    SharedToken {
        name: token.name.clone(),
        change: token.change,
        revoked: true,
        sha256: token.sha256.clone(),
        read: false,
        write: false,
        prefixes_base64: Vec::new(),
        admin: false,
        metrics: false,
        expires: None,
    }
}

fn ask(
    member: &Member,
    access: &Access,
    method: &str,
    target: &str,
) -> Result<SharedTokens, Failure> {
    let url = &member.url;
    let node: NodeUrl = url
        .parse()
        .map_err(|error| Failure::failed(format!("{url} is no URL of a node: {error}")))?;
    let request = NodeRequest {
        node: &node,
        access,
        is_named: false,
        method,
        target,
        headers: &[("Content-Type", "application/json")],
        time_max: ANSWER_MAX,
        answer_bytes_max: ANSWER_BYTES_MAX,
    };
    let answer = request.send()?;
    if answer.status != 200 {
        return Err(refusal(&node, answer.status, &answer.body));
    }
    serde_json::from_slice(&answer.body).map_err(|error| {
        Failure::failed(format!("{node} does not answer as a Kvorum node: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_the_part_of_a_tokens_file_that_it_stands_for() {
        let stanza = Stanza {
            name: "shop".to_owned(),
            hash: tokens::TokenHash::of(b"abc"),
            read: true,
            write: false,
            prefixes: vec![b"cart/".to_vec(), vec![0xff, 0]],
            admin: false,
            metrics: true,
            expires_unix_s: Some(1_803_772_800),
        };
        let record = record_of(&stanza);
        assert_eq!(record.prefixes_base64, ["Y2FydC8=", "/wA="]);
        assert_eq!(record.expires.as_deref(), Some("2027-02-28T00:00:00Z"));
        let listed = ListedToken {
            token: &record,
            missing: vec!["c"],
        };
        let [name, rights, expires, missing] = listed.row();
        assert_eq!((&*name, &*missing), ("shop", "c"));
        assert!(rights.starts_with("read, metrics of cart/, "), "{rights}");
        assert_eq!(expires, "2027-02-28T00:00:00Z");
        let revoked = revocation_of(&record);
        assert!(revoked.revoked && !revoked.read && !revoked.metrics);
        assert!(order(&record) < order(&revoked));
    }
}
