// The Lab: rows that run from an answer through its toggles to both bars. A flip shows at once; every number comes from
// Python in `drawing`. When the hand rests, rows glide to their place in the order of the method on the right.

const SHORT = ["correct", "style", "concise"]; // over the columns; the full names are in `choices.rewards`
const GLYPHS = ["◆", "▲", "■", "★", "✚", "⬟"];
const RESTED = 900; // ms without a change, after which rows take their place
const GLIDE = 320; // ms
const LANE = 150; // px between the panels
const LABEL = 50; // px that a value takes beside its bar

function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "path"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const signed = (x) => {
  const digits = Math.abs(x).toFixed(2);
  return digits === "0.00" ? digits : (x < 0 ? "−" : "+") + digits;
};
const say = (node, text) => node.textContent === text || (node.textContent = text);
const plural = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
const wave = (x0, y0, x1, y1) => `M${x0} ${y0}C${(x0 + x1) / 2} ${y0} ${(x0 + x1) / 2} ${y1} ${x1} ${y1}`;

function options(pairs, chosen) {
  return pairs.map(([value, title]) => {
    const option = make("option", { value }, title);
    option.selected = String(value) === String(chosen);
    return option;
  });
}

function render({ model, el }) {
  const sheets = model.get("sheets");
  const choices = model.get("choices");
  const { rewards } = choices;
  let { task, marks, pays, weights, convention, method } = model.get("drawing").state;
  let rows = []; // per answer
  let listed = []; // answers from top to bottom
  let active = null;
  let domain = [0.5, 0.5]; // how far the axis goes below and above 0; it grows, so that nothing jumps
  let n = 0;
  let rest = 0;

  const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
  const narrow = matchMedia("(max-width: 760px)");
  const sheet = () => sheets[task];
  const title = (key) => choices.methods.find(([name]) => name === key)?.[1] ?? key;

  // --- asking ----------------------------------------------------------------------------------------------------
  function send() {
    model.send({ task, marks, pays, weights, convention, method, n: ++n, active, open: folds.filter(({ node }) => node.open).map(({ name }) => name) });
    clearTimeout(rest);
    rest = setTimeout(() => sort(), RESTED);
  }

  // --- controls --------------------------------------------------------------------------------------------------
  const tasks = make("fieldset", { class: "tasks" }, make("legend", { class: "unseen" }, "Request"));
  sheets.forEach((one, index) => {
    const input = make("input", { type: "radio", name: "task", value: index });
    input.checked = index === task;
    input.addEventListener("change", () => {
      task = index;
      marks = one.graded.map((row) => [...row]);
      build();
      send();
    });
    tasks.append(make("label", {}, input, make("span", {}, one.title)));
  });
  const asComputed = make("select", { "aria-label": "Computed as by" }, ...options(choices.conventions.map(([key, name]) => [key, `as ${name === "paper" ? "in the paper" : name}`]), convention));
  asComputed.addEventListener("change", () => ((convention = asComputed.value), send()));
  const request = make("p", { class: "request" });

  const columns = rewards.map((name, k) => {
    const passes = make("span", { class: "passes" });
    const pay = make("select", { "aria-label": `What a pass of ${name} pays` }, ...options(choices.pays.map((x) => [x, `pays ${x}`]), pays[k]));
    pay.addEventListener("change", () => ((pays = pays.with(k, Number(pay.value))), send()));
    const weight = make("input", { type: "number", min: 0, max: choices.heaviest, step: 0.1, "aria-label": `Weight of ${name}`, inputmode: "decimal" });
    weight.value = weights[k];
    weight.addEventListener("input", () => {
      const value = Math.min(choices.heaviest, Math.max(0, Number(weight.value)));
      if (weight.value === "" || Number.isNaN(value)) return;
      weights = weights.with(k, value);
      send();
    });
    weight.addEventListener("blur", () => (weight.value = weights[k]));
    const node = make("div", { class: `column r${k}` }, make("b", {}, SHORT[k] ?? name), passes, pay, make("label", {}, make("span", { "aria-hidden": "true" }, "×"), weight));
    return { node, passes, pay, weight };
  });
  const chosen = make("select", { "aria-label": "Method on the right" }, ...options(choices.methods, method));
  chosen.addEventListener("change", () => ((method = chosen.value), send()));
  const kept = [make("p", { class: "kept" }), make("p", { class: "kept" })];

  // --- the parts that stay ---------------------------------------------------------------------------------------
  const list = make("ol", { class: "rows" });
  const lane = make("svg", { class: "lane", "aria-hidden": "true" });
  const words = make("div", { class: "words", "aria-hidden": "true" });
  const heading = make("h2", {});
  const head = make(
    "div",
    { class: "head" },
    make("div", { class: "who" }, heading, make("p", { class: "hint" }, "point at one to follow its numbers")),
    make("div", { class: "columns" }, ...columns.map((column) => column.node)),
    make("div", { class: "panel base" }, make("h2", {}, choices.base), kept[0]),
    make("div", { class: "panel other" }, make("h2", {}, chosen), kept[1]),
  );
  const verdict = make("div", { class: "verdict", role: "status", "aria-live": "polite" });
  const reset = make("button", { type: "button", class: "reset" }, "Reset");
  const shares = make("div", { class: "shares" });
  const detail = make("div", { class: "detail" });
  const table = make("table");
  const numbers = make("details", { class: "fold numbers" }, make("summary", {}, "The same as a table"), table);
  const below = make("div", { class: "below" }, make("div", {}, verdict, shares, reset), detail);
  // A fold asks for its content when it is opened, and again with every change while it is open.
  const folds = Object.entries(choices.folds).map(([name, text]) => {
    const body = make("div", { class: "body" }, make("p", {}, "…"));
    const node = make("details", { class: "fold" }, make("summary", {}, text), body);
    node.addEventListener("toggle", () => node.open && send());
    return { name, node, body };
  });
  el.append(
    make(
      "div",
      { class: "lab board" },
      make("div", { class: "ask" }, request, make("div", { class: "choose" }, tasks, asComputed)),
      make("div", { class: "frame" }, head, make("div", { class: "grid" }, list, lane, words)),
      below,
      make("div", { class: "folds" }, ...folds.map(({ node }) => node), numbers),
    ),
  );
  numbers.addEventListener("toggle", () => numbers.open && tabulate());
  reset.addEventListener("click", () => {
    marks = sheet().graded.map((row) => [...row]);
    pays = rewards.map(() => 1);
    weights = rewards.map(() => 1);
    convention = choices.conventions[0][0];
    method = choices.methods[0][0];
    columns.forEach(({ pay, weight }) => ((pay.value = 1), (weight.value = 1)));
    asComputed.value = convention;
    chosen.value = method;
    tick();
    send();
  });
  verdict.addEventListener("click", (event) => {
    if (event.target.dataset?.aim !== "weight") return;
    columns[0].weight.focus();
    columns[0].weight.select();
  });

  // --- rows --------------------------------------------------------------------------------------------------------
  function build() {
    const { answers, request: text } = sheet();
    say(request, `“${text}”`);
    say(heading, `${answers.length} answers`);
    domain = [0.5, 0.5];
    rows = answers.map(row);
    listed = answers.map((_, answer) => answer);
    list.replaceChildren(...rows.map(({ node }) => node));
    active = null;
    rove(0, 0);
    tick();
  }

  function row(text, answer) {
    const toggles = rewards.map((name, k) => {
      const input = make("input", { type: "checkbox", title: sheet().reasons[answer][k] });
      input.addEventListener("change", () => {
        marks = marks.with(answer, marks[answer].with(k, input.checked ? 1 : 0));
        tick();
        send();
      });
      input.addEventListener("focus", () => rove(answer, k));
      input.addEventListener("keydown", (event) => move(event, answer, k));
      return make("label", { class: `toggle r${k}` }, input);
    });
    const bars = ["base", "other"].map((side) => {
      const fill = make("span", { class: "fill" });
      const value = make("span", { class: "value" });
      return { node: make("div", { class: `bar ${side}` }, fill, value), fill, value };
    });
    const node = make(
      "li",
      { class: "row" },
      make("div", { class: "who" }, make("span", { class: "number" }, String(answer + 1)), make("code", { title: text }, text)),
      make("div", { class: "columns" }, ...toggles),
      bars[0].node,
      bars[1].node,
    );
    node.addEventListener("pointerenter", () => point(answer));
    node.addEventListener("focusin", () => point(answer));
    node.addEventListener("click", () => point(answer));
    return { node, toggles: toggles.map((label) => label.firstChild), bars };
  }

  // One tab stop for the grid; arrows move in it.
  function rove(answer, k) {
    rows.forEach((one, i) => one.toggles.forEach((input, j) => (input.tabIndex = i === answer && j === k ? 0 : -1)));
  }

  function move(event, answer, k) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = Math.min(listed.length - 1, Math.max(0, listed.indexOf(answer) + step[0]));
    rows[listed[at]].toggles[Math.min(rewards.length - 1, Math.max(0, k + step[1]))].focus();
  }

  // What the toggles show needs no answer from the server.
  function tick() {
    rows.forEach(({ toggles }, answer) =>
      toggles.forEach((input, k) => {
        input.checked = Boolean(marks[answer][k]);
        input.setAttribute("aria-label", `Answer ${answer + 1}, ${rewards[k]}, ${marks[answer][k] ? "passed" : "failed"}`);
      }),
    );
    columns.forEach(({ passes }, k) => say(passes, `${marks.reduce((sum, one) => sum + one[k], 0)} of ${marks.length}`));
  }

  // --- drawing -----------------------------------------------------------------------------------------------------
  function draw() {
    const drawing = model.get("drawing");
    if (drawing.n < n || drawing.state.task !== task) return; // an answer to an earlier question
    const values = drawing.a.flat();
    const step = (x) => Math.max(0.5, Math.ceil(x * 2 - 1e-9) / 2);
    domain = [Math.max(domain[0], step(-Math.min(...values))), Math.max(domain[1], step(Math.max(...values)))];
    if (listed.length !== drawing.order.length || n === 0) sort(true);
    // On a phone a value stands on the free side of its bar, so that the bar has the whole width.
    const tight = narrow.matches;
    const [low, high] = tight ? [Math.max(domain[0], 0.6 * domain[1]), Math.max(domain[1], 0.6 * domain[0])] : domain;
    const span = low + high;
    const label = tight ? 0 : LABEL;
    const room = `(100% - ${2 * label}px)`;
    list.style.setProperty("--zero", `calc(${label}px + ${room} * ${low / span})`);
    const sets = drawing.ties.map((ties) => new Map(ties.flatMap((tie, t) => tie.answers.map((answer) => [answer, t]))));
    rows.forEach(({ node, bars }, answer) => {
      bars.forEach(({ node: bar, fill, value }, side) => {
        const a = drawing.a[side][answer];
        const width = `calc(${room} * ${Math.abs(a) / span})`;
        fill.style.width = width;
        fill.style.left = a < 0 ? `calc(var(--zero) - ${width})` : "var(--zero)";
        const left = a < 0 !== tight; // the side on which the value stands
        value.style.left = left ? `calc(var(--zero) - ${tight ? "0px" : width} - ${LABEL}px)` : `calc(var(--zero) + ${tight ? "0px" : width})`;
        bar.classList.toggle("left", left);
        const tied = sets[side].get(answer);
        bar.classList.toggle("tied", tied !== undefined);
        say(value, (tied === undefined ? "" : GLYPHS[tied % GLYPHS.length] + " ") + signed(a));
      });
      node.classList.toggle("tied", sets[0].has(answer));
      node.classList.toggle("odd", sets[0].get(answer) % 2 === 1);
    });
    drawing.levels.forEach((levels, side) => {
      kept[side].replaceChildren(make("b", {}, String(levels)), ` ${levels === 1 ? "advantage" : "advantages"} for ${drawing.mixes} mixes of marks`);
    });
    judge(drawing.verdict);
    share(drawing);
    link(drawing);
    follow(drawing);
    untouched();
    folds.forEach(({ name, body }) => drawing.folds[name] && body.innerHTML !== drawing.folds[name] && (body.innerHTML = drawing.folds[name]));
    if (numbers.open) tabulate();
    drawing.deeds.forEach((deed) => n > 0 && window.dispatchEvent(new CustomEvent("rpi:deed", { detail: deed })));
  }

  // What stands between two ** is bold; the last words of a verdict may be a button.
  let judged = "";
  function judge(sentences) {
    if (judged === sentences.join()) return;
    judged = sentences.join();
    verdict.replaceChildren(
      ...sentences.map((sentence) => {
        const open = sentence.endsWith(choices.aim);
        const text = open ? sentence.slice(0, -choices.aim.length) : sentence;
        const parts = text.split("**").map((part, i) => (i % 2 ? make("b", {}, part) : part));
        return make("p", {}, ...parts, ...(open ? [make("button", { type: "button", class: "link", "data-aim": "weight" }, choices.aim)] : []));
      }),
    );
  }

  function untouched() {
    const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
    reset.hidden = same(marks, sheet().graded) && pays.every((x) => x === 1) && weights.every((x) => x === 1) && convention === choices.conventions[0][0] && method === choices.methods[0][0];
  }

  // Rows take their places; the one in focus is never taken out of the page, so that it keeps its focus.
  function sort(first = false) {
    const { order } = model.get("drawing");
    if (order.length !== rows.length) return;
    const before = new Map(first || still() ? [] : rows.map(({ node }) => [node, node.getBoundingClientRect().top]));
    const focused = rows.findIndex(({ node }) => node.contains(el.getRootNode().activeElement));
    listed = [...order];
    const nodes = listed.map((answer) => rows[answer].node);
    const at = listed.indexOf(focused);
    nodes.forEach((node, i) => i !== at && (at >= 0 && i < at ? list.insertBefore(node, rows[focused].node) : list.append(node)));
    before.forEach((top, node) => {
      const moved = top - node.getBoundingClientRect().top;
      if (moved) node.animate([{ transform: `translateY(${moved}px)` }, { transform: "none" }], { duration: GLIDE, easing: "ease-in-out" });
    });
    link(model.get("drawing"));
  }

  // Each tie: lines from the answers that share an advantage to what they share, and on to where the other method has them.
  function link({ ties, a }) {
    const height = rows[0]?.node.offsetHeight || 31;
    const y = (answer) => (listed.indexOf(answer) + 0.5) * height;
    const placed = [];
    const paths = [];
    const texts = [];
    ties[0].forEach(({ answers, mixes }, t) => {
      const ys = answers.map(y);
      let middle = ys.reduce((sum, one) => sum + one, 0) / ys.length;
      while (placed.some((other) => Math.abs(other - middle) < 54)) middle += 54;
      placed.push(middle);
      const apart = new Set(answers.map((answer) => a[1][answer].toFixed(6))).size;
      for (const one of ys) {
        paths.push(make("path", { class: "from", d: wave(2, one, LANE / 2 - 36, middle) }));
        paths.push(make("path", { class: "to", d: wave(LANE / 2 + 36, middle, LANE - 2, one) }));
      }
      const text = make("p", {}, make("b", { class: "base" }, `${GLYPHS[t % GLYPHS.length]} ${plural(mixes, "mix").replace("mixs", "mixes")},`), make("b", { class: "base" }, "1 advantage"), make("b", { class: "other" }, apart > 1 ? `${apart} again` : "still 1"));
      text.style.top = `${middle}px`;
      texts.push(text);
    });
    const bar = rows[0]?.bars[1].node;
    list.parentNode.style.setProperty("--left", `${bar ? bar.offsetLeft - LANE : 0}px`);
    lane.setAttribute("viewBox", `0 0 ${LANE} ${rows.length * height}`);
    lane.replaceChildren(...paths);
    words.replaceChildren(...texts);
  }

  function share({ shares: parts }) {
    const one = (part, name) =>
      make(
        "div",
        { class: "stake" },
        make("span", { class: "name" }, name),
        make("span", { class: "stack", role: "img", "aria-label": `${name}: ${part ? rewards.map((reward, k) => `${reward} ${percent(part[k])}`).join(", ") : "no update"}` }, ...(part ?? []).map((x, k) => {
          const piece = make("i", { class: `r${k}` }, x > 0.14 ? percent(x) : "");
          piece.style.flexGrow = Math.max(0, x);
          return piece;
        })),
      );
    shares.replaceChildren(make("span", { class: "caption" }, "Share of the update"), one(parts[0], choices.base), one(parts[1], title(method)));
    const against = parts.flatMap((part, side) => (part ?? []).flatMap((x, k) => (x < -0.005 ? [`${rewards[k]} ${percent(x)} under ${side ? title(method) : choices.base}`] : [])));
    if (against.length) shares.append(make("small", {}, `overruled: ${against.join(", ")}`));
  }
  const percent = (x) => `${x < 0 ? "−" : ""}${Math.abs(100 * x).toFixed(0)} %`;

  // --- the answer under the pointer --------------------------------------------------------------------------------
  function point(answer) {
    if (answer === active) return;
    active = answer;
    follow(model.get("drawing"));
    if (folds[0].node.open) send(); // its table is of this answer
  }

  function follow({ ties, lines, order }) {
    if (lines.length !== rows.length) return;
    const answer = active ?? ties[0].at(0)?.answers.at(-1) ?? order[0];
    rows.forEach(({ node }, i) => node.classList.toggle("active", i === answer));
    const failed = rewards.flatMap((name, k) => (sheet().graded[answer][k] ? [] : [make("span", { class: `why r${k}` }, `✗ ${name}: ${sheet().reasons[answer][k]}`)]));
    const line = (name, side, pieces) =>
      make("p", { class: `line ${side}` }, make("b", {}, name), make("span", {}, ...pieces.map(([text, kind]) => (kind ? make("i", { class: kind }, text) : text))));
    detail.replaceChildren(
      make("p", { class: "title" }, make("b", {}, `Answer ${answer + 1}`), " ", make("code", {}, sheet().answers[answer]), ...failed),
      line(choices.base, "base", lines[answer][0]),
      line(title(method), "other", lines[answer][1]),
    );
    if (narrow.matches && active !== null) rows[answer].node.append(detail);
    else if (detail.parentNode !== below) below.append(detail);
  }
  narrow.addEventListener("change", draw);

  function tabulate() {
    const { a, order } = model.get("drawing");
    const cell = (tag, text, scope) => make(tag, scope ? { scope } : {}, text);
    table.replaceChildren(
      make("thead", {}, make("tr", {}, ...["answer", ...rewards, choices.base, title(method)].map((text) => cell("th", text, "col")))),
      make("tbody", {}, ...order.map((answer) => make("tr", {}, cell("th", `${answer + 1}`, "row"), ...marks[answer].map((mark) => cell("td", mark ? "1" : "0")), ...a.map((side) => cell("td", signed(side[answer])))))),
    );
  }

  build();
  draw();
  sort(true);
  model.on("change:drawing", draw);
  return () => {
    clearTimeout(rest);
    model.off("change:drawing", draw);
  };
}

export default { render };
