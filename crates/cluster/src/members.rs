//! The static list of all nodes of a cluster.
//!
//! A node is known by its name, which places keys and which peers remember;
//! its URL is only where it is reached. Who gives nodes names can move them to
//! other addresses; who does not has the URL for a name.
//!
//! Invariants of [`Members`]: sorted by name bytewise, so that all nodes of a
//! cluster number them alike; no name and no URL twice; 1 to
//! [`NODES_MAX`] of them, one of which is this node.

use crate::{NODES_MAX, NodeNumber, NodeUrl, NodeUrlError};
use std::str::FromStr;
use xxhash_rust::xxh3::Xxh3Default;

/// A node of a cluster: its name and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    name: String,
    url: NodeUrl,
}

/// A text that is no [`Member`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// What stands where the URL belongs is none.
    #[error(transparent)]
    Url(#[from] NodeUrlError),
    /// The name is empty.
    #[error("the name is empty: give one, or leave it out")]
    EmptyName,
    /// The name has a character that it cannot have.
    #[error(
        "the name `{name}` cannot be: use ASCII letters, digits and signs, but no space, comma \
         or equals sign"
    )]
    Character {
        /// The name.
        name: String,
    },
    /// The name is too long.
    #[error("a name has {bytes} bytes: give at most {max}", max = Member::NAME_BYTES_MAX)]
    LongName {
        /// Its length.
        bytes: usize,
    },
}

impl Member {
    /// The longest name, in bytes: longer than any URL.
    pub const NAME_BYTES_MAX: usize = 512;

    /// The node at `url`, which is its name too.
    #[must_use]
    pub fn unnamed(url: NodeUrl) -> Self {
        Self {
            name: url.to_string(),
            url,
        }
    }

    /// The node `name` at `url`.
    ///
    /// # Errors
    /// Those of [`Member::check_name`].
    pub fn named(name: &str, url: NodeUrl) -> Result<Self, MemberError> {
        Self::check_name(name)?;
        let name = name.to_owned();
        Ok(Self { name, url })
    }

    /// Checks a name.
    ///
    /// # Errors
    /// A name that is empty, too long, or that has a character other than
    /// visible ASCII ones without comma and equals sign: it must survive lists,
    /// files and logs, and be the same for all who type it.
    pub fn check_name(name: &str) -> Result<(), MemberError> {
        if name.is_empty() {
            return Err(MemberError::EmptyName);
        }
        let is_right = |byte: u8| byte.is_ascii_graphic() && !b",=".contains(&byte);
        if !name.bytes().all(is_right) {
            let name = name.escape_debug().to_string();
            return Err(MemberError::Character { name });
        }
        if name.len() > Self::NAME_BYTES_MAX {
            let bytes = name.len();
            return Err(MemberError::LongName { bytes });
        }
        Ok(())
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The URL.
    #[must_use]
    pub fn url(&self) -> &NodeUrl {
        &self.url
    }
}

impl FromStr for Member {
    type Err = MemberError;

    /// Reads `URL` or `NAME=URL`.
    fn from_str(text: &str) -> Result<Self, MemberError> {
        // No URL of a node has an equals sign, and no name.
        match text.rsplit_once('=') {
            Some((name, url)) => Self::named(name, url.parse()?),
            None => Ok(Self::unnamed(text.parse()?)),
        }
    }
}

/// All nodes of a cluster, as one of them sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// Sorted by name.
    nodes: Vec<Member>,
    own: NodeNumber,
}

/// Why a list of nodes is none of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MembersError {
    /// This node is not in it.
    #[error("it does not name this node: add its own URL, {own}")]
    OwnMissing {
        /// The URL of this node.
        own: NodeUrl,
    },
    /// A URL stands in it twice.
    #[error("it has {url} twice: name each node once")]
    UrlTwice {
        /// The URL.
        url: NodeUrl,
    },
    /// A name stands in it twice.
    #[error("it has two nodes called {name}: give each a name of its own")]
    NameTwice {
        /// The name.
        name: String,
    },
    /// A port is 0, which no other node could find.
    #[error("{url} has port 0: give the port that other nodes use")]
    NoPort {
        /// The URL.
        url: NodeUrl,
    },
    /// There are too many.
    #[error("it has {nodes} nodes: a cluster has at most {max}", max = NODES_MAX)]
    TooMany {
        /// How many.
        nodes: usize,
    },
}

impl Members {
    /// A node without others. Its port may be 0, until it is known.
    #[must_use]
    pub fn alone(node: Member) -> Self {
        Self {
            nodes: vec![node],
            own: NodeNumber::new(0),
        }
    }

