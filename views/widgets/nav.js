// The bar: it shows a chapter, keeps the address, and copies the program of the chapter's numbers. The attribute `data-at`
// of the root element names the chapter that is shown; theme.css hides the cells of all other chapters by their names.

const HUB = "https://huggingface.co";

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// marimo aborts the signal and removes the listeners of the model when the view ends.
function render({ model, el, signal }) {
  const root = document.documentElement;
  const chapters = model.get("chapters");
  const names = chapters.map(([name]) => name);
  const editing = model.get("editing");
  const query = () => new URLSearchParams(location.search);
  const scroller = () => document.getElementById("App") ?? document.scrollingElement;
  const scrolled = {}; // by chapter: how far it was scrolled when the reader left it

  // --- chapters ------------------------------------------------------------------------------------------------
  const links = chapters.map(([name, title], n) =>
    make("a", { href: `?at=${name}` }, make("span", { class: "n", "aria-hidden": "true" }, `${n + 1}`), title));
  const nav = make("nav", { "aria-label": "Chapters" }, ...links);

  // Show a chapter where the reader had left it; asked: the query of the link by which the reader went there.
  function show(at, asked = {}) {
    if (editing) return;
    if (root.dataset.at) scrolled[root.dataset.at] = scroller().scrollTop;
    root.dataset.at = at;
    links.forEach((link, n) => (names[n] === at ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current")));
    scroller().scrollTop = scrolled[at] ?? 0;
    window.dispatchEvent(new Event("resize")); // so that charts that were drawn unseen get their width
    if (model.get("at") !== at || Object.keys(asked).length) hand(at, asked);
  }

  // Tell the cells which chapter is shown, and what its link asked for.
  const hand = (at, asked) => (model.set("at", at), model.set("asked", asked), model.save_changes());

  // The chip of the Lab's task says that the board was changed; another click on it starts over. The text is a property,
  // because the chip stands in a shadow root.
  const SET = ["marks", "pays", "weights", "convention", "method"].map((name) => `lab-${name}`);
  const changed = () => SET.some((key) => model.get("controls")[key]);
  const chip = () => (changed() ? root.style.setProperty("--changed", '" · changed ↺"') : root.style.removeProperty("--changed"));
  document.addEventListener("click", (event) => {
    const pressed = event.composedPath().find((node) => node.matches?.("[data-cell-name=lab_board] marimo-radio, [role=radio]"));
    if (changed() && pressed?.matches("[role=radio][aria-checked=true]")) document.dispatchEvent(new Event("gdpo-restart"));
  }, { capture: true, signal });

  // Write the values of the controls into the address, where values of controls that are not drawn yet stay as they are.
  // anew: whether the address gets an entry of its own in the history.
  function address(at, anew) {
    const old = query();
    const now = new URLSearchParams(old);
    if (anew || now.has("at")) now.set("at", at);
    for (const [key, value] of Object.entries(model.get("controls"))) value ? now.set(key, value) : now.delete(key);
    const text = now.toString();
    if (text === old.toString()) return;
    history[anew ? "pushState" : "replaceState"]({}, "", `${location.pathname}${text && `?${text}`}${location.hash}`);
    if (window.parent !== window) window.parent.postMessage({ queryString: text }, HUB); // for a Space, which shows the page in a frame
  }
  const written = () => (chip(), editing || address(root.dataset.at, false));
  model.on("change:controls", written);

  const start = () => (names.includes(query().get("at")) ? query().get("at") : names[0]);
  const back = () => (show(start()), written());
  window.addEventListener("popstate", back, { signal });

  // Follow a link inside the page without loading the page anew, and hand the values in its query to the cells.
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

  // Open the fold that has this id, or stands in the element with this id, and keep it in sight until the reader acts.
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

  // In the editor all chapters stand below each other, and a chapter is computed once one of its cells is in sight.
  const met = new IntersectionObserver((entries) => {
    const [cell] = entries.filter(({ isIntersecting }) => isIntersecting).slice(-1).map(({ target }) => target.dataset.cellName);
    const at = names.find((name) => cell?.startsWith(`${name}_`));
    if (at && at !== model.get("at")) hand(at, {});
  });
  const watch = () => document.querySelectorAll("[data-cell-name]").forEach((cell) => met.observe(cell));
  if (editing) window.addEventListener("scroll", watch, { capture: true, once: true, signal });
  signal.addEventListener("abort", () => met.disconnect());

  // The headline of the Lab says what the board shows, so it changes with the board: the cell that wrote it does not run
  // again at a flip of a mark. While the board waits for its words, the headline is hidden.
  document.addEventListener("gdpo-claim", ({ detail, target }) => {
    if (!target.closest("[data-cell-name=lab_board]")) return; // a board of another chapter
    const title = document.querySelector("[data-cell-name=lab_claim] h1");
    if (!title) return;
    title.style.visibility = detail === null ? "hidden" : "";
    if (detail !== null && title.textContent !== detail) title.replaceChildren(detail);
  }, { signal });
  model.on("change:headline", () => document.querySelector("[data-cell-name=lab_claim] h1")?.replaceChildren(model.get("headline")));

  // Mend what a screen reader hears: marimo's sliders say the number of their step, and its fields for numbers say their
  // label with the tags of its HTML.
  function hear(root, steps) {
    heard.observe(root, { subtree: true, childList: true, attributeFilter: ["aria-valuenow"] });
    for (const slider of root.querySelectorAll("[role=slider]")) slider.ariaValueText = steps?.[slider.ariaValueNow] ?? slider.ariaValueNow;
    for (const labelled of root.querySelectorAll('[aria-label*="<"]')) labelled.ariaLabel = labelled.ariaLabel.replace(/<[^>]*>/g, "");
    for (const { dataset, shadowRoot } of root.querySelectorAll("marimo-slider, marimo-number, marimo-accordion")) {
      if (shadowRoot) hear(shadowRoot, JSON.parse(dataset.steps ?? null));
    }
  }
  const heard = new MutationObserver(() => (hear(document.body), mend()));
  hear(document.body);
  signal.addEventListener("abort", () => heard.disconnect());

  // An error names the field that mends it: open the fold of the field, and move the focus there, once for each error.
  function mend() {
    const error = document.querySelector("[data-mends]:not([data-met])");
    if (!error?.checkVisibility()) return;
    const fields = [...document.querySelectorAll("#run-files marimo-text")];
    const field = fields.find((one) => one.shadowRoot?.textContent.includes(error.dataset.mends));
    if (!field) return;
    error.dataset.met = "";
    field.closest("details").open = true;
    requestAnimationFrame(() => field.shadowRoot.querySelector("input")?.focus());
  }

  // Move among radio buttons. Radix, which marimo uses for that, looks for the focus in the document, which knows nothing of
  // the focus inside marimo's shadow roots, and so always goes to the last button.
  function choose(event) {
    const [node] = event.composedPath();
    const radios = [...(node.closest?.("[role=radiogroup]")?.querySelectorAll("button[role=radio]") ?? [])];
    const step = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const to = step ? radios.at((radios.indexOf(node) + step) % radios.length) : node.role === "radiogroup" && radios.find((radio) => radio.ariaChecked === "true");
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    to.focus();
    if (step) to.click();
  }
  for (const way of ["keydown", "focusin"]) window.addEventListener(way, choose, { capture: true, signal });

  // --- deeds ---------------------------------------------------------------------------------------------------
  // A deed that was just done is named at the bar, for as long as it takes to read; the line of the deed keeps the tick.
  const finished = make("p", { class: "finished", role: "status" });
  let told = model.get("finished").length;
  let [telling, touched] = [0, false]; // touched: whether the reader did anything; what a link shows is no deed
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
      // In a frame without the permission, a selected text can still be copied.
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
  // A click on an element with `data-copy` copies the text of that attribute.
  document.addEventListener("click", (event) => {
    const target = event.composedPath().find((node) => node.dataset?.copy !== undefined);
    if (target) copy(target.dataset.copy, "Copied.");
  }, { signal });

  // --- files -----------------------------------------------------------------------------------------------------
  // Keep files that are too large from marimo, which would drop the files that are there and then refuse the new ones.
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
    input.dispatchEvent(new DragEvent("dragleave", { bubbles: true, composed: true })); // without which the area looks as if it waited for a file
  }
  for (const way of ["input", "drop"]) window.addEventListener(way, weigh, { capture: true, signal });

  // --- the whole -------------------------------------------------------------------------------------------------
  const skip = make("button", { type: "button", class: "skip" }, "Skip to the chapter");
  skip.addEventListener("click", () => {
    const heading = [...document.querySelectorAll(".marimo-cell h1")].find((title) => title.checkVisibility());
    heading?.setAttribute("tabindex", "-1");
    heading?.focus();
  });
  // The page needs a main landmark, which marimo does not give it.
  const cell = el.getRootNode().host?.closest(".marimo-cell");
  cell?.parentElement.setAttribute("role", "main");
  if (!editing && cell?.previousElementSibling) cell.parentElement.prepend(cell); // in the notebook the bar stands below the chapters
  // Elements that stay in sight while a reader scrolls need the height of the bar, below which they stand.
  const measured = new ResizeObserver(() => root.style.setProperty("--bar-height", `${el.offsetHeight}px`));
  measured.observe(el);
  signal.addEventListener("abort", () => measured.disconnect());
  const noted = () => model.get("unread") && say("Parts of this link were not understood.", 20000);
  model.on("change:unread", noted);
  const name = make("a", { class: "name", href: "?at=lab" }, "Reward Policy Intuition");
  el.append(make("div", { class: "bar" }, skip, name, nav, make("div", { class: "tools" }, share, python)), status, finished);
  back(); // the address too: values that came before this view wait in the model
  noted();
  if (location.hash) reveal(location.hash.slice(1));
}

export default { render };
