// --- Where the nodes stand on the stage ---

/** The most nodes in a circle; more stand in rows. */
const CIRCLE_MAX = 24;

/** The most nodes that are drawn large. */
const LARGE_MAX = 9;

/** How many nodes a row has, and how far apart they are. */
const [ROW_NODES, ROW_STEP] = [20, 34];

/**
 * Where nodes stand: in a circle in the order of their IDs, clockwise from the top; many in rows, in
 * which each ID has a place of its own.
 *
 * @param {Array<[string, number]>} nodes names and IDs, in the order of the IDs
 * @returns {{radius: number, spots: Array<[string, number[]]>, height: number}} the radius of a node, the
 *   places by name, and the height of the stage. A place is x, y, the side of a name beside it, and whether it is in the upper half
 */
function placesOf(nodes, hasReader) {
  if (nodes.length > CIRCLE_MAX) return rowsOf(nodes);
  const isLarge = hasReader || nodes.length <= LARGE_MAX;
  const [middle, width, top] = hasReader ? [470, 160, 205] : [STAGE_WIDTH / 2, 250, 228];
  const [tall, level] = isLarge ? [130, top] : [150, 205];
  // Beside the reader, three nodes stand so that no way crosses a node.
  const first = -Math.PI / 2 - (hasReader && nodes.length === 3 ? Math.PI / 6 : 0);
  const spots = nodes.map(([name], index) => {
    const angle = (2 * Math.PI * index) / nodes.length + first;
    const [x, y] = [Math.cos(angle), Math.sin(angle)];
    const side = Math.abs(x) < 0.12 ? 0 : Math.sign(x);
    return [name, [middle + width * x, level + tall * y, side, y < 0]];
  });
  const radius = isLarge ? 46 : Math.min(26, 320 / nodes.length);
  const lowest = Math.max(...spots.map(([, [, y]]) => y)) + radius + 49;
  return { radius, spots, height: Math.min(STAGE_HEIGHT, lowest) };
}

/** Nodes in rows, by their IDs. */
function rowsOf(nodes) {
  const spots = nodes.map(([name, id]) => {
    const [row, column] = [Math.floor((id - 1) / ROW_NODES), (id - 1) % ROW_NODES];
    return [name, [ROW_STEP * (column + 1), ROW_STEP * (row + 0.75)]];
  });
  const lowest = Math.max(...spots.map(([, [, y]]) => y));
  return { radius: 12, spots, height: lowest + ROW_STEP };
}
