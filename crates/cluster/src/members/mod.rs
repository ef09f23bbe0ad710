//! The list of all nodes of a cluster.
//!
//! A node's name identifies it: it places keys, and peers remember it. Its URL only says where to
//! reach it, so a node with an explicit name can move to another address. Without one, its name is
//! the host and the port of its URL. The scheme is not part of the name, because no key may move
//! when a cluster moves to `https`.
//!
//! The nodes that form a cluster have their IDs by the order of their names bytewise, so that all of
//! them give each other the same ones. A node that joins later has the next ID.
//!
//! Invariants of [`Members`]: no name, and no host with its port, occurs twice; there are 1 to
//! [`NODES_MAX`] nodes, and one of them is this node.
//!
//! `node_id`, `node_url`, `node_set` and `node_table` are the parts that everybody uses.

mod node_id;
mod node_set;
mod node_table;
mod node_url;
#[cfg(test)]
mod tests;

pub use node_id::{NODES_MAX, NodeId};
pub use node_set::NodeSet;
pub use node_table::NodeTable;
pub use node_url::{NodeUrl, NodeUrlError};

use std::str::FromStr;
use xxhash_rust::xxh3::Xxh3Default;

/// A node of a cluster: its name and its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    name: String,
    url: NodeUrl,
}

/// Why a text is not a [`Member`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// The URL is not one of a node.
    #[error(transparent)]
    Url(#[from] NodeUrlError),
    /// The name is empty.
    #[error("the name is empty: give a name, or leave out the equals sign")]
    EmptyName,
    /// The name has a character that names cannot have.
    #[error(
        "the name `{name}` cannot be used: use ASCII letters, digits and signs, but no space, \
         comma or equals sign"
    )]
    Character {
        /// The name.
        name: String,
    },
    /// The name of a zone is too long.
    #[error("a zone has {bytes} bytes: use at most {max}", max = Member::ZONE_BYTES_MAX)]
    LongZone {
        /// Its length.
        bytes: usize,
    },
    /// The name is too long.
    #[error("a name has {bytes} bytes: use at most {max}", max = Member::NAME_BYTES_MAX)]
    LongName {
        /// Its length.
        bytes: usize,
    },
}

impl Member {
    /// The longest name, in bytes. Any URL is shorter.
    pub const NAME_BYTES_MAX: usize = 512;

    /// The longest name of a zone, in bytes.
    pub const ZONE_BYTES_MAX: usize = 64;

    /// The node at `url`, with the URL's host and port as its name.
    #[must_use]
    pub fn unnamed(url: NodeUrl) -> Self {
        Self {
            name: url.authority(),
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
    /// The name is empty, too long, or has a character that is not visible ASCII,
    /// or a comma or an equals sign. A name must survive lists, files and logs, and
    /// everybody must be able to type it.
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
        // Neither a node's URL nor its name can have an equals sign.
        match text.rsplit_once('=') {
            Some((name, url)) => Self::named(name, url.parse()?),
            None => Ok(Self::unnamed(text.parse()?)),
        }
    }
}

/// All nodes of a cluster, as one of them sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    nodes: NodeTable<Member>,
    own: NodeId,
    /// The entry of this node.
    own_member: Member,
}

/// Why a list of nodes is not a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MembersError {
    /// This node is not in the list.
    #[error("it does not name this node: add its own URL, {own}")]
    OwnMissing {
        /// The URL of this node.
        own: NodeUrl,
    },
    /// This node is in the list, but is reached in another way there.
    #[error("it has {listed} for this node, whose own URL is {own}: write both alike")]
    OtherScheme {
        /// The URL in the list.
        listed: NodeUrl,
        /// The URL of this node.
        own: NodeUrl,
    },
    /// A URL occurs twice.
    #[error("it has {url} twice: name each node once")]
    UrlTwice {
        /// The URL.
        url: NodeUrl,
    },
    /// A name occurs twice.
    #[error("it has two nodes called {name}: give each a name of its own")]
    NameTwice {
        /// The name.
        name: String,
    },
    /// A port is 0, so other nodes could not find the node.
    #[error("{url} has port 0: give the port that other nodes use")]
    NoPort {
        /// The URL.
        url: NodeUrl,
    },
    /// There are too many nodes.
    #[error("it has {nodes} nodes: a cluster has at most {max}", max = NODES_MAX)]
    TooMany {
        /// How many there are.
        nodes: usize,
    },
}

impl Members {
    /// What stands for the name of a node that has left the cluster.
    pub const NO_NAME: &str = "(removed)";

    /// A node without peers. Its port may be 0 until the port is known.
    #[must_use]
    pub fn single_node(node: Member) -> Self {
        let own = NodeId::new(0);
        Self {
            nodes: [(own, node.clone())].into_iter().collect(),
            own,
            own_member: node,
        }
    }

