// --- Charts of the last hour ---

/** How far charts may go back, in minutes: the first of them that has room for all samples. */
const CHART_MINUTES = [4, 20, 60];

/** The size of a chart in its own units; it is stretched. */
const [CHART_WIDTH, CHART_HEIGHT] = [720, 140];

/** What the reader looks at: the title of a chart and a moment. It outlives new figures. */
let reading = null;

/**
 * The time that a share of the requests did not exceed, as if those of a bucket were
 * spread evenly over it.
 *
 * @param {number[]} counts how many requests each bucket has; the last may be left out
 * @param {number[]} boundsUs the upper bounds of the buckets
 * @param {number} share for example 0.99
 * @returns {number|null} microseconds; null without requests
 */
function quantile(counts, boundsUs, share) {
  const rank = counts.reduce((sum, number) => sum + number, 0) * share;
  let below = 0;
  for (const [bucket, number] of counts.entries()) {
    if (number > 0 && below + number >= rank) {
      const lower = boundsUs[bucket - 1] ?? 0;
      const upper = boundsUs[bucket] ?? 2 * lower;
      return lower + (upper - lower) * ((rank - below) / number);
    }
    below += number;
  }
  return null;
}

/**
 * For each sample the quantile of the minute that ends with it: of ten seconds alone, the
 * slowest of a thousand would be chance.
 */
function quantiles(lists, boundsUs, share) {
  return lists.map((_, index) =>
    quantile(sumCounts(lists.slice(Math.max(0, index - 5), index + 1)), boundsUs, share),
  );
}

/** The counts of several samples together, bucket by bucket. */
function sumCounts(lists) {
  const sums = [];
  for (const list of lists) list.forEach((number, bucket) => (sums[bucket] = (sums[bucket] ?? 0) + number));
  return Array.from(sums, (number) => number ?? 0);
}

/** A round number at or above this one: 1, 2 or 5 times a power of ten. */
function roundUp(number) {
  if (number <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(number));
  return [1, 2, 5, 10].map((factor) => factor * power).find((round) => round >= number * 0.999);
}

/** A scale from zero to a round number. */
function linearScale(values) {
  const top = roundUp(Math.max(0, ...values));
  return { top, ticks: [0, top / 2, top], of: (value) => value / top };
}

/** A scale from a power of ten to another. */
function logScale(values) {
  const positive = values.filter((value) => value > 0);
  const low = Math.floor(Math.log10(Math.min(1e3, ...positive)));
  const high = Math.max(low + 2, Math.ceil(Math.log10(Math.max(1, ...positive))));
  const middle = Math.round((low + high) / 2);
  return {
    top: 10 ** high,
    ticks: [low, middle, high].map((power) => 10 ** power),
    of: (value) => (Math.log10(Math.max(value, 10 ** low)) - low) / (high - low),
  };
}

/**
 * A chart that the pointer and the arrow keys read.
 *
 * @param {Object} chart
 * @param {string} chart.title what it shows
 * @param {(value: number) => string} chart.format how a value is written
 * @param {boolean} [chart.isLog] whether its scale is logarithmic
 * @param {Array<{name: string, values: Array<number|null>, now: number|null}>} chart.lines the
 *   lines, most important first; `now` is what the legend shows
 * @param {number[]} chart.times when each value was measured
 * @param {number} chart.end the right end, in milliseconds since 1970
 */
