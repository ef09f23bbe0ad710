// --- The local cluster of `kvorum dev` ---

/**
 * How the console reaches a local cluster: its supervisor serves the page, passes requests
 * on to each node, and does to a node what the reader asks for. Null on a node of its own.
 *
 * @type {{token: string, node: number, hasTour: boolean}|null} `node` answers, from 1
 */
let dev = null;

/** How long what the supervisor is to do may take, in milliseconds. */
const SUPERVISOR_MS_MAX = 60000;

/** How many nodes the supervisor has that marks its page; undefined on a node of its own. */
const SUPERVISED = document.documentElement.dataset.dev;

/** Under which name the tab keeps the token of the supervisor. */
const DEV_TOKEN = "kvorum-dev";

/**
 * Takes the token of the supervisor from the address and the screen, and has the tab keep it
 * for a reload.
 *
 * @returns {boolean} whether there is one that was not known
 */
function meetSupervisor() {
  if (SUPERVISED === undefined) return false;
  const found = /^#dev=([\w-]+)$/.exec(location.hash)?.[1];
  const token = found ?? keptInTab(DEV_TOKEN);
  const isNew = token !== null && token !== dev?.token;
  if (isNew) dev = { token, node: 1, hasTour: SUPERVISED === "3" };
  if (found === undefined) return isNew;
  keepInTab(DEV_TOKEN, found);
  history.replaceState(null, "", hrefOf(dev.hasTour ? "tour" : "cluster"));
  return isNew;
}

/** Whether the supervisor refuses the page, because it has no token or another one. */
function isRefused(failure) {
  return SUPERVISED !== undefined && failure?.status === 403;
}

/** What helps then. */
const TOKEN_REMEDY = "Open the address that kvorum dev printed again: its token is missing.";

/**
 * Where the supervisor of a local cluster takes requests for a node: the one that answers,
 * or the one with this number. Elsewhere a path stays as it is.
 */
function reached(path, node) {
  const isOwn = ["/dev/", "/nodes/", "/console/"].some((begin) => path.startsWith(begin));
  return dev && !isOwn ? `/nodes/${node ?? dev.node}${path}` : path;
}

/**
 * Does something to a node: the key of an action in `DEV_ACTIONS`.
 *
 * @returns {Promise<string>} what was done
 */
async function actOn(node, action) {
  return (await order(`/dev/nodes/${node}/${action}`, SUPERVISOR_MS_MAX)).done;
}

/** Adds a node. Gives how far that is once it has begun. */
async function addNode() {
  return (await order("/dev/add", SUPERVISOR_MS_MAX)).done;
}

/** Loads the first node over so many connections for some seconds. */
function loadFirst(connections) {
  return order(`/dev/load/${connections}`, SUPERVISOR_MS_MAX);
}

/** The nodes of the local cluster and their faults. */
async function devNodes() {
  return (await askJson("/dev/cluster")).nodes;
}

/**
 * What the other nodes of a local cluster answer: the supervisor reaches those, too, that are cut
 * off from the rest. Elsewhere a console asks only its own node.
 *
 * @param {string} path what each is asked for
 * @param {(reached: string) => Promise} question asks at the path where it is reached
 * @returns {Promise<Map<string, any>>} by name; those that do not answer are left out
 */
async function askPeers(path, question) {
  const told = new Map();
  if (!dev) return told;
  const running = state.devNodes.filter((node) => node.state === "running" && node.number !== dev.node);
  await Promise.allSettled(
    running.map(async ({ number, name }) => told.set(name, await question(reached(path, number)))),
  );
  return told;
}

/**
 * A choice of the node that answers, of those that there are. `changed` is called with the number
 * of another one.
 */
function nodeChoice(changed) {
  const choice = h("select", {
    id: "seen-by",
    onchange: () => changed(Number(choice.value)),
  });
  return h("label", { class: "through" }, "as seen by ", choice);
}

