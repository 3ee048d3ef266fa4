// The bar: which chapter is shown, the address, and the program of its numbers. A chapter is shown by `data-at` on the
// page's root; theme.css hides the cells of the others, whose names begin with theirs.

const HUB = "https://huggingface.co";

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// marimo ends the signal, and what the model tells, with the view.
function render({ model, el, signal }) {
  const root = document.documentElement;
  const chapters = model.get("chapters");
  const names = chapters.map(([name]) => name);
  const editing = model.get("editing");
  const query = () => new URLSearchParams(location.search);
  const scroller = () => document.getElementById("App") ?? document.scrollingElement;
  const scrolled = {};

  // --- chapters ------------------------------------------------------------------------------------------------
  const links = chapters.map(([name, title], n) =>
    make("a", { href: `?at=${name}` }, make("span", { class: "n", "aria-hidden": "true" }, `${n + 1}`), title));
  const nav = make("nav", { "aria-label": "Chapters" }, ...links);

  function show(at, asked = {}) {
    if (editing) return;
    if (root.dataset.at) scrolled[root.dataset.at] = scroller().scrollTop;
    root.dataset.at = at;
    links.forEach((link, n) => (names[n] === at ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current")));
    scroller().scrollTop = scrolled[at] ?? 0;
    window.dispatchEvent(new Event("resize")); // charts that were drawn unseen take their width now
    if (model.get("at") !== at || Object.keys(asked).length) hand(at, asked);
  }

  const hand = (at, asked) => (model.set("at", at), model.set("asked", asked), model.save_changes());

  // Controls that are there write their part of the address; the rest of it stays as it came.
  function address(at, anew) {
    const old = query();
    const now = new URLSearchParams(old);
    if (anew || now.has("at")) now.set("at", at);
    for (const [key, text] of Object.entries(model.get("controls"))) text ? now.set(key, text) : now.delete(key);
    const text = now.toString();
    if (text === old.toString()) return;
    history[anew ? "pushState" : "replaceState"]({}, "", `${location.pathname}${text && `?${text}`}${location.hash}`);
    if (window.parent !== window) window.parent.postMessage({ queryString: text }, HUB); // a Space shows the page in a frame
  }
  const written = () => editing || address(root.dataset.at, false);
  model.on("change:controls", written);

  const start = () => (names.includes(query().get("at")) ? query().get("at") : names[0]);
  const back = () => (show(start()), written());
  window.addEventListener("popstate", back, { signal });

  // No link inside the page loads it anew; a link with a control's value hands it to the cells.
  function lead(event) {
    const target = event.composedPath().find((node) => node.matches?.("a[href^='?']"));
    if (!target || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    const { at, ...asked } = Object.fromEntries(new URL(target.href).searchParams);
    if (!names.includes(at)) return;
    if (editing) {
      hand(at, asked);
      return document.querySelector(`[data-cell-name^="${at}_"]`)?.scrollIntoView();
    }
    if (at !== root.dataset.at) address(at, true);
    show(at, asked);
    if (!nav.contains(target)) links[names.indexOf(at)].focus({ preventScroll: true });
    if (target.hash) reveal(target.hash.slice(1));
  }

  // Opens the fold with that id, or in the element of that id, and keeps it in sight until the reader moves or leaves.
  function reveal(id, tries = 600) {
    const place = document.getElementById(id);
    const fold = place?.matches("h2") ? place : place?.matches("details") ? place.firstElementChild : place?.querySelector("marimo-accordion")?.shadowRoot?.querySelector("button");
    if (!fold) return tries && setTimeout(reveal, 100, id, tries - 1);
    if (fold.ariaExpanded === "false" || fold.parentNode.open === false) fold.click();
    held.disconnect();
    held = new ResizeObserver(() => (place.offsetParent ? place.scrollIntoView() : held.disconnect()));
    [...scroller().children].forEach((child) => held.observe(child));
  }
  let held = new ResizeObserver(() => {});
  for (const deed of ["wheel", "touchstart", "pointerdown", "keydown"]) window.addEventListener(deed, () => held.disconnect(), { passive: true, signal });
  document.addEventListener("click", lead, { signal });

  // In the editor all chapters stand below each other, and each computes once a cell of it is in sight.
  const met = new IntersectionObserver((entries) => {
    const [cell] = entries.filter(({ isIntersecting }) => isIntersecting).slice(-1).map(({ target }) => target.dataset.cellName);
    const at = names.find((name) => cell?.startsWith(`${name}_`));
    if (at && at !== model.get("at")) hand(at, {});
  });
  const watch = () => document.querySelectorAll("[data-cell-name]").forEach((cell) => met.observe(cell));
  if (editing) window.addEventListener("scroll", watch, { capture: true, once: true, signal });
  signal.addEventListener("abort", () => met.disconnect());

  // The Lab's headline is of what its board shows; the cell that wrote it does not run again at a flip. While the board
  // waits for its words, there is none.
  document.addEventListener("gdpo-claim", ({ detail, target }) => {
    if (!target.closest("[data-cell-name=lab_board]")) return; // a board of another chapter
    const title = document.querySelector("[data-cell-name=lab_claim] h1");
    if (!title) return;
    title.style.visibility = detail === null ? "hidden" : "";
    if (detail !== null && title.textContent !== detail) title.replaceChildren(detail);
  }, { signal });
  model.on("change:headline", () => document.querySelector("[data-cell-name=lab_claim] h1")?.replaceChildren(model.get("headline")));

  // marimo's sliders tell a screen reader the number of their step, and its fields for numbers their label as HTML.
  function hear(root, steps) {
    heard.observe(root, { subtree: true, childList: true, attributeFilter: ["aria-valuenow"] });
    for (const one of root.querySelectorAll("[role=slider]")) one.ariaValueText = steps?.[one.ariaValueNow] ?? one.ariaValueNow;
    for (const one of root.querySelectorAll('[aria-label*="<"]')) one.ariaLabel = one.ariaLabel.replace(/<[^>]*>/g, "");
    for (const { dataset, shadowRoot } of root.querySelectorAll("marimo-slider, marimo-number, marimo-accordion")) {
      if (shadowRoot) hear(shadowRoot, JSON.parse(dataset.steps ?? null));
    }
  }
  const heard = new MutationObserver(() => hear(document.body));
  hear(document.body);
  signal.addEventListener("abort", () => heard.disconnect());

  // Radix looks for the focus in the document, which sees none inside marimo's shadow roots: it goes to the last radio.
  function choose(event) {
    const [node] = event.composedPath();
    const radios = [...(node.closest?.("[role=radiogroup]")?.querySelectorAll("button[role=radio]") ?? [])];
    const step = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const to = step ? radios.at((radios.indexOf(node) + step) % radios.length) : node.role === "radiogroup" && radios.find((one) => one.ariaChecked === "true");
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    to.focus();
    if (step) to.click();
  }
  for (const way of ["keydown", "focusin"]) window.addEventListener(way, choose, { capture: true, signal });

  // --- deeds ---------------------------------------------------------------------------------------------------
  // A deed that was done is told where everybody looks, for as long as it takes to read; its own place keeps the tick.
  const finished = make("p", { class: "finished", role: "status" });
  let told = model.get("finished").length;
  let [telling, touched] = [0, false]; // what a link shows was nobody's deed
  for (const way of ["pointerdown", "keydown", "input"]) window.addEventListener(way, () => (touched = true), { capture: true, signal });
  model.on("change:finished", () => {
    if (touched) finished.textContent = `✓ Done: ${model.get("finished").slice(told).join(" ")}`;
    told = model.get("finished").length;
    clearTimeout(telling);
    telling = setTimeout(() => (finished.textContent = ""), 4000);
  });

  // --- copying -------------------------------------------------------------------------------------------------
  const status = make("p", { class: "status", role: "status" });
  let fading = 0;
  function say(text, time = 4000) {
    status.textContent = text;
    clearTimeout(fading);
    fading = setTimeout(() => (status.textContent = ""), time);
  }
  async function copy(text, done) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // A frame without the permission still lets a selected text be copied.
      const area = make("textarea", { readonly: "", class: "unseen" }, text);
      el.append(area);
      area.select();
      const copied = document.execCommand("copy");
      area.remove();
      if (!copied) return say("The browser refused to copy.");
    }
    say(done);
  }
  const share = make("button", { type: "button" }, "Share");
  const python = make("button", { type: "button" }, make("span", { class: "more" }, "Copy as "), "Python");
  share.addEventListener("click", () => {
    const host = window.parent === window ? location.origin + location.pathname : document.referrer.split("?")[0] || location.origin + location.pathname;
    const shown = query();
    shown.set("at", root.dataset.at ?? names[0]);
    copy(`${host}?${shown}`, "Link copied. It restores what you see.");
  });
  python.addEventListener("click", () => {
    const text = model.get("programs")[root.dataset.at ?? names[0]];
    text ? copy(text, "Program copied. It prints these numbers.") : say("This chapter has no numbers to copy yet.");
  });
  // What has data-copy is copied by a click on it.
  document.addEventListener("click", (event) => {
    const target = event.composedPath().find((node) => node.dataset?.copy !== undefined);
    if (target) copy(target.dataset.copy, "Copied.");
  }, { signal });

  // --- files -----------------------------------------------------------------------------------------------------
  // marimo never meets those that are too large: for them it would put away the ones that are there.
  function weigh(event) {
    const [input] = event.composedPath();
    const limit = event.composedPath().find((node) => node.matches?.(".upload"))?.querySelector("[data-most]");
    const sizes = Array.from((event.dataTransfer ?? input).files ?? [], (file) => file.size);
    if (!limit || !sizes.length) return;
    const over = sizes.reduce((sum, size) => sum + size) > limit.dataset.most;
    limit.textContent = over ? limit.dataset.says : "";
    if (!over) return;
    if (event.type === "input") return input.addEventListener("change", (late) => late.stopPropagation(), { once: true });
    event.preventDefault();
    event.stopPropagation();
    input.dispatchEvent(new DragEvent("dragleave", { bubbles: true, composed: true })); // else it looks as if it waited
  }
  for (const way of ["input", "drop"]) window.addEventListener(way, weigh, { capture: true, signal });

  // --- the whole -------------------------------------------------------------------------------------------------
  const skip = make("button", { type: "button", class: "skip" }, "Skip to the chapter");
  skip.addEventListener("click", () => {
    const heading = [...document.querySelectorAll(".marimo-cell h1")].find((one) => one.checkVisibility());
    heading?.setAttribute("tabindex", "-1");
    heading?.focus();
  });
  // The page has one main part; marimo gives it none.
  const cell = el.getRootNode().host?.closest(".marimo-cell");
  cell?.parentElement.setAttribute("role", "main");
  if (!editing && cell?.previousElementSibling) cell.parentElement.prepend(cell); // the notebook has it below the chapters
  // What stays in sight of a chapter stays below the bar.
  const measured = new ResizeObserver(() => root.style.setProperty("--bar-height", `${el.offsetHeight}px`));
  measured.observe(el);
  signal.addEventListener("abort", () => measured.disconnect());
  const noted = () => model.get("unread") && say("Parts of this link were not understood.", 20000);
  model.on("change:unread", noted);
  const sources = make("p", { class: "sources" }, ...Object.entries(model.get("sources")).map(([title, href]) => make("a", href.startsWith("?") ? { href } : { href, target: "_blank", rel: "noopener" }, title)));
  const name = make("a", { class: "name", href: "?at=lab" }, "Reward Policy Intuition");
  el.append(make("div", { class: "bar" }, skip, name, nav, sources, make("div", { class: "tools" }, share, python)), status, finished);
  show(start());
  noted();
  if (location.hash) reveal(location.hash.slice(1));
}

export default { render };
