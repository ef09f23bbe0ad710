//! One node under load over one connection and over many.

use crate::context::ExperimentContext;
use crate::figures::{self, CAPACITY, LATENCIES, RATE};
use crate::measure;
use crate::measure::matrix::{self, Case, Done, Load, Setup, share};
use crate::measure::profile::{FILTERS, ProfileKind, StackMatcher};
use crate::page::{Page, text};
use crate::{Error, Experiment};
use load::plan::{Operation, Plan};

/// The stable load as a share of the breaking point, as it was for the earlier store: 30,000 of 40,000 to
/// 45,000 requests per second.
const STABLE_SHARE: f64 = 30.0 / 42.5;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: include_str!("single.md"),
    name: "single",
    run,
};

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let plan = measure::plan(context, Operation::Put);
    let mut setup = Setup {
        fill: Some(plan.clone()),
        ..Setup::of(
            1,
            "1GiB",
            &["--durability", "os", "--memtable-bytes", "4MiB"],
        )
    };
    for operation in [Operation::Put, Operation::Get] {
        let method = figures::method(operation);
        for (connections, plural) in [(1, ""), (64, "s")] {
            let name = format!("{method}, {connections} connection{plural}");
            let plan = Plan {
                connections,
                ..measure::with(&plan, operation)
            };
            let stable = || share(STABLE_SHARE, &*name, Done::breaking_point);
            let longer = Plan {
                seconds: context.effort().pick(0.5, 8.0, 30.0),
                ..plan.clone()
            };
            setup.cases.extend([
                Case::new(&*name, plan.clone(), Load::BreakingPoint).at("capacity", &*name),
                Case::new(&*name, longer, Load::At(stable())).at("stable", &*name),
            ]);
            if connections == 64 {
                for kind in [ProfileKind::Cpu, ProfileKind::Alloc] {
                    let file = format!("{}-{}", method.to_lowercase(), kind.name());
                    let profile = Case::profile(file, method, plan.clone(), kind, Some(stable()));
                    setup.cases.push(profile);
                }
            }
        }
    }
    let done = matrix::run(context, [setup])?;
    describe(page, &done);
    Ok(())
}

fn describe(page: &mut Page, done: &[Done]) {
    let of = |series: &'static str| done.iter().filter(move |done| done.at.0 == series);
    figures::table(page, "measured", &["load"], &[CAPACITY], of("capacity"));
    let columns = [&[RATE], LATENCIES];
    figures::table(
        page,
        "at-the-stable-load",
        &["load"],
        &columns,
        of("stable"),
    );
    page.keep_chart("latency", figures::percentiles(of("stable")));
    figures::profiles(page, done);
    let flushes = of("stable").map(|done| done.sum("kvorum_store_flushes_total", ""));
    page.keep_value("flushes", text::count(flushes.fold(0.0, f64::max)));
    for (name, file, frames) in [
        ("flushes' share", "put-cpu", StackMatcher::Thread("flush")),
        ("filters' share", "get-alloc", StackMatcher::Named(FILTERS)),
    ] {
        let mut taken = done.iter().filter(|done| done.names[0] == file);
        let profile = taken
            .next()
            .and_then(|done| done.profile.as_ref()?.as_ref().ok());
        let share = profile.map_or(f64::NAN, |profile| profile.share(frames));
        page.keep_value(name, text::percent(share));
    }
    page.data("runs", &done);
}
