//! Work on many files at the same time: while one call waits for the disk, others do, too.

use crate::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::Builder;

/// So many files are worth a thread.
const FILES_A_THREAD: usize = 16;

/// What `work` makes of each number below `count`, in their order, on at most so many threads. The
/// calling one is among them, and all others have ended when this returns. After an error no more
/// work begins.
///
/// # Errors
/// Those of `work`; of several, the one of the least number.
pub(crate) fn map_parallel<T: Send>(
    threads_max: usize,
    count: usize,
    work: impl Fn(usize) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let next = AtomicUsize::new(0);
    let work_on = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Relaxed);
            if number >= count {
                return done;
            }
            let result = work(number);
            if result.is_err() {
                next.store(count, Relaxed);
            }
            done.push((number, result));
        }
    };
    let helpers = threads_max.min(count / FILES_A_THREAD).saturating_sub(1);
    let mut done = std::thread::scope(|scope| {
        let start = |_| Builder::new().spawn_scoped(scope, work_on).ok();
        // Where the system refuses a thread, those that there are do the work.
        let helpers: Vec<_> = (0..helpers).map_while(start).collect();
        let mut done = work_on();
        for helper in helpers {
            match helper.join() {
                Ok(of_helper) => done.extend(of_helper),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::waiting::guarded;
    use std::collections::BTreeSet;
    use std::sync::{Barrier, Mutex};
    use std::thread::current;

    fn failure(number: usize) -> Error {
        Error::Invalid(number.to_string())
    }

    #[test]
    fn results_come_in_order_whichever_thread_has_made_them() {
        for threads in [0, 1, 2, 16] {
            for count in [0, 1, 1000] {
                let squares = map_parallel(threads, count, |number| Ok(number * number)).unwrap();
                assert!(squares.into_iter().eq((0..count).map(|it| it * it)));
            }
        }
    }

    #[test]
    fn calls_that_wait_wait_at_the_same_time() {
        guarded("four calls at the same time", || {
            // None returns before all have begun.
            let all = Barrier::new(4);
            map_parallel(4, 4 * FILES_A_THREAD, |_| {
                all.wait();
                Ok(())
            })
            .unwrap();
        });
    }

    #[test]
    fn there_are_no_more_threads_than_asked_for_and_one_does_it_in_order() {
        for (threads_max, count) in [(3, 1000), (16, 40), (1, 1000)] {
            let seen = Mutex::new((BTreeSet::new(), Vec::new()));
            map_parallel(threads_max, count, |number| {
                let mut seen = seen.lock().unwrap();
                seen.0.insert(format!("{:?}", current().id()));
                seen.1.push(number);
                Ok(())
            })
            .unwrap();
            let (threads, order) = seen.into_inner().unwrap();
            assert!(threads.len() <= threads_max.min(count / FILES_A_THREAD));
            assert!(threads_max > 1 || order.is_sorted());
        }
    }

    #[test]
    fn the_first_error_is_told_and_ends_the_work() {
        for threads in [1, 8] {
            let begun = AtomicUsize::new(0);
            let result = map_parallel(threads, 100_000, |number| {
                begun.fetch_add(1, Relaxed);
                if number >= 50 {
                    Err(failure(number))
                } else {
                    Ok(())
                }
            });
            assert_eq!(result.unwrap_err().to_string(), failure(50).to_string());
            assert!(begun.into_inner() < 100, "each thread begins no more");
        }
    }
}
