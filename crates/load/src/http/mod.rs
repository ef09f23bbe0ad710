//! The client's side of HTTP/1.1: requests into a buffer, responses out of pieces.

pub(crate) mod request;
pub(crate) mod response;
