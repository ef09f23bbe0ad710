//! The catalogue: all types of problems, in the order of the checks. `docs/reference/api.md` has the
//! same table for clients, and a test compares the two. Their texts stand in the files
//! beside this one, by what they are about.

use hyper::StatusCode;

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
    TIMESTAMP_BOUND_NOT_STORED = SERVICE_UNAVAILABLE, "timestamp-bound-not-stored", "Timestamp Bound Not Stored";
    RESTORED_STORE = SERVICE_UNAVAILABLE, "restored-store", "Store Restored From A Copy";
    NEW_STORE = SERVICE_UNAVAILABLE, "new-store", "New Store";
    STORE_FAILED = SERVICE_UNAVAILABLE, "store-failed", "Store Failed";
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
