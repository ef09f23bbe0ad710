// --- The steps of the tour ---

/** The pairs that the tour speaks of. */
const [ONE_OF_THREE, TWO_OF_THREE, THREE_OF_THREE] = [1, 2, 3].map((ack) => ({ ack, from: 3 }));

/** What is said before the first step. */
const TOUR_BEGIN =
  "Your machine runs three copies of Kvorum, called nodes: small programs that store values under keys. Together they are one store, and you may ask any of them. The picture shows you and the three nodes. Each step asks what you expect, then runs it on these real nodes.";

/** What the reader can say at the end. */
const TOUR_END = [
  "Each value has copies on three nodes, and a request counts once two of them have answered.",
  "Any two of the three share at least one node with any other two. So whoever asks two nodes finds what two have stored.",
  "One node may be down, slow or wrong: the other two are still two of three. If two are down you get no answer, rather than a wrong one.",
  "A node that missed a write gets it later: by a hint, by a read that finds it stale, or by a repair.",
];

/**
 * A step: a question whose answer the reader predicts, what is then done to real nodes, and
 * what was to be seen.
 *
 * `run` gets the cast of `castOf` and gives the index of the answer that came true.
 *
 * @type {Array<{title: string, lesson: string, question: string, answers: string[],
 *   run: (cast: Object) => Promise<number>, seen?: string, grows?: boolean}>} without `seen`, `run`
 *   sets `cast.seen`; a step that `grows` has a fourth node
 */
