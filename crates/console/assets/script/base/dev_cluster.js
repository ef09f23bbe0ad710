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

/** Takes the token of the supervisor, which marks its page, from the address and the screen. */
function meetSupervisor() {
  const found = /^#dev=([\w-]+)$/.exec(location.hash);
  const nodes = document.documentElement.dataset.dev;
  if (!found || nodes === undefined) return;
  dev = { token: found[1], node: 1, hasTour: nodes === "3" };
  history.replaceState(null, "", hrefOf(dev.hasTour ? "tour" : "cluster"));
}

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
  const nodes = await devNodes().catch(() => []);
  const running = nodes.filter((node) => node.state === "running" && node.number !== dev.node);
  await Promise.allSettled(
    running.map(async ({ number, name }) => told.set(name, await question(reached(path, number)))),
  );
  return told;
}

/** A choice of the node that answers. `changed` is called when it is another one. */
function nodeChoice(changed) {
  const choice = h("select", {
    id: "seen-by",
    onchange: () => {
      dev.node = Number(choice.value);
      changed();
    },
  });
  devNodes().then((nodes) => {
    choice.append(
      ...nodes.map(({ number, name }) => h("option", { value: number, selected: number === dev.node }, name)),
    );
  });
  return h("label", { class: "through" }, "as seen by ", choice);
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
      running: ["kill", "stop", "freeze", ...ofFaults, "wipe"],
      frozen: ["thaw", "kill"],
      stopped: ["start"],
    }[what] ?? []
  );
}

/** The actions that make a node whole again. */
function healingActions({ state: what, faults }) {
  const first = { frozen: ["thaw"], stopped: ["start"] }[what] ?? [];
  return [...first, ...faults.map((fault) => DEV_FAULTS[fault].takeBack)];
}

/** Makes all nodes whole again. */
async function healAll() {
  for (const node of await devNodes()) {
    for (const action of healingActions(node)) await actOn(node.number, action);
  }
}

/** What a node is, and its faults. */
function nodeMarks({ state: what, faults }) {
  const level = { running: faults.length > 0 ? "warn" : "good", stopped: "bad" }[what] ?? "warn";
  const words = faults.map((fault) => DEV_FAULTS[fault].word);
  return mark(level, what === "running" && words.length > 0 ? listed(words) : listed([what, ...words]));
}

/** The section of the cluster's page that breaks nodes. */
function breakingSection() {
  const said = h("p", { class: "note", role: "status" });
  const rows = h("div", { class: "breaking" });
  const heal = h(
    "button",
    { type: "button", onclick: () => report(healAll().then(() => "All faults are undone")) },
    "Undo all",
  );
  let drawn = "";
  const draw = async () => {
    const nodes = await devNodes().catch(() => []);
    const now = JSON.stringify(nodes);
    if (now === drawn) return;
    drawn = now;
    heal.disabled = nodes.every((node) => healingActions(node).length === 0);
    replace(rows, nodes.map(nodeRow));
  };
  const nodeRow = (node) =>
    h(
      "div",
      { class: "broken", tabindex: "-1", "data-focus": node.name },
      h("b", {}, node.name),
      nodeMarks(node),
      h(
        "div",
        { class: "buttons" },
        possibleActions(node).map((action) =>
          h(
            "button",
            {
              type: "button",
              "data-focus": `${node.name} ${DEV_ACTIONS[action].place}`,
              onclick: () => report(actOn(node.number, action)),
            },
            DEV_ACTIONS[action].word,
          ),
        ),
      ),
    );
  const report = async (doing) => {
    said.textContent = "Asking …";
    const line = await doing.catch((problem) => problem.message);
    said.textContent = `${line}.`;
    draw();
  };
  draw();
  return {
    element: section(
      "Inject faults",
      h(
        "p",
        { class: "hint" },
        "Then watch the nodes above: what queues up, what still works, and what is repaired. Whatever you break, the other nodes continue. Cutting or slowing the network affects traffic between nodes only: you still reach each node, and its disk is as fast as before.",
      ),
      rows,
      h("p", { class: "row" }, heal, said),
    ),
    draw,
  };
}
