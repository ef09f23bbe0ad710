// --- What goes on in the background ---

/** What goes on in the background: repair, rebuilds, tombstone GC, compaction. */
function workOf(status) {
  const { repair, tombstone_gc, store, background } = status;
  const now = status.clock.unix_ms;
  const isAlone = status.cluster.length === 1;
  const ended = (kind, noun) => {
    const running = repair.running.find((pass) => pass.kind === kind);
    const rhythm = repair[kind].interval_seconds
      ? `every ${span(repair[kind].interval_seconds)}`
      : "only on request";
    const last = repair[kind].last_end_unix_ms
      ? `last ended ${ago(repair[kind].last_end_unix_ms, now)} after ${micros(repair[kind].last_duration_ms * 1000)}; ${count(repair[kind].succeeded)} succeeded, ${count(repair[kind].incomplete)} incomplete since the start`
      : "none has ended since the node started";
    const share = running?.share === undefined ? "" : `, ${Math.round(running.share * 100)}%`;
    const left = running?.seconds_left === undefined ? "" : `, about ${span(running.seconds_left)} left`;
    const going = running
      ? [
          mark(
            "good",
            `runs for ${span((now - running.began_unix_ms) / 1000)}, ${counted(running.ranges, "range")}${share}${left}`,
          ),
          "; ",
        ]
      : null;
    return [noun, going, `${rhythm}; ${last}`];
  };
  const rebuild = repair.rebuild;
  return section(
    "In the background",
    facts(
      !isAlone && ended("incremental", "Incremental repair"),
      !isAlone && ended("full", "Full repair"),
      !isAlone && [
        "Repair writes",
        `${count(repair.repair_writes_sent)} sent, ${count(repair.repair_writes_received)} received; ${count(repair.ranges_differing)} of ${counted(repair.ranges_compared, "compared range")} differed`,
      ],
      rebuild && [
        "Rebuild",
        // Of a rebuild that stores nothing the share says nothing.
        ...(rebuild.received_bytes > 0 && rebuild.stalled_because === undefined
          ? [bar(rebuild.share, "progress of the rebuild"), ` ${Math.round(rebuild.share * 100)}%, `]
          : []),
        `${counted(rebuild.received_keys, "key")}, ${bytes(rebuild.received_bytes)}`,
        rebuild.seconds_left === undefined ? "" : `; about ${span(rebuild.seconds_left)} left`,
        rebuild.stalled_because === undefined ? "" : `; it stands still, because ${rebuild.stalled_because}`,
      ],
      !isAlone && [
        "GC threshold",
        tombstone_gc.age_seconds === undefined
          ? `no full repair has set it yet, so all tombstones are kept (grace ${span(tombstone_gc.gc_grace_seconds)})`
          : `tombstones older than ${span(tombstone_gc.age_seconds)} may be dropped (grace ${span(tombstone_gc.gc_grace_seconds)})`,
        tombstone_gc.held_back?.nodes.length > 0 ? `; held back by ${listed(tombstone_gc.held_back.nodes)}` : "",
      ],
      [
        "Compaction",
        store.compaction
          ? mark(
              "good",
              `everything, for ${span((now - store.compaction.began_unix_ms) / 1000)}: ${bytes(store.compaction.merged_bytes)} merged`,
            )
          : "automatic",
      ],
      [
        "Its share of time",
        `${Math.round(background.share * 100)}%`,
        background.share < 1 ? ": clients use the rest" : "",
      ],
    ),
  );
}
