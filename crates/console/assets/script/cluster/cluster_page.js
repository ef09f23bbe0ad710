// --- The page of the cluster ---

/** What a state of a node means, as a level of `mark`. */
const STATE_LEVELS = { "this node": "good", up: "good", connecting: "warn", suspected: "warn", down: "bad" };

/** What a replica_state of a store means, as a level of `mark`. */
const REPLICA_STATE_LEVELS = { voter: "good", forced_voter: "warn", starting: "warn", learner: "bad" };

/** The shares of requests whose times are shown, and where nodes tell them. */
const QUANTILES = [
  { name: "p50", share: 0.5, field: "p50_us" },
  { name: "p99", share: 0.99, field: "p99_us" },
  { name: "p99.9", share: 0.999, field: "p999_us" },
];

/** The page of the cluster: what needs attention, the nodes, the last hour, what goes on. */
function clusterPage(root) {
  const names = ["lead", "advice", "map", "nodes", "breaking", "clients", "charts", "work"];
  const parts = names.map((name) => h("div", { class: `part-${name}` }));
  const [lead, advice, picture, nodes, breaking, clients, charts, work] = parts;
  const map = clusterMap();
  picture.append(map.element);
  const breaks = dev ? breakingSection() : null;
  if (breaks) breaking.append(breaks.element);
  root.replaceChildren(h("h1", { class: "hidden" }, "Cluster"), ...parts);
  let drawn = null;
  return {
    title: "Cluster",
    update(state) {
      breaks?.draw();
      if (!state.status) return;
      redraw(lead, state.failure ? silentLead(state) : leadOf(state.status));
      redraw(advice, state.failure ? silentAdvice(state.status) : adviceList(state));
      root.classList.toggle("stale", state.failure !== null);
      map.update(state);
      redraw(nodes, nodesTable(state));
      redraw(clients, clientsTable(state));
      redraw(work, workOf(state.status));
      const last = state.history.running?.unix_ms ?? 0;
      if (drawn !== last) {
        drawn = last;
        map.count(state);
        redraw(charts, chartsOf(state.history));
      }
    },
  };
}

/** The state of the cluster in one sentence. */
function leadOf(status) {
  const all = status.cluster.length;
  if (all === 1)
    return h("p", { class: "lead" }, `${status.name} is alone: it is the only replica of its keys.`);
  const up = status.cluster.filter((member) => ["this node", "up"].includes(member.state));
  const counting = up.filter((member) => ["voter", "forced_voter"].includes(member.replica_state)).length;
  const majority = Math.floor(all / 2) + 1;
  const isEnough = counting >= majority;
  const more = counting < all ? "more " : "";
  const spare =
    counting === majority
      ? `none ${more}may fail`
      : `${counted(counting - majority, `${more}node`)} may fail`;
  const nodes = up.length === all ? `All ${all} nodes are up` : `${up.length} of ${all} nodes are up`;
  const need = `${isEnough ? " and" : " but"} ${majority} of ${all} must answer a request by default`;
  const then = isEnough ? `: ${spare}.` : ": such requests fail.";
  return h("p", { class: isEnough ? "lead" : "lead bad" }, `${nodes},${need}${then}`);
}

/** What stands in its place while the node that serves this page does not answer. */
function silentLead({ status, statusAt }) {
  const since = span((Date.now() - statusAt) / 1000);
  return h("p", { class: "lead bad" }, `${status.name} does not answer: what you see is ${since} old.`);
}

/** What to do about that: the other nodes know more. */
function silentAdvice({ name, cluster }) {
  const others = cluster.filter((member) => member.name !== name);
  const links = others.flatMap((member) => [" ", h("a", consoleOf(member, false), member.name)]);
  const look = others.length > 0 ? [" Look through another node:", links, "."] : [];
  const what = `${name} serves this page and does not answer. Start it, or restart it if it hangs.`;
  return adviceItems([{ severity: "bad", text: [what, look], runbook: "A node is down or silent" }]);
}

/** The list of what needs attention, as the node says. */
function adviceList({ advice, adviceFailure }) {
  if (adviceFailure)
    return h("p", { class: "note" }, `What needs attention is not known: ${adviceFailure.message}.`);
  if (!advice) return h("p", { class: "note" }, "Asking all nodes …");
  const isCalm = advice.every((item) => item.severity === "note");
  return [
    isCalm ? h("p", { class: "calm" }, mark("good", "Nothing needs attention.")) : null,
    adviceItems(
      advice.map((item) => ({ ...item, text: `${item.node ?? "cluster"}: ${item.what}. ${item.remedy}.` })),
    ),
  ];
}

function adviceItems(items) {
  if (items.length === 0) return null;
  return h(
    "ul",
    { class: "advice", "aria-label": "What needs attention" },
    items.map((item) =>
      h("li", { class: item.severity }, h("p", {}, item.text), h("p", {}, runbookLink(item.runbook))),
    ),
  );
}

/**
 * The table of nodes. Of its disk each node has told this one; the rest is what this node knows
 * of the others.
 */
