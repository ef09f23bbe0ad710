// --- Runbooks ---

/** How many characters of a section a found passage shows around what was searched. */
const PASSAGE_LENGTH = 90;

/** A link to a runbook. */
function runbookLink(heading) {
  return h(
    "a",
    { href: hrefOf("runbooks", { at: anchorOf(heading) }), "data-focus": `runbook ${heading}` },
    `Runbook: ${heading}`,
  );
}

/** The page of runbooks: the operator's handbook, with its contents and a search. */
function runbooksPage(root) {
  const body = h("article", { class: "prose" }, h("p", { class: "note" }, "Reading …"));
  const search = h("input", {
    id: "find",
    type: "search",
    autocomplete: "off",
    placeholder: "an alert, a word",
    oninput: () => find(search.value),
  });
  const said = h("p", { class: "note", role: "status" });
  const list = h("ul", { class: "contents-list" });
  const contents = h(
    "nav",
    { class: "contents", "aria-label": "Contents" },
    h(
      "form",
      {
        class: "row",
        role: "search",
        onsubmit: (event) => {
          event.preventDefault();
          list.querySelector("a")?.click();
        },
      },
      h("label", { for: "find" }, "Search"),
      search,
    ),
    said,
    list,
  );
  root.replaceChildren(h("div", { class: "handbook" }, contents, body));
  let sections = [];
  let current = null;
  const read = ask("/console/runbooks.md", { accept: "text/markdown" })
    .then((answer) => answer.text())
    .then((text) => {
      replace(body, markdown(text));
      // Links to pages that are not here are plain words.
      for (const link of body.querySelectorAll("a")) {
        const at = new URLSearchParams(link.hash.split("?")[1]).get("at");
        if (!body.querySelector(`[id="${at}"]`)) link.replaceWith(...link.childNodes);
      }
      sections = sectionsOf(body);
      find("");
    })
    .catch((problem) => replace(body, h("p", {}, `The runbooks cannot be read: ${problem.message}.`)));

  /** Lists the sections that have all words; without words the pages, and the sections of this one. */
  function find(words) {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    if (wanted.length === 0) {
      said.textContent = "";
      const here = sections.find(({ heading }) => heading.id === current) ?? sections[0];
      return drawList(sections.filter(({ level, page }) => level === 1 || page === here?.page));
    }
    const found = sections.filter(({ title, text }) =>
      wanted.every((word) => `${title} ${text}`.toLowerCase().includes(word)),
    );
    const hasInTitle = ({ title }) => wanted.some((word) => title.toLowerCase().includes(word));
    said.textContent = found.length === 0 ? "Nothing has these words." : `${counted(found.length, "section")}.`;
    drawList([...found.filter(hasInTitle), ...found.filter((each) => !hasInTitle(each))], wanted);
  }

  function drawList(shown, words = null) {
    replace(
      list,
      shown.map(({ title, heading, level, text }) =>
        h(
          "li",
          { class: words ? "found" : `level-${level}` },
          h(
            "a",
            {
              href: hrefOf("runbooks", { at: heading.id }),
              "aria-current": heading.id === current ? "true" : undefined,
              "data-focus": `contents ${heading.id}`,
            },
            title,
          ),
          words ? passage(text, words) : null,
        ),
      ),
    );
  }

  /** Marks in the contents what is read. */
  function follow() {
    const above = sections.filter(({ heading }) => heading.getBoundingClientRect().top < 130);
    const now = above.at(-1)?.heading.id ?? sections[0]?.heading.id ?? null;
    if (now === current) return;
    current = now;
    if (search.value === "") find("");
  }

  addEventListener("scroll", follow, { passive: true });
  return {
    title: "Runbooks",
    leave: () => removeEventListener("scroll", follow),
    route(query) {
      read.then(() => {
        const heading = document.getElementById(query.get("at") ?? "");
        heading?.scrollIntoView();
        heading?.focus({ preventScroll: true });
        follow();
      });
    },
    update() {},
  };
}

/** The sections of the handbook: each heading of the first two levels with its text and its page. */
function sectionsOf(body) {
  const sections = [];
  for (const element of body.children) {
    const level = { H1: 1, H2: 2 }[element.tagName];
    if (level) {
      const page = level === 1 ? element.id : sections.at(-1)?.page;
      sections.push({ heading: element, title: element.textContent, level, page, text: "" });
    } else if (sections.length > 0) sections.at(-1).text += ` ${element.textContent}`;
  }
  return sections;
}

/** A passage of a text with the first of these words that is in it, which is marked. */
function passage(text, words) {
  const lower = text.toLowerCase();
  const word = words.find((each) => lower.includes(each));
  if (word === undefined) return null;
  const at = lower.indexOf(word);
  const begin = Math.max(0, at - PASSAGE_LENGTH / 3);
  const end = at + word.length;
  return h(
    "p",
    {},
    `${begin > 0 ? "… " : ""}${text.slice(begin, at)}`,
    h("mark", {}, text.slice(at, end)),
    `${text.slice(end, end + PASSAGE_LENGTH / 1.5)} …`,
  );
}
