// --- How nodes are told apart: by order, colour and pattern ---

/** How many colours nodes have, and how many patterns of lines; 40 nodes differ in one of them. */
const [NODE_HUES, NODE_PATTERNS] = [8, 5];

/** Sorts `node-2` before `node-10`. */
const BY_NAME = new Intl.Collator("en", { numeric: true });

/**
 * The nodes of a cluster in the order of their IDs, each with its ID: as the status says, or else
 * by the order of their names.
 *
 * @param {{cluster: Array<{name: string, id?: number}>}|null} status
 */
function membersOf(status) {
  const members = status?.cluster ?? [];
  const hasIds = members.every(({ id }) => id !== undefined);
  const sorted = members.toSorted((one, other) => (hasIds ? one.id - other.id : BY_NAME.compare(one.name, other.name)));
  return sorted.map((member, index) => ({ ...member, id: member.id ?? index + 1 }));
}

/** The colour and the pattern of a node, as classes: the same ones for its ID on all pages. */
function looksOf(id) {
  return `node-hue-${(id - 1) % NODE_HUES} node-line-${(id - 1) % NODE_PATTERNS}`;
}

/** A piece of the line that a node has in charts. */
function nodeKey(id) {
  return s(
    "svg",
    { class: `node-key ${looksOf(id)}`, viewBox: "0 0 24 8", "aria-hidden": "true" },
    s("line", { class: "line", x1: 1, y1: 4, x2: 23, y2: 4 }),
  );
}

/**
 * Whether a node that answers reaches no other one, of at least two: then more likely it is away
 * than they all are, and what it says of them is old.
 */
function reachesNobody(status) {
  const others = (status?.cluster ?? []).filter(({ state: what }) => what !== "this node");
  return others.length > 1 && others.every(({ state: what }) => what === "suspected" || what === "down");
}
