//! The one table of the resources: their paths, their methods and what these need, their
//! parameters, and their names in the metrics. Dispatch, `Allow`, rights, the table in
//! `docs/reference/api.md` and `/openapi.json` follow from it, or are held to it by tests.
//! `http/mod.rs` says how to add a resource.

use crate::http::request::negotiation::names_html;
use crate::http::request::verb::Verb;
use crate::metrics::Route;
use crate::net::Listener;
use console::Asset;
use hyper::Method;
use hyper::http::request::Parts;
use tokens::Need;

/// Who answers the requests for a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handler {
    /// One key.
    Entity,
    /// A scan.
    Entities,
    /// What the entities of a scan amount to.
    Aggregate,
    /// Many operations.
    Batch,
    /// What this node keeps in a range, as a sum.
    Digest,
    /// The node.
    Status,
    /// What the node did in the last hour.
    History,
    /// How each node of the cluster is.
    Cluster,
    /// The metrics of the node, for Prometheus.
    Metrics,
    /// The replicas of a key.
    KeyReplicas,
    /// Whether the process serves.
    HealthLive,
    /// Whether the node can take requests.
    HealthReady,
    /// The API as an OpenAPI document.
    OpenApi,
    /// The entrance for other nodes of the cluster.
    Peer,
    /// A repair that an operator asks for.
    AdminRepair,
    /// A change of the list of members that an operator asks for.
    AdminMembers,
    /// A compaction that an operator asks for.
    AdminCompact,
    /// What the store has set aside.
    AdminSetAside,
    /// The tokens that the nodes share.
    AdminTokens,
    /// Backups of the cluster.
    AdminBackups,
    /// A backup of which everything is read.
    AdminVerifyBackup,
    /// A profile of the process, where debug endpoints are on.
    Profile,
    /// A file of the console. Its page, `/`, is there only for requests that name HTML.
    Console(Asset),
}

/// A resource: a row of the table.
#[derive(Debug)]
pub(crate) struct Resource {
    /// Its path.
    pub(super) path: &'static str,
    /// Who answers.
    pub(super) handler: Handler,
    /// Its methods, with what each needs on a node with a tokens file. The other nodes of the
    /// cluster have no tokens: they prove that they know its secret.
    methods: &'static [(Verb, Need)],
    /// The parameters of its query. An unknown one is refused before the handler is asked.
    pub(crate) parameters: &'static [&'static str],
    /// Its name in the metrics. `None`: answers to peers count apart from those to clients.
    pub(crate) route: Option<Route>,
}

/// `GET` and `HEAD`.
const fn pages(need: Need) -> [(Verb, Need); 2] {
    [(Verb::Get, need), (Verb::Head, need)]
}

