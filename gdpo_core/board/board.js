// The board: a row per answer, with its marks, their sum and a bar per method. A change is drawn in the frame of the
// click, by the formulas of the browser; the core confirms it and sends the words (exchange.js).

const GLYPHS = ["◆", "▲", "■", "★", "✚", "⬟"];
const NARROW = 680; // px of the board's width, up to which it is narrow, as in board.css
const CLIP = 300; // characters of an answer that are shown at once
const SHEET = new CSSStyleSheet();
SHEET.replaceSync(STYLE);

// Return a text in one line.
const flat = (text) => text.replaceAll("\n", "⏎");
const signed = (x) => `${x < -0.005 ? "−" : x > 0.005 ? "+" : ""}${Math.abs(x).toFixed(2)}`;

function render({ model, el, signal }) {
  // A board that was drawn while the page was loading (views/server/early.js) goes on in this view, if it is of the same answers.
  const taken = globalThis.gdpoEarly?.take(model, el);
  if (taken) return taken;
  const [answers, names, labels, reasons, given, choices, logged] = ["answers", "names", "labels", "reasons", "given", "choices", "logged"].map((name) => model.get(name));
  const { two_values: twoValues, start, editable } = choices;
  const many = answers.length;
  const now = (name) => model.get(name);
  let width = innerWidth; // of the board
  let fallen = false;
  const narrow = () => width <= NARROW && !matchMedia("print").matches;
  let listed = []; // the numbers of the answers from top to bottom
  let active = null;
  // How far the axis of the bars goes below and above 0: of whole bars, and of bars divided into the parts of the rewards.
  // An axis only grows, so that no bar jumps.
  const domains = [[0.5, 0.5], [0.5, 0.5]];

  function set(values) {
    if (drop) invite(null);
    for (const [name, value] of Object.entries(values)) model.set(name, value);
    if (active !== null) model.set("active", active);
    clear();
    player?.stop();
    tick();
    redraw();
    exchange.push();
  }

  const redraw = () => (draw(), picture());
  const exchange = makeExchange({ model, choices, changed: redraw });

  // --- the elements that stay ---------------------------------------------------------------------------------------
  const { refuse, clear } = makeRefusal();
  const untouched = () => Object.entries({ marks: given, ...start }).every(([name, value]) => same(value, now(name)));
  const restart = () => (set({ marks: given, ...start }), rows[listed[0]].marks[0].focus());
  const { node: head, rules, order, split, invite: ask, tick: show, title } = makeHead({ names, labels, many, choices, now, set, sort, restart, refuse });
  if (choices.drop) document.addEventListener("gdpo-restart", restart, { signal }); // from the chip of the Lab's task
  split.addEventListener("click", () => (model.set("why", !now("why")), redraw(), choices.alone || model.save_changes()));
  const list = make("ol", { class: "rows" });
  const drop = choices.drop ? makeDrop(many, point) : null;
  const verdict = make("div", { class: "sentences", role: "status" });
  const lateness = make("p", { class: "lateness soft", role: "status" }, choices.late);
  const shares = make("div", { class: "shares" });
  const detail = make("div", { class: "detail", tabindex: 0, role: "group", "aria-label": "The arithmetic of an answer" });
  const close = make("button", { type: "button", class: "close", "aria-label": "Close the arithmetic" }, "×");
  close.addEventListener("click", () => board.classList.remove("asked"));
  const worked = make("div", { class: "worked" }, detail, shares);
  const board = make(
    "div",
    { class: `board${logged.length ? " compared" : ""}${names.length > 4 ? " broad" : ""}${twoValues.includes(null) ? " numbers" : ""}`, style: `--rewards: ${names.length}` },
    ...(drop ? [drop.node] : []),
    make("div", { class: "sheet" },
      make("div", { class: "frame" }, head, rules, list),
      make("div", { class: "below" }, make("div", { class: "verdict" }, verdict, lateness), worked),
    ),
  );
  // A page such as JupyterLab's has no colours for ink and paper; then the board uses those of the theme.
  if (!getComputedStyle(el).getPropertyValue("--muted-foreground")) board.classList.add("guest");
  // The board has a shadow root, because the style rules of a notebook, about a thousand, would slow down each change.
  const host = make("div", { class: "board-root" });
  const root = host.attachShadow({ mode: "open" });
  root.adoptedStyleSheets = [SHEET];
  root.append(board);
  el.append(host);

  // --- rows --------------------------------------------------------------------------------------------------------
  const rows = answers.map((text, answer) => {
    // A mark with two values is flipped by a click; any other mark is typed.
    const marks = names.map((_, k) => {
      const input = make("input", { type: twoValues[k] ? "checkbox" : "number", step: "any", title: reasons[answer][k] });
      input.disabled = !editable;
      input.addEventListener("change", () => {
        const mark = twoValues[k] ? twoValues[k][Number(input.checked)] : Number(input.value);
        const was = now("marks")[answer][k];
        if (input.validity.badInput || !(Math.abs(mark) <= choices.largest)) {
          input.value = decimals(k)(was);
          return refuse(input, `A mark here is a number of at most ${choices.largest.toLocaleString("en")} in size. This one stays ${was}.`);
        }
        if (input.value === "") return (input.value = decimals(k)(was));
        active = answer;
        set({ marks: now("marks").with(answer, now("marks")[answer].with(k, mark)) });
      });
      input.addEventListener("focus", () => (rove(answer, k), twoValues[k] || input.select())); // so that typing replaces the number
      input.addEventListener("keydown", (event) => move(event, answer, k));
      return input;
    });
    const bars = SIDES.map((side) => {
      const fill = make("span", { class: "fill" });
      const parts = names.map((name, k) => make("i", { class: `part r${k}` }));
      const tick = make("span", { class: "tick" });
      const value = make("span", { class: "value" });
      return { node: make("div", { class: `bar ${side}` }, make("div", { class: "plot" }, fill, ...parts, tick), value), fill, parts, tick, value };
    });
    const stack = make("span", { class: "stack" }, ...names.map((_, k) => make("i", { class: `r${k}` })));
    const total = make("b");
    const short = flat(text.slice(0, CLIP));
    const node = make(
      "li",
      { class: "row" },
      make("div", { class: "who" }, make("span", { class: "number" }, String(answer + 1)), make("b", { class: "word" }, "wrong"), make("code", { title: short }, short)),
      make("div", { class: "marks" }, ...marks.map((input, k) => make("label", { class: `${twoValues[k] ? "toggle" : "field"} r${k}` }, input))),
      make("div", { class: "sum" }, stack, total),
      make("div", { class: "logged" }, logged[answer] ?? ""),
      bars[0].node,
      bars[1].node,
    );
    for (const event of ["pointerenter", "focusin", "click"]) node.addEventListener(event, () => point(answer));
    node.addEventListener("click", () => {
      if (!narrow()) return;
      board.classList.add("asked");
      node.scrollIntoView({ block: "nearest" }); // so that the arithmetic at the foot does not cover the row
    });
    return { node, marks, bars, stack, total };
  });

  const player = drop && makePlay({ choices, now, rows, drop, list, title });
  drop?.play.addEventListener("click", () => exchange.current() && player.run(exchange.current()));

  // Ask the reader to fail a mark of an answer, and point to its box, until anything is changed; with null, nothing is asked.
  function invite(answer) {
    const k = choices.primary ?? 0;
    list.querySelector(".invited")?.classList.remove("invited");
    const asked = answer !== null && editable && twoValues[k] && now("marks")[answer][k] === twoValues[k][1] && untouched();
    if (asked) rows[answer].marks[k].parentElement.classList.add("invited");
    ask(asked ? { answer, k } : null);
  }

  // The grid of marks has one tab stop; the arrows move inside the grid.
  function rove(answer, k) {
    rows.forEach((row, i) => row.marks.forEach((input, j) => (input.tabIndex = i === answer && j === k ? 0 : -1)));
  }

  function move(event, answer, k) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = Math.min(listed.length - 1, Math.max(0, listed.indexOf(answer) + step[0]));
    rows[listed[at]].marks[Math.min(names.length - 1, Math.max(0, k + step[1]))].focus();
  }

  // Return the function that writes the numbers of a reward: all have the decimals of the one that needs most, at most
  // three.
  function decimals(k) {
    const needed = now("marks").map((row) => `${Number(row[k].toPrecision(3))}`.split(".")[1]?.length ?? 0);
    const places = Math.min(3, Math.max(...needed));
    return (mark) => (Math.abs(mark) < 1000 ? mark.toFixed(places) : `${Number(mark.toPrecision(3))}`);
  }

  function tick() {
    const marks = now("marks");
    const focused = root.activeElement;
    const written = names.map((_, k) => twoValues[k] || decimals(k));
    rows.forEach(({ marks: inputs }, answer) => {
      inputs.forEach((input, k) => {
        const mark = marks[answer][k];
        if (twoValues[k]) input.checked = mark === twoValues[k][1];
        else if (input !== focused) [input.value, input.title] = [written[k](mark), `${mark} ${reasons[answer][k]}`];
        const outcome = twoValues[k] ? `, ${input.checked ? "passed" : "failed"}` : "";
        input.setAttribute("aria-label", `Answer ${answer + 1}, ${names[k]}${outcome}`);
      });
    });
    show(untouched(), focused);
  }

  // --- drawing -----------------------------------------------------------------------------------------------------
  function draw() {
    const drawing = exchange.current();
    worded(drawing ?? {});
    list.toggleAttribute("data-waits", !drawing); // while only the core can compute this state, older numbers are hidden
    if (!drawing) return tick();
    tick();
    const why = now("why") && drawing.parts !== null;
    const domain = grow(drawing, why);
    const span = domain[0] + domain[1];
    list.style.setProperty("--zero", `${(100 * domain[0]) / span}%`);
    const parted = why || board.classList.contains("parted");
    board.classList.toggle("parted", why);
    put(split, "aria-pressed", why);
    const sets = shapes(drawing.ties);
    const [marks, worth] = [now("marks"), now("pays").map((pay, k) => pay * now("weights")[k])];
    const most = (k) => Math.max(...(twoValues[k] ?? []).map(Math.abs), ...marks.map((row) => Math.abs(row[k])));
    const sums = aligned(drawing.sums_said, 4);
    const whole = worth.reduce((sum, value, k) => sum + Math.abs(value) * most(k), 0) || 1;
    rows.forEach(({ node, bars, stack, total }, answer) => {
      bars.forEach(({ node: bar, fill, parts, tick: mark, value }, side) => {
        const a = drawing.a[side][answer];
        const tied = sets[side].get(answer);
        const [left, size] = [(x) => `${(100 * (x + domain[0])) / span}%`, (x) => `${(100 * Math.abs(x)) / span}%`];
        // The bar is moved and stretched by a transform, which needs no layout. A bar of parts has the parts that raise
        // the advantage to the right of 0 and the rest to the left; the tick stands at their sum.
        fill.style.transform = `translateX(${left(Math.min(a, 0))}) scaleX(${why ? 0 : Math.abs(a) / span})`;
        if (parted) mark.style.left = left(a);
        const ends = [0, 0];
        if (parted) parts.forEach((part, k) => {
          const x = why ? drawing.parts[side][answer][k] : 0;
          const from = ends[Number(x > 0)];
          ends[Number(x > 0)] += x;
          [part.style.left, part.style.width] = [left(Math.min(from, from + x)), size(x)];
          if (why) part.title = `${names[k]} ${signed(x)}`;
        });
        say(value, (tied === undefined ? "" : GLYPHS[tied % GLYPHS.length] + " ") + drawing.said[side][answer]);
      });
      [...stack.children].forEach((piece, k) => {
        piece.style.width = `${(100 * Math.abs(marks[answer][k] * worth[k])) / whole}%`;
        piece.classList.toggle("minus", marks[answer][k] * worth[k] < 0);
      });
      say(total, sums[answer]);
      node.classList.toggle("wrong", drawing.right !== null && !drawing.right[answer]);
    });
    if (!listed.length) sort();
    share(drawing);
    outline(sets);
    follow(drawing);
    sorted(same(drawing.order, listed));
  }

  // The core sends the words; until they come, the words of an earlier state are hidden.
  function worded({ verdict: sentences, claim }) {
    const waits = sentences === undefined;
    // The style of this element changes, and no class of the board, which would lay out the whole board anew.
    verdict.style.visibility = waits ? "hidden" : "";
    lateness.hidden = !(waits && exchange.isLate());
    verdict.hidden = !lateness.hidden;
    el.dispatchEvent(new CustomEvent("gdpo-claim", { bubbles: true, composed: true, detail: waits ? null : claim }));
    if (waits) return;
    const html = sentences.map((sentence) => `<p>${sentence}</p>`).join("");
    if (verdict.dataset.html !== html) verdict.dataset.html = verdict.innerHTML = html;
  }

  function picture() {
    const drawing = exchange.current();
    if (!drop || !drawing) return;
    const titles = [[choices.base, "grpo", "base"], [title(now("method")), now("method"), now("method")]];
    drop.draw(drawing, width, narrow(), grow(drawing, false), titles.map(([shown, name, key]) => [shown, choices.spelled[name], CAPTIONS[key] ?? ""]));
  }

  // Return, per side, a map from each tied answer to the number of its tie. A set of answers that both methods tie has the
  // same number on both sides.
  function shapes(ties) {
    const known = ties[0].map((tie) => String(tie.answers));
    return ties.map((side) => new Map(side.flatMap((tie) => {
      const at = known.indexOf(String(tie.answers));
      const number = at >= 0 ? at : known.push(String(tie.answers)) - 1;
      return tie.answers.map((answer) => [answer, number]);
    })));
  }

  // Let the axis grow to what is shown now, alike for both methods, and return how far it goes below and above 0.
  function grow({ a, parts }, why) {
    const ends = why ? parts.flat().map((row) => [0, 0, ...row]).flatMap((row) => [-1, 1].map((sign) => row.filter((x) => x * sign > 0).reduce((sum, x) => sum + x, 0))) : a.flat();
    const step = (x) => Math.max(0.5, Math.ceil(x * 4 - 1e-9) / 4);
    const known = domains[Number(why)];
    return (domains[Number(why)] = [Math.max(known[0], step(-Math.min(...ends))), Math.max(known[1], step(Math.max(...ends)))]);
  }

  // Draw one outline around the rows of a tie that stand next to each other.
  function outline(sets) {
    listed.forEach((answer, at) => rows[answer].bars.forEach(({ node }, side) => {
      const tie = sets[side].get(answer);
      const beside = (place) => tie !== undefined && sets[side].get(listed[place]) === tie;
      node.classList.toggle("tied", tie !== undefined);
      node.classList.toggle("first", tie !== undefined && !beside(at - 1));
      node.classList.toggle("last", tie !== undefined && !beside(at + 1));
    }));
  }

  // Put the rows in the order of the advantages. Only a button does so, because rows must not move under the pointer.
  function sort() {
    const drawing = exchange.current();
    if (!drawing) return;
    listed = [...drawing.order];
    list.append(...listed.map((answer) => rows[answer].node));
    outline(shapes(drawing.ties));
    sorted(true);
  }

  function sorted(done) {
    say(order, `Sort by ${title(now("method"))}`);
    if (done && root.activeElement === order) rows[listed[0]].marks[0].focus();
    order.hidden = done;
  }

  // The shares and pushes of both methods. Their elements stay; a change moves the edges and writes the numbers.
  const stakes = SIDES.map((side) => {
    const [name, raised] = [make("b"), make("b")];
    const pieces = names.map((_, k) => make("i", { class: `r${k}` }));
    const numbers = names.map(() => make("span"));
    const each = names.map((_, k) => make("span", { class: `r${k}` }, make("b", {}, labels[k]), " ", numbers[k]));
    const [parts, pushes] = [make("span", { class: "parts", role: "img" }, ...pieces), make("span", { class: "pushes", role: "img" }, ...each)];
    const nodes = [make("div", { class: `stake ${side}` }, name, parts), make("div", { class: `stake raised ${side}` }, raised, pushes)];
    return { name, raised, pieces, numbers, parts, pushes, nodes };
  });
  const told = make("small", { class: "soft" });
  shares.append(
    make("span", { class: "soft" }, "Share of the update"), ...stakes.map(({ nodes }) => nodes[0]),
    make("span", { class: "soft" }, "Push on each reward"), ...stakes.map(({ nodes }) => nodes[1]),
    make("small", { class: "soft" }, choices.push), told,
  );

  function share({ shares: sharesBySide, percents, pushes, share_notes: notes }) {
    const listed = (texts) => names.map((name, k) => `${name} ${texts[k]}`).join(", ");
    stakes.forEach((stake, side) => {
      const method = side ? title(now("method")) : choices.base;
      say(stake.name, method);
      say(stake.raised, method);
      put(stake.parts, "aria-label", `Share of the update under ${method}: ${sharesBySide[side] ? listed(percents[side]) : "no update"}`);
      put(stake.pushes, "aria-label", `Push on each reward under ${method}: ${listed(pushes[side])}`);
      stake.pieces.forEach((piece, k) => {
        const x = sharesBySide[side]?.[k] ?? 0;
        piece.style.flexGrow = Math.max(0, x);
        say(piece, x > 0.22 ? percents[side][k] : "");
      });
      stake.numbers.forEach((number, k) => say(number, pushes[side][k]));
    });
    say(told, (notes ?? []).join(" · "));
  }

  // --- the answer under the pointer --------------------------------------------------------------------------------
  function point(answer) {
    if (answer === active) return;
    active = answer;
    const drawing = exchange.current();
    if (drawing) follow(drawing);
  }

  function follow({ ties, lines, parts, said, order: sorted }) {
    const answer = active ?? ties[0].at(0)?.answers.at(-1) ?? sorted[0];
    rows.forEach(({ node }, i) => node.classList.toggle("active", i === answer));
    drop?.mark(answer);
    const marks = now("marks");
    // A grader's reason belongs to its own mark; a mark that was flipped says that the reader set it.
    const why = names.flatMap((name, k) => {
      const [mark, was] = [marks[answer][k], given[answer][k]];
      const passed = twoValues[k] && mark === twoValues[k][1];
      if (mark === was && (twoValues[k] ? passed : !reasons[answer][k])) return [];
      const reason = mark === was ? reasons[answer][k] : `you set it to ${twoValues[k] ? (passed ? "passed" : "failed") : mark}`;
      return [make("span", { class: `graded r${k}` }, `${twoValues[k] ? (passed ? "✓ " : "✗ ") : ""}${name}${reason && `: ${reason}`}`)];
    });
    const text = make("code", {}, flat(answers[answer].slice(0, CLIP)));
    const more = make("button", { type: "button" }, "… whole");
    more.addEventListener("click", () => (text.replaceChildren(answers[answer]), text.classList.add("whole"), more.remove()));
    // In a line of arithmetic, ⟨1|−2.14⟩ is what the second reward adds, and the result stands between two **.
    const line = (name, side, text) => {
      const pieces = text.split(/(⟨\d\|[^⟩]*⟩|\*\*[^*]*\*\*)/).map((piece) => {
        const term = piece.match(/^⟨(\d)\|(.*)⟩$/);
        return term ? make("i", { class: `r${term[1]}` }, term[2]) : piece.startsWith("**") ? make("b", {}, piece.slice(2, -2)) : piece;
      });
      return make("p", { class: `line ${side}` }, make("b", {}, name), make("span", {}, ...pieces));
    };
    const added = (side) => (now("why") && parts ? `${parts[side][answer].map((x, k) => `⟨${k}|${signed(x)}⟩`).join(" ")} = **${said[side][answer]}**` : lines[answer][side]);
    detail.replaceChildren(
      close,
      make("p", { class: "title" }, make("b", {}, `Answer ${answer + 1}`), ` [${marks[answer].map((mark) => Number(mark.toPrecision(3))).join(", ")}] `, text, ...(answers[answer].length > CLIP ? [more] : []), ...why),
      line(choices.base, "base", added(0)),
      line(title(now("method")), "other", added(1)),
    );
  }

  draw();
  if (!listed.length) list.append(...(listed = answers.map((_, answer) => answer)).map((answer) => rows[answer].node));
  rove(listed[0], 0);
  if (drop) invite(listed[0]);
  drop?.node.classList.toggle("upright", narrow()); // the picture has its height before it is drawn
  // The dots of the drop fall when the board is first seen.
  const watch = new ResizeObserver(([{ contentRect }]) => {
    if (!contentRect.width || (fallen && width === contentRect.width)) return;
    width = contentRect.width;
    draw();
    picture();
    if (!fallen) drop?.run();
    fallen = true;
  });
  watch.observe(board);
  model.on("change:drawing", exchange.answered);
  exchange.push(); // a change that was made before this view and never sent
  // Of the early board alone: its model stands for another one now, or all that lies outside has to follow.
  model.on("change:model", (other) => (redraw(), other ? exchange.begin() : exchange.push()));
  const refusal = () => (now("refused") ? refuse(rows[active ?? 0].marks[0], now("refused")) : clear(), exchange.settle());
  model.on("change:refused", refusal);
  return () => (watch.disconnect(), exchange.stop(), model.off("change:drawing", exchange.answered), model.off("change:refused", refusal));
}

export default { render };