/** Offers the nodes that there are now. */
function drawNodeChoice(nodes) {
  const choice = document.getElementById("seen-by");
  if (!choice || Array.from(choice.options, ({ text }) => text).join() === nodes.map(({ name }) => name).join()) return;
  replace(choice, nodes.map(({ number, name }) => h("option", { value: number, selected: number === dev.node }, name)));
}

/**
 * What the reader may do to a node. An action and the one that takes it back have one place,
 * so that the keyboard stays where it was.
 */
const DEV_ACTIONS = {
  kill: { word: "Kill", place: "kill" },
  stop: { word: "Stop", place: "stop" },
  start: { word: "Start", place: "stop" },
  freeze: { word: "Freeze", place: "freeze" },
  thaw: { word: "Thaw", place: "freeze" },
  cut: { word: "Cut off", place: "cut" },
  join: { word: "Join again", place: "cut" },
  slow: { word: "Slow its network", place: "slow" },
  unslow: { word: "Speed up its network", place: "slow" },
  skew: { word: "Set its clock ahead", place: "skew" },
  unskew: { word: "Set its clock right", place: "skew" },
  wipe: { word: "Lose its disk", place: "wipe" },
  remove: { word: "Remove it", place: "remove" },
};

/** The faults that a running node may have: how they are shown, given and taken back. */
const DEV_FAULTS = {
  "cut-off": { word: "cut off", give: "cut", takeBack: "join" },
  slow: { word: "slow network", give: "slow", takeBack: "unslow" },
  skewed: { word: "clock 90 min ahead", give: "skew", takeBack: "unskew" },
};

/** The actions that make sense for a node. */
function possibleActions({ state: what, faults }) {
  const ofFaults = Object.entries(DEV_FAULTS).map(([fault, { give, takeBack }]) =>
    faults.includes(fault) ? takeBack : give,
  );
  return (
    {
      running: ["kill", "stop", "freeze", ...ofFaults, "wipe", ...(state.devNodes.length > 1 ? ["remove"] : [])],
      frozen: ["thaw", "kill"],
      stopped: ["start"],
    }[what] ?? []
  );
}

/** Whether a node is not as it should be. */
function isBroken({ state: what, faults }) {
  return what !== "running" || faults.length > 0;
}

/** Makes all nodes whole again. Gives what was done. */
async function healAll() {
  return (await order("/dev/heal", SUPERVISOR_MS_MAX)).done;
}

/** Sends a request when the page is about to end: it outlives the page, and nobody hears the answer. */
function lastRequest(path, options) {
  const headers = { "Kvorum-Dev": dev.token, "Content-Type": "application/json" };
  fetch(reached(path), { ...options, headers, keepalive: true }).catch(() => null);
}

/** How a node is that the reader broke: as a level of `mark`, and in words; null if it is whole. */
function doneTo(name) {
  const node = state.devNodes.find((each) => each.name === name);
  if (!node || !isBroken(node)) return null;
  const words = node.faults.map((fault) => DEV_FAULTS[fault].word);
  if (node.state !== "running") words.unshift(node.state);
  // One that restarts has ended by itself.
  return [isAway(name) ? "bad" : "warn", `${listed(words)}${node.state === "restarting" ? "" : " by you"}`];
}

/** Whether a node of a local cluster answers nobody, as the supervisor says. */
function isAway(name) {
  return state.devNodes.some((node) => node.name === name && node.state !== "running");
}

/** Whether the other nodes do not reach it. */
function isUnreachable(name) {
  return isAway(name) || state.devNodes.some((node) => node.name === name && node.faults.includes("cut-off"));
}

/** What a node is, and its faults. */
function nodeMarks({ state: what, faults }) {
  const level = { running: faults.length > 0 ? "warn" : "good", stopped: "bad" }[what] ?? "warn";
  const words = faults.map((fault) => DEV_FAULTS[fault].word);
  return mark(level, what === "running" && words.length > 0 ? listed(words) : listed([what, ...words]));
}
