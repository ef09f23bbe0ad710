//! The experiments, by domain. Each has a `run` that measures, and keeps tables, charts and
//! values for the text of its page, which lies beside it.
//!
//! `docs/lab/README.md` lists the experiments, and a test compares the two lists.
//! CONTRIBUTING.md says how to add one.

mod cluster;
mod engine;
mod recovery;
mod requests;

use crate::Experiment;

/// All experiments, in the recommended reading order.
pub const EXPERIMENTS: &[Experiment] = &[
    requests::single::EXPERIMENT,
    engine::tables::EXPERIMENT,
    requests::queue::EXPERIMENT,
    engine::flush::EXPERIMENT,
    engine::durability::EXPERIMENT,
    engine::slowest::EXPERIMENT,
    requests::growth::EXPERIMENT,
    cluster::sharding::EXPERIMENT,
    cluster::replication::EXPERIMENT,
    cluster::placement::EXPERIMENT,
    requests::tls::EXPERIMENT,
    requests::overload::EXPERIMENT,
    recovery::outage::EXPERIMENT,
    recovery::healing::EXPERIMENT,
    recovery::members::EXPERIMENT,
    recovery::tombstone_gc::EXPERIMENT,
    engine::range::EXPERIMENT,
];

#[cfg(test)]
mod tests {
    use super::EXPERIMENTS;
    use std::path::Path;

    /// The committed pages are what their text and the results of their runs make. `kvorum-lab
    /// report all` writes them again.
    #[test]
    fn each_page_follows_from_its_text_and_its_results() {
        let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab");
        for experiment in EXPERIMENTS {
            let page = experiment.page_again(&pages).unwrap();
            let committed = std::fs::read_to_string(pages.join(format!("{}.md", experiment.name)));
            assert!(
                committed.unwrap() == page,
                "docs/lab/{}.md: run kvorum-lab report {0}",
                experiment.name
            );
        }
    }

    #[test]
    fn each_experiment_is_in_the_index_once() {
        let index = include_str!("../../../../docs/lab/README.md");
        for experiment in EXPERIMENTS {
            let row = format!("| [{0}]({0}.md) |", experiment.name);
            assert_eq!(
                index.matches(&row).count(),
                1,
                "{row} in docs/lab/README.md"
            );
        }
        assert_eq!(index.matches(".md) |").count(), EXPERIMENTS.len());
    }
}