const TOUR = [
  {
    title: "Two of three",
    lesson:
      "Each value is copied to all three nodes, so that it outlives a machine that breaks. With each request you say how many of the three must answer before it counts as done. 2/3, read “two of three”, waits for two of them; 3/3 waits for all.",
    question:
      "The network of node-3 becomes slow: messages of the other nodes reach it a quarter of a second late. Then it fails completely. Both times you store a value with 2/3, and another one with 3/3. What happens?",
    answers: [
      "Both get slow at first, and then both fail",
      "2/3 hardly notices; 3/3 gets slow, and then fails",
      "Neither notices: the other two nodes do the work",
    ],
    async run(cast) {
      const [first, second, third] = cast.names;
      await cast.act(third, "slow");
      const quick = await cast.put(first, "tour/two", "quick", TWO_OF_THREE);
      const late = await cast.put(first, "tour/three", "late", THREE_OF_THREE);
      await cast.look("tour/three");
      await cast.act(third, "unslow");
      await cast.act(third, "stop");
      const two = await cast.put(first, "tour/two", "two", TWO_OF_THREE);
      await cast.look("tour/two");
      await cast.get(second, "tour/two", TWO_OF_THREE);
      const three = await cast.put(first, "tour/three", "three", THREE_OF_THREE);
      // What the failed write has left stays in the picture.
      await cast.look("tour/three");
      if (!(quick.ok && late.ok && two.ok)) return 0;
      return three.ok ? 2 : 1;
    },
    seen: "With 2/3 the two fastest nodes decide, so one node may be slow or down: you stored “two”, and read it through another node. With 3/3 a single node holds everything up. Two of three is more than half of them; such a majority is called a quorum. The write that failed was not undone: node-1 and node-2 hold “three”, and node-3 gets it when it is back. “Failed” only means that too few nodes have confirmed it in time.",
  },
  {
    title: "One of three",
    lesson:
      "Why two? Take any two of the three nodes, and any other two: they have at least one in common. So if a write has reached two nodes, a read that asks two finds it. A read of one node, 1/3, is fast, and works while the other two nodes are down. But the node that answers may have missed the write, and then its value is stale.",
    question:
      "All nodes hold “old”. Then the network of node-3 breaks: you still reach it, and the other nodes do not. You store “new” through node-1, with 2/3. Now you read through node-3, first with 1/3, then with 2/3. What do you get?",
    answers: ["“new” both times", "“old” both times", "“old”, and then an error instead of a value"],
    async run(cast) {
      const [first, , third] = cast.names;
      const key = "tour/one";
      await cast.put(first, key, "old", THREE_OF_THREE);
      await cast.look(key);
      await cutOff(cast, third);
      await cast.put(first, key, "new", TWO_OF_THREE);
      await cast.look(key);
      const alone = await cast.get(third, key, ONE_OF_THREE);
      const quorum = await cast.get(third, key, TWO_OF_THREE);
      await cast.act(third, "join");
      await cast.untilSeen(third, first, true);
      await cast.get(third, key, TWO_OF_THREE);
      await cast.look(key);
      if (alone.text !== "old") return 0;
      return quorum.ok ? 1 : 2;
    },
    seen: "With 1/3 node-3 answered from its own copy, and could not know that there was a newer one. With 2/3 it needed a second node, reached none, and said so: no answer rather than a wrong one. As soon as it reached the others again, 2/3 gave you “new”. Meanwhile node-1 and node-2, two of three, had continued without it.",
  },
  {
    title: "Hints",
    lesson:
      "What happens to a write that a node misses? The node that took it from you keeps a hint for the missing one: a parcel for a neighbour. A hint does not count as an answer, and reads never see it. It waits until that node is back, and is then delivered.",
    question:
      "node-2 is cut off. You store five values through node-1, with 2/3, and then node-2 is back. What will node-2 have a few seconds later, if nobody reads these values?",
    answers: [
      "All five",
      "None of them, until someone reads them",
      "Only what is written after it came back",
    ],
    async run(cast) {
      const [first, second] = cast.names;
      await cutOff(cast, second);
      for (let index = 1; index <= 5; index += 1) {
        await cast.put(first, `tour/hint/${index}`, `value ${index}`, TWO_OF_THREE);
        cast.say(`${first} keeps ${counted(await cast.hints(first), "hint")} for ${second}.`);
      }
      await cast.look("tour/hint/5");
      await cast.act(second, "join");
      await cast.until(`${first} has delivered its hints`, async () => (await cast.hints(first)) === 0);
      await cast.stage.send(first, second, "hint", "5 values");
      const held = await cast.look("tour/hint/5");
      return held.get(second).kind === "value" ? 0 : 1;
    },
    seen: "node-1 kept five hints, and delivered them as soon as node-2 was back. Hints are kept for some hours and up to a limit. The nodes find the rest later, when they compare their data: that is a repair.",
  },
  {
    title: "Reads repair",
    lesson:
      "Hints may come late: the node that keeps them may be down itself. So reads help. When a read finds different copies, the newest wins, and the read overwrites the older ones with it before it answers you. So once you have seen a new value with 2/3, nobody who reads with 2/3 gets the old one any more.",
    question:
      "node-3 has missed a write, and node-1, which keeps the hint for it, is cut off now. You read the key once, through node-2, with 2/3. What does node-3 have afterwards?",
    answers: [
      "Still the old value: reads do not write",
      "Nothing: the stale copy is removed",
      "The new value",
    ],
    async run(cast) {
      const [first, second, third] = cast.names;
      const key = "tour/repair";
      await cast.put(first, key, "old", THREE_OF_THREE);
      await cast.look(key);
      await cutOff(cast, third);
      await cast.put(first, key, "new", TWO_OF_THREE);
      await cast.look(key);
      cast.say(`${first} keeps ${counted(await cast.hints(first), "hint")} for ${third}.`);
      await cutOff(cast, first);
      await cast.act(third, "join");
      await cast.untilSeen(second, third, true);
      await cast.untilSeen(third, second, true);
      await cast.look(key);
      await rest(MESSAGE_MS);
      await cast.get(second, key, TWO_OF_THREE);
      const held = await cast.look(key);
      if (held.get(third).kind !== "value") return 1;
      return held.get(third).stale ? 0 : 2;
    },
    seen: "The read met “new” on node-2 and “old” on node-3. It stored “new” on node-3, and only then answered you. node-1 was not needed: two of three were enough.",
  },
  {
    title: "A lost disk",
    lesson:
      "A node that comes back empty is worse than one that is down. It would claim that there is no such key, and two such nodes would outvote the one that knows. But the other nodes remember its store, so they notice. Its answers do not count until it has everything again.",
    question:
      "You store a value with 2/3. Then node-2 loses its disk, and starts again with nothing. What happens to the value?",
    answers: [
      "node-2 gets everything back from the others, and nothing is lost",
      "node-2 stays empty, and gets each value only when it is stored again",
      "Reads may now say that there never was such a value",
    ],
    async run(cast) {
      const [first, second] = cast.names;
      const key = "tour/disk";
      await cast.put(first, key, "kept", TWO_OF_THREE);
      await cast.look(key);
      await cast.act(second, "wipe");
      cast.stage.hold(second, "", "idle");
      let wasLearner = false;
      await cast.until(`${second} has everything again`, async () => {
        const { replica_state } = await cast.status(second);
        wasLearner ||= replica_state === "learner";
        return replica_state === "voter";
      });
      if (wasLearner) cast.say(`Until then ${second} was a “learner”: its answers did not count.`, "warn");
      cast.stage.be(second, "up");
      await cast.stage.send(first, second, "hint", "everything");
      const held = await cast.look(key);
      const read = await cast.get(second, key, TWO_OF_THREE);
      if (!read.ok) return 2;
      return held.get(second).kind === "value" ? 0 : 1;
    },
    seen: "The others told node-2 that its store had once held more. So it fetched everything from them before its answers counted again. Meanwhile node-1 and node-3, two of three, kept serving.",
  },
  {
    title: "A wrong clock",
    lesson:
      "Of two values for one key, which is newer? Each write gets a timestamp with the time from the node that takes it, and the later timestamp wins. So a clock that runs far ahead would beat everyone else until the others catch up. The nodes compare their clocks all the time.",
    question:
      "The clock of node-3 jumps 90 minutes ahead. You store “late” through node-3, and then “right” through node-1, with 3/3. What happens?",
    answers: [
      "“late” wins for the next 90 minutes",
      "Nobody can store anything until the clock is right",
      "node-3 refuses to take your write, but keeps what node-1 took",
    ],
    async run(cast) {
      const [first, , third] = cast.names;
      await cast.act(third, "skew");
      await cast.until(`${third} notices`, async () =>
        Boolean((await cast.status(third)).clock.refuses_writes),
      );
      const ahead = await cast.put(third, "tour/clock", "late", TWO_OF_THREE);
      const right = await cast.put(first, "tour/clock", "right", THREE_OF_THREE);
      await cast.look("tour/clock");
      await cast.act(third, "unskew");
      await cast.until(`${third} gives timestamps again`, async () => !(await cast.status(third)).clock.refuses_writes);
      if (ahead.ok) return 0;
      return right.ok ? 2 : 1;
    },
    seen: "node-3 saw that its clock was more than an hour off, the bound of this cluster, and issued no timestamps. It still stored the write that node-1 had timestamped, so all three answered. Small differences do no harm: a write then gets a timestamp above those that its replicas have seen.",
  },
  {
    title: "Overload",
    lesson:
      "A node runs a limited number of requests at a time, queues some more, and refuses the rest at once (error 503, with the time after which to try again). A refusal costs little, so the node keeps its time for the requests that it has admitted.",
    question:
      "First 64 clients store values through node-1, each as fast as it gets answers. Then 4,096 clients do. What happens to the many?",
    answers: [
      "Some are refused at once, and the node keeps storing values",
      "None is refused: all of them wait",
      "The node breaks down, and hardly anything is stored",
    ],
    async run(cast) {
      const [first] = cast.names;
      const results = [];
      for (const clients of [64, 4096]) {
        const before = await cast.queued(first);
        cast.say(`${count(clients)} clients store values through ${first}, for five seconds.`);
        const load = loadFirst(clients);
        const watched = watchQueue(cast, first, load, before);
        let isOver = false;
        load.catch(() => null).then(() => (isOver = true));
        while (!isOver) await crowd(cast, first, clients > 64);
        await load;
        const result = await watched;
        results.push(result);
        cast.say(
          `It stored ${counted(result.stored, "value")}, and refused ${counted(result.refused, "request")}.`,
          result.refused > 0 ? "warn" : "good",
        );
      }
      const [few, many] = results;
      cast.seen = overloadSeen(first, few, many);
      if (many.stored < few.stored / 10) return 2;
      return many.refused > 0 ? 0 : 1;
    },
  },
  {
    title: "A fourth node",
    grows: true,
    lesson:
      "One day three nodes are too few. A fourth one joins while the others serve: it takes its part of the keys, and each key still has three copies, now on three of four nodes.",
    question:
      "The nodes hold 40 values. While 16 clients store more through node-1, node-4 joins with an empty folder. What happens?",
    answers: [
      "Nobody can store anything until node-4 has its data",
      "node-4 only gets what is stored from now on",
      "The clients notice nothing, and node-4 gets about three quarters of the values",
    ],
    async run(cast) {
      const [first] = cast.names;
      const keys = Array.from({ length: 40 }, (_, index) => `tour/grow/${index + 1}`);
      await cast.store(first, keys, "kept", THREE_OF_THREE);
      const before = await cast.queued(first);
      await cast.underLoad(16, () => cast.grow());
      const after = await cast.queued(first);
      const [stored, refused] = ["stored", "refused"].map((what) => after[what] - before[what]);
      const { owned, held } = await cast.partOfFourth(keys);
      cast.seen = `While node-4 joined, node-1 stored ${counted(stored, "value")} and refused ${refused === 0 ? "none" : count(refused)}. node-4 is one of the three replicas of ${owned} of the 40 keys, and holds ${held} of the values. It got them from the other nodes in the background, and what was stored meanwhile went to the old and to the new replicas. So any two of three still share a node with any other two, at every moment.`;
      if (stored === 0) return 0;
      return held < owned || owned === 0 ? 1 : 2;
    },
  },
];

