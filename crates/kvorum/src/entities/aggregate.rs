//! `kvorum scan --count --by EXPR`, `--sum EXPR` and their like: what the nodes compute of the entities
//! of a range.

use super::outcome::failure_of;
use super::output::{print_json, stdout};
use crate::failure::Failure;
use crate::text;
use clap::Args;
use client::{Aggregates, Client, Operand, ScanRequest, percent_form};
use query::{Aggregation, AggregationError, OPERANDS_MAX, Operation, Plan};
use serde_json::Value;
use std::io::{self, Write as _};

/// Options that say how entities are printed.
const OF_ENTITIES: [&str; 3] = ["values_omit", "limit", "delimiter"];

/// What is computed of entities, instead of printing them.
#[derive(Args, Clone, Debug)]
pub(super) struct AggregateOptions {
    /// Make groups of the entities for which EXPR has the same value; may be repeated
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true, conflicts_with_all = OF_ENTITIES, help_heading = "Aggregates")]
    by: Vec<String>,
    /// Print the sum of EXPR, of each group; may be repeated
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true, conflicts_with_all = OF_ENTITIES, help_heading = "Aggregates")]
    sum: Vec<String>,
    /// Print the least value of EXPR, of each group; may be repeated
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true, conflicts_with_all = OF_ENTITIES, help_heading = "Aggregates")]
    min: Vec<String>,
    /// Print the greatest value of EXPR, of each group; may be repeated
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true, conflicts_with_all = OF_ENTITIES, help_heading = "Aggregates")]
    max: Vec<String>,
}

impl AggregateOptions {
    /// Whether nothing is computed.
    pub(super) fn is_empty(&self) -> bool {
        self.by.is_empty() && self.operands().next().is_none()
    }

    /// What is computed of each group, in the order in which it is printed.
    fn operands(&self) -> impl Iterator<Item = (Operation, &String)> {
        let sums = self.sum.iter().map(|text| (Operation::Sum, text));
        let least = self.min.iter().map(|text| (Operation::Min, text));
        let greatest = self.max.iter().map(|text| (Operation::Max, text));
        sums.chain(least).chain(greatest)
    }
}

/// Checks the expressions before a node is asked, and points at the place that is wrong.
///
/// # Errors
/// A wrong expression, or options that do not go together.
pub(super) fn check(
    condition: Option<&str>,
    options: &AggregateOptions,
    is_counted: bool,
) -> Result<(), Failure> {
    if !options.by.is_empty() && options.operands().next().is_none() && !is_counted {
        return Err(Failure::usage(
            "--by makes groups of what --count, --sum, --min or --max computes: add one of them",
        ));
    }
    let plan = Plan {
        condition,
        by: options.by.iter().map(String::as_str).collect(),
        operands: options
            .operands()
            .map(|(operation, text)| (operation, text.as_str()))
            .collect(),
    };
    let Err(error) = Aggregation::compile(&plan) else {
        return Ok(());
    };
    let (option, wrong) = match error {
        AggregationError::Condition(wrong) => ("where".to_owned(), wrong),
        AggregationError::By(wrong) => ("by".to_owned(), wrong),
        AggregationError::Operand(operation, wrong) => (operation.to_string(), wrong),
        _ => {
            return Err(Failure::usage(format!(
                "more than {OPERANDS_MAX} of --by, or of --sum, --min and --max: ask several times"
            )));
        }
    };
    text::report_line(&wrong.line);
    text::report_line(&format!("{:1$}^", "", wrong.column));
    Err(Failure::usage(format!("--{option}: {}", wrong.problem)))
}

/// Has a node compute, and prints the groups.
///
/// # Errors
/// See `outcome`.
pub(super) async fn run(
    client: &Client,
    request: &ScanRequest,
    options: &AggregateOptions,
    is_counted: bool,
    json: bool,
) -> Result<(), Failure> {
    let operands = options.operands().map(|(operation, text)| match operation {
        Operation::Sum => Operand::Sum(text.clone()),
        Operation::Min => Operand::Min(text.clone()),
        Operation::Max => Operand::Max(text.clone()),
    });
    let operands: Vec<Operand> = operands.collect();
    let answer = client.aggregate(request, &options.by, &operands).await;
    let answer = answer.map_err(|error| failure_of(&error))?;
    if json {
        return print_json(&answer);
    }
    stdout().print(lines(&answer, is_counted).as_bytes())?;
    // Over how many keys this is, beside the groups that another program may read.
    let (keys, matched) = (units::count(answer.keys), units::count(answer.matched));
    let line = text::of_lines([format!("{matched} of {keys} entities match")]);
    let _ = io::stderr().write_all(line.as_bytes());
    Ok(())
}

/// A line for each group: its values, its count if that is asked for, and what was computed.
fn lines(answer: &Aggregates, is_counted: bool) -> String {
    let groups = answer.groups.iter().map(|group| {
        let results = group.aggregates.iter().map(|result| &result.value);
        let mut cells: Vec<String> = group.by.iter().map(cell).collect();
        if is_counted {
            cells.push(group.count.to_string());
        }
        cells.extend(results.map(cell));
        cells.join("\t") + "\n"
    });
    groups.collect()
}

/// A value in a line: a text as keys are written, everything else as JSON.
fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => percent_form(text.as_bytes()),
        other => other.to_string(),
    }
}
