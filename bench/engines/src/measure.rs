//! Runs one task in this process and measures it.
//!
//! A process runs only one task, so that the memory and the processor time of the process
//! are those of the task. Readers warm up before the measurement begins.

use crate::data::{KEY_BYTES, Key, Shuffled, Values, absent_key, is_value_of, present_key};
use crate::store::{self, Failure, Store};
use crate::task::{Latency, Measurement, Task, Workload};
use crate::usage::{self, Usage};
use hdrhistogram::Histogram;
use profile::{ProfileKind, Recording};
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Longer latencies count as this one, in nanoseconds.
const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// How many values all readers together read to warm up. That fills the cache, and does
/// the work that a process does only once.
const WARM_UP_VALUES: u64 = 100_000;

/// Runs the task. If `flame_graph` names a file, it also writes the flame graph of the
/// processor time, including background work.
///
/// # Errors
/// Those of the engine and of the profile, and a wrong answer of the engine.
pub fn measure(task: Task, flame_graph: Option<&Path>) -> Result<Measurement, Failure> {
    let store = store::open(task.engine, &task.folder, task.durability, task.value_bytes)?;
    if !task.workload.writes() {
        // Some engines continue a compaction when they are opened.
        store.settle()?;
    }
    let recording = match flame_graph {
        Some(_) => Some(Recording::start(ProfileKind::Cpu)?),
        None => None,
    };
    let (tally, started) = run(&*store, &task)?;
    let running = started.used()?;
    store.settle()?;
    let settled = started.used()?;
    if let (Some(recording), Some(file)) = (recording, flame_graph) {
        std::fs::write(file, recording.finish().flame_graph())?;
    }
    let memory_bytes_peak = usage::memory_bytes_peak()?;
    store.close()?;
    let written = if task.workload.writes() {
        tally.operations
    } else {
        0
    };
    Ok(Measurement {
        operations: tally.operations,
        seconds: running.seconds,
        cpu_seconds: running.cpu_seconds,
        settled_seconds: settled.seconds,
        settled_cpu_seconds: settled.cpu_seconds,
        written_bytes: settled.written_bytes,
        data_bytes: written * (KEY_BYTES + task.value_bytes) as u64,
        disk_bytes: usage::disk_bytes(&task.folder)?,
        memory_bytes_peak,
        latency: tally.latency(),
        task,
    })
}

/// What the threads have done together, and when they began.
fn run(store: &dyn Store, task: &Task) -> Result<(Tally, Usage), Failure> {
    let warm = Barrier::new(task.threads as usize + 1);
    let begin = Barrier::new(task.threads as usize + 1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..task.threads)
            .map(|number| {
                let (warm, begin) = (&warm, &begin);
                scope.spawn(move || {
                    let worker = warm_up(store, task, number);
                    // Also after an error, because the others wait here.
                    warm.wait();
                    begin.wait();
                    let mut worker = worker?;
                    let seconds = Duration::from_secs_f64(task.seconds_max);
                    worker.until = Until::Time(Instant::now() + seconds);
                    worker.run()?;
                    Ok::<_, Failure>(worker.tally)
                })
            })
            .collect();
        warm.wait();
        let started = Usage::now();
        begin.wait();
        let mut all = Tally::new()?;
        for worker in workers {
            let tally = worker.join().map_err(|_| "a thread has panicked")??;
            all.operations += tally.operations;
            all.histogram.add(tally.histogram)?;
        }
        Ok((all, started?))
    })
}

/// A worker that is ready to be measured. A worker that reads is warmed up.
fn warm_up<'a>(store: &'a dyn Store, task: &'a Task, number: u64) -> Result<Worker<'a>, Failure> {
    if !task.workload.writes() {
        let values_per_call = match task.workload {
            Workload::Range => Workload::RANGE as u64,
            _ => 1,
        };
        let operations = WARM_UP_VALUES / values_per_call / task.threads;
        Worker::new(store, task, number, Until::Operations(operations))?.run()?;
    }
    Worker::new(store, task, number, Until::Operations(0))
}

/// What was done, and how long each call took.
struct Tally {
    operations: u64,
    histogram: Histogram<u64>,
}

impl Tally {
    fn new() -> Result<Self, Failure> {
        Ok(Self {
            operations: 0,
            histogram: Histogram::new_with_max(LATENCY_MAX_NS, 3)?,
        })
    }

    fn latency(&self) -> Option<Latency> {
        let at = |quantile| self.histogram.value_at_quantile(quantile);
        (!self.histogram.is_empty()).then(|| Latency {
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: self.histogram.max(),
        })
    }
}

/// When a worker ends, unless it has written all its keys before.
enum Until {
    /// After the first call that returns at this time or later.
    Time(Instant),
    /// After this many operations.
    Operations(u64),
}

/// One thread's part of a task.
struct Worker<'a> {
    store: &'a dyn Store,
    task: &'a Task,
    number: u64,
    random: fastrand::Rng,
    values: Values,
    tally: Tally,
    until: Until,
}

impl<'a> Worker<'a> {
    fn new(
        store: &'a dyn Store,
        task: &'a Task,
        number: u64,
        until: Until,
    ) -> Result<Self, Failure> {
        let seed = task.round * 1000 + number;
        Ok(Self {
            store,
            task,
            number,
            random: fastrand::Rng::with_seed(seed),
            values: Values::new(task.value_bytes, seed),
            tally: Tally::new()?,
            until,
        })
    }

