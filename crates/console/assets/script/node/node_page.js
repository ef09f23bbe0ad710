// --- The page of this node ---

/** The page of the node that served the console: where its data is, and what limits it. */
function nodePage(root) {
  const names = ["lead", "store", "orders", "limits", "profile"];
  const parts = names.map((name) => h("div", { class: `part-${name}` }));
  const [lead, store, ordered, limits, profile] = parts;
  root.replaceChildren(h("h1", { class: "hidden" }, "Node"), ...parts);
  profile.append(profileSection());
  return {
    title: "Node",
    update({ status, statusAt, failure, figuresFailure, metrics: all, accounts }) {
      const isSilent = failure !== null;
      const metrics = all.get(status?.name) ?? new Map();
      root.classList.toggle("loading", metrics.size === 0 && !isSilent && figuresFailure === null);
      if (!status) return;
      root.classList.toggle("stale", isSilent);
      // Drawn once: what an order was answered stays.
      if (ordered.childElementCount === 0) ordered.append(...orders(status.cluster.length > 1));
      for (const button of ordered.querySelectorAll("button")) button.disabled = isSilent;
      redraw(lead, nodeFacts(status, metrics, isSilent ? statusAt : null));
      if (metrics.size === 0) return;
      redraw(store, storeSection(status, metrics, accounts.get(status.name)?.report));
      redraw(limits, limitsSection(metrics));
    },
  };
}

/** Who the node is, or was when it was last heard, if it is silent since. */
function nodeFacts(status, metrics, silentSince) {
  const metric = (name) => metrics.get(name) ?? 0;
  return section(
    status.name,
    silentSince === null
      ? null
      : h("p", { class: "note" }, `It does not answer: all figures are of ${timeOf(silentSince)}, when it was last heard.`),
    facts(
      ["Address", status.url],
      [
        "State",
        silentSince === null
          ? [
              mark(status.state === "serving" ? "good" : "warn", status.state),
              ", ",
              mark(REPLICA_STATE_LEVELS[status.replica_state] ?? "idle", status.replica_state),
            ]
          : [mark("bad", "does not answer"), ", ", mark("idle", `was ${status.replica_state}`)],
      ],
      status.cluster.length > 1 && silentSince === null && ["Other nodes", reachedOf(status)],
      [
        "Clock",
        status.clock.others_ahead_ms === undefined
          ? "alone"
          : `the others are ${count(Math.abs(status.clock.others_ahead_ms))} ms ${status.clock.others_ahead_ms < 0 ? "behind" : "ahead"}; ${status.clock.proven ? "most of them agree with this clock" : "most of them do not agree with this clock"}`,
      ],
      metrics.size > 0 && [
        "Process",
        `${bytes(metric("process_resident_memory_bytes"))} in memory, ${span(metric("process_cpu_seconds_total"))} of processor time, ${count(metric("process_threads"))} threads, ${count(metric("process_open_fds"))} open files`,
      ],
    ),
  );
}

/** How many others a node reaches. */
function reachedOf(status) {
  const others = status.cluster.filter(({ state: what }) => what !== "this node");
  const reached = others.filter(({ state: what }) => what === "up").length;
  if (reached === others.length) return mark("good", `reaches all ${reached}`.replace("all 1", "the other one"));
  if (reached > 0) return mark("warn", `reaches ${reached} of ${others.length}`);
  const done = doneTo(status.name);
  return [
    mark("bad", `reaches none of ${others.length}${done ? ` (${done[1]})` : ""}`),
    ": requests that need another replica fail here, and it cannot know how the others are. ",
    done ? null : runbookLink("A node is down or silent"),
  ];
}

/** The store as a picture: a write passes from the top to the bottom. */
function storeSection(status, metrics, report) {
  const metric = (name) => metrics.get(name) ?? 0;
  const stalls = metric("kvorum_store_stalls_total");
  const slowdowns = metric("kvorum_store_slowdowns_total");
  const hits = metric("kvorum_store_cache_hits_total");
  const misses = metric("kvorum_store_cache_misses_total");
  const queue = metric("kvorum_store_write_queue_bytes");
  const amplification = (name) => (metric(name) > 0 ? digits(metric(name)) : "–");
  return section(
    "The store",
    h(
      "p",
      { class: "hint" },
      "Writes move from the top to the bottom. A read stops where no deeper level can hold a newer version.",
    ),
    storeAxis(),
    h(
      "ol",
      { class: "store" },
      storeRow(
        "Log",
        status.store.log_bytes,
        bytes(status.store.log_bytes),
        `${count(metric("kvorum_store_commits_total"))} groups of writes in ${count(metric("kvorum_store_log_syncs_total"))} syncs`,
      ),
      storeRow(
        "Memtables",
        metric("kvorum_store_memtable_bytes"),
        `${bytes(metric("kvorum_store_memtable_bytes"))} of ${bytes(metric("kvorum_store_memtable_max_bytes"))}`,
        `${counted(metric("kvorum_store_memtable_entries"), "version")}, ${count(metric("kvorum_store_memtables_frozen"))} frozen`,
      ),
      Array.from({ length: 7 }, (_, level) => {
        const size = metric(`kvorum_store_level_bytes{level="${level}"}`);
        const tables = metric(`kvorum_store_level_tables{level="${level}"}`);
        const most =
          level === 0
            ? ` of ${count(metric("kvorum_store_level_zero_tables_max"))} at which writers wait`
            : "";
        return size === 0
          ? storeRow(`Level ${level}`, 0, "empty", most && `0${most}`)
          : storeRow(`Level ${level}`, size, bytes(size), `${counted(tables, "table")}${most}`);
      }),
    ),
    facts(
      [
        "Cache",
        bar(
          metric("kvorum_store_cache_bytes") / metric("kvorum_store_cache_max_bytes"),
          "how full the cache is",
        ),
        ` ${bytes(metric("kvorum_store_cache_bytes"))} of ${bytes(metric("kvorum_store_cache_max_bytes"))}`,
        hits + misses > 0 ? `, ${digits((hits / (hits + misses)) * 100)}% of lookups found their block` : "",
      ],
      [
        "Stalls of writers",
        mark(stalls > 0 ? "warn" : "good", `${counted(stalls, "stall")}, ${counted(slowdowns, "slowdown")}`),
        queue > 0 ? `; ${bytes(queue)} wait` : "",
      ],
      ["Write amplification", amplification("kvorum_store_write_amplification")],
      ["Space amplification", amplification("kvorum_store_space_amplification")],
      [
        "Versions",
        `${count(status.store.entries)}, ${count(status.store.tombstones)} of them tombstones in tables`,
      ],
      [
        "Disk",
        `${diskFree({ free_bytes: metric("kvorum_disk_free_bytes"), disk_bytes: report?.disk_bytes })}, ${bytes(metric("kvorum_disk_reserve_bytes"))} kept for deletes`,
      ],
    ),
  );
}

