// --- The picture of the cluster: its nodes, and what moves between them now ---

/** The most nodes that are drawn. More are in the table only. */
const MAP_NODES_MAX = 9;

/** What a node is on the stage, by the state in which this node sees it. */
const MAP_STATES = { suspected: "frozen", down: "stopped" };

/**
 * A picture of the cluster: each node with its requests a second, the hints that it keeps, and
 * the requests that it sends to the others. What it sends a node tells only at its own console,
 * and in a local cluster.
 */
function clusterMap() {
  const element = h("div", { class: "map" });
  let stage = null;
  let names = [];
  /** The calls of each node to each other one at the last figures, and when that was. */
  let before = { calls: new Map(), at: 0 };

  /** Draws how many requests moved from node to node since the last figures. */
  function drawFlows(tellers) {
    const now = { calls: new Map(), at: performance.now() };
    const seconds = (now.at - before.at) / 1000;
    for (const [from, metrics] of tellers) {
      for (const to of names.filter((name) => name !== from)) {
        const calls = callsTo(to, metrics);
        const last = before.calls.get(`${from} ${to}`);
        now.calls.set(`${from} ${to}`, calls);
        stage.flow(from, to, last === undefined ? 0 : Math.max(0, calls - last) / seconds);
      }
    }
    before = now;
  }

  return {
    element,
    /** Draws what changes with each status. */
    update({ status, reports }) {
      const wanted = status.cluster.map((member) => member.name);
      if (wanted.length < 2 || wanted.length > MAP_NODES_MAX) return void element.replaceChildren();
      if (wanted.join() !== names.join()) {
        names = wanted;
        stage = stageOf(names, false);
        replace(element, stage.picture);
      }
      for (const member of status.cluster) {
        const isAway = Object.hasOwn(MAP_STATES, member.state);
        if (isAway) stage.be(member.name, MAP_STATES[member.state], member.state);
        else stage.be(member.name, member.replica_state === "learner" ? "learner" : "up");
        const report = reports.get(member.name);
        stage.keep(member.name, report?.hints ?? 0);
        stage.hold(member.name, report ? `${short(report.requests_a_second)}/s` : "", "idle");
      }
    },
    /** Draws what changes with the metrics. */
    count({ status, metrics, peerMetrics }) {
      if (stage && metrics.size > 0) drawFlows(new Map([...peerMetrics, [status.name, metrics]]));
    },
  };
}

/** How many calls a node has sent to another one, by its metrics. */
function callsTo(name, metrics) {
  const begin = `kvorum_peer_calls_total{peer="${name}",`;
  let calls = 0;
  for (const [metric, value] of metrics) if (metric.startsWith(begin)) calls += value;
  return calls;
}
