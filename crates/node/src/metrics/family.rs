//! Metrics as plain data: families of series.

/// The labels of a series: names and values.
pub type Labels = Vec<(&'static str, String)>;

/// A metric with all its series.
#[derive(Clone, Debug)]
pub struct Family {
    /// The name of the metric; for a counter without `_total`.
    pub name: &'static str,
    /// The help text.
    pub help: &'static str,
    /// The series.
    pub series: Series,
}

/// The numbers of a metric, each with its labels.
#[derive(Clone, Debug)]
pub enum Series {
    /// Numbers that only grow.
    Counters(Vec<(Labels, f64)>),
    /// Numbers that go up and down.
    Gauges(Vec<(Labels, f64)>),
    /// Histograms of durations.
    Histograms(Vec<(Labels, Distribution)>),
}

/// A histogram of durations.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    /// The sum of all durations, in seconds.
    pub sum_seconds: f64,
    /// Upper bounds in seconds, each with the number of durations up to it and above the
    /// bound before. The last bound is infinite.
    pub buckets: Vec<(f64, u64)>,
}

impl Family {
    /// A metric of one number that only grows.
    #[must_use]
    pub fn counter(name: &'static str, help: &'static str, number: u64) -> Self {
        Self::counters(name, help, [(Labels::new(), number)])
    }

    /// A metric of numbers that only grow.
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

    /// A metric of one duration that only grows.
    #[must_use]
    pub fn seconds_counter(name: &'static str, help: &'static str, seconds: f64) -> Self {
        Self::seconds_counters(name, help, [(Labels::new(), seconds)])
    }

    /// A metric of durations that only grow, in seconds.
    #[must_use]
    pub fn seconds_counters(
        name: &'static str,
        help: &'static str,
        series: impl IntoIterator<Item = (Labels, f64)>,
    ) -> Self {
        Self {
            name,
            help,
            series: Series::Counters(series.into_iter().collect()),
        }
    }

    /// A metric of one number that goes up and down.
    #[must_use]
    pub fn gauge(name: &'static str, help: &'static str, number: f64) -> Self {
        Self::gauges(name, help, [(Labels::new(), number)])
    }

    /// A metric of numbers that go up and down.
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

    /// A metric of histograms.
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
