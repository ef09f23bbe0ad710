// --- The steps of the tour ---

/** The pairs that the tour speaks of. */
const [ONE_OF_THREE, TWO_OF_THREE, THREE_OF_THREE] = [1, 2, 3].map((ack) => ({ ack, from: 3 }));

/**
 * A step: a question whose answer the reader predicts, what is then done to real nodes, and
 * what was to be seen.
 *
 * `run` gets the cast of `castOf` and gives the index of the answer that came true.
 *
 * @type {Array<{title: string, lesson: string, question: string, answers: string[],
 *   run: (cast: Object) => Promise<number>, seen: string}>}
 */
const TOUR = [
  {
    title: "A quorum",
    lesson:
      "Each key has copies on three nodes, its replicas. A request says how many of them must answer: 2/3 means two of three. Any two of three nodes share at least one, so a read of two meets a replica that has what a write left on two.",
    question: "node-3 is stopped. You put a value with 2/3, and then one with 3/3. What happens?",
    answers: ["Both succeed", "2/3 succeeds and 3/3 fails", "Both fail: a replica is missing"],
    async run(cast) {
      const [first, second, third] = cast.names;
      await cast.act(third, "stop");
      const two = await cast.put(first, "tour/quorum", "two", TWO_OF_THREE);
      await cast.look(first, "tour/quorum");
      const three = await cast.put(first, "tour/quorum3", "three", THREE_OF_THREE);
      await cast.get(second, "tour/quorum", TWO_OF_THREE);
      return two.ok ? (three.ok ? 0 : 1) : 2;
    },
    seen: "Two acks were enough for 2/3, and the read through node-2 found the value. 3/3 fails as soon as one replica is silent, and its receipt says which. Such a write counts as still running: some replicas have it, so it may appear later.",
  },
  {
    title: "A stale read",
    lesson:
      "With 1/3 a node may answer from its own store alone. That is fast, and works while two of three nodes are gone, but 1 + 2 is not more than 3: nothing makes such a read meet the last write.",
    question:
      "node-3 slept through a write. It is up again, and node-1, which keeps the missed write for it, hangs. You read through node-3 with 1/3, and then with 2/3. What do you get?",
    answers: ["The new value twice", "The old value, then the new one", "The old value twice"],
    async run(cast) {
      const [first, second, third] = cast.names;
      await cast.put(first, "tour/stale", "old", THREE_OF_THREE);
      await cast.look(first, "tour/stale");
      await missWrite(cast, "tour/stale", "new");
      const alone = await cast.get(third, "tour/stale", ONE_OF_THREE);
      const quorum = await cast.get(third, "tour/stale", TWO_OF_THREE);
      await cast.look(second, "tour/stale");
      if (alone.text === "new") return 0;
      return quorum.text === "new" ? 1 : 2;
    },
    seen: "node-3 answered 1/3 from its own store, which had missed the write. With 2/3 it had to ask node-2, saw that node-2 has a newer version, gave you that one, and stored it.",
  },
  {
    title: "Hinted handoff",
    lesson:
      "A node that takes a write for a replica that is down keeps it as a hint. A hint is no ack and is never read: it waits until the replica is back, and is delivered then.",
    question:
      "node-2 is stopped. You put five values through node-1 with 2/3, and start node-2 again. What will node-2 have a few seconds later, if nobody reads them?",
    answers: ["Nothing, until someone reads them", "All five", "Those written after it came back"],
    async run(cast) {
      const [first, second] = cast.names;
      await cast.act(second, "stop");
      for (let index = 1; index <= 5; index += 1) {
        await cast.put(first, `tour/hint/${index}`, `value ${index}`, TWO_OF_THREE);
        cast.say(`${first} keeps ${counted(await cast.hints(first), "hint")} for ${second}.`);
      }
      await cast.act(second, "start");
      await cast.until("node-1 has delivered its hints", async () => (await cast.hints(first)) === 0);
      await cast.stage.send(first, second, "hint");
      const replicas = await cast.look(second, "tour/hint/5");
      return replicas.some((replica) => replica.name === second && replica.kind === "value") ? 1 : 0;
    },
    seen: "node-1 kept five hints and delivered them as soon as node-2 was back. Hints are kept for a while and within bounds; what they miss, sweeps find.",
  },
  {
    title: "Read repair",
    lesson:
      "When the replicas that a read asks differ, the read writes the newest version to the stale ones before it answers. So two reads with 2/3 never go back in time.",
    question:
      "node-3 is stale again. You read the key once, through node-2, with 2/3. Which replicas are stale afterwards?",
    answers: ["None that the read could reach", "Still node-3: reads do not write"],
    async run(cast) {
      const [first, second, third] = cast.names;
      await cast.put(first, "tour/repair", "old", THREE_OF_THREE);
      await missWrite(cast, "tour/repair", "new");
      await cast.look(second, "tour/repair");
      await rest(MESSAGE_MS);
      await cast.get(second, "tour/repair", TWO_OF_THREE);
      await cast.stage.send(second, third, "hint");
      const replicas = await cast.look(second, "tour/repair");
      return replicas.some((replica) => replica.name === third && replica.stale) ? 1 : 0;
    },
    seen: "The read saw two versions, and sent the newer one to node-3 before it answered you. node-1 was never asked: it hung, and two of three were enough.",
  },
  {
    title: "A lost disk",
    lesson:
      "A replica that comes back empty is worse than one that is down: it would say that it has nothing, and two such answers would outvote the truth. The other nodes remember its store, so they notice. Its answers do not count until it has everything again.",
    question:
      "You put a value with 2/3. Then the disk of node-2 is lost, and the node starts with an empty folder. What becomes of the value?",
    answers: [
      "node-2 fills itself from the others, and nothing is lost",
      "node-2 stays empty until each key is written again",
      "Reads may now say that the value never was",
    ],
    async run(cast) {
      const [first, second] = cast.names;
      await cast.put(first, "tour/disk", "kept", TWO_OF_THREE);
      await cast.look(first, "tour/disk");
      await cast.act(second, "wipe");
      cast.stage.hold(second, "", "idle");
      let wasUnfilled = false;
      await cast.until("node-2 counts again", async () => {
        const { standing } = await cast.status(second);
        wasUnfilled ||= standing === "unfilled";
        return standing === "witness";
      });
      if (wasUnfilled) cast.say("On the way its standing was unfilled: its answers did not count.", "warn");
      cast.stage.be(second, "up");
      const replicas = await cast.look(first, "tour/disk");
      const read = await cast.get(second, "tour/disk", TWO_OF_THREE);
      if (!read.ok) return 2;
      return replicas.some((replica) => replica.name === second && replica.kind === "value") ? 0 : 1;
    },
    seen: "The others told node-2 that its store had been another one. It was unfilled until a full sweep had brought it everything that they have, and then it counted again. In the meantime two of three went on serving.",
  },
  {
    title: "A wrong clock",
    lesson:
      "A write is stamped with the time of the node that takes it, and the later stamp wins. So a clock that runs far ahead would win over all others for as long as it is ahead. The nodes compare their clocks, and one that is beyond the cluster's bound knows it.",
    question:
      "The clock of node-3 jumps 90 minutes ahead. You put a value through node-3, and then another one through node-1 with 3/3. What happens?",
    answers: [
      "The value of node-3 wins for the next 90 minutes",
      "node-3 refuses its write, and stores that of node-1",
      "Nobody can write until the clock is right",
    ],
    async run(cast) {
      const [first, , third] = cast.names;
      await cast.act(third, "skew");
      await cast.until("node-3 notices", async () =>
        Boolean((await cast.status(third)).clock.refuses_writes),
      );
      const ahead = await cast.put(third, "tour/clock", "late", TWO_OF_THREE);
      const right = await cast.put(first, "tour/clock", "right", THREE_OF_THREE);
      await cast.look(first, "tour/clock");
      await cast.act(third, "unskew");
      await cast.until("node-3 stamps again", async () => !(await cast.status(third)).clock.refuses_writes);
      if (ahead.ok) return 0;
      return right.ok ? 1 : 2;
    },
    seen: "node-3 stamps nothing while its clock is out of bounds, and says so with 503. It still stores what others stamp, so 3/3 went through. Within the bound clocks may differ: a write then takes a stamp above all that its replicas have seen.",
  },
  {
    title: "Overload",
    lesson:
      "A node runs a bounded number of requests, lets a bounded number wait, and refuses the rest at once with 503 and Retry-After. Refusing costs little, so the work that was let in goes on.",
    question:
      "First 64 connections put values through node-1 as fast as they are answered, then 4,096. What becomes of those who come second?",
    answers: [
      "All of them wait, longer and longer",
      "Some are refused at once, and the node does about as much as before",
      "The node breaks down, and hardly anything is stored",
    ],
    async run(cast) {
      const [first] = cast.names;
      const stored = [];
      let refused = 0;
      for (const connections of [64, 4096]) {
        const before = await cast.answered(first);
        cast.say(`${count(connections)} connections put values through ${first} for five seconds.`);
        const load = loadFirst(connections);
        let isOver = false;
        load.catch(() => null).then(() => (isOver = true));
        while (!isOver) {
          await Promise.all([
            cast.stage.send("you", first),
            rest(MESSAGE_MS / 4).then(() => cast.stage.send("you", first)),
            rest(MESSAGE_MS),
          ]);
          await cast.stage.send(first, "you", connections > 64 ? "lost" : "ack");
        }
        await load;
        const after = await cast.answered(first);
        refused = after.refused - before.refused;
        stored.push(after.writes - before.writes - refused);
        cast.say(
          `It stored ${count(stored.at(-1))} values, and refused ${counted(refused, "request")}.`,
          refused > 0 ? "warn" : "good",
        );
      }
      if (stored[1] < stored[0] / 3) return 2;
      return refused > 0 ? 1 : 0;
    },
    seen: "With 64 connections there is room for all. With 4,096 the node's queue is full, so it answers 503 to those it cannot take, and goes on at about the same speed. A client that is refused waits as long as Retry-After says.",
  },
];

/**
 * Leaves node-3 without a write that the others have: it is stopped while the write is made,
 * and node-1, which keeps the hint, is frozen before node-3 is back.
 */
async function missWrite(cast, key, value) {
  const [first, second, third] = cast.names;
  await cast.act(third, "stop");
  await cast.put(first, key, value, TWO_OF_THREE);
  await cast.act(first, "freeze");
  await cast.act(third, "start");
  await cast.until("node-2 and node-3 see each other", async () => {
    const [one, other] = await Promise.all([cast.status(second), cast.status(third)]);
    const isUp = (status, name) => status.cluster.find((member) => member.name === name).state === "up";
    return isUp(one, third) && isUp(other, second) && other.standing === "witness";
  });
  await cast.look(second, key);
}
