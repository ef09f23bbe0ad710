//! Texts in columns.

/// The widest column of a table, in characters. A text may come from a node and have any
/// length, and formatting panics at widths beyond 16 bits.
pub const COLUMN_WIDTH_MAX: usize = 200;

/// On which side of a column its cells stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// All on the left: texts.
    Left,
    /// The first on the left, all others on the right: a name and its figures.
    NameAndFigures,
}

/// The lines of a table, without spaces at their ends.
pub fn lines_of<const N: usize>(columns: Columns, rows: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or_default().min(COLUMN_WIDTH_MAX)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).enumerate();
        let cells: Vec<String> = cells
            .map(|(index, (cell, width))| match columns {
                Columns::NameAndFigures if index > 0 => format!("{cell:>width$}"),
                _ => format!("{cell:width$}"),
            })
            .collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["", "rate"], ["put", "7/s"], ["é and more", ""]];
        let rows = rows.map(|row| row.map(str::to_owned));
        assert_eq!(
            lines_of(Columns::Left, &rows),
            ["            rate", "put         7/s", "é and more"]
        );
        assert_eq!(
            lines_of(Columns::NameAndFigures, &rows),
            ["            rate", "put          7/s", "é and more"]
        );
        let long = ["x".repeat(100_000), "y".to_owned()];
        assert_eq!(lines_of(Columns::Left, &[long])[0].len(), 100_003);
    }
}
