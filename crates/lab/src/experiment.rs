//! What an experiment is, and how it comes to its page.

use crate::context::ExperimentContext;
use crate::page::Page;
use crate::{Error, Settings, machine};
use load::report::units;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// A question, how it is put to the store, and how the answer is told.
#[derive(Debug)]
pub struct Experiment {
    /// Its name on the command line, and that of its page.
    pub name: &'static str,
    /// The title of its page.
    pub title: &'static str,
    /// What it asks.
    pub question: &'static str,
    /// How it goes about it, a paragraph each.
    pub(crate) method: &'static [&'static str],
    /// Measures, and adds what was found to the page.
    pub(crate) run: fn(&ExperimentContext<'_>, &mut Page) -> Result<(), Error>,
}

impl Experiment {
    /// Runs it and writes its page; gives the page's path. Blocks until it is
    /// done, or `stop` is set. `tell` gets a line now and then of what goes on.
    ///
    /// # Errors
    /// Why there is no page; one of an earlier run is left as it was.
    pub fn run(
        &self,
        settings: &Settings,
        stop: &AtomicBool,
        log: &dyn Fn(&str),
    ) -> Result<PathBuf, Error> {
        let context = ExperimentContext::new(settings, stop, log)?;
        let mut page = Page::new(self.name, self.title);
        page.paragraph(self.question);
        page.section("Method");
        for paragraph in self.method {
            page.paragraph(paragraph);
        }
        let bound = context.bound();
        page.paragraph(&format!(
            "A breaking point is the highest constant rate of which at least {} succeeds in time, \
             with a p99 of at most {} and at most {} of failures.",
            units::share(bound.achieved_share),
            units::latency(bound.p99_ms),
            units::share(bound.failed_share),
        ));
        page.section("Machine");
        page.list(machine::lines(&context));
        (self.run)(&context, &mut page)?;
        context.go_on()?;
        page.section("Written by");
        page.code(&settings.command);
        page.paragraph(&format!("on {}.", units::moment(settings.begun_unix_ms)));
        page.write(&settings.output)
    }
}
