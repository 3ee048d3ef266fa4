// When the server is gone the page says so, keeps what the reader set, and goes on with it once a server answers.
// It goes on by loading the link that Share would give, with all chapters in it. The Lab tells its part with every
// change, also while nobody answers; of the other chapters the server is asked when the hand rests.

const RESTS = [500, 3000, 15000]; // ms without a change, after which the server is asked; a busy one is late with a chapter
const GRACE = 600; // ms that the connection may be away before a word is said
const PATIENCE = 12000; // ms in which marimo takes up a session that still lives, by its own retries
const MOST = 3; // times in ten minutes that the page loads itself anew; then the reader decides
const GONE = "The server does not answer. Nothing you set is lost: the page goes on by itself when it is back.";
const RESUMED = "rpi:resumed"; // in the tab's memory, across the load

// `ask` asks the server where the controls stand, `deeds` are those of the tour, `did` ticks one off.
function away({ model, names, ask, deeds, did }) {
  const line = document.createElement("p");
  line.className = "status away";
  line.setAttribute("role", "status");
  if (model.get("edit")) return { line, told() {}, end() {} };
  // Outlives this bar: a server that has forgotten the session lets marimo put a new bar in its place.
  const kept = (window.rpiKept ??= { visit: model.get("visit"), asked: null, lab: {} });
  const memory = () => JSON.parse(sessionStorage.getItem(RESUMED) ?? '{"times": []}');
  const listeners = new AbortController();
  const heed = (target, events, listener) => events.forEach((name) => target.addEventListener(name, listener, { signal: listeners.signal, capture: true }));

  function query() {
    const all = new URLSearchParams(location.search);
    for (const key of [...all.keys()]) if (kept.asked && names.includes(key.split("-")[0])) all.delete(key);
    for (const [key, value] of new URLSearchParams(kept.asked ?? "")) all.set(key, value);
    for (const [key, value] of Object.entries(kept.lab)) all.set(key, value);
    all.set("at", document.documentElement.dataset.at ?? names[0]);
    return all.toString();
  }

  function resume() {
    const times = memory().times.filter((time) => Date.now() - time < 600_000);
    if (times.length >= MOST) {
      const link = document.createElement("a");
      link.href = `${location.pathname}?${query()}`;
      link.textContent = "Continue";
      line.replaceChildren("The server keeps going away. Nothing you set is lost. ", link);
      return;
    }
    sessionStorage.setItem(RESUMED, JSON.stringify({ times: [...times, Date.now()], deeds: deeds(), fresh: true }));
    location.replace(`${location.pathname}?${query()}`);
  }

  if (kept.visit !== model.get("visit")) {
    resume();
    return { line, told() {}, end() {} };
  }
  const before = memory();
  if (before.fresh) {
    sessionStorage.setItem(RESUMED, JSON.stringify({ times: before.times }));
    before.deeds.forEach(did);
    line.textContent = "The connection to the server was lost. The page is as you left it; files that you uploaded have to be uploaded again.";
    heed(document, ["pointerdown", "keydown"], () => kept.gone || (line.textContent = ""));
  }

  // --- what the reader set -----------------------------------------------------------------------------------------
  let resting = [];
  heed(window, ["rpi:lab"], (event) => Object.assign(kept.lab, event.detail));
  heed(document, ["input", "change", "click", "keyup"], () => {
    resting.forEach(clearTimeout);
    if (document.documentElement.dataset.at !== "lab") resting = RESTS.map((ms) => setTimeout(() => open() && ask(), ms));
  });

  // --- whether the server is there ---------------------------------------------------------------------------------
  const open = () => (document.querySelector("[data-connection-state]")?.dataset.connectionState ?? "OPEN") === "OPEN";
  const token = (html) => html.match(/"serverToken": ?"([^"]+)"/)?.[1];
  let waiting = 0;
  let answered = 0; // when the server answered first, which may be another one by now
  const soon = (ms) => {
    clearTimeout(waiting);
    waiting = setTimeout(look, ms);
  };

  function changed() {
    if (open() === !kept.gone) return;
    document.documentElement.toggleAttribute("data-gone", !open());
    if (!open()) {
      kept.gone = Date.now();
      answered = 0;
      soon(GRACE);
    } else {
      kept.gone = 0;
      clearTimeout(waiting);
      window.dispatchEvent(new Event("rpi:back"));
      if (line.textContent) line.textContent = "Connected again.";
      setTimeout(() => kept.gone || (line.textContent = ""), 4000);
    }
  }

  async function look() {
    if (!kept.gone) return;
    if (line.textContent !== GONE) line.textContent = GONE;
    try {
      const health = await fetch(new URL("health", document.baseURI), { cache: "no-store" });
      if ((await health.json()).status !== "healthy") throw new Error();
      answered ||= Date.now();
      // Another server is told by its token; the same one may still have the session, with what was uploaded.
      const page = await (await fetch(document.baseURI, { cache: "no-store" })).text();
      const other = token(page) !== window.__MARIMO_MOUNT_CONFIG__?.serverToken;
      if (kept.gone && (other || Date.now() - answered > PATIENCE)) return resume();
    } catch {
      answered = 0;
    }
    soon(1000 + Math.random() * 1000); // a class does not knock all at once
  }

  const watch = new MutationObserver(changed);
  watch.observe(document.body, { subtree: true, attributes: true, attributeFilter: ["data-connection-state"] });
  heed(window, ["online"], () => kept.gone && soon(0));
  heed(document, ["visibilitychange"], () => kept.gone && !document.hidden && soon(0));

  return {
    line,
    told: (text) => (kept.asked = text),
    end() {
      listeners.abort();
      watch.disconnect();
      clearTimeout(waiting);
      resting.forEach(clearTimeout);
    },
  };
}
