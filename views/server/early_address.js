// Return the state that the Lab's board has with the query of an address: what of `lab-…` is understood, as views/widgets/address.py
// and views/chapters/lab/answers.py read it, over the values of the board as it opens. Null where the query names another task.
function addressed(query, { longest, tasks, traits }) {
  const { choices, given, marks, pays, weights, convention, method, why } = traits;
  const state = { marks, pays, weights, convention, method, why };
  const text = (name) => {
    const found = query.getAll(`lab-${name}`).at(-1);
    return found === undefined || [...found].length > longest ? null : found;
  };
  const task = text("task");
  if (tasks.slice(1).some(([id]) => id === task)) return null;
  if (task !== null && task !== tasks[0][0]) return state;
  const number = (written) => (/^\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i.test(written) ? Number(written) : NaN);
  const numbers = (written, low, high, many) => {
    const found = (written ?? "").split("_").map(number);
    return found.length === many && found.every((x) => low <= x && x <= high) ? found : null;
  };
  const marked = (written) => {
    const rows = written.includes("_")
      ? written.split("~").map((row) => numbers(row, -choices.largest, choices.largest, pays.length))
      : written.split(".").map((row) => (/^[01]+$/.test(row) && row.length === pays.length ? [...row].map(Number) : null));
    const fits = (row) => row?.every((x, k) => choices.two_values[k]?.includes(x) ?? true);
    return rows.length === given.length && rows.every(fits) ? rows : null;
  };
  const known = (pairs, key) => pairs.some(([id]) => id === key);
  const defined = () => !choices.undefined.some(([one, other]) => one === state.method && other === state.convention);
  const take = (name, value) => {
    const before = state[name];
    state[name] = value ?? before;
    if (!defined()) state[name] = before;
  };
  const written = text("marks");
  take("marks", written === null ? null : marked(written));
  const paid = numbers(text("pays"), choices.pays[0], choices.pays.at(-1), pays.length);
  take("pays", paid?.every((pay) => choices.pays.includes(pay)) ? paid : null);
  take("weights", numbers(text("weights"), choices.lightest, choices.heaviest, weights.length));
  take("method", known(choices.methods, text("method")) ? text("method") : null);
  take("convention", known(choices.conventions, text("convention")) ? text("convention") : null);
  state.why = text("why") === "yes";
  return state;
}
