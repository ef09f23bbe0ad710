// --- The page of the cluster ---

/** The page of the cluster: what needs attention, the nodes, what they did lately, what goes on. */
function clusterPage(root) {
  const names = ["lead", "advice", "change", "cards", "map", "charts", "nodes", "work"];
  const parts = names.map((name) => h("div", { class: `part-${name}` }));
  const [lead, advice, change, cards, picture, charts, nodes, work] = parts;
  const choose = (name) => {
    const before = chosen;
    chosen = name;
    map.mark(name);
    faults.show(name);
    if (name === null) map.focus(before);
  };
  let chosen = null;
  const faults = dev ? faultPanel((name) => choose(name)) : null;
  const map = clusterMap(faults ? choose : null);
  picture.addEventListener("keydown", ({ key }) => {
    if (key === "Escape" && chosen !== null) choose(null);
  });
  picture.append(...present([map.element, faults?.element]));
  const chart = chartsSection();
  charts.append(chart.element);
  root.replaceChildren(h("h1", { class: "hidden" }, "Cluster"), ...parts);
  const loading = h("p", { class: "lead idle" }, "Asking the node …");
  let [drawn, moved] = [null, null];
  return {
    title: "Cluster",
    update(state) {
      faults?.update();
      root.classList.toggle("stale", isOld(state));
      root.classList.toggle("loading", state.status === null && state.failure === null);
      if (!state.status) return void replace(lead, state.failure ? null : loading);
      const seen = state.view ?? state.status;
      const broken = unnoticed(seen);
      redraw(lead, broken.length > 0 ? unnoticedLead(broken) : isOld(state) ? oldLead(state.statusAt) : leadOf(seen));
      redraw(advice, isOld(state) ? null : adviceList(state));
      redraw(change, isOld(state) ? null : memberChange(state));
      map.update(state);
      redraw(cards, h("h2", { class: "hidden" }, "Nodes"), nodeCards(state));
      redraw(nodes, peersTable(state, seen));
      redraw(work, workOf(seen));
      if (drawn !== state.figuresAt) {
        drawn = state.figuresAt;
        chart.draw(state);
      }
      if (moved !== state.metricsAt) {
        moved = state.metricsAt;
        map.count(state);
      }
    },
  };
}

/** What a node knows of the others: their clocks, how fast they answer it, what waits for them. */
function peersTable({ metrics }, seen) {
  const others = membersOf(seen).filter((member) => member.state !== "this node");
  if (others.length === 0) return null;
  const now = seen.clock.unix_ms;
  const number = (text) => ({ text, number: true });
  const columns = [
    "Node",
    "State",
    number("Clock"),
    number("Latency of reads"),
    number("Latency of writes"),
    number("Hints for it"),
    "Last equal",
  ];
  const rows = others.map((member) => {
    const { name, clock_ahead_ms: ahead } = member;
    return [
      [nodeKey(member.id), name],
      mark(STATE_LEVELS[member.state] ?? "idle", member.state),
      ahead === undefined ? "–" : `${ahead > 0 ? "+" : ""}${count(ahead)} ms`,
      answersOf(name, "read", metrics.get(seen.name)),
      answersOf(name, "write", metrics.get(seen.name)),
      member.hints === 0 ? "0" : `${count(member.hints)} (${bytes(member.hint_bytes)})`,
      ago(member.last_repair_unix_ms, now),
    ];
  });
  return section(`The others, as ${seen.name} sees them`, table("The other nodes", columns, rows));
}

/** How long a node's answers to a kind of request take, as another one measures. */
function answersOf(name, request, metrics) {
  const time = metrics?.get(`kvorum_peer_latency_seconds{peer="${name}",request="${request}"}`);
  return time > 0 ? micros(time * 1e6) : "–";
}
