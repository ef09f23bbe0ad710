// --- What needs attention ---

/** Time without a successful repair that needs a look, in seconds. */
const UNCLEAN_SECONDS_MIN = 3600;

/** A clock that is further than this from most others is not kept by NTP. */
const CLOCK_AHEAD_MS_MAX = 2000;

/** Background work that may use no more of its time is at its floor, or nearly. */
const BACKGROUND_SHARE_LOW = 0.05;

/**
 * What an operator has to do, by what this node knows.
 *
 * @param {Object} status the answer of `/v0/status`
 * @returns {Array<{level: string, text: string, runbook: string}>} `level` is `bad` where
 *   requests may fail or data may be missing, else `warn`; `runbook` is a heading
 */
function adviceOf(status) {
  return [
    ...adviceOnNodes(status),
    ...adviceOnReplicaState(status),
    ...adviceOnClock(status),
    ...adviceOnStore(status),
    ...adviceOnHints(status),
    ...adviceOnSweeps(status),
    ...adviceOnForgetting(status),
  ];
}

/** The nodes of the cluster but this one. */
function othersOf(status) {
  return status.cluster.filter((member) => member.state !== "this node");
}

function* adviceOnNodes(status) {
  for (const member of othersOf(status)) {
    if (["down", "suspected"].includes(member.state)) {
      const since = member.down_seconds === undefined ? "" : ` for ${span(member.down_seconds)}`;
      const away =
        member.down_seconds > status.hints.age_max_seconds
          ? ` Hints are kept for ${span(status.hints.age_max_seconds)}: a repair brings it what it missed before.`
          : "";
      const how = member.state === "down" ? "has no connection to this one" : "is silent";
      yield {
        level: "bad",
        text: `${member.name} ${how}${since}. Start it, or restart it if it hangs; if its machine or its disk is lost, replace the node.${away}`,
        runbook: "A node is down or silent",
      };
    }
    if (member.replica_state === "learner") {
      yield {
        level: "bad",
        text: `The store of ${member.name} has lost data and does not count. It fills itself while all nodes are up.`,
        runbook: "A store that does not count",
      };
    }
  }
}

function* adviceOnReplicaState(status) {
  const runbook = "A store that does not count";
  const missing = othersOf(status)
    .filter((member) => member.state !== "up")
    .map((member) => member.name);
  const start = missing.length > 0 ? ` Start ${listed(missing)}.` : "";
  if (status.replica_state === "learner") {
    yield {
      level: "bad",
      text: `The store of this node has lost data and does not count, until the other nodes have filled it.${start}`,
      runbook,
    };
  } else if (status.replica_state === "starting") {
    yield {
      level: "bad",
      text: `The store of this node does not count before all nodes have met once.${start}`,
      runbook,
    };
  } else if (status.replica_state === "forced_voter") {
    yield {
      level: "warn",
      text: "This node was started with --accept-data-loss and may lack data until a full repair with all nodes is clean.",
      runbook,
    };
  }
  const lost = status.may_be_lost;
  if (lost && (lost.writes_max > 0 || lost.incomplete)) {
    yield {
      level: "bad",
      text: `${lost.text}. Clients that know what they wrote can write it again.`,
      runbook: "Replace a node",
    };
  }
}

function* adviceOnClock(status) {
  const ahead = status.clock.others_ahead_ms ?? 0;
  if (status.clock.refuses_writes && status.replica_state === "voter") {
    yield {
      level: "bad",
      text: `This node refuses writes: ${status.clock.refuses_writes}.`,
      runbook: "Clock out of bounds",
    };
  } else if (Math.abs(ahead) > CLOCK_AHEAD_MS_MAX) {
    const way = ahead > 0 ? "behind" : "ahead of";
    yield {
      level: "warn",
      text: `The clock of this node is ${span(Math.abs(ahead) / 1000)} ${way} those of the other nodes: repair NTP on its machine.`,
      runbook: "Clock out of bounds",
    };
  }
}

