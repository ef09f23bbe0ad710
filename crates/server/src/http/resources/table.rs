//! The one table of the resources: their paths, their methods, what these need, and their
//! names in the metrics. `http/mod.rs` says how to add a resource.

use crate::http::negotiation::names_html;
use crate::http::verb::Verb;
use crate::metrics::Route;
use crate::net::Listener;
use console::Asset;
use hyper::Method;
use hyper::http::request::Parts;
use tokens::Need;

/// A resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// One key: `/v0/entity`.
    Entity,
    /// A range of this node's keys: `/v0/entities`.
    Entities,
    /// Many operations: `/v0/batch`.
    Batch,
    /// What this node keeps in a range, as a sum: `/v0/digest`.
    Digest,
    /// The node: `/v0/status`.
    Status,
    /// What the node did in the last hour: `/v0/history`.
    History,
    /// How each node of the cluster is: `/v0/cluster`.
    Cluster,
    /// The metrics of the node, for Prometheus: `/metrics`.
    Metrics,
    /// The replicas of a key: `/v0/replicas`.
    KeyReplicas,
    /// Whether the process serves: `/health/live`.
    HealthLive,
    /// Whether the node can take requests: `/health/ready`.
    HealthReady,
    /// The API as an OpenAPI document: `/openapi.json`.
    OpenApi,
    /// The entrance for other nodes of the cluster: `/v0/peer`.
    Peer,
    /// A repair that an operator asks for: `/v0/admin/repair`.
    AdminSweep,
    /// A compaction that an operator asks for: `/v0/admin/compact`.
    AdminCompact,
    /// A profile of the process: `/debug/profile`, where debug endpoints are on.
    Profile,
    /// A file of the console. Its page, `/`, is there only for requests that name HTML.
    Console(Asset),
}

/// The path of each resource. They are looked up in this order, so those that clients ask for
/// most come first, and those of the console last.
pub(super) const PATHS: [(&str, Resource); 21] = [
    ("/v0/entity", Resource::Entity),
    ("/v0/entities", Resource::Entities),
    ("/v0/batch", Resource::Batch),
    ("/v0/digest", Resource::Digest),
    ("/v0/status", Resource::Status),
    ("/v0/history", Resource::History),
    ("/v0/cluster", Resource::Cluster),
    ("/v0/replicas", Resource::KeyReplicas),
    ("/v0/admin/repair", Resource::AdminSweep),
    ("/v0/admin/compact", Resource::AdminCompact),
    ("/metrics", Resource::Metrics),
    ("/health/live", Resource::HealthLive),
    ("/health/ready", Resource::HealthReady),
    ("/openapi.json", Resource::OpenApi),
    ("/v0/peer", Resource::Peer),
    ("/debug/profile", Resource::Profile),
    of_console(Asset::Page),
    of_console(Asset::Script),
    of_console(Asset::Style),
    of_console(Asset::Icon),
    of_console(Asset::Handbook),
];

/// A file of the console with its path.
const fn of_console(asset: Asset) -> (&'static str, Resource) {
    (asset.path(), Resource::Console(asset))
}

impl Resource {
    /// The resource that a request asks for, if the node behind `listener` serves it.
    pub(crate) fn of(listener: &Listener, head: &Parts) -> Option<Self> {
        let found = Self::at(head.uri.path()).filter(|resource| resource.is_served(listener))?;
        match found {
            Self::Console(Asset::Page) => found.is_for(listener, head).then_some(found),
            _ => Some(found),
        }
    }

    /// Whether the console's page is there for a request: for all that do not name HTML `/`
    /// is a path that does not exist. A preflight comes without the `Accept` of the request
    /// that follows it.
    fn is_for(self, listener: &Listener, head: &Parts) -> bool {
        names_html(&head.headers) || (head.method == Method::OPTIONS && self.has_options(listener))
    }

    /// The resource at a path; paths are compared byte by byte.
    pub(super) fn at(path: &str) -> Option<Self> {
        let found = PATHS.iter().find(|(known, _)| *known == path);
        found.map(|(_, resource)| *resource)
    }

    /// Whether the node behind `listener` serves the resource.
    fn is_served(self, listener: &Listener) -> bool {
        self != Self::Profile || listener.has_debug_endpoints()
    }

    /// Whether the node behind `listener` answers its `OPTIONS`: only pages of other origins ask
    /// for it.
    pub(crate) fn has_options(self, listener: &Listener) -> bool {
        listener.own_hosts.cors_origins().are_any() && self != Self::Peer
    }

