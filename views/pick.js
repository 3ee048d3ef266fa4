// A picture from Python whose parts, those with `data-id`, can be chosen by hand and by keyboard.

const AWAY = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

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

  // The nearest part in that direction; what lies aside counts three times.
  function next(from, [dx, dy]) {
    const middle = (part, box = part.getBoundingClientRect()) => [box.left + box.width / 2, box.top + box.height / 2];
    const [x, y] = middle(from);
    let best = null;
    let least = Infinity;
    for (const part of parts()) {
      const [u, v] = middle(part);
      const ahead = (u - x) * dx + (v - y) * dy;
      const far = ahead + 3 * Math.abs((u - x) * dy + (v - y) * dx);
      if (ahead > 1 && far < least) [best, least] = [part, far];
    }
    return best;
  }

  el.addEventListener("click", ({ target }) => target.closest("[data-id]") && choose(target.closest("[data-id]")));
  el.addEventListener("keydown", (event) => {
    const from = event.target.closest?.("[data-id]");
    if (!from) return;
    if (event.key === "Enter" || event.key === " ") choose(from);
    else if (AWAY[event.key]) {
      const to = next(from, AWAY[event.key]);
      if (to) {
        at = to.dataset.id;
        mark();
        to.focus();
      }
    } else return;
    event.preventDefault();
  });
  draw();
  model.on("change:html", draw);
  model.on("change:chosen", mark);
}

export default { render };
