// --- The console: what it knows, its pages, and what drives them ---

/** The pages, by their names in the address. */
const PAGES = {
  cluster: { word: "Cluster", make: clusterPage },
  keys: { word: "Keys", make: keysPage },
  node: { word: "Node", make: nodePage },
  runbooks: { word: "Runbooks", make: runbooksPage },
  tour: { word: "Tour", make: tourPage },
};

/** The page that is shown: its name and what `make` returned. */
let page = { name: null, view: null };

/** The bar that says that the node that serves the console is gone. */
const gone = goneBar(askThrough);

/** The address of a page with these parameters. */
function hrefOf(name, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "");
  const query = new URLSearchParams(given).toString();
  return `#/${name}${query ? `?${query}` : ""}`;
}

/** Shows a page with these parameters. */
function go(name, parameters) {
  location.hash = hrefOf(name, parameters);
}

/** Shows what the address names. */
function route() {
  if (meetSupervisor()) {
    drawFrame();
    poll();
  }
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const name = Object.hasOwn(PAGES, path) ? path : "cluster";
  const main = document.getElementById("main");
  if (page.name !== name) {
    page.view?.leave?.();
    main.replaceChildren();
    page = { name, view: PAGES[name].make(main, state) };
    pollCluster();
    pollFigures();
    main.className = `page-${name}`;
    for (const link of document.querySelectorAll("nav a")) {
      if (link.dataset.page === name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }
  page.view.route?.(new URLSearchParams(query));
  draw();
}

/** Draws what the console knows. */
function draw() {
  const name = servedName();
  document.title = `${state.failure ? "✕ " : ""}${page.view?.title ?? "Console"} · ${name} · Kvorum`;
  drawServed(state);
  if (state.devNodes.length > 0) drawNodeChoice(state.devNodes);
  gone.update(state);
  page.view?.update(state);
}

/** Says who serves the page, and how that node is. */
function drawServed({ status, failure }) {
  const served = document.querySelector("header .served");
  const name = servedName();
  const text = failure
    ? isRefused(failure)
      ? "kvorum dev refuses this page"
      : `${name} does not answer`
    : status
      ? `${dev ? "" : `${name}, `}${status.version}, up for ${span(status.uptime_seconds)}`
      : "asking …";
  const level = failure ? "bad" : status ? "good" : "idle";
  if (served.textContent === text && served.className === `served state ${level}`) return;
  served.textContent = text;
  served.className = `served state ${level}`;
}

/** Draws what stands above all pages: their names, and the choice of the node that answers. */
function drawFrame() {
  const shown = Object.entries(PAGES).filter(([name]) => dev?.hasTour || name !== "tour");
  const links = shown.map(([name, { word }]) => h("a", { href: hrefOf(name), "data-page": name }, word));
  document.querySelector("nav").replaceChildren(...links);
  document.querySelector("header .through")?.remove();
  if (dev) document.querySelector("header").append(nodeChoice(askThrough));
}

/** Has another node answer, for what is shown, too. */
function askThrough(number) {
  lookThrough(number);
  page.view?.askAgain?.();
}

/** Starts the console. */
function start() {
  meetSupervisor();
  drawFrame();
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    document.getElementById("main").focus();
  });
  document.querySelector("header").after(gone.element);
  addEventListener("hashchange", route);
  setInterval(tickCountdowns, 1000);
  route();
  poll().then(() => repeat(poll, STATUS_MS));
  repeat(pollCluster, STATUS_MS);
  repeat(pollFigures, dev ? DEV_HISTORY_MS : HISTORY_MS);
}

start();
