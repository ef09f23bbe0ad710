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
    /// The text of its page.
    pub(crate) text: PageText,
    /// The question that it answers.
    pub question: &'static str,
    /// Measures, and describes the results on the page.
    pub(crate) run: fn(&ExperimentContext<'_>, &mut Page) -> Result<(), Error>,
}

/// Where the text of a page comes from.
#[derive(Debug)]
pub(crate) enum PageText {
    /// A person wrote it; the results are filled in.
    Template(&'static str),
    /// The experiment writes sentences about its results.
    Sentences {
        title: &'static str,
        /// A paragraph per item.
        method: &'static [&'static str],
    },
}

impl Experiment {
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
        let (title, method) = match self.text {
            PageText::Template(_) => ("", &[][..]),
            PageText::Sentences { title, method } => (title, method),
        };
        let mut page = Page::new(self.name, title);
        page.paragraph(self.question);
        page.section("Method");
        for paragraph in method {
            page.paragraph(paragraph);
        }
        let limits = context.bound();
        let bound = format!(
            "A breaking point is the highest constant rate at which at least {} of the requests \
             due succeed, with a p99 of at most {}, and at most {} fail.",
            units::share(limits.achieved_share),
            units::latency(limits.p99_ms),
            units::share(limits.failed_share),
        );
        page.paragraph(&bound);
        page.section("Machine");
        let mut lines = machine::lines(&context);
        page.list(&lines);
        let machine = page.end();
        let begun = ProcessorTicks::now();
        (self.run)(&context, &mut page)?;
        if let (Some(begun), Some(ended)) = (begun, ProcessorTicks::now()) {
            let stolen = ended.stolen_since(begun);
            page.extend_list(machine, &stolen);
            lines.push(stolen);
        }
        context.fail_if_stopped()?;
        let moment = units::moment(settings.begun_unix_ms);
        let commit = machine::commit().unwrap_or_else(|| "unknown".to_owned());
        if let PageText::Template(template) = self.text {
            page.results.command = settings.command.clone();
            page.results.begun = moment;
            page.results.commit = commit;
            page.results.bound = bound;
            page.results.machine = lines;
            let missing = page.fill(template);
            let written = page.write(&settings.output)?;
            return missing.map(|()| written);
        }
        page.section("Written by");
        page.code(&settings.command);
        page.paragraph(&format!("on {moment}, at commit `{commit}`."));
        page.write(&settings.output)
    }

    /// Writes the page of an earlier run again. False if the experiment writes sentences.
    ///
    /// # Errors
    /// As `page_again`, or the page cannot be written.
    pub fn report(&self, folder: &Path) -> Result<bool, Error> {
        let Some(markdown) = self.page_again(folder)? else {
            return Ok(false);
        };
        let page = folder.join(format!("{}.md", self.name));
        std::fs::write(&page, markdown).map_err(Error::file(&page))?;
        Ok(true)
    }

    /// The page of an earlier run, from its `run.json` and the text as it is now. None if the
    /// experiment writes sentences.
    ///
    /// # Errors
    /// There are no results, or they do not fit to the text.
    pub(crate) fn page_again(&self, folder: &Path) -> Result<Option<String>, Error> {
        let PageText::Template(template) = self.text else {
            return Ok(None);
        };
        let file = folder.join(self.name).join("run.json");
        let results = std::fs::read_to_string(&file).map_err(Error::file(&file))?;
        let results = serde_json::from_str(&results)
            .map_err(|error| Error::Page(format!("{}: {error}", file.display())))?;
        let page = render(template, self.name, &results);
        page.map(Some)
            .map_err(|missing| Error::Page(format!("{}: {missing}", self.name)))
    }
}
