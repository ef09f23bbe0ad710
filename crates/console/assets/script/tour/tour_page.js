// --- The tour: predict, do, see ---

/** Ends with what the tour does to the nodes: one thing after another. */
let tourWork = Promise.resolve();

/** How many steps run or wait: while one does, nodes may be broken. */
let stepsBegun = 0;

/** Does something to the nodes once all is done that was begun before. */
function inTurn(work) {
  tourWork = tourWork.then(work);
  return tourWork;
}

// Who closes the tab leaves no broken node and no keys behind.
addEventListener("pagehide", () => {
  if (stepsBegun > 0) lastRequest("/dev/heal", { method: "POST", body: "{}" });
  dismissAtEnd();
  for (const key of tourKeys) lastRequest(entityPath(key), { method: "DELETE" });
});

/** The page of the tour. */
function tourPage(root) {
  let step = null;

  /** Begins the tour anew, without a score. */
  function startAgain() {
    forgetTour();
    history.replaceState(null, "", hrefOf("tour"));
    show(0);
    root.querySelector("h2").focus();
  }

  /** Draws a step from its beginning. */
  function show(index) {
    const isNext = step !== null && step !== index;
    if (step !== null) inTurn(deleteTourKeys);
    step = index;
    if (index === TOUR.length) {
      root.replaceChildren(
        h("h1", { class: "hidden" }, "Tour"),
        h("div", { class: "tour-head" }, stepList(index), tourProgress(startAgain)),
        h("div", { class: "prose" }, present(certificate())),
      );
      if (isNext) root.querySelector("h2").focus();
      return;
    }
    const head = h("div", { class: "tour-head" }, stepList(index), tourProgress(startAgain));
    const { title, lesson, question, answers, run, seen, grows } = TOUR[index];
    const names = (state.status?.cluster ?? []).map((member) => member.name).filter((name) => name !== FOURTH);
    const stage = stageOf(grows ? [...names, FOURTH] : names);
    if (grows) stage.be(FOURTH, "absent");
    const log = h("ol", { class: "log", tabindex: "-1", "aria-live": "polite", "aria-label": "What happened" });
    const outcome = h("div", { class: "outcome", role: "status" });
    const button = h("button", { type: "button", class: "main", disabled: true, "aria-describedby": "choose-first" }, "Run the step");
    const first = h("span", { class: "hint", id: "choose-first" }, "Choose an answer first.");
    let guess = null;
    const options = answers.map((text, at) =>
      h(
        "label",
        {},
        h("input", {
          type: "radio",
          name: "guess",
          value: at,
          onchange: () => {
            guess = at;
            button.disabled = false;
            first.textContent = "";
          },
        }),
        text,
      ),
    );
    const say = (text, level = "") => {
      log.append(h("li", { class: level }, text));
      log.scrollTop = log.scrollHeight;
    };
    button.addEventListener("click", async () => {
      if (outcome.childElementCount > 0) {
        show(index);
        return void root.querySelector("h2").focus();
      }
      // A button that is disabled loses the focus: it goes to what happens, and then to the result.
      log.focus({ preventScroll: true });
      log.parentElement.scrollIntoView({ block: "nearest" });
      button.disabled = true;
      options.forEach((option) => (option.firstChild.disabled = true));
      if (stepsBegun > 0) say("Waiting for the previous step …", "idle");
      stepsBegun += 1;
      await inTurn(runStep);
      stepsBegun -= 1;
      button.disabled = false;
      button.textContent = "Run again";
      button.className = "";
    });

    /** Runs the step, tells what came true, and heals what it broke. */
    async function runStep() {
      const cast = castOf([...names], stage, say);
      try {
        await cast.healed();
        const truth = await run(cast);
        notePrediction(index, { guess, truth });
        if (step === index) replace(head, stepList(index), tourProgress(startAgain));
        replace(
          outcome,
          outcomeOf(answers, guess, truth, seen ?? cast.seen),
          index + 1 < TOUR.length ? nextLink(index + 1) : endOfTour(),
        );
      } catch (problem) {
        replace(outcome, h("p", { class: "receipt bad", tabindex: "-1" }, `The step failed: ${problem.message}.`));
      }
      if (document.activeElement === log) outcome.querySelector("[tabindex]").focus({ preventScroll: true });
      // On a phone it is above what was watched.
      outcome.scrollIntoView({ block: "nearest" });
      await cast.end().catch((problem) => say(`Not everything is healed: ${problem.message}.`, "bad"));
    }
    root.replaceChildren(
      h("h1", { class: "hidden" }, "Tour"),
      head,
      h(
        "div",
        { class: "tour" },
        h(
          "div",
          { class: "telling" },
          index === 0 ? h("p", { class: "hint" }, TOUR_BEGIN) : null,
          h("h2", { tabindex: "-1" }, `${index + 1}. ${title}`),
          h("p", {}, lesson),
          h("fieldset", {}, h("legend", {}, question), options),
          h("p", { class: "row" }, button, first),
          outcome,
        ),
        h("div", { class: "showing" }, stage.picture, log),
      ),
    );
    // The link to it is gone, and with it the focus.
    if (isNext) root.querySelector("h2").focus();
  }

  return {
    title: "Tour",
    leave: () => inTurn(deleteTourKeys),
    route(query) {
      // Without the token of the supervisor nobody knows, and the bar above says what to do.
      if (!dev && SUPERVISED !== undefined) return;
      if (!dev?.hasTour) return void replace(root, howToStart());
      if (!state.status) return;
      const wanted = Math.max(1, Math.min(TOUR.length + 1, parseInt(query.get("step"), 10) || 1)) - 1;
      if (wanted !== step) show(wanted);
    },
    update() {},
  };
}

/** What came true, beside what was predicted. */
function outcomeOf(answers, guess, truth, seen) {
  const isRight = guess === truth;
  return [
    h("h3", { tabindex: "-1" }, mark(isRight ? "good" : "warn", isRight ? "As you predicted" : "Not as you predicted")),
    isRight ? null : h("p", {}, `You said: ${answers[guess]}. It was: ${answers[truth]}.`),
    h("p", {}, seen),
  ];
}

function nextLink(index) {
  return h(
    "p",
    {},
    h(
      "a",
      { class: "button", href: hrefOf("tour", { step: String(index + 1) }) },
      `Next: ${TOUR[index].title}`,
    ),
  );
}

/** The last word: the reader explains what was learned, and compares. */
function endOfTour() {
  return [
    h("h3", {}, "Now you"),
    h("p", {}, "Explain to a colleague what you have seen. It goes onto your certificate."),
    explanationField(),
    h(
      "details",
      {},
      h("summary", {}, "Compare"),
      h(
        "ul",
        { class: "said" },
        TOUR_END.map((sentence) => h("li", {}, sentence)),
      ),
    ),
    h(
      "p",
      {},
      h("a", { class: "button", href: hrefOf("tour", { step: String(TOUR.length + 1) }) }, "Your certificate"),
    ),
    h(
      "p",
      {},
      "That was the tour. Look around in ",
      h("a", { href: hrefOf("cluster") }, "the cluster"),
      ", and inject faults yourself.",
    ),
  ];
}

/** What is said where there is no local cluster. */
function howToStart() {
  return h(
    "div",
    { class: "prose" },
    h("h1", {}, "The tour breaks nodes"),
    h(
      "p",
      {},
      "So it runs only on a local cluster of three nodes. Start one with ",
      h("code", {}, "kvorum dev"),
      ", and open the address of the console that it prints.",
    ),
  );
}