/** What was to be seen of an overload: what a node did with few clients, and with many. */
function overloadSeen(name, few, many) {
  const share = many.stored / Math.max(1, few.stored);
  const rest =
    many.refused > 0
      ? `It refused ${counted(many.refused, "request")} at once, so that what it had admitted did not wait for them.`
      : "It refused none, because it had room for all of them.";
  const waited = many.waited > 0 ? ` At most ${count(many.waited)} waited at a time, and now the queue is empty.` : "";
  const pace =
    share >= 0.8
      ? "So it kept its pace."
      : "So it was slower: the clients, the refusals and all three nodes share the processors of this machine.";
  return `With 64 clients ${name} stored ${count(few.stored)} values in five seconds. With 4,096 it stored ${count(many.stored)}, which is ${Math.round(share * 100)}% of that. ${rest}${waited} ${pace} A refused client waits as long as it was told, and tries again, here or at another node.`;
}

/** Cuts a node off, and waits until the others have noticed. */
async function cutOff(cast, name) {
  await cast.act(name, "cut");
  for (const other of cast.names.filter((known) => known !== name)) await cast.untilSeen(other, name, false);
}

/** How often the queue of a loaded node is looked at, in milliseconds. */
const QUEUE_LOOK_MS = 150;

/**
 * Shows what a node works at and what waits, as it fills and until it is empty again after a load.
 *
 * @returns {Promise<{stored: number, refused: number, waited: number}>} since `before`; how many
 *   waited at most
 */
