// --- Replicas, acks and receipts in words ---

/** What each outcome of a receipt says, for a write and for a read. */
const OUTCOMES = {
  stored: ["good", "has stored it durably, as configured"],
  value: ["good", "has answered with its version of the key"],
  absent: ["good", "has answered that it does not have the key"],
  answered: ["good", "has answered"],
  unanswered: [
    "idle",
    "was not waited for: the outcome was clear before it could answer. Nothing is wrong with it",
  ],
  timeout: ["warn", "did not answer in time. It may have executed the request nevertheless"],
  suspected: ["bad", "has been silent for a while, so the node did not ask it, or stopped waiting for it"],
  refused: ["bad", "cannot be reached, or refused a write because its own clock is too far behind"],
  unsupported: ["warn", "runs an older release that does not know this request"],
  overloaded: ["warn", "is overloaded: try again later"],
  full: ["bad", "has a full disk"],
  failed: ["bad", "has a store that is read-only or damaged: see its log"],
  learner: [
    "warn",
    "has a store that does not count, because it is new or may have lost acknowledged writes",
  ],
  undecided: ["warn", "does not know yet whether a full repair allows to repair so old a version: try again later"],
  obsolete: ["bad", "refused the write for good, because the write is too old. Retry it: it gets a new timestamp"],
};

/** The pair of requests that name none, unless the operator chose another. */
function usualPair(nodes) {
  return { ack: Math.floor(nodes / 2) + 1, from: nodes };
}

/** The parameters that name a pair; none for the usual one. */
function pairQuery(pair) {
  return pair ? `&ack=${pair.ack}&from=${pair.from}` : "";
}

/** What a pair promises to those who use it for writes and for reads. */
function promiseOf({ ack, from }) {
  const silent = from - ack;
  const lives =
    silent === 0
      ? "It fails as soon as one of them is silent."
      : `It works while ${silent === 1 ? "one of them is" : `up to ${silent} of them are`} silent.`;
  const sum = `${ack} + ${ack} ${2 * ack > from ? ">" : "≤"} ${from}`;
  return 2 * ack > from
    ? `A read asks ${ack} of ${from}, a write waits for ${ack} of ${from}, and ${sum}: each read meets a replica that has the last acknowledged write. ${lives}`
    : `A read asks ${ack} of ${from}, a write waits for ${ack} of ${from}, and ${sum}: a read may miss the last acknowledged write. ${lives}`;
}

/** A picture of a pair: as many squares as replicas, as many filled as must answer. */
function pairPicture({ ack, from }) {
  const squares = Array.from({ length: from }, (_, index) => h("i", index < ack ? { class: "on" } : {}));
  return h("span", { class: "pair", role: "img", "aria-label": `${ack} of ${from}` }, squares);
}

/** What a request that succeeded got. */
function successReceipt(what, headers) {
  const [acks, from] = (headers.get("Kvorum-Acks") ?? "1/1").split("/").map(Number);
  const version = headers.get("Kvorum-Version");
  const timestamp = version ? timestampOf(version) : null;
  return h(
    "div",
    { class: "receipt good", role: "status" },
    h("h3", {}, what),
    h(
      "ol",
      {},
      timestamp &&
        h("li", {}, `Its timestamp is ${moment(timestamp.unixMs)}, as version `, h("code", {}, version), "."),
      h(
        "li",
        {},
        `${acks} of ${counted(from, "replica")} had stored it when the node answered. `,
        pairPicture({ ack: acks, from }),
      ),
      acks < from &&
        h(
          "li",
          {},
          `The node continues with the other ${from - acks}: a replica that does not answer gets the write as a hint when it is back.`,
        ),
    ),
  );
}

/**
 * What a request that failed got, replica by replica.
 *
 * @param {string|null} held of a write, once all replicas were asked: which of them hold it, in words
 */
function failureReceipt(what, problem, status, held = null) {
  const names = new Map((status?.cluster ?? []).map((member) => [member.url, member.name]));
  const replicas = problem.body.replicas ?? [];
  const isWrite = Boolean(problem.body.timestamp);
  // What too few replicas have acknowledged may be stored all the same.
  const title = isWrite ? `Not acknowledged; ${held ?? "asking who holds it …"}` : `${what}: ${problem.body.title ?? "no answer"}`;
  return h(
    "div",
    { class: isWrite ? "receipt warn" : "receipt bad", role: "alert" },
    h("h3", {}, title),
    h("p", {}, `${capitalized(problem.message)}.`),
    replicas.length > 0 &&
      h(
        "ol",
        {},
        replicas.map(({ url, outcome }) => {
          const [level, text] = OUTCOMES[outcome] ?? [
            "idle",
            "gave an answer that this console does not know",
          ];
          return h("li", {}, h("b", {}, names.get(url) ?? url), " ", mark(level, outcome), `: it ${text}.`);
        }),
      ),
    isWrite &&
      h(
        "p",
        {},
        "The write had the timestamp ",
        h("code", {}, problem.body.timestamp),
        ". Read the key to see whether the write won. A retry creates a newer version, which also replaces what was written in between.",
      ),
  );
}
