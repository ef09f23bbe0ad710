//! Which resource and which of its methods a request means.

use hyper::Method;

/// What the node serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// One key: `/v0/entity`.
    Entity,
    /// A range of this node's keys: `/v0/entities`.
    Entities,
    /// The node: `/v0/status`.
    Status,
    /// The node, for Prometheus: `/metrics`.
    Metrics,
    /// The replicas of a key: `/v0/ring`.
    Ring,
    /// Where another node of the cluster enters: `/v0/peer`.
    Peer,
    /// What the process does with its time and memory: `/debug/profile`,
    /// where debug endpoints are served.
    Profile,
}

/// The methods that some resource knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// `GET`.
    Get,
    /// `HEAD`: as `GET`, without the body.
    Head,
    /// `PUT`.
    Put,
    /// `DELETE`.
    Delete,
}

impl Resource {
    /// The resource at a path; paths are compared byte by byte.
    pub(crate) fn at(path: &str) -> Option<Self> {
        match path {
            "/v0/entity" => Some(Self::Entity),
            "/v0/entities" => Some(Self::Entities),
            "/v0/status" => Some(Self::Status),
            "/metrics" => Some(Self::Metrics),
            "/v0/ring" => Some(Self::Ring),
            "/v0/peer" => Some(Self::Peer),
            "/debug/profile" => Some(Self::Profile),
            _ => None,
        }
    }

    /// The `Allow` of this resource.
    pub(crate) fn allow(self) -> &'static str {
        match self {
            Self::Entity => "GET, HEAD, PUT, DELETE",
            Self::Entities | Self::Status | Self::Metrics | Self::Ring | Self::Profile => {
                "GET, HEAD"
            }
            Self::Peer => "GET",
        }
    }

    /// The verb of a method, if this resource has it.
    pub(crate) fn verb(self, method: &Method) -> Option<Verb> {
        let verb = Verb::of(method)?;
        match verb {
            Verb::Get => Some(verb),
            Verb::Head => (self != Self::Peer).then_some(verb),
            Verb::Put | Verb::Delete => (self == Self::Entity).then_some(verb),
        }
    }
}

impl Verb {
    fn of(method: &Method) -> Option<Self> {
        match *method {
            Method::GET => Some(Self::Get),
            Method::HEAD => Some(Self::Head),
            Method::PUT => Some(Self::Put),
            Method::DELETE => Some(Self::Delete),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_exact() {
        assert_eq!(Resource::at("/v0/entity"), Some(Resource::Entity));
        assert_eq!(Resource::at("/v0/entities"), Some(Resource::Entities));
        assert_eq!(Resource::at("/v0/status"), Some(Resource::Status));
        assert_eq!(Resource::at("/metrics"), Some(Resource::Metrics));
        for path in ["", "/", "*", "/v0/entity/", "/V0/entity", "/v0//entity"] {
            assert_eq!(Resource::at(path), None, "{path}");
        }
    }

    #[test]
    fn the_verbs_are_those_of_allow() {
        for resource in [
            Resource::Entity,
            Resource::Entities,
            Resource::Status,
            Resource::Metrics,
            Resource::Ring,
            Resource::Peer,
            Resource::Profile,
        ] {
            let allowed: Vec<&str> = resource.allow().split(", ").collect();
            for method in ["GET", "HEAD", "PUT", "DELETE", "POST", "OPTIONS", "get"] {
                let known = resource.verb(&method.parse().unwrap()).is_some();
                assert_eq!(known, allowed.contains(&method), "{resource:?} {method}");
            }
        }
    }
}
