// The Evidence: a square per prompt. Python says what happens to each; the browser places, highlights and tells.

const MARGIN = "300px"; // how near a part has to come before it is computed
const RESTED = 250; // ms without a change, after which the parts that are near follow it
const PATIENCE = 3000; // ms that one answer may take before the next question goes out

function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "path", "line", "text", "circle", "g"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function put(node, html) {
  if (node.drawn === html) return; // a live region speaks only when something changed
  node.drawn = html;
  node.innerHTML = html;
}

function render({ model, el }) {
  const fixed = model.get("fixed");
  const { prompts, category, categories, outcomes, rewards } = fixed;
  let { group, draw: seed, graders, weight, kind } = model.get("drawing").state;
  let prompt = model.get("drawing").state.prompt ? prompts.indexOf(model.get("drawing").state.prompt) : null; // the reader's; null: Python's choice
  let n = 0;
  let waiting = -PATIENCE; // since when, for an answer; what is asked meanwhile goes out when it is there
  let again = false;
  let rest = 0;

  // --- asking ----------------------------------------------------------------------------------------------------
  const wanted = () => [...sections.filter((one) => one.near).map((one) => one.name), ...folds.filter(({ node }) => node.open).map(({ name }) => name)];
  function send(open = []) {
    clearTimeout(rest);
    if (!open.length && wanted().length) rest = setTimeout(() => send(wanted()), RESTED); // parts follow when the hand rests
    if (performance.now() - waiting < PATIENCE) return (again = true);
    waiting = performance.now();
    model.send({ group, draw: seed, graders, weight, kind, prompt: prompt === null ? "" : prompts[prompt], n: ++n, open });
  }

  // --- controls --------------------------------------------------------------------------------------------------
  const size = make("input", { type: "range", min: 2, max: fixed.largest, step: 1, "aria-label": "Answers per prompt" });
  const sizeSaid = make("output");
  size.addEventListener("input", () => {
    group = Number(size.value);
    sizeSaid.textContent = group;
    send();
  });
  const drawn = make("input", { type: "number", min: 0, max: fixed.draws, step: 1, "aria-label": "Draw", inputmode: "numeric" });
  const redraw = (to) => {
    seed = Math.min(fixed.draws, Math.max(0, Math.round(to)));
    send();
  };
  drawn.addEventListener("input", () => drawn.value !== "" && !Number.isNaN(Number(drawn.value)) && redraw(Number(drawn.value)));
  drawn.addEventListener("blur", () => (drawn.value = seed));
  const another = make("button", { type: "button" }, "Draw again");
  another.addEventListener("click", () => {
    redraw((seed + 1) % (fixed.draws + 1));
    drawn.value = seed;
  });
  const selects = fixed.graders.map((options, k) => {
    const select = make("select", { "aria-label": `What ${rewards[k]} asks for` }, ...options.map(([value, words]) => make("option", { value }, words)));
    select.addEventListener("change", () => ((graders = graders.with(k, select.value)), send()));
    return select;
  });
  const heavy = make("input", { type: "range", min: 1, max: fixed.heaviest, step: 0.05, "aria-label": "Weight of correctness, real prompts" });
  const heavySaid = make("output");
  heavy.addEventListener("input", () => {
    weight = Number(heavy.value);
    heavySaid.textContent = `× ${weight}`;
    send();
  });
  const controls = make(
    "div",
    { class: "controls" },
    make("label", { class: "group" }, make("span", {}, "Answers per prompt"), size, sizeSaid),
    make("span", { class: "draw" }, make("label", {}, make("span", {}, "Draw"), drawn), another),
    ...selects.map((select, k) => make("label", { class: `grader r${k}` }, make("span", {}, rewards[k]), select)),
  );

  // --- squares -----------------------------------------------------------------------------------------------------
  const squares = make("div", { class: "squares", "data-picture": "evidence-prompts" });
  const listed = categories.map((_, c) => prompts.map((_, i) => i).filter((i) => category[i] === c));
  const blocks = categories.map((name, c) => {
    const nodes = listed[c].map(() => make("button", { type: "button", class: "square", tabindex: "-1" }));
    const field = make("div", { class: "field", role: "group", "aria-label": `${name}, ${nodes.length} prompts` }, ...nodes);
    squares.append(make("div", { class: "block" }, make("p", { "aria-hidden": "true" }, make("b", {}, name), make("span", {}, `${nodes.length} prompts`)), field));
    return { nodes, field };
  });
  const nodes = blocks.flatMap((block) => block.nodes);
  const tip = make("div", { class: "tip", hidden: "" });
  let order = prompts.map((_, i) => i); // the prompt of each square
  let told = {}; // by outcome
  let outcome = "";

  function place(drawing) {
    outcome = drawing.outcome;
    told = Object.fromEntries(drawing.legend.map(([name, , text]) => [name, text]));
    order = listed.flatMap((inside) => [...inside].sort((a, b) => outcome[a] - outcome[b] || a - b));
    nodes.forEach((node, at) => {
      const i = order[at];
      const name = outcomes[outcome[i]];
      node.className = `square ${name}${i === drawing.prompt ? " open" : ""}${node === pointed ? " near" : ""}`;
      node.setAttribute("aria-label", `${prompts[i]}: ${told[name]}`);
    });
    if (!nodes.some((node) => node.tabIndex === 0)) rove(nodes[order.indexOf(drawing.prompt)] ?? nodes[0]);
  }

  const rove = (to) => nodes.forEach((node) => (node.tabIndex = node === to ? 0 : -1));
  const at = (target) => nodes.indexOf(target.closest?.(".square"));

  function tell(index) {
    const i = order[index];
    const name = outcomes[outcome[i]];
    tip.replaceChildren(make("b", {}, prompts[i]), ` · ${categories[category[i]]}`, make("span", {}, make("i", { class: `square ${name}` }), told[name]));
    tip.hidden = false;
    const box = nodes[index].getBoundingClientRect();
    const frame = squares.getBoundingClientRect();
    tip.style.left = `${Math.max(0, Math.min(box.left - frame.left - 20, frame.width - tip.offsetWidth))}px`;
    tip.style.top = `${box.bottom - frame.top + 6}px`;
  }

  // A square is smaller than a fingertip, so the whole field is what one points at: the nearest square answers.
  function nearest(event) {
    const block = blocks.find(({ field }) => field === event.target);
    if (!block) return -1;
    const [first, second] = block.nodes.map((node) => node.getBoundingClientRect());
    const columns = block.nodes.findIndex((node) => node.getBoundingClientRect().top > first.top + 1);
    const below = block.nodes[columns]?.getBoundingClientRect() ?? first;
    const place = (x, start, step, size) => Math.max(0, Math.round((x - start - size / 2) / (step || 1)));
    const column = Math.min(place(event.clientX, first.left, second.left - first.left, first.width), columns - 1);
    const row = place(event.clientY, first.top, below.top - first.top, first.height);
    return nodes.indexOf(block.nodes[Math.min(row * columns + column, block.nodes.length - 1)]);
  }
  let pointed = null;
  function point(index) {
    pointed?.classList.remove("near");
    pointed = nodes[index];
    pointed?.classList.add("near");
    if (pointed) tell(index);
    else tip.hidden = true;
  }
  squares.addEventListener("pointermove", (event) => point(nearest(event)));
  squares.addEventListener("pointerleave", () => point(-1));
  squares.addEventListener("focusin", (event) => {
    const index = at(event.target);
    if (index < 0) return;
    rove(nodes[index]);
    if (event.target.matches(":focus-visible")) tell(index);
  });
  squares.addEventListener("focusout", () => (tip.hidden = true));
  squares.addEventListener("click", (event) => {
    const index = at(event.target) >= 0 ? at(event.target) : nearest(event); // by keyboard, by pointer
    if (index >= 0) open(order[index]);
  });
  squares.addEventListener("keydown", (event) => {
    const index = at(event.target);
    if (event.key === "Escape") tip.hidden = true;
    if (index < 0) return;
    const to = { ArrowLeft: index - 1, ArrowRight: index + 1, ArrowUp: beside(index, -1), ArrowDown: beside(index, 1), Home: 0, End: nodes.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    nodes[Math.min(nodes.length - 1, Math.max(0, to))].focus();
  });

  // The square above or below, also in the next block.
  function beside(index, step) {
    const { left, top } = nodes[index].getBoundingClientRect();
    let row = null;
    let best = index;
    for (let i = index + step; i >= 0 && i < nodes.length; i += step) {
      const box = nodes[i].getBoundingClientRect();
      if (Math.abs(box.top - top) < 2) continue;
      if (row !== null && Math.abs(box.top - row) > 2) break;
      if (row === null || Math.abs(box.left - left) < Math.abs(nodes[best].getBoundingClientRect().left - left)) best = i;
      row = box.top;
    }
    return best;
  }

  // --- the prompt that is open ---------------------------------------------------------------------------------------
  const openTitle = make("h3");
  const find = make("input", { type: "search", list: "prompts", placeholder: "find a prompt", "aria-label": "Open a prompt by its name", autocomplete: "off" });
  const names = make("datalist", { id: "prompts" });
  find.addEventListener("focus", () => names.childElementCount || names.append(...prompts.map((value) => make("option", { value }))));
  find.addEventListener("change", () => {
    const i = prompts.indexOf(find.value.trim());
    if (i >= 0) open(i);
    find.value = "";
  });
  const step = (by, text) => {
    const button = make("button", { type: "button", "aria-label": `${text} prompt` }, by < 0 ? "←" : "→");
    button.addEventListener("click", () => open(order[(order.indexOf(model.get("drawing").prompt) + by + order.length) % order.length]));
    return button;
  };
  const openBody = make("div", { "aria-live": "polite" });
  const opened = make("section", { class: "opened", "aria-label": "The prompt that is open" }, make("div", { class: "top" }, openTitle, make("span", { class: "find" }, step(-1, "Previous"), step(1, "Next"), find, names)), openBody);

  function open(i) {
    prompt = i;
    nodes.forEach((node, index) => node.classList.toggle("open", order[index] === i));
    rove(nodes[order.indexOf(i)]);
    send();
  }

  // --- legend --------------------------------------------------------------------------------------------------------
  const legend = make("div", { class: "legend", "data-picture": "evidence-prompts", role: "group", "aria-label": "Highlight what happens to a prompt" });
  function explain(drawing) {
    const focused = el.getRootNode().activeElement?.dataset?.kind;
    legend.replaceChildren(
      ...drawing.legend.map(([name, count, text]) => {
        const button = make("button", { type: "button", "data-kind": name, "aria-pressed": String(kind === name) }, make("i", { class: `square ${name}` }), make("b", {}, count), make("span", {}, text));
        button.addEventListener("click", () => {
          kind = kind === name ? "" : name;
          highlight(kind);
          send();
        });
        button.addEventListener("pointerenter", () => highlight(name));
        button.addEventListener("pointerleave", () => highlight(kind));
        return button;
      }),
    );
    if (focused) legend.querySelector(`[data-kind="${focused}"]`)?.focus();
  }
  function highlight(name) {
    squares.dataset.kind = name;
    legend.querySelectorAll("button").forEach((button) => button.setAttribute("aria-pressed", String(kind === button.dataset.kind)));
  }

  // --- what it is worth ------------------------------------------------------------------------------------------------
  const claim = make("h1");
  const lead = make("p", { class: "lead" });
  const title = make("h2");
  const worth = make("p", { class: "worth", role: "status", "aria-live": "polite" });
  const bars = make("div", { class: "bars", "data-picture": "evidence-first" });
  const plots = make("div", { class: "plots", "data-picture": "evidence-weights" });
  const taken = (chart) => {
    const node = make("div");
    node.innerHTML = fixed.save[chart];
    return node;
  };
  const never = make("p", { class: "note" });
  const words = { right: "right first", tied: "tied", wrong: "wrong first" };

  function stack({ of, name, method, parts }) {
    return make(
      "div",
      { class: `stack ${method}` },
      make("p", { class: "small", "aria-hidden": "true" }, parts.filter(([, share]) => share <= 0.24).map(([part, , text]) => `${text} ${words[part]}`).join(" · ")),
      make("p", {}, make("b", {}, name), ` ${of}`),
      make(
        "div",
        { class: "parts", role: "img", "aria-label": `${name}, ${of}: ${parts.map(([part, , text]) => `${words[part]} ${text}`).join(", ")}` },
        ...parts.map(([part, share, text]) => {
          const piece = make("span", { class: part, title: `${words[part]} ${text}` });
          piece.style.flexGrow = share;
          if (share > 0.24) piece.append(make("i", {}, `${text} ${words[part]}`));
          return piece;
        }),
      ),
    );
  }

  // A small chart: the share that has the wrong answer first, by the weight of correctness.
  function plot({ title: text, top, label, weights, lines, none, said }) {
    const [width, height, left, foot, head] = [270, 118, 38, 20, 18];
    const last = weights[weights.length - 1];
    const x = (w) => left + ((w - weights[0]) / (last - weights[0])) * (width - left - 8);
    const y = (share) => head + (1 - share / top) * (height - head - foot);
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${text}, as correctness weighs more: ${said}` });
    const write = (at, up, content, style = "") => svg.append(make("text", { x: at, y: up, class: style }, content));
    write(0, 10, text, "title");
    write(left - 5, y(top) + 8, label, "end");
    write(left - 5, y(0), "0 %", "end");
    svg.append(make("line", { x1: left, x2: width - 8, y1: y(0), y2: y(0), class: "axis" }));
    weights.filter((w) => Number.isInteger(w)).forEach((w) => write(x(w), height - 5, String(w), "middle"));
    svg.append(make("line", { x1: x(weight), x2: x(weight), y1: head, y2: y(0), class: "now" }));
    lines.forEach(([method, , values]) => {
      svg.append(make("path", { class: `line ${method}`, d: values.map((share, i) => `${i ? "L" : "M"}${x(weights[i]).toFixed(1)} ${y(share).toFixed(1)}`).join("") }));
      const here = weights.indexOf(weight);
      svg.append(make("circle", { class: method, cx: x(weight), cy: y(values[here]), r: 3.5 }));
    });
    none.forEach(([method, needed, enough], k) => {
      const name = lines.find(([m]) => m === method)[1];
      const at = Math.min(needed, last);
      svg.append(make("line", { x1: x(at), x2: x(at), y1: y(0) - 5, y2: y(0) + 4, class: `end ${method}` }));
      write(width - 8, head + 10 + 14 * k, `${name}: none from ${enough}`, `end ${method}`);
    });
    return svg;
  }

  // --- further down ------------------------------------------------------------------------------------------------------
  const folds = Object.entries(fixed.folds).map(([name, [below, text]]) => {
    const body = make("div", { class: "body" }, make("p", {}, "…"));
    const node = make("details", { class: "fold" }, make("summary", {}, text), body);
    node.addEventListener("toggle", () => node.open && send(wanted()));
    return { name, below, node, body };
  });
  // On a phone a part waits behind its title.
  const sections = Object.entries(fixed.parts).map(([name, text]) => {
    const body = make("div", { class: "body" });
    const node = make("details", { class: `part ${name}` }, make("summary", { class: "late" }, text), body, ...folds.filter(({ below }) => below === name).map((fold) => fold.node));
    node.open = !matchMedia("(max-width: 760px)").matches;
    node.addEventListener("toggle", () => node.open && near([sections.find((one) => one.node === node)]));
    return { name, node, body, near: false };
  });
  function near(came) {
    const late = came.filter((one) => one.node.open && !one.near);
    late.forEach((one) => ((one.near = true), looking.unobserve(one.node)));
    if (late.length) send(wanted());
  }
  const about = make("section", { class: "part about" }, ...folds.filter(({ below }) => below === "about").map((fold) => fold.node));
  const onward = make("p", { class: "onward" }, "These are other people's answers. ", make("a", { href: "?at=run", "data-go": "run" }, "What happened in your own run?"));
  const looking = new IntersectionObserver(
    (entries) => near(entries.filter((entry) => entry.isIntersecting).map((entry) => sections.find(({ node }) => node === entry.target))),
    { rootMargin: MARGIN },
  );
  sections.forEach(({ node }) => looking.observe(node));
  // On paper all parts are there.
  const printed = (event) => {
    if (event.detail !== "all") return;
    sections.forEach(({ node }) => (node.open = true));
    near(sections);
  };
  window.addEventListener("rpi:at", printed);

  function unfold() {
    for (const [name, html] of Object.entries(model.get("parts"))) {
      const target = [...sections, ...folds].find((one) => one.name === name);
      if (target && target.html !== html) {
        target.html = html;
        target.body.innerHTML = html;
      }
    }
  }

  // --- drawing -------------------------------------------------------------------------------------------------------
  function draw() {
    const drawing = model.get("drawing");
    waiting = -PATIENCE;
    if (again) {
      again = false;
      send();
    }
    if (drawing.n < n && drawing.n) return; // an answer to an earlier question: the next is under way
    put(claim, drawing.claim);
    put(lead, drawing.lead);
    place(drawing);
    if (JSON.stringify(drawing.legend) !== legend.of) {
      legend.of = JSON.stringify(drawing.legend);
      explain(drawing);
    }
    highlight(kind);
    title.textContent = drawing.title;
    put(worth, drawing.worth);
    bars.replaceChildren(...drawing.bars.map(stack));
    plots.replaceChildren(...drawing.curves.map(plot));
    never.textContent = drawing.never;
    openTitle.textContent = prompts[drawing.prompt];
    put(openBody, drawing.opened);
  }

  function stand() {
    size.value = group;
    sizeSaid.textContent = group;
    drawn.value = seed;
    heavy.value = weight;
    heavySaid.textContent = `× ${weight}`;
    selects.forEach((select, k) => (select.value = graders[k]));
  }

  squares.append(tip);
  el.append(
    make(
      "div",
      { class: "evidence" },
      claim,
      lead,
      controls,
      make(
        "div",
        { class: "screen" },
        make("div", { class: "left" }, squares, taken("evidence-prompts"), opened),
        make("div", { class: "right" }, legend, title, worth, bars, make("div", { class: "beside" }, make("label", { class: "heavy" }, make("span", {}, "Weight of correctness"), heavy, heavySaid), taken("evidence-first")), plots, make("div", { class: "beside" }, never, taken("evidence-weights"))),
      ),
      ...sections.map(({ node }) => node),
      about,
      onward,
    ),
  );
  stand();
  draw();
  unfold();
  model.on("change:drawing", draw);
  model.on("change:parts", unfold);
  return () => {
    clearTimeout(rest);
    looking.disconnect();
    window.removeEventListener("rpi:at", printed);
    model.off("change:drawing", draw);
    model.off("change:parts", unfold);
  };
}

export default { render };
