//! The options that say which keys `scan` and `export` read.

use super::options::KeyForm;
use crate::failure::Failure;
use clap::Args;
use client::{ScanRequest, Scope};
use std::ffi::OsString;

/// How many entities were `read` or `exported`, and how fast.
pub(super) fn transferred(entities: u64, how: &str, seconds: f64) -> String {
    let rate = units::rate(entities as f64 / seconds);
    format!("{} entities {how}, {rate}", units::count(entities))
}

/// Which keys are read.
#[derive(Args, Clone, Debug)]
pub(super) struct KeyRangeOptions {
    /// The first key [default: the first key there is]
    #[arg(long, value_name = "KEY", help_heading = "Range")]
    start: Option<OsString>,
    /// Stop before this key [default: after the last key]
    #[arg(long, value_name = "KEY", help_heading = "Range")]
    end: Option<OsString>,
    /// Only keys that begin with PREFIX
    #[arg(long, value_name = "PREFIX", conflicts_with_all = ["start", "end"], help_heading = "Range")]
    prefix: Option<OsString>,
    #[command(flatten)]
    form: KeyForm,
}

impl KeyRangeOptions {
    /// A scan of the range, with values and without a limit.
    ///
    /// # Errors
    /// A key in another form, or one that is empty or too long.
    pub(super) fn request(&self, scope: Scope) -> Result<ScanRequest, Failure> {
        self.request_of(scope, &None)
    }

    /// As [`Self::request`], of the keys with a prefix that is given without its option.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub(super) fn request_of(
        &self,
        scope: Scope,
        prefix: &Option<OsString>,
    ) -> Result<ScanRequest, Failure> {
        let mut request = ScanRequest::all(scope);
        if let Some(start) = self.bytes("--start", &self.start)? {
            request.start = start;
        }
        request.end = self.bytes("--end", &self.end)?;
        for (name, prefix) in [("PREFIX", prefix), ("--prefix", &self.prefix)] {
            if let Some(prefix) = self.bytes(name, prefix)? {
                request.set_prefix(&prefix);
            }
        }
        Ok(request)
    }

    /// The bytes of an option, in the form in which the keys are written.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub(super) fn bytes(
        &self,
        name: &str,
        text: &Option<OsString>,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let text = text.as_ref();
        text.map(|text| self.form.parse(name, text)).transpose()
    }
}
