//! A table by node ID.

use super::node_id::NodeId;

/// One value for each of some nodes, by their IDs: those of a cluster, which are neither dense nor
/// in the order of names once nodes have joined and left.
///
/// Its memory goes up to the greatest ID, of which there are at most 256.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeTable<T> {
    /// By ID; `None` for an ID without a value. The last one has a value.
    places: Vec<Option<T>>,
    /// How many nodes have a value.
    count: usize,
}

impl<T> Default for NodeTable<T> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            count: 0,
        }
    }
}

impl<T> NodeTable<T> {
    /// The value of a node.
    #[must_use]
    pub fn get(&self, node: NodeId) -> Option<&T> {
        self.places.get(node.index())?.as_ref()
    }

    /// The value of a node.
    pub fn get_mut(&mut self, node: NodeId) -> Option<&mut T> {
        self.places.get_mut(node.index())?.as_mut()
    }

    /// Whether a node has a value.
    #[must_use]
    pub fn contains(&self, node: NodeId) -> bool {
        self.get(node).is_some()
    }

    /// Gives a node a value, and returns the one that it had.
    pub fn insert(&mut self, node: NodeId, value: T) -> Option<T> {
        let before = self.place(node).replace(value);
        self.count += usize::from(before.is_none());
        before
    }

    /// The value of a node, which is made if there is none.
    pub fn get_or_insert_with(&mut self, node: NodeId, make: impl FnOnce() -> T) -> &mut T {
        self.count += usize::from(!self.contains(node));
        self.place(node).get_or_insert_with(make)
    }

    /// Takes the value of a node out.
    pub fn remove(&mut self, node: NodeId) -> Option<T> {
        let taken = self.places.get_mut(node.index())?.take()?;
        self.count -= 1;
        self.trim();
        Some(taken)
    }

    /// Takes out the values of all nodes for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(NodeId, &mut T) -> bool) {
        for (node, place) in (0..=u8::MAX).map(NodeId::new).zip(&mut self.places) {
            if place.as_mut().is_some_and(|value| !keep(node, value)) {
                *place = None;
                self.count -= 1;
            }
        }
        self.trim();
    }

    /// How many nodes have a value.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether no node has a value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The IDs of the nodes that have a value, ascending.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.iter().map(|(node, _)| node)
    }

    /// The nodes and their values, by ascending IDs.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &T)> {
        let places = (0..=u8::MAX).map(NodeId::new).zip(&self.places);
        places.filter_map(|(node, place)| Some((node, place.as_ref()?)))
    }

    /// The nodes and their values, by ascending IDs.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (NodeId, &mut T)> {
        let places = (0..=u8::MAX).map(NodeId::new).zip(&mut self.places);
        places.filter_map(|(node, place)| Some((node, place.as_mut()?)))
    }

    /// The values, by ascending IDs.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten()
    }

    /// The values, by ascending IDs.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().flatten()
    }

    fn place(&mut self, node: NodeId) -> &mut Option<T> {
        let places = self.places.len().max(node.index() + 1);
        self.places.resize_with(places, || None);
        &mut self.places[node.index()]
    }

    /// Removes empty places at the end, so that equal tables have equal places.
    fn trim(&mut self) {
        while self.places.last().is_some_and(Option::is_none) {
            self.places.pop();
        }
    }
}

impl<T> FromIterator<(NodeId, T)> for NodeTable<T> {
    fn from_iter<I: IntoIterator<Item = (NodeId, T)>>(values: I) -> Self {
        let mut table = Self::default();
        table.extend(values);
        table
    }
}

impl<T> Extend<(NodeId, T)> for NodeTable<T> {
    fn extend<I: IntoIterator<Item = (NodeId, T)>>(&mut self, values: I) {
        for (node, value) in values {
            self.insert(node, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_come_and_go_at_any_ids() {
        let node = NodeId::new;
        let mut table = NodeTable::default();
        assert!(table.is_empty());
        assert_eq!(table.insert(node(254), 'z'), None);
        assert_eq!(table.insert(node(2), 'b'), None);
        assert_eq!(table.insert(node(2), 'c'), Some('b'));
        assert_eq!(*table.get_or_insert_with(node(0), || 'a'), 'a');
        let all: Vec<(NodeId, char)> = table.iter().map(|(id, value)| (id, *value)).collect();
        assert_eq!(all, [(node(0), 'a'), (node(2), 'c'), (node(254), 'z')]);
        assert_eq!((table.get(node(1)), table.get(node(255))), (None, None));
        assert_eq!(table.remove(node(254)), Some('z'));
        assert_eq!(table.remove(node(254)), None);
        assert_eq!(
            table,
            [(node(2), 'c'), (node(0), 'a')].into_iter().collect()
        );
        table.retain(|id, _| id == node(0));
        assert_eq!(table.values().collect::<Vec<_>>(), [&'a']);
        assert_eq!((table.len(), table.contains(node(2))), (1, false));
        table.retain(|_, _| false);
        assert_eq!(table, NodeTable::default());
    }
}
