// --- The stage: nodes, what they hold, and what moves between them ---

/** How long a message is on its way, in milliseconds. */
const MESSAGE_MS = 650;

/** How much longer one to or from a slow node is. */
const SLOW_FACTOR = 3;

/** The size of the stage in its own units. */
const [STAGE_WIDTH, STAGE_HEIGHT] = [720, 440];

/** How far from the rim of an actor its messages begin and end. */
const RIM_GAP = 6;

/** How long a message of a flow is on its way, in milliseconds. */
const FLOW_MS = 1600;

/** How many messages of a flow are on their way at a time, at most. */
const FLOW_MAX = 6;

/** How many hints are drawn one by one. */
const HINTS_DRAWN_MAX = 8;

/** The most nodes with lines between all of them, and messages on these lines. */
const LINKED_MAX = 12;

/** From which radius on what a node holds is written in it, and its name beside it. */
const [HELD_RADIUS_MIN, NAMED_RADIUS_MIN] = [36, 14];

/** The longest name beside a small node. */
const NAME_MAX = 11;

/** What a node may be, with what is written below it. */
const NODE_STATES = {
  up: "",
  stopped: "stopped",
  frozen: "frozen",
  cut: "cut off",
  slow: "slow network",
  learner: "being rebuilt",
  unseen: "not seen from here",
  skewed: "clock 90 min ahead",
  absent: "no member",
  joining: "joins",
};

/** What a message carries, as a sign in it. */
const MESSAGE_SIGNS = { ask: "", ack: "✓", hint: "", lost: "" };

/** Whether the reader wants nothing to move, or cannot see it. */
function isStill() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches || document.hidden;
}

/**
 * A stage with the nodes, and the reader at the left of them.
 *
 * @param {Array<string|{name: string, id: number}>} nodes in the order of their IDs
 * @param {boolean} [options.hasReader] whether the reader is on it
 * @param {((name: string) => void)|null} [options.choose] is called with a node that was chosen
 */
