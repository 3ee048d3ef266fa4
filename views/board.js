// The board: answers stay where the hand is, bars stay sorted, lines tie the two together.
// Nodes are built once a task and then only moved; every number comes from Python in `drawing`.

const REWARDS = ["correct", "style", "concise"]; // short, for the marks; LONG for sentences
const LONG = ["correctness", "style", "conciseness"];
const GLYPHS = ["◆", "▲", "■", "★", "✚", "⬟"];
const METHODS = { grpo: ["GRPO", "add, then normalise"], gdpo: ["GDPO", "normalise, then add"] };
const SETTLED = 300; // ms without a flip
const LINK_WIDTH = 44;
const LANE_WIDTH = 176;

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

const plural = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

const wave = (x0, y0, x1, y1) => `M${x0} ${y0}C${(x0 + x1) / 2} ${y0} ${(x0 + x1) / 2} ${y1} ${x1} ${y1}`;

// A text or attribute that stays as it is needs no new layout.
const say = (node, text) => node.textContent === text || (node.textContent = text);

function render({ model, el }) {
  const board = make("div", { class: "board" });
  el.append(make("div", { class: "frame" }, board));
  let listed = []; // answers in the order of the list, which only changes when asked to
  let rows = [];
  let bars = {};
  let links = [];
  let active = 0;
  let touched = false; // the reader has pointed at an answer
  let rowHeight = 34;
  let explained = ""; // what the detail shows

  const sheet = () => model.get("tasks")[model.get("task")];
  const count = () => sheet().answers.length;

  // --- the parts that stay -------------------------------------------------------------------------------------
  const tasks = make("fieldset", { class: "tasks" }, make("legend", {}, "Task"));
  const request = make("p", { class: "request" });
  model.get("tasks").forEach((task, index) => {
    const input = make("input", { type: "radio", name: `task-${model.get("tasks").length}`, value: index });
    input.checked = index === model.get("task");
    input.addEventListener("change", () => {
      clearTimeout(rest);
      model.set("task", index);
      model.set("passed", model.get("tasks")[index].graded);
      model.save_changes();
      build();
    });
    tasks.append(make("label", {}, input, make("span", {}, task.title)));
  });

  const list = make("ol", { class: "list" });
  const linkArt = make("svg", { class: "links", "aria-hidden": "true" });
  const laneArt = make("svg", { "aria-hidden": "true" });
  const laneText = make("div", { class: "lane-text" });
  const lane = make("div", { class: "lane" }, laneArt, laneText);
  const panels = {};
  const heads = {};
  for (const [method, [name, motto]] of Object.entries(METHODS)) {
    heads[method] = make("span");
    panels[method] = make("div", { class: "rows", role: "img" });
    panels[method].parent = make(
      "section",
      { class: `panel ${method}`, "aria-label": `${name} advantages` },
      make("header", {}, make("h2", {}, name), make("p", { class: "motto" }, make("span", { class: "wide" }, `${motto} · `), heads[method])),
      panels[method],
    );
  }
  const legend = make("p", { class: "legend" });
  REWARDS.forEach((name, k) => legend.append(make("span", {}, make("i", { class: `dot r${k} on` }), name)));
  const grid = make(
    "div",
    { class: "grid" },
    make("div", { class: "answers" }, make("header", {}, make("h2", {}), legend), list),
    linkArt,
    make("div", { class: "panels" }, panels.grpo.parent, lane, panels.gdpo.parent),
  );
  const verdict = make("div", { class: "verdict", role: "status" });
  const reset = make("button", { type: "button", class: "reset" }, "Reset to the graded rewards");
  const lineUp = make("button", { type: "button", class: "line-up" }, "Sort the answers like the bars");
  const detail = make("div", { class: "detail" });
  const table = make("table");
  const numbers = make("details", { class: "numbers" }, make("summary", {}, "The same as a table"), table);
  numbers.addEventListener("toggle", () => numbers.open && tabulate());
  board.append(
    make("div", { class: "ask" }, tasks, request),
    grid,
    make("div", { class: "below" }, make("div", {}, verdict, make("p", { class: "actions" }, reset, lineUp)), detail),
    numbers,
  );

  reset.addEventListener("click", () => send(sheet().graded));
  lineUp.addEventListener("click", () => {
    listed = [...model.get("drawing").order];
    listed.forEach((answer) => list.append(rows[answer].node));
    draw();
  });

  // The bars ask for their drawing at once. What lies further down follows when the hand has come to rest.
  let rest = 0;
  function send(passed) {
    model.set("passed", passed);
    model.send({ passed });
    mark();
    clearTimeout(rest);
    rest = setTimeout(() => model.save_changes(), SETTLED);
  }

  // --- what a task brings --------------------------------------------------------------------------------------
  function build() {
    const { answers, request: text } = sheet();
    request.replaceChildren(make("span", {}, "“" + text + "”"));
    board.style.setProperty("--count", answers.length);
    grid.querySelector("h2").textContent = `${answers.length} answers`;
    listed = answers.map((_, answer) => answer);
    rows = answers.map(answerRow);
    list.replaceChildren(...rows.map((row) => row.node));
    for (const method in METHODS) {
      bars[method] = answers.map((_, answer) => bar(method, answer));
      panels[method].replaceChildren(...bars[method].map((b) => b.node));
    }
    links = answers.map(() => make("path", { fill: "none" }));
    linkArt.replaceChildren(...links);
    touched = false;
    draw();
  }

  function answerRow(text, answer) {
    const toggles = REWARDS.map((name, k) => {
      const input = make("input", {
        type: "checkbox",
        "aria-label": `Answer ${answer + 1}: ${LONG[k]}`,
        title: sheet().reasons[answer][k],
      });
      input.addEventListener("change", () => {
        const passed = model.get("passed").map((row) => [...row]);
        passed[answer][k] = input.checked ? 1 : 0;
        send(passed);
      });
      return { input, label: make("label", { class: `toggle r${k}` }, input, make("span", {}, name)) };
    });
    const node = make(
      "li",
      { class: "answer" },
      make("span", { class: "number" }, String(answer + 1)),
      make("code", { title: text }, text),
      make("span", { class: "toggles" }, ...toggles.map((t) => t.label)),
      make("span", { class: "inline-values" }),
      make("span", { class: "why" }),
    );
    pointAt(node, answer);
    return { node, toggles: toggles.map((t) => t.input), values: node.querySelector(".inline-values"), why: node.lastChild };
  }

  function bar(method, answer) {
    const marks = REWARDS.map((_, k) => make("i", { class: `dot r${k}` }));
    const pattern = make("span", { class: "dots", "aria-hidden": "true" }, ...marks);
    const name = make("span", { class: "name" }, make("b", {}, String(answer + 1)), pattern);
    const fill = make("span", { class: "fill" });
    const value = make("span", { class: "value" });
    const node = make("div", { class: "bar" }, name, make("span", { class: "track" }, fill, value));
    pointAt(node, answer);
    return { node, marks, fill, value };
  }

  function pointAt(node, answer) {
    const show = () => {
      touched = true;
      active = answer;
      explain();
    };
    node.addEventListener("pointerenter", show);
    node.addEventListener("focusin", show);
  }

  // --- what a flip changes -------------------------------------------------------------------------------------
  function mark() {
    const passed = model.get("passed");
    const { graded, reasons } = sheet();
    rows.forEach((row, answer) => {
      row.toggles.forEach((input, k) => {
        input.checked = Boolean(passed[answer][k]);
        input.classList.toggle("changed", passed[answer][k] !== graded[answer][k]);
      });
      const notes = LONG.flatMap((name, k) => {
        const yours = passed[answer][k] !== graded[answer][k];
        if (yours) return [`${name}: set by you, the grader said ${graded[answer][k] ? "pass" : "fail"}.`];
        return graded[answer][k] ? [] : [`✗ ${name}: ${reasons[answer][k]}`];
      });
      say(row.why, [...new Set(notes.map((note) => note.replace(/^✗ \w+: (?=No call)/, "✗ ")))].join(" "));
    });
  }

  function draw() {
    const drawing = model.get("drawing");
    const passed = model.get("passed");
    if (drawing.order.length !== count()) return;
    mark();
    const rank = [];
    drawing.order.forEach((answer, place) => (rank[answer] = place));
    for (const method in METHODS) drawBars(method, drawing, rank, passed);
    drawLinks(rank);
    drawLane(drawing, rank);
    const sentences = drawing.verdict.map((sentence) => `<p>${sentence}</p>`).join("");
    if (verdict.innerHTML !== sentences) verdict.innerHTML = sentences; // escaped in Python
    lineUp.hidden = listed.every((answer, place) => answer === drawing.order[place]);
    reset.disabled = JSON.stringify(passed) === JSON.stringify(sheet().graded);
    if (!touched) active = drawing.example;
    explain();
    if (numbers.open) tabulate();
  }

  function drawBars(method, drawing, rank, passed) {
    const ties = drawing.ties[method];
    const levels = drawing.levels[method];
    say(heads[method], plural(levels, "level"));
    bars[method].forEach(({ node, marks, fill, value }, answer) => {
      const advantage = drawing[method][answer];
      const share = (50 * Math.abs(advantage)) / drawing.limit;
      const tie = ties.findIndex((t) => t.answers.includes(answer));
      node.style.setProperty("--rank", rank[answer]);
      node.classList.toggle("tied", tie >= 0);
      node.classList.toggle("negative", advantage < 0);
      fill.style.width = `${share}%`;
      say(value, signed(advantage) + (tie >= 0 ? ` ${GLYPHS[tie % GLYPHS.length]}` : ""));
      marks.forEach((mark, k) => mark.classList.toggle("on", Boolean(passed[answer][k])));
    });
    const tied = ties.map((t) => `answers ${t.answers.map((i) => i + 1).join(", ")} share one advantage`);
    panels[method].setAttribute(
      "aria-label",
      `Bars of the ${METHODS[method][0]} advantages from highest to lowest, ${plural(levels, "level")}. ` +
        (tied.length ? `Different rewards, ${tied.join("; ")}.` : "No tie between different rewards."),
    );
    rows.forEach(({ node, values }, answer) => {
      if (method === "grpo") node.classList.toggle("tied", ties.some((t) => t.answers.includes(answer)));
      const text = `${METHODS[method][0]} ${bars[method][answer].value.textContent}`;
      const slot = values.querySelector(`.${method}`) ?? values.appendChild(make("span", { class: method }));
      say(slot, text);
    });
  }

  function drawLinks(rank) {
    const middle = (place) => (place + 0.5) * rowHeight;
    linkArt.setAttribute("viewBox", `0 0 ${LINK_WIDTH} ${count() * rowHeight}`);
    listed.forEach((answer, place) => {
      links[answer].setAttribute("d", wave(0, middle(place), LINK_WIDTH, middle(rank[answer])));
      links[answer].classList.toggle("bent", rank[answer] !== place);
    });
  }

  function drawLane(drawing, rank) {
    const height = rowHeight;
    laneArt.setAttribute("viewBox", `0 0 ${LANE_WIDTH} ${count() * height}`);
    const nodes = drawing.ties.grpo.map((tie) => {
      const places = tie.answers.map((answer) => rank[answer]);
      return { tie, places, y: (places.reduce((a, b) => a + b) / places.length + 0.5) * height };
    });
    for (let i = 1; i < nodes.length; i++) nodes[i].y = Math.max(nodes[i].y, nodes[i - 1].y + 58);
    const over = nodes.length ? nodes.at(-1).y + 29 - count() * height : 0;
    if (over > 0) nodes.forEach((node) => (node.y -= over));
    laneArt.replaceChildren(
      ...nodes.flatMap(({ places, y }) =>
        places.flatMap((place) => [
          make("path", { class: "into", d: wave(0, (place + 0.5) * height, 38, y) }),
          make("path", { class: "out", d: wave(LANE_WIDTH - 38, y, LANE_WIDTH, (place + 0.5) * height) }),
        ]),
      ),
    );
    laneText.replaceChildren(
      ...nodes.map(({ tie, y }, i) => {
        const glyph = make("b", {}, GLYPHS[i % GLYPHS.length]);
        const node = make("p", {}, glyph, ` ${tie.mixes} different mixes, one advantage`);
        node.style.top = `${y}px`;
        return node;
      }),
    );
  }

  function explain() {
    const { answers, reasons, graded } = sheet();
    if (active >= answers.length) active = 0;
    const passed = model.get("passed")[active];
    rows.forEach(({ node }, answer) => node.classList.toggle("active", answer === active));
    links.forEach((path, answer) => path.classList.toggle("active", answer === active));
    for (const method in METHODS)
      bars[method].forEach(({ node }, answer) => node.classList.toggle("active", answer === active));
    const key = `${model.get("task")} ${active} ${passed}`;
    if (key === explained) return;
    explained = key;
    detail.replaceChildren(
      make("h2", {}, `Answer ${active + 1}, as the graders read it`),
      make("code", {}, answers[active]),
      make("ul", {}, ...LONG.map((name, k) => {
        const yours = passed[k] !== graded[active][k];
        return make(
          "li",
          { class: passed[k] ? "pass" : "fail" },
          make("b", {}, `${passed[k] ? "✓" : "✗"} ${name}`),
          yours ? ` set by you. The grader said ${graded[active][k] ? "pass" : "fail"}: ` : " ",
          reasons[active][k],
        );
      })),
    );
  }

  function tabulate() {
    const drawing = model.get("drawing");
    const passed = model.get("passed");
    const cells = (tag, values) => make("tr", {}, ...values.map((value) => make(tag, {}, String(value))));
    table.replaceChildren(
      make("thead", {}, cells("th", ["Answer", ...LONG, "GRPO", "GDPO"])),
      make("tbody", {}, ...drawing.order.map((answer) =>
        cells("td", [answer + 1, ...passed[answer], signed(drawing.grpo[answer]), signed(drawing.gdpo[answer])]),
      )),
    );
  }

  // Reading a style after writing one makes the browser lay the page out at once: read only here, never in draw().
  const resized = new ResizeObserver(() => {
    const height = parseFloat(getComputedStyle(board).getPropertyValue("--row-px"));
    if (height === rowHeight) return;
    rowHeight = height;
    draw();
  });
  build();
  resized.observe(board);
  model.on("change:drawing", draw);
  return () => {
    clearTimeout(rest);
    resized.disconnect();
    model.off("change:drawing", draw);
  };
}

export default { render };
