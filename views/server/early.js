// The early board: it is drawn and flips while marimo is still loading. Then the Lab's own view takes it over as it stands,
// with its state, focus and scroll, and what lay above it goes in the same frame. Until then #root lies unseen below.

const early = JSON.parse(document.getElementById("early-data").textContent);
const cover = document.getElementById("early");
const below = document.getElementById("root");
const slot = cover.querySelector(".early-board"); // the board stands in it, and moves with it
const names = early.chapters.map(([name]) => name);
// ms that the cover waits: for its place to be still, for a chapter, and for the server before it says that it waits
const PATIENCE_FOR = { place: 1500, chapter: 10000, server: 8000 };
const WAITS = {
  lab: "The server has not answered yet. The board needs no server; all else on this page does.",
  other: "The server has not answered yet, and what stands here needs it.",
};
const AS_SET = ["marks", "pays", "weights", "convention", "method", "why"];
const { traits } = early;
const state = () => Object.fromEntries(AS_SET.map((name) => [name, model.get(name)]));
// What is set here stays over a reload of the page while it is still loading, unless the browser keeps nothing; later it
// stands in the address. The storage is read at a reload and written when the page is left, never between: it is slow.
const [KEPT, RELOADED] = ["early-board", 5000]; // ms at most between a page that is left and its reload
const kept = performance.getEntriesByType("navigation")[0]?.type === "reload" && attempt(() => {
  const { given, at, ...values } = JSON.parse(sessionStorage.getItem(KEPT));
  sessionStorage.removeItem(KEPT);
  return same(given, traits.given) && Math.abs(performance.timeOrigin - at) < RELOADED && values;
});
const keep = () => attempt(() => sessionStorage.setItem(KEPT, JSON.stringify({ ...state(), given: traits.given, at: Date.now() })));
// Return what a function returns, and undefined where it fails.
function attempt(call) {
  try {
    return call();
  } catch {
    return undefined;
  }
}
const opened = addressed(new URLSearchParams(location.search), early);
const began = performance.now();
const listeners = [];
let real = null; // the model of the Lab's view, once there is one
let place = null; // the element of the Lab's view
let end = null; // what ends the board

const model = {
  get: (name) => (real ?? { get: () => traits[name] }).get(name),
  set: (name, value) => (real ? real.set(name, value) : (traits[name] = value)),
  save_changes: () => real?.save_changes(),
  on: (name, call) => (listeners.push([name, call]), real?.on(name, call)),
  off: (name, call) => real?.off(name, call),
};
const anew = (other) => listeners.forEach(([name, call]) => name === "change:model" && call(other));

