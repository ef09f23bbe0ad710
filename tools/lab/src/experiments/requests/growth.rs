//! How the cost of a request grows with the size of its value and with the
//! number of keys.

use crate::context::ExperimentContext;
use crate::figures::{self, CPU, Column, P99, RATE};
use crate::measure;
use crate::measure::matrix::{self, Before, Case, Done, Load, Setup};
use crate::measure::profile::ProfileKind;
use crate::page::{Page, text};
use crate::{Error, Experiment};
use load::plan::{Operation, Plan, SizeDistribution};
use load::report::plot::Axis;
use load::report::units::{self, Unit};

/// The sizes of values, in bytes.
const VALUE_BYTES: [usize; 5] = [64, 1 << 10, 16 << 10, 128 << 10, 1 << 20];

/// The greatest total size of the values, in bytes.
const DATA_BYTES_MAX: usize = 256 << 20;

/// Values of at least this size are sent over fewer connections, so that no
/// request is refused for lack of memory for bodies.
const LONG_BYTES: usize = 128 << 10;

/// The number of connections for long values.
const LONG_CONNECTIONS: usize = 16;

/// The size of the values in the runs over numbers of keys.
const KEYS_VALUE_BYTES: usize = 256;

/// Reads come first, then the keys are overwritten.
const OPERATIONS: [Operation; 2] = [Operation::Get, Operation::Put];

/// What a store takes, by its number of keys.
const STORE: &[Column] = &[
    ("tables", |done| units::bytes(table_bytes(done))),
    ("fill", |done| units::seconds(done.fill_seconds)),
    ("write amplification", |done| {
        text::ratio(done.sum("kvorum_store_write_amplification", ""))
    }),
    ("space amplification", |done| {
        let amplification = done.sum("kvorum_store_space_amplification", "");
        text::ratio(if table_bytes(done) > 0.0 {
            amplification
        } else {
            f64::NAN
        })
    }),
    ("resident", |done| {
        units::bytes(done.median(|round| Some(round.usage.resident_bytes as f64)))
    }),
];

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: include_str!("growth.md"),
    name: "growth",
    run,
};

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let plan = measure::plan(context, Operation::Get);
    let sized = VALUE_BYTES.map(|value_bytes| {
        let plan = Plan {
            value_bytes: SizeDistribution::Fixed(value_bytes),
            keys: plan.keys.min((DATA_BYTES_MAX / value_bytes) as u64),
            seconds: context.effort().pick(0.5, 4.0, 15.0),
            connections: if value_bytes >= LONG_BYTES {
                LONG_CONNECTIONS
            } else {
                plan.connections
            },
            ..plan.clone()
        };
        let name = units::bytes(value_bytes as f64);
        setup("1GiB", plan, &name, value_bytes as u64, Before::Nothing)
    });
    let numbers: &[u64] = context.effort().pick(
        &[1_000, 2_000][..],
        &[100_000, 1_000_000],
        &[100_000, 1_000_000, 10_000_000],
    );
    let stored = numbers.iter().map(|keys| {
        let plan = Plan {
            keys: *keys,
            value_bytes: SizeDistribution::Fixed(KEYS_VALUE_BYTES),
            seconds: context.effort().pick(0.5, 6.0, 20.0),
            ..plan.clone()
        };
        let name = units::count(*keys);
        let mut setup = setup("192MiB", plan.clone(), &name, *keys, Before::Settle);
        if Some(keys) == numbers.last() {
            let title = "GET with the most keys";
            let profile = Case::profile("get-cpu", title, plan, ProfileKind::Cpu, None);
            setup.cases.push(profile);
        }
        setup
    });
    let sized = matrix::run(context, sized)?;
    let stored = matrix::run(context, stored)?;
    describe(page, &sized, &stored);
    Ok(())
}

/// A node of its own, for a size of the values or a number of keys.
fn setup<'a>(
    memory: &'a str,
    plan: Plan,
    name: &str,
    number: u64,
    before: Before<'a>,
) -> Setup<'a> {
    let cases = OPERATIONS.map(|operation| Case {
        before,
        ..Case::new(name, measure::with(&plan, operation), Load::Closed)
            .at(figures::method(operation), number.to_string())
    });
    Setup {
        cases: cases.into(),
        fill: Some(plan),
        ..Setup::of(1, memory, &["--durability", "os"])
    }
}

fn table_bytes(done: &Done) -> f64 {
    done.sum("kvorum_store_level_bytes", "")
}

/// Bytes of values per second.
fn bytes_per_second(done: &Done) -> f64 {
    done.rate() * done.at.1.parse().unwrap_or(f64::NAN)
}

fn describe(page: &mut Page, sized: &[Done], stored: &[Done]) {
    const SIZED: &[Column] = &[
        RATE,
        ("bytes", |done| {
            format!("{}/s", units::bytes(bytes_per_second(done)))
        }),
        CPU,
        P99,
    ];
    for operation in OPERATIONS {
        let method = figures::method(operation);
        let of = |done: &&Done| done.at.0 == method;
        for (what, first, rows, columns) in [
            ("values", "value", sized, SIZED),
            ("keys", "keys", stored, &[RATE, CPU, P99]),
        ] {
            let name = format!("{}-{what}", method.to_lowercase());
            let rows = rows.iter().filter(of);
            figures::table(page, &name, &[first], &[columns], rows);
        }
    }
    let read = |done: &&Done| done.at.0 == "GET";
    figures::table(
        page,
        "stores",
        &["keys"],
        &[STORE],
        stored.iter().filter(read),
    );
    let axes = (
        Axis::logarithmic("value", Unit::Bytes),
        Axis::logarithmic("bytes of values per second", Unit::Bytes),
    );
    let title = "Throughput by the size of values";
    page.keep_chart(
        "values",
        figures::lines(title, axes, sized, bytes_per_second),
    );
    let axes = (
        Axis::logarithmic("keys", Unit::Count),
        Axis::linear("CPU time per request", Unit::Milliseconds),
    );
    let title = "CPU time per request, by the number of keys";
    let loads = || stored.iter().filter(|done| done.profile.is_none());
    page.keep_chart("keys", figures::lines(title, axes, loads(), Done::cpu_ms));
    figures::profiles(page, stored);
    page.data("runs", &[sized, stored]);
}
