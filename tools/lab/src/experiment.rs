//! What an experiment is, and how it writes its page.

use crate::context::ExperimentContext;
use crate::machine::ProcessorTicks;
use crate::page::{Page, render};
use crate::{Error, Settings, machine};
use load::report::units;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// An experiment: a question about the store, and how the answer is measured
/// and described.
#[derive(Debug)]
pub struct Experiment {
    /// Its name on the command line, and that of its page.
    pub name: &'static str,
    /// The text of its page, which a person wrote: its title, its question, and what is filled in
    /// with the results.
    pub(crate) text: &'static str,
    /// Measures, and keeps the results.
    pub(crate) run: fn(&ExperimentContext<'_>, &mut Page) -> Result<(), Error>,
}

impl Experiment {
    /// The question that it answers.
    pub fn question(&self) -> &'static str {
        self.text.lines().nth(2).unwrap_or_default()
    }

    /// Runs the experiment, writes its page and returns the path of the page.
    /// Blocks until it is done or `stop` is set. `log` receives lines about the
    /// progress.
    ///
    /// # Errors
    /// Why no page was written. A page of an earlier run is kept.
    pub fn run(
        &self,
        settings: &Settings,
        stop: &AtomicBool,
        log: &dyn Fn(&str),
    ) -> Result<PathBuf, Error> {
        let context = ExperimentContext::new(settings, stop, log)?;
        let mut page = Page::new(self.name);
        let limits = context.bound();
        page.results.bound = format!(
            "A breaking point is the highest constant rate at which at least {} of the requests \
             due succeed, with a p99 of at most {}, and at most {} fail.",
            units::share(limits.achieved_share),
            units::latency(limits.p99_ms),
            units::share(limits.failed_share),
        );
        page.results.machine = machine::lines(&context);
        let begun = ProcessorTicks::now();
        (self.run)(&context, &mut page)?;
        if let (Some(begun), Some(ended)) = (begun, ProcessorTicks::now()) {
            page.results.machine.push(ended.stolen_since(begun));
        }
        context.fail_if_stopped()?;
        page.results.command = settings.command.clone();
        page.results.begun = units::moment(settings.begun_unix_ms);
        page.results.commit = machine::commit().unwrap_or_else(|| "unknown".to_owned());
        let missing = page.fill(self.text);
        let written = page.write(&settings.output)?;
        missing.map(|()| written)
    }

    /// Writes the page of an earlier run again.
    ///
    /// # Errors
    /// As `page_again`, or the page cannot be written.
    pub fn report(&self, folder: &Path) -> Result<(), Error> {
        let markdown = self.page_again(folder)?;
        let page = folder.join(format!("{}.md", self.name));
        std::fs::write(&page, markdown).map_err(Error::file(&page))
    }

    /// The page of an earlier run, from its `run.json` and the text as it is now.
    ///
    /// # Errors
    /// There are no results, or they do not fit to the text.
    pub(crate) fn page_again(&self, folder: &Path) -> Result<String, Error> {
        let file = folder.join(self.name).join("run.json");
        let results = std::fs::read_to_string(&file).map_err(Error::file(&file))?;
        let results = serde_json::from_str(&results)
            .map_err(|error| Error::Page(format!("{}: {error}", file.display())))?;
        render(self.text, self.name, &results)
            .map_err(|missing| Error::Page(format!("{}: {missing}", self.name)))
    }
}
