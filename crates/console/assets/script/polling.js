// --- What the console asks of the nodes, and how often ---

/** How often the node is asked for its status, in milliseconds. */
const STATUS_MS = 2000;

/** How often it is asked for its new samples and its metrics. */
const HISTORY_MS = 10000;

/** How often the nodes of a local cluster are. */
const DEV_HISTORY_MS = 2000;

/** How long such an answer may take. A node that asks all others waits a second for them. */
const POLL_MS_MAX = 3000;

/** How many samples an hour has, and how long one is. */
const [SAMPLES_MAX, SAMPLE_MS] = [360, 10000];

/** What the console knows. */
const state = {
  /** The last answer of `/v0/status`. */
  status: null,
  /** When it came, by this browser's clock. */
  statusAt: 0,
  /** Why there is no newer one, if there is none. */
  failure: null,
  /** The status of another node of a local cluster, while the one that was chosen is silent. */
  view: null,
  /** What an operator has to do, as the node says: the last `advice` of `/v0/cluster`. */
  advice: null,
  /** Why there is no newer one, if there is none. */
  adviceFailure: null,
  /** The list of members, and how far a change of it is; null on a node alone. */
  members: null,
  /** What each node said of itself last, by name: `status`, `report`, when that was, and the round. */
  accounts: new Map(),
  /** How often all nodes were asked how they are. */
  round: 0,
  /** What the nodes did lately. */
  series: seriesOfNodes(),
  /** The last metrics by the names of nodes: of all nodes of a local cluster, elsewhere of one. */
  metrics: new Map(),
  /** Why there are none, if the node refuses them. */
  figuresFailure: null,
  /** When there were new samples last, and new metrics. */
  figuresAt: 0,
  metricsAt: 0,
  /** The nodes of a local cluster and their faults. */
  devNodes: [],
};

/** The name of the node that answers, or that should. */
function servedName() {
  const chosen = state.devNodes.find(({ number }) => number === dev?.node);
  return chosen?.name ?? state.status?.name ?? location.host;
}

/** The time of the node's clock, in milliseconds since 1970. */
function nodeNow() {
  return state.status ? state.status.clock.unix_ms + Date.now() - state.statusAt : Date.now();
}

/** Asks the node for its status. */
async function poll() {
  const isFirst = state.status === null;
  try {
    state.status = await askJson("/v0/status", { wait: POLL_MS_MAX });
    state.statusAt = Date.now();
    state.failure = null;
    state.view = null;
  } catch (problem) {
    state.failure = problem;
  }
  await pollDevNodes();
  // Pages that need to know the cluster begin with its first status.
  if (isFirst && state.status) {
    route();
    pollCluster();
    pollFigures();
  } else draw();
}

/** Asks the supervisor of a local cluster for its nodes: after a node, so that it knows no less. */
async function pollDevNodes() {
  if (dev) state.devNodes = await devNodes().catch(() => []);
}

/** The number of samples that a node has and the console has not. */
function missedOf(name) {
  const last = state.series.lastOf(name);
  return last === 0 ? SAMPLES_MAX : Math.max(1, Math.min(SAMPLES_MAX, Math.ceil((nodeNow() - last) / SAMPLE_MS) + 2));
}

/**
 * Asks the node for the samples that are new, and for its metrics; of a local cluster, all nodes.
 * As long as somebody looks at them.
 */
async function pollFigures() {
  if (!state.status || !["cluster", "node"].includes(page.name)) return;
  const told = (name) => async (reach) => {
    const [history, metrics] = await Promise.all([
      askJson(reach(`/v0/history?limit=${missedOf(name)}`), { wait: POLL_MS_MAX }),
      askMetrics(reach("/metrics"), { wait: POLL_MS_MAX }),
    ]);
    state.series.keep(name, history);
    state.metrics.set(name, metrics);
  };
  const asked = dev
    ? state.devNodes
        .filter((node) => node.state === "running")
        .map(({ number, name }) => told(name)((path) => reached(path, number)))
    : [told(state.status.name)((path) => path)];
  const ended = await Promise.allSettled(asked);
  // Of nodes that do not answer the status says so.
  state.figuresFailure = ended.find(({ reason }) => reason?.status === 403)?.reason ?? null;
  for (const { name, state: what } of state.devNodes) if (what !== "running") state.metrics.delete(name);
  state.figuresAt = state.metricsAt = Date.now();
  draw();
}

/** Has the node ask all nodes how they are, as long as somebody looks at them. */
async function pollCluster() {
  if (!state.status || page.name !== "cluster") return;
  const round = state.round + 1;
  const question = (path) => askJson(path, { wait: POLL_MS_MAX });
  const own = question("/v0/cluster").catch((problem) => problem);
  const peers = await askPeers("/v0/cluster", question);
  const answer = await own;
  const isTold = !(answer instanceof Error);
  for (const each of [...peers.values(), ...(isTold ? [answer] : [])]) keepAccounts(each.nodes, round);
  // The others of a local cluster know what became of one that is silent.
  const other = peers.values().next().value;
  const seen = isTold ? answer : other;
  if (seen) state.round = round;
  state.advice = seen?.advice ?? state.advice;
  state.adviceFailure = seen ? null : answer;
  if (seen) state.members = seen.members ?? null;
  const isShown = state.failure !== null && seen;
  state.view = isShown ? (seen.nodes.find(({ name }) => name === seen.asked_by)?.status ?? null) : null;
  draw();
}

/** Keeps what nodes have said of themselves. */
function keepAccounts(lines, round) {
  for (const { name, status, report, recent } of lines) {
    if (!status && !report) continue;
    state.accounts.set(name, { status, report, at: Date.now(), round });
    if (!recent) continue;
    state.series.keep(name, recent);
    state.figuresAt = Date.now();
  }
}

/** Shows a local cluster as another of its nodes sees it. */
function lookThrough(number) {
  dev.node = number;
  const choice = document.getElementById("seen-by");
  if (choice) choice.value = String(number);
  state.advice = null;
  state.view = null;
  poll();
  pollCluster();
}

/** Repeats some work with rests between, while someone looks, and at once when someone looks again. */
async function repeat(work, restMs) {
  for (;;) {
    await new Promise((resolve) => {
      setTimeout(resolve, restMs);
      addEventListener("visibilitychange", resolve, { once: true });
    });
    if (!document.hidden) await work();
  }
}
