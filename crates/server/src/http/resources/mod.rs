//! The resources that the node serves: `table` lists them all, and each has a file or a folder.
//! What only tells how the node and its cluster are is in `monitoring`.
//! `http/mod.rs` says how to add one.

mod admin;
mod batch;
mod console;
mod digest;
mod entities;
mod entity;
mod monitoring;
mod openapi;
mod peer;
mod profile;
mod replicas;
mod table;

pub(crate) use batch::{fuzz_batch, fuzz_operation};

use crate::http::exchange::{Answer, HttpExchange};
use crate::http::problem::Problem;
use monitoring::{cluster, health, history, metrics, status};
use table::Handler;
pub(crate) use table::Resource;

impl Resource {
    /// Whether a node serves it only as a member of its cluster, because it is about the data.
    fn is_of_data(&self) -> bool {
        match self.handler {
            Handler::Entity
            | Handler::Entities
            | Handler::Aggregate
            | Handler::Batch
            | Handler::Digest
            | Handler::KeyReplicas
            | Handler::AdminRepair
            | Handler::AdminBackups
            | Handler::AdminVerifyBackup => true,
            Handler::Status
            | Handler::Metrics
            | Handler::HealthLive
            | Handler::HealthReady
            | Handler::OpenApi
            | Handler::Peer
            | Handler::AdminMembers
            | Handler::AdminCompact
            | Handler::AdminSetAside
            | Handler::AdminTokens
            | Handler::Profile
            | Handler::History
            | Handler::Cluster
            | Handler::Console(_) => false,
        }
    }

    /// Answers a request for the resource.
    pub(crate) async fn answer(&self, exchange: HttpExchange<'_>) -> Answer {
        if self.is_of_data()
            && let Some(why) = exchange.listener.worker.node().waits_to_join()
        {
            return Err(Problem::not_ready(&[why]));
        }
        match self.handler {
            Handler::Entity => entity::answer(exchange).await,
            Handler::Entities => entities::answer(exchange).await,
            Handler::Aggregate => entities::answer_aggregate(exchange).await,
            Handler::Batch => batch::answer(exchange).await,
            Handler::Digest => digest::answer(exchange).await,
            Handler::Status => status::answer(exchange).await,
            Handler::Metrics => metrics::answer(exchange).await,
            Handler::KeyReplicas => replicas::answer(exchange).await,
            Handler::HealthLive => health::live(&exchange),
            Handler::HealthReady => health::ready(&exchange),
            Handler::OpenApi => openapi::answer(&exchange),
            Handler::Peer => peer::answer(&exchange),
            Handler::AdminRepair => admin::repair::answer(exchange).await,
            Handler::AdminMembers => admin::members::answer(exchange).await,
            Handler::AdminCompact => admin::compact::answer(exchange).await,
            Handler::AdminBackups => admin::backups::answer(exchange).await,
            Handler::AdminVerifyBackup => admin::backups::verify(exchange).await,
            Handler::AdminSetAside => admin::set_aside::answer(exchange).await,
            Handler::AdminTokens => admin::tokens::answer(exchange).await,
            Handler::Profile => profile::answer(exchange).await,
            Handler::History => history::answer(exchange).await,
            Handler::Cluster => cluster::answer(exchange).await,
            Handler::Console(asset) => console::answer(&exchange, asset),
        }
    }
}
