//! The result of a recording.

use super::flame_graph;
use crate::recorder::ProfileKind;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// A profile: the sums by stack, with names.
#[derive(Clone, Debug)]
pub struct Profile {
    kind: ProfileKind,
    took: Duration,
    /// Keyed by the names of the frames, outermost first, separated by `;`.
    lines: BTreeMap<String, u64>,
}

impl Profile {
    pub(crate) fn new(kind: ProfileKind, took: Duration, lines: BTreeMap<String, u64>) -> Self {
        Self { kind, took, lines }
    }

    /// The profile as folded stacks, for flame graph tools: one line per stack,
    /// with its frames outermost first and separated by `;`, a space, and its
    /// sum. Empty if nothing was recorded.
    #[must_use]
    pub fn folded(&self) -> String {
        let mut text = String::new();
        for (frames, weight) in &self.lines {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{frames} {weight}");
        }
        text
    }

    /// The flame graph as an SVG document, which can be searched and zoomed in
    /// a browser.
    #[must_use]
    pub fn flame_graph(&self) -> String {
        flame_graph::draw(self.kind, self.took, &self.lines)
    }

    /// The sum of all stacks: samples, bytes or nanoseconds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.lines.values().sum()
    }
}
