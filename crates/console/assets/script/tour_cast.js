// --- What the steps of the tour do: to real nodes, and on the stage ---

/** How long a step waits for something that takes time. */
const TOUR_WAIT_MS = 60000;

/** How often it looks whether that has happened. */
const TOUR_LOOK_MS = 250;

/** Rests. */
function rest(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/**
 * The means of a step.
 *
 * @param {string[]} names of the nodes, in order of their numbers
 * @param {Object} stage as `stageOf` makes it
 * @param {(text: string, level?: string) => void} say adds a line to what happened
 */
function castOf(names, stage, say) {
  const number = (name) => names.indexOf(name) + 1;
  const through = (name, path, options) => ask(reached(path, number(name)), { accept: "*/*", ...options });
  const others = (name) => names.filter((other) => other !== name);
  const away = new Set();

  /** What happened to a node, for those actions that change what it is. */
  const becomes = {
    stop: "stopped",
    kill: "stopped",
    freeze: "frozen",
    start: "up",
    thaw: "up",
    wipe: "unfilled",
    skew: "skewed",
    unskew: "up",
  };

  const cast = {
    names,
    say,
    stage,
    /** Does something to a node. */
    async act(name, action) {
      say(`${await actOn(number(name), action)}.`);
      stage.be(name, becomes[action]);
      if (["stopped", "frozen"].includes(becomes[action])) away.add(name);
      else away.delete(name);
    },
    /** The status of the cluster as a node sees it. */
    async status(name) {
      return (await through(name, "/v0/status", { accept: "application/json", wait: 3000 })).json();
    },
    /** Puts a value through a node. Gives the headers or the problem. */
    put: (name, key, value, pair) => request(name, key, pair, { method: "PUT", body: value }),
    /** Reads a value through a node. */
    get: (name, key, pair) => request(name, key, pair, { method: "GET" }),
    /** Shows what each node holds of a key, as a node sees it. Gives the replicas. */
    async look(name, key) {
      const answer = await through(name, `/v0/ring?id=${encodeURIComponent(key)}&versions=true`, {
        accept: "application/json",
      });
      const { replicas } = await answer.json();
      await Promise.all(replicas.map((replica) => showHeld(replica, key)));
      return replicas;
    },
    /** Waits until something holds; `what` says what it is. */
    async until(what, holds) {
      say(`Waiting until ${what} …`, "idle");
      const end = Date.now() + TOUR_WAIT_MS;
      while (Date.now() < end) {
        if (await holds().catch(() => false)) return;
        await rest(TOUR_LOOK_MS);
      }
      throw new Error(`it took too long until ${what}`);
    },
    /** Waits until a node sees all others, all stores count, and no hint waits. */
    async healed() {
      for (const node of await devNodes()) {
        if (node.state === "frozen") await actOn(node.number, "thaw");
        if (node.state === "stopped") await actOn(node.number, "start");
        if (node.state === "skewed") await actOn(node.number, "unskew");
      }
      await cast.until("all nodes are up and equal", async () => {
        const statuses = await Promise.all(names.map(cast.status));
        return statuses.every((status) =>
          status.cluster.every(
            (member) =>
              ["this node", "up"].includes(member.state) &&
              member.standing === "witness" &&
              member.hints === 0,
          ),
        );
      });
      away.clear();
      for (const name of names) {
        stage.be(name, "up");
        stage.keep(name, 0);
        stage.hold(name, "", "idle");
      }
    },
    /** What a node has answered to writes in the last hour: all of them, and those it refused. */
    async answered(name) {
      const history = await (await through(name, "/v0/history", { accept: "application/json" })).json();
      const all = [...history.samples, history.running];
      return {
        writes: sumCounts(all.map((sample) => sample.writes)).reduce((sum, number) => sum + number, 0),
        refused: all.reduce((sum, sample) => sum + sample.refused, 0),
      };
    },
    /** Shows the hints that a node keeps. Gives their number. */
    async hints(name) {
      const status = await cast.status(name);
      const waiting = status.cluster.reduce((sum, member) => sum + member.hints, 0);
      stage.keep(name, waiting);
      return waiting;
    },
  };

  /** Sends a request through a node, and shows on the stage where it goes. */
  async function request(name, key, pair, options) {
    const path = `/v0/entity?id=${encodeURIComponent(key)}${pairQuery(pair)}`;
    const doing = options.method === "PUT" ? `put ${JSON.stringify(options.body)} as ${key}` : `read ${key}`;
    say(`You ask ${name} to ${doing}, with ${pair.ack}/${pair.from}.`);
    const result = through(name, path, options).then(
      async (answer) => ({ ok: true, acks: answer.headers.get("Kvorum-Acks"), text: await answer.text() }),
      (problem) => ({ ok: false, problem, acks: problem.headers?.get("Kvorum-Acks") }),
    );
    await stage.send("you", name);
    const asked = pair.ack === 1 && options.method === "GET" ? [] : others(name);
    await Promise.all(
      asked.map(async (other) => {
        await stage.send(name, other, away.has(other) ? "lost" : "ask");
        if (!away.has(other)) await stage.send(other, name, "ack");
      }),
    );
    const given = await result;
    await stage.send(name, "you", given.ok ? "ack" : "lost");
    if (given.ok)
      say(
        `${name} answers: done, with ${given.acks} answers in hand${options.method === "GET" ? `. The value is ${JSON.stringify(given.text)}` : ""}.`,
        "good",
      );
    else if (given.problem.status === 404) say(`${name} answers: there is no such key.`, "warn");
    else
      say(
        `${name} answers ${given.problem.status}: ${given.problem.body.title ?? given.problem.message}.`,
        "bad",
      );
    return given;
  }

  /** Writes into a node what it holds of a key. */
  async function showHeld(replica, key) {
    if (replica.missed) return stage.hold(replica.name, away.has(replica.name) ? "" : "?", "idle");
    if (replica.kind !== "value")
      return stage.hold(replica.name, replica.kind ? "deleted" : "nothing", replica.stale ? "warn" : "idle");
    const own = await through(replica.name, `/v0/entities?start=${encodeURIComponent(key)}&limit=1`, {
      accept: "application/x-ndjson",
    });
    const [line] = (await own.text()).split("\n");
    return stage.hold(replica.name, JSON.parse(line).value ?? "bytes", replica.stale ? "warn" : "good");
  }

  return cast;
}
