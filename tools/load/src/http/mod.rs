//! The client side of HTTP/1.1: writes requests into a buffer, decodes
//! responses from pieces.

pub(crate) mod request;
pub(crate) mod response;
