//! Which measured loads are failures of the command.
//!
//! A node that refuses requests under overload is a result, not a failure.
//! Wrong values, a load that ended early, a load without any success, and a
//! token without the right are failures.

use cli::access;
use cli::failure::Failure;
use load::results::{BreakingPoint, Run, WRONG_VALUE};

/// Fails if something is wrong with a run.
pub(super) fn of_run(run: &Run) -> Result<(), Failure> {
    if let Some(wrong) = run.failed.get(WRONG_VALUE) {
        return Err(Failure::failed(format!(
            "{wrong} responses held a value that was never put under their key: the store, or what lies between, is at fault"
        )));
    }
    if let Some(why) = &run.cut_short {
        return Err(Failure::failed(format!("the load ended early: {why}")));
    }
    if run.succeeded == 0 {
        let why = if run.failed.is_empty() {
            "there was no response".to_owned()
        } else {
            reasons(run)
        };
        return Err(failure(run, format!("no request succeeded: {why}")));
    }
    Ok(())
}

/// Fails if something is wrong with a fill.
pub(super) fn of_fill(run: &Run) -> Result<(), Failure> {
    let failed: u64 = run.failed.values().sum();
    if failed > 0 {
        let why = reasons(run);
        return Err(failure(
            run,
            format!("{failed} keys could not be put: {why}"),
        ));
    }
    of_run(run)
}

/// Fails if something is wrong with a search.
pub(super) fn of_search(found: &BreakingPoint) -> Result<(), Failure> {
    match &found.cut_short {
        Some(why) => Err(Failure::failed(format!("the search ended early: {why}"))),
        None if found.rate.is_none() => Err(Failure::failed(
            "no rate held: start at a lower --rate, or allow a greater --p99",
        )),
        None => Ok(()),
    }
}

/// The failure of a run, which says so if its token is the reason.
fn failure(run: &Run, line: String) -> Failure {
    let mut refusals = [401, 403].into_iter();
    let refusal = refusals.find(|status| run.failed.contains_key(&status.to_string()));
    match refusal {
        Some(status) => access::refused(status, line),
        // Other statuses than a node's, or the page of another server instead of a value.
        None if run.failed.keys().any(|why| why.starts_with('2')) => Failure::failed(line)
            .with_more("no Kvorum node answers like this: check that --url names one"),
        None => Failure::failed(line),
    }
}

fn reasons(run: &Run) -> String {
    let failed = run.failed.iter();
    let reasons: Vec<String> = failed
        .map(|(why, count)| format!("{count} × {why}"))
        .collect();
    reasons.join(", ")
}
