// --- What the steps of the tour do: to real nodes, and on the stage ---

/** How long a step waits for something that takes time. */
const TOUR_WAIT_MS = 60000;

/** How long it waits for a node to join or to leave: copying is slower while clients are busy. */
const TOUR_CHANGE_WAIT_MS = 4 * TOUR_WAIT_MS;

/** How often it looks whether that has happened. */
const TOUR_LOOK_MS = 250;

/** What an action makes of a node, on the stage. */
const BECOMES = {
  stop: "stopped",
  kill: "stopped",
  freeze: "frozen",
  start: "up",
  thaw: "up",
  wipe: "learner",
  skew: "skewed",
  unskew: "up",
  cut: "cut",
  join: "up",
  slow: "slow",
  unslow: "up",
};

/** The same in words. */
const BECAME = {
  stop: "is stopped",
  kill: "is killed",
  freeze: "is frozen: it keeps its connections, and answers nothing",
  start: "is started again",
  thaw: "goes on",
  wipe: "has lost its disk, and starts again with nothing",
  skew: "has a clock that is 90 minutes ahead now",
  unskew: "has the right time again",
  cut: "is cut off: the other nodes do not reach it, and you still do",
  join: "and the others reach each other again",
  slow: "hears the other nodes a quarter of a second late now",
  unslow: "hears the other nodes in time again",
};

/** How long a value of the tour lives if nobody deletes it, in seconds: longer than a clock is ahead. */
const TOUR_TTL_SECONDS = 7200;

/** The keys that the steps have stored, until they are deleted. */
const tourKeys = new Set();

/** The node that joins in a step, and leaves at its end. */
const FOURTH = "node-4";

/** Whether it was added, and has not left yet. */
let isFourthHere = false;

/** What is said once a change of the members has come to a phase. */
const PHASES = {
  copying: "The others bring it its part of the keys. Meanwhile a write needs two of three by the old list, and two of three by the new one.",
  settling: "It has all that it lacked.",
};

/** Has the fourth node leave, if the page is about to end. */
function dismissAtEnd() {
  if (isFourthHere) lastRequest(`/dev/nodes/4/remove`, { method: "POST", body: "{}" });
}

/** Where a key is. */
function entityPath(key) {
  return `/v0/entity?id=${encodeURIComponent(key)}`;
}

/** Deletes what the steps have stored. */
async function deleteTourKeys() {
  const deleted = async (key) => {
    await ask(entityPath(key), { method: "DELETE", accept: "*/*" });
    tourKeys.delete(key);
  };
  await Promise.allSettled(Array.from(tourKeys, deleted));
}

