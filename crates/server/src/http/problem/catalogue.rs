//! All types of problems, in the order of the checks: the table of them, and below it
//! one constructor for each, with its text. `docs/api.md` has the same table for
//! clients, and a test compares the two.

use super::Problem;
use crate::trust::{Caller, Unknown};
use cluster::Replicas;
use hyper::StatusCode;
use node::Receipt;
use std::borrow::Cow;
use tokens::Need;

/// How much of a foreign `Host` the detail shows.
const HOST_SHOWN_BYTES: usize = 256;

/// What all problems of one type have in common.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProblemType {
    /// The status of its answers.
    pub(crate) status: StatusCode,
    /// The last part of `type`.
    pub(crate) name: &'static str,
    /// What it is called.
    pub(crate) title: &'static str,
}

impl ProblemType {
    /// The value of `type`.
    pub(crate) fn urn(&self) -> String {
        format!("urn:kvorum:problem:{}", self.name)
    }
}

/// Makes a constant of each row, and `ALL` of all rows, so that no type is missing there.
macro_rules! problem_types {
    ($($constant:ident = $status:ident, $name:literal, $title:literal;)*) => {
        $(pub(crate) const $constant: ProblemType = ProblemType {
            status: StatusCode::$status,
            name: $name,
            title: $title,
        };)*

        /// All types of problems.
        #[cfg(test)]
        pub(crate) const ALL: &[&ProblemType] = &[$(&$constant),*];
    };
}

problem_types! {
    OTHER_HOST = MISDIRECTED_REQUEST, "other-host", "Other Host";
    OTHER_ORIGIN = FORBIDDEN, "other-origin", "Other Origin";
    BAD_HOST = BAD_REQUEST, "bad-host", "Bad Host";
    TARGET_TOO_LONG = URI_TOO_LONG, "target-too-long", "Target Too Long";
    HEADER_TOO_LONG = REQUEST_HEADER_FIELDS_TOO_LARGE, "header-too-long", "Header Too Long";
    UNKNOWN_TRANSFER_CODING = NOT_IMPLEMENTED, "unknown-transfer-coding", "Unknown Transfer Coding";
    BAD_TRANSFER_CODING = BAD_REQUEST, "bad-transfer-coding", "Bad Transfer Coding";
    UNKNOWN_PATH = BAD_REQUEST, "unknown-path", "Unknown Path";
    NO_TOKEN = UNAUTHORIZED, "no-token", "Token Needed";
    METHOD_NOT_ALLOWED = METHOD_NOT_ALLOWED, "method-not-allowed", "Method Not Allowed";
    BAD_PARAMETER = BAD_REQUEST, "bad-parameter", "Bad Parameter";
    NO_RIGHT = FORBIDDEN, "no-right", "Right Needed";
    NOT_JSON = UNSUPPORTED_MEDIA_TYPE, "not-json", "Not JSON";
    NO_OTHER_NODES = CONFLICT, "no-other-nodes", "No Other Nodes";
    TLS_REQUIRED = BAD_REQUEST, "tls-required", "TLS Required";
    PEER_CERTIFICATE = FORBIDDEN, "peer-certificate", "Peer Certificate Required";
    UPGRADE_REQUIRED = UPGRADE_REQUIRED, "upgrade-required", "Upgrade Required";
    PARTIAL_PUT = BAD_REQUEST, "partial-put", "Partial Put";
    CONDITIONAL_WRITE = NOT_IMPLEMENTED, "conditional-write", "Conditional Writes Not Implemented";
    RANGE_NEEDS_HTTP_1_1 = HTTP_VERSION_NOT_SUPPORTED, "range-needs-http-1.1", "Ranges Need HTTP/1.1";
    VALUE_TOO_LONG = PAYLOAD_TOO_LARGE, "value-too-long", "Value Too Long";
    BATCH_TOO_LONG = PAYLOAD_TOO_LARGE, "batch-too-long", "Batch Too Long";
    BAD_LINE = BAD_REQUEST, "bad-line", "Bad Line";
    LINE_TOO_LONG = PAYLOAD_TOO_LARGE, "line-too-long", "Line Too Long";
    ANSWER_TOO_LONG = PAYLOAD_TOO_LARGE, "answer-too-long", "Answer Too Long";
    OVERLOADED = SERVICE_UNAVAILABLE, "overloaded", "Overloaded";
    BROKEN_BODY = BAD_REQUEST, "broken-body", "Broken Body";
    LATE_BODY = REQUEST_TIMEOUT, "late-body", "Late Body";
    NOT_READY = SERVICE_UNAVAILABLE, "not-ready", "Not Ready";
    NO_SUCH_ENTITY = NOT_FOUND, "no-such-entity", "No Such Entity";
    OTHER_VERSION = PRECONDITION_FAILED, "other-version", "Other Version";
    CLOCK = SERVICE_UNAVAILABLE, "clock", "Clock Out Of Bounds";
    CEILING_NOT_STORED = SERVICE_UNAVAILABLE, "ceiling-not-stored", "Timestamp Ceiling Not Stored";
    RESTORED_STORE = SERVICE_UNAVAILABLE, "restored-store", "Store Restored From A Copy";
    NEW_STORE = SERVICE_UNAVAILABLE, "new-store", "New Store";
    STORE_NOT_OPEN = SERVICE_UNAVAILABLE, "store-not-open", "Store Not Open";
    NO_TIMESTAMPS_LEFT = SERVICE_UNAVAILABLE, "no-timestamps-left", "No Timestamps Left";
    TOO_FEW_NODES = GATEWAY_TIMEOUT, "too-few-nodes", "Too Few Nodes";
    NOT_ENOUGH_REPLICAS = GATEWAY_TIMEOUT, "not-enough-replicas", "Not Enough Replicas";
    DISK_FULL = INSUFFICIENT_STORAGE, "disk-full", "Disk Full";
    RANGE_TIMED_OUT = GATEWAY_TIMEOUT, "range-timed-out", "Range Timed Out";
    RANGE_TOO_LONG = GATEWAY_TIMEOUT, "range-too-long", "Range Too Long";
    RANGE_FAILED = INTERNAL_SERVER_ERROR, "range-failed", "Range Failed";
    COMPACTION_FAILED = INTERNAL_SERVER_ERROR, "compaction-failed", "Compaction Failed";
    PROFILE_RUNNING = CONFLICT, "profile-running", "Profile Running";
    PROFILE_UNAVAILABLE = NOT_IMPLEMENTED, "profile-unavailable", "Profile Unavailable";
    CLIENT_LEFT = BAD_REQUEST, "client-left", "Client Left";
    PROFILE_FAILED = INTERNAL_SERVER_ERROR, "profile-failed", "Profile Failed";
}

