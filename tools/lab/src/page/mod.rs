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
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A page that is being written.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// The experiment's name, which is also the name of its file and folder.
    name: &'static str,
    markdown: String,
    /// What a template is filled in with.
    pub(crate) results: Results,
    /// The names and contents of its files.
    files: Vec<(String, String)>,
}

/// Where a page ended while it was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageEnd(usize);

impl Page {
    /// A page with only a title.
    pub(crate) fn new(name: &'static str, title: &str) -> Self {
        Self {
            name,
            markdown: format!("# {title}\n"),
            results: Results::default(),
            files: Vec::new(),
        }
    }

    /// Begins a section.
    pub(crate) fn section(&mut self, title: &str) {
        self.block(&format!("## {title}"));
    }

    /// Begins a subsection.
    pub(crate) fn subsection(&mut self, title: &str) {
        self.block(&format!("### {title}"));
    }

    /// Adds a paragraph.
    pub(crate) fn paragraph(&mut self, text: &str) {
        self.block(text);
    }

    /// Adds a list, unless it is empty.
    pub(crate) fn list<S: AsRef<str>>(&mut self, items: impl IntoIterator<Item = S>) {
        let items = items.into_iter();
        let lines: Vec<String> = items.map(|item| format!("- {}", item.as_ref())).collect();
        if !lines.is_empty() {
            self.block(&lines.join("\n"));
        }
    }

    /// Where the page ends so far.
    pub(crate) fn end(&self) -> PageEnd {
        PageEnd(self.markdown.len())
    }

    /// Adds an item to the list with which the page once ended.
    pub(crate) fn extend_list(&mut self, end: PageEnd, item: &str) {
        self.markdown.insert_str(end.0, &format!("- {item}\n"));
    }

    /// Adds a table.
    pub(crate) fn table(&mut self, table: &MarkdownTable) {
        self.block(&table.markdown());
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
    pub(crate) fn keep_value(&mut self, name: &str, value: String) {
        self.results.values.insert(name.to_owned(), value);
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

    /// Adds a block of preformatted lines.
    pub(crate) fn code(&mut self, lines: &str) {
        self.block(&format!("```\n{}\n```", lines.trim_end()));
    }

    /// Adds a picture as the file `name.svg` beside the page. It links to the
    /// file, because a flame graph can only be searched and zoomed there.
    pub(crate) fn figure(&mut self, name: &str, caption: &str, svg: String) {
        let file = format!("{name}.svg");
        let link = format!("{}/{file}", self.name);
        let caption = caption.replace(['[', ']'], "");
        self.block(&format!("[![{caption}]({link})]({link})"));
        self.files.push((file, svg));
    }

    /// Saves measurements as the file `name.json` beside the page.
    pub(crate) fn data(&mut self, name: &str, measured: &impl Serialize) {
        // Only maps whose keys are not text have no JSON form.
        if let Ok(json) = serde_json::to_string(measured) {
            self.files.push((format!("{name}.json"), json + "\n"));
        }
    }

    fn block(&mut self, text: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.markdown, "\n{}", text.trim_end());
    }

    /// The text of the page.
    #[cfg(test)]
    pub(crate) fn markdown(&self) -> &str {
        &self.markdown
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
