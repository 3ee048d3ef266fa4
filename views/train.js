// Train: every scenario as a small picture in the column of its verdict, one of them large with its controls. Curves and
// numbers come from Python; here they are drawn. A change asks with a message, and what was asked before is stopped.

const SVG = "http://www.w3.org/2000/svg";
const COLUMNS = [["faster", "▲", "GDPO faster"], ["same", "=", "no difference"], ["slower", "▼", "GDPO slower"]];
const REST = 140; // ms that a slider rests before it asks
const PATIENCE = 250; // ms after which the old picture is dimmed
const GLIDE = 350; // ms
const PAD = { left: 32, right: 10, top: 14, bottom: 22 };

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  return fill(node, attributes, children);
}

function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined && value !== null) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const say = (node, text) => node.textContent === text || (node.textContent = text);
const short = (x) => String(Number(x.toPrecision(4)));

function render({ model, el }) {
  const choices = model.get("choices");
  const { scenarios, looks, stops, sizes, level } = choices;
  const byId = Object.fromEntries(scenarios.map((one) => [one.id, one]));
  let state = model.get("drawing").state;
  let compared = byId[state.scenario].own === "equal" ? state.compare : "equal"; // what the small pictures show
  let n = 0;
  let resting = 0;
  let dimming = 0;
  let predicting = false;
  const guesses = {};
  const fresh = {}; // cards of what the Lab shows now, which no file holds
  const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
  const colour = (m) => (["grpo", "gdpo"].includes(m) ? m : "third");
  const name = (m) => looks[m][0];

  // --- asking ----------------------------------------------------------------------------------------------------
  function ask(message) {
    n += 1;
    model.send({ ...message, n });
    clearTimeout(dimming);
    dimming = setTimeout(() => large.classList.add("old"), PATIENCE);
  }
  const send = () => ask(state);
  const later = () => (clearTimeout(resting), (resting = setTimeout(send, REST)));
  const choose = (id) => ask({ choose: id, compare: compared });

  // --- claim and comparison ----------------------------------------------------------------------------------------
  const claim = make("h1");
  const compare = make("fieldset", { class: "compare" }, make("legend", { class: "unseen" }, "How the methods are compared"));
  choices.compare.forEach(([key, title]) => {
    const input = make("input", { type: "radio", name: "compare", value: key });
    input.addEventListener("change", () => {
      compared = key;
      state = { ...state, compare: key };
      place();
      send();
    });
    compare.append(make("label", {}, input, make("span", {}, title)));
  });
  const predict = make("button", { type: "button", class: "tool", "aria-pressed": "false" }, "Predict first");
  predict.addEventListener("click", () => {
    predicting = !predicting;
    predict.setAttribute("aria-pressed", String(predicting));
    place();
    show();
  });
  const lab = make("button", { type: "button", class: "tool" }, "Use the Lab's twelve answers");
  lab.addEventListener("click", () => choose("board"));
  const score = make("span", { class: "score", role: "status" });

  // --- the small pictures ------------------------------------------------------------------------------------------
  const columns = COLUMNS.map(([kind, sign, title]) => {
    const heading = make("h2", { class: kind });
    const list = make("div", { class: "cards" });
    return { heading, list, sign, title, node: make("section", { class: "column" }, heading, list) };
  });
  const arms = make("div", { class: "cards arms" });
  const hidden = make("div", { class: "cards hidden" });
  const cards = Object.fromEntries(
    scenarios.map((one) => {
      const picture = make("span", { class: "picture" });
      const label = make("span", { class: "label" });
      const node = make("button", { type: "button", class: "card" }, make("b", {}, one.title), picture, label);
      node.addEventListener("click", () => {
        choose(one.id);
        if (large.getBoundingClientRect().top < 0) large.scrollIntoView({ behavior: still() ? "auto" : "smooth" }); // where it stands above the cards
      });
      return [one.id, { node, picture, label }];
    }),
  );

  const secret = (id) => predicting && !guesses[id];

  function place() {
    const { cards: found, claim: said } = model.get("cards")[compared];
    say(claim, said);
    compare.querySelectorAll("input").forEach((input) => (input.checked = input.value === state.compare));
    const before = new Map(still() ? [] : Object.values(cards).filter(({ node }) => node.isConnected).map(({ node }) => [node, node.getBoundingClientRect()]));
    const focused = el.getRootNode().activeElement;
    const counts = [0, 0, 0];
    for (const one of scenarios) {
      const { node, picture, label } = cards[one.id];
      const card = fresh[`${compared} ${one.id}`] ?? found[one.id];
      const list = one.arms ? arms : secret(one.id) ? hidden : columns[card.column].list;
      const apart = one.own !== "equal" && one.own !== compared;
      if (!one.arms && !apart) counts[card.column] += 1;
      node.classList.toggle("apart", apart);
      list.append(node);
      picture.replaceChildren(secret(one.id) ? make("i", {}, "?") : spark(card));
      const guess = predicting && guesses[one.id] ? (guesses[one.id] === card.kind ? "✓ " : "✗ ") : "";
      say(label, secret(one.id) ? "your guess?" : guess + card.label + (apart ? ", by longer steps" : ""));
      label.className = `label ${COLUMNS[card.column][0]}`;
      node.classList.toggle("secret", secret(one.id));
    }
    columns.forEach(({ heading, sign, title, list }, k) => heading.replaceChildren(make("span", { "aria-hidden": "true" }, sign), ` ${title} `, make("small", {}, predicting ? `${list.childElementCount}` : `${counts[k]}`)));
    if (focused && el.contains(focused)) focused.focus({ preventScroll: true });
    before.forEach((was, node) => {
      const now = node.getBoundingClientRect();
      const [x, y] = [was.left - now.left, was.top - now.top];
      if ((x || y) && now.width) node.animate([{ transform: `translate(${x}px, ${y}px)` }, { transform: "none" }], { duration: GLIDE, easing: "ease-in-out" });
    });
    const guessed = Object.entries(guesses);
    say(score, predicting && guessed.length ? `${guessed.filter(([id, kind]) => found[id].kind === kind).length} of ${guessed.length} right` : "");
    el.querySelector(".train").classList.toggle("predicting", predicting);
  }

  // The slowest coin under both methods, with the gap between the epochs at which it is learnt.
  function spark({ curves, epochs, reach, column }) {
    const [width, height] = [160, 28];
    const low = Math.min(...Object.values(curves).flat(), 0.6);
    const x = (epoch) => 2 + ((width - 8) * epoch) / epochs.at(-1);
    const y = (p) => height - 2 - ((height - 4) * (p - low)) / (1 - low);
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", preserveAspectRatio: "none" });
    svg.append(draw("line", { class: "level", x1: 0, x2: width, y1: y(level), y2: y(level) }));
    for (const m of ["grpo", "gdpo"]) svg.append(draw("path", { class: `curve ${m}`, d: line(epochs.map((epoch, i) => [x(epoch), y(curves[m][i])])), "stroke-dasharray": m === "gdpo" ? "5 3" : undefined }));
    if (column !== 1 && reach.grpo !== null && reach.gdpo !== null) svg.append(draw("line", { class: `gap ${column ? "grpo" : "gdpo"}`, x1: x(reach.grpo), x2: x(reach.gdpo), y1: y(level), y2: y(level) }));
    return svg;
  }
  const line = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

  // --- the large picture -------------------------------------------------------------------------------------------
  const heading = make("h2");
  const sub = make("span", { class: "sub" });
  const bar = make("i");
  const stop = make("button", { type: "button", class: "link" }, "Stop");
  const share = make("span");
  const progress = make("div", { class: "progress", role: "progressbar", "aria-label": "Training", "aria-valuemin": 0, "aria-valuemax": 100, hidden: "" }, make("div", { class: "track" }, bar), share, stop);
  stop.addEventListener("click", () => {
    ask({ stop: true });
    arrived();
  });
  const verdict = make("div", { class: "verdict", role: "status", "aria-live": "polite" });
  const panels = make("div", { class: "panels", "data-picture": "train-curves" });
  const key = make("ul", { class: "key", "data-picture": "train-curves" });
  const why = make("p", { class: "why" });
  const question = make("div", { class: "question", hidden: "" });
  const rows = make("div", { class: "rows" });
  const extra = make("select", { "aria-label": "Third method" }, ...choices.methods.map(([value, title]) => make("option", { value }, value ? `+ ${title}` : title)));
  extra.addEventListener("change", () => ((state = { ...state, method: extra.value }), send()));
  const reset = make("button", { type: "button", class: "link" }, "Reset");
  reset.addEventListener("click", () => choose(state.scenario));
  const gate = make("input", { type: "checkbox" });
  gate.addEventListener("change", () => ((state = { ...state, gate: gate.checked }), send()));
  const gateLabel = make("label", { class: "gate" }, gate, "gate: being short counts only if right");
  const weighed = make("div", { class: "weighed", hidden: "" });
  const words = make("div", { class: "said", hidden: "" });
  const taken = (chart) => {
    const node = make("div", { "data-aside": "" });
    node.innerHTML = choices.save[chart];
    return node;
  };

  // --- more --------------------------------------------------------------------------------------------------------
  const change = (field, value) => ((state = { ...state, more: { ...state.more, [field]: value } }), later());
  const pick = (field, title, values, kind = Number) => {
    const select = make("select", { "aria-label": title });
    select.addEventListener("change", () => change(field, kind(select.value)));
    const set = () => select.replaceChildren(...[...new Set([...values, state.more[field]])].sort((a, b) => a - b).map((value) => {
      const option = make("option", { value }, kind === String ? value.toUpperCase().replace("ADAM", "Adam") : value);
      option.selected = value === state.more[field];
      return option;
    }));
    return { set, node: make("label", {}, make("span", {}, title), select) };
  };
  const type = (title, get, put, low, high, step) => {
    const input = make("input", { type: "number", min: low, max: high, step, "aria-label": title });
    input.addEventListener("input", () => {
      const value = Number(input.value);
      if (input.value !== "" && value >= low && value <= high) put(value);
    });
    input.addEventListener("blur", () => (input.value = short(get())));
    return { set: () => input.getRootNode().activeElement === input || (input.value = short(get())), node: make("label", {}, make("span", {}, title), input) };
  };
  let fields = [];
  const moreBody = make("div", { class: "fields" });
  const more = make("details", { class: "more" }, make("summary", {}, "Optimizer, noise, groups, seeds, epochs …"), moreBody);

  function controls({ rows: found }) {
    fields = [
      pick("optimizer", "Optimizer", ["sgd", "adam"], String),
      pick("rollouts", "Answers per group", sizes.rollouts),
      pick("prompts", "Groups per batch", sizes.prompts),
      pick("seeds", "Seeds", sizes.seeds),
      type("Epochs", () => state.more.epochs, (x) => change("epochs", Math.round(x)), 10, 1000, 10),
      type("Learning rate", () => state.more.lr, (x) => change("lr", x), 0.01, 5, 0.05),
      ...(byId[state.scenario].arms ? [] : found.map(({ name: reward, weights: k }) => type(`Noise of ${reward}`, () => state.more.noise[k], (x) => change("noise", state.more.noise.with(k, x)), 0, 10, 0.001))),
    ];
    moreBody.replaceChildren(...fields.map(({ node }) => node));
    rows.replaceChildren(
      ...found.flatMap((row, r) => [
        make("b", { class: `r${r}` }, row.name),
        ...[["start", "start"], ["pays", "pays"], ["weights", "weight"]].map(([field, title]) => (row[field] === undefined ? make("span") : slider(field, title, row))),
      ]),
    );
  }

  // The thumb stands on one of a few values, and says the value, not its place.
  function slider(field, title, row) {
    const k = row[field];
    const values = [...new Set([...stops[field], state[field][k]])].sort((a, b) => a - b);
    const input = make("input", { type: "range", min: 0, max: values.length - 1, step: 1, "aria-label": `${title[0].toUpperCase()}${title.slice(1)} of ${row.name}` });
    const output = make("output", {});
    const label = () => {
      const value = short(values[input.value]);
      say(output, value);
      input.setAttribute("aria-valuetext", value);
      input.style.setProperty("--part", `${(100 * input.value) / (values.length - 1)}%`);
    };
    input.value = values.indexOf(state[field][k]);
    label();
    input.addEventListener("input", () => {
      label();
      state = { ...state, [field]: state[field].with(k, values[input.value]) };
      later();
    });
    return make("label", {}, make("span", {}, title), input, output);
  }

  // --- drawing -----------------------------------------------------------------------------------------------------
  let drawn = "";
  function show() {
    const drawing = model.get("drawing");
    if (drawing.n < n) return; // an answer to an earlier question
    arrived();
    state = drawing.state;
    if (byId[state.scenario].own === "equal") compared = state.compare;
    if (drawing.card) fresh[`${compared} ${state.scenario}`] = drawing.card;
    place();
    Object.entries(cards).forEach(([id, { node }]) => node.setAttribute("aria-pressed", String(id === state.scenario)));
    say(heading, drawing.title);
    say(sub, drawing.sub);
    const hide = secret(state.scenario);
    figure.hidden = hide;
    question.hidden = !hide;
    extra.value = state.method;
    gateLabel.hidden = !byId[state.scenario].arms;
    gate.checked = state.gate;
    reset.hidden = drawing.given;
    if (!rows.contains(el.getRootNode().activeElement) || drawn !== state.scenario) controls(drawing);
    drawn = state.scenario;
    fields.forEach(({ set }) => set());
    weights();
    // Of the conflict the picture of all weights comes first, then controls and words.
    const { arms } = byId[state.scenario];
    if (arms) figure.after(weighed);
    else controlled.after(weighed);
    if (arms) more.before(why, words);
    else figure.append(why);
    why.hidden = hide;
    if (hide) return pose();
    if (verdict.innerHTML !== drawing.verdict) verdict.innerHTML = drawing.verdict;
    if (why.innerHTML !== drawing.why) why.innerHTML = drawing.why;
    paint();
    unfold();
    if (n > 0 && !predicting) drawing.deeds.forEach((deed) => window.dispatchEvent(new CustomEvent("rpi:deed", { detail: deed })));
  }

  function pose() {
    const one = byId[state.scenario];
    const [text, answers] = choices.questions[one.arms ? 1 : 0];
    question.replaceChildren(
      make("p", {}, text),
      make("div", {}, ...answers.map(([kind, title]) => {
        const button = make("button", { type: "button", class: "tool" }, title);
        button.addEventListener("click", () => {
          guesses[one.id] = kind;
          show();
          heading.focus();
        });
        return button;
      })),
      make("p", { class: "sub" }, one.arms ? "" : "The rewards, starts and weights stand below; the curves come once you have said."),
    );
  }

  function paint() {
    const { panels: found, epochs, state: shown } = model.get("drawing");
    const many = found.length;
    const room = panels.clientWidth || 760;
    const across = room < 520 ? 1 : many;
    const width = Math.floor((room - 14 * (across - 1)) / across);
    const height = byId[shown.scenario].arms ? (across === 1 ? 140 : 176) : across === 1 ? 170 : 236;
    panels.style.gridTemplateColumns = `repeat(${across}, minmax(0, 1fr))`;
    panels.replaceChildren(...found.map((panel, k) => chart(panel, k, width, height, epochs, shown)));
    figure.querySelector("[data-chart]").dataset.title = model.get("drawing").title;
    const used = found[0].series.map(({ method }) => method);
    key.replaceChildren(
      ...used.map((m) => make("li", { class: colour(m) }, swatch(m), name(m))),
      make("li", {}, draw("svg", { width: 26, height: 10, "aria-hidden": "true" }, draw("path", { class: "limit", d: "M0 5H26" })), "infinite-group limit"),
    );
  }

  function swatch(m) {
    const [, dash, shape] = looks[m];
    return draw("svg", { width: 30, height: 12, viewBox: "0 -6 30 12", "aria-hidden": "true" }, draw("path", { class: "curve", d: "M0 0H30", "stroke-dasharray": dash }), draw("path", { class: "mark", d: shape, transform: "translate(15) scale(5)" }));
  }

  function chart({ name: title, series }, k, width, height, epochs, shown) {
    const x = (epoch) => PAD.left + ((width - PAD.left - PAD.right) * epoch) / epochs;
    const y = (p) => PAD.top + (height - PAD.top - PAD.bottom) * (1 - p);
    const every = Math.ceil(epochs / Math.max(1, series[0].mid.length - 1));
    const at = (i) => Math.min(epochs, i * every);
    const isArm = byId[shown.scenario].arms;
    const told = series.map(({ method, mid, reach }) => `${name(method)} ends at ${mid.at(-1).toFixed(2)}${reach === null ? "" : `, at ${level} after ${reach} epochs`}`).join("; ");
    const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}, probability over ${epochs} epochs. ${told}.` });
    for (const p of [0, 0.5, level, 1]) {
      svg.append(draw("line", { class: p === level ? "level" : "grid", x1: PAD.left, x2: width - PAD.right, y1: y(p), y2: y(p) }));
      if (p !== 1) svg.append(draw("text", { class: "tick", x: PAD.left - 6, y: y(p) + 4, "text-anchor": "end" }, String(p)));
    }
    for (const epoch of [0, epochs / 2, epochs]) svg.append(draw("text", { class: "tick", x: x(epoch), y: height - 5, "text-anchor": epoch === 0 ? "start" : epoch === epochs ? "end" : "middle" }, epoch === 0 && k === 0 ? "epoch 0" : short(Math.round(epoch))));
    series.forEach(({ method, low, high }) => {
      const edge = [...high.map((p, i) => [x(at(i)), y(p)]), ...low.map((p, i) => [x(at(i)), y(p)]).reverse()];
      svg.append(draw("path", { class: `band ${colour(method)}`, d: `${line(edge)}Z` }));
    });
    series.forEach(({ method, limit }) => svg.append(draw("path", { class: `limit ${colour(method)}`, d: line(limit.map((p, i) => [x(at(i)), y(p)])) })));
    series.forEach(({ method, mid }) => svg.append(draw("path", { class: `curve ${colour(method)}`, d: line(mid.map((p, i) => [x(at(i)), y(p)])), "stroke-dasharray": looks[method][1] })));
    const marks = series.filter(({ reach }) => reach !== null).sort((a, b) => a.reach - b.reach);
    marks.forEach(({ method, reach }, i) => {
      const first = i === 0 && marks.length > 1;
      const text = `${k === 0 ? `${name(method)} ` : ""}${reach}`;
      const where = first ? { x: x(reach) - 8, y: y(level) - 6, "text-anchor": "end" } : { x: x(reach) + 9, y: y(level) + 16 + 15 * Math.max(0, i - 1), "text-anchor": "start" };
      const crowded = first && x(reach) - 8 - 7 * text.length < PAD.left;
      svg.append(draw("path", { class: `mark ${colour(method)}`, d: looks[method][2], transform: `translate(${x(reach)} ${y(level)}) scale(5.5)` }));
      svg.append(draw("text", { class: `number ${colour(method)}`, ...where, ...(crowded ? { x: PAD.left + 2, "text-anchor": "start", y: y(1) - 4 } : {}) }, text));
    });
    const missing = series.filter(({ reach }) => reach === null);
    if (!isArm || k === 0)
      missing.sort((a, b) => b.mid.at(-1) - a.mid.at(-1)).forEach(({ method, mid }, i) => {
        const base = y(mid.at(-1));
        const up = base > height / 2 ? -10 - 16 * (missing.length - 1 - i) : 18 + 16 * i;
        svg.append(draw("text", { class: `number ${colour(method)}`, x: width - PAD.right, y: base + up, "text-anchor": "end" }, isArm ? `${name(method)} ${mid.at(-1).toFixed(2)}` : `${name(method)}: not in ${epochs}`));
      });
    const cursor = draw("line", { class: "cursor", y1: y(1), y2: y(0), visibility: "hidden" });
    svg.append(cursor);
    const pays = shown.pays[k];
    const facts = isArm ? "" : [`pays ${short(pays)}`, shown.weights[k] === 1 ? "" : `weighs ${short(shown.weights[k])}`].filter(Boolean).join(", ");
    const readout = make("small", {}, facts);
    svg.addEventListener("pointermove", (event) => {
      const i = Math.round(((event.offsetX - PAD.left) / (width - PAD.left - PAD.right)) * (series[0].mid.length - 1));
      if (i < 0 || i >= series[0].mid.length) return;
      cursor.setAttribute("visibility", "visible");
      cursor.setAttribute("x1", x(at(i)));
      cursor.setAttribute("x2", x(at(i)));
      readout.replaceChildren(`epoch ${at(i)}: `, ...series.flatMap(({ method, mid }) => [make("b", { class: colour(method) }, mid[i].toFixed(2)), " "]));
    });
    svg.addEventListener("pointerleave", () => {
      cursor.setAttribute("visibility", "hidden");
      say(readout, facts);
    });
    return make("figure", {}, make("figcaption", {}, make("b", {}, title), " ", readout), svg);
  }

  // Who wins at which weight: a mark and a hatch beside the colour.
  function weights() {
    const { rows: found, said, n: of } = model.get("weighed");
    words.hidden = weighed.hidden = !byId[state.scenario].arms || secret(state.scenario);
    if (weighed.hidden) return;
    if (!found || of < n) return weighed.classList.add("old");
    weighed.classList.remove("old");
    const sign = { right: "✓", wrong: "✗", open: "~" };
    const current = (j) => (j === choices.sum.length ? state.gate : !state.gate && state.weights[1] === choices.sum[j]);
    const head = [...choices.sum.map(short), "gate"].map((text, j) => make("th", { scope: "col", class: current(j) ? "now" : "" }, text));
    const body = found.map(({ method, name: title, cells }) => make("tr", { class: colour(method) }, make("th", { scope: "row" }, title), ...cells.map(({ p, end, steps }, j) => {
      const what = j === choices.sum.length ? "behind the gate" : `weight ${short(choices.sum[j])}`;
      const button = make("button", { type: "button", class: end, "aria-label": `${title}, ${what}: right answer ${p}${steps === null ? "" : ` after ${steps} epochs at ${level}`}. Show it.` }, make("b", { "aria-hidden": "true" }, sign[end]), make("small", {}, p.replace("over ", ">").replace("under ", "<")));
      button.addEventListener("click", () => {
        state = j === choices.sum.length ? { ...state, gate: true } : { ...state, gate: false, weights: state.weights.with(1, choices.sum[j]) };
        send();
      });
      return make("td", { class: current(j) ? "now" : "" }, button);
    })));
    const table = make("table", { "data-picture": "train-weights" }, make("caption", {}, "Who wins, by the weight of being short (being right weighs 1). ✓ right, ✗ wrong, ~ open; below, how likely the right answer is in the end"), make("thead", {}, make("tr", {}, make("td"), ...head)), make("tbody", {}, ...body));
    words.innerHTML = said;
    weighed.replaceChildren(table, taken("train-weights"));
  }

  function working() {
    const { n: of, share: part, failed } = model.get("working");
    const busy = of === n && of > 0;
    progress.hidden = !busy;
    if (!busy) return;
    bar.style.width = `${100 * part}%`;
    progress.setAttribute("aria-valuenow", Math.round(100 * part));
    say(share, failed ?? `training, ${Math.round(100 * part)} %`);
  }

  function arrived() {
    clearTimeout(dimming);
    large.classList.remove("old");
    progress.hidden = true;
  }

  // --- folds -------------------------------------------------------------------------------------------------------
  const folds = choices.folds.map(([key, title]) => {
    const body = make("div", { class: "body" });
    const node = make("details", { class: "fold" }, make("summary", {}, title), body);
    node.addEventListener("toggle", () => node.open && unfold());
    return { key, node, body };
  });
  function unfold() {
    const open = folds.filter(({ node }) => node.open).map(({ key }) => key);
    if (open.length) model.send({ fold: open });
  }
  function folded() {
    const found = model.get("folded");
    folds.forEach(({ key, body }) => found[key] !== undefined && body.innerHTML !== found[key] && (body.innerHTML = found[key]));
  }

  // --- the whole ---------------------------------------------------------------------------------------------------
  heading.tabIndex = -1;
  const figure = make("div", { class: "figure" }, verdict, panels, make("div", { class: "foot" }, key, taken("train-curves")), why);
  const controlled = make("div", { class: "controls" }, rows, make("div", { class: "line" }, gateLabel, extra, reset));
  const large = make(
    "section",
    { class: "large", "aria-label": "The chosen set-up" },
    make("div", { class: "title" }, heading, sub, progress),
    question,
    figure,
    controlled,
    weighed,
    words,
    more,
  );
  el.append(
    make(
      "div",
      { class: "train" },
      claim,
      make("p", { class: "lead" }, "A few coins are trained, each paid when it falls on 1: the smallest ", make("dfn", { class: "term", tabindex: "0", "data-tip": choices.policy }, "policy"), " with several rewards. Each picture follows the slowest coin (in a conflict the right answer) under ", make("b", { class: "grpo" }, "GRPO"), " and ", make("b", { class: "gdpo" }, "GDPO"), " (dashed): where GDPO helps, changes nothing, hurts. ", make("b", {}, "Choose one."), make("small", {}, ` ${choices.same}`)),
      make("div", { class: "top" }, compare, make("div", { class: "tools" }, score, predict, lab)),
      make("div", { class: "stage" }, make("section", { class: "gallery", "aria-label": "Set-ups", "data-picture": "train-cards" }, hidden, make("div", { class: "columns" }, ...columns.map(({ node }) => node)), make("h2", {}, "Rewards in conflict: right but long, or wrong but short"), arms, taken("train-cards")), large),
      ...folds.map(({ node }) => node),
      make("p", { class: "next" }, "Coins are a toy. ", make("a", { href: "?at=evidence", "data-go": "evidence" }, "On 963 real prompts: how often does it happen? →")),
    ),
  );

  let width = 0;
  const resized = new ResizeObserver(() => {
    if (panels.clientWidth === width || panels.clientWidth === 0) return;
    width = panels.clientWidth;
    paint();
  });
  resized.observe(panels);
  show();
  const heard = [["drawing", show], ["working", working], ["weighed", weights], ["folded", folded]];
  heard.forEach(([trait, react]) => model.on(`change:${trait}`, react));
  // A link of another chapter asks for a scenario; one that came before this chapter was opened waits on the root.
  const wanted = () => {
    const { scenario } = document.documentElement.dataset;
    delete document.documentElement.dataset.scenario;
    if (byId[scenario] && scenario !== state.scenario) choose(scenario);
  };
  window.addEventListener("rpi:scenario", wanted);
  wanted();
  return () => {
    window.removeEventListener("rpi:scenario", wanted);
    clearTimeout(resting);
    clearTimeout(dimming);
    resized.disconnect();
    heard.forEach(([trait, react]) => model.off(`change:${trait}`, react));
  };
}

export default { render };
