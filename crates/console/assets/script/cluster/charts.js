// --- Charts: filled areas, and latencies as a map of heat with lines ---

/** The size of a chart in its own units; it is stretched. */
const [CHART_WIDTH, CHART_HEIGHT] = [720, 160];

/** The shares of requests whose times are shown. */
const QUANTILES = [
  { name: "p50", share: 0.5 },
  { name: "p99", share: 0.99 },
  { name: "p99.9", share: 0.999 },
];

/** A round number at or above this one: 1, 2 or 5 times a power of ten. */
function roundUp(number) {
  if (number <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(number));
  return [1, 2, 5, 10].map((factor) => factor * power).find((round) => round >= number * 0.999);
}

/** A scale from zero to a round number. */
function linearScale(top) {
  const round = roundUp(top);
  return { ticks: [0, round / 2, round], of: (value) => value / round };
}

/** A scale of logarithms between two times, with the powers of ten as ticks. */
function logScale(low, high) {
  const [from, to] = [Math.log10(low), Math.log10(high)];
  const powers = Array.from({ length: 9 }, (_, power) => power);
  return {
    ticks: powers.filter((power) => power >= from && power <= to).map((power) => 10 ** power),
    of: (value) => Math.max(0, Math.min(1, (Math.log10(Math.max(value, 1)) - from) / (to - from))),
  };
}

/** The middle of a column, in units of the chart. */
function middleOf(index, columns) {
  return (CHART_WIDTH * (index + 0.5)) / columns;
}

/** The heights of a share of a chart's height. */
function heightOf(share) {
  return (CHART_HEIGHT * (1 - share)).toFixed(1);
}

/** Runs of indexes whose values are known, so that a line has a gap where nothing was measured. */
function runsOf(values) {
  const runs = [];
  values.forEach((value, index) => {
    if (value === null) return;
    if (index > 0 && values[index - 1] !== null && runs.length > 0) runs.at(-1).push(index);
    else runs.push([index]);
  });
  return runs;
}

/** The points of a run at these shares. One that is alone is as wide as half its column. */
function pointsOf(run, shareAt, columns) {
  const half = CHART_WIDTH / columns / 4;
  const at = (index, aside) => `${(middleOf(index, columns) + aside).toFixed(1)} ${heightOf(shareAt(index))}`;
  return run.length === 1 ? [at(run[0], -half), at(run[0], half)] : run.map((index) => at(index, 0));
}

/** The path of a line. */
function linePath(values, shareAt) {
  const path = (run) => `M${pointsOf(run, shareAt, values.length).join("L")}`;
  return runsOf(values).map(path).join("");
}

/** The path of an area between two lines. */
function areaPath(values, topAt, bottomAt) {
  const path = (run) => {
    const bottom = pointsOf(run, bottomAt, values.length).reverse();
    return `M${[...pointsOf(run, topAt, values.length), ...bottom].join("L")}Z`;
  };
  return runsOf(values).map(path).join("");
}

/**
 * A chart of areas on top of each other.
 *
 * @param {string} title what it shows
 * @param {Array<{name: string, hue: string, id?: number, values: Array<number|null>, mean: number|null}>} layers
 *   from the bottom to the top; `mean` is that of the window, `id` that of the node that it is of
 */
function areaChart(title, layers) {
  const columns = layers[0]?.values.length ?? 0;
  const sums = [Array(columns).fill(0)];
  for (const { values } of layers) sums.push(sums.at(-1).map((sum, index) => sum + (values[index] ?? 0)));
  const scale = linearScale(Math.max(0, ...sums.at(-1)));
  const shapes = layers.flatMap(({ hue, values }, at) => {
    // The line of nothing would hide the one below it.
    if (values.every((value) => !value)) return [];
    const top = (index) => scale.of(sums[at + 1][index]);
    const bottom = (index) => scale.of(sums[at][index]);
    return [
      s("path", { class: `area ${hue}`, d: areaPath(values, top, bottom) }),
      s("path", { class: `line ${hue}`, d: linePath(values, top) }),
    ];
  });
  return { title, scale, shapes, format: rate, tickFormat: short, columns, layers };
}

/**
 * A chart of latencies: how many requests took how long as a map of heat, and over it the lines
 * of quantiles.
 *
 * @param {string[]} kinds the kinds of requests: `reads`, `writes`
 */
