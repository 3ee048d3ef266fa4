// A picture from Python whose elements with a `data-id` can be chosen with the pointer and with the keyboard.

const STEPS = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 };

function render({ model, el }) {
  el.classList.add("pick");
  const choices = () => [...el.querySelectorAll("[data-id]")];
  const find = (id) => choices().find((choice) => choice.dataset.id === id);
  let at = model.get("chosen"); // the data-id of the element with the tab stop

  // Say which element is chosen, and give one element the tab stop.
  function mark() {
    const chosen = model.get("chosen");
    const stop = find(at) ?? find(chosen) ?? choices()[0];
    for (const choice of choices()) {
      choice.setAttribute("aria-checked", String(choice.dataset.id === chosen));
      choice.setAttribute("tabindex", choice === stop ? "0" : "-1");
    }
  }

  // Put the picture in, and the focus back where it was.
  function draw() {
    const focused = el.getRootNode().activeElement?.closest?.("[data-id]")?.dataset.id;
    el.innerHTML = model.get("html");
    mark();
    if (focused !== undefined) find(focused)?.focus();
  }

  function choose(choice) {
    at = choice.dataset.id;
    model.set("chosen", at);
    model.save_changes();
    mark();
    choice.focus(); // so that the arrow keys go on from here after a click, too
  }

  el.addEventListener("click", ({ target }) => target.closest("[data-id]") && choose(target.closest("[data-id]")));
  el.addEventListener("keydown", (event) => {
    const from = event.target.closest?.("[data-id]");
    const step = STEPS[event.key];
    if (!from || (!step && event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    if (!step) return choose(from);
    const all = choices().filter((one) => one.checkVisibility()); // a fold may hide some
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
