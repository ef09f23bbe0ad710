//! The options that say which keys `scan` and `export` read.

use super::options::KeyForm;
use crate::failure::Failure;
use clap::Args;
use client::{RangeRequest, Scope};
use std::ffi::OsString;

/// Which keys are read.
#[derive(Args, Clone, Debug)]
pub(super) struct RangeOptions {
    /// The first key [default: the first key of all]
    #[arg(long, value_name = "KEY", help_heading = "Range")]
    start: Option<OsString>,
    /// The key before which the range ends [default: behind the last key]
    #[arg(long, value_name = "KEY", help_heading = "Range")]
    end: Option<OsString>,
    /// Only the keys that begin so
    #[arg(long, value_name = "PREFIX", conflicts_with_all = ["start", "end"], help_heading = "Range")]
    prefix: Option<OsString>,
    #[command(flatten)]
    form: KeyForm,
}

impl RangeOptions {
    /// The range, with values and without a limit.
    ///
    /// # Errors
    /// A key in another form, or one that is empty or too long.
    pub(super) fn request(&self, scope: Scope) -> Result<RangeRequest, Failure> {
        let mut request = RangeRequest::all(scope);
        let parse = |name: &str, text: &Option<OsString>| {
            let text = text.as_ref();
            text.map(|text| self.form.parse(name, text)).transpose()
        };
        if let Some(start) = parse("--start", &self.start)? {
            request.start = start;
        }
        request.end = parse("--end", &self.end)?;
        if let Some(prefix) = parse("--prefix", &self.prefix)? {
            request.set_prefix(&prefix);
        }
        Ok(request)
    }
}
