//! The methods that resources have. `OPTIONS`, which only pages of other origins need, is none of
//! them: see `http/cors.rs`.

use hyper::Method;

/// A method that some resource has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// `GET`.
    Get,
    /// `HEAD`: like `GET`, without the body.
    Head,
    /// `PUT`.
    Put,
    /// `DELETE`.
    Delete,
    /// `POST`.
    Post,
}

impl Verb {
    /// The verb of a method; `None` for a method that no resource has.
    pub(crate) fn of(method: &Method) -> Option<Self> {
        match *method {
            Method::GET => Some(Self::Get),
            Method::HEAD => Some(Self::Head),
            Method::PUT => Some(Self::Put),
            Method::DELETE => Some(Self::Delete),
            Method::POST => Some(Self::Post),
            _ => None,
        }
    }

    /// The method's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Post => "POST",
        }
    }
}