function stageOf(nodes, { hasReader = true, choose = null } = {}) {
  const ids = new Map(nodes.map((node) => [node.name ?? node, node.id]));
  const names = Array.from(ids.keys());
  const { radius, spots, height } = placesOf(Array.from(ids), hasReader);
  const places = new Map([...(hasReader ? [["you", [70, 215]]] : []), ...spots]);
  const states = new Map(names.map((name) => [name, "up"]));
  const flows = new Map();
  const linked = names.length > LINKED_MAX ? [] : names;
  const pairs = [
    ...(hasReader ? names.map((name) => ["you", name]) : []),
    ...linked.flatMap((one, index) => linked.slice(index + 1).map((other) => [one, other])),
  ];
  const links = pairs.map(([one, other]) => {
    const [[x1, y1], [x2, y2]] = [places.get(one), places.get(other)];
    return { ends: [one, other], line: s("line", { class: "link", x1, y1, x2, y2 }), messages: 0 };
  });
  const actors = new Map([...places].map(([name, place]) => [name, actorOf(name, place, { id: ids.get(name), radius, choose })]));
  const told = s("text", { class: "told", x: 20, y: 24 });
  const moving = s("g");
  const aside = s("g");
  const picture = s(
    "svg",
    {
      class: radius >= HELD_RADIUS_MIN ? "stage" : radius >= NAMED_RADIUS_MIN ? "stage small" : "stage rows",
      viewBox: `0 0 ${STAGE_WIDTH} ${height}`,
      // What is in a picture cannot be chosen.
      role: choose ? "group" : "img",
      "aria-label": choose
        ? "The cluster: choose a node to break it"
        : `The cluster: what is ${hasReader ? "below says what happens" : "above says the same"}`,
    },
    told,
    links.map(({ line }) => line),
    Array.from(actors.values(), (actor) => actor.group),
    aside,
    moving,
  );
  const is = (name, state) => states.get(name) === state;
  const drawLink = ({ ends, line, messages }) => {
    const isYours = ends[0] === "you";
    const isCut = !isYours && ends.some((end) => is(end, "cut"));
    const isAway = ends.some((end) => is(end, "stopped") || is(end, "absent"));
    const words = ["link", isYours && "own", isCut && "cut", isAway && "away", messages > 0 && "busy"];
    line.setAttribute("class", words.filter(Boolean).join(" "));
  };
  links.forEach(drawLink);
  return {
    picture,
    /** Adds to the picture what is in the way of nothing, at the lower left; it replaces what was there. */
    add(group) {
      aside.replaceChildren(group);
    },
    /** Says above the picture what is in the nodes. */
    tell(text) {
      told.textContent = text;
    },
    /** Marks the node that is chosen, or none. */
    mark(name) {
      for (const [known, { group }] of actors)
        if (choose) group.setAttribute("aria-pressed", String(known === name));
    },
    /** Puts the focus on a node that can be chosen. */
    focus: (name) => actors.get(name)?.group.focus({ preventScroll: true }),
    /** Shows what a node is: one of `NODE_STATES`, with a remark. */
    be(name, state, remark = NODE_STATES[state]) {
      states.set(name, state);
      actors.get(name).group.setAttribute("class", `actor ${state}`);
      actors.get(name).remark.textContent = remark;
      actors.get(name).title.textContent = remark ? `${name}, ${remark}` : name;
      links.forEach(drawLink);
    },
    /** Shows what a node holds of the key; `level` is one of `mark`. */
    hold(name, text, level) {
      const { held, body } = actors.get(name);
      if (radius < HELD_RADIUS_MIN) return;
      const shown = text.length > 12 ? `${text.slice(0, 11)}…` : text;
      held.setAttribute("class", `held ${level}`);
      if (held.textContent === shown) return;
      held.textContent = shown;
      if (shown !== "" && !isStill())
        body.animate({ transform: ["scale(1)", "scale(1.14)", "scale(1)"] }, 450);
    },
    /** Shows how many hints a node keeps for others. */
    keep(name, hints) {
      const { hints: drawn, count: written } = actors.get(name);
      written.textContent = hints === 0 ? "" : counted(hints, "hint");
      const number = radius < HELD_RADIUS_MIN ? 0 : Math.min(hints, HINTS_DRAWN_MAX);
      const left = -((number - 1) * 11) / 2 - 4;
      drawn.replaceChildren(
        ...Array.from({ length: number }, (_, index) =>
          s("rect", { x: left + index * 11, y: -radius - 18, width: 8, height: 8, rx: 1.5 }),
        ),
      );
    },
    /** Has messages move from one node to another as long as there are so many a second. */
    flow(from, to, rate) {
      const number =
        rate > 0 && !isStill() && names.length <= LINKED_MAX ? Math.min(FLOW_MAX, 1 + Math.floor(1.6 * Math.log10(1 + rate))) : 0;
      const known = flows.get(`${from} ${to}`) ?? [];
      if (known.length === number) return;
      known.forEach((dot) => dot.remove());
      const [[x1, y1], [x2, y2]] = rims(places.get(from), places.get(to), radius + RIM_GAP);
      // Each direction has a side of the line.
      const length = Math.hypot(x2 - x1, y2 - y1);
      const [aside, down] = [((y1 - y2) / length) * 6, ((x2 - x1) / length) * 6];
      const ends = [
        `translate(${x1 + aside}px, ${y1 + down}px)`,
        `translate(${x2 + aside}px, ${y2 + down}px)`,
      ];
      const dots = Array.from({ length: number }, (_, index) => {
        const dot = s("circle", { class: "flow", r: 4 });
        moving.append(dot);
        const delay = -(index * FLOW_MS) / number;
        dot.animate({ transform: ends }, { duration: FLOW_MS, iterations: Infinity, delay });
        return dot;
      });
      flows.set(`${from} ${to}`, dots);
    },
    /**
     * Moves a message: `ask`, `ack`, `hint` or `lost`, with a text below it. Ends when it has
     * arrived.
     */
    async send(from, to, kind = "ask", text = "") {
      if (isStill()) return;
      const [[x1, y1], [x2, y2]] = rims(places.get(from), places.get(to), radius + RIM_GAP);
      const message = s(
        "g",
        { class: `message ${kind}` },
        s("circle", { r: kind === "ack" ? 9 : 7 }),
        s("text", { class: "sign", y: 4 }, MESSAGE_SIGNS[kind]),
        s("text", { class: "carried", y: 22 }, text),
      );
      const link = links.find(({ ends }) => ends.includes(from) && ends.includes(to));
      link.messages += 1;
      drawLink(link);
      moving.append(message);
      // A message that is lost stops on its way.
      const way = kind === "lost" ? 0.5 : 1;
      const end = `translate(${x1 + (x2 - x1) * way}px, ${y1 + (y2 - y1) * way}px)`;
      const frames = [
        { transform: `translate(${x1}px, ${y1}px)`, opacity: 1 },
        { transform: end, opacity: 1, offset: 0.8 },
        { transform: end, opacity: kind === "lost" ? 0 : 1 },
      ];
      if (kind !== "lost") frames.splice(1, 1);
      const isSlow = from !== "you" && to !== "you" && (is(from, "slow") || is(to, "slow"));
      const duration = MESSAGE_MS * (isSlow ? SLOW_FACTOR : 1);
      await message.animate(frames, { duration, easing: "ease-in-out", fill: "forwards" }).finished;
      message.remove();
      link.messages -= 1;
      drawLink(link);
    },
  };
}

