//! The console: the pages that a node serves to browsers.
//!
//! All of it is in the program: a page, a style sheet, one JavaScript module and an icon,
//! and the operator's handbook, which the console shows as runbooks. Nothing comes from
//! elsewhere, so it works on a machine without a network, and while all other nodes are
//! down.
//!
//! The module is made of the files below `assets/script`, joined in an order in which each
//! uses those before it; `console.js` comes last and starts it. There is no other build
//! step. They share one scope, so a name exists once.
//!
//! # Why it polls
//! A stream of events or a long poll would cost a node as much: what takes time is to compute and
//! write the figures, which change each time. It would also hold a connection for each reader,
//! and would need rules of its own for tokens that are revoked, for a node that stops and for the
//! limit of connections.
//!
//! # What keeps a stored value from becoming a script
//! - All text is set as text: no file uses `innerHTML` or its like, which a test checks.
//! - [`POLICY`] allows scripts, styles and connections only from the node that served the
//!   page, and none within the markup.
//! - The token of the reader stays in a variable of the module: no storage, no cookie.
//!   The tab keeps, for a reload, only the token of a supervisor, and the score and the
//!   explanation of the tour.
//! - A token of a supervisor in the address (`#dev=`) counts only on [`supervisor_page`]: a
//!   node is not to be taken for one because a link says so.

use std::fmt;
use xxhash_rust::xxh3::xxh3_64;

/// What a browser may load for a page of the console: files of the node that served it. A
/// browser that knows trusted types takes no text for markup or a script, either.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; \
    form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// A file of the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asset {
    /// The page.
    Page,
    /// The module.
    Script,
    /// The style sheet.
    Style,
    /// The icon.
    Icon,
    /// The operator's handbook, in Markdown.
    Handbook,
}

impl Asset {
    /// All files.
    pub const ALL: [Self; 5] = [
        Self::Page,
        Self::Script,
        Self::Style,
        Self::Icon,
        Self::Handbook,
    ];

    /// Its path on the server.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Page => "/",
            Self::Script => "/console/console.js",
            Self::Style => "/console/console.css",
            Self::Icon => "/console/icon.svg",
            Self::Handbook => "/console/runbooks.md",
        }
    }

    /// Its media type.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Page => "text/html; charset=utf-8",
            Self::Script => "text/javascript; charset=utf-8",
            Self::Style => "text/css; charset=utf-8",
            Self::Icon => "image/svg+xml",
            Self::Handbook => "text/markdown; charset=utf-8",
        }
    }

    /// Its bytes.
    #[must_use]
    pub const fn body(self) -> &'static str {
        match self {
            Self::Page => include_str!("../assets/index.html"),
            Self::Script => SCRIPT,
            Self::Style => STYLE,
            Self::Icon => include_str!("../assets/icon.svg"),
            Self::Handbook => HANDBOOK,
        }
    }

    /// Its entity tag: it changes when the bytes do, so that a browser keeps what it has.
    #[must_use]
    pub fn tag(self) -> AssetTag {
        AssetTag(xxh3_64(self.body().as_bytes()))
    }
}

/// The page as the supervisor of a local cluster serves it: with a mark, so that it believes
/// the token in its address. The mark says how many nodes there are: the tour needs three.
#[must_use]
pub fn supervisor_page(nodes: usize) -> String {
    let marked = format!("<html data-dev=\"{nodes}\" ");
    Asset::Page.body().replacen("<html ", &marked, 1)
}

/// The entity tag of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssetTag(u64);

impl AssetTag {
    /// Whether the value of an `If-None-Match` names this tag, or any.
    #[must_use]
    pub fn is_named_by(&self, if_none_match: &str) -> bool {
        let tag = self.to_string();
        // The tag has no comma, so that parts of other tags never equal it.
        if_none_match
            .split(',')
            .map(str::trim)
            .any(|named| named == "*" || named.strip_prefix("W/").unwrap_or(named) == tag)
    }
}

impl fmt::Display for AssetTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{:016x}\"", self.0)
    }
}

/// The operator's handbook: the runbooks, and the pages that they lead to. A link from one page
/// to another leads to a heading of this text, so the name of each page is that of its title.
const HANDBOOK: &str = concat!(
    include_str!("../../../docs/how-to/runbooks.md"),
    "\n",
    include_str!("../../../docs/how-to/replace-a-node.md"),
    "\n",
    include_str!("../../../docs/how-to/back-up-and-restore.md"),
    "\n",
    include_str!("../../../docs/how-to/change-the-members.md"),
    "\n",
    include_str!("../../../docs/how-to/tls.md"),
    "\n",
    include_str!("../../../docs/how-to/tokens.md"),
    "\n",
    include_str!("../../../docs/how-to/monitor-a-cluster.md"),
    "\n",
    include_str!("../../../docs/how-to/logs.md"),
    "\n",
    include_str!("../../../docs/explanation/consistency.md"),
    "\n",
    include_str!("../../../docs/explanation/repair-and-deletion.md"),
    "\n",
    include_str!("../../../docs/explanation/clocks.md"),
    "\n",
    include_str!("../../../docs/explanation/durability.md"),
    "\n",
    include_str!("../../../docs/explanation/background-work.md"),
);

/// The module.
const SCRIPT: &str = concat!(
    include_str!("../assets/script/base/elements.js"),
    include_str!("../assets/script/base/words.js"),
    include_str!("../assets/script/base/tab.js"),
    include_str!("../assets/script/keys/key_bytes.js"),
    include_str!("../assets/script/base/node_api.js"),
    include_str!("../assets/script/base/dev_cluster.js"),
    include_str!("../assets/script/cluster/series.js"),
    include_str!("../assets/script/cluster/node_looks.js"),
    include_str!("../assets/script/cluster/charts.js"),
    include_str!("../assets/script/cluster/charts_section.js"),
    include_str!("../assets/script/cluster/node_cards.js"),
    include_str!("../assets/script/cluster/attention.js"),
    include_str!("../assets/script/cluster/places.js"),
    include_str!("../assets/script/cluster/stage.js"),
    include_str!("../assets/script/cluster/cluster_map.js"),
    include_str!("../assets/script/cluster/faults.js"),
    include_str!("../assets/script/cluster/background_work.js"),
    include_str!("../assets/script/cluster/member_change.js"),
    include_str!("../assets/script/cluster/cluster_page.js"),
    include_str!("../assets/script/keys/receipts.js"),
    include_str!("../assets/script/keys/key_tree.js"),
    include_str!("../assets/script/keys/keys_page.js"),
    include_str!("../assets/script/keys/key_view.js"),
    include_str!("../assets/script/node/node_page.js"),
    include_str!("../assets/script/node/flame_graph.js"),
    include_str!("../assets/script/runbooks/markdown.js"),
    include_str!("../assets/script/runbooks/runbooks_page.js"),
    include_str!("../assets/script/tour/tour_cast.js"),
    include_str!("../assets/script/tour/tour_steps.js"),
    include_str!("../assets/script/tour/load_gauge.js"),
    include_str!("../assets/script/tour/certificate.js"),
    include_str!("../assets/script/tour/tour_page.js"),
    include_str!("../assets/script/polling.js"),
    include_str!("../assets/script/console.js"),
);

/// The style sheet.
const STYLE: &str = concat!(
    include_str!("../assets/style/base.css"),
    include_str!("../assets/style/cluster.css"),
    include_str!("../assets/style/charts.css"),
    include_str!("../assets/style/forms.css"),
    include_str!("../assets/style/pages.css"),
    include_str!("../assets/style/small.css"),
    include_str!("../assets/style/tour.css"),
);

#[cfg(test)]
mod tests;
