//! A table in Markdown with a row for each workload and a column for each engine.

use crate::store::EngineName;
use crate::task::{Measurement, Task, Workload};

/// Which of two figures is the better one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The higher.
    Higher,
    /// The lower.
    Lower,
}

impl Better {
    /// The best of some figures.
    pub fn best(self, figures: impl Iterator<Item = f64>) -> Option<f64> {
        match self {
            Self::Higher => figures.max_by(f64::total_cmp),
            Self::Lower => figures.min_by(f64::total_cmp),
        }
    }
}

/// The measurements of one workload on the same terms.
pub struct Row<'a> {
    /// The name of the workload.
    pub name: String,
    measurements: Vec<&'a Measurement>,
}

/// The rows of a part's results, in the order in which they were measured.
pub fn rows(measurements: &[Measurement]) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for measurement in measurements {
        let name = name(&measurement.task);
        match rows.iter_mut().find(|row| row.name == name) {
            Some(row) => row.measurements.push(measurement),
            None => rows.push(Row {
                name,
                measurements: vec![measurement],
            }),
        }
    }
    rows
}

fn name(task: &Task) -> String {
    let Task {
        threads,
        value_bytes,
        ..
    } = task;
    let threads = match threads {
        1 => "1 thread".to_owned(),
        threads => format!("{threads} threads"),
    };
    match (task.workload, task.durability) {
        (_, crate::store::Durability::Sync) => {
            format!("random keys, {value_bytes} B, {threads}")
        }
        (Workload::FillSequential, _) => format!("fill, keys in order, {threads}"),
        (Workload::FillBatch, _) => {
            format!("fill, random keys, {} a call, {threads}", Workload::BATCH)
        }
        (Workload::FillRandom, _) => format!("fill, random keys, {threads}"),
        (Workload::Overwrite, _) => format!("overwrite random keys, {threads}"),
        (Workload::Read, _) => format!("read random keys, {threads}"),
        (Workload::ReadHot, _) => format!("read keys that fit the cache, {threads}"),
        (Workload::ReadMissing, _) => format!("read missing keys, {threads}"),
        (Workload::Scan, _) => format!("scan all, {threads}"),
        (Workload::Range, _) => format!("ranges of {}, {threads}", Workload::RANGE),
    }
}

impl Row<'_> {
    /// Whether the workload writes.
    pub fn writes(&self) -> bool {
        self.measurements
            .iter()
            .all(|measurement| measurement.task.workload.writes())
    }

    /// Whether latencies were measured for its calls.
    pub fn has_latencies(&self) -> bool {
        self.measurements
            .iter()
            .all(|measurement| measurement.latency.is_some())
    }

    /// How many keys the store has, unless time ends the workload.
    pub fn keys(&self) -> u64 {
        self.measurements
            .first()
            .map_or(0, |measurement| measurement.task.keys)
    }

    /// The median over the rounds; `None` if the engine was not measured.
    pub fn median(&self, engine: EngineName, figure: impl Fn(&Measurement) -> f64) -> Option<f64> {
        let of_engine = self
            .measurements
            .iter()
            .filter(|measurement| measurement.task.engine == engine);
        median(of_engine.map(|measurement| figure(measurement)).collect())
    }
}

fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    let upper = *figures.get(middle)?;
    Some(match figures.len() % 2 {
        0 => (figures[middle - 1] + upper) / 2.0,
        _ => upper,
    })
}

/// A table of one figure: its medians, and Kvorum's beside the better of the others.
pub fn of_figure(
    rows: &[&Row<'_>],
    better: Better,
    figure: impl Fn(&Measurement) -> f64,
    write: impl Fn(f64) -> String,
) -> String {
    let rows = rows.iter().map(|row| {
        let medians = EngineName::ALL.map(|engine| row.median(engine, &figure));
        let mut cells = medians
            .map(|median| median.map_or(String::new(), &write))
            .to_vec();
        cells.push(ratio(medians, better).map_or(String::new(), |ratio| format!("{ratio:.2}")));
        (row.name.as_str(), cells)
    });
    markdown(&["Kvorum beside the better"], rows)
}

/// A table with several figures in a cell, which have no ratio.
pub fn of_text(rows: &[&Row<'_>], cell: impl Fn(&Row<'_>, EngineName) -> String) -> String {
    let rows = rows.iter().map(|row| {
        let cells = EngineName::ALL.map(|engine| cell(row, engine));
        (row.name.as_str(), cells.to_vec())
    });
    markdown(&[], rows)
}

/// Kvorum's figure over the better of the others.
fn ratio(medians: [Option<f64>; 3], better: Better) -> Option<f64> {
    let [ours, others @ ..] = medians;
    let best = better.best(others.into_iter().flatten())?;
    Some(ours? / best)
}

fn markdown<'a>(more: &[&str], rows: impl Iterator<Item = (&'a str, Vec<String>)>) -> String {
    let engines = EngineName::ALL.map(|engine| engine.to_string());
    let heads = engines
        .iter()
        .map(String::as_str)
        .chain(more.iter().copied());
    let heads: Vec<&str> = heads.collect();
    let mut text = format!("| workload | {} |\n|---|", heads.join(" | "));
    text.push_str(&"---:|".repeat(heads.len()));
    text.push('\n');
    for (name, cells) in rows {
        text.push_str(&format!("| {name} | {} |\n", cells.join(" | ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0, 4.0]), Some(3.0));
    }

    #[test]
    fn a_ratio_is_against_the_better_of_the_others() {
        let medians = [Some(6.0), Some(2.0), Some(3.0)];
        assert_eq!(ratio(medians, Better::Higher), Some(2.0));
        assert_eq!(ratio(medians, Better::Lower), Some(3.0));
        assert_eq!(
            ratio([Some(6.0), None, Some(3.0)], Better::Lower),
            Some(2.0)
        );
        assert_eq!(ratio([None, Some(2.0), None], Better::Lower), None);
    }

    #[test]
    fn rows_come_in_the_order_of_measurement_and_hold_all_rounds() {
        let measurement = |engine, workload, operations| Measurement {
            task: Task {
                engine,
                workload,
                durability: crate::store::Durability::Os,
                value_bytes: 100,
                keys: 10,
                threads: 1,
                seconds_max: 1.0,
                round: 0,
                folder: "folder".into(),
            },
            operations,
            seconds: 1.0,
            cpu_seconds: 1.0,
            settled_seconds: 1.0,
            settled_cpu_seconds: 1.0,
            written_bytes: 1,
            data_bytes: 1,
            disk_bytes: 1,
            memory_bytes_peak: 1,
            latency: None,
        };
        let measurements = [
            measurement(EngineName::Kvorum, Workload::Scan, 30),
            measurement(EngineName::RocksDb, Workload::Scan, 20),
            measurement(EngineName::Kvorum, Workload::Read, 7),
            measurement(EngineName::Kvorum, Workload::Scan, 50),
        ];
        let rows = rows(&measurements);
        let rows: Vec<&Row<'_>> = rows.iter().collect();
        let table = of_figure(&rows, Better::Higher, Measurement::rate, |rate| {
            format!("{rate:.0}")
        });
        assert_eq!(
            table,
            "| workload | Kvorum | RocksDB | fjall | Kvorum beside the better |\n\
             |---|---:|---:|---:|---:|\n\
             | scan all, 1 thread | 40 | 20 |  | 2.00 |\n\
             | read random keys, 1 thread | 7 |  |  |  |\n"
        );
    }
}
