// The head of the board: what a mark of each reward pays and weighs, the method and its convention, and the buttons that
// sort the rows and reset the board.

const CAPTIONS = { base: "add, then normalise", gdpo: "normalise, then add" };

// Set an attribute of a node, if it has another value.
const put = (node, name, value) => node.getAttribute(name) === `${value}` || node.setAttribute(name, value);
// Write a text into a node. A text node whose content changes is laid out faster than a new text node.
function say(node, text) {
  const only = node.childNodes.length === 1 && node.firstChild.nodeType === Node.TEXT_NODE ? node.firstChild : null;
  if (only) only.data === text || (only.data = text);
  else if (node.textContent !== text) node.textContent = text;
}

// Return a menu of pairs (value, title), which calls `changed` with the value that a reader chooses.
function choose(label, pairs, chosen, changed) {
  const select = make("select", { "aria-label": label }, ...pairs.map(([value, title]) => make("option", { value }, title)));
  select.value = chosen;
  select.addEventListener("change", () => changed(select.value));
  return select;
}

// Return a menu as wide as its chosen title, in every browser: an unseen copy of the title gives the width.
const sized = (select) => make("span", { class: "sized" }, make("span", { "aria-hidden": "true" }), select);

// Return two functions: `refuse` writes a sentence beside an input whose value is refused, and `clear` removes it.
function makeRefusal() {
  const note = make("p", { class: "refused", role: "alert" });
  let cell = null;
  function clear() {
    cell?.removeAttribute("aria-invalid");
    note.remove();
  }
  function refuse(input, text) {
    clear();
    cell = input;
    cell.setAttribute("aria-invalid", "true");
    note.textContent = text;
    cell.parentElement.append(note);
  }
  return { refuse, clear };
}

function makeHead({ names, labels, many, choices, now, set, sort, restart, refuse }) {
  const { two_values: twoValues, editable, lightest, heaviest } = choices;
  const title = (key) => choices.methods.find(([name]) => name === key)?.[1] ?? key;
  const pays = names.map((name, k) => choose(`pay of ${name}`, choices.pays.map((x) => [x, `×${x}`]), now("pays")[k], (value) => set({ pays: now("pays").with(k, Number(value)) })));
  const weights = names.map((name, k) => {
    const input = make("input", { type: "number", min: lightest, max: heaviest, step: 0.1, "aria-label": `weight of ${name}, ${lightest} to ${heaviest}`, inputmode: "decimal" });
    input.addEventListener("input", () => {
      const value = Number(input.value);
      const beyond = input.value !== "" && !(value >= lightest && value <= heaviest);
      if (beyond || input.validity.badInput) return refuse(input, `A weight here is a number from ${lightest} to ${heaviest}. The weight of ${name} stays ${now("weights")[k]}.`);
      if (input.value !== "") set({ weights: now("weights").with(k, value) });
    });
    input.addEventListener("blur", () => (input.value = now("weights")[k]));
    return input;
  });
  const convention = choose("formulas of", choices.conventions.map(([key, name]) => [key, name === "paper" ? "the paper" : name]), now("convention"), (value) => set({ convention: value }));
  const method = choose("Method on the right", choices.methods, now("method"), (value) => set({ method: value }));
  method.disabled = convention.disabled = !editable;
  const [order, reset] = [make("button", { type: "button" }), make("button", { type: "button" }, "Reset")];
  order.addEventListener("click", sort);
  reset.addEventListener("click", restart);
  const split = make("button", { type: "button", class: "split", "aria-label": "Why: each bar as what its rewards add" }, "why");
  const passes = names.map(() => make("span", { class: "passing" }));
  const captions = SIDES.map(() => make("span", { class: "tip", tabindex: 0 }));
  // The pay of a reward can be set if its marks are 0 and 1, or numbers. Otherwise a pass pays its own value, and a fail
  // too if that is not 0.
  const given = (k) => twoValues[k].slice(twoValues[k][0] === 0 ? 1 : 0).join(" / ").replaceAll("-", "−");
  const paid = (k) => (!twoValues[k] || same(twoValues[k], [0, 1]) ? pays[k] : make("span", { class: "given" }, given(k)));
  const asked = (k) => (editable ? [paid(k), make("span", { class: "weighing" }, weights[k])] : []);
  const legend = now("drawing").right ? [make("span", { class: "key" }, make("i", { class: "filled", "aria-hidden": "true" }), " wrong"), " "] : [];
  const node = make(
    "div",
    { class: "head" },
    make("div", { class: "who" },
      make("div", { class: "what" },
        make("h2", {}, `${many} answers`),
        make("p", { class: "soft" }, make("span", { class: "tight" }, "Tap a row. "), ...legend, make("span", { class: "key" }, make("i", { class: "ringed", "aria-hidden": "true" }), " tied"), make("span", { class: "long" }, ": different marks, one number")),
        make("div", { class: "buttons" }, order, reset)),
      make("div", { class: "asks soft", "aria-hidden": "true" }, ...(editable ? ["pays", "weighs"] : []).map((text) => make("span", {}, text)))),
    make("div", { class: "marks" }, ...names.map((name, k) => make("div", { class: `r${k}` }, make("b", { title: name }, labels[k]), make("span", { class: "soft" }, passes[k]), ...asked(k)))),
    make("div", { class: "sum soft", "aria-hidden": "true" }, "sum"),
    make("div", { class: "logged soft" }, "logged"),
    make("div", { class: "panel base" }, make("h2", {}, choices.base), make("p", { class: "soft" }, captions[0])),
    make("div", { class: "panel other" },
      make("div", { class: "methods" }, make("h2", {}, sized(method)), editable ? make("label", { class: "soft" }, make("span", {}, "formulas of "), sized(convention)) : ""),
      split,
      make("p", { class: "soft" }, captions[1])),
  );

  // Bring all controls up to the state of the board, which needs no answer from Python.
  function tick(given, start, focused) {
    const marks = now("marks");
    passes.forEach((node, k) => {
      const column = marks.map((row) => row[k]);
      const passed = column.filter((mark) => mark === twoValues[k]?.[1]).length;
      say(node, twoValues[k] ? `${passed} of ${many}` : `mean ${Number((column.reduce((sum, mark) => sum + mark, 0) / many).toPrecision(2))}`);
    });
    pays.forEach((select, k) => (select.value = now("pays")[k]));
    weights.forEach((input, k) => focused === input || (input.value = now("weights")[k]));
    [convention.value, method.value] = [now("convention"), now("method")];
    [convention, method].forEach((select) => select.previousSibling && say(select.previousSibling, select.selectedOptions[0]?.text ?? ""));
    // A method cannot be chosen together with a convention that does not define it.
    const lacks = (methodKey, conventionKey) => choices.undefined.some((pair) => same(pair, [methodKey, conventionKey]));
    [...method.options].forEach((option) => (option.disabled = lacks(option.value, convention.value)));
    [...convention.options].forEach((option) => (option.disabled = lacks(method.value, option.value)));
    reset.hidden = !editable || Object.entries({ marks: given, ...start }).every(([name, value]) => same(value, now(name)));
    ["grpo", now("method")].forEach((name, n) => {
      say(captions[n], CAPTIONS[n ? name : "base"] ?? "what it is");
      put(captions[n], "data-tip", `${title(name)}: ${choices.spelled[name]}`);
    });
  }

  return { node, order, split, tick, title };
}