impl Problem {
    /// A `Host` that is not a name of this node: a web page of that name may have sent
    /// the request.
    pub(crate) fn other_host(host: &[u8]) -> Self {
        let shown = host[..host.len().min(HOST_SHOWN_BYTES)].escape_ascii();
        Self::new(
            &OTHER_HOST,
            format!(
                "this node is not known as `{shown}`: use an IP address, localhost or a host of \
                 --cluster, or start the node with --host and that name"
            ),
        )
    }

    /// A browser sent the request for a web page of another origin.
    pub(crate) fn other_origin() -> Self {
        Self::new(
            &OTHER_ORIGIN,
            "a browser sent this request for a page of another origin (see its Origin and \
             Sec-Fetch-Site fields): pages of other sites may not use this node, unless it is \
             started with --cors-origin and their origin",
        )
    }

    /// No `Host`, or several.
    pub(crate) fn bad_host() -> Self {
        Self::new(
            &BAD_HOST,
            "an HTTP/1.1 request must have exactly one Host field: send one",
        )
    }

    /// The target is longer than any valid one.
    pub(crate) fn target_too_long(bytes_max: usize) -> Self {
        Self::new(
            &TARGET_TOO_LONG,
            format!("the request's target is longer than {bytes_max} bytes: use shorter keys"),
        )
    }

    /// The header fields are longer than the node allows.
    pub(crate) fn fields_too_long(bytes_max: usize) -> Self {
        Self::new(
            &HEADER_TOO_LONG,
            format!(
                "the header fields are longer than {bytes_max} bytes: send fewer or shorter ones"
            ),
        )
    }

