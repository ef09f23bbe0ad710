// --- What needs attention: of all nodes, and of the one that is silent ---

/** The state of the cluster in one sentence, as a node sees it. */
function leadOf(status) {
  const all = status.cluster.length;
  if (all === 1)
    return h("p", { class: "lead" }, `${status.name} is alone: it is the only replica of its keys.`);
  const up = status.cluster.filter((member) => ["this node", "up"].includes(member.state));
  const counting = up.filter((member) => ["voter", "forced_voter"].includes(member.replica_state)).length;
  const majority = Math.floor(all / 2) + 1;
  if (reachesNobody(status)) {
    const others = `none of the other ${all - 1} nodes, and ${majority} of ${all} must answer a request by default`;
    return h("p", { class: "lead bad" }, `${status.name} reaches ${others}: requests to it fail. How the others are, it cannot know.`);
  }
  const isEnough = counting >= majority;
  const more = counting < all ? "further " : "";
  const spare =
    counting === majority
      ? `no ${more}node may fail`
      : `${counted(counting - majority, `${more}node`)} may fail`;
  const nodes = up.length === all ? `All ${all} nodes are up` : `${up.length} of ${all} nodes ${up.length === 1 ? "is" : "are"} up`;
  const need = `${isEnough ? " and" : " but"} ${majority} of ${all} must answer a request by default`;
  const then = isEnough ? `: ${spare}.` : ": such requests fail.";
  return h("p", { class: isEnough ? "lead" : "lead bad" }, `${nodes},${need}${then}`);
}

/** The nodes that the others do not reach and still take for up, as the supervisor knows. */
function unnoticed(seen) {
  return seen.cluster.filter(({ name, state: what }) =>
    what === "up"
      ? isUnreachable(name)
      : what === "this node" && (isAway(name) || (isUnreachable(name) && !reachesNobody(seen))),
  );
}

/** What stands in its place until they notice. */
function unnoticedLead(members) {
  const words = members.map(({ name }) => `${name} (${doneTo(name)[1]})`);
  return h("p", { class: "lead" }, `${listed(words)} ${words.length === 1 ? "is" : "are"} away, and not every node has noticed yet.`);
}

/** What stands in its place while nobody answers. */
function oldLead(since) {
  return h("p", { class: "lead bad" }, `How the cluster is now is not known: what you see is of ${timeOf(since)}.`);
}

/** The list of what needs attention, as a node says of all of them. */
function adviceList({ advice, adviceFailure }) {
  if (adviceFailure)
    return h("p", { class: "calm" }, `What needs attention is not known: ${adviceFailure.message}.`);
  const isCalm = advice?.every((item) => item.severity === "note");
  // Nobody has missed yet what the reader broke.
  if (!advice || (isCalm && state.devNodes.some(({ name }) => isUnreachable(name))))
    return h("p", { class: "calm" }, "Asking all nodes …");
  const notes = advice.length === 1 ? "one note" : counted(advice.length, "note");
  const calm = advice.length === 0 ? "Nothing needs attention." : `Nothing needs attention now; ${notes}:`;
  return [
    isCalm ? h("p", { class: "calm" }, mark("good", calm)) : null,
    advice.length === 0
      ? null
      : h("ul", { class: "advice", "aria-label": "What needs attention" }, advice.map(adviceItem)),
  ];
}

function adviceItem({ severity, node, what, remedy, runbook }) {
  return h(
    "li",
    { class: severity },
    h("p", {}, h("b", {}, node ?? "cluster"), `: ${what}. ${remedy}.`),
    h("p", {}, runbookLink(runbook)),
  );
}

/** A time of day, in the reader's own time. */
function timeOf(unixMs) {
  return new Date(unixMs).toLocaleTimeString("sv-SE");
}

/**
 * The bar above all pages that says that the node that serves them is gone, since when, and where
 * to look instead. It stays as it is while nothing changes, so that it is read out once.
 *
 * @param {(number: number) => void} lookThrough shows a local cluster through another of its nodes
 */
function goneBar(lookThrough) {
  const element = h("div", { class: "gone", role: "alert", hidden: true });
  let drawn = "";
  const through = ({ name, url, number }) =>
    dev
      ? h("button", { type: "button", onclick: () => lookThrough(number) }, `Look through ${name}`)
      : h("a", { class: "button", href: url, rel: "noreferrer" }, h("b", {}, name), ` ${url}`);
  return {
    element,
    update({ status, statusAt, failure, devNodes }) {
      const name = servedName();
      const now = failure ? `${statusAt} ${failure.message} ${name} ${devNodes.length}` : "";
      if (now === drawn) return;
      drawn = now;
      element.hidden = failure === null;
      if (!failure) return void element.replaceChildren();
      const since = statusAt > 0 ? ` has not answered since ${timeOf(statusAt)}` : " does not answer";
      const isAllGone = dev && failure.status === 0;
      const links = (dev ? devNodes : (status?.cluster ?? [])).filter((node) => node.name !== name);
      if (isRefused(failure)) return void replace(element, h("p", {}, TOKEN_REMEDY));
      replace(
        element,
        h(
          "p",
          {},
          isAllGone
            ? "kvorum dev does not answer. Start it again, and open the address that it prints."
            : [h("b", {}, name), `, which serves this page,${since}. `, statusAt > 0 ? "What you see of it is from then. " : "", dev ? "" : runbookLink("A node is down or silent")],
        ),
        isAllGone || links.length === 0 ? null : h("p", { class: "row" }, links.map(through)),
      );
    },
  };
}
