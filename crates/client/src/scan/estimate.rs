//! Estimates the number of entities, to show the progress of a scan.

use super::{ScanRequest, Scope};
use crate::client::Client;
use crate::connection::Answer;
use crate::query::Target;
use hyper::Method;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The longest status that is read, in bytes.
const STATUS_BYTES_MAX: u64 = 1 << 20;

/// What a node says of its store and its cluster.
#[derive(Debug, Deserialize)]
struct Status {
    cluster: Vec<IgnoredAny>,
    store: Store,
}

#[derive(Debug, Deserialize)]
struct Store {
    entries: u64,
    tombstones: u64,
}

impl Client {
    /// About how many entities a scan of all keys has, judged by the store of the first node,
    /// which counts versions that were overwritten or have expired, too. `None` for a part of
    /// the keys, and if the node does not tell.
    pub async fn entities_about(&self, request: &ScanRequest) -> Option<u64> {
        if request.start != [0] || request.end.is_some() {
            return None;
        }
        let message = self.message(Method::GET, Target::new("/v0/status"));
        let (limits, node) = (self.settings().limits, self.nodes().first()?);
        let status = self.fetch(limits, node, &message, STATUS_BYTES_MAX, Answer::json);
        let status: Status = status.await.ok()?;
        status.entities_about(request)
    }
}

impl Status {
    fn entities_about(&self, request: &ScanRequest) -> Option<u64> {
        let own = self.store.entries.saturating_sub(self.store.tombstones);
        let nodes = self.cluster.len() as u64;
        let all = match request.scope {
            Scope::Node => own,
            Scope::Cluster => own * nodes / request.replicas.from.map_or(nodes, u64::from).max(1),
        };
        (all > 0).then_some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entity_is_counted_once() {
        let status = r#"{"name":"a","cluster":[{},{},{}],"store":{"entries":120,"tombstones":20}}"#;
        let mut status: Status = serde_json::from_str(status).unwrap();
        let mut request = ScanRequest::all(Scope::Cluster);
        assert_eq!(status.entities_about(&request), Some(100));
        request.replicas.from = Some(1);
        assert_eq!(status.entities_about(&request), Some(300));
        request.scope = Scope::Node;
        assert_eq!(status.entities_about(&request), Some(100));
        status.store.entries = 3;
        assert_eq!(status.entities_about(&request), None);
    }
}