    /// The cluster that these nodes form, which come in any order, as the node at `own`
    /// sees it.
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
        // The scheme comes last in the order of URLs.
        let is_one_place = |pair: &&[Member]| {
            let (left, right) = (&pair[0].url, &pair[1].url);
            left.host() == right.host() && left.port() == right.port()
        };
        if let Some(pair) = nodes.windows(2).find(is_one_place) {
            let url = pair[0].url.clone();
            return Err(MembersError::UrlTwice { url });
        }
        nodes.sort_unstable_by(|left, right| left.name.as_bytes().cmp(right.name.as_bytes()));
        if let Some(pair) = nodes.windows(2).find(|pair| pair[0].name == pair[1].name) {
            let name = pair[0].name.clone();
            return Err(MembersError::NameTwice { name });
        }
        let listed = (0..=u8::MAX)
            .map(NodeId::new)
            .zip(&nodes)
            .find(|(_, node)| node.url == *own)
            .map(|(id, node)| (id, node.clone()));
        let (own, own_member) = listed.ok_or_else(|| {
            let listed = nodes
                .iter()
                .find(|node| node.url.authority() == own.authority());
            let own = own.clone();
            match listed {
                Some(node) => MembersError::OtherScheme {
                    listed: node.url.clone(),
                    own,
                },
                None => MembersError::OwnMissing { own },
            }
        })?;
        Ok(Self {
            nodes: (0..=u8::MAX).map(NodeId::new).zip(nodes).collect(),
            own,
            own_member,
        })
    }

    /// These nodes with these IDs, as the node `own` sees them; `None` if it is not one of them.
    /// Whoever made the list has seen to it that no name and no URL occurs twice.
    #[must_use]
    pub fn with_ids(nodes: NodeTable<Member>, own: NodeId) -> Option<Self> {
        let own_member = nodes.get(own)?.clone();
        Some(Self {
            nodes,
            own,
            own_member,
        })
    }

    /// The ID of this node.
    #[must_use]
    pub fn own(&self) -> NodeId {
        self.own
    }

    /// The ID that this node puts into its timestamps: 0 for a node without
    /// peers, and otherwise one more than its ID. It fits, because the greatest ID is 254.
    #[must_use]
    pub fn id_in_timestamps(&self) -> u8 {
        if self.is_single_node() {
            return 0;
        }
        u8::try_from(self.own.index() + 1).unwrap_or(u8::MAX)
    }

    /// The name of this node.
    #[must_use]
    pub fn own_name(&self) -> &str {
        &self.own_member.name
    }

    /// The URL of this node.
    #[must_use]
    pub fn own_url(&self) -> &NodeUrl {
        &self.own_member.url
    }

    /// How many nodes there are: at least one.
    #[must_use]
    pub fn count(&self) -> u8 {
        // There are at most `NODES_MAX` nodes, which fits.
        u8::try_from(self.nodes.len()).unwrap_or(u8::MAX)
    }

    /// Whether this node is the only one.
    #[must_use]
    pub fn is_single_node(&self) -> bool {
        self.nodes.len() == 1
    }

    /// A node of this cluster; `None` if no node has this ID.
    #[must_use]
    pub fn get(&self, node: NodeId) -> Option<&Member> {
        self.nodes.get(node)
    }

    /// Whether a node is one of this cluster.
    #[must_use]
    pub fn contains(&self, node: NodeId) -> bool {
        self.nodes.contains(node)
    }

    /// The name of a node of this cluster, for people: [`Members::NO_NAME`] if no node has this
    /// ID.
    #[must_use]
    pub fn name(&self, node: NodeId) -> &str {
        self.get(node).map_or(Self::NO_NAME, Member::name)
    }

    /// The URL of a node of this cluster; `None` if no node has this ID.
    #[must_use]
    pub fn url(&self, node: NodeId) -> Option<&NodeUrl> {
        self.get(node).map(Member::url)
    }

    /// The IDs of all nodes, ascending.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.ids()
    }

    /// All IDs up to the greatest one of a node, with those that no node has: the places of a list
    /// by node ID.
    pub fn places(&self) -> impl ExactSizeIterator<Item = NodeId> + use<> {
        let count = self.ids().last().map_or(0, |last| last.index() + 1);
        // An ID is less than 255.
        (0..u8::try_from(count).unwrap_or(u8::MAX)).map(NodeId::new)
    }

    /// The IDs of all nodes but this one, ascending.
    pub fn peers(&self) -> impl Iterator<Item = NodeId> {
        self.ids().filter(|node| *node != self.own)
    }

    /// All nodes, by ascending IDs.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        self.nodes.iter()
    }

    /// All nodes but this one, by ascending IDs.
    pub fn others(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        self.iter().filter(|(node, _)| *node != self.own)
    }

    /// The names of all nodes, in the order of their IDs.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.nodes.values().map(Member::name)
    }

    /// The names of all nodes, ascending bytewise.
    #[must_use]
    pub fn sorted_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.names().collect();
        names.sort_unstable();
        names
    }

    /// The ID of the node with this name.
    #[must_use]
    pub fn id_of(&self, name: &str) -> Option<NodeId> {
        let mut nodes = self.iter();
        nodes.find(|(_, node)| node.name == name).map(|(id, _)| id)
    }

    /// A hash of the list, by which nodes see whether they have the same one. It
    /// covers only the names, so that a node can move while the others run.
    #[must_use]
    pub fn names_hash(&self) -> u64 {
        let mut hash = Xxh3Default::new();
        for name in self.sorted_names() {
            // The length comes first, so that `ab`, `c` differs from `a`, `bc`.
            hash.update(&(name.len() as u64).to_le_bytes());
            hash.update(name.as_bytes());
        }
        hash.digest()
    }

    /// Whether all nodes run on this machine, and no other machine can reach them.
    #[must_use]
    pub fn is_loopback_only(&self) -> bool {
        self.nodes.values().all(|node| node.url.is_loopback())
    }

    /// Sets this node's port, if it is 0. If the node has no name of its own, its name
    /// changes too.
    pub fn set_own_port(&mut self, port: u16) {
        let own = &mut self.own_member;
        if own.url.port() != 0 {
            return;
        }
        let url = own.url.with_port(port);
        // Only a node without peers has port 0, so its new name changes no ID.
        if own.name == own.url.authority() {
            own.name = url.authority();
        }
        own.url = url;
        self.nodes.insert(self.own, own.clone());
    }
}

impl From<NodeUrl> for Members {
    /// A node without peers, and without a name of its own.
    fn from(url: NodeUrl) -> Self {
        Self::single_node(Member::unnamed(url))
    }
}
