//! Metrics in the text formats of Prometheus and OpenMetrics.
//!
//! A scrape gathers each [`Family`] with all its series, and encodes them at the end.
//! Families are made with their full names, without the `_total` that the format adds
//! to counters.

use node::metrics::{Family, Labels, Series};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;

/// Encodes a family. One without series is left out: a node that is alone has no peers.
fn encode(family: &Family, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    match &family.series {
        Series::Counters(series) | Series::Gauges(series) if series.is_empty() => Ok(()),
        Series::Histograms(series) if series.is_empty() => Ok(()),
        Series::Counters(series) => {
            let metric =
                encoder.encode_descriptor(family.name, family.help, None, MetricType::Counter)?;
            encode_all(metric, series, |encoder, number| {
                // Whole numbers are written without decimals.
                if number.fract() == 0.0 && *number < MANTISSA_END {
                    encoder.encode_counter::<NoLabelSet, u64, f64>(&(*number as u64), None)
                } else {
                    encoder.encode_counter::<NoLabelSet, f64, f64>(number, None)
                }
            })
        }
        Series::Gauges(series) => {
            let metric =
                encoder.encode_descriptor(family.name, family.help, None, MetricType::Gauge)?;
            encode_all(metric, series, |encoder, number| {
                encoder.encode_gauge(number)
            })
        }
        Series::Histograms(series) => {
            let metric =
                encoder.encode_descriptor(family.name, family.help, None, MetricType::Histogram)?;
            encode_all(metric, series, |encoder, of| {
                let count = of.buckets.iter().map(|(_, count)| count).sum();
                encoder.encode_histogram::<NoLabelSet>(of.sum_seconds, count, &of.buckets, None)
            })
        }
    }
}

/// Below this, a float represents every whole number exactly.
const MANTISSA_END: f64 = (1_u64 << 53) as f64;

fn encode_all<T>(
    mut metric: MetricEncoder<'_>,
    series: &[(Labels, T)],
    encode: impl Fn(&mut MetricEncoder<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (labels, value) in series {
        if labels.is_empty() {
            encode(&mut metric, value)?;
        } else {
            encode(&mut metric.encode_family(labels)?, value)?;
        }
    }
    Ok(())
}

/// Families that are to be encoded.
#[derive(Debug)]
struct FamilyCollector(Vec<Family>);

impl Collector for FamilyCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|family| encode(family, &mut encoder))
    }
}

/// The families in the OpenMetrics text format.
pub(crate) fn open_metrics_text(families: Vec<Family>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(FamilyCollector(families)));
    let mut text = String::new();
    if prometheus_client::encoding::text::encode(&mut text, &registry).is_err() {
        // Writing to a string never fails.
        debug_assert!(false, "plain numbers can always be encoded");
    }
    text
}

/// Converts OpenMetrics to the older format: there the names of counters end in `_total`
/// also in the lines of their help and type, and there is no end mark.
pub(crate) fn prometheus_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut lines = open_metrics.lines().peekable();
    while let Some(line) = lines.next() {
        if line == "# EOF" {
            break;
        }
        let described = ["# HELP ", "# TYPE "]
            .iter()
            .find_map(|mark| Some((*mark, line.strip_prefix(mark)?.split_once(' ')?)));
        let Some((mark, (name, rest))) = described else {
            text.extend([line, "\n"]);
            continue;
        };
        // The type follows the help.
        let of_type = if mark == "# TYPE " {
            line
        } else {
            lines.peek().copied().unwrap_or_default()
        };
        let suffix = if of_type.ends_with(" counter") {
            "_total"
        } else {
            ""
        };
        text.extend([mark, name, suffix, " ", rest, "\n"]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use node::metrics::Distribution;

    #[test]
    fn a_page_holds_each_series_in_both_formats() {
        let labels = |value: &str| vec![("peer", value.to_owned())];
        let families = vec![
            Family::counter("a", "All a", 1),
            Family::counters("b", "All b", [(labels("x\"y"), 2)]),
            Family::seconds_counter("c_seconds", "All c", 1.5),
            Family::gauge("d", "A d", 2.0),
            Family::gauges("none", "No series", []),
            Family::histograms(
                "e_seconds",
                "An e",
                [(
                    labels("z"),
                    Distribution {
                        sum_seconds: 3.0,
                        buckets: vec![(0.005, 1), (f64::INFINITY, 2)],
                    },
                )],
            ),
        ];
        let open = open_metrics_text(families);
        let older = prometheus_text(&open);
        assert!(open.ends_with("# EOF\n"), "{open}");
        assert_eq!(
            older,
            "# HELP a_total All a\n# TYPE a_total counter\na_total 1\n\
             # HELP b_total All b\n# TYPE b_total counter\nb_total{peer=\"x\\\"y\"} 2\n\
             # HELP c_seconds_total All c\n# TYPE c_seconds_total counter\nc_seconds_total 1.5\n\
             # HELP d A d\n# TYPE d gauge\nd 2.0\n\
             # HELP e_seconds An e\n# TYPE e_seconds histogram\n\
             e_seconds_sum{peer=\"z\"} 3.0\ne_seconds_count{peer=\"z\"} 3\n\
             e_seconds_bucket{le=\"0.005\",peer=\"z\"} 1\n\
             e_seconds_bucket{le=\"+Inf\",peer=\"z\"} 3\n"
        );
    }
}
