// The drawing of a state that the browser makes in the frame of the click, by formulas.js: everything in drawing.py but the
// sentences, which the core sends. Numbers are written as shared/words.py writes them.
const gdpoInstant = (() => {
  const { advantages, selection, push, levels, withoutEps, total, ratio } = gdpoFormulas;
  const METHODS = ["grpo", "grpo_no_std", "gdpo"]; // the methods that formulas.js computes
  const ROUND_OFF = 1e-9; // that of float64 in tie_tolerance of numerics/pairs.py

  // Return a number with so many decimals, halves rounded to even as Python does. Only a multiple of 1/2^(places + 1) can be
  // a half.
  function fixed(x, places) {
    const size = Math.abs(x);
    if ((size * 2 ** (places + 1)) % 2 !== 1) return size.toFixed(places);
    const low = Math.floor(size * 10 ** places);
    return ((low + (low % 2)) / 10 ** places).toFixed(places);
  }

  function signed(x, places = 2) {
    const text = fixed(x, places);
    return Number(text) ? `${x < 0 ? "−" : "+"}${text}` : text;
  }

  function percent(share) {
    const size = Math.abs(Number((100 * share).toFixed(6)));
    const minus = share < 0 && size ? "−" : "";
    if (size === 0 || size === 100) return `${minus}${size} %`;
    if (size < 0.1) return minus ? "about 0 %" : "under 0.1 %";
    const beside = Math.abs(Number((100 - size).toFixed(6)));
    if (beside < 0.1) return `${size < 100 ? (minus ? "under −99.9" : "over 99.9") : minus ? "under −100" : "over 100"} %`;
    return `${minus}${fixed(size, Math.min(size, beside) < 1 ? 1 : 0)} %`;
  }

  // Return a number with so many significant digits, without zeros at the end.
  function number(x, digits) {
    const power = x ? Number(Math.abs(x).toExponential(digits - 1).split("e")[1]) : 0;
    const minus = x < 0 ? "−" : "";
    if (power < -4 || power >= digits) {
      const exponent = `${Math.abs(power)}`.padStart(2, "0");
      return `${minus}${Number(fixed(x / 10 ** power, digits - 1))}e${power < 0 ? "-" : "+"}${exponent}`;
    }
    return `${minus}${Number(fixed(x, digits - 1 - power))}`;
  }

  // Return a number with at most three decimals, or, if it is smaller than 0.01, with three significant digits.
  const plain = (x) => (Math.abs(x) >= 0.01 ? number(Number(fixed(x, 3)) * Math.sign(x), 6) : number(x, 3));
  const bracket = (x) => (x < 0 ? `(${plain(x)})` : plain(x));

  // Return the computation of each answer's advantage as a line, as arithmetic.py writes it: ⟨0|…⟩ is what the first reward
  // adds, and the result stands between two **.
  function arithmetic(made, method, w, c) {
    const raw = !made.stats.length; // whether the rewards are added as they are, not normalised
    return made.a.map((a, i) => {
      const [mean, std] = [made.mean, made.std].map((x) => (typeof x === "number" ? x : x[i]));
      const pieces = w.map((weight, k) => {
        const x = made.z[k][i];
        const size = raw ? weight : Math.abs(weight);
        const times = size === 1 ? "" : `${plain(size)}·`;
        return `⟨${k}|${raw ? "" : weight * x < 0 ? "−" : "+"}${times}${plain(raw ? x : Math.abs(x))}⟩`;
      });
      const [line, result] = [`${pieces.join(raw ? " + " : " ")} = ${plain(made.s[i])}`, `**${signed(a)}**`];
      const top = Math.abs(mean) > ROUND_OFF ? `(${plain(made.s[i])} − ${bracket(mean)})` : plain(made.s[i]);
      if (method === "grpo_no_std") return `${line} → ${top} = ${result}`;
      if (std === 0) return `${line} → ${top}, without a spread to divide by = ${result}`;
      const eps = raw ? c.sum_eps : c.batch_eps;
      const by = !raw && c.batch_eps_to === "variance" ? Math.sqrt(std * std + eps) : std + eps;
      return `${line} → ${top} ÷ ${plain(by)} = ${result}`;
    });
  }

  // Return what one method computes for a state: A, each reward's part of A, the sums, the lines of arithmetic, the levels,
  // the ties, the shares of the update and the pushes.
  function compute({ marks, pays, weights, lengths }, method, c) {
    const r = pays.map((pay, k) => marks.map((row) => row[k] * pay));
    const group = { n: marks.map(() => 1), over: c.last_step === "tokens" ? lengths : undefined, r };
    const [made] = advantages([group], method, weights, c);
    const exact = withoutEps(method, c);
    const level = levels(made.a, exact ? advantages([{ ...group, stats: undefined }], method, weights, exact)[0].a : made.a, ROUND_OFF);
    const squares = total(group.n, (i) => made.a[i] ** 2);
    const sums = selection(group, made.a, ROUND_OFF);
    return {
      a: made.a,
      parts: made.a.map((_, i) => made.parts.map((part) => part[i])),
      s: made.s,
      z: made.stats.length ? made.a.map((_, i) => made.z.map((column) => column[i])) : null,
      lines: arithmetic(made, method, weights, c),
      level,
      ties: tiesOf(marks, level),
      shares: squares ? made.parts.map((part) => ratio(total(group.n, (i) => (made.a[i] ? part[i] * made.a[i] : 0)), squares)) : null,
      pushes: sums.map((sum) => push(sum.pushed, sum.squares, squares)),
    };
  }

  // Return the ties, those of the highest advantage first: the answers of each, and how many mixes of marks they have.
  function tiesOf(marks, level) {
    const sets = new Map();
    level.forEach((number, answer) => sets.set(number, [...(sets.get(number) ?? []), answer]));
    const groups = [...sets].sort(([x], [y]) => y - x).map(([, answers]) => ({ answers, mixes: new Set(answers.map((i) => `${marks[i]}`)).size }));
    return groups.filter(({ mixes }) => mixes > 1);
  }

  // Return the drawing of a state without words; null where only the core can compute the method of the state.
  function draw(state, { rules, primary, lengths }) {
    if (!METHODS.includes(state.method)) return null;
    const both = [METHODS[0], state.method].map((method) => compute({ ...state, lengths }, method, rules[state.convention]));
    const [left, right] = both;
    const passes = primary === null ? null : state.marks.map((row) => row[primary] > 0 === state.weights[primary] >= 0);
    const pairs = passes ? passes.flatMap((low, i) => (low ? [] : passes.flatMap((high, j) => (high ? [[i, j]] : [])))) : [];
    return {
      state,
      a: both.map(({ a }) => a),
      said: both.map(({ a }) => a.map((x) => signed(x))),
      sums_said: left.s.map((x) => number(x, 4)),
      order: [...state.marks.keys()].sort((i, j) => right.level[j] - right.level[i] || left.level[j] - left.level[i] || i - j),
      right: passes,
      parts: both.map(({ parts }) => parts),
      z: right.z,
      ties: both.map(({ ties }) => ties),
      // Python reads this number from the core's drawing, for the deeds; it is here so that both drawings can be compared.
      wrong_first: [pairs.filter(([i, j]) => right.level[i] > right.level[j]).length, pairs.length],
      shares: both.map(({ shares }) => shares),
      percents: both.map(({ shares }) => (shares ?? []).map((x) => (x >= 1.005 ? `${fixed(100 * x, 0)} %` : percent(x)))),
      pushes: both.map(({ pushes }) => pushes.map((x) => signed(x))),
      lines: left.lines.map((line, i) => [line, right.lines[i]]),
    };
  }

  return { draw };
})();