/** The sizes that the axis above the layers names, in bytes. */
const STORE_TICKS = [2 ** 10, 2 ** 20, 2 ** 30, 2 ** 40];

/** Where a size lies on the axis of the store, from 0 for 1 KiB to 1 for 4 TiB: its logarithm. */
function storeShare(size) {
  return Math.min(1, Math.max(0, Math.log2(size / 1024) / 32));
}

/** The axis of the bars of the store. */
function storeAxis() {
  const ticks = STORE_TICKS.map((size) => styled(h("span", {}, bytes(size)), "left", `${storeShare(size) * 100}%`));
  return h("p", { class: "store-axis", "aria-hidden": "true" }, h("span", { class: "ticks" }, ticks));
}

/**
 * A layer of the store. The length of its bar grows with the logarithm of its size,
 * because each level may hold ten times that of the one above.
 */
function storeRow(name, size, amount, remark) {
  const share = size > 0 ? Math.max(0.02, storeShare(size)) : 0;
  const layer = styled(h("i", { class: "layer" }), "width", `${(share * 100).toFixed(1)}%`);
  return h(
    "li",
    { class: size === 0 && "empty-layer" },
    h("span", { class: "name" }, name),
    h("span", { class: "room" }, layer),
    h("b", {}, amount),
    h("span", { class: "remark" }, remark),
  );
}

/** What the reader may order of the node. */
function orders(hasPeers) {
  const said = h("p", { class: "note", role: "status" });
  const button = (word, path) =>
    h(
      "button",
      {
        type: "button",
        onclick: async () => {
          said.textContent = "Asking …";
          try {
            const answer = await order(path);
            said.textContent = `${word}: ${answer.state}${answer.joined ? ", one was running" : ""}.`;
          } catch (problem) {
            said.textContent = `${word}: ${problem.message}.`;
          }
        },
      },
      word,
    );
  return [
    h(
      "p",
      { class: "row" },
      button("Compact everything", "/v0/admin/compact"),
      hasPeers
        ? [button("Repair", "/v0/admin/repair"), button("Full repair", "/v0/admin/repair?full=true")]
        : null,
    ),
    said,
  ];
}

/** How much of each bounded resource is in use. */
function limitsSection(metrics) {
  const rows = [
    ["Running requests", "kvorum_requests_in_flight", "kvorum_requests_in_flight_max", count],
    ["Waiting requests", "kvorum_requests_queued", "kvorum_requests_queued_max", count],
    ["Waiting reads", "kvorum_reads_queued", "kvorum_reads_queued_max", count],
    ["Connections", "kvorum_connections", "kvorum_connections_max", count],
    ["Scans", "kvorum_scans", "kvorum_scans_max", count],
    ["Uploads", "kvorum_upload_bytes", "kvorum_upload_max_bytes", bytes],
    ["Long answers", "kvorum_answer_bytes", "kvorum_answer_max_bytes", bytes],
    ["Requests of other nodes", "kvorum_peer_request_bytes", "kvorum_peer_request_max_bytes", bytes],
    [
      "Writes that wait for their commit",
      "kvorum_store_write_queue_bytes",
      "kvorum_store_write_queue_max_bytes",
      bytes,
    ],
  ];
  const known = rows.filter(([, used]) => metrics.has(used));
  return section(
    "Limits",
    table(
      "Limits of the node",
      ["What", { text: "Now", number: true }, { text: "Limit", number: true }, "Share"],
      known.map(([name, used, most, format]) => [
        name,
        format(metrics.get(used)),
        format(metrics.get(most)),
        bar(metrics.get(used) / metrics.get(most), `${name}: share in use`),
      ]),
    ),
  );
}
