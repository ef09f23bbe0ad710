// --- The charts of the cluster, with one crosshair and one window for all ---

/** The most nodes with an area each; those that do least are one area. */
const CHARTED_MAX = 12;

/** The charts of the whole cluster or of one node, in a window that the reader chooses. */
function chartsSection() {
  let chosen = null;
  let window = WINDOWS[0];
  let name = "";
  /** The end of the column that the reader looks at; it outlives new figures. */
  let reading = null;
  let shown = [];
  let columns = [];
  const grid = h("div", { class: "charts", onkeydown: step });
  const when = h("p", { class: "when" });
  const said = h("p", { class: "hidden", role: "status" });
  const windows = WINDOWS.map((each) =>
    h("button", { type: "button", "aria-pressed": "false", onclick: () => choose(each) }, each.word),
  );
  const nodes = h("select", {
    id: "charted",
    onchange: () => {
      name = nodes.value;
      draw(state);
    },
  });
  const element = section(
    "Requests and latencies",
    h(
      "div",
      { class: "row chart-choice" },
      h("label", { for: "charted" }, "Of"),
      nodes,
      h("div", { class: "choice", role: "group", "aria-label": "Window of the charts" }, windows),
      when,
    ),
    grid,
    said,
  );

  function choose(wanted) {
    chosen = wanted;
    draw(state);
  }

  /** Shows a column in all charts, or the window; says it where the keyboard has chosen it. */
  function read(index, isSaid) {
    reading = index === null ? null : columns[index].end;
    const words = shown.map((chart) => chart.show(index));
    const { stepMs, word } = window;
    const length = stepMs < 60000 ? `${stepMs / 1000} s` : "minute";
    const time = index === null ? "" : new Date(reading).toLocaleTimeString("sv-SE");
    when.textContent =
      index === null ? `Figures are of the last ${word}.` : `Figures are of the ${length} until ${time}.`;
    if (isSaid) said.textContent = [when.textContent, ...words].join(" ");
  }

  /** Reads on with the keyboard. */
  function step(event) {
    const at = columns.findIndex(({ end }) => end === reading);
    const last = columns.length - 1;
    const next = {
      ArrowLeft: at < 0 ? last : Math.max(0, at - 1),
      ArrowRight: at < 0 ? last : Math.min(last, at + 1),
      Home: 0,
      End: last,
      Escape: null,
    }[event.key];
    if (next === undefined || columns.length === 0) return;
    event.preventDefault();
    read(next, true);
  }

  /** Draws what is known. */
  function draw({ series, status, figuresFailure }) {
    const known = series.names();
    const members = membersOf(status);
    drawNames(members.map((member) => member.name));
    const span = series.lengthMs();
    window = chosen ?? WINDOWS.find(({ minutes }) => span <= minutes * 60000) ?? WINDOWS.at(-1);
    windows.forEach((button, at) =>
      button.setAttribute("aria-pressed", String(WINDOWS[at] === window)),
    );
    const names = known.filter((each) => name === "" || each === name);
    columns = columnsOf(series, names, window);
    const first = figuresFailure ? `${figuresFailure.message}.` : "The first figures appear within seconds.";
    const none = names.length === 0 || span < 1000 ? first : null;
    const agoOf = (share) => (share === 0 ? "now" : `${window.minutes * share} min ago`);
    const frame = (isWide) => ({ isWide, agoOf, none });
    shown = chartsOf(series, columns, members.filter((each) => names.includes(each.name))).map((chart) =>
      drawChart(chart, frame(chart.layers[0]?.name === "p50"), (at) => read(at, false)),
    );
    redraw(
      grid,
      shown.map((chart) => chart.element),
    );
    const index = columns.findIndex(({ end }) => end === reading);
    read(index < 0 ? null : index, false);
  }

  /** Offers the nodes of which charts can be shown. */
  function drawNames(members) {
    const wanted = ["", ...members];
    if (nodes.options.length === wanted.length && members.every((each, at) => nodes.options[at + 1].value === each))
      return;
    replace(
      nodes,
      wanted.map((each) =>
        h("option", { value: each, selected: each === name }, each || (members.length > 1 ? "all nodes" : "the node")),
      ),
    );
  }

  return { element, draw };
}

/** The charts of these columns. */
function chartsOf(series, columns, members) {
  const layer = (name, hue, count, node) => ({
    name,
    hue,
    values: columns.map((column) => rateOf(column, count, node)),
    mean: meanRateOf(columns, count, node),
  });
  const kinds = [
    layer("reads", "hue-0", ({ reads }) => totalOf(reads)),
    layer("writes", "hue-1", ({ writes }) => totalOf(writes)),
    layer("in batches", "hue-2", (sums) => sums.batch_operations),
  ];
  const ofNodes = members.map(({ name, id }) => ({ ...layer(name, looksOf(id), requestsOf, name), id }));
  const trouble = [
    layer("refused (503)", "hue-warn", (sums) => sums.refused),
    layer("failed (5xx)", "hue-bad", (sums) => sums.failed),
  ];
  return [
    areaChart("Requests a second", kinds),
    ofNodes.length > 1 ? areaChart("Requests a second, by node", fewest(ofNodes)) : null,
    areaChart("Refused and failed a second", trouble),
    latencyChart("Latency of reads", "hue-0", columns, ["reads"], series.boundsUs),
    latencyChart("Latency of writes", "hue-1", columns, ["writes"], series.boundsUs),
  ].filter(Boolean);
}

/** The layers of nodes, of which those that do least are one if there are many. */
function fewest(layers) {
  if (layers.length <= CHARTED_MAX) return layers;
  const most = layers.toSorted((one, other) => (other.mean ?? 0) - (one.mean ?? 0)).slice(0, CHARTED_MAX - 1);
  const rest = layers.filter((layer) => !most.includes(layer));
  const sum = (numbers) => {
    const known = numbers.filter((number) => number !== null);
    return known.length === 0 ? null : known.reduce((all, number) => all + number, 0);
  };
  const others = {
    name: `${rest.length} others`,
    hue: "hue-3",
    values: rest[0].values.map((_, at) => sum(rest.map(({ values }) => values[at]))),
    mean: sum(rest.map(({ mean }) => mean)),
  };
  return [...layers.filter((layer) => most.includes(layer)), others];
}
