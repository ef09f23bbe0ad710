//! All types of problems, in the order in which a node checks a request. `docs/reference/api.md` has the
//! same table for clients, and a test compares the two.

/// What all problems of one type have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProblemType {
    /// The status of its answers.
    pub status: u16,
    /// The last part of `type`.
    pub name: &'static str,
    /// What it is called.
    pub title: &'static str,
}

impl ProblemType {
    /// The value of `type`.
    #[must_use]
    pub fn urn(&self) -> String {
        format!("urn:kvorum:problem:{}", self.name)
    }
}

/// Makes a constant of each row, and `ALL` of all rows, so that no type is missing there.
macro_rules! problem_types {
    ($($constant:ident = $status:literal, $name:literal, $title:literal;)*) => {
        $(
            #[doc = concat!($status, ": ", $title, ".")]
            pub const $constant: ProblemType = ProblemType {
                status: $status,
                name: $name,
                title: $title,
            };
        )*

        /// All types of problems.
        pub const ALL: &[&ProblemType] = &[$(&$constant),*];
    };
}

problem_types! {
    OTHER_HOST = 421, "other-host", "Other Host";
    OTHER_ORIGIN = 403, "other-origin", "Other Origin";
    BAD_HOST = 400, "bad-host", "Bad Host";
    TARGET_TOO_LONG = 414, "target-too-long", "Target Too Long";
    HEADER_TOO_LONG = 431, "header-too-long", "Header Too Long";
    UNKNOWN_TRANSFER_CODING = 501, "unknown-transfer-coding", "Unknown Transfer Coding";
    BAD_TRANSFER_CODING = 400, "bad-transfer-coding", "Bad Transfer Coding";
    UNKNOWN_PATH = 400, "unknown-path", "Unknown Path";
    NO_TOKEN = 401, "no-token", "Token Needed";
    METHOD_NOT_ALLOWED = 405, "method-not-allowed", "Method Not Allowed";
    BAD_PARAMETER = 400, "bad-parameter", "Bad Parameter";
    NO_RIGHT = 403, "no-right", "Right Needed";
    NOT_JSON = 415, "not-json", "Not JSON";
    NO_OTHER_NODES = 409, "no-other-nodes", "No Other Nodes";
    TLS_REQUIRED = 400, "tls-required", "TLS Required";
    PEER_CERTIFICATE = 403, "peer-certificate", "Peer Certificate Required";
    UPGRADE_REQUIRED = 426, "upgrade-required", "Upgrade Required";
    PARTIAL_PUT = 400, "partial-put", "Partial Put";
    BAD_CONDITION = 400, "bad-condition", "Bad Condition";
    CONDITIONAL_WRITE = 501, "conditional-write", "Conditional Writes Not Supported";
    SCAN_NEEDS_HTTP_1_1 = 505, "scan-needs-http-1.1", "Scans Need HTTP/1.1";
    VALUE_TOO_LONG = 413, "value-too-long", "Value Too Long";
    BATCH_TOO_LONG = 413, "batch-too-long", "Batch Too Long";
    BAD_LINE = 400, "bad-line", "Bad Line";
    LINE_TOO_LONG = 413, "line-too-long", "Line Too Long";
    ANSWER_TOO_LONG = 413, "answer-too-long", "Answer Too Long";
    OVERLOADED = 503, "overloaded", "Overloaded";
    BROKEN_BODY = 400, "broken-body", "Broken Body";
    LATE_BODY = 408, "late-body", "Late Body";
    NOT_READY = 503, "not-ready", "Not Ready";
    NO_SUCH_ENTITY = 404, "no-such-entity", "No Such Entity";
    NO_SUCH_COPY = 404, "no-such-copy", "No Such Copy";
    OTHER_VERSION = 412, "other-version", "Other Version";
    CLOCK = 503, "clock", "Clock Out Of Bounds";
    TIMESTAMP_BOUND_NOT_STORED = 503, "timestamp-bound-not-stored", "Timestamp Bound Not Stored";
    RESTORED_STORE = 503, "restored-store", "Store Restored From A Copy";
    NEW_STORE = 503, "new-store", "New Store";
    STORE_FAILED = 503, "store-failed", "Store Failed";
    STORE_NOT_OPEN = 503, "store-not-open", "Store Not Open";
    NO_TIMESTAMPS_LEFT = 503, "no-timestamps-left", "No Timestamps Left";
    TOO_FEW_NODES = 504, "too-few-nodes", "Too Few Nodes";
    NOT_ENOUGH_REPLICAS = 504, "not-enough-replicas", "Not Enough Replicas";
    COPY_NOT_COMPARED = 504, "copy-not-compared", "Copy Not Compared";
    DISK_FULL = 507, "disk-full", "Disk Full";
    SCAN_TIMED_OUT = 504, "scan-timed-out", "Scan Timed Out";
    SCAN_TOO_LONG = 504, "scan-too-long", "Scan Too Long";
    SCAN_FAILED = 500, "scan-failed", "Scan Failed";
    EXPRESSION_TOO_COSTLY = 422, "expression-too-costly", "Expression Too Costly";
    TOO_MANY_GROUPS = 422, "too-many-groups", "Too Many Groups";
    COMPACTION_FAILED = 500, "compaction-failed", "Compaction Failed";
    NO_SUCH_BACKUP = 404, "no-such-backup", "No Such Backup";
    BACKUP_RUNNING = 409, "backup-running", "Backup Running";
    BACKUP_FAILED = 500, "backup-failed", "Backup Failed";
    CHANGE_REFUSED = 409, "change-refused", "Change Refused";
    CHANGE_NOT_DECIDED = 504, "change-not-decided", "Change Not Decided";
    SET_ASIDE_FAILED = 500, "set-aside-failed", "Set Aside Failed";
    PROFILE_RUNNING = 409, "profile-running", "Profile Running";
    PROFILE_UNAVAILABLE = 501, "profile-unavailable", "Profile Unavailable";
    CLIENT_LEFT = 400, "client-left", "Client Left";
    PROFILE_FAILED = 500, "profile-failed", "Profile Failed";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_api_has_a_table_of_all_types() {
        const PAGE: &str = include_str!("../../../docs/reference/api.md");
        let section = PAGE.split_once("\n### Types of problems\n").unwrap().1;
        let section = section.split_once("\n## ").unwrap().0;
        let rows: Vec<Vec<&str>> = section
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
            .collect();
        let described: Vec<String> = rows.iter().map(|row| row[..3].join(" | ")).collect();
        let expected: Vec<String> = ALL
            .iter()
            .map(|known| format!("`{}` | {} | {}", known.name, known.status, known.title))
            .collect();
        assert_eq!(
            described, expected,
            "docs/reference/api.md, \"Types of problems\""
        );
        for row in rows {
            assert!(row.len() == 4 && !row[3].is_empty(), "what to do: {row:?}");
        }
    }
}