/// The table. It is looked up in this order, so the resources that clients ask for most come
/// first, and those of the console last.
#[rustfmt::skip]
pub(super) static RESOURCES: [Resource; 27] = [
    Resource {
        path: "/v0/entity",
        handler: Handler::Entity,
        methods: &[
            (Verb::Get, Need::Read), (Verb::Head, Need::Read),
            (Verb::Put, Need::Write), (Verb::Delete, Need::Write),
        ],
        parameters: &["id", "ack", "from", "replicas", "ttl", "touch"],
        route: Some(Route::Entity),
    },
    Resource {
        path: "/v0/entities",
        handler: Handler::Entities,
        methods: &pages(Need::Read),
        parameters: &[
            "start", "end", "prefix", "delimiter", "limit", "where", "values", "count", "scope", "ack", "from",
            "replicas",
        ],
        route: Some(Route::Scan),
    },
    Resource {
        path: "/v0/aggregate",
        handler: Handler::Aggregate,
        methods: &[(Verb::Post, Need::Read)],
        parameters: &[],
        route: Some(Route::Scan),
    },
    Resource {
        path: "/v0/batch",
        handler: Handler::Batch,
        methods: &[(Verb::Post, Need::Lines)],
        parameters: &["ack", "from", "replicas"],
        route: Some(Route::Batch),
    },
    Resource {
        path: "/v0/digest",
        handler: Handler::Digest,
        methods: &pages(Need::Read),
        parameters: &["start", "end", "peer", "cut", "gc_threshold"],
        route: Some(Route::Digest),
    },
    Resource {
        path: "/v0/status",
        handler: Handler::Status,
        methods: &pages(Need::AnyToken),
        parameters: &[],
        route: Some(Route::Status),
    },
    Resource {
        path: "/v0/history",
        handler: Handler::History,
        methods: &pages(Need::Metrics),
        parameters: &["limit"],
        route: Some(Route::History),
    },
    Resource {
        path: "/v0/cluster",
        handler: Handler::Cluster,
        // The numbers of clients and disks are only for those with the right `metrics`.
        methods: &pages(Need::AnyToken),
        parameters: &[],
        route: Some(Route::Cluster),
    },
    Resource {
        path: "/v0/replicas",
        handler: Handler::KeyReplicas,
        methods: &pages(Need::Read),
        parameters: &["id", "versions"],
        route: Some(Route::KeyReplicas),
    },
    Resource {
        path: "/v0/admin/repair",
        handler: Handler::AdminRepair,
        methods: &[(Verb::Post, Need::Admin)],
        parameters: &["full", "wait"],
        route: Some(Route::Admin),
    },
    Resource {
        path: "/v0/admin/members",
        handler: Handler::AdminMembers,
        methods: &[(Verb::Post, Need::Admin)],
        parameters: &[
            "join", "leave", "dead", "move", "url", "pair", "abort", "force",
            "full_disks", "dry_run",
        ],
        route: Some(Route::Admin),
    },
    Resource {
        path: "/v0/admin/compact",
        handler: Handler::AdminCompact,
        methods: &[(Verb::Post, Need::Admin)],
        parameters: &["wait"],
        route: Some(Route::Admin),
    },
    Resource {
        path: "/v0/admin/set-aside",
        handler: Handler::AdminSetAside,
        methods: &[
            (Verb::Get, Need::Admin),
            (Verb::Head, Need::Admin),
            (Verb::Post, Need::Admin),
            (Verb::Delete, Need::Admin),
        ],
        parameters: &["id", "limit", "start", "up_to"],
        route: Some(Route::Admin),
    },
    Resource {
        path: "/v0/admin/tokens",
        handler: Handler::AdminTokens,
        methods: &[
            (Verb::Get, Need::Admin),
            (Verb::Head, Need::Admin),
            (Verb::Post, Need::Admin),
        ],
        parameters: &["token"],
        route: Some(Route::Admin),
    },
    Resource {
        path: "/v0/admin/backups",
        handler: Handler::AdminBackups,
        methods: &[
            (Verb::Get, Need::Admin),
            (Verb::Head, Need::Admin),
            (Verb::Post, Need::Admin),
            (Verb::Delete, Need::Admin),
        ],
        parameters: &["adopt", "keep", "missing_max", "target", "wait"],
        route: Some(Route::Admin),
    },
    Resource {
        path: "/v0/admin/backups/verify",
        handler: Handler::AdminVerifyBackup,
        methods: &[(Verb::Post, Need::Admin)],
        parameters: &["id", "target"],
        route: Some(Route::Admin),
    },
    Resource {
        path: "/metrics",
        handler: Handler::Metrics,
        methods: &pages(Need::Metrics),
        parameters: &[],
        route: Some(Route::Metrics),
    },
    Resource {
        path: "/health/live",
        handler: Handler::HealthLive,
        methods: &pages(Need::Nothing),
        parameters: &[],
        route: Some(Route::Health),
    },
    Resource {
        path: "/health/ready",
        handler: Handler::HealthReady,
        methods: &pages(Need::Nothing),
        parameters: &[],
        route: Some(Route::Health),
    },
    Resource {
        path: "/openapi.json",
        handler: Handler::OpenApi,
        methods: &pages(Need::Nothing),
        parameters: &[],
        route: Some(Route::OpenApi),
    },
    Resource {
        path: "/v0/peer",
        handler: Handler::Peer,
        methods: &[(Verb::Get, Need::Nothing)],
        parameters: &[],
        route: None,
    },
    Resource {
        path: "/debug/profile",
        handler: Handler::Profile,
        methods: &pages(Need::Admin),
        parameters: &["kind", "seconds"],
        route: Some(Route::Profile),
    },
    of_console(Asset::Page),
    of_console(Asset::Script),
    of_console(Asset::Style),
    of_console(Asset::Icon),
    of_console(Asset::Handbook),
];

/// A file of the console.
const fn of_console(asset: Asset) -> Resource {
    Resource {
        path: asset.path(),
        handler: Handler::Console(asset),
        methods: &[(Verb::Get, Need::Nothing), (Verb::Head, Need::Nothing)],
        parameters: &[],
        route: Some(Route::Console),
    }
}

