// --- Faults of the nodes of a local cluster: chosen in the picture ---

/** What each action does, for those who have not done it before. */
const DEV_MEANINGS = {
  kill: "The process ends at once, and is started again.",
  stop: "It finishes what it does, and stays away.",
  start: "It comes back with what it had.",
  freeze: "It keeps its connections, and answers nothing.",
  thaw: "It goes on where it was.",
  cut: "The other nodes do not reach it. You still do.",
  join: "The others reach it again.",
  slow: "Messages between it and the others are late.",
  unslow: "Its messages are as fast as before.",
  skew: "Its clock is 90 minutes ahead.",
  unskew: "Its clock is right again.",
  wipe: "It starts again with nothing.",
  remove: "The others get its data, then it ends.",
};

/** The panel beside the picture: what may be done to the node that was chosen. */
function faultPanel(choose) {
  const said = h("p", { class: "note", role: "status" });
  const body = h("div", { class: "faults-node" });
  const heal = h(
    "button",
    { type: "button", "data-focus": "undo all", onclick: () => report(healAll()) },
    "Undo all",
  );
  const add = h("button", { type: "button", "data-focus": "add", onclick: () => report(addNode()) }, "Add a node");
  const element = h(
    "section",
    { class: "faults", "aria-label": "Inject faults" },
    body,
    h("p", { class: "row" }, heal, add),
    said,
  );
  let chosen = null;
  let drawn = "";

  async function report(doing) {
    said.textContent = "Asking …";
    const line = await doing.catch((problem) => problem.message);
    said.textContent = `${line}.`;
    // What was done is shown before a node notices it.
    await pollDevNodes();
    draw();
    poll();
    pollCluster();
  }

  /** Draws the nodes as the supervisor tells them, if they have changed. */
  function drawPanel() {
    const nodes = state.devNodes;
    const node = nodes.find(({ name }) => name === chosen);
    const now = JSON.stringify([node, chosen, nodes.length]);
    const wasFocused = document.activeElement === heal;
    heal.disabled = !nodes.some(isBroken);
    if (now !== drawn) replace(body, node ? nodeFaults(node) : noNode());
    drawn = now;
    // A button that is disabled loses the focus.
    if (wasFocused && heal.disabled) focusHeading();
  }

  function focusHeading() {
    body.querySelector("h2").focus({ preventScroll: true });
  }

  function noNode() {
    return [
      h("h2", { tabindex: "-1" }, "Inject faults"),
      h("p", {}, "Choose a node in the picture, and break it. The others go on: look at what queues up, what still works, and what is repaired."),
      h(
        "p",
        { class: "row" },
        // Many nodes are easier to find in the picture.
        (state.devNodes.length > CIRCLE_MAX ? [] : state.devNodes).map(({ name }) => h("button", { type: "button", "data-focus": `choose ${name}`, onclick: () => choose(name) }, name)),
      ),
    ];
  }

  function nodeFaults(node) {
    const actions = possibleActions(node);
    return [
      h(
        "div",
        { class: "faults-head" },
        h("h2", { tabindex: "-1", "data-focus": node.name }, node.name),
        nodeMarks(node),
        h("button", { type: "button", "data-focus": "close", onclick: () => choose(null) }, "Close"),
      ),
      h(
        "ul",
        { class: "actions" },
        actions.map((action) =>
          h(
            "li",
            {},
            h(
              "button",
              {
                type: "button",
                class: ["start", "thaw", "join", "unslow", "unskew"].includes(action) ? "main" : "",
                "aria-describedby": `fault-${action}`,
                "data-focus": `${node.name} ${DEV_ACTIONS[action].place}`,
                onclick: () => report(actOn(node.number, action)),
              },
              DEV_ACTIONS[action].word,
            ),
            h("span", { id: `fault-${action}` }, DEV_MEANINGS[action]),
          ),
        ),
      ),
    ];
  }

  return {
    element,
    /** Draws the nodes, if they have changed. */
    update: drawPanel,
    /** Shows what may be done to a node, with the focus on its name. */
    show(name) {
      chosen = name;
      drawPanel();
      focusHeading();
    },
  };
}
