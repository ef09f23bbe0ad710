//! Failures as their answers.

use super::*;
use base::Timestamp;
use cluster::{Fate, Miss};
use node::{Failure, NoTimestamp, ReplicaLine};
use std::time::Duration;

const REPLICAS: Replicas = Replicas { ack: 1, from: 1 };

fn receipt() -> Receipt {
    Receipt {
        acks: 0,
        timestamp: Some(Timestamp::from_u64(7)),
        replicas: vec![ReplicaLine {
            url: "http://a:1".to_owned(),
            outcome: Fate::Missed(Miss::Timeout),
        }],
    }
}

#[test]
fn each_failure_has_its_status() {
    for (failure, status) in [
        (Failure::Overloaded, 503),
        (Failure::NoTimestamp(NoTimestamp::Far), 503),
        (Failure::DiskFull(receipt()), 507),
        (Failure::StoreFailed("a sync failed".into()), 503),
        (Failure::NotEnoughReplicas(receipt()), 504),
    ] {
        let response = Problem::of_failure(failure, REPLICAS).into_response();
        let acks = response.headers().get("kvorum-acks");
        let replicas_took_part = matches!(status, 504 | 507);
        assert_eq!(acks.is_some_and(|acks| acks == "0/1"), replicas_took_part);
        assert_eq!(response.status().as_u16(), status);
        let retry = response.headers().contains_key(RETRY_AFTER);
        assert_eq!(retry, status == 503);
    }
}

#[test]
fn a_receipt_says_what_became_of_each_replica() {
    let problem = Problem::of_failure(Failure::NotEnoughReplicas(receipt()), REPLICAS);
    let document: serde_json::Value = serde_json::from_slice(&problem.document()).unwrap();
    assert_eq!(document["title"], "Not Enough Replicas");
    assert_eq!(document["status"], 504);
    assert_eq!(document["timestamp"], "7");
    assert_eq!(
        document["replicas"],
        serde_json::json!([{"url": "http://a:1", "outcome": "timeout"}])
    );
}

#[test]
fn a_read_that_failed_does_not_speak_of_a_write() {
    let detail_of = |receipt| {
        let failure = Failure::NotEnoughReplicas(receipt);
        Problem::of_failure(failure, REPLICAS).detail.into_owned()
    };
    assert!(detail_of(receipt()).contains("a retry creates a newer version"));
    let of_a_read = Receipt {
        timestamp: None,
        ..receipt()
    };
    assert!(!detail_of(of_a_read).contains("write"));
}

#[test]
fn the_type_of_a_write_without_a_timestamp_names_the_cause() {
    for (why, kind) in [
        (NoTimestamp::Outdated, "restored-store"),
        (NoTimestamp::Bound, "timestamp-bound-not-stored"),
        (
            NoTimestamp::Unheard {
                all_after: Duration::from_secs(7200),
            },
            "new-store",
        ),
        (NoTimestamp::Closed, "store-not-open"),
        (NoTimestamp::End, "no-timestamps-left"),
        (NoTimestamp::Far, "clock"),
        (NoTimestamp::Unmet, "clock"),
        (NoTimestamp::NoneNear, "clock"),
        (NoTimestamp::NoTime, "clock"),
        (NoTimestamp::Ahead { ahead_ms: 9_000 }, "clock"),
    ] {
        let problem = Problem::of_failure(Failure::NoTimestamp(why), REPLICAS);
        let document: serde_json::Value = serde_json::from_slice(&problem.document()).unwrap();
        assert_eq!(document["type"], format!("urn:kvorum:problem:{kind}"));
        assert_eq!(document["status"], 503);
        let names_the_repair = document["detail"].as_str().unwrap().contains("full repair");
        assert_eq!(names_the_repair, why == NoTimestamp::Outdated, "{document}");
    }
}
