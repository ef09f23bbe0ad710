//! The text of a page, which a person wrote, around the results of a run.
//!
//! A template is Markdown. What stands between `{{` and `}}` is filled in:
//!
//! ```text
//! {{machine}} {{bound}} {{command}} {{begun}} {{commit}}   about the run
//! {{table NAME}}                     a table
//! {{chart NAME CAPTION}}             a picture; its file lies beside the page
//! {{failed}}                         what could not be measured; mostly nothing
//! {{FIGURE}}                         a value, or the cell of a table: NAME > ROW > COLUMN, where
//!                                    `first` and `last` are rows, too
//! {{times FIGURE : FIGURE}}          their quotient: 3.42
//! {{share FIGURE : FIGURE}}          the same in percent: 34%
//! {{greater NUMBER : FIGURE : FIGURE}}  their quotient beside an earlier store's, where a greater one
//! {{smaller NUMBER : FIGURE : FIGURE}}  or a smaller one is better: better, alike or worse
//! ```
//!
//! Where something could not be measured, a figure that is missing is a dash.

use super::{MarkdownTable, text};
use load::report::units;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Ratios that differ by less than this share count as alike, because runs on a
/// noisy machine differ as much.
const ALIKE: f64 = 0.1;

/// What a run found out, and all that a page is made of beside its text and its pictures.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Results {
    /// The command line that wrote the page.
    pub(crate) command: String,
    /// When it began.
    pub(crate) begun: String,
    /// The commit of what it measured.
    pub(crate) commit: String,
    /// When a rate counts as held, a sentence.
    pub(crate) bound: String,
    /// The machine, a line each.
    pub(crate) machine: Vec<String>,
    /// Figures that stand in no table.
    #[serde(default)]
    pub(crate) values: BTreeMap<String, String>,
    /// The tables by name.
    pub(crate) tables: BTreeMap<String, MarkdownTable>,
    /// What could not be measured, and why.
    #[serde(default)]
    pub(crate) failed: Vec<String>,
}

/// Fills a template in. `page` is the name of the page, and of the folder of its pictures.
///
/// # Errors
/// What the template names and the results do not have.
pub(crate) fn render(template: &str, page: &str, results: &Results) -> Result<String, String> {
    let mut markdown = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (wanted, after) = after
            .split_once("}}")
            .ok_or_else(|| format!("{{{{ without }}}}: {after:.40}"))?;
        markdown.push_str(before);
        let filled = results
            .fill(wanted.trim(), page)
            .ok_or_else(|| format!("the results have no {{{{{wanted}}}}}"))?;
        if filled.is_empty() && after.starts_with("\n\n") {
            rest = after.trim_start_matches('\n');
        } else {
            markdown.push_str(&filled);
            rest = after;
        }
    }
    markdown.push_str(rest);
    Ok(markdown)
}

impl Results {
    fn fill(&self, wanted: &str, page: &str) -> Option<String> {
        let (word, rest) = wanted.split_once(' ').unwrap_or((wanted, ""));
        let quotient = |figures: &str| {
            let (dividend, divisor) = figures.split_once(" : ")?;
            Some(self.number(dividend)? / self.number(divisor)?)
        };
        Some(match (word, rest) {
            ("machine", "") => list(&self.machine),
            ("bound", "") => self.bound.clone(),
            ("command", "") => self.command.clone(),
            ("begun", "") => self.begun.clone(),
            ("commit", "") => self.commit.clone(),
            ("failed", "") if self.failed.is_empty() => String::new(),
            ("failed", "") => format!("Not measured:\n\n{}", list(&self.failed)),
            ("table", _) => match self.tables.get(rest) {
                None if self.failed.is_empty() => return None,
                table => {
                    table.map_or_else(String::new, |table| table.markdown().trim_end().to_owned())
                }
            },
            ("chart", _) => {
                let (name, caption) = rest.split_once(' ')?;
                format!("[![{caption}]({page}/{name}.svg)]({page}/{name}.svg)")
            }
            ("times", _) => text::ratio(quotient(rest)?),
            ("share", _) => text::percent(quotient(rest)?),
            ("greater" | "smaller", _) => {
                let (earlier, figures) = rest.split_once(" : ")?;
                let (earlier, ours) = (earlier.parse().ok()?, quotient(figures)?);
                verdict(earlier, ours, word == "greater").to_owned()
            }
            _ => self.figure(wanted)?.to_owned(),
        })
    }

    fn figure(&self, name: &str) -> Option<&str> {
        let missing = (!self.failed.is_empty()).then_some(units::NONE);
        self.measured(name).or(missing)
    }

