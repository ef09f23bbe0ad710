//! How the targets and the generator trust each other.

use rustls::ClientConfig;
use std::fmt;
use std::sync::Arc;

/// What the generator believes of its targets, and shows to them.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The authorities that it trusts, for targets with `https://`. All connections share it,
    /// and resume each other's sessions.
    pub tls: Option<Arc<ClientConfig>>,
    /// The token in each request.
    pub token: Option<String>,
}

impl fmt::Debug for Credentials {
    /// Does not show the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("tls", &self.tls.is_some())
            .field("token", &self.token.is_some())
            .finish()
    }
}

impl PartialEq for Credentials {
    fn eq(&self, other: &Self) -> bool {
        let same_tls = match (&self.tls, &other.tls) {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            (one, two) => one.is_none() && two.is_none(),
        };
        same_tls && self.token == other.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;
    use crate::plan::{Operation, Rate};

    #[test]
    fn neither_results_nor_logs_show_a_token() {
        let mut plan = Plan::new("https://h:1", Operation::Get, Rate::Max);
        plan.access.token = Some("hidden".to_owned());
        let written = serde_json::to_string(&plan).unwrap();
        assert!(!written.contains("hidden"), "{written}");
        assert!(!format!("{plan:?}").contains("hidden"), "{plan:?}");
        let read: Plan = serde_json::from_str(&written).unwrap();
        assert_eq!(read.access, Credentials::default());
        assert_ne!(read, plan);
    }
}
