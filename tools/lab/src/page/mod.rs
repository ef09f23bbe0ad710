//! The page of an experiment: Markdown, with its plots, flame graphs and data
//! in a folder of the same name beside it.
//!
//! A page is replaced as a whole: its files are written to a new folder, which
//! then replaces the old one, and the page follows last.

mod table;
mod template;
pub(crate) mod text;

pub(crate) use table::MarkdownTable;
pub(crate) use template::{Results, render};

use crate::Error;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// A page that is being made.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// The experiment's name, which is also the name of its file and folder.
    name: &'static str,
    markdown: String,
    /// What its text is filled in with.
    pub(crate) results: Results,
    /// The names and contents of its files.
    files: Vec<(String, String)>,
}

impl Page {
    /// A page without results.
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            markdown: String::new(),
            results: Results::default(),
            files: Vec::new(),
        }
    }

    /// Keeps a table for the template.
    pub(crate) fn keep_table(&mut self, name: &str, table: MarkdownTable) {
        self.results.tables.insert(name.to_owned(), table);
    }

    /// Keeps a picture for the template, as the file `name.svg` beside the page.
    pub(crate) fn keep_chart(&mut self, name: &str, svg: String) {
        self.files.push((format!("{name}.svg"), svg));
    }

    /// Keeps a figure that stands in no table for the template.
    pub(crate) fn keep_value(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.results.values.insert(name.into(), value.into());
    }

    /// Keeps the results as `run.json`, and fills the template in with them.
    ///
    /// # Errors
    /// [`Error::Page`] if the template names what was not kept. The page then says so.
    pub(crate) fn fill(&mut self, template: &str) -> Result<(), Error> {
        let results = self.results.clone();
        self.data("run", &results);
        let filled = render(template, self.name, &results);
        self.markdown = filled.clone().unwrap_or_else(|missing| missing + "\n");
        filled.map(drop).map_err(Error::Page)
    }

    /// Saves measurements as the file `name.json` beside the page.
    pub(crate) fn data(&mut self, name: &str, measured: &impl Serialize) {
        // Only maps whose keys are not text have no JSON form.
        if let Ok(json) = serde_json::to_string(measured) {
            self.files.push((format!("{name}.json"), json + "\n"));
        }
    }

    /// Writes the page and its files into a folder, replacing those of an
    /// earlier run. Returns the path of the page.
    ///
    /// # Errors
    /// A file or folder cannot be written.
    pub(crate) fn write(&self, folder: &Path) -> Result<PathBuf, Error> {
        let files = folder.join(self.name);
        let fresh = folder.join(format!(".{}.new", self.name));
        remove(&fresh)?;
        std::fs::create_dir_all(&fresh).map_err(Error::file(&fresh))?;
        for (name, content) in &self.files {
            let file = fresh.join(name);
            std::fs::write(&file, content).map_err(Error::file(&file))?;
        }
        remove(&files)?;
        std::fs::rename(&fresh, &files).map_err(Error::file(&files))?;
        let page = folder.join(format!("{}.md", self.name));
        let fresh_page = folder.join(format!(".{}.md.new", self.name));
        std::fs::write(&fresh_page, &self.markdown).map_err(Error::file(&fresh_page))?;
        std::fs::rename(&fresh_page, &page).map_err(Error::file(&page))?;
        Ok(page)
    }
}

/// Removes a folder if it exists.
fn remove(folder: &Path) -> Result<(), Error> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::file(folder)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
