// --- One key ---

/** The longest value that is shown without being asked for. */
const SHOWN_BYTES_MAX = 1 << 20;

/** When the replicas are asked who holds a write that was not acknowledged, in milliseconds after it. */
const SETTLED_MS = 600;

/** How much of a value is drawn; more would make the page slow. */
const DRAWN_BYTES_MAX = 1 << 17;

/**
 * The view of a key: its value, what can be done to it, and where it is.
 *
 * @param {HTMLElement} detail where it is drawn
 * @param {string} named the key, percent-encoded by anybody who has made the link
 * @param {Object} state the state of the console
 * @param {() => void} changed is called when the key was written
 */
function keyView(detail, named, state, changed) {
  const key = fromPercent(named);
  // What a link says beside the key must not become other parameters of a request.
  const id = percent(key);
  const query = new URLSearchParams(location.hash.split("?")[1]);
  const nodes = state.status.cluster.length;
  let pair = null;
  let shown = "text";
  let read = null;
  let loads = 0;
  /** Says of a write that was not acknowledged which replicas hold it, once they were asked. */
  let settle = null;
  // A text field changes ends of lines, and cannot hold all bytes: untouched, they stay.
  let original = ["", null];
  /** The tag of the value that the field began with; null without a value. */
  let tag = null;

  const value = h("div", { class: "value" });
  const where = h("div", { class: "where" });
  const receipt = h("div", { "aria-live": "polite" });
  const pairs = h("div", { class: "pairs" });
  const text = h("textarea", { id: "value", rows: "8", spellcheck: "false" });
  const ttl = h("input", {
    id: "ttl",
    type: "number",
    min: "1",
    step: "1",
    placeholder: "never",
    inputmode: "numeric",
  });
  const editor = h(
    "form",
    { class: "stack", onsubmit: put },
    h("label", { for: "value" }, "Value"),
    text,
    h(
      "div",
      { class: "row" },
      h("label", { for: "ttl" }, "Expires after, in seconds"),
      ttl,
      h("button", { class: "main" }, "Put"),
    ),
  );
  const edit = h("details", { open: query.has("edit") }, h("summary", {}, "Edit"), editor);
  replace(
    detail,
    h(
      "p",
      { class: "back" },
      h(
        "a",
        { href: hrefOf("keys", { prefix: query.get("prefix") ?? "", where: query.get("where") ?? "", flat: query.get("flat") ?? "" }) },
        "← Keys",
      ),
    ),
    h("h2", { class: "key-name", tabindex: "-1" }, keyLabel(key)),
    pairs,
    receipt,
    value,
    edit,
    h("div", { class: "row" }, deleteButton(remove)),
    where,
  );
  drawPairs();
  askAgain();
  // The focus goes to what has opened.
  if (query.has("edit")) text.focus();
  else detail.querySelector(".key-name").focus({ preventScroll: true });

  /** Reads the value, and asks the replicas, so that both are of the same moment. */
  function askAgain() {
    load();
    locate();
  }

  async function load(bytesMax = SHOWN_BYTES_MAX) {
    const asked = `/v0/entity?id=${id}${pairQuery(pair)}`;
    const mine = (loads += 1);
    try {
      const answer = await ask(asked, { accept: "*/*" });
      // Another pair was chosen meanwhile.
      if (mine !== loads) return void answer.body?.cancel();
      const length = Number(answer.headers.get("Content-Length") ?? 0);
      const isShort = length <= bytesMax;
      if (!isShort) answer.body?.cancel();
      read = {
        headers: answer.headers,
        length,
        data: isShort ? new Uint8Array(await answer.arrayBuffer()) : null,
      };
      const words = read.data && read.length <= DRAWN_BYTES_MAX ? textOf(read.data) : null;
      if (text.value === original[0]) {
        text.value = words ?? "";
        original = [text.value, read.data];
        tag = answer.headers.get("ETag");
      }
      if (words !== null && jsonOf(words) !== null) shown = "JSON";
      else if (words === null && read.data) shown = textOf(read.data) === null ? "hex" : "text";
      drawValue();
    } catch (problem) {
      if (mine !== loads) return;
      read = null;
      if (problem.status === 404 && text.value === original[0]) tag = null;
      if (problem.status === 404) replace(value, absent(problem));
      else replace(value, failureReceipt("The key was not read", problem, state.status));
    }
  }

  function drawValue() {
    const { headers, length, data } = read;
    const version = headers.get("Kvorum-Version");
    const timestamp = timestampOf(version);
    const expires = headers.get("Kvorum-Expires");
    replace(
      value,
      facts(
        ["Length", bytes(length)],
        ["Written", `${moment(timestamp.unixMs)}, ${ago(timestamp.unixMs, nodeNow())}`],
        ["Version", h("code", {}, version)],
        ["Answers", headers.get("Kvorum-Acks").replace("/", " of ")],
        expires && ["Expiry", countdown(expires)],
      ),
      data === null
        ? h(
            "p",
            {},
            h("button", { type: "button", onclick: () => load(Infinity) }, `Load all ${bytes(length)}`),
          )
        : [formatChoice(), h("pre", { tabindex: "0", "aria-label": `The value as ${shown}` }, drawn(data))],
    );
  }

  function formatChoice() {
    return h(
      "div",
      { class: "choice", role: "group", "aria-label": "Show the value as" },
      ["text", "JSON", "hex"].map((name) =>
        h(
          "button",
          {
            type: "button",
            "aria-pressed": String(name === shown),
            "data-focus": `as ${name}`,
            onclick: () => {
              shown = name;
              drawValue();
            },
          },
          name,
        ),
      ),
      h("button", { type: "button", onclick: () => download(read.data, "value") }, "Save"),
    );
  }

  function drawn(data) {
    const part = data.slice(0, DRAWN_BYTES_MAX);
    const rest = data.length > part.length ? `\n… and ${bytes(data.length - part.length)} more` : "";
    if (shown === "hex") return hexLines(part) + rest;
    const words = textOf(data) ?? new TextDecoder().decode(part);
    if (shown === "JSON") return jsonOf(words) ?? "This value is not JSON.";
    return words.slice(0, DRAWN_BYTES_MAX) + rest;
  }

  /** Draws the choice of how many replicas must answer. */
  function drawPairs() {
    const usual = usualPair(nodes);
    const current = pair ?? usual;
    const choose = (change) => {
      const next = { ...current, ...change };
      next.ack = Math.min(next.ack, next.from);
      pair = next.ack === usual.ack && next.from === usual.from ? null : next;
      drawPairs();
      settle = null;
      receipt.replaceChildren();
      askAgain();
    };
    const select = (name, label, chosen, most, field) =>
      h(
        "select",
        {
          id: name,
          "aria-label": label,
          "data-focus": name,
          onchange: (event) => choose({ [field]: Number(event.target.value) }),
        },
        Array.from({ length: most }, (_, index) =>
          h("option", { value: index + 1, selected: index + 1 === chosen }, index + 1),
        ),
      );
    replace(
      pairs,
      h(
        "div",
        { class: "row" },
        h("span", {}, "Ask"),
        select("ack", "How many replicas must answer", current.ack, current.from, "ack"),
        h("span", {}, "of"),
        select("from", "How many replicas the key has", current.from, nodes, "from"),
        h("span", {}, "replicas"),
        pairPicture(current),
      ),
      h("p", { class: "hint" }, promiseOf(current)),
    );
  }

  /** Asks every replica for its version, and draws them side by side. */
  async function locate() {
    try {
      const { replicas } = await askJson(`/v0/replicas?id=${id}&versions=true`);
      replace(where, section("Replicas", replicaTable(replicas), replicaRemark(replicas)));
      settle?.(replicas);
    } catch (problem) {
      replace(where, section("Replicas", h("p", {}, `The replicas cannot be asked: ${problem.message}.`)));
      settle?.(null);
    }
  }

  function replicaRemark(replicas) {
    const stale = replicas.filter((replica) => replica.stale).length;
    const again = h("button", { type: "button", "data-focus": "again", onclick: askAgain }, "Refresh");
    const repair = h(
      "button",
      { type: "button", "data-focus": "repair", onclick: readAll },
      `Read it from all ${nodes}`,
    );
    const isChanging = replicas.some((replica) => replica.place_before || replica.place_after);
    const both = isChanging
      ? h("p", { class: "hint" }, "The members change: each node has a place before the change and one after it, and a request needs enough answers by both.")
      : null;
    if (stale === 0) return [both, h("p", { class: "row" }, again)];
    return [
      both,
      h(
        "p",
        {},
        `${counted(stale, "replica")} ${stale === 1 ? "is" : "are"} stale. A read repairs the stale replicas among those that it asks before it answers; repairs find the others.`,
      ),
      h("p", { class: "row" }, repair, again),
    ];
  }

  /** Reads from all replicas, which repair writes those that are stale. */
  async function readAll() {
    settle = null;
    try {
      await ask(`/v0/entity?id=${id}${pairQuery({ ack: nodes, from: nodes })}`, {
        method: "HEAD",
        accept: "*/*",
      });
      receipt.replaceChildren();
    } catch (problem) {
      if (problem.status !== 404)
        replace(receipt, failureReceipt("Not all replicas could be read", problem, state.status));
    }
    locate();
  }

  async function put(event) {
    event.preventDefault();
    const life = ttl.value ? `&ttl=${Number(ttl.value)}` : "";
    const body = text.value === original[0] ? original[1] : text.value;
    if (body === null && read?.length)
      return replace(receipt, h("p", { class: "note" }, "Load the value first."));
    const { ack, from } = pair ?? usualPair(nodes);
    const replaces = 2 * ack > from ? tag : null;
    const isStored = await write(
      "Stored",
      "Not stored",
      { method: "PUT", body, type: "application/octet-stream", tag: replaces },
      life,
      "it",
    );
    // What is in the field is no edit any more, and the next read may replace it.
    if (isStored) original = [text.value, null];
  }

  /** Somebody else was faster: the reader says whose value stays. */
  function changedReceipt(problem) {
    const take = () => {
      text.value = original[0];
      receipt.replaceChildren();
      load();
    };
    const overwrite = () => {
      tag = problem.headers.get("ETag");
      editor.requestSubmit();
    };
    return h(
      "div",
      { class: "receipt warn", role: "alert" },
      h("h3", {}, "Changed meanwhile"),
      h("p", {}, "Somebody has written this key since its value came into the field. Nothing was stored, and your text is still there."),
      h(
        "div",
        { class: "row" },
        h("button", { type: "button", "data-focus": "take", onclick: take }, "Take the new value"),
        h("button", { type: "button", "data-focus": "overwrite", onclick: overwrite }, "Put mine all the same"),
      ),
    );
  }

  async function remove() {
    text.value = "";
    await write("Deleted", "Not deleted", { method: "DELETE" }, "", "the deletion");
  }

  /** Returns whether it was acknowledged. */
  async function write(done, failed, request, extra, held) {
    let isDone = false;
    settle = null;
    replace(receipt, h("p", { class: "note" }, "Waiting for the replicas …"));
    try {
      const answer = await ask(`/v0/entity?id=${id}${pairQuery(pair)}${extra}`, {
        ...request,
        accept: "*/*",
        wait: 60000,
      });
      isDone = true;
      replace(receipt, successReceipt(done, answer.headers));
    } catch (problem) {
      const { timestamp } = problem.body;
      if (problem.status === 412) {
        replace(receipt, changedReceipt(problem));
        return false;
      }
      const show = (words) => replace(receipt, failureReceipt(failed, problem, state.status, words));
      show(null);
      if (timestamp) {
        settle = (replicas) => {
          const copies = replicas?.filter(({ version }) => version === timestamp).length;
          const hold = ["no copy holds", "one copy holds"][copies] ?? `${copies} copies hold`;
          show(replicas ? `${hold} ${held}` : `who holds ${held} is not known`);
        };
        // What is clear at once may be stored a moment later.
        setTimeout(locate, SETTLED_MS);
      }
    }
    changed();
    askAgain();
    return isDone;
  }

  return { id, askAgain };
}

