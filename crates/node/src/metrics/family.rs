//! Metrics as plain data: families of series.

/// The labels of a series: names and values.
pub type Labels = Vec<(&'static str, String)>;

/// A metric with all its series.
#[derive(Clone, Debug)]
pub struct Family {
    /// Its name; that of a counter without `_total`.
    pub name: &'static str,
    /// What it says.
    pub help: &'static str,
    /// Its numbers.
    pub series: Series,
}

/// The numbers of a family, each with its labels.
#[derive(Clone, Debug)]
pub enum Series {
    /// Numbers that only grow.
    Counters(Vec<(Labels, f64)>),
    /// Numbers that go up and down.
    Gauges(Vec<(Labels, f64)>),
    /// Distributions of times.
    Histograms(Vec<(Labels, Distribution)>),
}

/// How often something took how long.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    /// All of it, in seconds.
    pub sum_seconds: f64,
    /// Upper bounds in seconds, and how many took at most that and more than
    /// the bound before; the last bound is infinite.
    pub buckets: Vec<(f64, u64)>,
}

impl Family {
    /// A lone number that only grows.
    #[must_use]
    pub fn counter(name: &'static str, help: &'static str, number: u64) -> Self {
        Self::counters(name, help, [(Labels::new(), number)])
    }

    /// Numbers that only grow.
    #[must_use]
    pub fn counters(
        name: &'static str,
        help: &'static str,
        series: impl IntoIterator<Item = (Labels, u64)>,
    ) -> Self {
        let series = series.into_iter();
        let series = series.map(|(labels, number)| (labels, number as f64));
        Self {
            name,
            help,
            series: Series::Counters(series.collect()),
        }
    }

    /// A lone time that only grows.
    #[must_use]
    pub fn seconds_counter(name: &'static str, help: &'static str, seconds: f64) -> Self {
        Self {
            name,
            help,
            series: Series::Counters(vec![(Labels::new(), seconds)]),
        }
    }

    /// A lone number that goes up and down.
    #[must_use]
    pub fn gauge(name: &'static str, help: &'static str, number: f64) -> Self {
        Self::gauges(name, help, [(Labels::new(), number)])
    }

    /// Numbers that go up and down.
    #[must_use]
    pub fn gauges(
        name: &'static str,
        help: &'static str,
        series: impl IntoIterator<Item = (Labels, f64)>,
    ) -> Self {
        Self {
            name,
            help,
            series: Series::Gauges(series.into_iter().collect()),
        }
    }

    /// Distributions of times.
    #[must_use]
    pub fn histograms(
        name: &'static str,
        help: &'static str,
        series: impl IntoIterator<Item = (Labels, Distribution)>,
    ) -> Self {
        Self {
            name,
            help,
            series: Series::Histograms(series.into_iter().collect()),
        }
    }
}
