//! The experiments, each a file. They all have the same parts: `run` measures
//! and hands over to functions that turn figures into tables, plots and
//! sentences; those are tested on figures made by hand.

mod durability;
mod flush;
mod growth;
mod outage;
mod overload;
mod queue;
mod range;
mod replication;
mod sharding;
mod single;
mod tables;

use crate::Experiment;

/// All of them, in the order in which they are best read.
pub const EXPERIMENTS: &[Experiment] = &[
    single::EXPERIMENT,
    tables::EXPERIMENT,
    queue::EXPERIMENT,
    flush::EXPERIMENT,
    durability::EXPERIMENT,
    growth::EXPERIMENT,
    sharding::EXPERIMENT,
    replication::EXPERIMENT,
    overload::EXPERIMENT,
    outage::EXPERIMENT,
    range::EXPERIMENT,
];

#[cfg(test)]
mod tests {
    use super::EXPERIMENTS;

    #[test]
    fn each_is_in_the_index_once() {
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