    /// A transfer coding other than chunked.
    pub(crate) fn unknown_transfer_coding() -> Self {
        Self::new(
            &UNKNOWN_TRANSFER_CODING,
            "this node knows no transfer coding but chunked: send the bytes of the value \
             without another coding",
        )
    }

    /// A `Transfer-Encoding` that contradicts itself.
    pub(crate) fn bad_transfer_coding() -> Self {
        Self::new(
            &BAD_TRANSFER_CODING,
            "Transfer-Encoding must be `chunked`, once",
        )
    }

    /// No resource has the path; `paths` are those that clients may use.
    pub(crate) fn unknown_path(paths: &str) -> Self {
        Self::new(
            &UNKNOWN_PATH,
            format!("there is nothing at this path: use one of {paths}"),
        )
    }

    /// The node does not know who sent a request that needs a token.
    pub(super) fn no_token(why: Unknown) -> Self {
        let detail = match why {
            Unknown::NoToken => {
                "this path needs a token: send it as Authorization: Bearer TOKEN, once; who runs \
                 the cluster makes one with kvorum admin token new"
            }
            Unknown::OtherToken => {
                "the token is not in force on this node: it may have been revoked, or is not in \
                 the tokens file of this node"
            }
        };
        let mut problem = Self::new(&NO_TOKEN, detail);
        problem.unknown = Some(why);
        problem
    }

    /// The caller's token has none of the rights that a request needs, or not for all of its
    /// keys.
    pub(crate) fn no_right(need: Need, caller: &Caller) -> Self {
        let rights = need.rights().join(" or ");
        let name = caller.token_name().unwrap_or_default();
        let of_keys = match need {
            Need::Read | Need::Write => " for all keys of the request",
            _ => "",
        };
        Self::new(
            &NO_RIGHT,
            format!(
                "the token `{name}` has no right `{rights}`{of_keys}: use one that has it, or \
                 change the tokens file"
            ),
        )
    }

    /// The resource does not have the method; `allow` names those that it has.
    pub(crate) fn method_not_allowed(allow: &str) -> Self {
        let mut problem = Self::new(
            &METHOD_NOT_ALLOWED,
            format!("this resource has only these methods: {allow}"),
        );
        problem.allow = Some(allow.into());
        problem
    }

    /// A `POST` that a web page could send without asking first.
    pub(crate) fn not_json() -> Self {
        Self::new(
            &NOT_JSON,
            "a POST needs Content-Type: application/json or application/x-ndjson, also without a \
             body, because web pages cannot send it by themselves: add the field",
        )
    }

    /// A sweep on a node alone.
    pub(crate) fn no_other_nodes() -> Self {
        Self::new(
            &NO_OTHER_NODES,
            "a sweep compares the nodes of a cluster, and this node is alone: there is nothing \
             to do",
        )
    }

    /// A request that only peers send.
    pub(crate) fn upgrade_required() -> Self {
        Self::new(
            &UPGRADE_REQUIRED,
            "only the nodes of a cluster use this path: clients use /v0/entity",
        )
    }

    /// A request without TLS to a node that speaks only TLS.
    pub(crate) fn tls_required() -> Self {
        Self::new(
            &TLS_REQUIRED,
            "this request was sent without TLS, and the node speaks only TLS: use https://",
        )
    }

    /// A connection that wants to become a peer's without the certificate of a node.
    pub(crate) fn peer_certificate() -> Self {
        Self::new(
            &PEER_CERTIFICATE,
            "only a node may use this path, with a certificate that an authority of --tls-peer-ca \
             has signed for the host of a URL in --cluster",
        )
    }

    /// A `PUT` of a part of a value.
    pub(crate) fn partial_put() -> Self {
        Self::new(
            &PARTIAL_PUT,
            "a PUT with Content-Range would replace a value by a part of it: send the whole value",
        )
    }

    /// A condition on a write. Ignoring it could lose data.
    pub(crate) fn conditional_write() -> Self {
        Self::new(
            &CONDITIONAL_WRITE,
            "If-Match and If-None-Match are not implemented for PUT and DELETE: leave them out",
        )
    }

