// The button that plays the curves of Train: a growing share of their width is shown, beside a counter of epochs. The share
// is a custom property of the cell with the curves, from which the charts inherit it, and theme.css cuts the curves by it.

const SECONDS = 1.5;
const WIDE = "(min-width: 701px) and (prefers-reduced-motion: no-preference)";

function render({ model, el, signal }) {
  el.classList.add("play");
  const counter = document.createElement("output");
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "▶ Play again";
  counter.setAttribute("aria-live", "off"); // a screen reader need not read a counter that runs for a second
  el.append(counter, button);

  const cell = () => document.querySelector("[data-cell-name=train_curves]");
  const drawn = () => [...(cell()?.querySelectorAll(".panels > div > *") ?? [])];
  // Return whether all charts are drawn.
  const ready = () => drawn().length && drawn().every((chart) => chart.shadowRoot?.querySelector("svg.marks"));
  const still = () => (counter.textContent = `epoch ${model.get("epochs")}`);
  let frame = 0;

  function stop() {
    cancelAnimationFrame(frame);
    frame = 0;
    cell()?.style.removeProperty("--played");
    still();
  }

  function play() {
    stop();
    if (!cell() || !matchMedia(WIDE).matches) return;
    const start = performance.now();
    const step = (now) => {
      const share = Math.min(Math.max((now - start) / 1000 / SECONDS, 0), 1);
      if (share === 1 || !cell()) return stop();
      cell().style.setProperty("--played", share.toFixed(4));
      counter.textContent = `epoch ${Math.round(share * model.get("epochs"))}`;
      frame = requestAnimationFrame(step);
    };
    step(start);
  }

  // The first curves that the reader sees play by themselves. They are hidden until then, so that they do not flash. In
  // `marimo edit` no curves play by themselves.
  const seen = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    seen.disconnect();
    play();
  });
  function wait(tries = 1200) {
    if (signal?.aborted) return;
    if (!tries) return stop();
    if (matchMedia(WIDE).matches) cell()?.style.setProperty("--played", 0);
    if (ready()) return drawn().forEach((chart) => seen.observe(chart));
    frame = requestAnimationFrame(() => wait(tries - 1));
  }

  // Take the still picture away once the curves are drawn.
  function reveal(tries = 1200) {
    if (signal?.aborted) return;
    if (!tries || ready()) return document.documentElement.toggleAttribute("data-trained", true);
    requestAnimationFrame(() => reveal(tries - 1));
  }

  // Scroll up to the curves after the reader chose a card below them.
  function lead() {
    const panels = cell()?.querySelector(".panels")?.getBoundingClientRect();
    if (model.get("editing") || !panels?.height || panels.bottom > innerHeight / 3) return;
    document.querySelector("[data-cell-name=train_caption]")?.scrollIntoView();
  }

  button.addEventListener("click", play);
  model.on("change:epochs", stop);
  model.on("change:shown", () => (stop(), lead()));
  signal?.addEventListener("abort", () => (seen.disconnect(), stop()));
  still();
  reveal();
  if (!model.get("editing")) wait();
}

export default { render };
