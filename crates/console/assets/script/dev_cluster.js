// --- The local cluster of `kvorum dev` ---

/**
 * How the console reaches a local cluster: its supervisor serves the page, passes requests
 * on to each node, and does to a node what the reader asks for. Null on a node of its own.
 *
 * @type {{token: string, node: number}|null} `node` is the one that answers, from 1
 */
let dev = null;

/** Takes the token of the supervisor from the address, and from the screen. */
function meetSupervisor() {
  const found = /^#dev=([\w-]+)$/.exec(location.hash);
  if (!found) return;
  dev = { token: found[1], node: 1 };
  history.replaceState(null, "", hrefOf("tour"));
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
 * Does something to a node: one of `DEV_ACTIONS`.
 *
 * @returns {Promise<string>} what was done
 */
async function actOn(node, action) {
  const answer = await askJson(`/dev/nodes/${node}/${action}`, {
    method: "POST",
    body: "{}",
    type: "application/json",
    wait: 60000,
  });
  return answer.done;
}

/** Loads the first node over so many connections for some seconds. */
function loadFirst(connections) {
  return askJson(`/dev/load/${connections}`, {
    method: "POST",
    body: "{}",
    type: "application/json",
    wait: 60000,
  });
}

/** The nodes of the local cluster, with what the supervisor did to them. */
async function devNodes() {
  return (await askJson("/dev/cluster")).nodes;
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

/** What the reader may do to each node. */
const DEV_ACTIONS = {
  kill: "Kill",
  stop: "Stop",
  start: "Start",
  freeze: "Freeze",
  thaw: "Thaw",
  wipe: "Lose its disk",
  skew: "Set its clock ahead",
  unskew: "Set its clock right",
};

/** Which of them make sense for what was done to a node. */
const DEV_POSSIBLE = {
  running: ["kill", "stop", "freeze", "wipe", "skew"],
  skewed: ["unskew", "kill"],
  frozen: ["thaw", "kill"],
  stopped: ["start"],
};

/** The section of the cluster's page that breaks nodes. */
function breakingSection() {
  const said = h("p", { class: "note", role: "status" });
  const rows = h("div", { class: "breaking" });
  const draw = async () => {
    const nodes = await devNodes().catch(() => []);
    replace(
      rows,
      nodes.map(({ number, name, state: done }) =>
        h(
          "div",
          { class: "row" },
          h("b", {}, name),
          mark({ running: "good", stopped: "bad" }[done] ?? "warn", done),
          (DEV_POSSIBLE[done] ?? []).map((action) =>
            h(
              "button",
              { type: "button", "data-focus": `${name} ${action}`, onclick: () => act(number, action) },
              DEV_ACTIONS[action],
            ),
          ),
        ),
      ),
    );
  };
  const act = async (number, action) => {
    said.textContent = "Asking …";
    said.textContent = await actOn(number, action).catch((problem) => problem.message);
    draw();
  };
  draw();
  return {
    element: section(
      "Break it",
      h(
        "p",
        { class: "hint" },
        "Then look at the nodes above: what gathers, what goes on, and what is mended.",
      ),
      rows,
      said,
    ),
    draw,
  };
}
