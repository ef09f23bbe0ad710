//! The resources that the node serves: `table` is the one table of them, and each has a
//! file or a folder that answers. `http/mod.rs` says how to add one.

mod admin;
mod batch;
mod cluster;
mod console;
mod digest;
mod entities;
mod entity;
mod health;
mod history;
mod metrics;
mod openapi;
mod peer;
mod profile;
mod replicas;
mod status;
mod table;
mod tombstone_gc;

pub(crate) use batch::{fuzz_batch, fuzz_operation};

use crate::http::exchange::{Answer, Exchange};

pub(crate) use table::Resource;

impl Resource {
    /// Answers a request for the resource.
    pub(crate) async fn answer(self, exchange: Exchange<'_>) -> Answer {
        match self {
            Self::Entity => entity::answer(exchange).await,
            Self::Entities => entities::answer(exchange).await,
            Self::Batch => batch::answer(exchange).await,
            Self::Digest => digest::answer(exchange).await,
            Self::Status => status::answer(exchange).await,
            Self::Metrics => metrics::answer(exchange).await,
            Self::KeyReplicas => replicas::answer(exchange).await,
            Self::HealthLive => health::live(&exchange),
            Self::HealthReady => health::ready(&exchange),
            Self::OpenApi => openapi::answer(&exchange),
            Self::Peer => peer::answer(&exchange),
            Self::AdminSweep => admin::repair::answer(exchange).await,
            Self::AdminCompact => admin::compact::answer(exchange).await,
            Self::Profile => profile::answer(exchange).await,
            Self::History => history::answer(exchange).await,
            Self::Cluster => cluster::answer(exchange).await,
            Self::Console(asset) => console::answer(&exchange, asset),
        }
    }
}
