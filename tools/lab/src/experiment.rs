//! What an experiment is, and how it writes its page.

use crate::context::ExperimentContext;
use crate::machine::ProcessorTicks;
use crate::page::Page;
use crate::{Error, Settings, machine};
use load::report::units;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// An experiment: a question about the store, and how the answer is measured
/// and described.
#[derive(Debug)]
pub struct Experiment {
    /// Its name on the command line, and that of its page.
    pub name: &'static str,
    /// The title of its page.
    pub title: &'static str,
    /// The question that it answers.
    pub question: &'static str,
    /// Its method, a paragraph per item.
    pub(crate) method: &'static [&'static str],
    /// Measures, and describes the results on the page.
    pub(crate) run: fn(&ExperimentContext<'_>, &mut Page) -> Result<(), Error>,
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
        let mut page = Page::new(self.name, self.title);
        page.paragraph(self.question);
        page.section("Method");
        for paragraph in self.method {
            page.paragraph(paragraph);
        }
        let bound = context.bound();
        page.paragraph(&format!(
            "A breaking point is the highest constant rate at which at least {} of the requests \
             due succeed, with a p99 of at most {}, and at most {} fail.",
            units::share(bound.achieved_share),
            units::latency(bound.p99_ms),
            units::share(bound.failed_share),
        ));
        page.section("Machine");
        page.list(machine::lines(&context));
        let machine = page.end();
        let begun = ProcessorTicks::now();
        (self.run)(&context, &mut page)?;
        if let (Some(begun), Some(ended)) = (begun, ProcessorTicks::now()) {
            page.extend_list(machine, &ended.stolen_since(begun));
        }
        context.fail_if_stopped()?;
        page.section("Written by");
        page.code(&settings.command);
        page.paragraph(&format!(
            "on {}, at commit `{}`.",
            units::moment(settings.begun_unix_ms),
            machine::commit().as_deref().unwrap_or("unknown")
        ));
        page.write(&settings.output)
    }
}
