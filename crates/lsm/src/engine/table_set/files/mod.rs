//! The files of tables: how they are written, opened and removed.

mod blob_output;

pub(crate) use blob_output::BlobOutput;

use crate::cache::BlockCache;
use crate::disk::{Disk, DiskFile, FileCache};
use crate::error::Error;
use crate::manifest::{LEVELS, SetAsidePart};
use crate::options::{Environment, NonOwned, Options};
use crate::record::{BlobReference, RecordCursor, RecordRef};
use crate::table::{Table, TableSettings, TableWriter};
use crate::table_id::{TableId, lost_file_name, table_file_name};
use base::EntryRef;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The owner of the numbers and files of tables. It has no lock.
pub(crate) struct TableFiles {
    disk: Arc<dyn Disk>,
    /// The open ones.
    open: Arc<FileCache>,
    folder: PathBuf,
    cache: Arc<BlockCache>,
    settings: TableSettings,
    last_level_filters: bool,
    /// From how many bytes on a value is long; `None` if none is.
    blob_value_bytes_min: Option<usize>,
    table_bytes: u64,
    non_owned: Option<NonOwned>,
    /// The number of the next table.
    next: AtomicU64,
}

/// A table that is being written.
pub(crate) struct TableOutput {
    id: TableId,
    writer: TableWriter,
    non_owned: Option<NonOwned>,
    /// Whether it is written through the system's memory.
    is_recent: bool,
}

impl TableOutput {
    /// Adds the next record.
    ///
    /// # Errors
    /// Those of writing to the file.
    pub(crate) fn add(&mut self, record: RecordRef<'_>) -> Result<(), Error> {
        self.writer.add(record)?;
        self.count_non_owned(record.entry);
        Ok(())
    }

    /// Adds the next record, whose value lies in a blob table.
    ///
    /// # Errors
    /// Those of writing to the file.
    pub(crate) fn add_reference(
        &mut self,
        record: RecordRef<'_>,
        reference: BlobReference,
    ) -> Result<(), Error> {
        self.writer.add_reference(record, reference)?;
        self.count_non_owned(record.entry);
        Ok(())
    }

    /// Adds the next record with its value to a blob table. Returns where it lies.
    ///
    /// # Errors
    /// Those of writing to the file.
    pub(super) fn add_value(&mut self, record: RecordRef<'_>) -> Result<BlobReference, Error> {
        self.writer.add(record)?;
        let (offset, bytes) = self.writer.last_block();
        Ok(BlobReference {
            table: self.id,
            offset,
            bytes,
            value_bytes: record.entry.value_bytes().len() as u32,
        })
    }

    fn count_non_owned(&mut self, entry: EntryRef<'_>) {
        if self.non_owned.as_ref().is_some_and(|it| it.includes(entry)) {
            self.writer.count_non_owned(entry.timestamp());
        }
    }

    /// The key of the record that was added last.
    pub(crate) fn last_key(&self) -> &[u8] {
        self.writer.last_key()
    }

    /// The bytes written so far.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.writer.file_bytes()
    }
}

impl TableFiles {
    /// The files of a store whose next table gets the number `next`.
    pub(crate) fn new(
        environment: &Environment,
        options: &Options,
        open: Arc<FileCache>,
        cache: Arc<BlockCache>,
        next: TableId,
    ) -> Self {
        Self {
            disk: Arc::clone(&environment.disk),
            open,
            folder: environment.folder.clone(),
            cache,
            settings: TableSettings::from(options),
            last_level_filters: options.last_level_filters,
            blob_value_bytes_min: options.blob_value_bytes_min,
            table_bytes: options.table_bytes,
            non_owned: environment.non_owned.clone(),
            next: AtomicU64::new(next.0),
        }
    }

    /// The block cache of the tables.
    pub(crate) fn cache(&self) -> &BlockCache {
        &self.cache
    }

    /// The number that the next table gets.
    pub(crate) fn next(&self) -> TableId {
        TableId(self.next.load(Relaxed))
    }

    /// Starts the file of a new table whose records will be read soon.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Io`].
    pub(crate) fn create(&self) -> Result<TableOutput, Error> {
        self.create_by(true, |path| self.disk.create(path))
    }

    /// Starts the file of a new table with much that may be read seldom. It is written past
    /// the system's memory, and drives nothing out of it that is read often.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Io`].
    pub(crate) fn create_direct(&self) -> Result<TableOutput, Error> {
        self.create_by(false, |path| self.disk.create_direct(path))
    }

    /// Starts the file of a blob table.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Io`].
    pub(super) fn create_blob(&self, is_recent: bool) -> Result<TableOutput, Error> {
        let mut output = if is_recent {
            self.create()?
        } else {
            self.create_direct()?
        };
        output.writer = output.writer.with_single_records();
        Ok(output)
    }

    /// Whether a value goes to a blob table.
    pub(super) fn is_long(&self, value: &[u8]) -> bool {
        self.blob_value_bytes_min
            .is_some_and(|min| value.len() >= min)
    }

    /// The size at which the next table is started, in bytes.
    pub(super) fn table_bytes(&self) -> u64 {
        self.table_bytes
    }

