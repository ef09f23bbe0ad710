// --- The picture of the cluster: its nodes, and what moves between them now ---

/** What a node is on the stage, by the state in which another node sees it. */
const MAP_STATES = { suspected: "frozen", down: "stopped" };

/** What a node of a local cluster is on the stage, by its state and by its faults. */
const MAP_DEV_STATES = { stopped: "stopped", frozen: "frozen", "cut-off": "cut", slow: "slow", skewed: "skewed" };

/**
 * A picture of the cluster: each node with its requests a second, the hints that it keeps, and
 * the requests that it sends to the others. What it sends a node tells only at its own console,
 * and in a local cluster, whose nodes can be chosen.
 *
 * @param {((name: string) => void)|null} choose is called with the node that was chosen
 */
function clusterMap(choose) {
  const element = h("div", { class: "map" });
  let stage = null;
  let names = [];
  let drawn = "";
  let chosen = null;
  /** The calls of each node to each other one at the last figures, and when that was. */
  let before = { calls: new Map(), at: 0 };

  /** Draws how many requests moved from node to node since the last figures. */
  function drawFlows(tellers) {
    const now = { calls: new Map(), at: performance.now() };
    const seconds = (now.at - before.at) / 1000;
    for (const from of names) {
      const metrics = tellers.get(from);
      for (const to of names.filter((name) => name !== from)) {
        const calls = metrics ? callsTo(to, metrics) : undefined;
        const last = before.calls.get(`${from} ${to}`);
        const isKnown = calls !== undefined && last !== undefined;
        stage.flow(from, to, isKnown ? Math.max(0, calls - last) / seconds : 0);
        if (calls !== undefined) now.calls.set(`${from} ${to}`, calls);
      }
    }
    before = now;
  }

  /** What a node is, with a remark: as the supervisor of a local cluster says, or as a node sees it. */
  function stateOf(member, state) {
    const known = state.devNodes.find(({ name }) => name === member.name);
    const words = known ? [known.state, ...known.faults] : [];
    const fault = words.find((word) => Object.hasOwn(MAP_DEV_STATES, word));
    if (fault) return [MAP_DEV_STATES[fault]];
    if (words[0] && words[0] !== "running") return ["stopped", words[0]];
    if (reachesNobody(state.view ?? state.status)) return member.state === "this node" ? ["cut", "reaches no other"] : ["unseen"];
    if (isOld(state)) return member.name === state.status.name ? ["stopped", "does not answer"] : ["frozen", ""];
    if (Object.hasOwn(MAP_STATES, member.state)) return [MAP_STATES[member.state], member.state];
    if (member.replica_state === "learner") return ["learner"];
    const { lists } = state.members?.members.find(({ name }) => name === member.name) ?? {};
    return ["up", { new: "joins", old: "leaves" }[lists] ?? ""];
  }

  return {
    element,
    /** Marks the node that is chosen. */
    mark(name) {
      chosen = name;
      stage?.mark(chosen);
    },
    /** Puts the focus on a node. */
    focus: (name) => stage?.focus(name),
    /** Draws what changes with each status. */
    update(state) {
      const cluster = membersOf(state.view ?? state.status);
      // Nothing moves to or from a node that is alone; it can be chosen.
      if (cluster.length < 2 && !choose) return void element.replaceChildren();
      const wanted = cluster.map(({ name, id }) => `${id} ${name}`).join();
      if (wanted !== drawn) {
        drawn = wanted;
        names = cluster.map(({ name }) => name);
        stage = stageOf(cluster, { hasReader: false, choose });
        stage.mark(chosen);
        replace(element, stage.picture);
      }
      // Nothing is known to move.
      if (isOld(state)) drawFlows(new Map());
      for (const member of cluster) {
        stage.be(member.name, ...stateOf(member, state));
        const report = isOld(state) ? null : accountOf(member.name, state)?.report;
        stage.keep(member.name, report?.hints ?? 0);
        stage.hold(member.name, report ? `${rate(report.requests_a_second)}/s` : "", "idle");
      }
    },
    /** Draws what changes with the metrics. */
    count({ metrics }) {
      if (stage && metrics.size > 0) drawFlows(metrics);
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
