//! The results of a part: a file with a line of JSON for each measurement, so
//! that a run that is ended early keeps what it has.

use crate::part::Part;
use crate::store::Failure;
use crate::task::Measurement;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where a part's results are.
fn path(folder: &Path, part: Part) -> PathBuf {
    folder.join(format!("{}.jsonl", part.name()))
}

/// Takes the results of a part.
pub struct Writer {
    file: File,
}

impl Writer {
    /// Begins anew.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn create(folder: &Path, part: Part) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder)?;
        Ok(Self {
            file: File::create(path(folder, part))?,
        })
    }

    /// Adds one.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn add(&mut self, measurement: &Measurement) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(measurement)?;
        line.push(b'\n');
        Ok(self.file.write_all(&line)?)
    }
}

/// The results of a part; none if it was not run.
///
/// # Errors
/// Those of the file system, and a line that is no measurement.
pub fn read(folder: &Path, part: Part) -> Result<Vec<Measurement>, Failure> {
    let path = path(folder, part);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("cannot read {}: {error}", path.display()).into()),
    };
    let measurement = |(number, line)| {
        serde_json::from_str(line).map_err(|error| {
            let number: usize = number + 1;
            format!("{}, line {number}: {error}", path.display()).into()
        })
    };
    text.lines().enumerate().map(measurement).collect()
}
