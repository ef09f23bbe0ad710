//! What a node says of each wait and each write: a recording of spans, read from its text.

use crate::nodes::LabNode;
use crate::{http, measure::Measured};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// The longest recording that is read, in bytes.
const RECORDING_BYTES_MAX: u64 = 512 << 20;

/// How long a node may take to write its recording down.
const WRITING_TIME_MAX: Duration = Duration::from_secs(60);

/// How many replicas a recording has the answers of.
const REPLICAS: usize = 4;

/// A time on the system's monotonic clock, in nanoseconds.
pub(super) type Moment = u64;

/// From one moment to another.
pub(super) type Span = Range<Moment>;

/// When a request reached its steps on the node that was asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Steps {
    /// The thread of its runtime.
    pub(super) thread: u32,
    /// What it wrote.
    pub(super) version: u64,
    /// Its first bytes were read; 0 if that is not known.
    pub(super) read: Moment,
    /// Its head was complete.
    pub(super) head: Moment,
    /// Its body was read.
    pub(super) body: Moment,
    /// It had its permit.
    pub(super) admitted: Moment,
    /// Its answer was made.
    pub(super) answered: Moment,
    /// Its answer was written.
    pub(super) written: Moment,
    /// When each node answered, by their IDs; 0 if it did not in time.
    pub(super) replicas: [Moment; REPLICAS],
}

/// How a write fared in the engine of one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EngineWaits {
    /// From its submission until its group was formed.
    pub(super) queue: Option<Span>,
    /// From then until it went into the memtable.
    pub(super) commit: Option<Span>,
}

/// A runtime that was busy from one wait for events to the next.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Busy {
    pub(super) span: Span,
    /// How much of it had a processor, in nanoseconds.
    pub(super) cpu_ns: u64,
}

/// The recording of one node.
#[derive(Debug, Default)]
pub(super) struct Recording {
    writes: BTreeMap<u64, EngineWaits>,
    /// The requests of each connection, by the port of the client, in their order.
    requests: BTreeMap<u16, Vec<Steps>>,
    /// Syncs of the log for a group, in their order. There is one at a time.
    pub(super) syncs: Vec<Span>,
    /// Other syncs: of tables, of the manifest, and of the log beside the commits.
    pub(super) other_syncs: Vec<Span>,
    /// The busy times of each runtime, by its thread, in their order.
    busy: BTreeMap<u32, Vec<Busy>>,
    /// How many records did not fit.
    pub(super) left_out: u64,
}

/// Records the spans of a node for some seconds, and waits for that.
pub(super) fn fetch(node: &LabNode, seconds: u64) -> Measured<Recording> {
    let url = format!("{}/debug/profile?kind=spans&seconds={seconds}", node.url());
    let timeout = Duration::from_secs(seconds) + WRITING_TIME_MAX;
    let text = http::get_long_page(&url, timeout, RECORDING_BYTES_MAX);
    let text = text.map_err(|error| error.to_string())?;
    Recording::parse(&text).ok_or_else(|| format!("{url}: the recording is malformed"))
}

impl Recording {
    /// Reads the text of a recording; none if it is none, or not whole.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut recording = Self::default();
        let mut is_whole = false;
        for line in text.lines() {
            let mut words = line.splitn(6, ' ');
            match words.next()? {
                "span" => {
                    let began: Moment = number(words.next())?;
                    let ended = number(words.next())?;
                    let thread = number(words.next())?;
                    let tag = number(words.next())?;
                    recording.add_span(words.next()?, began..ended, thread, tag);
                }
                "steps" => {
                    let numbers: Option<Vec<u64>> = line
                        .split(' ')
                        .skip(1)
                        .map(|word| number(Some(word)))
                        .collect();
                    recording.add_steps(&numbers?)?;
                }
                "left-out" => {
                    let spans: u64 = number(words.next())?;
                    recording.left_out = spans + number::<u64>(words.next())?;
                    is_whole = true;
                }
                _ => return None,
            }
        }
        for spans in [&mut recording.syncs, &mut recording.other_syncs] {
            spans.sort_by_key(|span| span.start);
        }
        for busy in recording.busy.values_mut() {
            busy.sort_by_key(|busy| busy.span.start);
        }
        for requests in recording.requests.values_mut() {
            requests.sort_by_key(|steps| steps.head);
        }
        is_whole.then_some(recording)
    }

    fn add_span(&mut self, site: &str, span: Span, thread: u32, tag: u64) {
        match site {
            "queue;engine write;gather" => self.writes.entry(tag).or_default().queue = Some(span),
            "queue;engine write;commit" => self.writes.entry(tag).or_default().commit = Some(span),
            "disk;log sync" => self.syncs.push(span),
            "disk;log sync aside" | "disk;table sync" | "disk;manifest" => {
                self.other_syncs.push(span);
            }
            "runtime;busy" => {
                let busy = Busy { span, cpu_ns: tag };
                self.busy.entry(thread).or_default().push(busy);
            }
            _ => {}
        }
    }

    fn add_steps(&mut self, numbers: &[u64]) -> Option<()> {
        let [
            port,
            thread,
            version,
            read,
            head,
            body,
            admitted,
            answered,
            written,
            replicas @ ..,
        ] = numbers
        else {
            return None;
        };
        let steps = Steps {
            thread: u32::try_from(*thread).ok()?,
            version: *version,
            read: *read,
            head: *head,
            body: *body,
            admitted: *admitted,
            answered: *answered,
            written: *written,
            replicas: replicas.try_into().ok()?,
        };
        let port = u16::try_from(*port).ok()?;
        self.requests.entry(port).or_default().push(steps);
        Some(())
    }

    /// The request of the connection with this port whose head was complete in a span.
    pub(super) fn request(&self, port: u16, within: &Span) -> Option<&Steps> {
        let requests = self.requests.get(&port)?;
        let first = requests.partition_point(|steps| steps.head < within.start);
        requests.get(first).filter(|steps| steps.head <= within.end)
    }

    /// How a write fared in this node's engine.
    pub(super) fn write(&self, version: u64) -> Option<&EngineWaits> {
        self.writes.get(&version)
    }

    /// How much of a span the runtime of this thread worked with a processor, in
    /// nanoseconds.
    pub(super) fn worked_ns(&self, thread: u32, span: &Span) -> u64 {
        let Some(all) = self.busy.get(&thread) else {
            return 0;
        };
        let first = all.partition_point(|busy| busy.span.end <= span.start);
        let within = all[first..]
            .iter()
            .take_while(|busy| busy.span.start < span.end);
        let worked = within.map(|busy| {
            let whole = length(&busy.span).max(1);
            let share = busy.cpu_ns.min(whole) as f64 / whole as f64;
            (overlap(&busy.span, span) as f64 * share) as u64
        });
        worked.sum()
    }
}

