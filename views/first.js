// The first drawing: bar and Lab as they will be, drawn by their own scripts before marimo's front end is there. It takes
// no clicks, is no part of the page for screen readers, and goes in the frame in which the Lab itself has drawn.

const GIVEN_UP = 10000; // ms after the bar, in which the Lab must have come
const LOADING = "The page is still loading. In a moment it answers.";
const LOST = "The page did not load: the server does not answer. Load it again.";

async function first(renders) {
  const page = document.getElementById("first");
  const values = document.getElementById("first-data");
  const root = document.documentElement;
  const asked = new URLSearchParams(location.search);
  const dark = asked.get("theme") === "dark" || (asked.get("theme") !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  const listeners = new AbortController();
  const heed = (events, listener) => events.forEach((name) => window.addEventListener(name, listener, { signal: listeners.signal, capture: true }));
  const ends = [() => listeners.abort(), () => page.remove(), () => values.remove()];
  const end = () => ends.splice(0).forEach((one) => one());

  // As marimo does it: a shadow root with the style sheets of the page and the widget's own.
  async function widget(name) {
    const { css, ...traits } = JSON.parse(values.textContent)[name];
    const shadow = document.getElementById(`first-${name}`).attachShadow({ mode: "open" });
    const own = document.createElement("style");
    own.textContent = css;
    const el = document.createElement("div");
    const sheets = [...document.querySelectorAll("link[rel=stylesheet], style")].map((one) => one.cloneNode(true));
    const there = sheets.filter((one) => one.href).map((one) => new Promise((done) => (one.onload = one.onerror = done)));
    shadow.append(...sheets, own, el);
    await Promise.all(there);
    ends.push(renders[name]({ model: { get: (trait) => traits[trait], on() {}, off() {}, send() {} }, el }));
    if (name === "bar") ends.pop()(); // it listens to the whole page
    return shadow;
  }

  try {
    page.classList.add("marimo", dark ? "dark" : "light");
    const alone = asked.get("embed") === "lab";
    const [bar] = await Promise.all([...(alone ? [] : ["bar"]), "lab"].map(widget));
    if (!alone) bar.querySelector("nav a").setAttribute("aria-current", "page");
    page.classList.add("drawn");
  } catch {
    return end(); // an old browser, for which the page itself says so
  }

  const tell = (text) => (page.lastElementChild.textContent = text);
  heed(["pointerdown", "keydown"], () => page.lastElementChild.textContent || tell(LOADING));
  heed(["error"], ({ target }) => target.type === "module" && tell(LOST));
  let lab = null;
  heed(["rpi:drawn"], ({ detail }) => {
    lab = detail;
    swap();
  });
  // The bar comes first, and names the chapter; the Lab has its height once its style sheets are there.
  function swap() {
    if (!ends.length) return;
    if (!root.dataset.at || getComputedStyle(lab.querySelector(".row") ?? lab).display !== "grid") return void requestAnimationFrame(swap);
    const top = page.scrollTop;
    end();
    const scroller = document.getElementById("App");
    if (scroller) scroller.scrollTop = top;
  }
  const barred = new MutationObserver(() => setTimeout(end, GIVEN_UP));
  barred.observe(root, { attributeFilter: ["data-at"] });
  ends.push(() => barred.disconnect());
}
