// --- The node that served this page ---

/** How long an answer may take that no one has chosen to wait for. */
const ANSWER_MS_MAX = 20000;

/** The token of the reader. It lives in the memory of this page only. */
let token = null;

/** The question for a token that is on the screen, if there is one. */
let askedForToken = null;

/** A request that failed, with what the node said of it. */
class Problem extends Error {
  /**
   * @param {number} status the status; 0 if nobody was reached, 504 if the answer came too late
   * @param {Object} [body] the problem document
   * @param {Headers} [headers] of the answer
   */
  constructor(status, body = {}, headers = new Headers()) {
    super(body.detail || body.title || `the node answered ${status}`);
    this.status = status;
    this.body = body;
    this.headers = headers;
  }
}

/**
 * Sends a request, and returns the answer if it is a success or a 304.
 *
 * @param {string} path path and query, on the node that answers
 * @param {{method?: string, accept?: string, body?: BodyInit, type?: string, tag?: string|null,
 *   wait?: number}} [options] `tag`: of the value that the request replaces, and no other; `wait`: for
 *   how many milliseconds the answer may take
 * @returns {Promise<Response>}
 * @throws {Problem} for any other answer, and for none
 */
async function ask(path, options = {}) {
  const headers = new Headers({ Accept: options.accept ?? "application/json" });
  if (options.type) headers.set("Content-Type", options.type);
  if (options.tag) headers.set("If-Match", options.tag);
  for (;;) {
    const used = token;
    if (used) headers.set("Authorization", `Bearer ${used}`);
    if (dev) headers.set("Kvorum-Dev", dev.token);
    let answer;
    try {
      answer = await fetch(reached(path), {
        method: options.method ?? "GET",
        body: options.body,
        headers,
        cache: "no-store",
        credentials: "omit",
        redirect: "error",
        signal: AbortSignal.timeout(options.wait ?? ANSWER_MS_MAX),
      });
    } catch (error) {
      const isLate = error.name === "TimeoutError";
      throw new Problem(isLate ? 504 : 0, { detail: "the node does not answer" });
    }
    if (answer.ok) return answer;
    const body = await answer.json().catch(() => ({}));
    if (answer.status !== 401) throw new Problem(answer.status, body, answer.headers);
    // Another request may have asked for a token meanwhile.
    if (token !== used) continue;
    await newToken(used === null ? "This node needs a token." : "The node does not accept this token.");
  }
}

/** The JSON at a path. */
async function askJson(path, options) {
  return (await ask(path, options)).json();
}

/** The lines of JSON at a path. A stream that is cut short is a problem. */
async function askLines(path, options = {}) {
  const answer = await ask(path, { ...options, accept: "application/x-ndjson" });
  let text;
  try {
    text = await answer.text();
  } catch {
    throw new Problem(0, {
      detail: "the stream was cut short: too few nodes answered, or this one is overloaded",
    });
  }
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}

/** Orders something of the node or the supervisor, within `wait`. */
function order(path, wait) {
  return askJson(path, { method: "POST", body: "{}", type: "application/json", wait });
}

/** Asks the reader for a token, once for all requests that wait for it. */
function newToken(why) {
  askedForToken ??= new Promise((resolve) => {
    const input = h("input", { type: "password", id: "token", autocomplete: "off", required: true });
    const dialog = h(
      "dialog",
      { "aria-labelledby": "token-title" },
      h(
        "form",
        { method: "dialog" },
        h("h2", { id: "token-title" }, why),
        h("p", {}, "The page keeps the token in memory only, and forgets it when you leave."),
        h("label", { for: "token" }, "Token"),
        input,
        h("button", { class: "main" }, "Sign in"),
      ),
    );
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener("close", () => {
      const given = input.value.trim();
      dialog.remove();
      askedForToken = null;
      // A field of a request could not carry another sign.
      if (/[^!-~]/.test(given)) return resolve(newToken("This token is not valid."));
      token = given;
      resolve();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
  return askedForToken;
}

/**
 * The metrics of the node that answers, or those at a path, by name and labels.
 *
 * @returns {Promise<Map<string, number>>} as under `kvorum_store_level_bytes{level="0"}`
 */
async function askMetrics(path = "/metrics", options = {}) {
  const text = await (await ask(path, { accept: "text/plain", ...options })).text();
  const metrics = new Map();
  for (const line of text.split("\n")) {
    const space = line.lastIndexOf(" ");
    if (space > 0 && line[0] !== "#") metrics.set(line.slice(0, space), Number(line.slice(space + 1)));
  }
  return metrics;
}
