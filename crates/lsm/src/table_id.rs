//! The identity of a table, and the name of its file.

/// The number of a table. A store never uses a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TableId(pub(crate) u64);

/// A table of a snapshot of a store: an immutable file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotTable {
    /// Its number, which the store never uses for another table.
    pub number: u64,
    /// The length of its file in bytes.
    pub bytes: u64,
}

/// The name of a table's file in the store's folder.
pub(crate) fn table_file_name(id: TableId) -> String {
    format!("table-{:016x}.sst", id.0)
}

/// The name of the file of a table that did not open, once the store needs it no more.
pub(crate) fn lost_file_name(id: TableId) -> String {
    format!("{}.lost", table_file_name(id))
}

/// The table whose file has this name; `None` if the name is not a table's.
pub(crate) fn parse_table_file_name(name: &str) -> Option<TableId> {
    let digits = name.strip_prefix("table-")?.strip_suffix(".sst")?;
    let id = TableId(u64::from_str_radix(digits, 16).ok()?);
    // The parser also accepts a sign, capitals and fewer digits: refuse them.
    (table_file_name(id) == name).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_come_back_and_others_are_none() {
        assert_eq!(table_file_name(TableId(1)), "table-0000000000000001.sst");
        for id in [0, 1, 0xabc, u64::MAX] {
            assert_eq!(
                parse_table_file_name(&table_file_name(TableId(id))),
                Some(TableId(id))
            );
        }
        for name in [
            "",
            "table-1.sst",
            "table-0000000000000001.sst.tmp",
            "table-+000000000000001.sst",
            "table-000000000000000A.sst",
            "table-00000000000000001.sst",
            "wal-0000000000000001.sst",
        ] {
            assert_eq!(parse_table_file_name(name), None, "{name}");
        }
    }
}