    fn measured(&self, name: &str) -> Option<&str> {
        if let Some(value) = self.values.get(name) {
            return Some(value);
        }
        let mut parts = name.split(" > ");
        let (table, row, column) = (parts.next()?, parts.next()?, parts.next()?);
        self.tables.get(table)?.cell(row, column)
    }

    /// A figure as a number; not a number if it was not measured.
    fn number(&self, name: &str) -> Option<f64> {
        if let Ok(number) = name.parse() {
            return Some(number);
        }
        Some(parse(self.figure(name)?).unwrap_or(f64::NAN))
    }
}

fn list(items: &[String]) -> String {
    let lines: Vec<String> = items.iter().map(|item| format!("- {item}")).collect();
    lines.join("\n")
}

/// Our ratio beside an earlier store's, in a word.
fn verdict(earlier: f64, ours: f64, is_greater_better: bool) -> &'static str {
    let better = if is_greater_better {
        ours - earlier
    } else {
        earlier - ours
    };
    if !ours.is_finite() {
        "not measured"
    } else if better.abs() <= ALIKE * earlier.abs() {
        "alike"
    } else if better > 0.0 {
        "better"
    } else {
        "worse"
    }
}

/// The number of a figure such as `9,774/s`, `697 us` or `23%`, in the base unit of its kind.
fn parse(figure: &str) -> Option<f64> {
    let end = figure
        .find(|sign: char| !(sign.is_ascii_digit() || [',', '.', '-'].contains(&sign)))
        .unwrap_or(figure.len());
    let (number, unit) = figure.split_at(end);
    let number: f64 = number.replace(',', "").parse().ok()?;
    Some(match unit.trim() {
        "us" => number * 1e-6,
        "ms" => number * 1e-3,
        "%" => number / 100.0,
        "KiB" | "KiB/s" => number * 1024.0,
        "MiB" | "MiB/s" => number * 1024f64.powi(2),
        "GiB" | "GiB/s" => number * 1024f64.powi(3),
        "min" => number * 60.0,
        _ => number,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let mut table = MarkdownTable::new(["load", "rate", "p99"]);
        table.row(["PUT", "9,000/s", "500 us"]);
        table.row(["GET", "4,500/s", "2.00 ms"]);
        Results {
            machine: vec!["fast".to_owned()],
            values: BTreeMap::from([("flushes".to_owned(), "148".to_owned())]),
            tables: BTreeMap::from([("rates".to_owned(), table)]),
            ..Results::default()
        }
    }

    #[test]
    fn text_is_filled_in() {
        for (template, expected) in [
            ("plain", "plain"),
            ("a {{flushes}} b", "a 148 b"),
            ("{{machine}}", "- fast"),
            ("{{rates > PUT > rate}}", "9,000/s"),
            ("{{rates > last > rate}}", "4,500/s"),
            ("{{times rates > PUT > rate : rates > GET > rate}}", "2.00"),
            ("{{times rates > GET > p99 : rates > PUT > p99}}", "4.00"),
            ("{{share rates > GET > rate : rates > PUT > rate}}", "50%"),
            (
                "{{greater 1.5 : rates > PUT > rate : rates > GET > rate}}",
                "better",
            ),
            (
                "{{smaller 1.5 : rates > PUT > rate : rates > GET > rate}}",
                "worse",
            ),
            (
                "{{greater 1.9 : rates > PUT > rate : rates > GET > rate}}",
                "alike",
            ),
            (
                "{{chart cpu CPU time}}",
                "[![CPU time](p/cpu.svg)](p/cpu.svg)",
            ),
            ("a\n\n{{failed}}\n\nb", "a\n\nb"),
        ] {
            assert_eq!(
                render(template, "p", &results()).as_deref(),
                Ok(expected),
                "{template}"
            );
        }
        let table = render("{{table rates}}", "p", &results()).unwrap();
        assert!(table.starts_with("| load |"), "{table}");
    }

    #[test]
    fn what_the_results_do_not_have_is_named() {
        for template in ["{{table other}}", "{{nothing}}", "{{rates > PUT > p50}}"] {
            let error = render(template, "p", &results()).unwrap_err();
            assert!(error.contains(template), "{error}");
        }
    }

    #[test]
    fn what_failed_is_listed_and_its_ratios_are_not_measured() {
        let mut results = results();
        results.failed.push("PUT: refused".to_owned());
        let mut table = MarkdownTable::new(["load", "rate"]);
        table.row(["PUT", units::NONE]);
        results.tables.insert("rates".to_owned(), table);
        let template = "{{failed}}\n\n{{greater 2 : rates > PUT > rate : 1}}, {{gone}}";
        assert_eq!(
            render(template, "p", &results).unwrap(),
            format!(
                "Not measured:\n\n- PUT: refused\n\nnot measured, {}",
                units::NONE
            )
        );
    }
}
