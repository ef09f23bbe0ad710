//! The replies that a [`Connection`](crate::Connection) of a test reads.

/// Header fields or trailers; the names are in lower case.
pub type Fields = Vec<(String, String)>;

/// A response.
#[derive(Debug)]
pub struct Reply {
    /// Its status code.
    pub status: u16,
    /// Its header fields.
    pub headers: Fields,
    /// Its whole body.
    pub body: Vec<u8>,
    /// The chunks of the body; none if it is not chunked.
    pub chunks: Vec<Vec<u8>>,
    /// The fields after the chunks.
    pub trailers: Fields,
}

impl Reply {
    /// The value of a header field. Panics if there are several.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// The value of a trailer. Panics if there are several.
    pub fn trailer(&self, name: &str) -> Option<&str> {
        find(&self.trailers, name)
    }

    /// The body as text. Panics if it is none.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The body as JSON. Panics if it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The version that the response names. Panics if there is none.
    pub fn version(&self) -> u64 {
        self.header("kvorum-version").unwrap().parse().unwrap()
    }
}

/// A request, as the server of a test gets it.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its method.
    pub method: String,
    /// Its path and query.
    pub target: String,
    /// Its header fields.
    pub headers: Fields,
    /// Its whole body.
    pub body: Vec<u8>,
}

impl Request {
    /// The value of a header field. Panics if there are several.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }
}

/// The value of a field. Panics if there are several.
pub(crate) fn find<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut values = fields.iter().filter(|(known, _)| known == name);
    let value = values.next().map(|(_, value)| value.as_str());
    assert!(values.next().is_none(), "the message has {name} twice");
    value
}