function* adviceOnStore({ store }) {
  const why = store.poisoned ?? store.failing;
  if (why) {
    yield {
      level: "bad",
      text: `The store fails (${why}). Check its disk.`,
      runbook: store.poisoned ? "A failed sync" : "A store that cannot write files",
    };
  }
  if (store.disk_full) {
    yield {
      level: "bad",
      text: "The disk is full: give it room, or delete keys.",
      runbook: "Full disk",
    };
  }
  if (store.damaged_ranges > 0) {
    yield {
      level: "bad",
      text: `${counted(store.damaged_ranges, "key range")} of the store may lie in a damaged block, and what it says about them does not count until the other nodes have repaired it. Check the disk.`,
      runbook: "Damaged data",
    };
  } else if (store.tables_damaged > 0) {
    yield {
      level: "bad",
      text: `${counted(store.tables_damaged, "table")} of the store cannot be read whole. Check the disk, then order a full repair.`,
      runbook: "Damaged data",
    };
  }
}

function* adviceOnHints(status) {
  const taken = status.cluster.reduce((sum, member) => sum + member.hint_bytes, 0);
  if (taken > status.hints.bytes_max / 2) {
    const most = status.cluster.reduce((one, other) => (other.hint_bytes > one.hint_bytes ? other : one));
    yield {
      level: "warn",
      text: `Hints take ${Math.round((taken / status.hints.bytes_max) * 100)}% of their room, most of them for ${most.name}. Past that the oldest are dropped and left to repair: bring that node back.`,
      runbook: "How a node catches up",
    };
  }
}

function* adviceOnSweeps(status) {
  const { repair, background, uptime_seconds: uptime, clock } = status;
  if ((repair.rebuild || repair.running.length > 0) && background.share <= BACKGROUND_SHARE_LOW) {
    yield {
      level: "warn",
      text: `Clients leave repair ${Math.round(background.share * 100)}% of their time, so they will take long: give the cluster more nodes or cores, or less load.`,
      runbook: "Background work",
    };
  }
  const late = (secondsMax, field) =>
    othersOf(status)
      .filter((member) => member.state === "up")
      .filter((member) => (member[field] ? (clock.unix_ms - member[field]) / 1000 : uptime) > secondsMax)
      .map((member) => member.name);
  const kinds = [
    ["incremental", 3, "last_repair_unix_ms", "repair"],
    ["full", 2, "last_full_repair_unix_ms", "full repair"],
  ];
  for (const [kind, intervals, field, noun] of kinds) {
    const interval = repair[kind].interval_seconds;
    if (interval === undefined) continue;
    const secondsMax = Math.max(interval * intervals, UNCLEAN_SECONDS_MIN);
    const names = late(secondsMax, field);
    if (names.length > 0) {
      yield {
        level: "warn",
        text: `No ${noun} has found this node equal with ${listed(names)} for more than ${span(secondsMax)}. Its log says why.`,
        runbook: "No successful repair",
      };
      return;
    }
  }
}

function* adviceOnForgetting({ tombstone_gc, repair, cluster, uptime_seconds: uptime }) {
  if (cluster.length < 2) return;
  const sweepsMax = Math.max((repair.full.interval_seconds ?? 7 * 86400) * 2, UNCLEAN_SECONDS_MIN);
  const normal = tombstone_gc.gc_grace_seconds + sweepsMax;
  const age = tombstone_gc.age_seconds;
  const isLate = age === undefined ? uptime > sweepsMax : age > normal;
  if (!isLate) return;
  const what =
    age === undefined
      ? "No full repair has set the GC threshold yet"
      : `The GC threshold is ${span(age)} old, and no more than ${span(normal)} is normal`;
  const why = tombstone_gc.held_back ? ` In the last full repair ${tombstone_gc.held_back.text}.` : "";
  yield {
    level: "warn",
    text: `${what}, so the tombstones of what was deleted since take room.${why}`,
    runbook: "Deleted data stays",
  };
}