// --- chapters ------------------------------------------------------------------------------------------------------
const links = [...cover.querySelectorAll("nav a")];
function show() {
  const query = new URLSearchParams(location.search);
  const asked = query.get("at");
  const at = names.includes(asked) ? asked : names[0];
  // A chapter opens as the server wrote it here, unless the address sets something of it.
  const plain = ![...query.keys()].some((key) => key.startsWith(`${at}-`));
  cover.dataset.at = at === names[0] && !opened ? "other" : at;
  cover.classList.toggle("plain", plain);
  links.forEach((link, n) => (names[n] === at ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current")));
  const task = early.tasks.find(([id]) => id === query.getAll("lab-task").at(-1));
  const title = at === names[0] ? `Where ${(task ?? early.tasks[0])[1]}` : early.chapters[names.indexOf(at)][plain ? 2 : 1];
  cover.querySelector(".early-other").textContent = title;
}
// A link to a chapter loads nothing anew, so that no flip is lost; the bar reads the address when it comes.
function lead(event) {
  const link = event.target.closest("a[href^='?at=']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  const query = new URLSearchParams(location.search);
  query.set("at", new URL(link.href).searchParams.get("at"));
  history.pushState({}, "", `${location.pathname}?${query}${location.hash}`);
  show();
}

// --- handover ------------------------------------------------------------------------------------------------------
// Go on in a view of the Lab's board, if it is of the same answers: what the reader has set here is sent to the core, by the
// exchange's own rule; otherwise the core's state stands. Return what ends the view, or undefined for any other board.
function take(other, el) {
  if (place || !opened || !other.get("choices").drop || !["answers", "given", "names"].every((name) => same(other.get(name), traits[name]))) return;
  const [mine, active] = [state(), traits.active];
  const touched = !same(mine, opened);
  [real, place] = [other, el];
  listeners.forEach(([name, call]) => real.on(name, call));
  traits.choices.alone = false;
  if (touched) {
    for (const [name, value] of Object.entries({ ...mine, active })) real.set(name, value);
    if (mine.why !== opened.why) real.save_changes();
  }
  anew(true);
  el.style.height = `${slot.offsetHeight}px`;
  return () => (slot.isConnected && cover.contains(slot) ? release() : end());
}

// Go on without the view, which ended before the board stood in it. The next view takes the board over.
function release() {
  Object.assign(traits, state());
  listeners.forEach(([name, call]) => real.off(name, call));
  [real, place] = [null, null];
  traits.choices.alone = true;
}

const scroller = () => document.getElementById("App");
const top = (element) => element.getBoundingClientRect().top;
const found = (selector) => below.querySelector(selector);
let [since, still, stood] = [0, 0, ""];

// Tell whether the page below shows the chapter, and, in the Lab, whether all stands where it stands in the cover.
function ready() {
  const at = document.documentElement.dataset.at;
  if (!at || !scroller()) return false;
  since ||= performance.now();
  const waited = performance.now() - since;
  if (waited > PATIENCE_FOR.chapter) return true;
  const title = found(`[data-cell-name^="${at}_"] h1`);
  const shown = Boolean(title?.getClientRects().length);
  if (!shown || cover.dataset.at !== "lab") return shown;
  const choice = found(".request marimo-radio")?.shadowRoot?.querySelector("[role=radio]");
  if (!choice || !place?.isConnected) return false;
  scroller().scrollTop = cover.scrollTop;
  const pairs = [[title, "h1"], [found(".request"), ".request"], [place, ".early-board"]];
  const now = pairs.map(([element]) => top(element));
  const level = pairs.every(([, selector], n) => Math.abs(now[n] - top(cover.querySelector(selector))) < 0.5);
  still = same(now, stood) ? still + 1 : 0;
  stood = now;
  return still >= 2 && (level || waited > PATIENCE_FOR.place);
}

// Say what is missing, and show what cannot be used, as long as the server has not answered after some seconds.
function wait() {
  const waits = !document.documentElement.dataset.at && performance.now() - began > PATIENCE_FOR.server;
  const said = waits ? (WAITS[cover.dataset.at] ?? WAITS.other) : "";
  const note = cover.querySelector(".lost");
  if (note.textContent !== said) note.textContent = said;
  cover.classList.toggle("waits", waits);
  requestAnimationFrame(hand);
}

function hand() {
  if (!ready()) return wait();
  const board = slot.firstElementChild?.shadowRoot.activeElement;
  const link = links.indexOf(document.activeElement);
  const scrolled = cover.scrollTop;
  below.inert = false;
  if (place) {
    place.moveBefore && place.isConnected ? place.moveBefore(slot, null) : place.append(slot);
    place.style.height = "";
  } else end?.();
  cover.remove();
  removeEventListener("popstate", show);
  removeEventListener("pagehide", keep);
  delete globalThis.gdpoEarly;
  if (cover.dataset.at === "lab") scroller().scrollTop = scrolled;
  if (place) anew(); // so that the headline of the page follows
  if (board && slot.firstElementChild.shadowRoot.activeElement !== board) board.focus({ preventScroll: true });
  const bars = [...below.querySelectorAll("marimo-anywidget")].map((widget) => widget.shadowRoot?.querySelectorAll("nav a") ?? []);
  if (link >= 0) bars.find((all) => all.length)?.[link].focus({ preventScroll: true });
}

cover.classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches);
cover.addEventListener("gdpo-claim", ({ detail }) => {
  const title = cover.querySelector("h1");
  title.style.visibility = detail === null ? "hidden" : "";
  if (detail !== null && title.textContent !== detail) title.replaceChildren(detail);
});
cover.addEventListener("click", lead);
addEventListener("popstate", show);
addEventListener("pagehide", keep);
if (opened) {
  Object.assign(traits, opened, kept);
  traits.choices.alone = true; // until a core is there to answer
  end = render({ model, el: slot, signal: new AbortController().signal });
  globalThis.gdpoEarly = { take };
}
show();
below.inert = true;
cover.dataset.live = "";
requestAnimationFrame(hand);