function chartOf({ title, format, isLog, lines, times, end }) {
  const all = lines.flatMap((line) => line.values).filter((value) => value !== null);
  const scale = isLog ? logScale(all) : linearScale(all);
  const minutes =
    CHART_MINUTES.find((most) => end - (times[0] ?? end) <= most * 60000) ?? CHART_MINUTES.at(-1);
  const spanMs = minutes * 60000;
  const ofAll = minutes === CHART_MINUTES.at(-1) ? "last hour" : `last ${minutes} min`;
  const x = (time) => CHART_WIDTH * (1 - (end - time) / spanMs);
  const y = (value) => CHART_HEIGHT * (1 - scale.of(value));
  const written = (value) => (value === null || value === undefined ? "–" : format(value));
  const figures = lines.map((line) => h("b", {}, written(line.now)));
  const when = h("span", { class: "when" }, ofAll);
  const cursor = s("line", { class: "cursor", y1: 0, y2: CHART_HEIGHT, visibility: "hidden" });
  const plot = s(
    "svg",
    { viewBox: `0 0 ${CHART_WIDTH} ${CHART_HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    scale.ticks.map((tick) => s("line", { class: "grid", x1: 0, x2: CHART_WIDTH, y1: y(tick), y2: y(tick) })),
    lines.map((line, index) =>
      s("path", { class: `line line-${index}`, d: pathOf(line.values, times, x, y) }),
    ),
    cursor,
  );
  const read = (index) => {
    const isRead = index !== null;
    reading = isRead ? { title, time: times[index] } : null;
    cursor.setAttribute("visibility", isRead ? "visible" : "hidden");
    if (isRead) {
      cursor.setAttribute("x1", x(times[index]));
      cursor.setAttribute("x2", x(times[index]));
    }
    when.textContent = isRead ? new Date(times[index]).toLocaleTimeString("sv-SE") : ofAll;
    lines.forEach((line, at) => (figures[at].textContent = written(isRead ? line.values[index] : line.now)));
  };
  const summary = lines.map((line) => `${line.name} ${written(line.now)}`).join(", ");
  const chosen = () => (reading?.title === title && times.length > 0 ? nearest(times, reading.time) : null);
  if (chosen() !== null) read(chosen());
  return h(
    "div",
    {
      class: "chart",
      tabindex: "0",
      role: "img",
      "aria-label": `${title}: ${summary}`,
      "data-focus": `chart ${title}`,
      onpointermove: (event) => {
        const box = plot.getBoundingClientRect();
        const time = end - spanMs * (1 - (event.clientX - box.left) / box.width);
        if (times.length > 0) read(nearest(times, time));
      },
      onpointerleave: () => read(null),
      onkeydown: (event) => {
        if (event.key === "Escape") read(null);
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (step === undefined || times.length === 0) return;
        event.preventDefault();
        read(Math.max(0, Math.min(times.length - 1, (chosen() ?? times.length) + step)));
      },
    },
    h("div", { class: "caption" }, h("span", { class: "title" }, title), when),
    h(
      "div",
      { class: "legend" },
      lines.map((line, index) => h("span", { class: `key key-${index}` }, line.name, " ", figures[index])),
    ),
    h(
      "div",
      { class: "plot" },
      plot,
      scale.ticks.map((tick) =>
        styled(h("span", { class: "tick" }, format(tick)), "bottom", `${scale.of(tick) * 100}%`),
      ),
      times.length === 0 ? h("p", { class: "none" }, "The first figures appear within ten seconds.") : null,
    ),
    h(
      "div",
      { class: "axis" },
      [`${minutes} min ago`, (minutes * 3) / 4, minutes / 2, minutes / 4, "now"].map((text) =>
        h("span", {}, text),
      ),
    ),
  );
}

/** The path of a line; it has a gap where nothing was measured. */
function pathOf(values, times, x, y) {
  let path = "";
  let isDrawing = false;
  values.forEach((value, index) => {
    const isAway = index > 0 && times[index] - times[index - 1] > 30000;
    if (value === null) isDrawing = false;
    else {
      const point = `${x(times[index]).toFixed(1)} ${y(value).toFixed(1)}`;
      // A line of length zero has round ends, so that a lone sample is a dot.
      path += isDrawing && !isAway ? `L${point}` : `M${point}h0`;
      isDrawing = true;
    }
  });
  return path;
}

/** The index of the moment that is nearest to this one. */
function nearest(times, time) {
  let best = 0;
  times.forEach((known, index) => {
    if (Math.abs(known - time) < Math.abs(times[best] - time)) best = index;
  });
  return best;
}
