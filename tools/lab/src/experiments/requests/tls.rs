//! What TLS costs a node.

use crate::context::ExperimentContext;
use crate::measure::{self, CostedRun, Measured};
use crate::nodes::Certificates;
use crate::nodes::{ClusterLayout, LabCluster};
use crate::page::{MarkdownTable, Page, text};
use crate::sections;
use crate::{Error, Experiment, PageText, statistics};
use load::Credentials;
use load::plan::{Operation, Plan, SizeDistribution};
use load::report::plot::{Axis, Bars};
use load::report::units::{self, Unit};
use serde::Serialize;

/// The sizes of values, in bytes.
const VALUE_BYTES: [usize; 4] = [64, 1 << 10, 16 << 10, 256 << 10];

const OPERATIONS: [Operation; 2] = [Operation::Get, Operation::Put];

/// The rate of both, as a share of what a closed loop over TLS achieves.
const CALM_SHARE: f64 = 0.5;

/// The data of each size, in bytes, so that all of it stays in memory.
const DATA_BYTES: u64 = 64 << 20;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: PageText::Template(include_str!("tls.md")),
    name: "tls",
    question: "How much more CPU time does a node need for a request over TLS than for the same \
               request over plain HTTP, by the size of the value?",
    run,
};

/// The measurements of one operation with one size of values.
#[derive(Debug, Serialize)]
struct TlsCase {
    operation: Operation,
    value_bytes: usize,
    /// One run for each round.
    plain: Measured<Vec<CostedRun>>,
    tls: Measured<Vec<CostedRun>>,
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let certificates = Certificates::new()?;
    let (certificate, key) = (certificates.certificate()?, certificates.key()?);
    let mut cases = Vec::new();
    for value_bytes in VALUE_BYTES {
        // A new node for each size, so that no values of another size are left.
        let cluster = LabCluster::start(
            context,
            ClusterLayout {
                nodes: 1,
                memory: "1GiB",
                options: &[
                    "--durability",
                    "os",
                    "--tls-cert",
                    &certificate,
                    "--tls-key",
                    &key,
                    "--tls-optional",
                ],
            },
        )?;
        let plan = measure::plan(context, &cluster, Operation::Put);
        let plan = Plan {
            keys: plan.keys.min(DATA_BYTES / value_bytes as u64),
            value_bytes: SizeDistribution::Fixed(value_bytes),
            // The first second is not counted.
            seconds: context.effort().pick(0.5, 4.0, 10.0),
            ..plan
        };
        measure::fill(context, &plan)?;
        for operation in OPERATIONS {
            let plan = Plan {
                operations: vec![(operation, 1.0)],
                ..plan.clone()
            };
            context.log(&case_name(operation, value_bytes));
            cases.push(case(context, &cluster, &plan, value_bytes, &certificates)?);
        }
    }
    describe(page, &cases);
    Ok(())
}

/// Measures a plan over plain HTTP and over TLS, in turn.
fn case(
    context: &ExperimentContext<'_>,
    cluster: &LabCluster,
    plan: &Plan,
    value_bytes: usize,
    certificates: &Certificates,
) -> Result<TlsCase, Error> {
    let plain = plan.clone();
    let with_tls = |url: &String| url.replacen("http://", "https://", 1);
    let tls = Plan {
        targets: plan.targets.iter().map(with_tls).collect(),
        access: Credentials {
            tls: Some(certificates.client()?),
            token: None,
        },
        ..plan.clone()
    };
    let mut case = TlsCase {
        operation: plan.operations[0].0,
        value_bytes,
        plain: Ok(Vec::new()),
        tls: Ok(Vec::new()),
    };
    let rate = match measure::run(context, cluster, &tls)? {
        Ok(saturated) => measure::share_of(saturated.rate(), CALM_SHARE),
        Err(problem) => {
            case.tls = Err(problem);
            return Ok(case);
        }
    };
    for _ in 0..context.effort().pick(1, 3, 5) {
        for (plan, runs) in [(&plain, &mut case.plain), (&tls, &mut case.tls)] {
            let plan = Plan {
                rate,
                ..plan.clone()
            };
            match (measure::run(context, cluster, &plan)?, runs) {
                (Ok(run), Ok(runs)) => runs.push(run),
                (Err(problem), runs) => *runs = Err(problem),
                (Ok(_), Err(_)) => {}
            }
        }
    }
    Ok(case)
}

fn case_name(operation: Operation, value_bytes: usize) -> String {
    let bytes = units::bytes(value_bytes as f64);
    format!("{} of {bytes}", sections::method(operation))
}

impl TlsCase {
    fn name(&self) -> String {
        case_name(self.operation, self.value_bytes)
    }

    /// Both measurements, with their names.
    fn both(&self) -> [(&'static str, &Measured<Vec<CostedRun>>); 2] {
        [("plain", &self.plain), ("TLS", &self.tls)]
    }

    /// The CPU time over TLS as a multiple of that over plain HTTP.
    fn ratio(&self) -> Option<f64> {
        let cpu_us = |runs: &Measured<Vec<CostedRun>>| median(runs, |run| run.cpu_us);
        statistics::ratio(cpu_us(&self.tls), cpu_us(&self.plain))
    }
}

/// The median of a figure over all rounds; none if none has it.
fn median(
    runs: &Measured<Vec<CostedRun>>,
    figure: impl Fn(&CostedRun) -> Option<f64>,
) -> Option<f64> {
    statistics::median(runs.as_ref().ok()?.iter().filter_map(figure))
}

fn describe(page: &mut Page, cases: &[TlsCase]) {
    let mut table = MarkdownTable::new([
        "request",
        "over",
        "at",
        "CPU per request",
        "times plain",
        "p50",
        "p99",
    ]);
    for case in cases {
        for (over, runs) in case.both() {
            let Some(first) = runs.as_ref().ok().and_then(|runs| runs.first()) else {
                continue;
            };
            let ratio = match over {
                "TLS" => case.ratio().map_or(units::NONE.to_owned(), text::ratio),
                _ => String::new(),
            };
            table.row([
                case.name(),
                over.to_owned(),
                text::requested(&first.run),
                text::cpu(median(runs, |run| run.cpu_us)),
                ratio,
                text::latency(median(runs, |run| run.latency_ms(50.0))),
                text::latency(median(runs, |run| run.latency_ms(99.0))),
            ]);
        }
    }
    page.keep_table("measured", table);
    let failed = cases.iter().flat_map(|case| {
        let both = case.both().into_iter();
        both.map(|(over, runs)| (format!("{} over {over}", case.name()), runs))
    });
    sections::failed_measurements(page, failed);
    let title = "CPU time of the node per request";
    let axis = Axis::linear("CPU time", Unit::Milliseconds);
    let mut bars = Bars::new(title, cases.iter().map(TlsCase::name), axis);
    for (index, over) in ["plain", "TLS"].into_iter().enumerate() {
        let values = cases.iter().map(|case| {
            let cpu_us = median(case.both()[index].1, |run| run.cpu_us);
            cpu_us.map_or(f64::NAN, |cpu_us| cpu_us / 1e3)
        });
        bars = bars.with(over, values);
    }
    page.keep_chart("cpu", bars.draw());
    page.data("runs", &cases);
}
