// --- The page of keys ---

/** How many keys a list gets at a time. */
const KEYS_MAX = 100;

/** The page of keys: a list by prefix, and beside it one key. */
function keysPage(root, state) {
  const prefixInput = h("input", {
    id: "prefix",
    type: "search",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "all keys",
    autocapitalize: "off",
  });
  const list = h("ul", { class: "keys", "aria-label": "Keys" });
  const note = h("p", { class: "note", role: "status" });
  const more = h("button", { type: "button", hidden: true, onclick: () => load(true) }, "More");
  const detail = h("div", { class: "detail" });
  const browser = h(
    "div",
    { class: "browser" },
    h(
      "form",
      {
        class: "row",
        role: "search",
        onsubmit: (event) => {
          event.preventDefault();
          go("keys", { prefix: prefixInput.value });
        },
      },
      h("label", { for: "prefix" }, "Begins with"),
      prefixInput,
      h("button", {}, "List"),
    ),
    h("p", { class: "row" }, h("a", { class: "button", href: hrefOf("keys", { new: "1" }) }, "New key")),
    note,
    list,
    more,
  );
  root.replaceChildren(h("h1", { class: "hidden" }, "Keys"), h("div", { class: "split" }, browser, detail));

  let prefix = null;
  let last = null;
  let view = null;
  let loads = 0;

  /** Gets the first keys of the prefix, or the next ones. */
  async function load(isMore) {
    const mine = (loads += 1);
    note.textContent = "Asking all nodes …";
    try {
      const keys = await askLines(`/v0/entities?${rangeQuery(prefix, isMore ? last : null)}`);
      if (mine !== loads) return;
      const items = keys.slice(0, KEYS_MAX).map(keyItem);
      if (isMore) list.append(...items);
      else replace(list, items);
      last = keys.length > KEYS_MAX ? keyOf(keys[KEYS_MAX - 1]) : null;
      more.hidden = last === null;
      const shown = list.children.length;
      note.textContent =
        shown === 0
          ? "There is no such key."
          : `${counted(shown, "key")}${last ? ", and there are more" : ""}.`;
      markChosen();
    } catch (problem) {
      if (mine === loads) note.textContent = `The keys cannot be listed: ${problem.message}.`;
    }
  }

  /** A line of the list. */
  function keyItem(line) {
    const label = keyLabel(keyOf(line));
    const id = percent(keyOf(line));
    return h(
      "li",
      {},
      h(
        "a",
        {
          href: hrefOf("keys", { prefix, key: id }),
          "data-key": id,
          "data-focus": `key ${id}`,
        },
        label,
      ),
      line.expires ? countdown(line.expires) : null,
    );
  }

  /** Marks the key that is shown. */
  function markChosen() {
    for (const link of list.querySelectorAll("a")) {
      if (link.dataset.key === view?.id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  return {
    title: "Keys",
    route(query) {
      if (!state.status) return;
      const wanted = query.get("prefix") ?? "";
      if (wanted !== prefix) {
        prefix = wanted;
        prefixInput.value = wanted;
        load(false);
      }
      const id = query.get("key");
      root.querySelector(".split").classList.toggle("shows", id !== null || query.has("new"));
      if (id !== null && id === view?.id) return;
      if (id !== null) view = keyView(detail, id, state, () => load(false));
      else if (query.has("new")) view = newKeyView(detail, prefix);
      else {
        view = null;
        replace(
          detail,
          h("p", { class: "empty" }, "Choose a key to see its value and where its replicas are."),
        );
      }
      markChosen();
    },
    update() {
      view?.update?.();
    },
  };
}

/** The query of a range of the cluster: keys that begin with a prefix and come after `last`. */
function rangeQuery(prefixLabel, last) {
  const common = `scope=cluster&values=omit&limit=${KEYS_MAX + 1}`;
  const prefix = keyOfLabel(prefixLabel);
  const start = last ? `${percent(last)}%00` : percent(prefix) || "%00";
  const end = prefix.length > 0 ? afterPrefix(prefix) : null;
  return `${common}&start=${start}${end ? `&end=${percent(end)}` : ""}`;
}

/** The key of a line of a range. */
function keyOf(line) {
  return line.key_base64 === undefined ? new TextEncoder().encode(line.key) : fromBase64(line.key_base64);
}

/** The form that names a key that need not exist. */
function newKeyView(detail, prefix) {
  const input = h("input", {
    id: "new-key",
    required: true,
    autocomplete: "off",
    spellcheck: "false",
    autocapitalize: "off",
    value: prefix,
  });
  replace(
    detail,
    h("p", { class: "back" }, h("a", { href: hrefOf("keys", { prefix }) }, "← Keys")),
    h("h2", {}, "New key"),
    h(
      "form",
      {
        class: "stack",
        onsubmit: (event) => {
          event.preventDefault();
          go("keys", { prefix, key: percent(keyOfLabel(input.value)), edit: "1" });
        },
      },
      h("label", { for: "new-key" }, "Key"),
      input,
      h(
        "p",
        { class: "hint" },
        "1 to 4096 bytes. ",
        h("code", {}, "\\xFF"),
        " is a byte, ",
        h("code", {}, "\\\\"),
        " a backslash.",
      ),
      h("button", { class: "main" }, "Continue"),
    ),
  );
  input.focus();
  return {};
}

/** How long something will live, counted down every second. */
function countdown(expires) {
  const clock = h("time", {
    class: "expires",
    datetime: expires,
    "data-expires": String(Date.parse(expires)),
  });
  tickOne(clock);
  return clock;
}

/** Counts down all expiries that are on the page. */
function tickCountdowns() {
  document.querySelectorAll("[data-expires]").forEach(tickOne);
}

function tickOne(clock) {
  const left = (Number(clock.dataset.expires) - nodeNow()) / 1000;
  clock.textContent = left > 0 ? `expires in ${span(Math.ceil(left))}` : "expired";
}
