// --- A card for each node: what it is, how full its disk is, what it does ---

/** What a state of a node means, as a level of `mark`. */
const STATE_LEVELS = { "this node": "good", up: "good", connecting: "warn", suspected: "warn", down: "bad" };

/** What a replica_state of a store means, as a level of `mark`. */
const REPLICA_STATE_LEVELS = { voter: "good", forced_voter: "warn", starting: "warn", learner: "bad" };

/** The window of the small charts on a card, and how many of its last points a figure sums up. */
const [CARD_WINDOW, CARD_POINTS] = [WINDOWS[0], 6];

/** The most nodes whose cards have figures; those of more say only how each node is. */
const FIGURES_MAX = 24;

/** The radius of the circle that shows how full a disk is. */
const RING_RADIUS = 19;

/** The cards of all nodes. */
function nodeCards(state) {
  const cluster = membersOf(state.view ?? state.status);
  const isFull = cluster.length <= FIGURES_MAX;
  const columns = isFull ? columnsOf(state.series, state.series.names(), CARD_WINDOW) : null;
  return h(
    "ul",
    { class: isFull ? "cards" : "cards small", "aria-label": "Nodes" },
    cluster.map((member) => nodeCard(member, state, columns)),
  );
}

/** What a node said of itself when all were asked last; null if it said nothing. */
function accountOf(name, { accounts, round }) {
  const account = accounts.get(name);
  return account?.round === round ? account : null;
}

/** Whether what is known of the cluster is old, because the node that serves the page is silent. */
function isOld({ failure, view }) {
  return failure !== null && view === null;
}

/** How good a node is and in a word why: as it says itself, or as another one sees it. */
function levelOf(member, account, state) {
  const isServing = member.name === state.status.name;
  if (isServing && isOld(state)) return ["bad", "does not answer"];
  if (isOld(state)) return ["idle", `was ${member.state}`];
  // Whoever reaches nobody does not know how the others are; in a local cluster they say it themselves.
  if (reachesNobody(state.view ?? state.status))
    return member.state === "this node"
      ? ["bad", "reaches no other node"]
      : account
        ? [account.status?.state === "serving" ? "good" : "warn", "up"]
        : ["idle", "not seen from here"];
  if (member.state === "this node") {
    const { state: what } = account?.status ?? state.status;
    return what === "serving" ? ["good", "up"] : ["warn", what];
  }
  const since = member.down_seconds === undefined ? "" : ` for ${span(member.down_seconds)}`;
  return [STATE_LEVELS[member.state] ?? "idle", member.state + since];
}

/** The card of a node; without `columns`, without figures. */
function nodeCard(member, state, columns) {
  const { name } = member;
  const account = isOld(state) || isAway(name) ? null : accountOf(name, state);
  const isOwn = name === state.status.name;
  const seenAs = levelOf(member, account, state);
  const done = doneTo(name);
  const [level, word] = done ?? seenAs;
  const status = account?.status;
  const role = status?.replica_state ?? member.replica_state;
  const figures = columns ? cardFigures(member, account, state, columns) : { requests: null };
  return h(
    "li",
    { class: `card ${level}` },
    h(
      "div",
      { class: "card-head" },
      h("h3", {}, nodeKey(member.id), h("a", { ...consoleOf(member, isOwn), "data-focus": name }, name)),
      mark(level, word),
    ),
    h(
      "p",
      { class: "card-what" },
      role ? mark(isOld(state) ? "idle" : (REPLICA_STATE_LEVELS[role] ?? "idle"), role.replace("_", " ")) : "replica state unknown",
      status ? ` · ${status.version} · up for ${span(status.uptime_seconds, 1)}` : "",
    ),
    figures.element,
    h(
      "p",
      { class: "card-now" },
      done && member.state !== "this node" && `${(state.view ?? state.status).name} sees it: ${seenAs[1]}. `,
      account ? doing(status, account.report, figures.requests) : notDoing(member, state),
    ),
  );
}

/** How full the disk of a node is, and what it did lately. */
function cardFigures({ name, id }, account, state, columns) {
  const rates = columns.map((column) => rateOf(column, requestsOf, name));
  const all = columns.map(({ nodes }) => ({ nodes: new Map(nodes.has(name) ? [[name, nodes.get(name)]] : []) }));
  const slowest = (some) => quantile(countsOf(some, ["reads", "writes"]), state.series.boundsUs, 0.99);
  const recent = all.slice(-CARD_POINTS);
  const requests = account ? meanRateOf(recent, requestsOf) : null;
  const p99 = account ? slowest(recent) : null;
  const line = (values, label) => sparkline(values, looksOf(id), label);
  const element = h(
    "div",
    { class: "card-figures" },
    diskRing(account?.report),
    figure("Requests", requests === null ? "–" : `${rate(requests)}/s`, line(rates, `Requests of ${name} in the last 5 minutes`)),
    figure("p99", p99 === null ? "–" : micros(p99), line(all.map((column) => slowest([column])), `p99 of ${name} in the last 5 minutes`)),
  );
  return { element, requests };
}