    /// The paths of the resources for clients that the node behind `listener` serves.
    pub(crate) fn paths_for_clients(listener: &Listener) -> String {
        let served = PATHS
            .iter()
            .filter(|(_, resource)| resource.is_for_clients() && resource.is_served(listener));
        let paths: Vec<&str> = served.map(|(path, _)| *path).collect();
        paths.join(", ")
    }

    /// Whether clients use it, rather than nodes or browsers.
    fn is_for_clients(self) -> bool {
        !matches!(self, Self::Peer | Self::Console(_))
    }

    /// The methods of the resource.
    pub(super) fn verbs(self) -> &'static [Verb] {
        match self {
            Self::Entity => &[Verb::Get, Verb::Head, Verb::Put, Verb::Delete],
            Self::Entities
            | Self::Digest
            | Self::Status
            | Self::History
            | Self::Cluster
            | Self::Metrics
            | Self::KeyReplicas
            | Self::HealthLive
            | Self::HealthReady
            | Self::OpenApi
            | Self::Profile
            | Self::Console(_) => &[Verb::Get, Verb::Head],
            Self::Peer => &[Verb::Get],
            Self::Batch | Self::AdminSweep | Self::AdminCompact => &[Verb::Post],
        }
    }

    /// What a method of the resource needs, on a node with a tokens file. The other nodes
    /// of the cluster have no tokens: they prove that they know its secret. Browsers ask
    /// without a token what pages may do.
    pub(crate) fn need(self, verb: Verb) -> Need {
        match self {
            _ if verb == Verb::Options => Need::Nothing,
            Self::Entity => match verb {
                Verb::Get | Verb::Head => Need::Read,
                _ => Need::Write,
            },
            Self::Entities | Self::Digest | Self::KeyReplicas => Need::Read,
            Self::Batch => Need::Lines,
            Self::Status => Need::AnyToken,
            Self::Metrics | Self::History | Self::Cluster => Need::Metrics,
            Self::AdminSweep | Self::AdminCompact | Self::Profile => Need::Admin,
            Self::HealthLive
            | Self::HealthReady
            | Self::OpenApi
            | Self::Peer
            | Self::Console(_) => Need::Nothing,
        }
    }

    /// Whether the resource is reached even when clients hold all connections.
    pub(crate) fn is_always_reached(self) -> bool {
        matches!(self, Self::Peer | Self::HealthLive | Self::HealthReady)
    }

    /// Whether the resource is for everyone, so that not even a token is looked at.
    pub(crate) fn is_public(self) -> bool {
        let mut verbs = self.verbs().iter();
        verbs.all(|verb| self.need(*verb) == Need::Nothing)
    }

    /// The name of the resource in the metrics. `None`: answers to peers count apart
    /// from those to clients.
    pub(crate) fn route(self) -> Option<Route> {
        match self {
            Self::Entity => Some(Route::Entity),
            Self::Entities => Some(Route::Range),
            Self::Batch => Some(Route::Batch),
            Self::Digest => Some(Route::Digest),
            Self::Status => Some(Route::Status),
            Self::Metrics => Some(Route::Metrics),
            Self::KeyReplicas => Some(Route::KeyReplicas),
            Self::HealthLive | Self::HealthReady => Some(Route::Health),
            Self::OpenApi => Some(Route::OpenApi),
            Self::Peer => None,
            Self::AdminSweep | Self::AdminCompact => Some(Route::Admin),
            Self::Profile => Some(Route::Profile),
            Self::History => Some(Route::History),
            Self::Cluster => Some(Route::Cluster),
            Self::Console(_) => Some(Route::Console),
        }
    }

    /// The verb of a method, if the resource has it.
    pub(crate) fn verb(self, method: &Method) -> Option<Verb> {
        Verb::of(method).filter(|verb| self.verbs().contains(verb))
    }

    /// The names of its methods.
    pub(crate) fn methods(self) -> String {
        let names: Vec<&str> = self.verbs().iter().map(|verb| verb.name()).collect();
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_exact() {
        assert_eq!(Resource::at("/v0/entity"), Some(Resource::Entity));
        assert_eq!(Resource::at("/v0/entities"), Some(Resource::Entities));
        assert_eq!(Resource::at("/v0/digest"), Some(Resource::Digest));
        assert_eq!(Resource::at("/v0/status"), Some(Resource::Status));
        assert_eq!(Resource::at("/metrics"), Some(Resource::Metrics));
        assert_eq!(Resource::at("/"), Some(Resource::Console(Asset::Page)));
        for path in [
            "",
            "//",
            "/console",
            "/console/",
            "*",
            "/v0/entity/",
            "/V0/entity",
            "/v0//entity",
        ] {
            assert_eq!(Resource::at(path), None, "{path}");
        }
    }

    #[test]
    fn only_what_is_named_here_needs_no_token() {
        let public: Vec<&str> = PATHS
            .iter()
            .filter(|(_, resource)| resource.is_public())
            .map(|(path, _)| *path)
            .collect();
        let expected = [
            "/health/live",
            "/health/ready",
            "/openapi.json",
            "/v0/peer",
            "/",
            "/console/console.js",
            "/console/console.css",
            "/console/icon.svg",
            "/console/runbooks.md",
        ];
        assert_eq!(public, expected);
        // A path is public or it is not: the token is looked at before the method.
        for (path, resource) in PATHS {
            let verbs = resource.verbs().iter();
            let free = verbs.filter(|verb| resource.need(**verb) == Need::Nothing);
            let expected = if resource.is_public() {
                resource.verbs().len()
            } else {
                0
            };
            assert_eq!(free.count(), expected, "{path}");
        }
    }

    #[test]
    fn the_page_of_the_api_says_what_each_method_needs() {
        const PAGE: &str = include_str!("../../../../../docs/reference/api.md");
        let section = PAGE.split_once("\n### Tokens\n").unwrap().1;
        let section = section.split_once("\n### ").unwrap().0;
        let described: Vec<&str> = section
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        let mut expected = Vec::new();
        for (path, resource) in PATHS {
            let mut rows: Vec<(Need, Vec<&str>)> = Vec::new();
            for verb in resource.verbs() {
                let need = resource.need(*verb);
                match rows.last_mut().filter(|(last, _)| *last == need) {
                    Some((_, names)) => names.push(verb.name()),
                    None => rows.push((need, vec![verb.name()])),
                }
            }
            for (need, names) in rows {
                let of_keys = match resource {
                    Resource::Entities | Resource::Digest => " for all keys of the range",
                    _ => " for the key",
                };
                let need = match need {
                    Need::Nothing => "no token".to_owned(),
                    Need::AnyToken => "any token".to_owned(),
                    Need::Read | Need::Write => format!("`{}`{of_keys}", need.rights()[0]),
                    need => format!("`{}`", need.rights().join("` or `")),
                };
                expected.push(format!("| `{path}` | `{}` | {need}", names.join("`, `")));
            }
        }
        assert_eq!(described.len(), expected.len(), "{expected:#?}");
        for (described, expected) in described.into_iter().zip(expected) {
            assert!(described.starts_with(&expected), "{described}: {expected}");
        }
    }

    #[test]
    fn allow_names_exactly_the_methods_that_a_resource_has() {
        for (resource, allow) in [
            (Resource::Entity, "GET, HEAD, PUT, DELETE"),
            (Resource::Entities, "GET, HEAD"),
            (Resource::Batch, "POST"),
            (Resource::Digest, "GET, HEAD"),
            (Resource::Status, "GET, HEAD"),
            (Resource::Metrics, "GET, HEAD"),
            (Resource::KeyReplicas, "GET, HEAD"),
            (Resource::HealthLive, "GET, HEAD"),
            (Resource::HealthReady, "GET, HEAD"),
            (Resource::OpenApi, "GET, HEAD"),
            (Resource::Peer, "GET"),
            (Resource::AdminSweep, "POST"),
            (Resource::AdminCompact, "POST"),
            (Resource::Profile, "GET, HEAD"),
            (Resource::History, "GET, HEAD"),
            (Resource::Cluster, "GET, HEAD"),
            (Resource::Console(Asset::Page), "GET, HEAD"),
        ] {
            assert_eq!(resource.methods(), allow, "{resource:?}");
            let allowed: Vec<&str> = allow.split(", ").collect();
            for method in ["GET", "HEAD", "PUT", "DELETE", "POST", "OPTIONS", "get"] {
                let known = resource.verb(&method.parse().unwrap()).is_some();
                assert_eq!(known, allowed.contains(&method), "{resource:?} {method}");
            }
        }
    }

    #[test]
    fn the_console_costs_the_lookups_of_other_paths_nothing() {
        assert_eq!(PATHS[0], ("/v0/entity", Resource::Entity));
        let is_of_console =
            |(_, resource): &(_, Resource)| matches!(resource, Resource::Console(_));
        let first = PATHS.iter().position(is_of_console).unwrap();
        assert_eq!(first, PATHS.len() - Asset::ALL.len());
    }
}