    /// A range over HTTP/1.0.
    pub(crate) fn range_needs_chunks() -> Self {
        Self::new(
            &RANGE_NEEDS_HTTP_1_1,
            "without chunks a stream that was cut short would look whole: use HTTP/1.1",
        )
    }

    /// The body is longer than a value may be.
    pub(crate) fn value_too_long(value_bytes_max: usize) -> Self {
        Self::new(
            &VALUE_TOO_LONG,
            format!("the body is longer than {value_bytes_max} bytes: send a shorter value"),
        )
    }

    /// A batch whose length is announced is longer than that.
    pub(crate) fn batch_too_long(bytes_max: usize) -> Self {
        Self::new(
            &BATCH_TOO_LONG,
            format!(
                "a batch with Content-Length may have {bytes_max} bytes: send several, or send \
                 it chunked and read the answers meanwhile"
            ),
        )
    }

    /// A line of a batch is no operation, so the batch ends with it.
    pub(crate) fn bad_line(line: u64, detail: &str) -> Self {
        let mut problem = Self::new(
            &BAD_LINE,
            format!(
                "line {line} is no operation: {detail}. The batch ends here: correct the line, \
                 and send it and those after it again"
            ),
        );
        problem.line = Some(line);
        problem
    }

    /// A line of a batch is longer than any operation.
    pub(crate) fn line_too_long(line: u64, bytes_max: usize) -> Self {
        let mut problem = Self::new(
            &LINE_TOO_LONG,
            format!(
                "line {line} is longer than {bytes_max} bytes, so it was passed over: send a \
                 shorter value, in base64 if it has many characters that JSON escapes"
            ),
        );
        problem.line = Some(line);
        problem
    }

    /// The value of a line of a batch is longer than a value may be.
    pub(crate) fn line_value_too_long(line: u64, value_bytes_max: usize) -> Self {
        let mut problem = Self::new(
            &VALUE_TOO_LONG,
            format!(
                "line {line} has a value of more than {value_bytes_max} bytes, so it was passed \
                 over: send a shorter value"
            ),
        );
        problem.line = Some(line);
        problem
    }

    /// The answer to a batch whose length is announced has no room for a value.
    pub(crate) fn answer_too_long(bytes_max: usize) -> Self {
        Self::new(
            &ANSWER_TOO_LONG,
            format!(
                "the answer to a batch with Content-Length has {bytes_max} bytes at most, and \
                 this value is beyond: get it alone, or send the batch chunked"
            ),
        )
    }

    /// The node has taken on as much as it may.
    pub(crate) fn overloaded() -> Self {
        Self::new(
            &OVERLOADED,
            "the node has taken on as many requests, or as much of their data, as it may: \
             try again later, or ask another node",
        )
    }

    /// The body ended early or is malformed.
    pub(crate) fn broken_body() -> Self {
        Self::new(
            &BROKEN_BODY,
            "the body ended early or its chunks are malformed: send the request again",
        )
    }

    /// The body is slower than the least rate.
    pub(crate) fn late_body() -> Self {
        Self::new(
            &LATE_BODY,
            "the body arrived too slowly: send the request again, at a steady pace",
        )
    }

    /// The node should get no requests now.
    pub(crate) fn not_ready(reasons: &[String]) -> Self {
        Self::new(&NOT_READY, reasons.join("; "))
    }

    /// The key has no live value.
    pub(crate) fn absent() -> Self {
        Self::new(&NO_SUCH_ENTITY, "the key has no value")
    }

    /// An `If-Match` that does not name the version that the read found.
    pub(crate) fn other_version() -> Self {
        Self::new(
            &OTHER_VERSION,
            "the entity's ETag is not one of those in If-Match: read it without If-Match",
        )
    }

    /// The client left while its profile was recorded, or its digest or count made.
    pub(crate) fn client_left() -> Self {
        Self::new(
            &CLIENT_LEFT,
            "the client closed its side, which ends a profile, a digest or a count: keep the connection open",
        )
    }

    /// Another profile is being recorded.
    pub(super) fn profile_running(detail: String) -> Self {
        Self::new(&PROFILE_RUNNING, detail)
    }

    /// The program cannot record this kind of profile.
    pub(super) fn profile_unavailable(detail: String) -> Self {
        Self::new(&PROFILE_UNAVAILABLE, detail)
    }

