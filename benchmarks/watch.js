// Runs in each page before the page's own scripts. `watch.arm(expected)` waits for the next click and resolves to
// the milliseconds from its dispatch to the frame in which both charts show the expected advantages, and `watch.words` to
// those until the words of that state are there too, where the page has words that come later.
(() => {
  const roots = [];
  const bars = new WeakMap(); // canvas -> [x, width] of its latest bars
  let armed = null;
  let inFrame = false;

  const observer = new MutationObserver(check);
  const observe = (root) => {
    roots.push(root);
    observer.observe(root, { subtree: true, childList: true, attributes: true, characterData: true });
  };
  observe(document);
  const attach = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (options) {
    const root = attach.call(this, options);
    observe(root);
    return root;
  };
  // A canvas keeps no shapes, so they are noted as they are drawn.
  const rect = CanvasRenderingContext2D.prototype.rect;
  CanvasRenderingContext2D.prototype.rect = function (x, y, width, height) {
    rect.call(this, x, y, width, height);
    if (height < 5 || height > 30) return;
    const seen = bars.get(this.canvas) ?? [];
    seen.push([x, width]);
    bars.set(this.canvas, seen.slice(-12));
    queueMicrotask(check);
  };
  // What changes inside a frame callback is painted by that frame, what changes elsewhere by the next one.
  const request = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (callback) =>
    request((time) => {
      inFrame = true;
      soon(() => (inFrame = false));
      callback(time);
    });
  function soon(callback) {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = callback;
    port2.postMessage(null);
  }

  const all = (selector) => roots.filter((r) => r.isConnected).flatMap((r) => [...r.querySelectorAll(selector)]);

  const numbered = () => {
    const number = (row) => Number(row.querySelector(".number").textContent);
    return all(".board .row").sort((a, b) => number(a) - number(b));
  };
  const said = (value) => parseFloat(value.textContent.replace("−", "-").match(/[-+]?\d+\.\d+/)?.[0]);

  // The advantages that the bars on the screen stand for, one list per chart.
  const readers = {
    // By the number of the answer: rows change places. What a row says is read, since lengths would need a layout.
    lab: () => [".base", ".other"].map((side) => numbered().map((row) => said(row.querySelector(`.bar${side} .value`)))),
    vega: () =>
      all("canvas.marks").map((canvas) =>
        (bars.get(canvas) ?? []).map(([x, width]) => ((x < 179.99 ? -1 : 1) * width * watch.limit) / 180),
      ),
    plotly: () =>
      [...document.querySelectorAll(".js-plotly-plot")].map((plot) => {
        const unit = plot._fullLayout.xaxis._length / (2 * watch.limit);
        return [...plot.querySelectorAll(".barlayer .point path")].map((path) => {
          const [, from, to] = path.getAttribute("d").match(/^M([-\d.]+),[-\d.]+V[-\d.]+H([-\d.]+)/) ?? [0, 0, 0];
          return (to - from) / unit;
        });
      }),
  };
  const shown = () => readers[watch.reader]();
  const matches = (charts, expected) =>
    charts.length === 2 &&
    charts.every((chart, c) => chart.length === 12 && chart.every((a, i) => Math.abs(a - expected[c][i]) < 0.02));

  window.addEventListener("click", () => armed && (armed.clicked ??= performance.now()), true);

  // The board hides its words while the core's are on their way.
  let wording = null;
  function words() {
    if (!wording || all(".board .sentences").some((node) => node.style.visibility === "hidden")) return;
    wording.resolve(performance.now() - wording.clicked);
    wording = null;
  }

  function check() {
    words();
    if (!armed?.clicked || !matches(shown(), armed.expected)) return;
    const { clicked, resolve, worded } = armed;
    const changed = performance.now();
    armed = null;
    wording = { clicked, resolve: worded };
    words();
    const painted = () => soon(() => resolve({ changed: changed - clicked, painted: performance.now() - clicked }));
    if (inFrame) painted();
    else request(painted);
  }

  const watch = {
    shown,
    limit: 0,
    reader: "",
    arm(expected) {
      if (matches(shown(), expected)) throw new Error("the charts show this already");
      watch.words = new Promise((worded) => (watch.result = new Promise((resolve) => (armed = { expected, resolve, worded }))));
    },
    // Pixels by which a bar of the Lab is longer or shorter than its number says, at most.
    off() {
      const fills = [".base", ".other"].flatMap((side) => numbered().map((row) => row.querySelector(`.bar${side} .fill`)));
      const widths = fills.map((fill) => fill.getBoundingClientRect().width);
      const sizes = shown().flat().map(Math.abs);
      const unit = Math.max(...widths) / Math.max(...sizes);
      // A bar of 0 is a mark of its own where it is tied.
      return Math.max(...widths.map((width, n) => sizes[n] && Math.abs(width - unit * sizes[n])));
    },
    // Where to click: the middles of the toggles, answer by answer.
    toggles: () =>
      (watch.reader === "lab" ? numbered().flatMap((row) => [...row.querySelectorAll("input")]) : all("input[type=checkbox], [role=checkbox]"))
        .map((node) => node.getBoundingClientRect())
        .filter((box) => box.width > 0)
        .map((box) => [box.x + box.width / 2, box.y + box.height / 2]),
  };
  window.watch = watch;
})();
