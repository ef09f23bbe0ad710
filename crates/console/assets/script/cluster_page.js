// --- The page of the cluster ---

/** What a state of a node means, as a level of `mark`. */
const STATE_LEVELS = { "this node": "good", up: "good", connecting: "warn", suspected: "warn", down: "bad" };

/** What a standing of a store means, as a level of `mark`. */
const STANDING_LEVELS = { witness: "good", accepted: "warn", unconfirmed: "warn", unfilled: "bad" };

/** The page of the cluster: what needs attention, the nodes, the last hour, what goes on. */
function clusterPage(root) {
  const parts = ["lead", "advice", "map", "nodes", "breaking", "charts", "work"].map((name) =>
    h("div", { class: `part-${name}` }),
  );
  const [lead, advice, picture, nodes, breaking, charts, work] = parts;
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
      replace(lead, leadOf(state.status));
      replace(advice, adviceList(adviceOf(state.status)));
      map.update(state);
      replace(nodes, nodesTable(state));
      replace(work, workOf(state.status));
      const last = state.history.running?.unix_ms ?? 0;
      if (drawn !== last) {
        drawn = last;
        map.count(state);
        replace(charts, chartsOf(state.history));
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
  const counting = up.filter((member) => ["witness", "accepted"].includes(member.standing)).length;
  const majority = Math.floor(all / 2) + 1;
  const nodes = up.length === all ? `All ${all} nodes are up` : `${up.length} of ${all} nodes are up`;
  const tail =
    counting >= majority
      ? all - counting === 0
        ? ` and count: ${majority} of ${all} must answer a request by default, so ${counted(all - majority, "node")} may fail.`
        : `, and ${majority} of ${all} must answer a request by default: ${counting === majority ? "none more may fail." : `${counted(counting - majority, "more node")} may fail.`}`
      : `, but ${majority} of ${all} must answer a request by default: such requests fail.`;
  return h("p", { class: counting >= majority ? "lead" : "lead bad" }, nodes + tail);
}

/** The list of what needs attention. */
function adviceList(items) {
  if (items.length === 0) return h("p", { class: "calm" }, mark("good", "Nothing needs attention."));
  return h(
    "ul",
    { class: "advice", "aria-label": "What needs attention" },
    items.map((item) =>
      h("li", { class: item.level }, h("p", {}, item.text), h("p", {}, runbookLink(item.runbook))),
    ),
  );
}

/**
 * The table of nodes. What it says of the others is what this node knows of them. In a local
 * cluster the supervisor reaches all of them, so each says itself what it has and does.
 */
function nodesTable({ status, metrics, history, peers }) {
  const now = status.clock.unix_ms;
  const isAlone = status.cluster.length === 1;
  const columns = [
    "Node",
    "State",
    "Store",
    { text: "Clock", number: true },
    !isAlone && { text: "Reads / writes take", number: true },
    !isAlone && { text: "Hints for it", number: true },
    { text: "Disk", number: true },
    { text: "Requests a second", number: true },
    !isAlone && "Last equal with this node",
  ];
  const own = { status, metrics, history };
  const rows = status.cluster.map((member) => {
    const isOwn = member.state === "this node";
    const down = member.down_seconds === undefined ? "" : ` ${span(member.down_seconds)}`;
    const ahead = member.clock_ahead_ms;
    const told = isOwn ? own : peers.get(member.name);
    return [
      isOwn
        ? h("a", { href: "#/node", "data-focus": member.name }, member.name)
        : h(
            "a",
            {
              href: member.url,
              rel: "noreferrer",
              target: dev ? "_blank" : null,
              "data-focus": member.name,
              title: `The console of ${member.name}`,
            },
            member.name,
          ),
      mark(STATE_LEVELS[member.state] ?? "idle", (isOwn ? status.state : member.state) + down),
      member.standing ? mark(STANDING_LEVELS[member.standing] ?? "idle", member.standing) : "–",
      isOwn ? "0 ms" : ahead === undefined ? "–" : `${ahead > 0 ? "+" : ""}${count(ahead)} ms`,
      !isAlone && (isOwn ? "–" : answersOf(member.name, metrics)),
      !isAlone &&
        (isOwn ? "–" : member.hints === 0 ? "0" : `${count(member.hints)} (${bytes(member.hint_bytes)})`),
      told ? diskOf(told) : elsewhere(),
      told ? rateOf(told.history) : elsewhere(),
      !isAlone && (isOwn ? "–" : ago(member.last_clean_unix_ms, now)),
    ].filter((cell) => cell !== false);
  });
  return section("Nodes", table("Nodes", columns.filter(Boolean), rows));
}

/** Stands for a figure of another node that this one does not know. */
function elsewhere() {
  return h("span", { class: "quiet" }, "at its console");
}

/** How long a node's answers take, as this one measures: those to reads, and to writes. */
function answersOf(name, metrics) {
  const times = ["read", "write"].map((request) =>
    metrics.get(`kvorum_peer_latency_seconds{peer="${name}",request="${request}"}`),
  );
  return times.some((time) => time > 0)
    ? times.map((time) => (time > 0 ? micros(time * 1e6) : "–")).join(" / ")
    : "–";
}

/** What a node's data takes of its disk, and what is left. */
function diskOf({ status, metrics }) {
  const taken = bytes(status.store.table_bytes + status.store.log_bytes);
  const free = metrics.get("kvorum_disk_free_bytes");
  return free === undefined ? taken : `${taken}, ${bytes(free)} free`;
}

/** How many requests and operations of batches a node has answered lately, a second. */
function rateOf({ samples, running }) {
  const last = running?.span_ms >= 1000 ? running : samples.at(-1);
  if (!last) return "–";
  const answered = [...last.reads, ...last.writes].reduce((sum, number) => sum + number, 0);
  return short((answered + last.batch_operations) / (last.span_ms / 1000));
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
  const latencies = (kind) =>
    [
      ["p50", 0.5],
      ["p99", 0.99],
      ["p99.9", 0.999],
    ].map(([name, share]) => ({
      name,
      values: quantiles(
        samples.map((sample) => sample[kind]),
        boundsUs,
        share,
      ),
      now: quantile(sumCounts(samples.map((sample) => sample[kind])), boundsUs, share),
    }));
  const common = { times, end };
  return section(
    "The last hour of this node",
    h(
      "div",
      { class: "charts" },
      chartOf({
        ...common,
        title: "Requests a second",
        format: short,
        lines: [
          rates("reads", (sample) => total(sample.reads)),
          rates("writes", (sample) => total(sample.writes)),
          rates("in batches", (sample) => sample.batch_operations),
        ],
      }),
      chartOf({
        ...common,
        title: "Refused and failed a second",
        format: short,
        lines: [
          rates("refused (503)", (sample) => sample.refused),
          rates("failed (5xx)", (sample) => sample.failed),
        ],
      }),
      chartOf({
        ...common,
        title: "How long reads take",
        format: micros,
        isLog: true,
        lines: latencies("reads"),
      }),
      chartOf({
        ...common,
        title: "How long writes take",
        format: micros,
        isLog: true,
        lines: latencies("writes"),
      }),
    ),
  );
}

/** What goes on in the background: sweeps, refills, forgetting, compaction. */
function workOf(status) {
  const { sweeps, forgetting, store, background } = status;
  const now = status.clock.unix_ms;
  const isAlone = status.cluster.length === 1;
  const ended = (kind, noun) => {
    const running = sweeps.running.find((pass) => pass.kind === kind);
    const rhythm = sweeps[kind].interval_seconds
      ? `every ${span(sweeps[kind].interval_seconds)}`
      : "only when ordered";
    const last = sweeps[kind].last_end_unix_ms
      ? `last ended ${ago(sweeps[kind].last_end_unix_ms, now)} after ${micros(sweeps[kind].last_duration_ms * 1000)}; ${count(sweeps[kind].clean)} clean, ${count(sweeps[kind].incomplete)} incomplete since the start`
      : "none has ended since the start";
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
  const refill = sweeps.refill;
  return section(
    "In the background",
    facts(
      !isAlone && ended("recent", "Sweep of recent writes"),
      !isAlone && ended("full", "Full sweep"),
      !isAlone && [
        "Mends",
        `${count(sweeps.mends_sent)} sent, ${count(sweeps.mends_received)} received; ${count(sweeps.ranges_differing)} of ${counted(sweeps.ranges_compared, "compared range")} differed`,
      ],
      refill && [
        "Refill",
        bar(refill.share, "how far the refill has come"),
        ` ${Math.round(refill.share * 100)}%, ${counted(refill.received_keys, "key")}, ${bytes(refill.received_bytes)}`,
        refill.seconds_left === undefined ? "" : `; about ${span(refill.seconds_left)} left`,
      ],
      !isAlone && [
        "Forget bound",
        forgetting.age_seconds === undefined
          ? `no full sweep has set it yet, so nothing that was deleted is dropped (grace ${span(forgetting.grace_seconds)})`
          : `what was deleted more than ${span(forgetting.age_seconds)} ago may be dropped (grace ${span(forgetting.grace_seconds)})`,
        forgetting.held_back?.nodes.length > 0 ? `; held back by ${listed(forgetting.held_back.nodes)}` : "",
      ],
      [
        "Compaction",
        store.compaction
          ? mark(
              "good",
              `everything, for ${span((now - store.compaction.began_unix_ms) / 1000)}: ${bytes(store.compaction.merged_bytes)} merged`,
            )
          : "by itself, as tables need it",
      ],
      [
        "Its share of time",
        `${Math.round(background.share * 100)}%`,
        background.share < 1 ? ": clients need the rest" : "",
      ],
    ),
  );
}
