//! Measures the queueing delay of the runtimes, and calls the controller.
//!
//! Each runtime has a probe: a task that sleeps, then lets all ready tasks run before it. The
//! lateness of its wake plus the time of those tasks is what a request that arrived then would have
//! waited. Requests pay nothing for this.

use super::Background;
use std::sync::Arc;
use std::time::Duration;

/// How often the probe of a runtime measures, and how often it does while there is no
/// background work.
const PROBE_PERIOD: Duration = Duration::from_millis(25);
const PROBE_PERIOD_IDLE: Duration = Duration::from_millis(250);

/// How many probes of the first runtime make a step of the controller.
const PROBES_A_STEP: u32 = 4;

/// How late a timer may be because of its resolution.
const TIMER_RESOLUTION: Duration = Duration::from_millis(2);

impl Background {
    /// The probe of one runtime. The one that `decides` has the controller take steps.
    pub async fn probe_forever(self: Arc<Self>, decides: bool) {
        let mut probes = 0;
        loop {
            let period = if self.is_idle() {
                PROBE_PERIOD_IDLE
            } else {
                PROBE_PERIOD
            };
            let asleep = self.now();
            tokio::time::sleep(period).await;
            let awake = self.now();
            tokio::task::yield_now().await;
            let ran = self.now().saturating_sub(awake);
            let late = awake.saturating_sub(asleep).saturating_sub(period);
            self.note_delay(ran.saturating_add(late.saturating_sub(TIMER_RESOLUTION)));
            probes += 1;
            if decides && (probes >= PROBES_A_STEP || period == PROBE_PERIOD_IDLE) {
                probes = 0;
                self.decide();
            }
        }
    }
}
