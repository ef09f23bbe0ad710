//! A store of a test: what its nodes answer to scans and batches.

use super::{Request, Script, TestNode};
use crate::text::parse_percent;
use api::Entity;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The entities that all nodes of a test serve.
#[derive(Clone, Default)]
pub(crate) struct TestStore(Arc<Mutex<BTreeMap<Vec<u8>, Entity>>>);

impl TestStore {
    pub(crate) fn of(entities: impl IntoIterator<Item = Entity>) -> Self {
        let store = Self::default();
        for entity in entities {
            store.put(entity);
        }
        store
    }

    pub(crate) fn put(&self, entity: Entity) {
        self.0.lock().unwrap().insert(entity.key.clone(), entity);
    }

    pub(crate) fn entities(&self) -> Vec<Entity> {
        self.0.lock().unwrap().values().cloned().collect()
    }

    /// A node that serves the store.
    pub(crate) fn node(&self) -> TestNode {
        let store = self.clone();
        TestNode::answering(move |request| Script::Answer(store.answer(request)))
    }

    /// What a node answers.
    pub(crate) fn answer(&self, request: &Request) -> Vec<u8> {
        if request.target.starts_with("/v0/batch") {
            stream(&self.run(&request.body, |_| 201), None)
        } else {
            stream(&self.scan(request), Some(Trailers::default()))
        }
    }

    /// The lines of a scan.
    pub(crate) fn scan(&self, request: &Request) -> Vec<String> {
        let parameter = |name: &str| {
            let query = request.target.split_once('?').unwrap().1;
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let value = pairs.find(|(found, _)| *found == name)?.1;
            parse_percent(value.as_bytes())
        };
        let number = |digits: Vec<u8>| String::from_utf8(digits).unwrap().parse().unwrap();
        let (start, end) = (parameter("start").unwrap(), parameter("end"));
        let limit: usize = parameter("limit").map_or(usize::MAX, number);
        let has_values = parameter("values").is_none();
        let entities = self.0.lock().unwrap();
        let range = entities
            .range(start..)
            .take_while(|(key, _)| end.as_ref().is_none_or(|end| *key < end));
        let lines = range.take(limit).map(|(_, entity)| {
            let mut line = Vec::new();
            let entity = Entity {
                value: entity.value.clone().filter(|_| has_values),
                version: Some("9".to_owned()),
                ..entity.clone()
            };
            entity.write_line(true, &mut line);
            String::from_utf8(line).unwrap()
        });
        lines.collect()
    }

    /// Runs a batch; `decide` says how the operation with this number ends. A put is stored
    /// if it is a success, and also if it ends in 504: such a write may happen. Returns the
    /// lines of the answer.
    pub(crate) fn run(&self, body: &[u8], mut decide: impl FnMut(usize) -> u16) -> Vec<String> {
        let lines = body
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        let answers = lines.enumerate().map(|(index, line)| {
            let mut line: Value = serde_json::from_slice(line).unwrap();
            let operation = line.as_object_mut().unwrap().remove("op");
            assert_eq!(operation, Some("put".into()));
            let status = decide(index);
            if matches!(status, 201 | 504) {
                self.put(Entity::parse(line.to_string().as_bytes()).unwrap());
            }
            let answer = match status {
                201 => json!({"status": 201, "version": "9"}),
                _ => json!({"status": status, "problem": {"detail": format!("why {status}")}}),
            };
            format!("{answer}\n")
        });
        answers.collect()
    }
}

/// What stands behind the body of a scan.
#[derive(Default)]
pub(crate) struct Trailers {
    pub(crate) count: Option<&'static str>,
    pub(crate) digest: Option<&'static str>,
}

/// An answer in chunks, a line each; with right trailers unless these say otherwise.
pub(crate) fn stream(lines: &[String], trailers: Option<Trailers>) -> Vec<u8> {
    let mut answer = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\
                      Transfer-Encoding: chunked\r\n\r\n"
        .to_owned();
    for line in lines {
        answer += &format!("{:x}\r\n{line}\r\n", line.len());
    }
    answer += "0\r\n";
    if let Some(trailers) = trailers {
        let count = lines.len().to_string();
        let digest = format!(
            "crc32c={:08X}",
            crc_fast::crc32_iscsi(lines.concat().as_bytes())
        );
        let count = trailers.count.unwrap_or(&count);
        let digest = trailers.digest.unwrap_or(&digest);
        answer += &format!("kvorum-count: {count}\r\nkvorum-digest: {digest}\r\n");
    }
    answer += "\r\n";
    answer.into_bytes()
}

/// Entities whose keys and values are of all kinds, in the order of their keys.
pub(crate) fn entities(count: usize, random: &mut fastrand::Rng) -> Vec<Entity> {
    let mut bytes = |least: usize, most: usize| -> Vec<u8> {
        let alphabet: &[u8] = [&b"ab/\n\0\"\\\xff\xc3\xa4"[..], b"xyz 0123"][random.usize(..2)];
        let length = random.usize(least..=most);
        (0..length)
            .map(|_| alphabet[random.usize(..alphabet.len())])
            .collect()
    };
    let entities = (0..count).map(|number| {
        let key = [&bytes(1, 6)[..], number.to_string().as_bytes()].concat();
        let value = Some(bytes(0, 40));
        let expires = number
            .is_multiple_of(3)
            .then(|| format!("2126-11-22T16:00:00.{:03}Z", number % 999 + 1));
        (
            key.clone(),
            Entity {
                key,
                value,
                version: None,
                expires,
            },
        )
    });
    entities.collect::<BTreeMap<_, _>>().into_values().collect()
}