function latencyChart(title, hue, columns, kinds, boundsUs) {
  const counts = columns.map((column) => countsOf([column], kinds));
  const used = counts.flatMap((list) => Array.from(list.keys()).filter((bucket) => list[bucket] > 0));
  const lower = (bucket) => boundsUs[bucket - 1] ?? boundsUs[0] / 2;
  const upper = (bucket) => boundsUs[bucket] ?? 2 * lower(bucket);
  const [least, most] = used.length > 0 ? [Math.min(...used), Math.max(...used)] : [4, 10];
  const scale = logScale(lower(Math.max(0, least - 1)), upper(most + 1));
  const peak = Math.max(1, ...counts.flat());
  const width = CHART_WIDTH / columns.length;
  const cells = counts.flatMap((list, index) =>
    list.map((number, bucket) => {
      if (!(number > 0)) return null;
      const [bottom, top] = [lower(bucket), upper(bucket)].map((us) => heightOf(scale.of(us)));
      return s("rect", {
        class: "cell",
        x: (index * width).toFixed(1),
        y: top,
        width: width.toFixed(1),
        height: (bottom - top).toFixed(1),
        "fill-opacity": (0.08 + 0.72 * Math.sqrt(number / peak)).toFixed(2),
      });
    }),
  );
  const all = countsOf(columns, kinds);
  const layers = QUANTILES.map(({ name, share }, at) => ({
    name,
    hue: `quantile-${at}`,
    values: counts.map((list) => quantile(list, boundsUs, share)),
    mean: quantile(all, boundsUs, share),
  }));
  const lines = layers.map(({ hue: line, values }) =>
    s("path", { class: `line ${line}`, d: linePath(values, (index) => scale.of(values[index])) }),
  );
  const shapes = [s("g", { class: `heat ${hue}` }, present(cells)), ...lines];
  return { title, scale, shapes, format: micros, tickFormat: micros, columns: columns.length, layers };
}

/**
 * Draws a chart that the pointer and the arrow keys read.
 *
 * @param {Object} chart as `areaChart` and `latencyChart` give it
 * @param {{isWide: boolean, agoOf: (share: number) => string, none: string|null}} frame
 * @param {(index: number|null) => void} read is called with the column that the reader looks at
 * @returns {{element: HTMLElement, show: (index: number|null) => string}} `show` shows a column,
 *   or the window; it gives what it shows in words
 */
function drawChart({ title, scale, shapes, format, tickFormat, columns, layers }, { isWide, agoOf, none }, read) {
  const written = (value) => (value === null || value === undefined ? "–" : format(value));
  const figures = layers.map(() => h("b"));
  const cursor = s("line", { class: "cursor", y1: 0, y2: CHART_HEIGHT, visibility: "hidden" });
  const grid = scale.ticks.map((tick) => {
    const y = heightOf(scale.of(tick));
    return s("line", { class: "grid", x1: 0, x2: CHART_WIDTH, y1: y, y2: y });
  });
  const plot = s(
    "svg",
    { viewBox: `0 0 ${CHART_WIDTH} ${CHART_HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    grid,
    shapes,
    cursor,
  );
  const element = h(
    "div",
    {
      class: isWide ? "chart wide" : "chart",
      tabindex: "0",
      role: "img",
      "data-focus": `chart ${title}`,
      onpointermove: ({ clientX }) => {
        const { left, width } = plot.getBoundingClientRect();
        read(Math.max(0, Math.min(columns - 1, Math.floor(((clientX - left) / width) * columns))));
      },
      onpointerleave: () => read(null),
    },
    h("h3", {}, title),
    h(
      "p",
      { class: "legend" },
      layers.map(({ name, hue, id }, at) =>
        id === undefined
          ? h("span", { class: `key ${hue}` }, name, " ", figures[at])
          : h("span", {}, nodeKey(id), name, " ", figures[at]),
      ),
    ),
    h(
      "div",
      { class: "plot" },
      plot,
      scale.ticks.map((tick) =>
        styled(h("span", { class: "tick" }, tickFormat(tick)), "bottom", `${scale.of(tick) * 100}%`),
      ),
      none && h("p", { class: "none" }, none),
    ),
    h(
      "div",
      { class: "axis", "aria-hidden": "true" },
      [1, 0.5, 0].map((share) => h("span", {}, agoOf(share))),
    ),
  );
  const show = (index) => {
    const values = layers.map(({ values: all, mean }) => written(index === null ? mean : all[index]));
    values.forEach((value, at) => (figures[at].textContent = value));
    cursor.setAttribute("visibility", index === null ? "hidden" : "visible");
    if (index !== null) {
      cursor.setAttribute("x1", middleOf(index, columns));
      cursor.setAttribute("x2", middleOf(index, columns));
    }
    const words = layers.map(({ name }, at) => `${name} ${values[at]}`).join(", ");
    element.setAttribute("aria-label", `${title}: ${words}`);
    return `${title}: ${words}.`;
  };
  return { element, show };
}

/** A line of a few values for a card, filled below, on a scale of its own from zero. */
function sparkline(values, hue, label) {
  const top = Math.max(1e-9, ...values.filter((value) => value !== null)) * 1.05;
  const share = (index) => values[index] / top;
  return s(
    "svg",
    {
      class: "spark",
      viewBox: `0 0 ${CHART_WIDTH} ${CHART_HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": label,
    },
    s("path", { class: `area ${hue}`, d: areaPath(values, share, () => 0) }),
    s("path", { class: `line ${hue}`, d: linePath(values, share) }),
  );
}
