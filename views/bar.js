// The bar: which chapter is shown, a link to it, its numbers as a program, and a tour that ticks off what was done.
// A chapter is shown by `data-at` on the page's root; page.css hides the cells of the others, whose names begin with theirs.

const HUB = "https://huggingface.co";

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function render({ model, el }) {
  const root = document.documentElement;
  const chapters = model.get("chapters");
  const names = chapters.map(([name]) => name);
  const asked = () => new URLSearchParams(location.search).get("at");
  const scroller = () => document.getElementById("App") ?? document.scrollingElement;
  const scrolled = {};

  // --- chapters ------------------------------------------------------------------------------------------------
  const nav = make("nav", { "aria-label": "Chapters" });
  const links = chapters.map(([name, title], n) => {
    const link = make("a", { href: `?at=${name}` }, make("span", { class: "n", "aria-hidden": "true" }, `${n + 1}`), title);
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      go(name);
    });
    return link;
  });
  nav.append(...links);

  function show(at) {
    if (model.get("edit")) return;
    if (root.dataset.at) scrolled[root.dataset.at] = scroller().scrollTop;
    root.dataset.at = at;
    links.forEach((link, n) => (names[n] === at ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current")));
    links[Math.max(0, names.indexOf(at))].scrollIntoView({ block: "nearest", inline: "center" });
    scroller().scrollTop = scrolled[at] ?? 0;
    window.dispatchEvent(new CustomEvent("rpi:at", { detail: at }));
    window.dispatchEvent(new Event("resize")); // charts that were drawn unseen take their width now
  }

  function go(at) {
    if (model.get("edit")) {
      document.querySelector(`[data-cell-name="${at}_door"]`)?.scrollIntoView();
      return;
    }
    if (at === root.dataset.at) return;
    const query = new URLSearchParams(location.search);
    query.set("at", at);
    address(query.toString(), true);
    show(at);
  }

  function address(query, anew) {
    history[anew ? "pushState" : "replaceState"]({}, "", `${location.pathname}?${query}`);
    if (window.parent !== window) window.parent.postMessage({ queryString: query }, HUB); // a Space shows the page in a frame
  }

  const start = () => (names.includes(asked()) || asked() === "all" ? asked() : names[0]);
  const back = () => show(start());
  window.addEventListener("popstate", back);

  // Any element of the page leads to a chapter with data-go; links inside the page never load it anew.
  const lead = (event) => {
    const target = event.composedPath().find((node) => node.dataset?.go);
    if (!target || !names.includes(target.dataset.go) || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (target.dataset.scenario) {
      root.dataset.scenario = target.dataset.scenario; // for a chapter that is yet to come
      window.dispatchEvent(new CustomEvent("rpi:scenario"));
    }
    go(target.dataset.go);
    if (!el.contains(target) && !nav.contains(target)) links[names.indexOf(target.dataset.go)].focus({ preventScroll: true });
    if (target.dataset.to) setTimeout(() => document.getElementById(target.dataset.to)?.scrollIntoView({ behavior: "smooth" }), 60);
  };
  document.addEventListener("click", lead);

  // What has data-copy is copied by a click on it.
  const copyOne = async (event) => {
    const target = event.composedPath().find((node) => node.dataset?.copy !== undefined);
    if (!target) return;
    const copied = await copy(target.dataset.copy);
    tell(copied ? "Copied." : "The browser refused to copy.");
    if (!copied) return;
    const label = (target.dataset.label ??= target.textContent); // a second click finds "Copied" there
    const name = (text) => {
      target.ariaLabel = target.ariaLabel?.replace(target.textContent, text) ?? null;
      target.textContent = text;
    };
    name("Copied");
    setTimeout(() => name(label), 1500);
  };
  document.addEventListener("click", copyOne);

  // --- past the bar ----------------------------------------------------------------------------------------------
  const skip = make("button", { type: "button", class: "skip" }, "Skip to the chapter");
  skip.addEventListener("click", () => {
    const heading = [...document.querySelectorAll(".marimo-cell h1")].find((one) => one.checkVisibility());
    heading?.setAttribute("tabindex", "-1");
    heading?.focus();
  });
  // The page has one main part; marimo gives it none. Without a page around it (a test), there is nothing to name.
  el.getRootNode().host?.closest(".marimo-cell")?.parentElement?.setAttribute("role", "main");

  // --- link and program ----------------------------------------------------------------------------------------
  const status = make("p", { class: "status", role: "status" });
  let fading = 0;
  const tell = (text) => {
    status.textContent = text;
    clearTimeout(fading);
    fading = setTimeout(() => (status.textContent = ""), 4000);
  };
  let n = 0;
  const ask = (what) => model.send({ ask: what, at: root.dataset.at ?? names[0], n: ++n });
  const share = make("button", { type: "button" }, "Share");
  const python = make("button", { type: "button" }, make("span", { class: "more" }, "Copy as "), "Python");
  share.addEventListener("click", () => ask("link"));
  python.addEventListener("click", () => ask("python"));

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // A frame without the permission still lets a selected text be copied.
      const area = make("textarea", { readonly: "", class: "unseen" });
      area.value = text;
      el.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
    return true;
  }

  const replied = async () => {
    const { ask: what, text, chart } = model.get("reply");
    if (what === "link") {
      address(text, false);
      const host = window.parent === window ? location.origin + location.pathname : document.referrer.split("?")[0] || location.origin + location.pathname;
      tell((await copy(`${host}?${text}`)) ? "Link copied. It restores what you see." : "The link is in the address bar.");
    } else if (what === "python") {
      if (!text) return tell("This chapter has no numbers to copy yet.");
      root.dataset.program = text;
      tell((await copy(text)) ? "Program copied. It prints these numbers." : "The browser refused to copy.");
    } else if (what === "csv") {
      handOver(text, `${chart}.csv`);
    }
  };
  model.on("change:reply", replied);
  const take = (event) => saved(event, (chart) => model.send({ ask: "csv", chart, n: ++n }));
  document.addEventListener("click", take);

  // --- tour ----------------------------------------------------------------------------------------------------
  const done = new Set();
  const steps = model.get("tour").map(([deed, sentence, chapter]) => {
    const item = make("li", {}, make("button", { type: "button" }, sentence));
    item.firstChild.addEventListener("click", () => go(chapter));
    return { deed, item };
  });
  const list = make("ol", {}, ...steps.map((step) => step.item));
  const tourButton = make("button", { type: "button", "aria-expanded": "false", "aria-controls": "tour" }, "Tour");
  const tour = make("section", { id: "tour", class: "tour", "aria-label": "Tour", hidden: "" }, make("p", {}, "Each step ticks itself off when you do it."), list);
  tourButton.addEventListener("click", () => {
    tour.hidden = !tour.hidden;
    tourButton.setAttribute("aria-expanded", String(!tour.hidden));
  });
  el.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || tour.hidden) return;
    tourButton.click();
    tourButton.focus();
  });
  function did(deed) {
    const step = steps.find((s) => s.deed === deed);
    if (!step || done.has(deed)) return;
    done.add(deed);
    step.item.classList.add("done");
    step.item.firstChild.setAttribute("aria-label", `Done: ${step.item.textContent}`);
    tourButton.textContent = `Tour ${done.size}/${steps.length}`;
    if (!tour.hidden) tell(`Done: ${step.item.textContent}`);
  }
  const heard = (event) => did(event.detail);
  window.addEventListener("rpi:deed", heard);
  // Cells tell a deed with an unseen element.
  const seen = new MutationObserver((changes) => {
    for (const change of changes)
      for (const node of change.addedNodes)
        if (node.nodeType === 1) {
          if (node.dataset?.deed) did(node.dataset.deed);
          node.querySelectorAll?.("[data-deed]").forEach((inner) => did(inner.dataset.deed));
        }
  });
  seen.observe(document.body, { childList: true, subtree: true });

  // --- the whole -------------------------------------------------------------------------------------------------
  const notes = make("ul", {});
  const close = make("button", { type: "button" }, "Close");
  const ignored = make("div", { class: "ignored" }, make("p", { role: "status" }, "Parts of this link were ignored:"), notes, close);
  close.addEventListener("click", () => (ignored.hidden = true));
  function noted() {
    notes.replaceChildren(...model.get("notes").map((note) => make("li", {}, note)));
    ignored.hidden = !model.get("notes").length;
  }
  noted();
  model.on("change:notes", noted);
  const bar = make("header", { class: "bar" }, skip, make("a", { class: "name", href: "?at=lab", "data-go": "lab" }, "Reward Policy Intuition"), nav, make("div", { class: "tools" }, tourButton, share, python));
  el.append(bar, status, tour, ignored);
  const embed = new URLSearchParams(location.search).get("embed");
  if (names.includes(embed)) root.dataset.embed = embed;
  if (!model.get("edit")) show(root.dataset.embed ?? start());

  return () => {
    window.removeEventListener("popstate", back);
    window.removeEventListener("rpi:deed", heard);
    model.off("change:notes", noted);
    document.removeEventListener("click", lead);
    document.removeEventListener("click", copyOne);
    document.removeEventListener("click", take);
    model.off("change:reply", replied);
    seen.disconnect();
  };
}

export default { render };
