//! Imports: lines of entities as batches, over several nodes, without losing a line. The lines of
//! keys to delete go the same way.
//!
//! ```text
//! input --sections--> dispatch --parts--> shards --batches--> nodes
//!                       |                 |
//!                       +---- tracker <---+   which lines are done, and how far all are
//! ```
//!
//! - `input` reads lines and cuts them into sections, each with a part for each shard. A key
//!   belongs to one shard, so lines with the same key are written in their order.
//! - `shard` sends one part after the other, and retries. A line writes the same content
//!   however often it is sent, so an interrupted batch is sent again.
//! - `batch` is a batch over one connection.
//! - `tracker` knows the [`Position`]: all lines before it are stored, or were reported. A later
//!   run that begins there repeats some lines and skips none.
//!
//! Memory is bounded by [`OPEN_SECTIONS_MAX`], and by [`OPEN_BYTES_MAX`] plus one line.

pub(crate) mod batch;
mod caller;
mod input;
mod shard;
mod tracker;
mod zstd;

pub use caller::{
    ImportError, ImportObserver, ImportOperation, ImportProgress, ImportSettings, LineFailure,
    Position, Waiting,
};

use crate::client::Client;
use input::{Input, InputError, Section};
use shard::Shard;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tracker::{News, Tracker};

/// The most sections that are under way.
const OPEN_SECTIONS_MAX: usize = 8;

/// The most bytes of batches that are under way; a longer section goes alone.
const OPEN_BYTES_MAX: usize = 64 << 20;

/// Bytes are counted in units of this size.
const UNIT_BYTES: usize = 1 << 10;

/// How often the observer hears of the progress.
const TICK: Duration = Duration::from_millis(200);

/// Imports lines from a position of the input on.
///
/// # Errors
/// [`ImportError`]. The observer hears of the position in any case.
pub async fn import(
    client: Arc<Client>,
    input: impl Read + Send + 'static,
    from: Position,
    settings: ImportSettings,
    observer: &mut dyn ImportObserver,
) -> Result<ImportProgress, ImportError> {
    let tracker = Arc::new(Tracker::new(from));
    let ended = run(client, input, from, settings, &tracker, observer).await;
    let last = tell(&tracker, observer, true);
    ended.and(last)
}

/// Tells the observer what happened since the last time.
fn tell(
    tracker: &Tracker,
    observer: &mut dyn ImportObserver,
    is_last: bool,
) -> Result<ImportProgress, ImportError> {
    let News {
        progress,
        failures,
        waiting,
    } = tracker.take_news();
    for failure in &failures {
        observer.passed_over(failure);
    }
    if let Some(waiting) = waiting.filter(|_| !is_last) {
        observer.waits(&waiting);
    }
    observer
        .progress(&progress, is_last)
        .map_err(ImportError::Observer)?;
    Ok(progress)
}

async fn run(
    client: Arc<Client>,
    input: impl Read + Send + 'static,
    from: Position,
    settings: ImportSettings,
    tracker: &Arc<Tracker>,
    observer: &mut dyn ImportObserver,
) -> Result<(), ImportError> {
    let (sender, sections) = mpsc::channel(1);
    // It ends when the input does, or when nobody takes its sections any more.
    let reader = std::thread::Builder::new().name("import".to_owned());
    let _detached = reader
        .spawn(move || read_sections(input, from, settings, &sender))
        .map_err(ImportError::Input)?;
    let mut shards = JoinSet::new();
    let mut parts = Vec::with_capacity(settings.shards.get());
    for index in 0..settings.shards.get() {
        let (sender, receiver) = mpsc::channel(OPEN_SECTIONS_MAX);
        parts.push(sender);
        let shard = Shard::new(index, Arc::clone(&client), settings, Arc::clone(tracker));
        shards.spawn(shard.run(receiver));
    }
    let mut dispatching = std::pin::pin!(dispatch(sections, parts, tracker));
    let mut dispatched = None;
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            shard = shards.join_next() => match shard {
                Some(Ok(ended)) => ended?,
                Some(Err(error)) => return Err(ImportError::Input(io::Error::other(error))),
                // Shards end once the dispatcher has.
                None => return dispatched.unwrap_or(Ok(())),
            },
            ended = &mut dispatching, if dispatched.is_none() => dispatched = Some(ended),
            _ = ticks.tick() => {
                tell(tracker, observer, false)?;
            }
        }
    }
}

/// Reads the input until its end or an error, which is the last thing that it sends.
fn read_sections(
    input: impl Read,
    from: Position,
    settings: ImportSettings,
    sections: &mpsc::Sender<Result<Section, InputError>>,
) {
    let mut input = match Input::open(input, from, settings) {
        Ok(input) => input,
        Err(error) => return drop(sections.blocking_send(Err(error))),
    };
    while let Some(section) = input.next_section().transpose() {
        let is_last = section.is_err();
        if sections.blocking_send(section).is_err() || is_last {
            return;
        }
    }
}

/// Gives each shard its parts, while few enough sections are under way.
async fn dispatch(
    mut sections: mpsc::Receiver<Result<Section, InputError>>,
    shards: Vec<mpsc::Sender<shard::Part>>,
    tracker: &Tracker,
) -> Result<(), ImportError> {
    let open_sections = Arc::new(Semaphore::new(OPEN_SECTIONS_MAX));
    let units_max = OPEN_BYTES_MAX / UNIT_BYTES;
    let open_bytes = Arc::new(Semaphore::new(units_max));
    while let Some(section) = sections.recv().await {
        let section = section.map_err(ImportError::from)?;
        let units = (section.bytes() / UNIT_BYTES + 1).min(units_max);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let permits = (
            Arc::clone(&open_sections).acquire_owned().await,
            Arc::clone(&open_bytes).acquire_many_owned(units).await,
        );
        // The semaphores are never closed.
        let (Ok(section_permit), Ok(bytes_permit)) = permits else {
            return Ok(());
        };
        let parts = section.parts.iter().filter(|part| !part.is_empty()).count();
        let number = tracker.open(
            parts,
            section.end,
            &section.failures,
            (section_permit, bytes_permit),
        );
        for (shard, operations) in shards.iter().zip(section.parts) {
            if operations.is_empty() {
                continue;
            }
            let part = shard::Part {
                section: number,
                operations,
            };
            if shard.send(part).await.is_err() {
                // The shard has ended, and says why.
                return Ok(());
            }
        }
    }
    Ok(())
}

impl From<InputError> for ImportError {
    fn from(error: InputError) -> Self {
        match error {
            InputError::Read(error) => Self::Input(error),
            InputError::Other(position) => Self::OtherInput(position),
            InputError::Line(failure) => Self::Line(failure),
        }
    }
}

#[cfg(test)]
mod tests;