    fn run(&mut self) -> Result<(), Failure> {
        match self.task.workload {
            Workload::FillSequential => self.put_each(0..self.own_keys()),
            Workload::FillRandom => self.put_each(Shuffled::new(self.own_keys(), self.task.round)),
            Workload::FillBatch => self.put_batches(),
            Workload::Overwrite => self.overwrite(),
            Workload::Read => self.read(self.task.keys),
            Workload::ReadHot => self.read((self.task.keys / Workload::HOT_SHARE).max(1)),
            Workload::ReadMissing => self.read_missing(),
            Workload::Scan => self.scan(),
            Workload::Range => self.ranges(),
        }
    }

    /// The threads share the keys, so that each thread's keys spread over the whole store.
    fn own_keys(&self) -> u64 {
        self.task.keys / self.task.threads
    }

    fn own_key(&self, index: u64) -> u64 {
        index * self.task.threads + self.number
    }

    /// Counts the operations of one call that began at `from`. Returns whether there is
    /// time for more.
    fn count(&mut self, operations: u64, from: Instant) -> Result<bool, Failure> {
        let now = Instant::now();
        let took = u64::try_from((now - from).as_nanos())?;
        self.tally.operations += operations;
        self.tally.histogram.saturating_record(took);
        Ok(!self.is_over(now))
    }

    fn is_over(&self, now: Instant) -> bool {
        match self.until {
            Until::Time(end) => now >= end,
            Until::Operations(operations) => self.tally.operations >= operations,
        }
    }

    fn put_each(&mut self, indexes: impl Iterator<Item = u64>) -> Result<(), Failure> {
        for index in indexes {
            if !self.put(self.own_key(index))? {
                break;
            }
        }
        Ok(())
    }

    fn overwrite(&mut self) -> Result<(), Failure> {
        for _ in 0..self.own_keys() {
            let index = self.random.u64(..self.task.keys);
            if !self.put(index)? {
                break;
            }
        }
        Ok(())
    }

    fn put(&mut self, index: u64) -> Result<bool, Failure> {
        let key = present_key(index);
        let value = self.values.next(index);
        let from = Instant::now();
        self.store.put(&key, value)?;
        self.count(1, from)
    }

    fn put_batches(&mut self) -> Result<(), Failure> {
        let mut batch: Vec<(Key, Vec<u8>)> = Vec::with_capacity(Workload::BATCH);
        let mut indexes = Shuffled::new(self.own_keys(), self.task.round);
        loop {
            batch.clear();
            for index in indexes.by_ref().take(Workload::BATCH) {
                let index = self.own_key(index);
                batch.push((present_key(index), self.values.next(index).to_vec()));
            }
            let from = Instant::now();
            self.store.put_batch(&batch)?;
            if !self.count(batch.len() as u64, from)? || batch.len() < Workload::BATCH {
                return Ok(());
            }
        }
    }

    /// Reads random keys below `index_bound`.
    fn read(&mut self, index_bound: u64) -> Result<(), Failure> {
        loop {
            let index = self.random.u64(..index_bound);
            let key = present_key(index);
            let value_bytes = self.task.value_bytes;
            let mut right = false;
            let from = Instant::now();
            self.store.get(&key, &mut |value| {
                right = is_value_of(value, index, value_bytes);
            })?;
            let go_on = self.count(1, from)?;
            if !right {
                return Err(format!("a wrong value, or none, for key {index}").into());
            }
            if !go_on {
                return Ok(());
            }
        }
    }

    fn read_missing(&mut self) -> Result<(), Failure> {
        loop {
            let index = self.random.u64(..self.task.keys);
            let key = absent_key(index);
            let mut found = false;
            let from = Instant::now();
            self.store.get(&key, &mut |_| found = true)?;
            let go_on = self.count(1, from)?;
            if found {
                return Err(format!("a value for the absent key after {index}").into());
            }
            if !go_on {
                return Ok(());
            }
        }
    }

    fn scan(&mut self) -> Result<(), Failure> {
        loop {
            self.scan_from(0, usize::MAX, self.task.keys)?;
            self.tally.operations += self.task.keys;
            if self.is_over(Instant::now()) {
                return Ok(());
            }
        }
    }

    fn ranges(&mut self) -> Result<(), Failure> {
        loop {
            let start = self.random.u64(..self.task.keys);
            let expected = (self.task.keys - start).min(Workload::RANGE as u64);
            let from = Instant::now();
            self.scan_from(start, Workload::RANGE, expected)?;
            if !self.count(1, from)? {
                return Ok(());
            }
        }
    }

    /// Scans from the key of `start`, and checks that the scan returns `expected` values.
    fn scan_from(&self, start: u64, count_max: usize, expected: u64) -> Result<(), Failure> {
        let value_bytes = self.task.value_bytes;
        let mut next = start;
        let mut right = true;
        self.store
            .scan(&present_key(start), count_max, &mut |key, value| {
                right &= key.len() == KEY_BYTES && is_value_of(value, next, value_bytes);
                next += 1;
            })?;
        if right && next - start == expected {
            Ok(())
        } else {
            Err(format!("a scan from key {start} gave something else than was written").into())
        }
    }
}

#[cfg(test)]
mod tests;
