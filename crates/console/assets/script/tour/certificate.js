// --- What was predicted on the tour, and the certificate of it ---

/**
 * The first prediction of each step that was taken, with what came true, by the index of the
 * step. A step that is run again does not change what was predicted.
 *
 * @type {Map<number, {guess: number, truth: number}>}
 */
const predictions = keptPredictions();

/** The predictions that the tab has kept over a reload. */
function keptPredictions() {
  try {
    const kept = JSON.parse(keptInTab("kvorum-tour") ?? "[]");
    return new Map(kept.filter(([index, { guess, truth }]) => [guess, truth].every((at) => at in TOUR[index].answers)));
  } catch {
    return new Map();
  }
}

/** Notes what was predicted of a step, and what came true. The first time counts. */
function notePrediction(index, prediction) {
  if (predictions.has(index)) return;
  predictions.set(index, prediction);
  keepInTab("kvorum-tour", JSON.stringify(Array.from(predictions)));
}

/** What the reader says that 2/3 means. */
let explanation = keptInTab("kvorum-explanation") ?? "";

/** The field for it. */
function explanationField() {
  const text = h("textarea", {
    id: "explanation",
    rows: "4",
    maxlength: "2000",
    oninput: () => {
      explanation = text.value;
      keepInTab("kvorum-explanation", explanation);
    },
  });
  text.value = explanation;
  const label = h("label", { for: "explanation" }, "What 2/3 means, and why it is enough, in your own words");
  return h("div", { class: "explanation" }, label, text);
}

/** Forgets what was predicted and explained. */
function forgetTour() {
  predictions.clear();
  explanation = "";
  keepInTab("kvorum-tour", null);
  keepInTab("kvorum-explanation", null);
}

/** How many steps were taken, and in how many the prediction came true. */
function scoreOf() {
  const taken = Array.from(predictions.values());
  return { taken: taken.length, right: taken.filter(({ guess, truth }) => guess === truth).length };
}

/** How far the reader is, and the score; `startAgain` forgets it. */
function tourProgress(startAgain) {
  const { taken, right } = scoreOf();
  const said = taken === 0 ? `${TOUR.length} steps` : `${taken} of ${TOUR.length} steps, ${right} as predicted`;
  return h(
    "p",
    { class: "progress" },
    h("progress", { max: TOUR.length, value: taken, "aria-label": "Steps of the tour that were taken" }),
    h("span", {}, said),
    taken === 0 ? null : h("button", { type: "button", "data-focus": "start again", onclick: startAgain }, "Start again"),
  );
}

/** The steps, as links, each with how its prediction ended, and the certificate after them. */
function stepList(current) {
  const item = (title, index, sign, meaning) =>
    h(
      "li",
      {},
      h(
        "a",
        {
          href: hrefOf("tour", { step: String(index + 1) }),
          "aria-current": index === current ? "step" : undefined,
          class: sign ? "taken" : undefined,
        },
        sign && h("span", { class: `sign ${sign === "✓" ? "good" : "warn"}`, role: "img", "aria-label": meaning }, sign),
        ` ${title}`,
      ),
    );
  const steps = TOUR.map(({ title }, index) => {
    const taken = predictions.get(index);
    if (!taken) return item(title, index);
    return taken.guess === taken.truth ? item(title, index, "✓", "as predicted:") : item(title, index, "✗", "not as predicted:");
  });
  return h("ol", { class: "steps", "aria-label": "Steps" }, steps, h("li", { class: "last" }, item("Certificate", TOUR.length).firstChild));
}

/** The certificate: each step with what the reader predicted and what came true. */
function certificate() {
  const { taken, right } = scoreOf();
  const name = h("input", { id: "certified", autocomplete: "name", placeholder: "your name", maxlength: "80" });
  const rows = TOUR.map(({ title, answers }, index) => {
    const prediction = predictions.get(index);
    if (!prediction) return [title, "–", mark("idle", "not taken")];
    const { guess, truth } = prediction;
    return [title, answers[guess], guess === truth ? mark("good", "came true") : [mark("warn", "it was: "), answers[truth]]];
  });
  const said = h("p", { class: "note", role: "status" });
  const asText = () =>
    [
      `Tour of Kvorum ${state.status?.version ?? ""}, ${dayOf(Date.now())}${name.value ? `, ${name.value}` : ""}`,
      `${right} of ${TOUR.length} predictions came true.`,
      ...TOUR.map(({ title, answers }, index) => {
        const prediction = predictions.get(index);
        if (!prediction) return `- ${title}: not taken`;
        const { guess, truth } = prediction;
        return `- ${title}: predicted “${answers[guess]}”${guess === truth ? ", which came true" : `; it was “${answers[truth]}”`}`;
      }),
      ...(explanation ? ["What 2/3 means, and why it is enough:", explanation] : []),
    ].join("\n");
  return [
    h(
      "section",
      { class: "certificate" },
      h("h2", { tabindex: "-1" }, "Certificate"),
      h("p", { class: "lead" }, taken === 0 ? "No step was taken yet." : `${right} of ${TOUR.length} predictions came true.`),
      h("p", { class: "hint" }, `On three real nodes of Kvorum ${state.status?.version ?? ""}, ${dayOf(Date.now())}.`),
      h("p", { class: "row" }, h("label", { for: "certified" }, "For"), name),
      table("What was predicted", ["Step", "You predicted", "What happened"], rows),
      explanationField(),
    ),
    taken < TOUR.length && nextLink(firstLeft()),
    h(
      "p",
      { class: "row" },
      h("button", { type: "button", class: "main", onclick: () => print() }, "Print"),
      h(
        "button",
        {
          type: "button",
          onclick: async () => {
            said.textContent = (await copied(asText())) ? "Copied." : "This browser does not let a page copy.";
          },
        },
        "Copy as text",
      ),
    ),
    said,
  ];
}

/** The first step that was not taken. */
function firstLeft() {
  return TOUR.findIndex((_, index) => !predictions.has(index));
}

/** A day, in the reader's own time. */
function dayOf(unixMs) {
  return new Date(unixMs).toLocaleDateString("sv-SE");
}
