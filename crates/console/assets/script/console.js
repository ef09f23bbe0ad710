// --- The console: what it knows, its pages, and what drives them ---

/** How often the node is asked for its status, in milliseconds. */
const STATUS_MS = 2000;

/** How often it is asked for new samples and its metrics. */
const HISTORY_MS = 10000;

/** How often the nodes of a local cluster are asked. */
const DEV_HISTORY_MS = 2000;

/** How many samples an hour has. */
const SAMPLES_MAX = 360;

/** The pages, by their names in the address. */
const PAGES = {
  cluster: { word: "Cluster", make: clusterPage },
  keys: { word: "Keys", make: keysPage },
  node: { word: "Node", make: nodePage },
  runbooks: { word: "Runbooks", make: runbooksPage },
  tour: { word: "Tour", make: tourPage },
};

/** What the console knows. */
const state = {
  /** The last answer of `/v0/status`. */
  status: null,
  /** When it came, by this browser's clock. */
  statusAt: 0,
  /** Why there is no newer one, if there is none. */
  failure: null,
  /** What an operator has to do, as the node says: the last `advice` of `/v0/cluster`. */
  advice: null,
  /** Why there is no newer one, if there is none. */
  adviceFailure: null,
  /** The samples of the last hour, oldest first, and what happened since. */
  history: { samples: [], bounds_us: [], running: null },
  /** The last metrics. */
  metrics: new Map(),
  /** How each node is, as it says itself, by name: its `report` in `/v0/cluster`. */
  reports: new Map(),
  /** The last metrics of the other nodes of a local cluster, by name. */
  peerMetrics: new Map(),
};

/** The page that is shown: its name and what `make` returned. */
let page = { name: null, view: null };

/** The time of the node's clock, in milliseconds since 1970. */
function nodeNow() {
  return state.status ? state.status.clock.unix_ms + Date.now() - state.statusAt : Date.now();
}

/** The address of a page with these parameters. */
function hrefOf(name, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "");
  const query = new URLSearchParams(given).toString();
  return `#/${name}${query ? `?${query}` : ""}`;
}

/** Shows a page with these parameters. */
function go(name, parameters) {
  location.hash = hrefOf(name, parameters);
}

/** Shows what the address names. */
function route() {
  meetSupervisor();
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const name = Object.hasOwn(PAGES, path) ? path : "cluster";
  const main = document.getElementById("main");
  if (page.name !== name) {
    page.view?.leave?.();
    main.replaceChildren();
    page = { name, view: PAGES[name].make(main, state) };
    pollCluster();
    main.className = `page-${name}`;
    for (const link of document.querySelectorAll("nav a")) {
      if (link.dataset.page === name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }
  page.view.route?.(new URLSearchParams(query));
  draw();
}

/** Draws what the console knows. */
function draw() {
  const { status, failure } = state;
  const served = document.querySelector("header .served");
  const name = status?.name ?? location.host;
  document.title = `${page.view?.title ?? "Console"} · ${name} · Kvorum`;
  const silent = Math.round((Date.now() - state.statusAt) / 1000);
  const text = failure
    ? `${name}: ${failure.message}${state.statusAt ? `; what you see is ${span(silent)} old` : ""}`
    : status
      ? `${dev ? "" : `${name}, `}${status.version}, up for ${span(status.uptime_seconds)}`
      : "asking …";
  const level = failure ? "bad" : status ? "good" : "idle";
  if (served.textContent !== text || served.className !== `served state ${level}`) {
    served.textContent = text;
    served.className = `served state ${level}`;
  }
  page.view?.update(state);
}

/** Asks the node for its status. */
async function poll() {
  const isFirst = state.status === null;
  try {
    state.status = await askJson("/v0/status", { wait: 5000 });
    state.statusAt = Date.now();
    state.failure = null;
  } catch (problem) {
    state.failure = problem;
  }
  // Pages that need to know the cluster begin with its first status.
  if (isFirst && state.status) route();
  else draw();
}

/** Asks the node for the samples that are new, and for its metrics. */
async function pollHistory() {
  try {
    const samples = state.history.samples;
    const missed =
      samples.length === 0 ? SAMPLES_MAX : Math.ceil((nodeNow() - samples.at(-1).unix_ms) / HISTORY_MS) + 2;
    const [news, metrics, peerMetrics] = await Promise.all([
      askJson(`/v0/history?limit=${Math.max(1, Math.min(SAMPLES_MAX, missed))}`),
      askMetrics(),
      askPeers("/metrics", askMetrics),
    ]);
    const known = new Map([...samples, ...news.samples].map((sample) => [sample.unix_ms, sample]));
    const all = Array.from(known.values()).sort((one, other) => one.unix_ms - other.unix_ms);
    state.history = { bounds_us: news.bounds_us, samples: all.slice(-SAMPLES_MAX), running: news.running };
    state.metrics = metrics;
    state.peerMetrics = peerMetrics;
  } catch {
    // The status says that the node does not answer.
  }
  draw();
}

/** Has the node ask all nodes how they are, as long as somebody looks at them. */
async function pollCluster() {
  if (page.name !== "cluster") return;
  try {
    const [own, peers] = await Promise.all([askJson("/v0/cluster"), askPeers("/v0/cluster", askJson)]);
    const lines = [own, ...peers.values()].flatMap((answer) => answer.nodes);
    const told = lines.filter((line) => line.report);
    state.reports = new Map(told.map((line) => [line.name, line.report]));
    state.advice = own.advice;
    state.adviceFailure = null;
  } catch (problem) {
    state.adviceFailure = problem;
  }
  draw();
}

/** Forgets what one node said, and asks another. */
function seeAnew() {
  state.history = { samples: [], bounds_us: [], running: null };
  state.advice = null;
  poll();
  pollCluster();
  pollHistory();
}

/** Repeats some work with rests between, while someone looks. */
async function repeat(work, restMs) {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, restMs));
    if (!document.hidden) await work();
  }
}

/** Starts the console. */
function start() {
  meetSupervisor();
  const shown = Object.entries(PAGES).filter(([name]) => dev?.hasTour || name !== "tour");
  const links = shown.map(([name, { word }]) => h("a", { href: hrefOf(name), "data-page": name }, word));
  document.querySelector("nav").replaceChildren(...links);
  if (dev) document.querySelector("header").append(nodeChoice(seeAnew));
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    document.getElementById("main").focus();
  });
  addEventListener("hashchange", route);
  setInterval(tickCountdowns, 1000);
  route();
  poll().then(() => repeat(poll, STATUS_MS));
  repeat(pollCluster, STATUS_MS);
  pollHistory().then(() => repeat(pollHistory, dev ? DEV_HISTORY_MS : HISTORY_MS));
}

start();