/** The table of replicas with what each of them holds. */
function replicaTable(replicas) {
  const isChanging = replicas.some((replica) => replica.place_before || replica.place_after);
  const columns = [
    "Node",
    { text: isChanging ? "Place, after" : "Place", number: true },
    "It holds",
    "Written",
    "Version",
    { text: "Copies", number: true },
  ];
  const rows = replicas.map((replica, index) => {
    const held = heldBy(replica);
    const timestamp = replica.version ? timestampOf(replica.version) : null;
    return [
      replica.name,
      isChanging ? `${replica.place_before ?? "–"} → ${replica.place_after ?? "–"}` : String(index + 1),
      [held, replica.expires ? [" ", countdown(replica.expires)] : null],
      timestamp ? moment(timestamp.unixMs) : "–",
      replica.version ? h("code", {}, replica.version) : "–",
      replica.copies === undefined ? "–" : String(replica.copies),
    ];
  });
  return table("Replicas", columns, rows);
}

/** What a replica holds, in words. */
function heldBy(replica) {
  if (replica.missed) return mark("bad", replica.missed);
  const what =
    replica.kind === "value"
      ? bytes(replica.value_bytes)
      : replica.kind === "tombstone"
        ? "deleted"
        : "nothing";
  return replica.stale ? mark("warn", `${what}, stale`) : mark(replica.kind ? "good" : "idle", what);
}

