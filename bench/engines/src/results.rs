//! The results of a part: a file with a line of JSON for each measurement, so that a run
//! that ends early keeps its measurements.

use crate::part::Part;
use crate::store::Failure;
use crate::task::Measurement;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The path of a part's results.
fn path(folder: &Path, part: Part) -> PathBuf {
    folder.join(format!("{}.jsonl", part.name()))
}

/// Writes the results of a part.
pub struct Writer {
    file: File,
}

impl Writer {
    /// An empty file, in place of earlier results.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn create(folder: &Path, part: Part) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder)?;
        Ok(Self {
            file: File::create(path(folder, part))?,
        })
    }

    /// Adds a measurement.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn add(&mut self, measurement: &Measurement) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(measurement)?;
        line.push(b'\n');
        Ok(self.file.write_all(&line)?)
    }
}

/// The results of a part; empty if the part never ran.
///
/// # Errors
/// Those of the file system, and a line that is not a measurement.
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