function nodesTable({ status, metrics, reports }) {
  const now = status.clock.unix_ms;
  const isAlone = status.cluster.length === 1;
  const columns = [
    "Node",
    "State",
    "Store",
    { text: "Clock", number: true },
    !isAlone && { text: "Latency of reads / writes", number: true },
    !isAlone && { text: "Hints for it", number: true },
    { text: "Disk", number: true },
    !isAlone && "Last equal with this node",
  ];
  const rows = status.cluster.map((member) => {
    const isOwn = member.state === "this node";
    const down = member.down_seconds === undefined ? "" : ` ${span(member.down_seconds)}`;
    const ahead = member.clock_ahead_ms;
    return [
      h("a", { ...consoleOf(member, isOwn), "data-focus": member.name }, member.name),
      mark(STATE_LEVELS[member.state] ?? "idle", (isOwn ? status.state : member.state) + down),
      member.replica_state ? mark(REPLICA_STATE_LEVELS[member.replica_state] ?? "idle", member.replica_state) : "–",
      isOwn ? "0 ms" : ahead === undefined ? "–" : `${ahead > 0 ? "+" : ""}${count(ahead)} ms`,
      !isAlone && (isOwn ? "–" : answersOf(member.name, metrics)),
      !isAlone &&
        (isOwn ? "–" : member.hints === 0 ? "0" : `${count(member.hints)} (${bytes(member.hint_bytes)})`),
      diskOf(reports.get(member.name)),
      !isAlone && (isOwn ? "–" : ago(member.last_repair_unix_ms, now)),
    ].filter((cell) => cell !== false);
  });
  return section("Nodes", table("Nodes", columns.filter(Boolean), rows));
}

/** Where the console of a node is: that of this one is here. */
function consoleOf({ name, url }, isOwn) {
  if (isOwn) return { href: "#/node" };
  return { href: url, rel: "noreferrer", target: dev ? "_blank" : null, title: `The console of ${name}` };
}

/** How long a node's answers take, as this one measures: those to reads, and to writes. */
function answersOf(name, metrics) {
  const times = ["read", "write"].map((request) => {
    const time = metrics.get(`kvorum_peer_latency_seconds{peer="${name}",request="${request}"}`);
    return time > 0 ? micros(time * 1e6) : "–";
  });
  return times.join(" / ");
}

/** What a node's data takes of its disk, and what is left, if the node has told. */
function diskOf(report) {
  if (!report) return "–";
  const free = report.free_bytes === undefined ? "" : `, ${bytes(report.free_bytes)} free`;
  return bytes(report.data_bytes) + free;
}

/** The table of what the clients of each node get from it, as each node has told. */
function clientsTable({ status, reports }) {
  const kinds = ["reads", "writes"];
  const columns = kinds.flatMap((kind) =>
    QUANTILES.map(({ name }) => ({ text: `${kind} ${name}`, number: true })),
  );
  const times = (taken) => QUANTILES.map(({ field }) => (taken ? micros(taken[field]) : "–"));
  const rows = status.cluster.map(({ name }) => {
    const report = reports.get(name);
    return [
      name,
      report ? short(report.requests_a_second) : "–",
      ...kinds.flatMap((kind) => times(report?.[kind])),
    ];
  });
  return section(
    "What clients get",
    h("p", { class: "hint" }, "As each node reports it: its present rate, and its latencies of the last minute."),
    table("What clients get", ["Node", { text: "Requests a second", number: true }, ...columns], rows),
  );
}

/** The charts of this node's last hour. */
function chartsOf({ samples: ended, bounds_us: boundsUs, running }) {
  // A rate over less than a second would be chance.
  const samples = running?.span_ms >= 1000 ? [...ended, running] : ended;
  const times = samples.map((sample) => sample.unix_ms);
  const end = times.at(-1) ?? Date.now();
  const total = (counts) => counts.reduce((sum, number) => sum + number, 0);
  const rates = (name, of) => {
    const values = samples.map((sample) => of(sample) / (sample.span_ms / 1000));
    return { name, values, now: values.at(-1) ?? null };
  };
  const latencies = (kind) => {
    const counts = samples.map((sample) => sample[kind]);
    const now = (share) => quantile(sumCounts(counts), boundsUs, share);
    const lineOf = ({ name, share }) => ({
      name,
      values: quantiles(counts, boundsUs, share),
      now: now(share),
    });
    return QUANTILES.map(lineOf);
  };
  const chart = (title, format, lines, isLog) => chartOf({ title, format, lines, isLog, times, end });
  return section(
    "The last hour of this node",
    h(
      "div",
      { class: "charts" },
      chart("Requests a second", short, [
        rates("reads", (sample) => total(sample.reads)),
        rates("writes", (sample) => total(sample.writes)),
        rates("in batches", (sample) => sample.batch_operations),
      ]),
      chart("Refused and failed a second", short, [
        rates("refused (503)", (sample) => sample.refused),
        rates("failed (5xx)", (sample) => sample.failed),
      ]),
      chart("Latency of reads", micros, latencies("reads"), true),
      chart("Latency of writes", micros, latencies("writes"), true),
    ),
  );
}

/** What goes on in the background: repair, rebuilds, tombstone_gc, compaction. */
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
      ? `last ended ${ago(repair[kind].last_end_unix_ms, now)} after ${micros(repair[kind].last_duration_ms * 1000)}; ${count(repair[kind].clean)} clean, ${count(repair[kind].incomplete)} incomplete since the start`
      : "none has ended since the node started";
    const going = running
      ? [
          mark(
            "good",
            `runs for ${span((now - running.began_unix_ms) / 1000)}, ${counted(running.ranges, "range")}`,
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
        bar(rebuild.share, "progress of the rebuild"),
        ` ${Math.round(rebuild.share * 100)}%, ${counted(rebuild.received_keys, "key")}, ${bytes(rebuild.received_bytes)}`,
        rebuild.seconds_left === undefined ? "" : `; about ${span(rebuild.seconds_left)} left`,
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
        "Share of time",
        `${Math.round(background.share * 100)}%`,
        background.share < 1 ? ": clients use the rest" : "",
      ],
    ),
  );
}