/** Rests. */
function rest(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Ends when so many of these trips have ended with true, or all have ended. */
function enough(trips, number) {
  return new Promise((resolve) => {
    let [came, ended] = [0, 0];
    const look = () => (came >= number || ended === trips.length) && resolve();
    for (const trip of trips) {
      trip.then((arrived) => {
        ended += 1;
        if (arrived) came += 1;
        look();
      });
    }
    look();
  });
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
  const states = new Map(names.map((name) => [name, "up"]));
  const is = (name, ...known) => known.includes(states.get(name));
  let looked = null;

  /** Whether two nodes reach each other. */
  const reach = (one, other) => [one, other].every((name) => !is(name, "stopped", "frozen", "cut"));

  const cast = {
    names,
    say,
    stage,
    /** What was to be seen, if a step words it from what it measured. */
    seen: null,
    /** Does something to a node. */
    async act(name, action) {
      await actOn(number(name), action);
      say(`${name} ${BECAME[action]}.`, "done");
      states.set(name, BECOMES[action]);
      stage.be(name, BECOMES[action]);
    },
    /** The status of the cluster as a node sees it. */
    async status(name) {
      return (await through(name, "/v0/status", { accept: "application/json", wait: 3000 })).json();
    },
    until,
    /** Waits until a node knows that it reaches another one, or that it does not. */
    untilSeen: (name, other, reaches) =>
      until(`${name} ${reaches ? "reaches" : "notices that it cannot reach"} ${other}`, async () => {
        const { cluster } = await cast.status(name);
        return (cluster.find((member) => member.name === other).state === "up") === reaches;
      }),
    /** Puts a value through a node. Gives what the node answered. */
    put(name, key, value, pair) {
      tourKeys.add(key);
      return request(name, key, pair, { method: "PUT", body: value });
    },
    /** Reads a value through a node. */
    get: (name, key, pair) => request(name, key, pair, { method: "GET" }),
    /** Shows what each node holds of a key. Gives the replicas, by name. */
    async look(key) {
      looked = key;
      const replicas = await heldOf(key);
      stage.tell(`What each node holds under ${key}`);
      await Promise.all(Array.from(replicas.values(), (replica) => showHeld(replica, key)));
      return replicas;
    },
    /** Makes all nodes whole, and waits until they see each other, count, and keep no hints. */
    async healed() {
      await healAll();
      await until("all nodes are up and equal", async () => {
        const statuses = await Promise.all(names.map(cast.status));
        return statuses.every((status) =>
          status.cluster.every(
            (member) =>
              ["this node", "up"].includes(member.state) &&
              member.replica_state === "voter" &&
              member.hints === 0,
          ),
        );
      });
      for (const name of names) {
        states.set(name, "up");
        stage.be(name, "up");
        stage.keep(name, 0);
      }
    },
    /** Stores the same value under each key, without showing it. */
    async store(name, keys, value, pair) {
      say(`You ask ${name} to store ${counted(keys.length, "value")}, with ${pair.ack}/${pair.from}.`);
      for (const key of keys) {
        tourKeys.add(key);
        await through(name, `${entityPath(key)}${pairQuery(pair)}&ttl=${TOUR_TTL_SECONDS}`, { method: "PUT", body: value });
      }
    },
    /** Does something while so many clients store values through the first node. Gives what became of it. */
    async underLoad(clients, work) {
      say(`${count(clients)} clients store values through ${names[0]}, all the time.`);
      let isOver = false;
      const load = async () => {
        while (!isOver) await loadFirst(clients);
      };
      stage.flow("you", names[0], clients);
      const loaded = load().then(() => null, (problem) => problem);
      try {
        return await work();
      } finally {
        isOver = true;
        const problem = await loaded;
        stage.flow("you", names[0], 0);
        if (problem) say(`The load has failed: ${problem.message}.`, "bad");
      }
    },
    /** Adds the fourth node, and waits until it holds its part. */
    async grow() {
      isFourthHere = true;
      say(`${FOURTH} starts, with an empty folder, and asks to join.`, "done");
      stage.be(FOURTH, "joining");
      await addNode();
      let known = null;
      await until(`${FOURTH} is a member, and has its part of the keys`, async () => {
        const { members } = await (await through(names[0], "/v0/cluster", { accept: "application/json" })).json();
        if (members.phase !== known && members.phase in PHASES) say(PHASES[members.phase], "done");
        known = members.phase;
        for (const name of names) stage.flow(name, FOURTH, known === "copying" ? 10 : 0);
        return known === "stable" && members.members.some(({ name }) => name === FOURTH);
      }, TOUR_CHANGE_WAIT_MS);
      names.push(FOURTH);
      states.set(FOURTH, "up");
      stage.be(FOURTH, "up");
    },
    /** Of how many of these keys the fourth node is one of three replicas, and of how many it holds a value. */
    async partOfFourth(keys) {
      const part = { owned: 0, held: 0 };
      for (const key of keys) {
        const path = `/v0/replicas?id=${encodeURIComponent(key)}&versions=true`;
        const { replicas } = await (await through(FOURTH, path, { accept: "application/json" })).json();
        const place = replicas.findIndex(({ name }) => name === FOURTH);
        if (place < 3) part.owned += 1;
        if (replicas[place].kind === "value") part.held += 1;
      }
      return part;
    },
    /** Has the fourth node leave, if it was added. */
    async shrink() {
      if (!isFourthHere) return;
      say(`${FOURTH} leaves: the others have all its data.`, "done");
      await until(`${FOURTH} has left`, async () => {
        if (!(await devNodes()).some(({ name }) => name === FOURTH)) return true;
        // While it still joins, or leaves already, this is refused.
        await actOn(4, "remove").catch(() => null);
        return false;
      }, TOUR_CHANGE_WAIT_MS);
      isFourthHere = false;
      names.splice(0, names.length, ...others(FOURTH));
      stage.be(FOURTH, "absent");
    },
    /** Heals what the step has broken, and shows what the nodes have of its last key then. */
    async end() {
      say("The step has ended. What it broke is being healed.", "done");
      await cast.shrink();
      await cast.healed();
      if (looked) await cast.look(looked);
      say("All nodes are up and equal again.", "good");
    },
    /** What a node works at, and what waits, each with the most; the values it has stored and refused so far. */
    async queued(name) {
      const metrics = await askMetrics(reached("/metrics", number(name)), { wait: 3000 });
      const pairOf = (what) => ["", "_max"].map((end) => metrics.get(`kvorum_requests_${what}${end}`) ?? 0);
      const puts = (status) => metrics.get(`kvorum_requests_total{route="entity",method="PUT",status="${status}"}`) ?? 0;
      return { working: pairOf("in_flight"), waiting: pairOf("queued"), stored: puts(201), refused: puts(503) };
    },
    /** Shows the hints that a node keeps. Gives their number. */
    async hints(name) {
      const status = await cast.status(name);
      const waiting = status.cluster.reduce((sum, member) => sum + member.hints, 0);
      stage.keep(name, waiting);
      return waiting;
    },
  };

  /** What each node holds of a key, by name; those that hold another version than the newest are stale. */
  async function heldOf(key) {
    const replicas = await Promise.all(
      names.map(async (name) => {
        if (is(name, "stopped", "frozen")) return { name, missed: true };
        const path = `/v0/replicas?id=${encodeURIComponent(key)}&versions=true`;
        const answer = await through(name, path, { accept: "application/json" }).catch(() => null);
        const seen = answer ? (await answer.json()).replicas : [];
        return seen.find((replica) => replica.name === name) ?? { name, missed: true };
      }),
    );
    const newest = replicas.reduce((best, { version }) => {
      return version && (best === null || BigInt(version) > BigInt(best)) ? version : best;
    }, null);
    for (const replica of replicas) replica.stale = !replica.missed && newest !== null && replica.version !== newest;
    return new Map(replicas.map((replica) => [replica.name, replica]));
  }

  /** Waits until something holds, so many milliseconds at most; `what` says what it is. */
  async function until(what, holds, wait = TOUR_WAIT_MS) {
    say(`Waiting until ${what} …`, "idle");
    const end = Date.now() + wait;
    while (Date.now() < end) {
      if (await holds().catch(() => false)) return;
      await rest(TOUR_LOOK_MS);
    }
    throw new Error(`it took too long until ${what}`);
  }

  /** Sends a request through a node, and shows on the stage where it goes. */
  async function request(name, key, pair, options) {
    const isWrite = options.method === "PUT";
    const stale = isWrite ? [] : Array.from((await heldOf(key)).values()).filter((replica) => replica.stale);
    const path = `${entityPath(key)}${pairQuery(pair)}${isWrite ? `&ttl=${TOUR_TTL_SECONDS}` : ""}`;
    const doing = isWrite ? `store ${JSON.stringify(options.body)} under ${key}` : `read ${key}`;
    say(`You ask ${name} to ${doing}, with ${pair.ack}/${pair.from}.`);
    const begun = performance.now();
    const took = () => micros((performance.now() - begun) * 1000);
    const result = through(name, path, options).then(
      async (answer) => ({ ok: true, acks: answer.headers.get("Kvorum-Acks"), text: await answer.text() }),
      (problem) => ({ ok: false, problem }),
    );
    const timed = result.then((given) => ({ ...given, took: took() }));
    const carried = isWrite ? options.body : "?";
    await stage.send("you", name, "ask", carried);
    const trips = (isWrite ? others(name) : askedBy(name, pair.ack - 1)).map(async (other) => {
      const arrives = reach(name, other);
      await stage.send(name, other, arrives ? "ask" : "lost", carried);
      if (arrives) await stage.send(other, name, "ack");
      return arrives;
    });
    const given = await timed;
    // The node itself is one of those that must answer.
    await enough(trips, given.ok ? pair.ack - 1 : trips.length);
    if (stale.length > 0 && given.ok) await showRepairs(name, key, stale, given.text);
    await stage.send(name, "you", given.ok ? "ack" : "lost", given.ok && !isWrite ? given.text : "");
    const said = given.ok
      ? `${isWrite ? "stored" : JSON.stringify(given.text)}, after ${given.took}, with ${given.acks.replace("/", " of ")} answers`
      : given.problem.status === 404
        ? "there is no such key"
        : given.problem.status === 504
          ? "too few replicas have answered (error 504, Not Enough Replicas)"
          : `${given.problem.body.title ?? given.problem.message} (error ${given.problem.status})`;
    say(`${name} answers: ${said}.`, given.ok ? "good" : "bad");
    return given;
  }

  /** The nodes that a node asks for a read beside itself: those that it reaches, or all if they are too few. */
  function askedBy(name, number) {
    const reached = others(name).filter((other) => reach(name, other));
    return number === 0 || reached.length >= number ? reached.slice(0, number) : others(name);
  }

  /** Shows which nodes a read has repaired before its answer: those that were stale and are not now. */
  async function showRepairs(name, key, stale, text) {
    const now = await heldOf(key);
    const repaired = stale.filter((replica) => !now.get(replica.name).missed && !now.get(replica.name).stale);
    await Promise.all(
      repaired.map(async (replica) => {
        if (replica.name === name) return showHeld(now.get(name), key);
        say(`${name} overwrites the stale copy on ${replica.name} with ${JSON.stringify(text)}.`, "warn");
        await stage.send(name, replica.name, "hint", text);
        await showHeld(now.get(replica.name), key);
        return stage.send(replica.name, name, "ack");
      }),
    );
  }

  /** Writes into a node what it holds of a key. */
  async function showHeld(replica, key) {
    if (replica.missed) return stage.hold(replica.name, "", "idle");
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