/** The ends of a way between two places, at the rims of what stands there. */
function rims([x1, y1], [x2, y2], rim) {
  const share = rim / Math.hypot(x2 - x1, y2 - y1);
  const inset = (from, to) => from + (to - from) * share;
  return [
    [inset(x1, x2), inset(y1, y2)],
    [inset(x2, x1), inset(y2, y1)],
  ];
}

/** A node on the stage, or the reader. */
function actorOf(name, [x, y, side = 0, isUp = false], { id, radius, choose }) {
  const isYou = name === "you";
  const isSmall = radius < HELD_RADIUS_MIN;
  // The name of a small node stands beside it, on the outer side of the circle.
  const beside = isSmall ? side : 0;
  const at = ["", "start", "end"].at(beside);
  const isAbove = isSmall && isUp && beside === 0;
  const [x0, below] = [beside * (radius + 6), isYou ? 5 : beside !== 0 ? 4 : isAbove ? -radius - 8 : radius + 19];
  const shown = isSmall && name.length > NAME_MAX ? `${name.slice(0, NAME_MAX - 1)}…` : name;
  const remark = s("text", { class: `remark ${at}`, x: x0, y: isAbove ? below - 17 : below + 17 });
  const held = s("text", { class: "held", y: 5 });
  const count = s("text", { class: `hints ${at}`, x: x0, y: beside !== 0 ? -11 : isAbove ? radius + 15 : -radius - 26 });
  const hints = s("g", { class: "hints" });
  const body = isYou ? s("rect", { x: -36, y: -24, width: 72, height: 48, rx: 10 }) : s("circle", { r: radius });
  const label = s("text", { class: `name ${at}`, x: x0, y: below }, shown);
  const title = s("title", {}, name);
  const isDot = radius < NAMED_RADIUS_MIN;
  return {
    group: s(
      "g",
      { class: "actor up", transform: `translate(${x} ${y})`, ...(choose && chosenBy(name, choose)) },
      title,
      body,
      isDot ? s("text", { class: "number", y: 4 }, String(id)) : label,
      isYou || isDot ? [] : [held, remark, hints, count],
      id === undefined || isDot ? [] : lookOf(id, radius),
    ),
    body,
    title,
    remark,
    held,
    hints,
    count,
  };
}

/** The line that a node has in charts, within it. */
function lookOf(id, radius) {
  const half = Math.min(12, radius * 0.6);
  const y = radius < HELD_RADIUS_MIN ? 0 : radius * 0.45;
  return s("line", { class: `line look ${looksOf(id)}`, x1: -half, x2: half, y1: y, y2: y });
}

/** What makes a node of the stage a button. */
function chosenBy(name, choose) {
  return {
    role: "button",
    tabindex: "0",
    "aria-pressed": "false",
    "data-node": name,
    onclick: () => choose(name),
    onkeydown: (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      choose(name);
    },
  };
}
