// The formulas in the browser: GRPO, GRPO without std and GDPO under every convention, with the figures that follow from
// their advantages. They repeat methods.py, numerics and pushing.py of gdpo_core, and
// tests/test_formulas.py holds both equal. The symbols are those of methods.py: r rewards, w weights, s weighted sum, z
// normalised rewards, A advantages. A group is {n, r}: r[k][i] is reward k of row i, NaN where it is missing, and n[i] is
// the number of answers with that row; over[i], if there is any, is the row's weight in the batch step. A convention c is
// that of conventions.py, with skips (whether a missing reward is left out) and sum_eps.
const gdpoFormulas = (() => {
  const UNIT = Number.EPSILON; // the round-off of 1
  const APART = 0.005; // of a group's largest advantage: two advantages that are nearer to each other are a tie
  const total = (n, value) => n.reduce((sum, m, i) => (m ? sum + m * value(i) : sum), 0);
  const most = (x) => x.reduce((high, v) => Math.max(high, Math.abs(v)), 0);
  const ratio = (numerator, denominator) => (denominator ? numerator / denominator : null);
  const spread = (away, n, count, ddof) => Math.sqrt(total(n, (i) => away[i] ** 2) / (count > ddof ? count - ddof : 1));
  const at = (x, i) => (typeof x === "number" ? x : x[i]); // a statistic of the group, or of all rows but row i

  // Return x − mean G and std G of values that came n times each. A missing value is left out, or makes all NaN, as the
  // convention has it; a std of at most `noise` is round-off and becomes 0.
  function deviations(x, n, c, noise = 0) {
    const held = c.skips ? n.map((m, i) => (Number.isNaN(x[i]) ? 0 : m)) : n;
    const count = total(held, () => 1);
    const start = x[held.findIndex(Boolean)] ?? NaN; // so that equal values deviate by exactly 0
    const shift = total(held, (i) => x[i] - start) / count;
    if (c.leave_one_out && !Number.isNaN(shift)) return leaveOneOut(x, held, count, c, noise);
    if (c.group_of_one === "raw" && count === 1) return { held, count, mean: 0, away: x, std: 1 };
    const away = x.map((v) => v - start - shift);
    const std = spread(away, held, count, c.ddof);
    return { held, count, mean: start + shift, away, std: std <= noise ? 0 : std };
  }

  // Return what `deviations` returns under leave-one-out: each row against the mean and the std of all rows but itself.
  function leaveOneOut(x, n, count, { ddof }, noise) {
    const rows = x.map((v, j) => {
      const rest = n.map((m, i) => m - Number(i === j));
      if (count < 2) return { mean: v, away: 0, std: 0 };
      const start = x[rest.findIndex(Boolean)];
      const shift = total(rest, (i) => x[i] - start) / (count - 1);
      const std = count - 1 > ddof ? spread(x.map((u) => u - start - shift), rest, count - 1, ddof) : 0;
      const away = v - start - shift;
      return { mean: start + shift, away: Math.abs(away) <= noise ? 0 : away, std: std <= noise ? 0 : std };
    });
    const [mean, away, std] = ["mean", "away", "std"].map((name) => rows.map((row) => row[name]));
    return { held: n, count, mean, away, std };
  }

  // Return the divisor of a deviation: std + ε. Where the std is 0, the quotient is 0, or under leave-one-out the deviation
  // itself.
  const divisor = (std, eps, c) => (std === 0 ? (c.leave_one_out ? 1 : Infinity) : std + eps);

  // Return, per group of a batch, the advantages A of its rows, each reward's part of them, and the sums and statistics from
  // which they were computed.
  function advantages(groups, method, w, c) {
    if (method === "gdpo" && w.length === 1 && c.one_reward_is_grpo) method = "grpo";
    const made = groups.map((group) => inGroup(group, method, w, c));
    const steps = method !== "gdpo" ? [] : c.last_step === "group" ? made.map((group) => [group]) : [made];
    steps.forEach((step) => overBatch(step, made, c));
    return made.map((group) => ({ ...group, a: group.a.map((v, i) => (group.empty[i] ? 0 : v)) }));
  }

  function inGroup(group, method, w, c) {
    const { n, r: given } = group;
    const r = method === "gdpo" && c.missing_is_zero_in_gdpo ? given.map((row) => row.map((v) => v || 0)) : given;
    const empty = n.map((_, i) => c.skips && !c.empty_counts && r.every((row) => Number.isNaN(row[i])));
    const stats = method === "gdpo" ? (group.stats ??= r.map((row) => deviations(row, n, c))) : [];
    const normal = ({ away, std }) => away.map((v, i) => v / divisor(at(std, i), c.group_eps, c));
    const z = method === "gdpo" ? stats.map(normal) : r; // eq. 4: z_jk = (r_jk − mean_G r_k) / std_G r_k
    const terms = z.map((row, k) => row.map((v, i) => (empty[i] ? NaN : w[k] * v || 0)));
    const s = n.map((_, i) => z.reduce((sum, row, k) => sum + (c.skips ? terms[k][i] : w[k] * row[i]), 0)); // eq. 5, 7: s_j = Σ_k w_k z_jk
    if (method === "gdpo") return { ...group, empty, stats, z, terms, s: withoutRest(s, n, stats, w, c) };
    const largest = most(n.map((_, i) => terms.reduce((sum, t) => sum + Math.abs(t[i] || 0), 0)));
    const { mean, std, count, away } = deviations(s, n, c, largest * w.length * UNIT);
    const farther = c.mean_of_others && count > 1 ? count / (count - 1) : 1;
    const by = (i) => (method === "grpo" ? divisor(at(std, i), c.sum_eps, c) : 1);
    const scaled = (away) => away.map((v, i) => (farther * v) / by(i)); // eq. 1, 2: A_j = (s_j − mean_G s) / std_G s
    const equal = std === 0 && !c.leave_one_out; // whether the sums are equal but for round-off
    const a = scaled(equal ? away.map((v) => 0 * v) : away);
    return { ...group, empty, stats, z, terms, s, mean, std, a, parts: terms.map((t) => scaled(deviations(t, n, c).away)) };
  }

  // Return sums of normalised rewards, 0 in a group in which they cancel but for round-off.
  function withoutRest(s, n, stats, w, c) {
    const size = Math.sqrt(total(n, (i) => (s[i] || 0) ** 2) / total(n, () => 1));
    const lost = (mean, std) => (std || c.leave_one_out ? Math.min(((Math.abs(mean) + std) / (std || 1)) * 8 * UNIT, 0.02) : 0);
    const noise = most(s.map((_, i) => stats.reduce((sum, { mean, std }, k) => sum + Math.abs(w[k]) * (lost(at(mean, i), at(std, i)) || 0), 0)));
    return size <= noise ? s.map((v) => 0 * v) : s;
  }

  // Normalise once more, eq. 6: A_j = (s_j − mean_B s) / std_B s, over the batch, its tokens, or a group. The sums of whole
  // groups add up to 0, so their mean is subtracted only where it can be another number.
  function overBatch(step, batch, c) {
    const s = step.flatMap((group) => group.s);
    const plain = { ...c, group_of_one: "", leave_one_out: false };
    const { held, count, mean, away } = deviations(s, step.flatMap((group) => group.over ?? group.n), plain);
    const size = Math.sqrt(total(held, (i) => s[i] ** 2) / count);
    const off = c.last_step === "tokens" && Math.abs(mean) > 32 * UNIT * size ? mean : 0;
    const raw = c.leave_one_out || (c.group_of_one === "raw" && batch.some(({ n }) => total(n, () => 1) === 1));
    const centred = raw ? away : s.map((v) => v - off);
    const std = c.group_of_one === "nan" && count === 1 ? NaN : spread(centred, held, count, c.ddof);
    const by = c.batch_eps_to === "variance" ? Math.sqrt(std ** 2 + c.batch_eps) : std + c.batch_eps;
    const terms = step[0].terms.map((_, k) => step.flatMap((group) => group.terms[k]));
    const means = terms.map((t) => total(held, (i) => t[i]) / count);
    for (const group of step) {
      [group.mean, group.std] = [raw ? mean : off, std];
      group.a = centred.splice(0, group.n.length).map((v) => (std === 0 ? 0 * v : v / by));
      group.parts = group.terms.map((t, k) => t.map((v) => (std === 0 ? 0 * v : (v - means[k]) / by)));
    }
  }

  // Return, per reward of a group, Σ A d and Σ d² with d = r − mean_G r, how many rows have d above 0 (below 0 if less of
  // the reward is wanted), and how many of these have an advantage of 0 or less. Rows without an advantage are left out.
  // same: how close to 0 an advantage counts as 0; wanted: of each reward 1 (more), −1 (less) or 0 (neither).
  function selection(group, a, same, wanted = group.r.map(() => 1)) {
    const { n, r } = group;
    group.away ??= r.map((row) => deviations(row, n, { skips: true, ddof: 1 }).away.map((v) => v || 0));
    const [told, low] = [n.map((m, i) => (Number.isFinite(a[i]) ? m : 0)), same * most(a.map((v) => v || 0))];
    return group.away.map((d, k) => {
      const above = told.map((m, i) => (wanted[k] * d[i] > same * most(d) ? m : 0));
      const [pushed, squares] = [total(told, (i) => a[i] * d[i]), total(told, (i) => d[i] ** 2)];
      return { pushed, squares, above: total(above, () => 1), punished: total(above, (i) => Number(a[i] <= low)) };
    });
  }

  // Return the push on a reward: Σ A d / √(Σ A² Σ d²), from −1 to 1; 0 where Σ A² or Σ d² is 0.
  const push = (pushed, squares, ofAdvantages) => Math.min(Math.max(ratio(pushed, Math.sqrt(squares) * Math.sqrt(ofAdvantages)) ?? 0, -1), 1);

  // Return the ranks of numbers, first by `before` and then by x, where neighbours up to `same` apart have one rank.
  function ranks(x, same, before = x.map(() => 0)) {
    const order = [...x.keys()].sort((i, j) => before[i] - before[j] || x[i] - x[j]);
    const next = (rank, j, i) => rank + (before[i] !== before[j] || x[i] - x[j] > same);
    return order.reduce((rank, i, place) => ((rank[i] = place && next(rank[order[place - 1]], order[place - 1], i)), rank), []);
  }

  // Return the number of each advantage among those of its group, 0 for the lowest; advantages that differ only because of
  // an ε have one number. bare: the advantages computed without any ε; same: round-off, relative to the largest.
  function levels(x, bare, same) {
    const number = ranks(x, APART * most(x), ranks(bare, same * most(bare)));
    return ranks(number.map((rank) => Math.min(...x.filter((_, i) => number[i] === rank))), same * most(x));
  }

  // Return the convention without any ε, where leaving it out can change the order of advantages; else null.
  const withoutEps = (method, c) => (method === "gdpo" || c.leave_one_out ? { ...c, group_eps: 0, sum_eps: 0, batch_eps: 0 } : null);

  return { total, most, ratio, advantages, selection, push, levels, withoutEps };
})();
