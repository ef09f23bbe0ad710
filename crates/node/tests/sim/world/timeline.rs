//! When operations ran and when hosts were unavailable, and the check that follows: while
//! at most one host is unavailable, requests to the others succeed in time.

use crate::network::HostNumber;
use checker::{Action, History, Operation, OperationId, Outcome, Request};
use std::time::Duration;
use tokio::time::Instant;

/// How long after a host went down or came back requests may take longer: until its
/// peers have noticed its silence, or have met it again.
const NOTICED: Duration = Duration::from_millis(1_000);

/// How long a host that came back may take until its requests must succeed.
const RECOVERED: Duration = Duration::from_millis(2_500);

/// How long a request may take while its coordinator knows which host is down, because
/// it does not wait for that host.
const ANSWERED: Duration = Duration::from_millis(400);

/// When operations and outages began and ended.
pub(crate) struct Timeline {
    began: Instant,
    /// By operation.
    spans: Vec<Span>,
    outages: Vec<Outage>,
}

/// The time span of an operation or an outage.
#[derive(Clone, Copy)]
struct Span {
    from: Instant,
    until: Option<Instant>,
}

struct Outage {
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
    /// A timeline without operations.
    pub(super) fn new(began: Instant) -> Self {
        Self {
            began,
            spans: Vec::new(),
            outages: Vec::new(),
        }
    }

    /// The next operation is invoked now.
    pub(super) fn invoked(&mut self) {
        self.spans.push(Span::now());
    }

    /// An operation ends now.
    pub(super) fn completed(&mut self, id: OperationId) {
        self.spans[id.0].until = Some(Instant::now());
    }

    /// A host becomes unavailable now.
    pub(crate) fn goes_down(&mut self, host: HostNumber) {
        let span = Span::now();
        self.outages.push(Outage { host, span });
    }

    /// A host is available again now.
    pub(crate) fn comes_back(&mut self, host: HostNumber) {
        let mut of_host = self.outages.iter_mut();
        if let Some(outage) = of_host.find(|each| each.host == host && each.span.until.is_none()) {
            outage.span.until = Some(Instant::now());
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

    /// The requests that failed or took too long although at most one host was unavailable,
    /// and not the asked one.
    pub(super) fn failed_with_one_unavailable(&self, history: &History) -> Vec<String> {
        let mut failed = Vec::new();
        for (id, operation) in (0..).map(OperationId).zip(history.operations()) {
            let span = self.spans[id.0];
            let (Some(until), true) = (span.until, self.must_succeed(operation, span)) else {
                continue;
            };
            let is_answered = matches!(
                operation.outcome(),
                Some(Outcome::Written { .. } | Outcome::Found { .. })
            );
            let took = until - span.from;
            // A scan waits for many pages, one after another.
            let is_scan = operation.request.action == Action::Scan;
            let is_slow = took > ANSWERED && !is_scan && self.is_settled(span);
            if !is_answered || is_slow {
                let at_ms = (span.from - self.began).as_secs_f64() * 1e3;
                failed.push(format!(
                    "at most one host was unavailable, yet at {at_ms:.3} after {took:?}: #{} {operation}",
                    id.0
                ));
            }
        }
        failed
    }

    /// Whether the asked node was available all the time.
    fn must_succeed(&self, operation: &Operation, span: Span) -> bool {
        let Request {
            node,
            action,
            ack,
            from,
            ..
        } = operation.request;
        if action == Action::Scan && ack == from {
            // No node may be missing, not even one that is no replica of the key.
            return false;
        }
        let of_node = self.outages.iter().filter(|each| each.host == node);
        !of_node.into_iter().any(|outage| {
            let is_back = outage
                .span
                .until
                .is_some_and(|back| back + RECOVERED <= span.from);
            let is_later = span.until.is_some_and(|until| until < outage.span.from);
            !is_back && !is_later
        })
    }

    /// Whether no host went down or came back shortly before.
    fn is_settled(&self, span: Span) -> bool {
        !self.outages.iter().any(|outage| {
            let of_absence = [Some(outage.span.from), outage.span.until];
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
    use tokio::time::advance;

    const DOWN: HostNumber = 2;

    /// A history in which one host goes down and comes back.
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

        /// Adds a request to a node that takes `took_ms` to answer `outcome`.
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
            let told = self.timeline.failed_with_one_unavailable(&self.history);
            assert_eq!(told.len(), failed, "{told:?}");
        }
    }

    const WRITTEN: Outcome = Outcome::Written {
        version: Timestamp::ZERO,
        acks: 2,
    };
    const NOT_ENOUGH: Outcome = Outcome::NotEnough { timestamp: None };

    #[tokio::test(start_paused = true)]
    async fn requests_to_available_hosts_must_succeed() {
        let mut story = Story::new();
        story.ask(0, 10, WRITTEN).await;
        story.timeline.goes_down(DOWN);
        story.ask(0, 10, WRITTEN).await;
        story.failed(0);
        story.ask(0, 10, NOT_ENOUGH).await;
        story.failed(1);
        story.ask(1, 10, Outcome::Lost).await;
        story.failed(2);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_to_an_unavailable_host_may_fail_until_it_has_recovered() {
        let mut story = Story::new();
        story.timeline.goes_down(DOWN);
        story.ask(DOWN, 10, NOT_ENOUGH).await;
        story.timeline.comes_back(DOWN);
        story.ask(DOWN, 10, NOT_ENOUGH).await;
        story.failed(0);
        advance(RECOVERED).await;
        story.ask(DOWN, 10, NOT_ENOUGH).await;
        story.failed(1);
    }

    #[tokio::test(start_paused = true)]
    async fn no_request_waits_for_a_host_that_is_known_to_be_down() {
        let mut story = Story::new();
        story.timeline.goes_down(DOWN);
        story.ask(0, 600, WRITTEN).await;
        story.failed(0);
        advance(NOTICED).await;
        story.ask(0, 300, WRITTEN).await;
        story.failed(0);
        story.ask(0, 600, WRITTEN).await;
        story.failed(1);
    }
}
