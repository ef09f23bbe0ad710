//! The dialler's side of a connection: takes answers, and makes the heart beat.

use super::Link;
use crate::assembly::Assembler;
use crate::calls::CallKind;
use crate::connection::{End, Side};
use crate::frame::{Frame, FrameError};
use crate::health::{self, HEARTBEAT, Pulse, Silence};
use crate::message::{self, Message};
use crate::outgoing::Outgoing;
use crate::{LiveLink, NegotiatedProtocol, PeerAnswer, STANDING, StartWatch};
use cluster::Miss;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior};

/// What a link does with a connection, for as long as that lives.
pub(super) struct DiallerSide<'a> {
    link: &'a Link,
    pulse: Pulse,
    start: StartWatch,
    /// Held while the peer is not suspected.
    hearing: Option<LiveLink>,
    heartbeat: Interval,
    /// What the two sides speak.
    negotiated: NegotiatedProtocol,
    /// Whether the peer has served anything yet.
    is_served: bool,
    /// Answers whose values come in pieces.
    answers: Assembler<()>,
}

impl<'a> DiallerSide<'a> {
    /// A connection that begins now.
    pub(super) fn new(link: &'a Link, negotiated: NegotiatedProtocol, start: StartWatch) -> Self {
        let environment = &link.environment;
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let budget = environment.incoming.clone();
        Self {
            link,
            pulse: Pulse::new(environment.clock.monotonic()),
            hearing: start.mark_live(),
            start,
            heartbeat,
            negotiated,
            is_served: false,
            answers: Assembler::new(budget, environment.value_bytes_max),
        }
    }

    fn ping(&self, now: Duration) {
        let token = now.as_micros() as u64;
        let outgoing = &self.link.outgoing;
        outgoing.push_urgent(|out| message::put_ping(out, token));
    }

    /// `token` is the moment of the ping, on the monotonic clock.
    fn take_pong(&self, token: u64, unix_ms: u64, now: Duration) {
        let took = now.saturating_sub(Duration::from_micros(token));
        if let Some(ahead_ms) = health::ahead_ms(unix_ms, now, took) {
            self.link.ahead_of_monotonic_ms.set(Some(ahead_ms));
        }
    }

    /// Hands over an answer, if it is one to what was asked. A call that has
    /// been given up is not known any more, so its answer may be anything.
    fn answer(
        &self,
        frame: Frame<'_>,
        kind: CallKind,
        answer: PeerAnswer,
        now: Duration,
    ) -> Result<(), FrameError> {
        if self.link.kind_of(frame.call).is_some_and(|was| was != kind) {
            return Err(frame.malformed("no answer to what was asked"));
        }
        self.link.answer(frame.call, answer, now);
        Ok(())
    }
}

impl Side for DiallerSide<'_> {
    fn outgoing(&self) -> &Outgoing {
        &self.link.outgoing
    }

    fn can_take(&self) -> bool {
        // Answers to calls in flight, which are bounded.
        true
    }

    fn heard(&mut self, now: Duration) {
        self.pulse.heard(now);
        if self.hearing.is_none() {
            self.hearing = self.start.mark_live();
        }
        self.link.trust();
    }

    fn take(&mut self, frame: Frame<'_>, now: Duration) -> Result<(), FrameError> {
        if !std::mem::replace(&mut self.is_served, true) {
            // The side that is dialled serves nobody whom it does not durably
            // remember.
            self.link.remembered();
        }
        match Message::decode(frame)? {
            Message::Stored { verdict } => {
                let stored = PeerAnswer::Stored { verdict };
                self.answer(frame, CallKind::Write, stored, now)?;
            }
            Message::Found(head) => match head.whole() {
                Some(entry) => {
                    let found = PeerAnswer::Found(Some(entry));
                    self.answer(frame, CallKind::Read, found, now)?;
                }
                None => self.answers.begin(frame, &head, ())?,
            },
            Message::Absent => self.answer(frame, CallKind::Read, PeerAnswer::Found(None), now)?,
            Message::Missed(miss) => {
                let missed = PeerAnswer::Missed(miss);
                self.link.answer(frame.call, missed, now);
            }
            Message::Piece(piece) => {
                if let Some(assembled) = self.answers.piece(frame, piece)? {
                    // Whoever waits for the value counts it from here on.
                    let found = match assembled.entry {
                        Some((entry, _share)) => PeerAnswer::Found(Some(entry)),
                        None => PeerAnswer::Missed(Miss::Overloaded),
                    };
                    self.answer(frame, CallKind::Read, found, now)?;
                }
            }
            Message::Standing(standing) if self.negotiated.has(STANDING) => {
                self.link.standing.set(Some(standing));
            }
            Message::Pong { unix_ms } => self.take_pong(frame.call, unix_ms, now),
            Message::Write { .. } | Message::Read { .. } | Message::Ping | Message::Standing(_) => {
                return Err(frame.malformed("no place in an answer"));
            }
        }
        Ok(())
    }

    fn poll_timers(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if self.link.is_suspected() && self.link.is_redial_due.get() {
            // The peer is up, and knows nothing of this connection perhaps.
            return Poll::Ready(End::Silent);
        }
        while self.heartbeat.poll_tick(cx).is_ready() {
            let now = self.link.environment.clock.monotonic();
            match self.pulse.beat(now) {
                Silence::Short => {}
                Silence::Suspicious => {
                    self.hearing = None;
                    self.link.suspect();
                }
                Silence::Dead => return Poll::Ready(End::Silent),
            }
            self.ping(now);
        }
        Poll::Pending
    }
}
