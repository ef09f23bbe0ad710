//! A table of a page.

use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// A table whose first column contains words and whose other columns contain
/// numbers.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct MarkdownTable {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl MarkdownTable {
    /// A table without rows.
    pub(crate) fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Self {
            head: head.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a column on the right.
    pub(crate) fn column(&mut self, head: &str, cells: impl IntoIterator<Item = String>) {
        self.head.push(head.to_owned());
        for (row, cell) in self.rows.iter_mut().zip(cells) {
            row.push(cell);
        }
    }

    /// Adds a row; missing cells at its end stay empty.
    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The cell of the first row with this name. The names of further columns, joined by
    /// commas, tell rows apart that begin alike. `first` and `last` are rows, too.
    pub(crate) fn cell(&self, row: &str, column: &str) -> Option<&str> {
        let column = self.head.iter().position(|head| head == column)?;
        let is_it =
            |cells: &&Vec<String>| (1..=cells.len()).any(|first| cells[..first].join(", ") == row);
        let row = match row {
            "first" => self.rows.first(),
            "last" => self.rows.last(),
            _ => self.rows.iter().find(is_it),
        };
        row?.get(column).map(|cell| &**cell)
    }

    /// The table in Markdown, with columns as wide as their longest cell.
    pub(crate) fn markdown(&self) -> String {
        let cells = |row: &[String]| -> Vec<String> {
            let escaped = row.iter().map(|cell| escape(cell));
            let missing = self.head.len().saturating_sub(row.len());
            escaped
                .chain(std::iter::repeat_n(String::new(), missing))
                .collect()
        };
        let head = cells(&self.head);
        let rows: Vec<Vec<String>> = self.rows.iter().map(|row| cells(row)).collect();
        let width = |column: usize| {
            let all = std::iter::once(&head).chain(&rows);
            let widths = all.filter_map(|row| Some(row.get(column)?.chars().count()));
            widths.max().unwrap_or(0).max(3)
        };
        let mut text = String::new();
        let mut line = |row: &[String]| {
            for (column, cell) in row.iter().enumerate() {
                let width = width(column);
                // Writing to a string does not fail.
                let _ = if column == 0 {
                    write!(text, "| {cell:<width$} ")
                } else {
                    write!(text, "| {cell:>width$} ")
                };
            }
            text.push_str("|\n");
        };
        line(&head);
        let rule = (0..head.len()).map(|column| match column {
            0 => "-".repeat(width(column)),
            _ => format!("{}:", "-".repeat(width(column) - 1)),
        });
        line(&rule.collect::<Vec<_>>());
        for row in &rows {
            line(row);
        }
        text
    }
}

/// Escapes characters that would end a cell.
fn escape(cell: &str) -> String {
    cell.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_bars_escaped() {
        let mut table = MarkdownTable::new(["filter", "breaking point"]);
        table.row(["none", "7.3k/s"]);
        table.row(["a|b", "1"]);
        table.row(["alone"]);
        let expected = "\
| filter | breaking point |
| ------ | -------------: |
| none   |         7.3k/s |
| a\\|b   |              1 |
| alone  |                |
";
        assert_eq!(table.markdown(), expected);
    }
}