/** What is said of a key that a read did not find. */
function absent(problem) {
  const version = problem.headers.get("Kvorum-Version");
  const acks = problem.headers.get("Kvorum-Acks") ?? "";
  return h(
    "p",
    { class: "empty" },
    version
      ? `This key was deleted or has expired (at ${moment(timestampOf(version).unixMs)}).`
      : "There is no such key.",
    acks && ` ${acks.replace("/", " of ")} replicas answered.`,
  );
}

/** A button that deletes on its second press. */
function deleteButton(remove) {
  const button = h("button", { type: "button", class: "danger" }, "Delete");
  let isArmed = false;
  const arm = (armed) => {
    isArmed = armed;
    button.textContent = armed ? "Press again to delete the key on all replicas" : "Delete";
  };
  button.addEventListener("click", () => {
    if (isArmed) remove();
    arm(!isArmed);
  });
  button.addEventListener("blur", () => arm(false));
  return button;
}

/** How many levels of JSON are indented. */
const INDENTS_MAX = 64;

/** JSON with indents, or null if a text is none. */
function jsonOf(text) {
  if (!/^\s*[[{]/.test(text)) return null;
  try {
    JSON.parse(text);
    return indented(text);
  } catch {
    return null;
  }
}

/** JSON with a line for each item. Its numbers stay as they are: parsing would round them. */
function indented(text) {
  let out = "";
  let depth = 0;
  let isEmpty = false;
  // Deeper levels stay at one indent, or a short text of brackets would fill the memory.
  const line = () => `\n${"  ".repeat(Math.min(depth, INDENTS_MAX))}`;
  for (const [part] of text.matchAll(/"(?:\\.|[^"\\])*"|[[\]{},:]|[^\s"[\]{},:]+/g)) {
    if (part === "{" || part === "[") {
      if (isEmpty) out += line();
      depth += 1;
      out += part;
      isEmpty = true;
      continue;
    }
    if (part === "}" || part === "]") {
      depth -= 1;
      out += isEmpty ? part : line() + part;
    } else {
      if (isEmpty) out += line();
      if (part === ",") out += part + line();
      else out += part === ":" ? ": " : part;
    }
    isEmpty = false;
  }
  return out;
}

/** Hands bytes to the browser as a file. */
function download(data, name) {
  const url = URL.createObjectURL(new Blob([data], { type: "application/octet-stream" }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
