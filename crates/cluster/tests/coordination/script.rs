//! The words of the golden files; their language is in `../golden/run.rs`.

pub(crate) use crate::run::run;

/// Writes consecutive actions of one kind together.
pub(crate) fn tell(actions: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let mut told: Vec<(&str, String)> = Vec::new();
    for (verb, of) in actions {
        match told.last_mut() {
            Some((last, list)) if *last == verb => {
                list.push(' ');
                list.push_str(&of);
            }
            _ => told.push((verb, of)),
        }
    }
    if told.is_empty() {
        return "wait".to_owned();
    }
    let parts: Vec<_> = told
        .iter()
        .map(|(verb, of)| format!("{verb} {of}").trim_end().to_owned())
        .collect();
    parts.join(", ")
}

/// A decision in the words of the files.
pub(crate) fn decision(decision: cluster::Decision) -> String {
    match decision {
        cluster::Decision::Enough { acks } => format!("enough {acks}"),
        cluster::Decision::NotEnough { acks } => format!("not enough {acks}"),
    }
}

/// `A/F`.
pub(crate) fn replicas(text: &str) -> cluster::Replicas {
    text.parse().unwrap()
}

/// `A/F`, and in a change `A/F>RRR:old` or `A/F>RRR:new`: the replicas in the new list, which are
/// single digits, and the list that judges. The old list has the first F.
pub(crate) fn quorum(text: &str) -> cluster::Quorum {
    let Some((pair, change)) = text.split_once('>') else {
        return replicas(text).into();
    };
    let replicas = replicas(pair);
    let (new, judge) = change.split_once(':').unwrap();
    let node = |digit: u8| cluster::NodeId::new(digit - b'0');
    let new: Vec<cluster::NodeId> = new.bytes().map(node).collect();
    let judge = match judge {
        "old" => cluster::WhichList::Old,
        "new" => cluster::WhichList::New,
        _ => panic!("unknown list: {judge}"),
    };
    let old = (0..replicas.from).map(cluster::NodeId::new).collect();
    cluster::Quorum::of_two(replicas, old, &new, judge).1
}

/// A miss by its word in the receipt; `other-epoch` has that of `refused`.
pub(crate) fn miss(word: &str) -> cluster::Miss {
    use cluster::{Fate, Miss};
    if let Some(below) = word.strip_prefix("obsolete-") {
        let below = base::Timestamp::from_u64(below.parse().unwrap());
        return Miss::Obsolete { below };
    }
    if word == "other-epoch" {
        return Miss::OtherEpoch;
    }
    [
        Miss::Timeout,
        Miss::Suspected,
        Miss::Refused,
        Miss::Unsupported,
        Miss::Overloaded,
        Miss::Full,
        Miss::Failed,
        Miss::Learner,
    ]
    .into_iter()
    .find(|miss| Fate::Missed(*miss).word() == word)
    .unwrap()
}

/// What a replica held: `newer T`, `unknown T`, or nothing.
pub(crate) fn newer_version(words: &[&str]) -> base::NewerVersion {
    let timestamp = |text: &str| base::Timestamp::from_u64(text.parse().unwrap());
    match words {
        [] => base::NewerVersion::None,
        ["newer", newest] => base::NewerVersion::At(timestamp(newest)),
        ["unknown", bound] => base::NewerVersion::Unknown(timestamp(bound)),
        _ => panic!("unknown: {words:?}"),
    }
}

/// The words of a receipt.
pub(crate) fn receipt(fates: impl Iterator<Item = cluster::Fate>) -> String {
    fates.map(cluster::Fate::word).collect::<Vec<_>>().join(" ")
}
