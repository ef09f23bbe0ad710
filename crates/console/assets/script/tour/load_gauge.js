// --- What an overloaded node has to do, on the stage ---

/** How many cells a row of the gauge has. */
const GAUGE_CELLS = 24;

/** The size of a cell, and from one to the next, in units of the stage. */
const [CELL_SIZE, CELL_STEP] = [8, 10.5];

/**
 * Two rows of cells that fill and empty: the requests that a node works at, and those that wait,
 * each beside what it takes at most; and how many it has refused.
 */
function loadGauge(name) {
  const rows = ["at work", "waiting"].map((word, index) => {
    const cells = Array.from({ length: GAUGE_CELLS }, (_, at) =>
      s("rect", { x: at * CELL_STEP, y: 8, width: CELL_SIZE, height: CELL_SIZE, rx: 1.5 }),
    );
    const text = s("text", { y: 2 }, word);
    return { word, cells, text, group: s("g", { transform: `translate(0 ${18 + index * 36})` }, text, cells) };
  });
  const refused = s("text", { class: "refused", y: 96 });
  const group = s(
    "g",
    { class: "gauge", transform: "translate(20 300)" },
    rows.map((row) => row.group),
    refused,
  );
  return {
    group,
    /** Shows pairs of a number and the most that it may be, and how many were refused. */
    show(pairs, refusals) {
      pairs.forEach(([number, most], index) => {
        const { cells, text, word } = rows[index];
        const filled = number > 0 ? Math.max(1, Math.round((number / most) * GAUGE_CELLS)) : 0;
        cells.forEach((cell, at) => cell.setAttribute("class", at < filled ? "full" : ""));
        text.textContent = `${count(number)} ${word} on ${name}, of ${count(most)}`;
      });
      refused.textContent = refusals > 0 ? `${count(refusals)} refused` : "";
    },
  };
}
