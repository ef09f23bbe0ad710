//! Why a replica did not do as asked.

/// Why a replica did not do as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// It did not answer in time.
    Timeout,
    /// It cannot be reached, or does not take requests.
    Refused,
    /// It has too much to do.
    Overloaded,
    /// Its disk is full.
    Full,
    /// Its store cannot.
    Failed,
}
