// The rules of the board, in a row that opens: what a mark of each reward pays and weighs, the method and its convention,
// and whether each bar is shown as what its rewards add.

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

function makeRules({ names, choices, now, set, refuse }) {
  const { two_values: twoValues, editable, lightest, heaviest } = choices;
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
  const split = make("button", { type: "button", class: "split", "aria-label": "Why: each bar as what its rewards add" }, "why");
  // The pay of a reward can be set if its marks are 0 and 1, or numbers. Otherwise a pass pays its own value, and a fail
  // too if that is not 0.
  const given = (k) => twoValues[k].slice(twoValues[k][0] === 0 ? 1 : 0).join(" / ").replaceAll("-", "−");
  const paid = (k) => (!twoValues[k] || same(twoValues[k], [0, 1]) ? pays[k] : make("span", { class: "given" }, given(k)));
  const node = make(
    "div",
    { class: "rules", id: "rules" },
    make("div", { class: "asks soft", "aria-hidden": "true" }, make("span", {}, "pays"), make("span", {}, "weighs")),
    make("div", { class: "marks" }, ...names.map((_, k) => make("div", { class: `r${k}` }, paid(k), make("span", { class: "weighing" }, weights[k])))),
    make("div", { class: "methods" },
      make("label", { class: "soft" }, make("span", {}, "method"), sized(method)),
      make("label", { class: "soft" }, make("span", {}, "formulas of"), sized(convention)),
      split),
    make("p", { class: "meaning" }, choices.rules_mean),
  );
  const opener = make("button", { type: "button", class: "opener", "aria-controls": "rules" }, "Change the rules");
  let asked = false; // whether a reader has opened or closed the row, which then stays as it is
  opener.addEventListener("click", () => ((asked = true), open(node.hidden), tick()));

  function open(yes) {
    node.hidden = !yes;
    put(opener, "aria-expanded", yes);
  }

  // Rules that are not the plain ones stand open, so that nothing which counts is hidden.
  const plain = () => [...now("pays"), ...now("weights")].every((x) => x === 1) && now("convention") === "paper" && now("method") === "gdpo" && !now("why");

  function tick(focused) {
    if (editable && !asked && node.hidden && !plain()) open(true);
    if (node.hidden) return;
    pays.forEach((select, k) => (select.value = now("pays")[k]));
    weights.forEach((input, k) => focused === input || (input.value = now("weights")[k]));
    [convention.value, method.value] = [now("convention"), now("method")];
    [convention, method].forEach((select) => select.previousSibling && say(select.previousSibling, select.selectedOptions[0]?.text ?? ""));
    // A method cannot be chosen together with a convention that does not define it.
    const lacks = (methodKey, conventionKey) => choices.undefined.some((pair) => same(pair, [methodKey, conventionKey]));
    [...method.options].forEach((option) => (option.disabled = lacks(option.value, convention.value)));
    [...convention.options].forEach((option) => (option.disabled = lacks(method.value, option.value)));
  }

  open(editable && !plain());
  return { node, opener: editable ? opener : split, split, tick };
}
