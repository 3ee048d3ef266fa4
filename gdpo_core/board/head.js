// The head of the board: the names of the rewards with how many answers pass each, the names of the methods, what a reader
// is asked to try, and the buttons that open the rules, sort the rows and reset the board.

const CAPTIONS = { base: "add, then normalise", gdpo: "normalise, then add" };

// Set an attribute of a node, if it has another value.
const put = (node, name, value) => node.getAttribute(name) === `${value}` || node.setAttribute(name, value);
// Write a text into a node. A text node whose content changes is laid out faster than a new text node.
function say(node, text) {
  const only = node.childNodes.length === 1 && node.firstChild.nodeType === Node.TEXT_NODE ? node.firstChild : null;
  if (only) only.data === text || (only.data = text);
  else if (node.textContent !== text) node.textContent = text;
}

// Return the numbers of a column with equally many decimals, each with at most so many significant digits.
function aligned(texts, digits) {
  const before = (text) => text.split(".")[0].replace(/\D/g, "").length;
  const after = (text) => text.split(".")[1]?.length ?? 0;
  if (texts.some((text) => /[^\d.,−]/.test(text))) return texts;
  const most = Math.max(...texts.map(after));
  return texts.map((text) => {
    const more = Math.min(most, digits - before(text)) - after(text);
    return more > 0 ? text + (after(text) ? "" : ".") + "0".repeat(more) : text;
  });
}

function makeHead({ names, labels, many, choices, now, set, sort, restart, refuse }) {
  const { two_values: twoValues, editable } = choices;
  const title = (key) => choices.methods.find(([name]) => name === key)?.[1] ?? key;
  const rules = makeRules({ names, choices, now, set, refuse });
  const [order, reset] = [make("button", { type: "button" }), make("button", { type: "button" }, "Reset")];
  order.addEventListener("click", sort);
  reset.addEventListener("click", restart);
  const passes = names.map(() => make("span", { class: "passing" }));
  const heads = SIDES.map(() => make("h2"));
  // Above a board without a drop, whose lines have the names and tips of the methods, the panels have them.
  const captions = SIDES.map(() => make("span", { class: "tip", tabindex: 0 }));
  const caption = (side) => (choices.drop ? "" : make("p", { class: "soft" }, captions[side]));
  const legend = now("drawing").right ? [make("span", { class: "key" }, make("i", { class: "filled", "aria-hidden": "true" }), " wrong"), " "] : [];
  const ask = make("p", { class: "ask" });
  const node = make(
    "div",
    { class: "head" },
    make("div", { class: "what" },
      make("h2", {}, `${many} answers`),
      make("p", { class: "soft" }, make("span", { class: "tight" }, "Tap a row. "), ...legend, make("span", { class: "key" }, make("i", { class: "ringed", "aria-hidden": "true" }), " tied"))),
    make("div", { class: "turn" }, make("div", { class: "buttons" }, order, reset), ...(choices.drop ? [ask] : [])),
    make("div", { class: "marks" }, ...names.map((name, k) => make("div", { class: `r${k}` }, make("b", { title: name }, labels[k]), make("span", { class: "soft" }, passes[k])))),
    make("div", { class: "sum soft", "aria-hidden": "true" }, "sum"),
    make("div", { class: "logged soft" }, "logged"),
    make("div", { class: "panel base" }, heads[0], caption(0)),
    make("div", { class: "panel other" }, heads[1], caption(1)),
    rules.opener,
  );

  // Ask the reader to fail a mark of an answer; without one nothing is asked any more. The line keeps its place.
  function invite(wanted) {
    ask.style.visibility = wanted ? "" : "hidden";
    if (wanted) ask.replaceChildren(make("b", {}, "Your turn:"), " untick ", make("b", { class: `r${wanted.k}` }, labels[wanted.k]), ` for answer ${wanted.answer + 1}.`);
  }

  // Bring all controls up to the state of the board, which needs no answer from Python.
  function tick(untouched, focused) {
    const marks = now("marks");
    passes.forEach((node, k) => {
      const column = marks.map((row) => row[k]);
      const passed = column.filter((mark) => mark === twoValues[k]?.[1]).length;
      say(node, twoValues[k] ? `${passed} of ${many}` : `mean ${Number((column.reduce((sum, mark) => sum + mark, 0) / many).toPrecision(2))}`);
    });
    rules.tick(focused);
    reset.hidden = !editable || untouched;
    ["grpo", now("method")].forEach((name, n) => {
      say(heads[n], n ? title(name) : choices.base);
      heads[n].classList.toggle("lengthy", heads[n].textContent.length > 12);
      say(captions[n], CAPTIONS[n ? name : "base"] ?? "what it is");
      put(captions[n], "data-tip", `${n ? title(name) : choices.base}: ${choices.spelled[name]}`);
    });
  }

  return { node, rules: rules.node, order, split: rules.split, invite, tick, title };
}