/// How long a span is, in nanoseconds.
pub(super) fn length(span: &Span) -> u64 {
    span.end.saturating_sub(span.start)
}

/// How much of a span lies in another, in nanoseconds.
pub(super) fn overlap(one: &Span, other: &Span) -> u64 {
    let (start, end) = (one.start.max(other.start), one.end.min(other.end));
    end.saturating_sub(start)
}

/// How much of a span lies in any of these, which are in order and apart, in nanoseconds.
pub(super) fn covered(span: &Span, by: &[Span]) -> u64 {
    let first = by.partition_point(|other| other.end <= span.start);
    let within = by[first..]
        .iter()
        .take_while(|other| other.start < span.end);
    within.map(|other| overlap(span, other)).sum()
}

fn number<N: std::str::FromStr>(word: Option<&str>) -> Option<N> {
    word?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
span 100 150 7 42 queue;engine write;gather
span 150 190 7 42 queue;engine write;commit
span 300 400 7 0 disk;log sync
span 160 180 7 0 disk;log sync
span 120 170 9 0 disk;table sync
span 100 200 5 50 runtime;busy
span 0 90 5 90 runtime;busy
span 5 9 5 0 queue;outbox
steps 5000 5 43 201 202 203 204 205 206 0 0 0 0
steps 5000 5 42 90 91 92 93 195 199 194 0 0 0
left-out 1 2
";

    #[test]
    fn a_recording_finds_what_belongs_together() {
        let recording = Recording::parse(TEXT).unwrap();
        assert_eq!(recording.syncs, [160..180, 300..400]);
        assert_eq!(recording.other_syncs.first(), Some(&(120..170)));
        assert_eq!(recording.left_out, 3);
        let steps = recording.request(5_000, &(80..200)).unwrap();
        assert_eq!(
            (steps.version, steps.read, steps.replicas[0]),
            (42, 90, 194)
        );
        let waits = recording.write(steps.version).unwrap();
        assert_eq!(waits.queue, Some(100..150));
        assert_eq!(waits.commit, Some(150..190));
        assert_eq!(recording.request(5_000, &(92..200)), None);
        assert_eq!(recording.request(5_001, &(80..200)), None);
    }

    #[test]
    fn a_runtime_without_a_processor_did_not_work() {
        let recording = Recording::parse(TEXT).unwrap();
        for (span, worked) in [(0..90, 90), (100..200, 50), (80..120, 20), (90..100, 0)] {
            assert_eq!(recording.worked_ns(5, &span), worked, "{span:?}");
        }
        assert_eq!(recording.worked_ns(6, &(0..90)), 0);
    }

    #[test]
    fn what_is_no_whole_recording_is_refused() {
        for text in [
            "",
            "span 1 2 3 4 disk;log sync\n",
            "samples 3\n",
            "steps 1 2 3\nleft-out 0 0\n",
        ] {
            assert!(Recording::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_span_is_covered_by_those_that_it_meets() {
        let by = [0..10, 20..30, 40..50];
        for (span, expected) in [(5..45, 20), (10..20, 0), (0..100, 30), (22..25, 3)] {
            assert_eq!(covered(&span, &by), expected, "{span:?}");
        }
    }
}