async function watchQueue(cast, name, load, before) {
  const gauge = loadGauge(name);
  cast.stage.add(gauge.group);
  let isOver = false;
  load.catch(() => null).then(() => (isOver = true));
  const result = { stored: 0, refused: 0, waited: 0 };
  const end = Date.now() + TOUR_WAIT_MS;
  while (Date.now() < end) {
    // The last look begins after the load has ended.
    const isLast = isOver;
    const seen = await cast.queued(name).catch(() => null);
    if (seen) {
      const { working, waiting } = seen;
      for (const what of ["stored", "refused"]) result[what] = seen[what] - before[what];
      result.waited = Math.max(result.waited, waiting[0]);
      gauge.show([working, waiting], result.refused);
      if (isLast && waiting[0] + working[0] === 0) break;
    }
    await rest(QUEUE_LOOK_MS);
  }
  return result;
}

/** Shows a moment of a load: many messages to a node, and answers; some are refusals. */
async function crowd(cast, name, isTooMuch) {
  const number = isTooMuch ? 5 : 2;
  const trips = Array.from({ length: number }, async (_, index) => {
    await rest((index * MESSAGE_MS) / number);
    await cast.stage.send("you", name);
    await cast.stage.send(name, "you", isTooMuch && index % 2 === 1 ? "lost" : "ack");
  });
  await Promise.all([...trips, rest(MESSAGE_MS)]);
}
