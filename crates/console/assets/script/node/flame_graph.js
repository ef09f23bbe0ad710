// --- Flame graphs ---

/** The height of a frame, in pixels. */
const FRAME_HEIGHT = 18;

/** Frames that are narrower than this share of the graph are left out. */
const FRAME_SHARE_MIN = 0.001;

/** The section that records profiles. */
function profileSection() {
  const graph = h("div", { class: "flames" });
  const said = h("p", { class: "note", role: "status" });
  const kind = h(
    "select",
    { id: "profile-kind" },
    [
      ["cpu", "processor time"],
      ["alloc", "allocations"],
      ["wait", "waits"],
    ].map(([value, word]) => h("option", { value }, word)),
  );
  const button = h("button", { type: "button", onclick: record }, "Record 10 s");
  async function record() {
    button.disabled = true;
    said.textContent = "Recording …";
    try {
      const answer = await ask(`/debug/profile?kind=${kind.value}&seconds=10`, {
        accept: "text/plain",
        wait: 30000,
      });
      const root = frameTree(await answer.text());
      said.textContent =
        root.weight === 0
          ? "Nothing happened in these ten seconds."
          : "A frame's width is its share. Choose one to look closer.";
      replace(graph, root.weight === 0 ? null : flameGraph(root));
    } catch (problem) {
      const isOff = problem.status === 400 || problem.status === 404;
      said.textContent = isOff
        ? "This node was started without --debug-endpoints. Restart it with that option; a local cluster with: kvorum dev -- --debug-endpoints"
        : `No profile: ${problem.message}.`;
    }
    button.disabled = false;
  }
  return section(
    "Profile",
    h("div", { class: "row" }, h("label", { for: "profile-kind" }, "Profile of"), kind, button),
    said,
    graph,
  );
}

/**
 * The tree of frames of folded stacks: `outer;inner 42` a line.
 *
 * @returns {{name: string, weight: number, inner: Map}} the frame of everything
 */
function frameTree(folded) {
  const root = { name: "all", weight: 0, inner: new Map() };
  for (const line of folded.split("\n")) {
    const space = line.lastIndexOf(" ");
    const weight = Number(line.slice(space + 1));
    if (space < 1 || !(weight > 0)) continue;
    let frame = root;
    root.weight += weight;
    for (const name of line.slice(0, space).split(";")) {
      if (!frame.inner.has(name)) frame.inner.set(name, { name, weight: 0, inner: new Map(), outer: frame });
      frame = frame.inner.get(name);
      frame.weight += weight;
    }
  }
  return root;
}

/** A flame graph of a frame. A frame that is chosen takes the whole width. */
function flameGraph(root) {
  const holder = h("div");
  const path = h("p", { class: "note mono" });
  const choose = (top) => {
    const rows = [];
    place(top, 0, 0, 1, top.weight, rows);
    const names = [];
    for (let frame = top; frame; frame = frame.outer) names.unshift(frame.name);
    path.textContent = `${names.at(-1)} · ${digits((top.weight / root.weight) * 100)}%`;
    const depth = 1 + Math.max(...rows.map((row) => row.depth));
    const frames = rows.map((row) => frameButton(row, root, () => choose(row.frame)));
    const graph = styled(h("div", { class: "graph" }, frames), "height", `${depth * FRAME_HEIGHT}px`);
    const out = top.outer ? h("button", { type: "button", onclick: () => choose(top.outer) }, "Out") : null;
    holder.replaceChildren(...present([h("div", { class: "row" }, out, path), graph]));
  };
  choose(root);
  return holder;
}

/** Collects the frames that are wide enough, with their places. */
function place(frame, depth, left, width, whole, rows) {
  rows.push({ frame, depth, left, width });
  let at = left;
  const inner = Array.from(frame.inner.values()).sort((one, other) => (one.name < other.name ? -1 : 1));
  for (const each of inner) {
    const share = each.weight / whole;
    if (share >= FRAME_SHARE_MIN) place(each, depth + 1, at, share, whole, rows);
    at += share;
  }
}

/** A frame that can be chosen. */
function frameButton({ frame, depth, left, width }, root, onclick) {
  const share = `${digits((frame.weight / root.weight) * 100)}%`;
  const button = h(
    "button",
    { type: "button", class: `frame tone-${toneOf(frame.name)}`, title: `${frame.name} · ${share}`, onclick },
    width > 0.02 ? frame.name : "",
  );
  button.setAttribute("aria-label", `${frame.name}, ${share}`);
  styled(button, "left", `${left * 100}%`);
  styled(button, "width", `${width * 100}%`);
  return styled(button, "top", `${depth * FRAME_HEIGHT}px`);
}

/** One of four tones by the crate of a function, so that layers stand apart. */
function toneOf(name) {
  const crate = name.split("::")[0];
  let sum = 0;
  for (const char of crate) sum = (sum * 31 + char.codePointAt(0)) % 997;
  return sum % 4;
}
