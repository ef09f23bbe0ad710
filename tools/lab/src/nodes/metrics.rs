//! The counters of a node, read from its metrics page.

use std::collections::BTreeMap;

/// The samples of a metrics page at one time, by name and labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MetricsSnapshot {
    /// For example `kvorum_store_level_tables{level="0"}`.
    samples: BTreeMap<String, f64>,
}

impl MetricsSnapshot {
    /// Parses a page in Prometheus' text format; other lines are ignored.
    pub(crate) fn parse(page: &str) -> Self {
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        let samples = lines.filter_map(|line| {
            let (name, number) = line.rsplit_once(' ')?;
            Some((name.to_owned(), number.parse().ok()?))
        });
        Self {
            samples: samples.collect(),
        }
    }

    /// The sum of all samples of a metric whose labels contain `label`
    /// (`level="0"`, or an empty text for all); 0 if there are none.
    pub(crate) fn sum(&self, name: &str, label: &str) -> f64 {
        let samples = self.samples.range(name.to_owned()..);
        samples
            .take_while(|(sample, _)| sample.starts_with(name))
            .filter(|(sample, _)| {
                let labels = &sample[name.len()..];
                (labels.is_empty() || labels.starts_with('{')) && labels.contains(label)
            })
            .map(|(_, number)| number)
            .sum()
    }

    /// How much the sum of a counter has grown since an `earlier` snapshot.
    pub(crate) fn growth(&self, earlier: &Self, name: &str) -> f64 {
        self.sum(name, "") - earlier.sum(name, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# HELP kvorum_store_level_tables Tables of a level
# TYPE kvorum_store_level_tables gauge
kvorum_store_level_tables{level=\"0\"} 7
kvorum_store_level_tables{level=\"1\"} 2
kvorum_store_level_tables_other 100
kvorum_store_flushes_total 9
nonsense
";

    #[test]
    fn samples_are_summed_by_name_and_label() {
        let metrics = MetricsSnapshot::parse(PAGE);
        for (name, label, expected) in [
            ("kvorum_store_level_tables", "", 9.0),
            ("kvorum_store_level_tables", "level=\"0\"", 7.0),
            ("kvorum_store_flushes_total", "", 9.0),
            ("kvorum_store_flushes", "", 0.0),
            ("kvorum_nothing", "", 0.0),
        ] {
            assert_eq!(metrics.sum(name, label), expected, "{name} {label}");
        }
        let before = MetricsSnapshot::parse("kvorum_store_flushes_total 4\n");
        assert_eq!(metrics.growth(&before, "kvorum_store_flushes_total"), 5.0);
    }
}
