//! What TLS costs a node.

use crate::context::ExperimentContext;
use crate::figures::{self, CPU, Column, P50, P99};
use crate::measure;
use crate::measure::matrix::{self, Case, Done, Load, Setup, share};
use crate::nodes::Certificates;
use crate::page::{Page, text};
use crate::{Error, Experiment};
use load::Credentials;
use load::plan::{Operation, Plan, SizeDistribution};
use load::report::plot::Axis;
use load::report::units::{self, Unit};

/// The sizes of values, in bytes.
const VALUE_BYTES: [usize; 4] = [64, 1 << 10, 16 << 10, 256 << 10];

/// The rate of both, as a share of what a closed loop over TLS achieves.
const CALM_SHARE: f64 = 0.5;

/// The data of each size, in bytes, so that all of it stays in memory.
const DATA_BYTES: u64 = 64 << 20;

const COLUMNS: &[Column] = &[("at", figures::REQUESTED.1), CPU, P50, P99];

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: include_str!("tls.md"),
    name: "tls",
    run,
};

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let certificates = Certificates::new()?;
    let (certificate, key) = (certificates.certificate()?, certificates.key()?);
    let access = Credentials {
        tls: Some(certificates.client()?),
        token: None,
    };
    let mut options = vec!["--durability", "os", "--tls-optional"];
    options.extend(["--tls-cert", &*certificate, "--tls-key", &*key]);
    let mut setups = Vec::new();
    for value_bytes in VALUE_BYTES {
        let plan = measure::plan(context, Operation::Put);
        let fill = Plan {
            keys: plan.keys.min(DATA_BYTES / value_bytes as u64),
            value_bytes: SizeDistribution::Fixed(value_bytes),
            // The first second is not counted.
            seconds: context.effort().pick(0.5, 4.0, 10.0),
            ..plan
        };
        for operation in [Operation::Get, Operation::Put] {
            let bytes = units::bytes(value_bytes as f64);
            let name = format!("{} of {bytes}", figures::method(operation));
            let plain = measure::with(&fill, operation);
            let tls = Plan {
                access: access.clone(),
                ..plain.clone()
            };
            let closed = format!("{name} in a closed loop");
            let calm = |over: &'static str, plan| {
                let load = Load::At(share(CALM_SHARE, &*closed, Done::rate));
                Case::new(&*name, plan, load).with(over).at(over, &*name)
            };
            // New nodes, so that no values of another size are left.
            setups.push(Setup {
                fill: Some(fill.clone()),
                cases: vec![Case::new(&*closed, tls.clone(), Load::Closed)],
                ..Setup::of(1, "1GiB", &options)
            });
            setups.push(Setup {
                fill: Some(fill.clone()),
                rounds: context.effort().pick(1, 3, 5),
                cases: vec![calm("plain", plain), calm("TLS", tls)],
                ..Setup::of(1, "1GiB", &options)
            });
        }
    }
    let done = matrix::run(context, setups)?;
    describe(page, &done);
    Ok(())
}

fn describe(page: &mut Page, done: &[Done]) {
    let calm = || done.iter().filter(|done| done.is_open());
    let mut table = figures::table_of(page, "measured", &["request", "over"], &[COLUMNS], calm());
    table.column(
        "times plain",
        calm().map(|tls| {
            let plain = calm().find(|plain| plain.at.1 == tls.at.1);
            match (&*tls.at.0, plain) {
                ("TLS", Some(plain)) => text::ratio(tls.cpu_ms() / plain.cpu_ms()),
                _ => String::new(),
            }
        }),
    );
    page.keep_table("measured", table);
    let title = "CPU time of the node per request";
    let axis = Axis::linear("CPU time", Unit::Milliseconds);
    figures::bars(page, "cpu", title, axis, calm(), Done::cpu_ms);
    page.data("runs", &done);
}