    /// The profile was lost, or the system refused to record it.
    pub(crate) fn profile_failed(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(&PROFILE_FAILED, detail)
    }

    /// A parameter of the query is missing, unknown or invalid.
    pub(super) fn bad_parameter(parameter: impl Into<Box<str>>, detail: String) -> Self {
        let mut problem = Self::new(&BAD_PARAMETER, detail);
        problem.parameter = Some(parameter.into());
        problem
    }

    /// The disk has no room for a write.
    pub(super) fn disk_full(receipt: Receipt, replicas: Replicas) -> Self {
        Self::new(
            &DISK_FULL,
            "the node's disk is full: delete entities or give the node more space; reads and \
             deletes go on",
        )
        .with_receipt(receipt, replicas)
    }

    /// Too few replicas answered a read, or a write if the receipt has its timestamp.
    pub(super) fn not_enough_replicas(receipt: Receipt, replicas: Replicas) -> Self {
        let detail = match receipt.timestamp {
            Some(_) => {
                "too few replicas answered as asked; the write counts as still running, and \
                 may appear later. To repeat it is a new write, newer than whatever was \
                 acknowledged meanwhile"
            }
            None => "too few replicas answered as asked: try again, or with a smaller ack",
        };
        Self::new(&NOT_ENOUGH_REPLICAS, detail).with_receipt(receipt, replicas)
    }

    /// Too few nodes take part in a range of the whole cluster.
    pub(super) fn too_few_nodes(receipt: Receipt) -> Self {
        let mut problem = Self::new(
            &TOO_FEW_NODES,
            "more nodes are missing than ack and from allow, so the range could miss what was \
             acknowledged: try again, or with a smaller ack. The outcomes say what became of \
             the range at each node",
        );
        problem.receipt = Some(Box::new(receipt));
        problem
    }

    /// The node's disk did not answer a range in time.
    pub(super) fn range_timed_out() -> Self {
        Self::new(
            &RANGE_TIMED_OUT,
            "this node's disk did not answer in time: try again, or ask another node",
        )
    }

    /// A count takes longer than the snapshot that it counts may live.
    pub(super) fn range_too_long() -> Self {
        Self::new(
            &RANGE_TOO_LONG,
            "the count takes longer than a snapshot may live, which is ten minutes: count the \
             range in parts, with start and end",
        )
    }

    /// The node's disk cannot read a range.
    pub(super) fn range_failed() -> Self {
        Self::new(
            &RANGE_FAILED,
            "this node cannot read the range from its disk: see its log, or ask another node",
        )
    }

    /// A compaction that an operator asked for did not end well.
    pub(super) fn compaction_failed(error: &lsm::Error) -> Self {
        Self::new(
            &COMPACTION_FAILED,
            format!(
                "the compaction has ended early, and nothing is lost: {error}. Repair that, and \
                 ask again"
            ),
        )
    }

    /// The node's clock is not near enough to those of its peers to stamp a write.
    pub(super) fn clock(detail: String) -> Self {
        Self::new(&CLOCK, detail)
    }

    /// The node's disk refuses to raise the ceiling of its timestamps.
    pub(super) fn ceiling_not_stored(detail: String) -> Self {
        Self::new(&CEILING_NOT_STORED, detail)
    }

    /// Another process may have issued the timestamps that the node would issue.
    pub(super) fn restored_store(detail: String) -> Self {
        Self::new(&RESTORED_STORE, detail)
    }

    /// A store that was lost may have issued the timestamps that the node would issue.
    pub(super) fn new_store(detail: String) -> Self {
        Self::new(&NEW_STORE, detail)
    }

    /// The store is not open.
    pub(super) fn store_not_open(detail: String) -> Self {
        Self::new(&STORE_NOT_OPEN, detail)
    }

    /// There is no greater timestamp.
    pub(super) fn no_timestamps_left(detail: String) -> Self {
        Self::new(&NO_TIMESTAMPS_LEFT, detail)
    }

    fn with_receipt(mut self, receipt: Receipt, replicas: Replicas) -> Self {
        self.acks = Some((receipt.acks, replicas));
        self.receipt = Some(Box::new(receipt));
        self
    }
}