    /// The cluster of these nodes, in any order, as the one at `own` sees it.
    ///
    /// # Errors
    /// See [`MembersError`].
    pub fn new(mut nodes: Vec<Member>, own: &NodeUrl) -> Result<Self, MembersError> {
        if nodes.len() > NODES_MAX {
            let nodes = nodes.len();
            return Err(MembersError::TooMany { nodes });
        }
        if let Some(node) = nodes.iter().find(|node| node.url.port() == 0) {
            let url = node.url.clone();
            return Err(MembersError::NoPort { url });
        }
        nodes.sort_unstable_by(|left, right| left.url.cmp(&right.url));
        if let Some(pair) = nodes.windows(2).find(|pair| pair[0].url == pair[1].url) {
            let url = pair[0].url.clone();
            return Err(MembersError::UrlTwice { url });
        }
        nodes.sort_unstable_by(|left, right| left.name.as_bytes().cmp(right.name.as_bytes()));
        if let Some(pair) = nodes.windows(2).find(|pair| pair[0].name == pair[1].name) {
            let name = pair[0].name.clone();
            return Err(MembersError::NameTwice { name });
        }
        let own = nodes
            .iter()
            .position(|node| node.url == *own)
            .and_then(|place| u8::try_from(place).ok())
            .map(NodeNumber::new)
            .ok_or_else(|| MembersError::OwnMissing { own: own.clone() })?;
        Ok(Self { nodes, own })
    }

    /// The number of this node.
    #[must_use]
    pub fn own(&self) -> NodeNumber {
        self.own
    }

    /// The number that this node puts into its timestamps: 0 for a node alone,
    /// from 1 in a cluster, by the order of names. It fits: a cluster has at
    /// most [`NODES_MAX`] nodes.
    #[must_use]
    pub fn stamp_number(&self) -> u8 {
        if self.is_alone() {
            return 0;
        }
        u8::try_from(self.own.index() + 1).unwrap_or(u8::MAX)
    }

    /// The name of this node.
    #[must_use]
    pub fn own_name(&self) -> &str {
        self.name(self.own)
    }

    /// The URL of this node.
    #[must_use]
    pub fn own_url(&self) -> &NodeUrl {
        self.url(self.own)
    }

    /// How many nodes there are, at least one.
    #[must_use]
    pub fn count(&self) -> u8 {
        // There are at most that many.
        u8::try_from(self.nodes.len()).unwrap_or(u8::MAX)
    }

    /// Whether this node is the only one.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.nodes.len() == 1
    }

    /// The name of a node of this cluster.
    #[must_use]
    pub fn name(&self, node: NodeNumber) -> &str {
        &self.nodes[node.index()].name
    }

    /// The URL of a node of this cluster.
    #[must_use]
    pub fn url(&self, node: NodeNumber) -> &NodeUrl {
        &self.nodes[node.index()].url
    }

    /// The numbers of all nodes, ascending.
    pub fn numbers(&self) -> impl ExactSizeIterator<Item = NodeNumber> + use<> {
        (0..self.count()).map(NodeNumber::new)
    }

    /// The numbers of all nodes but this one, ascending.
    pub fn peers(&self) -> impl Iterator<Item = NodeNumber> + use<> {
        let own = self.own;
        self.numbers().filter(move |node| *node != own)
    }

    /// The names of all nodes, in the order of their numbers.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.nodes.iter().map(|node| node.name.as_str())
    }

    /// The number of the node with this name.
    #[must_use]
    pub fn number_of(&self, name: &str) -> Option<NodeNumber> {
        let compare = |node: &Member| node.name.as_bytes().cmp(name.as_bytes());
        let place = self.nodes.binary_search_by(compare).ok()?;
        u8::try_from(place).ok().map(NodeNumber::new)
    }

    /// A hash by which nodes see whether they have the same list: over the
    /// names alone, so that a node can move while the others keep running.
    #[must_use]
    pub fn names_hash(&self) -> u64 {
        let mut hash = Xxh3Default::new();
        for name in self.names() {
            // The length first: names that are put together differently differ.
            hash.update(&(name.len() as u64).to_le_bytes());
            hash.update(name.as_bytes());
        }
        hash.digest()
    }

    /// Whether all nodes run on this machine, where no other can reach them.
    #[must_use]
    pub fn is_loopback_only(&self) -> bool {
        self.nodes.iter().all(|node| node.url.is_loopback())
    }

    /// Gives this node its port, where it had 0; a name that is the URL follows.
    pub fn give_own_port(&mut self, port: u16) {
        let own = &mut self.nodes[self.own.index()];
        if own.url.port() != 0 {
            return;
        }
        let url = own.url.with_port(port);
        // Only a node that is alone has port 0, so its new name changes no order.
        if own.name == own.url.to_string() {
            own.name = url.to_string();
        }
        own.url = url;
    }
}

impl From<NodeUrl> for Members {
    /// A node without others and without another name.
    fn from(url: NodeUrl) -> Self {
        Self::alone(Member::unnamed(url))
    }
}

#[cfg(test)]
mod tests;
