//! When things were asked and answered, when hosts were away, and what follows:
//! while one is away, the others go on.

use crate::network::HostNumber;
use checker::{History, Operation, OperationId, Outcome};
use std::time::Duration;
use tokio::time::Instant;

/// How long after a host went away, or after it came back, nothing is asked of
/// how long requests take: by then its silence is noticed, or it has met all again.
const NOTICED: Duration = Duration::from_millis(1_000);

/// How long a host that came back may take until it can do its part.
const RECOVERED: Duration = Duration::from_millis(2_500);

/// How long a request may take at most while a host is away and that is known:
/// it waits for nobody who does not answer.
const ANSWERED: Duration = Duration::from_millis(400);

/// What happened when.
pub(crate) struct Timeline {
    began: Instant,
    /// By operation.
    spans: Vec<Span>,
    absences: Vec<Absence>,
}

/// From when to when something lasted.
#[derive(Clone, Copy)]
struct Span {
    from: Instant,
    until: Option<Instant>,
}

struct Absence {
    host: HostNumber,
    span: Span,
}

impl Span {
    fn now() -> Self {
        Self {
            from: Instant::now(),
            until: None,
        }
    }
}

impl Timeline {
    /// Nothing has happened yet.
    pub(super) fn new(began: Instant) -> Self {
        Self {
            began,
            spans: Vec::new(),
            absences: Vec::new(),
        }
    }

    /// The next operation is invoked now.
    pub(super) fn invoked(&mut self) {
        self.spans.push(Span::now());
    }

    /// An operation has ended now.
    pub(super) fn completed(&mut self, id: OperationId) {
        self.spans[id.0].until = Some(Instant::now());
    }

    /// A host goes away now.
    pub(crate) fn leaves(&mut self, host: HostNumber) {
        let span = Span::now();
        self.absences.push(Absence { host, span });
    }

    /// A host is back now.
    pub(crate) fn returns(&mut self, host: HostNumber) {
        let mut of_host = self.absences.iter_mut();
        if let Some(absence) = of_host.find(|each| each.host == host && each.span.until.is_none()) {
            absence.span.until = Some(Instant::now());
        }
    }

    /// When an operation was invoked.
    pub(super) fn invoked_at(&self, id: OperationId) -> Instant {
        self.spans[id.0].from
    }

    /// When an operation ended.
    pub(super) fn completed_at(&self, id: OperationId) -> Option<Instant> {
        self.spans[id.0].until
    }

    /// The requests that failed, or took too long, although one host was away
    /// at most, and not the one that was asked.
    pub(super) fn failed_for_one_away(&self, history: &History) -> Vec<String> {
        let mut failed = Vec::new();
        for (place, operation) in history.operations().iter().enumerate() {
            let span = self.spans[place];
            let (Some(until), true) = (span.until, self.is_owed(operation, span)) else {
                continue;
            };
            let is_answered = matches!(
                operation.outcome(),
                Some(Outcome::Written { .. } | Outcome::Found { .. })
            );
            let took = until - span.from;
            let is_slow = took > ANSWERED && self.is_settled(span);
            if !is_answered || is_slow {
                let at_ms = (span.from - self.began).as_secs_f64() * 1e3;
                failed.push(format!(
                    "one host was away at most, yet at {at_ms:.3} after {took:?}: #{place} {operation}"
                ));
            }
        }
        failed
    }

    /// Whether the node that was asked was there all the time.
    fn is_owed(&self, operation: &Operation, span: Span) -> bool {
        let node = operation.request.node;
        let of_node = self.absences.iter().filter(|each| each.host == node);
        !of_node.into_iter().any(|absence| {
            let is_back = absence
                .span
                .until
                .is_some_and(|back| back + RECOVERED <= span.from);
            let is_later = span.until.is_some_and(|until| until < absence.span.from);
            !is_back && !is_later
        })
    }

    /// Whether nobody had left or come back lately.
    fn is_settled(&self, span: Span) -> bool {
        !self.absences.iter().any(|absence| {
            let of_absence = [Some(absence.span.from), absence.span.until];
            of_absence.into_iter().flatten().any(|change| {
                change + NOTICED > span.from && span.until.is_none_or(|until| change <= until)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Timestamp;
    use checker::{Action, Request};
    use tokio::time::advance;

    const AWAY: HostNumber = 2;

    /// A world in which one host went away and came back.
    struct Story {
        timeline: Timeline,
        history: History,
    }

    impl Story {
        fn new() -> Self {
            Self {
                timeline: Timeline::new(Instant::now()),
                history: History::default(),
            }
        }

        /// Asks a node, which takes so long to answer this.
        async fn ask(&mut self, node: HostNumber, took_ms: u64, outcome: Outcome) {
            let request = Request {
                client: 0,
                node,
                key: 0,
                action: Action::Delete,
                ack: 2,
                from: 3,
            };
            let id = self.history.invoke(request, 0);
            self.timeline.invoked();
            advance(Duration::from_millis(took_ms)).await;
            self.history.complete(id, outcome, 0);
            self.timeline.completed(id);
        }

        #[track_caller]
        fn failed(&self, failed: usize) {
            let told = self.timeline.failed_for_one_away(&self.history);
            assert_eq!(told.len(), failed, "{told:?}");
        }
    }

    const WRITTEN: Outcome = Outcome::Written {
        version: Timestamp::ZERO,
        acks: 2,
    };
    const NOT_ENOUGH: Outcome = Outcome::NotEnough { stamp: None };

    #[tokio::test(start_paused = true)]
    async fn whoever_asks_another_is_answered() {
        let mut story = Story::new();
        story.ask(0, 10, WRITTEN).await;
        story.timeline.leaves(AWAY);
        story.ask(0, 10, WRITTEN).await;
        story.failed(0);
        story.ask(0, 10, NOT_ENOUGH).await;
        story.failed(1);
        story.ask(1, 10, Outcome::Lost).await;
        story.failed(2);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_asks_the_one_that_is_away_is_owed_nothing_until_it_is_well() {
        let mut story = Story::new();
        story.timeline.leaves(AWAY);
        story.ask(AWAY, 10, NOT_ENOUGH).await;
        story.timeline.returns(AWAY);
        story.ask(AWAY, 10, NOT_ENOUGH).await;
        story.failed(0);
        advance(RECOVERED).await;
        story.ask(AWAY, 10, NOT_ENOUGH).await;
        story.failed(1);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_host_that_is_known_to_be_away() {
        let mut story = Story::new();
        story.timeline.leaves(AWAY);
        story.ask(0, 600, WRITTEN).await;
        story.failed(0);
        advance(NOTICED).await;
        story.ask(0, 300, WRITTEN).await;
        story.failed(0);
        story.ask(0, 600, WRITTEN).await;
        story.failed(1);
    }
}
