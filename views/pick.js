// A picture from Python whose parts, those with `data-id`, can be chosen by hand and by keyboard.

const STEPS = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 };

function render({ model, el }) {
  el.classList.add("pick");
  const parts = () => [...el.querySelectorAll("[data-id]")];
  const find = (id) => parts().find((part) => part.dataset.id === id);
  let at = model.get("chosen"); // where the tab stop is

  function mark() {
    const chosen = model.get("chosen");
    const stop = find(at) ?? find(chosen) ?? parts()[0];
    for (const part of parts()) {
      part.setAttribute("aria-checked", String(part.dataset.id === chosen));
      part.setAttribute("tabindex", part === stop ? "0" : "-1");
    }
  }

  function draw() {
    const focused = el.getRootNode().activeElement?.closest?.("[data-id]")?.dataset.id;
    el.innerHTML = model.get("html");
    mark();
    if (focused !== undefined) find(focused)?.focus();
  }

  function choose(part) {
    at = part.dataset.id;
    model.set("chosen", at);
    model.save_changes();
    mark();
  }

  el.addEventListener("click", ({ target }) => target.closest("[data-id]") && choose(target.closest("[data-id]")));
  el.addEventListener("keydown", (event) => {
    const from = event.target.closest?.("[data-id]");
    const step = STEPS[event.key];
    if (!from || (!step && event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    if (!step) return choose(from);
    const all = parts();
    const to = all.at((all.indexOf(from) + step) % all.length);
    at = to.dataset.id;
    mark();
    to.focus();
  });
  draw();
  model.on("change:html", draw);
  model.on("change:chosen", mark);
}

export default { render };