function figure(label, text, picture) {
  return h("div", { class: "figure" }, h("span", { class: "label" }, label), h("b", {}, text), picture);
}

/** How much of its disk a node has left, and of how much if that is known. */
function diskFree({ free_bytes: free, disk_bytes: size }) {
  return size ? `${bytes(free)} of ${bytes(size)} free` : `${bytes(free)} free`;
}

/** A circle that is full to the share of the disk that the data takes of what it could have. */
function diskRing(report) {
  const isKnown = report?.free_bytes !== undefined && report?.free_bytes !== null;
  const share = isKnown ? report.data_bytes / Math.max(1, report.data_bytes + report.free_bytes) : 0;
  const percent = share > 0 && share < 0.01 ? "<1%" : `${Math.round(share * 100)}%`;
  const text = isKnown ? percent : "–";
  const length = 2 * Math.PI * RING_RADIUS;
  const free = isKnown ? diskFree(report) : "free space unknown";
  const ring = s(
    "svg",
    { class: share > 0.8 ? "ring full" : "ring", viewBox: "0 0 48 48", role: "img", "aria-label": `Disk: ${text} of what it can have; ${free}` },
    s("circle", { class: "way", cx: 24, cy: 24, r: RING_RADIUS }),
    s("circle", {
      class: "filled",
      cx: 24,
      cy: 24,
      r: RING_RADIUS,
      "stroke-dasharray": `${(share * length).toFixed(2)} ${length.toFixed(2)}`,
      transform: "rotate(-90 24 24)",
      visibility: share > 0 ? "visible" : "hidden",
    }),
    s("text", { x: 24, y: 28, "text-anchor": "middle" }, text),
  );
  const words = report ? [h("b", {}, bytes(report.data_bytes)), h("span", {}, free)] : [h("b", {}, "–"), h("span", {}, "disk")];
  return h("div", { class: "disk" }, ring, h("div", {}, words));
}

/** What a node does now besides serving, in a few words. */
function doing(status, report, requests) {
  const now = [];
  if (status) {
    const { rebuild, running } = status.repair;
    if (rebuild) {
      const left = rebuild.seconds_left === undefined ? "" : `, about ${span(rebuild.seconds_left)} left`;
      now.push(
        rebuild.stalled_because
          ? `the rebuild of its store stands still, because ${rebuild.stalled_because}`
          : `rebuilds its store: ${Math.round(rebuild.share * 100)}%${left}`,
      );
    }
    for (const session of running) now.push(`${session.kind} repair, ${counted(session.ranges, "range")} compared`);
    if (status.store.compaction) now.push("compacts everything");
    if (status.clock.refuses_writes) now.push("takes no writes: its clock is wrong");
    if (status.background.share < 1) now.push(`background work at ${Math.round(status.background.share * 100)}%`);
  }
  if (report?.hints > 0) now.push(`keeps ${counted(report.hints, "hint")} for others`);
  if (now.length > 0) return `Now: ${now.join("; ")}.`;
  if (requests === null) return "";
  return requests > 0 ? "Now: serves clients." : "Now: no requests.";
}

/** What is known of a node that says nothing. */
function notDoing(member, { accounts, status, view }) {
  const last = accounts.get(member.name);
  const said = last ? `Last heard ${new Date(last.at).toLocaleTimeString("sv-SE")}.` : "It says nothing of itself.";
  const seen = view ?? status;
  const hints = member.hints > 0 ? ` ${counted(member.hints, "hint")} ${member.hints === 1 ? "waits" : "wait"} for it on ${seen.name}.` : "";
  return said + hints + noTls(member, seen);
}

/** Why another node has no TLS connection to one, and what to do about it. */
function noTls({ tls_failure: failure }, { name }) {
  if (!failure) return "";
  const { reason, cause, remedy } = failure;
  return ` ${name} cannot connect to it (TLS: ${reason}): ${cause}. ${capitalized(remedy)}.`;
}

/** Where the console of a node is: that of this one is here. */
function consoleOf({ name, url }, isOwn) {
  if (isOwn) return { href: "#/node", title: `What ${name} keeps, and its limits` };
  return { href: url, rel: "noreferrer", target: dev ? "_blank" : null, title: `The console of ${name}` };
}
