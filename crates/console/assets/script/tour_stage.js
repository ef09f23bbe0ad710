// --- The stage of the tour: nodes, what they hold, and what moves between them ---

/** How long a message is on its way, in milliseconds. */
const MESSAGE_MS = 650;

/** The size of the stage in its own units. */
const [STAGE_WIDTH, STAGE_HEIGHT] = [720, 400];

/** How far from the middle of an actor its messages begin and end. */
const RIM = 50;

/** What a node may be, with what is written below it. */
const NODE_STATES = {
  up: "",
  stopped: "stopped",
  frozen: "frozen",
  unfilled: "being filled",
  skewed: "clock 90 min ahead",
};

/**
 * A stage with the reader at the left and the nodes at the right.
 *
 * @param {string[]} names of the nodes
 */
function stageOf(names) {
  const places = new Map([["you", [70, 200]]]);
  names.forEach((name, index) => {
    const angle = (2 * Math.PI * index) / names.length - Math.PI / 2 - (names.length === 3 ? Math.PI / 6 : 0);
    places.set(name, [460 + 150 * Math.cos(angle), 200 + 135 * Math.sin(angle)]);
  });
  const pairs = [
    ...names.map((name) => ["you", name]),
    ...names.flatMap((one, index) => names.slice(index + 1).map((other) => [one, other])),
  ];
  const links = pairs.map(([one, other]) => {
    const [[x1, y1], [x2, y2]] = [places.get(one), places.get(other)];
    return s("line", { class: one === "you" ? "link own" : "link", x1, y1, x2, y2 });
  });
  const actors = new Map([...places].map(([name, place]) => [name, actorOf(name, place)]));
  const moving = s("g");
  const picture = s(
    "svg",
    {
      class: "stage",
      viewBox: `0 0 ${STAGE_WIDTH} ${STAGE_HEIGHT}`,
      role: "img",
      "aria-label": "The cluster: the list below says what happens",
    },
    links,
    Array.from(actors.values(), (actor) => actor.group),
    moving,
  );
  return {
    picture,
    /** Shows what a node is: one of `NODE_STATES`. */
    be(name, state) {
      actors.get(name).group.setAttribute("class", `actor ${state}`);
      actors.get(name).remark.textContent = NODE_STATES[state];
    },
    /** Shows what a node holds of the key; `level` is one of `mark`. */
    hold(name, text, level) {
      const { held } = actors.get(name);
      held.textContent = text.length > 12 ? `${text.slice(0, 11)}…` : text;
      held.setAttribute("class", `held ${level}`);
    },
    /** Shows how many hints a node keeps for others. */
    keep(name, hints) {
      actors.get(name).hints.textContent = hints === 0 ? "" : counted(hints, "hint");
    },
    /** Moves a message: `ask`, `ack`, `hint` or `lost`. Ends when it has arrived. */
    async send(from, to, kind = "ask") {
      if (matchMedia("(prefers-reduced-motion: reduce)").matches || document.hidden) return;
      const [[x1, y1], [x2, y2]] = between(places.get(from), places.get(to));
      const message = s("circle", { class: `message ${kind}`, r: 7 });
      moving.append(message);
      // A message that is lost stops on its way.
      const way = kind === "lost" ? 0.55 : 1;
      const end = `translate(${x1 + (x2 - x1) * way}px, ${y1 + (y2 - y1) * way}px)`;
      const frames = [
        { transform: `translate(${x1}px, ${y1}px)`, opacity: 1 },
        { transform: end, opacity: kind === "lost" ? 0 : 1 },
      ];
      await message.animate(frames, { duration: MESSAGE_MS, easing: "ease-in-out", fill: "forwards" })
        .finished;
      message.remove();
    },
  };
}

/** The ends of a way between two places, at the rims of what stands there. */
function between([x1, y1], [x2, y2]) {
  const share = RIM / Math.hypot(x2 - x1, y2 - y1);
  const inset = (from, to) => from + (to - from) * share;
  return [
    [inset(x1, x2), inset(y1, y2)],
    [inset(x2, x1), inset(y2, y1)],
  ];
}

/** A node on the stage, or the reader. */
function actorOf(name, [x, y]) {
  const isYou = name === "you";
  const remark = s("text", { class: "remark", y: 68 });
  const held = s("text", { class: "held", y: 5 });
  const hints = s("text", { class: "hints", y: -54 });
  const body = isYou ? s("rect", { x: -34, y: -22, width: 68, height: 44, rx: 4 }) : s("circle", { r: 44 });
  const label = s("text", { class: "name", y: isYou ? 5 : 62 }, name);
  const below = isYou ? [] : [held, remark, hints];
  if (!isYou) remark.setAttribute("y", 78);
  return {
    group: s("g", { class: "actor up", transform: `translate(${x} ${y})` }, body, label, below),
    remark,
    held,
    hints,
  };
}
