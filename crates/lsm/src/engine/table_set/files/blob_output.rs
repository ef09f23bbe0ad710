//! How long values get into blob tables.

use super::{TableFiles, TableOutput};
use crate::error::Error;
use crate::manifest::BLOB_LEVEL;
use crate::record::{BlobReference, RecordRef};
use crate::table::Table;
use base::Kind;
use std::sync::Arc;

/// The blob tables that are written beside some tables, for the long values of these.
pub(crate) struct BlobOutput {
    /// Whether they are written through the system's memory.
    is_recent: bool,
    output: Option<TableOutput>,
    complete: Vec<Arc<Table>>,
}

impl BlobOutput {
    /// No blob table yet. `is_recent` says whether they are written through the system's memory.
    pub(crate) fn new(is_recent: bool) -> Self {
        Self {
            is_recent,
            output: None,
            complete: Vec::new(),
        }
    }

    /// Adds the next record to a table. Its value lies at `reference` and stays there; without one
    /// it is in the record, and goes to a blob table if it is long.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn add(
        &mut self,
        record: RecordRef<'_>,
        reference: Option<BlobReference>,
        table: &mut TableOutput,
        files: &TableFiles,
    ) -> Result<(), Error> {
        if let Some(reference) = reference {
            return table.add_reference(record, reference);
        }
        let entry = record.entry;
        let is_long = entry.kind() == Kind::Value && files.is_long(entry.value_bytes());
        if !is_long {
            return table.add(record);
        }
        let output = match &mut self.output {
            Some(output) => output,
            None => self.output.insert(files.create_blob(self.is_recent)?),
        };
        let reference = output.add_value(record)?;
        if output.file_bytes() >= files.table_bytes() {
            self.finish(files)?;
        }
        table.add_reference(record, reference)
    }

    /// Completes the blob table that is being written, if there is one, durably.
    ///
    /// # Errors
    /// As [`TableFiles::finish`].
    pub(crate) fn finish(&mut self, files: &TableFiles) -> Result<(), Error> {
        if let Some(output) = self.output.take() {
            self.complete.push(files.finish(output, BLOB_LEVEL)?);
        }
        Ok(())
    }

    /// What it has written so far, in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        let complete: u64 = self.complete.iter().map(|table| table.file_bytes()).sum();
        complete + self.output.as_ref().map_or(0, TableOutput::file_bytes)
    }

    /// New tables with their levels, and the blob tables beside them, which are complete.
    pub(crate) fn beside(self, tables: Vec<(usize, Arc<Table>)>) -> Vec<(usize, Arc<Table>)> {
        let blobs = self.complete.into_iter();
        blobs
            .map(|table| (BLOB_LEVEL, table))
            .chain(tables)
            .collect()
    }

    /// Removes all of it.
    pub(crate) fn abandon(&self, files: &TableFiles) {
        if let Some(output) = &self.output {
            files.abandon(output);
        }
        for table in &self.complete {
            files.remove(table.id());
        }
    }
}
