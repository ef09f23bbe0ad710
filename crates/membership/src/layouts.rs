//! The layout in force, for all who ask what it is and all who follow it.

use arc_swap::ArcSwap;
use cluster::{Layout, NodeId};
use std::ops::Deref;
use std::sync::Arc;
use tokio::sync::watch;

/// The layout that is in force on this node. Clones share one.
///
/// Whoever begins a session, a page or a scan takes it once ([`Layouts::load`]) and keeps it until
/// the end. Each runtime keeps the one that it has adopted for its requests.
#[derive(Clone, Debug)]
pub struct Layouts {
    in_force: Arc<ArcSwap<Layout>>,
    changed: watch::Sender<()>,
    own: NodeId,
}

/// Waits for changes of the layout.
#[derive(Debug)]
pub struct LayoutChanges {
    in_force: Arc<ArcSwap<Layout>>,
    changed: watch::Receiver<()>,
}

impl Layouts {
    /// `layout` is in force.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        let own = layout.members().own();
        Self {
            in_force: Arc::new(ArcSwap::from_pointee(layout)),
            changed: watch::Sender::new(()),
            own,
        }
    }

    /// The layout in force, to keep.
    #[must_use]
    pub fn load(&self) -> Arc<Layout> {
        self.in_force.load_full()
    }

    /// The layout in force, for a moment: cheap enough for each key.
    #[must_use]
    pub fn peek(&self) -> impl Deref<Target = Arc<Layout>> + use<> {
        self.in_force.load()
    }

    /// The ID of this node, which no layout changes.
    #[must_use]
    pub fn own(&self) -> NodeId {
        self.own
    }

    /// Puts a layout in force, of the same node.
    pub fn put_in_force(&self, layout: Arc<Layout>) {
        self.in_force.store(layout);
        self.changed.send_replace(());
    }

    /// Follows the layout from now on.
    #[must_use]
    pub fn changes(&self) -> LayoutChanges {
        LayoutChanges {
            in_force: Arc::clone(&self.in_force),
            changed: self.changed.subscribe(),
        }
    }
}

impl LayoutChanges {
    /// The layout in force, which counts as seen.
    pub fn load(&mut self) -> Arc<Layout> {
        self.changed.mark_unchanged();
        self.in_force.load_full()
    }

    /// Waits until another layout is in force than the one seen last. Layouts in between are left
    /// out. `None` once there is nobody who could change it.
    pub async fn changed(&mut self) -> Option<Arc<Layout>> {
        self.changed.changed().await.ok()?;
        Some(self.in_force.load_full())
    }
}
