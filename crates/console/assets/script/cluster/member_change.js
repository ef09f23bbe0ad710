// --- A change of the members: how far it is, and what it waits for ---

/** What happens in each phase. */
const PHASE_WORDS = {
  copying: "The data is brought to its new places. Clients go on meanwhile.",
  settling: "All data is where it belongs. The change ends once all members have reported that.",
  aborting: "The change is undone. The members go back to the list that they had.",
};

/** What a change makes of the members, and how far it is; null without one. */
function memberChange(state) {
  const list = state.members;
  if (!list || list.removed) return null;
  const waiting = list.waiting.map(({ name, url }) =>
    h("p", {}, h("b", {}, name), ` at ${url} waits to join: `, h("code", {}, `kvorum admin members join ${name}`)),
  );
  if (list.phase === "stable") return waiting.length > 0 ? section("Waiting to join", waiting) : null;
  const named = (lists) => list.members.filter((member) => member.lists === lists).map(({ name }) => name);
  const [joining, leaving] = [named("new"), named("old")];
  const what = [
    joining.length > 0 && `${listed(joining)} ${joining.length === 1 ? "joins" : "join"}`,
    leaving.length > 0 && `${listed(leaving)} ${leaving.length === 1 ? "leaves" : "leave"}`,
  ].filter(Boolean);
  const waits = waitsOf(list);
  return section(
    `${what.join(", and ")}: ${list.phase}`,
    h("p", {}, PHASE_WORDS[list.phase] ?? ""),
    list.phase === "copying" && h("ul", { class: "gains" }, gainsOf(list, joining).map((gain) => gainLine(gain, state))),
    waits && h("p", { class: "waits" }, `It waits ${waits}.`),
    waiting,
    h("p", {}, runbookLink("A change of the members does not end")),
  );
}

/** The members that gain data: those that join, or else all that stay; with whose data they lack. */
function gainsOf({ members, missing_facts: facts }, joining) {
  const gaining = members.filter(({ name, lists, dead }) => !dead && (joining.length > 0 ? joining.includes(name) : lists === "both"));
  return gaining.map(({ name, has_data_of: has }) => ({
    name,
    has: has.length,
    lacks: facts.filter(({ node }) => node === name).map(({ data_of: of }) => of),
  }));
}

/** How much of its new data a member has, as a bar. */
function gainLine({ name, has, lacks }, state) {
  const rebuild = accountOf(name, state)?.status?.repair.rebuild;
  const share = lacks.length === 0 ? 1 : (rebuild?.share ?? has / (has + lacks.length));
  const left = lacks.length > 0 && rebuild?.seconds_left !== undefined ? `, about ${span(rebuild.seconds_left)} left` : "";
  const came = rebuild ? `, ${bytes(rebuild.received_bytes)} received` : "";
  const words = lacks.length === 0 ? "has everything" : `${Math.round(share * 100)}%${came}${left}`;
  return h("li", {}, h("b", {}, name), bar(share, `${name}: ${words}`), h("span", {}, words));
}

/** What the change waits for, in words; null if its next step follows by itself. */
function waitsOf({ missing_reports: reports, missing_facts: facts }) {
  const nodes = Array.from(new Set(facts.map(({ node }) => node)));
  const parts = nodes.map((node) => `until ${node} has the data of ${listed(facts.filter((fact) => fact.node === node).map(({ data_of: of }) => of))}`);
  if (reports.length > 0) parts.unshift(`for a report of ${listed(reports)}`);
  return parts.length > 0 ? parts.join(", and ") : null;
}
