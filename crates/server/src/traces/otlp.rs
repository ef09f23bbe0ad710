//! The messages of OTLP 1, as far as a node sends and reads them: those of
//! `opentelemetry/proto/collector/trace/v1/trace_service.proto`, with their numbers.
//!
//! A crate has them all (`opentelemetry-proto`), and OpenTelemetry's SDK with them.

use prost::{Enumeration, Message, Oneof};

/// The body of a request to `/v1/traces`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ExportTraceServiceRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_spans: Vec<ResourceSpans>,
}

/// The spans of one node.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_spans: Vec<ScopeSpans>,
}

/// What the spans are about: a node.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<KeyValue>,
}

/// The spans of one library.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) spans: Vec<Span>,
}

/// The library that made spans.
#[derive(Clone, PartialEq, Message)]
pub(super) struct InstrumentationScope {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

/// A span. Times are nanoseconds since 1970.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) span_id: Vec<u8>,
    /// Empty for a root.
    #[prost(bytes = "vec", tag = "4")]
    pub(super) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(super) name: String,
    #[prost(enumeration = "SpanKind", tag = "6")]
    pub(super) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub(super) end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "11")]
    pub(super) events: Vec<Event>,
    #[prost(message, optional, tag = "15")]
    pub(super) status: Option<Status>,
}

/// Which side of a call a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(super) enum SpanKind {
    Unspecified = 0,
    Server = 2,
    Client = 3,
}

/// Something that happened within a span.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    #[prost(fixed64, tag = "1")]
    time_unix_nano: u64,
    #[prost(string, tag = "2")]
    name: String,
}

impl Event {
    pub(super) fn new(name: &str, time_unix_nano: u64) -> Self {
        Self {
            time_unix_nano,
            name: name.to_owned(),
        }
    }
}

/// How a span ended.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Status {
    #[prost(enumeration = "StatusCode", tag = "3")]
    code: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
enum StatusCode {
    Unset = 0,
    Error = 2,
}

impl Status {
    pub(super) fn error() -> Self {
        Self {
            code: StatusCode::Error.into(),
        }
    }
}

/// An attribute.
#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 2, 3")]
    value: Option<Value>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Truth(bool),
    #[prost(int64, tag = "3")]
    Number(i64),
}

impl KeyValue {
    pub(super) fn text(key: &str, value: &str) -> Self {
        Self::new(key, Value::Text(value.to_owned()))
    }

    pub(super) fn truth(key: &str, value: bool) -> Self {
        Self::new(key, Value::Truth(value))
    }

    pub(super) fn number(key: &str, value: i64) -> Self {
        Self::new(key, Value::Number(value))
    }

    fn new(key: &str, value: Value) -> Self {
        Self {
            key: key.to_owned(),
            value: Some(AnyValue { value: Some(value) }),
        }
    }
}

/// The answer to a request that the collector has accepted.
#[derive(Clone, PartialEq, Message)]
struct ExportTraceServiceResponse {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

/// What a collector says of spans of a request that it has accepted.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PartialSuccess {
    /// How many of them it has dropped.
    #[prost(int64, tag = "1")]
    pub(super) rejected_spans: i64,
    /// Why, or a warning if it has dropped none.
    #[prost(string, tag = "2")]
    pub(super) error_message: String,
}

impl PartialSuccess {
    /// Reads the body of the answer. One that is in no form of this says nothing.
    pub(super) fn read(body: &[u8]) -> Self {
        let answer = ExportTraceServiceResponse::decode(body);
        let part = answer.ok().and_then(|answer| answer.partial_success);
        part.unwrap_or_default()
    }
}

/// The body of a request with these spans of a node.
pub(super) fn body(resource: &[KeyValue], spans: &[Span]) -> Vec<u8> {
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource {
                attributes: resource.to_vec(),
            }),
            scope_spans: vec![ScopeSpans {
                scope: Some(InstrumentationScope {
                    name: "kvorum".to_owned(),
                }),
                spans: spans.to_vec(),
            }],
        }],
    };
    request.encode_to_vec()
}
