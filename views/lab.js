// The Lab: rows that run from an answer through its toggles to both bars. A flip shows at once; every number comes from
// Python in `drawing`. When the hand rests, rows glide to their place in the order of the method on the right.

const SHORT = ["correct", "style", "concise"]; // over the columns; the full names are in `choices.rewards`
const GLYPHS = ["◆", "▲", "■", "★", "✚", "⬟"];
const RESTED = 900; // ms without a change, after which rows take their place
const GLIDE = 320; // ms
const LANE = 164; // between the panels, in px where there is room
const WORDS = 47; // px from the middle of the lane to where its lines end, so that they leave its words room
const APART = 56; // px from one tie's words to the next
const LABEL = 50; // px that a value takes beside its bar

function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "path"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const say = (node, text) => node.textContent === text || (node.textContent = text);
const flat = (text) => text.replaceAll("\n", "⏎"); // in one line
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
  asComputed.addEventListener("change", () => ((convention = asComputed.value), defined(), send()));
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
    const times = make("label", {}, make("span", { "aria-hidden": "true" }, "×"), weight);
    const node = make("div", { class: `column r${k}` }, make("b", {}, SHORT[k] ?? name), passes, pay, times);
    return { node, passes, pay, weight, times, line: make("div", { class: `paid r${k}` }, make("b", {}, name)) };
  });
  const chosen = make("select", { "aria-label": "Method on the right" }, ...options(choices.methods, method));
  chosen.addEventListener("change", () => ((method = chosen.value), defined(), send()));
  // A method that a convention does not define is not to be had with it.
  function defined() {
    const lacks = (m, c) => choices.undefined.some(([one, other]) => one === m && other === c);
    [...chosen.options].forEach((option) => (option.disabled = lacks(option.value, convention)));
    [...asComputed.options].forEach((option) => (option.disabled = lacks(method, option.value)));
  }
  defined();
  const kept = [make("p", { class: "kept" }), make("p", { class: "kept" })];

  // --- the parts that stay ---------------------------------------------------------------------------------------
  const list = make("ol", { class: "rows" });
  const lane = make("svg", { class: "lane", "aria-hidden": "true", preserveAspectRatio: "none" });
  const words = make("div", { class: "words", "aria-hidden": "true" });
  const heading = make("h2", {});
  const reset = make("button", { type: "button", class: "reset" }, "Reset");
  // A phone has no room for pay and weight over the columns: there they stand in a fold.
  const paying = make("details", { class: "paying" }, make("summary", {}, "What a pass pays and weighs"), ...columns.map(({ line }) => line));
  function settle() {
    columns.forEach(({ node, line, pay, times }) => (narrow.matches ? line : node).append(pay, times));
  }
  settle();
  const head = make(
    "div",
    { class: "head" },
    make("div", { class: "who" }, heading, make("p", { class: "hint", "data-aside": "" }, "point at one to follow it ", make("i", { class: "hatched", "aria-hidden": "true" }), " tied ", reset)),
    make("div", { class: "columns" }, ...columns.map((column) => column.node)),
    make("div", { class: "panel base" }, make("h2", {}, choices.base), kept[0]),
    make("div", { class: "panel other" }, make("h2", {}, chosen), kept[1]),
  );
  const verdict = make("div", { class: "verdict" }); // a live region from the first change on
  const shares = make("div", { class: "shares", "data-picture": "lab-shares" });
  const detail = make("div", { class: "detail" });
  const table = make("table");
  const numbers = make("details", { class: "fold numbers" }, make("summary", {}, "The same as a table"), table);
  const taken = (chart) => {
    const node = make("div", { "data-aside": "" });
    node.innerHTML = choices.save[chart];
    return node;
  };
  const worked = make("div", { class: "worked" }, detail, make("div", { class: "shared" }, shares, taken(1)));
  const below = make("div", { class: "below" }, verdict, worked);
  // A fold asks for its content when it is opened, and again with every change while it is open.
  const folds = Object.entries(choices.folds).map(([name, text]) => {
    const body = make("div", { class: "body", tabindex: "-1" }, make("p", {}, "…"));
    const node = make("details", { class: "fold" }, make("summary", {}, text), body);
    node.addEventListener("toggle", () => node.open && send());
    return { name, node, body };
  });
  // The books' sliders: the ranking follows, the sliders stay.
  const shelf = folds.find(({ name }) => name === "books")?.body;
  shelf?.addEventListener("input", ({ target }) => {
    say(target.nextElementSibling, target.value);
    model.send({ books: [...shelf.querySelectorAll("input")].map((one) => Number(one.value)) });
  });
  const ranked = () => shelf?.querySelector(".rankings") && (shelf.querySelector(".rankings").innerHTML = model.get("ranking"));
  model.on("change:ranking", ranked);
  el.append(
    make(
      "div",
      { class: `lab board${new URLSearchParams(location.search).get("embed") === "lab" ? " alone" : ""}` },
      make("div", { class: "ask" }, request, make("div", { class: "choose" }, tasks, asComputed)),
      paying,
      make("div", { class: "frame", "data-picture": "lab-advantages" }, head, make("div", { class: "grid" }, list, lane, words), taken(0)),
      below,
      make("div", { class: "folds" }, ...folds.map(({ node }) => node), numbers),
      make("p", { class: "next" }, make("a", { href: "?at=train", "data-go": "train" }, "Next: does it learn better with the one or the other? Train →")),
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
    defined();
    tick();
    rows[0].toggles[0].focus();
    send();
  });
  verdict.addEventListener("click", (event) => {
    if (event.target.dataset?.aim !== "weight") return;
    paying.open = true;
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
      make("div", { class: "who" }, make("span", { class: "number" }, String(answer + 1)), make("code", { title: text }, flat(text))),
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
    // On a phone a value stands above its bar, so that the bar has the whole width.
    const tight = narrow.matches;
    const [low, high] = domain;
    const span = low + high;
    const label = tight ? 2 : LABEL;
    const room = `(100% - ${2 * label}px)`;
    list.style.setProperty("--zero", `calc(${label}px + ${room} * ${low / span})`);
    const sets = shapes(drawing.ties);
    rows.forEach(({ node, bars }, answer) => {
      bars.forEach(({ node: bar, fill, value }, side) => {
        const a = drawing.a[side][answer];
        const width = `calc(${room} * ${Math.abs(a) / span})`;
        fill.style.width = width;
        fill.style.left = a < 0 ? `calc(var(--zero) - ${width})` : "var(--zero)";
        value.style.left = tight ? "" : a < 0 ? `calc(var(--zero) - ${width} - ${LABEL}px)` : `calc(var(--zero) + ${width})`;
        bar.classList.toggle("left", a < 0);
        const tied = sets[side].get(answer);
        bar.classList.toggle("tied", tied !== undefined);
        say(value, (tied === undefined ? "" : GLYPHS[tied % GLYPHS.length] + " ") + drawing.said[side][answer]);
      });
      node.classList.toggle("tied", sets[0].has(answer));
      node.classList.toggle("odd", sets[0].get(answer) % 2 === 1);
    });
    drawing.levels.forEach((levels, side) => {
      kept[side].replaceChildren(make("b", {}, String(levels)), ` ${levels === 1 ? "advantage" : "advantages"} for ${drawing.mixes} mixes of marks`);
    });
    const html = `<p>${drawing.verdict[0]}</p><p>${drawing.verdict[1]}</p>`;
    if (verdict.dataset.html !== html) {
      verdict.dataset.html = html;
      verdict.innerHTML = html;
    }
    if (n > 0) verdict.setAttribute("role", "status");
    share(drawing);
    link(drawing);
    follow(drawing);
    untouched();
    folds.forEach(({ name, body }) => {
      const html = drawing.folds[name];
      if (!html || body.dataset.html === html || (body === shelf && body.dataset.html)) return;
      body.dataset.html = body.innerHTML = html;
    });
    if (numbers.open) tabulate();
    drawing.deeds.forEach((deed) => n > 0 && window.dispatchEvent(new CustomEvent("rpi:deed", { detail: deed })));
  }

  function untouched() {
    const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
    reset.style.visibility = same(marks, sheet().graded) && pays.every((x) => x === 1) && weights.every((x) => x === 1) && convention === choices.conventions[0][0] && method === choices.methods[0][0] ? "hidden" : "";
  }

  // Per side, the number of each tied answer's tie. One set that both methods tie has one number, any other its own.
  function shapes(ties) {
    const known = ties[0].map(({ answers }) => String(answers));
    return ties.map((side) => new Map(side.flatMap(({ answers }) => {
      const at = known.indexOf(String(answers));
      const number = at >= 0 ? at : known.push(String(answers)) - 1;
      return answers.map((answer) => [answer, number]);
    })));
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

  // Each tie: lines from the answers that share an advantage to what they share, and on to where the other method has
  // them; a tie of the other method alone hangs on its side.
  function link({ ties, a }) {
    const height = rows[0]?.node.offsetHeight || 31;
    const bottom = rows.length * height;
    const y = (answer) => (listed.indexOf(answer) + 0.5) * height;
    const sets = shapes(ties);
    const inside = (tie) => ties[0].some(({ answers }) => tie.answers.every((answer) => answers.includes(answer)));
    const all = [...ties[0].map((tie) => ({ ...tie, side: 0 })), ...ties[1].filter((tie) => !inside(tie)).map((tie) => ({ ...tie, side: 1 }))];
    for (const tie of all) {
      tie.ys = tie.answers.map(y);
      tie.at = tie.ys.reduce((sum, one) => sum + one, 0) / tie.ys.length;
    }
    // Words that would collide move apart, within the grid.
    all.sort((one, other) => one.at - other.at);
    all.forEach((tie, i) => (tie.at = Math.max(tie.at, i ? all[i - 1].at + APART : APART / 2)));
    all.toReversed().forEach((tie, i, back) => (tie.at = Math.min(tie.at, i ? back[i - 1].at - APART : bottom - APART / 2)));
    const paths = [];
    const texts = [];
    for (const { answers, mixes, side, ys, at } of all) {
      const apart = new Set(answers.map((answer) => a[1][answer].toFixed(6))).size;
      for (const one of ys) {
        if (!side) paths.push(make("path", { class: "from", d: wave(2, one, LANE / 2 - WORDS, at) }));
        paths.push(make("path", { class: "to", d: wave(LANE / 2 + WORDS, at, LANE - 2, one) }));
      }
      const glyph = GLYPHS[sets[side].get(answers[0]) % GLYPHS.length];
      const who = side ? "other" : "base";
      const text = make("p", {}, make("b", { class: who }, `${glyph} ${mixes} mixes,`), make("b", { class: who }, "1 advantage"));
      if (!side) text.append(make("b", { class: "other" }, apart > 1 ? `${title(method)}: ${apart}` : `${title(method)}: still 1`));
      text.style.top = `${at}px`;
      texts.push(text);
    }
    lane.setAttribute("viewBox", `0 0 ${LANE} ${bottom}`);
    lane.replaceChildren(...paths);
    words.replaceChildren(...texts);
  }

  function share({ shares: parts, percents, squared }) {
    const one = (part, said, name, side) =>
      make(
        "div",
        { class: `stake ${side}` },
        make("b", {}, name),
        make("span", { class: "stack", role: "img", "aria-label": `Share of the update under ${name}: ${part ? rewards.map((reward, k) => `${reward} ${said[k]}`).join(", ") : "no update"}` }, ...(part ?? []).map((x, k) => {
          const piece = make("i", { class: `r${k}` }, x > 0.22 ? said[k] : "");
          piece.style.flexGrow = Math.max(0, x);
          return piece;
        })),
      );
    shares.replaceChildren(make("span", { class: "caption" }, make("dfn", { class: "term", tabindex: "0", "data-tip": choices.share }, "Share of the update")), one(parts[0], percents[0], choices.base, "base"), one(parts[1], percents[1], title(method), "other"));
    const against = parts.flatMap((part, side) => (part ?? []).flatMap((x, k) => (x < -0.005 ? [`${rewards[k]} ${percents[side][k]} under ${side ? title(method) : choices.base}`] : [])));
    const notes = [...(against.length ? [`overruled: ${against.join(", ")}`] : []), ...(squared ? [squared] : [])];
    if (notes.length) shares.append(make("small", {}, notes.join("; ")));
  }

  // --- the answer under the pointer --------------------------------------------------------------------------------
  function point(answer) {
    if (answer === active) return;
    active = answer;
    follow(model.get("drawing"));
    if (folds.find(({ name }) => name === "conventions").node.open) send(); // its table is of this answer
  }

  function follow({ ties, lines, order }) {
    if (lines.length !== rows.length) return;
    const answer = active ?? ties[0].at(0)?.answers.at(-1) ?? order[0];
    rows.forEach(({ node }, i) => node.classList.toggle("active", i === answer));
    // A grader's reason is that of its mark; of a mark that was flipped nobody but the reader knows why.
    const failed = rewards.flatMap((name, k) => {
      const passed = marks[answer][k];
      const why = Boolean(sheet().graded[answer][k]) === Boolean(passed) ? sheet().reasons[answer][k] : `you set it to ${passed ? "passed" : "failed"}`;
      return passed && sheet().graded[answer][k] ? [] : [make("span", { class: `why r${k}` }, `${passed ? "✓" : "✗"} ${name}: ${why}`)];
    });
    // ⟨1|−2.14⟩ is what the second reward adds; what stands between two ** is the result.
    const line = (name, side, text) => {
      const parts = text.split(/(⟨\d\|[^⟩]*⟩|\*\*[^*]*\*\*)/).map((part) => {
        const term = part.match(/^⟨(\d)\|(.*)⟩$/);
        return term ? make("i", { class: `r${term[1]}` }, term[2]) : part.startsWith("**") ? make("b", {}, part.slice(2, -2)) : part;
      });
      return make("p", { class: `line ${side}` }, make("b", {}, name), make("span", {}, ...parts));
    };
    detail.replaceChildren(
      make("p", { class: "title" }, make("b", {}, `Answer ${answer + 1}`), " ", make("code", {}, flat(sheet().answers[answer])), ...failed),
      line(choices.base, "base", lines[answer][0]),
      line(title(method), "other", lines[answer][1]),
    );
    if (narrow.matches && active !== null) rows[answer].node.append(detail);
    else if (detail.parentNode !== worked) worked.prepend(detail);
  }
  const turned = () => (settle(), draw());
  narrow.addEventListener("change", turned);

  function tabulate() {
    const { said, order } = model.get("drawing");
    const cell = (tag, text, scope) => make(tag, scope ? { scope } : {}, text);
    table.replaceChildren(
      make("thead", {}, make("tr", {}, ...["answer", ...rewards, choices.base, title(method)].map((text) => cell("th", text, "col")))),
      make("tbody", {}, ...order.map((answer) => make("tr", {}, cell("th", `${answer + 1}`, "row"), ...marks[answer].map((mark) => cell("td", mark ? "1" : "0")), ...said.map((side) => cell("td", side[answer]))))),
    );
  }

  build();
  draw();
  sort(true);
  model.on("change:drawing", draw);
  return () => {
    clearTimeout(rest);
    narrow.removeEventListener("change", turned);
    model.off("change:ranking", ranked);
    model.off("change:drawing", draw);
  };
}

export default { render };
