//! A GC threshold from the future, which one node names: its clock was wrong, or it is not sound.

use super::{LONG, delete, its_tombstone, raise_gc_threshold_above, repair_for_long, run, three};
use crate::clock::BEGIN_UNIX_MS;
use crate::host::Crash;
use base::Timestamp;
use checker::Outcome;

const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;

#[test]
fn one_node_that_names_a_gc_threshold_from_the_future_stops_no_write_at_the_others() {
    // The first one by name coordinates the repairs that nobody has ordered.
    for unsound in [0, 2] {
        run(three(), async |world| {
            raise_gc_threshold_above(&world, its_tombstone(3).timestamp()).await;
            let future = Timestamp::from_unix_ms(BEGIN_UNIX_MS + YEAR_MS);
            let host = &world.hosts[unsound];
            host.crash(Crash::PowerCut);
            host.set_gc_threshold(future);
            world.start(unsound);
            let others = || world.hosts.iter().filter(|host| host.number() != unsound);
            // It names the threshold with hellos and heartbeats, in the sessions that it
            // coordinates, and in those that others coordinate.
            repair_for_long(&world, || {
                for other in others() {
                    let known = other.gc_status().unwrap();
                    assert!(known.closed.max(known.greatest) < future, "{known:?}");
                }
            })
            .await;
            for other in others() {
                let deleted = world.ask(delete(other.number(), 2, 3), LONG).await;
                let is_written = matches!(deleted, Some(Outcome::Written { .. }));
                assert!(is_written, "{deleted:?}");
            }
        });
    }
}
