/**
 * The console of a node: what its cluster does, what it keeps, and how it is.
 *
 * It asks only the node that served it. All that comes from a store or a node becomes
 * text (`textContent`), never markup.
 */

// --- Elements ---

const SVG = "http://www.w3.org/2000/svg";

/**
 * An HTML element.
 *
 * @param {string} tag its name
 * @param {Object} [attributes] attributes; `onNAME` listens to an event; those that are
 *   undefined, null or false are left out
 * @param {...(Node|string|Array|null)} children what it holds; strings become text
 * @returns {HTMLElement}
 */
function h(tag, attributes = {}, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

/** An SVG element, as `h` makes an HTML element. */
function s(tag, attributes = {}, ...children) {
  return furnish(document.createElementNS(SVG, tag), attributes, children);
}

/** Gives an element its attributes and its children. */
function furnish(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

/** The children that are there, in one list. */
function present(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/**
 * Replaces what an element holds. The focus stays where it was: on the element with the
 * same `data-focus`, or else on the one that the first word of it names. Tables stay scrolled.
 */
function replace(element, ...children) {
  const focused = document.activeElement;
  const name = element.contains(focused) ? focused.dataset.focus : undefined;
  const tables = () => Array.from(element.querySelectorAll(".scroll"));
  const scrolled = tables().map((shown) => shown.scrollLeft);
  element.replaceChildren(...present(children));
  tables().forEach((shown, index) => (shown.scrollLeft = scrolled[index] ?? 0));
  if (name === undefined) return;
  const named = (wanted) => element.querySelector(`[data-focus="${CSS.escape(wanted)}"]`);
  (named(name) ?? named(name.split(" ")[0]))?.focus({ preventScroll: true });
}

/** As `replace`, for what changes by itself: it stays while the reader has text in it marked. */
function redraw(element, ...children) {
  const marked = getSelection();
  if (marked.isCollapsed || !element.contains(marked.anchorNode)) replace(element, ...children);
}

/** Sets a style of an element, which its attributes may not. Returns the element. */
function styled(element, property, value) {
  element.style.setProperty(property, value);
  return element;
}

/** A section with a heading. */
function section(title, ...children) {
  return h("section", {}, h("h2", {}, title), children);
}

/**
 * A table. Wide ones scroll by themselves; on a phone those of many columns are lists.
 *
 * @param {string} label what it shows
 * @param {Array<{text: string, number?: boolean}|string>} columns the headings
 * @param {Array<Array>} rows the cells; the first of each row is its heading
 */
function table(label, columns, rows) {
  const heads = columns.map((column) => (typeof column === "string" ? { text: column } : column));
  const kind = (index) => (heads[index].number ? { class: "number" } : {});
  const head = heads.map(({ text }, index) => h("th", { scope: "col", role: "columnheader", ...kind(index) }, text));
  // On a phone each cell of a wide table stands on a line, after its heading; the roles outlast that.
  const cellOf = (cell, index) =>
    index === 0
      ? h("th", { scope: "row", role: "rowheader", ...kind(0) }, cell)
      : h("td", { role: "cell", "data-heading": heads[index].text, ...kind(index) }, cell);
  const lines = rows.map((cells) => h("tr", { role: "row" }, cells.map(cellOf)));
  return h(
    "div",
    { class: "scroll", role: "region", "aria-label": label, tabindex: "0", "data-focus": `table ${label}` },
    h(
      "table",
      { role: "table", class: heads.length > 4 && "wide" },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head)),
      h("tbody", { role: "rowgroup" }, lines),
    ),
  );
}

/** A list of names with what each of them is. */
function facts(...pairs) {
  const pairOf = ([name, ...what]) => h("div", {}, h("dt", {}, name), h("dd", {}, what));
  return h("dl", { class: "facts" }, pairs.filter(Boolean).map(pairOf));
}

/** A bar that is full to this share, from 0 to 1. */
function bar(share, label) {
  const filled = Math.max(0, Math.min(1, share || 0));
  const inner = styled(h("i"), "width", `${(filled * 100).toFixed(1)}%`);
  return h("span", { class: filled > 0.9 ? "bar full" : "bar", role: "img", "aria-label": label }, inner);
}

/** A word with a dot before it that says how good it is: `good`, `warn`, `bad` or `idle`. */
function mark(level, word) {
  return h("span", { class: `state ${level}` }, word);
}