    fn create_by(
        &self,
        is_recent: bool,
        create: impl FnOnce(&Path) -> io::Result<Arc<dyn DiskFile>>,
    ) -> Result<TableOutput, Error> {
        let id = TableId(self.next.fetch_add(1, Relaxed));
        let path = self.folder.join(table_file_name(id));
        let file = create(&path).map_err(|error| Error::io("create", &path, error))?;
        Ok(TableOutput {
            id,
            writer: TableWriter::create(file, &path, &self.settings),
            non_owned: self.non_owned.clone(),
            is_recent,
        })
    }

    /// The same, for a table of this level.
    ///
    /// # Errors
    /// As [`TableFiles::create_direct`].
    pub(crate) fn create_on(&self, level: usize) -> Result<TableOutput, Error> {
        let mut output = self.create_direct()?;
        if level == LEVELS - 1 && !self.last_level_filters {
            output.writer = output.writer.without_filter();
        }
        Ok(output)
    }

    /// Completes a table of a level, durably, and opens it. Its file is removed
    /// on an error.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Sync`], [`Error::Io`].
    pub(crate) fn finish(&self, output: TableOutput, level: usize) -> Result<Arc<Table>, Error> {
        let TableOutput { id, is_recent, .. } = output;
        let finish = || {
            output.writer.finish()?;
            self.disk
                .sync_folder(&self.folder)
                .map_err(|error| Error::sync(&self.folder, error))?;
            self.open(id, level, is_recent)
        };
        finish().inspect_err(|_| self.remove(id))
    }

    /// Writes all records of a cursor into one table of a level. Returns none
    /// if there are no records.
    ///
    /// # Errors
    /// Those of the cursor and of writing. The file is removed then.
    pub(crate) fn write(
        &self,
        mut records: impl RecordCursor,
        level: usize,
    ) -> Result<Option<Arc<Table>>, Error> {
        let mut output = None;
        let written = self.write_records(&mut records, &mut output);
        match (written, output) {
            (Ok(()), Some(output)) => self.finish(output, level).map(Some),
            (Ok(()), None) => Ok(None),
            (Err(error), output) => {
                if let Some(output) = &output {
                    self.abandon(output);
                }
                Err(error)
            }
        }
    }

    fn write_records(
        &self,
        records: &mut impl RecordCursor,
        output: &mut Option<TableOutput>,
    ) -> Result<(), Error> {
        while records.advance()? {
            let output = match output {
                Some(output) => output,
                None => output.insert(self.create()?),
            };
            // A value in a blob table stays there.
            if let Some(reference) = records.reference() {
                output.add_reference(records.record(), reference)?;
            } else {
                records.fetch_value()?;
                output.add(records.record())?;
            }
        }
        Ok(())
    }

    /// Gives up a table that is being written.
    pub(crate) fn abandon(&self, output: &TableOutput) {
        self.remove(output.id);
    }

    fn open(&self, id: TableId, level: usize, is_recent: bool) -> Result<Arc<Table>, Error> {
        let mut table = self.open_table(id, Some(level))?;
        if is_recent {
            table.set_recent();
        }
        Ok(Arc::new(table))
    }

    /// Opens the file of a table of which parts are set aside, for whoever reads them.
    ///
    /// # Errors
    /// Those of [`Table::open`], and [`Error::Io`].
    pub(crate) fn open_kept(&self, id: TableId, parts: Vec<SetAsidePart>) -> Result<Table, Error> {
        let table = self.open_table(id, None)?;
        Ok(table.showing_kept(parts))
    }

    fn open_table(&self, id: TableId, pinned_on: Option<usize>) -> Result<Table, Error> {
        let path = self.folder.join(table_file_name(id));
        let file = self
            .open
            .open(&path)
            .map_err(|error| Error::io("open", &path, error))?;
        Table::open(file, &path, id, Arc::clone(&self.cache), pinned_on)
    }

    /// Removes the file of a table that nobody has.
    pub(crate) fn remove(&self, id: TableId) {
        remove_table(&*self.disk, &self.folder.join(table_file_name(id)));
    }

    /// Keeps the file of a table that did not open, under another name: it may be readable
    /// another day, and may hold the only copy of something.
    pub(crate) fn move_lost_aside(&self, id: TableId) {
        let path = self.folder.join(table_file_name(id));
        let aside = self.folder.join(lost_file_name(id));
        match self.disk.rename(&path, &aside) {
            Ok(()) => tracing::warn!(
                file = %aside.display(),
                "a table that did not open was replaced by repairs from the other nodes. Its file \
                 is kept under this name: remove it if nothing is missing"
            ),
            Err(error) => tracing::warn!(
                %error,
                file = %path.display(),
                "could not rename a table that did not open; the next start removes it"
            ),
        }
    }
}

/// Removes the file of a table.
pub(super) fn remove_table(disk: &dyn Disk, path: &Path) {
    if let Err(error) = disk.remove(path) {
        tracing::warn!(
            %error,
            file = %path.display(),
            "could not remove a table that is not needed any more; the next start will"
        );
    }
}