impl Resource {
    /// Its path.
    pub(crate) fn path(&self) -> &'static str {
        self.path
    }

    /// The resource that a request asks for, if the node behind `listener` serves it.
    pub(crate) fn of(listener: &Listener, head: &Parts) -> Option<&'static Self> {
        let found = Self::at(head.uri.path()).filter(|resource| resource.is_served(listener))?;
        let is_there = match found.handler {
            Handler::Console(Asset::Page) => found.is_for(listener, head),
            _ => true,
        };
        is_there.then_some(found)
    }

    /// Whether the console's page is there for a request: for all that do not name HTML `/`
    /// is a path that does not exist. A preflight comes without the `Accept` of the request
    /// that follows it.
    fn is_for(&self, listener: &Listener, head: &Parts) -> bool {
        names_html(&head.headers) || (head.method == Method::OPTIONS && self.has_options(listener))
    }

    /// The resource at a path; paths are compared byte by byte.
    pub(super) fn at(path: &str) -> Option<&'static Self> {
        RESOURCES.iter().find(|known| known.path == path)
    }

    /// Whether the node behind `listener` serves the resource.
    fn is_served(&self, listener: &Listener) -> bool {
        !self.is_debug() || listener.has_debug_endpoints()
    }

    /// Whether only nodes with debug endpoints serve it.
    pub(super) fn is_debug(&self) -> bool {
        self.handler == Handler::Profile
    }

    /// Whether the node behind `listener` answers its `OPTIONS`: only pages of other origins ask
    /// for it.
    pub(crate) fn has_options(&self, listener: &Listener) -> bool {
        !listener.own_hosts.cors_origins().is_empty() && self.may_have_options()
    }

    /// Whether pages of other origins may ask for it, where a node lets them.
    pub(super) fn may_have_options(&self) -> bool {
        self.handler != Handler::Peer
    }

    /// The paths of the resources for clients that the node behind `listener` serves.
    pub(crate) fn paths_for_clients(listener: &Listener) -> String {
        let served = RESOURCES
            .iter()
            .filter(|resource| resource.is_for_clients() && resource.is_served(listener));
        let paths: Vec<&str> = served.map(|resource| resource.path).collect();
        paths.join(", ")
    }

    /// Whether clients use it, rather than nodes or browsers.
    fn is_for_clients(&self) -> bool {
        !matches!(self.handler, Handler::Peer | Handler::Console(_))
    }

    /// The methods of the resource.
    pub(super) fn verbs(&self) -> impl Iterator<Item = Verb> {
        self.methods.iter().map(|(verb, _)| *verb)
    }

    /// What a method of the resource needs.
    pub(crate) fn need(&self, verb: Verb) -> Need {
        let found = self.methods.iter().find(|(known, _)| *known == verb);
        found.map_or(Need::Admin, |(_, need)| *need)
    }

    /// Whether the resource is reached even when clients hold all connections.
    pub(crate) fn is_always_reached(&self) -> bool {
        matches!(
            self.handler,
            Handler::Peer | Handler::HealthLive | Handler::HealthReady
        )
    }

    /// Whether the resource is for everyone, so that not even a token is looked at.
    pub(crate) fn is_public(&self) -> bool {
        self.methods.iter().all(|(_, need)| *need == Need::Nothing)
    }

    /// The verb of a method, if the resource has it.
    pub(crate) fn verb(&self, method: &Method) -> Option<Verb> {
        Verb::of(method).filter(|verb| self.verbs().any(|known| known == *verb))
    }

    /// The names of its methods.
    pub(crate) fn methods(&self) -> String {
        let names: Vec<&str> = self.verbs().map(Verb::name).collect();
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handler_at(path: &str) -> Option<Handler> {
        Resource::at(path).map(|resource| resource.handler)
    }

    #[test]
    fn paths_are_exact() {
        for resource in &RESOURCES {
            assert_eq!(handler_at(resource.path), Some(resource.handler));
        }
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
            assert_eq!(handler_at(path), None, "{path}");
        }
    }

    #[test]
    fn only_what_is_named_here_needs_no_token() {
        let public: Vec<&str> = RESOURCES
            .iter()
            .filter(|resource| resource.is_public())
            .map(|resource| resource.path)
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
        for resource in RESOURCES.iter().filter(|resource| !resource.is_public()) {
            let mut needs = resource.methods.iter().map(|(_, need)| *need);
            assert!(needs.all(|need| need != Need::Nothing), "{}", resource.path);
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
        for resource in &RESOURCES {
            let path = resource.path;
            let mut rows: Vec<(Need, Vec<&str>)> = Vec::new();
            for (verb, need) in resource.methods.iter().copied() {
                match rows.last_mut().filter(|(last, _)| *last == need) {
                    Some((_, names)) => names.push(verb.name()),
                    None => rows.push((need, vec![verb.name()])),
                }
            }
            for (need, names) in rows {
                let of_keys = match resource.handler {
                    Handler::Entities | Handler::Aggregate | Handler::Digest => {
                        " for all keys of the range"
                    }
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
        for (path, allow) in [
            ("/v0/entity", "GET, HEAD, PUT, DELETE"),
            ("/v0/entities", "GET, HEAD"),
            ("/v0/batch", "POST"),
            ("/v0/peer", "GET"),
            ("/v0/admin/repair", "POST"),
            ("/", "GET, HEAD"),
        ] {
            let resource = Resource::at(path).unwrap();
            assert_eq!(resource.methods(), allow, "{path}");
            let allowed: Vec<&str> = allow.split(", ").collect();
            for method in ["GET", "HEAD", "PUT", "DELETE", "POST", "OPTIONS", "get"] {
                let known = resource.verb(&method.parse().unwrap()).is_some();
                assert_eq!(known, allowed.contains(&method), "{path} {method}");
            }
        }
    }

    #[test]
    fn the_console_costs_the_lookups_of_other_paths_nothing() {
        assert_eq!(RESOURCES[0].path, "/v0/entity");
        let is_of_console = |resource: &Resource| matches!(resource.handler, Handler::Console(_));
        let first = RESOURCES.iter().position(is_of_console).unwrap();
        assert_eq!(first, RESOURCES.len() - Asset::ALL.len());
    }
}
