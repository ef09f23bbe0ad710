// --- The page of keys ---

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
  const filterInput = h("input", {
    id: "filter",
    type: "search",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "value.total > 100",
    autocapitalize: "off",
  });
  const list = h("ul", { class: "keys", "aria-label": "Keys" });
  const note = h("div", { class: "note", role: "status" });
  const more = h("button", { type: "button", hidden: true, onclick: () => load(true, true) }, "More");
  const detail = h("div", { class: "detail" });
  const place = h("nav", { class: "place", "aria-label": "Groups" });
  const flat = h("input", {
    type: "checkbox",
    onchange: () => go("keys", { prefix, where: condition, flat: flat.checked ? "1" : "" }),
  });
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
          go("keys", { ...here(), prefix: prefixInput.value, where: filterInput.value.trim() });
        },
      },
      h("label", { for: "prefix" }, "Begins with"),
      prefixInput,
      h("label", { for: "filter" }, "Matches"),
      filterInput,
      h("button", {}, "List"),
    ),
    h(
      "p",
      { class: "row" },
      h("button", { type: "button", onclick: () => go("keys", { ...here(), new: "1" }) }, "New key"),
      h("label", { class: "check" }, flat, " all keys in one list"),
    ),
    place,
    note,
    list,
    more,
  );
  root.replaceChildren(h("h1", { class: "hidden" }, "Keys"), h("div", { class: "split" }, browser, detail));

  let prefix = null;
  let condition = "";
  let isFlat = false;
  let next = null;
  let view = null;
  let loads = 0;

  /** Where the list is, as parameters of an address. */
  const here = () => ({ prefix, where: condition, flat: isFlat ? "1" : "" });

  /** Gets the first lines of the list, or the next ones. With `toFocus` the first of them gets the focus. */
  async function load(isMore, toFocus = false) {
    const mine = (loads += 1);
    note.textContent = "Asking all nodes …";
    list.setAttribute("aria-busy", "true");
    try {
      const found = await keyLines(keyOfLabel(prefix), isMore ? next : null, !isFlat, condition);
      if (mine !== loads) return;
      const items = found.lines.map(lineItem);
      if (isMore) list.append(...items);
      else replace(list, items);
      next = found.next;
      more.hidden = next === null;
      note.textContent = noteOf(list.children.length);
      if (toFocus) (items[0] ?? note).querySelector("a")?.focus();
      markChosen();
    } catch (problem) {
      if (mine === loads) drawProblem(problem);
    }
    list.removeAttribute("aria-busy");
  }

  /** Says why nothing is listed. A wrong condition is shown with the place below it. */
  function drawProblem(problem) {
    if (problem.body?.parameter !== "where")
      return void (note.textContent = `The keys cannot be listed: ${problem.message}.`);
    const [words, ...place] = problem.body.detail.split("\n");
    replace(list, []);
    more.hidden = true;
    replace(note, h("p", {}, words), h("pre", {}, place.join("\n")));
  }

  function noteOf(shown) {
    if (shown === 0 && condition !== "") return "No key matches.";
    if (shown === 0)
      return prefix === ""
        ? "There is no key yet: create one with New key."
        : "No key begins with this.";
    const groups = list.querySelectorAll(".group").length;
    const words = [groups > 0 && counted(groups, "group"), shown > groups && counted(shown - groups, "key")];
    return `${listed(words.filter(Boolean))}${next ? ", and there are more" : ""}.`;
  }

  /** A line of the list: a key, or a group of keys. */
  function lineItem(line) {
    const id = percent(line.key);
    const label = keyLabel(line.key);
    // What all lines begin with is quiet.
    const begin = keyLabel(keyOfLabel(prefix));
    const words = label.startsWith(begin) && !isFlat ? [h("span", {}, begin), label.slice(begin.length)] : [label];
    if (line.isGroup) {
      return h(
        "li",
        { class: "group" },
        h("a", { href: hrefOf("keys", { prefix: label }), "data-focus": `group ${id}` }, words),
      );
    }
    return h(
      "li",
      {},
      h("a", { href: hrefOf("keys", { ...here(), key: id }), "data-key": id, "data-focus": `key ${id}` }, words),
      line.expires ? countdown(line.expires) : null,
    );
  }

  /** The way from all keys to the prefix, and whether levels are shown. */
  function drawPlace() {
    const groups = groupsOf(keyOfLabel(prefix));
    const link = (words, label, isLast) =>
      h("a", { href: hrefOf("keys", { ...here(), prefix: label }), "aria-current": isLast ? "location" : undefined }, words);
    let before = 0;
    const parts = groups.map((group, index) => {
      const part = link(keyLabel(group.slice(before)), keyLabel(group), index === groups.length - 1);
      before = group.length;
      return part;
    });
    replace(place, link("all keys", "", groups.length === 0), parts);
    flat.checked = isFlat;
    // The link to this page leads back to where the reader was.
    const nav = document.querySelector("nav a[data-page=keys]");
    if (nav) nav.href = hrefOf("keys", here());
  }

  /** Marks the key that is shown. */
  function markChosen() {
    for (const link of list.querySelectorAll("a")) {
      if (view && link.dataset.key === view.id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  return {
    title: "Keys",
    route(query) {
      if (!state.status) return;
      const wanted = query.get("prefix") ?? "";
      const matched = query.get("where") ?? "";
      if (wanted !== prefix || matched !== condition || query.has("flat") !== isFlat) {
        const toFocus = prefix !== null && !query.has("key") && ![prefixInput, filterInput].includes(document.activeElement);
        prefix = wanted;
        condition = matched;
        isFlat = query.has("flat");
        prefixInput.value = wanted;
        filterInput.value = matched;
        drawPlace();
        load(false, toFocus && document.activeElement !== flat);
      }
      const id = query.get("key");
      root.querySelector(".split").classList.toggle("shows", id !== null || query.has("new"));
      if (id !== null && id === view?.id) return;
      const wasShown = view !== null;
      if (id !== null) view = keyView(detail, id, state, () => load(false));
      else if (query.has("new")) view = newKeyView(detail, here());
      else {
        view = null;
        replace(
          detail,
          h("p", { class: "empty" }, "Choose a key to see its value and where its replicas are."),
        );
        // What was open is closed: back to the list.
        if (wasShown) prefixInput.focus();
      }
      markChosen();
    },
    update() {
      view?.update?.();
    },
    /** Another node answers now. */
    askAgain() {
      if (prefix !== null) load(false);
      view?.askAgain?.();
    },
  };
}

/** The form that names a key that need not exist. */
function newKeyView(detail, here) {
  const input = h("input", {
    id: "new-key",
    required: true,
    autocomplete: "off",
    spellcheck: "false",
    autocapitalize: "off",
    value: here.prefix,
  });
  replace(
    detail,
    h("p", { class: "back" }, h("a", { href: hrefOf("keys", here) }, "← Keys")),
    h("h2", {}, "New key"),
    h(
      "form",
      {
        class: "stack",
        onsubmit: (event) => {
          event.preventDefault();
          go("keys", { ...here, key: percent(keyOfLabel(input.value)), edit: "1" });
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
