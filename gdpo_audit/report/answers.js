// What a run would have shown under another setting, from how often each reward vector came in its groups: computed as
// in gdpo_core's methods.py, _statistics.py and _pairs.py. `compute` answers, `mount` lets the reader of a report ask.
globalThis.gdpoReport = (() => {
  const [UNIT, APART] = [Number.EPSILON, 0.005]; // of round-off; of a group's largest advantage: what is nearer ties
  const total = (n, of) => n.reduce((sum, m, i) => (m ? sum + m * of(i) : sum), 0);
  const most = (x) => x.reduce((high, v) => Math.max(high, Math.abs(v)), 0);
  const ratio = (part, whole) => (whole ? part / whole : null);
  const root = (away, n, count, ddof) => Math.sqrt(total(n, (i) => away[i] ** 2) / (count > ddof ? count - ddof : 1));
  const even = (x) => Math.round(x - (Math.floor(x) % 2 ? 0 : 1e-9)); // halves to even, as Python rounds
  const percent = (x) => (x === null ? "–" : `${even(1000 * x) / 10 + 0}\u00a0%`.replace("-", "−"));

  const signed = (x) => `${x > 0 ? "+" : "−"}${(even(100 * Math.abs(x)) / 100).toFixed(2)}`.replace(/^.(?=0\.00$)/, "");
  const written = { push: (x) => (x === null ? "–" : signed(x)), punished: percent };

  function groupsOf({ vectors, names, float32, batches }) {
    const group = ([at, n, over = n]) => ({ n, over, r: names.map((_, k) => at.map((row) => vectors[row][k] ?? NaN)) });
    return batches.map((groups, b) => ({ groups: groups.map(group), same: float32[b] ? 1e-6 : 1e-9 }));
  }

  // Values that came n times each, less their mean; a missing one is left out, or makes all NaN.
  function deviations(x, n, c, noise = 0) {
    const held = c.skips ? n.map((m, i) => (Number.isNaN(x[i]) ? 0 : m)) : n;
    const count = total(held, () => 1);
    const start = x[held.findIndex(Boolean)] ?? NaN;
    const shift = total(held, (i) => x[i] - start) / count;
    if (c.group_of_one === "raw" && count === 1) return { held, count, mean: 0, away: x, std: 1 };
    const away = x.map((v) => v - start - shift);
    const std = root(away, held, count, c.ddof);
    return { held, count, mean: start + shift, away, std: std <= noise ? 0 : std };
  }

  // By group of a batch, the advantages a of its rows and each reward's part of them.
  function advantages(groups, method, w, c) {
    const made = groups.map(({ n, r }, g) => {
      const x = method === "gdpo" && c.missing_is_zero_in_gdpo ? r.map((row) => row.map((v) => v || 0)) : r;
      const empty = n.map((_, i) => c.skips && !c.empty_counts && x.every((row) => Number.isNaN(row[i])));
      const stats = method === "gdpo" ? (groups[g].stats ??= x.map((row) => deviations(row, n, c))) : [];
      const normal = ({ away, std }) => away.map((v) => (std === 0 ? 0 * v : v / (std + c.group_eps)));
      const z = method === "gdpo" ? stats.map(normal) : x;
      const terms = z.map((row, k) => row.map((v, i) => (empty[i] ? NaN : w[k] * v || 0)));
      const s = n.map((_, i) => z.reduce((sum, row, k) => sum + (c.skips ? terms[k][i] : w[k] * row[i]), 0));
      if (method === "gdpo") return { ...groups[g], empty, terms, s: withoutRest(s, n, stats, w) };
      const largest = most(n.map((_, i) => terms.reduce((sum, t) => sum + Math.abs(t[i] || 0), 0)));
      const { std, count, away } = deviations(s, n, c, largest * w.length * UNIT);
      const farther = c.mean_of_others && count > 1 ? count / (count - 1) : 1;
      const by = std === 0 ? Infinity : method === "grpo" ? std + c.sum_eps : 1;
      const own = (away) => away.map((v) => (farther * v) / by);
      return { empty, a: own(away), parts: terms.map((t) => own(deviations(t, n, c).away)) };
    });
    const steps = method !== "gdpo" ? [] : c.last_step === "group" ? made.map((one) => [one]) : [made];
    steps.forEach((step) => lastStep(step, made, c));
    return made.map(({ a, parts, empty }) => ({ a: a.map((v, i) => (empty[i] ? 0 : v)), parts }));
  }

  // Sums of normalised rewards; 0 in a group in which they cancel but for round-off.
  function withoutRest(s, n, stats, w) {
    const size = Math.sqrt(total(n, (i) => (s[i] || 0) ** 2) / total(n, () => 1));
    const lost = ({ mean, std }, k) => std && Math.abs(w[k]) * Math.min((Math.abs(mean) / std + 1) * 8 * UNIT, 0.02);
    const noise = stats.map(lost).reduce((sum, one) => sum + one, 0);
    return size <= noise ? s.map((v) => 0 * v) : s;
  }

  // GDPO's last step: over the batch, its tokens, or a group once more.
  function lastStep(step, batch, c) {
    const s = step.flatMap((one) => one.s);
    const { held, count, mean, away } = deviations(s, step.flatMap((one) => one.over), { ...c, group_of_one: "" });
    const size = Math.sqrt(total(held, (i) => s[i] ** 2) / count);
    const off = c.last_step === "tokens" && Math.abs(mean) > 32 * UNIT * size ? mean : 0;
    const raw = c.group_of_one === "raw" && batch.some(({ n }) => total(n, () => 1) === 1);
    const centred = raw ? away : s.map((v) => v - off);
    const std = c.group_of_one === "nan" && count === 1 ? NaN : root(centred, held, count, c.ddof);
    const by = c.batch_eps_to === "variance" ? Math.sqrt(std ** 2 + c.batch_eps) : std + c.batch_eps;
    const terms = step[0].terms.map((_, k) => step.flatMap((one) => one.terms[k]));
    const means = terms.map((t) => total(held, (i) => t[i]) / count);
    for (const one of step) {
      one.a = centred.splice(0, one.n.length).map((v) => (std === 0 ? 0 * v : v / by));
      one.parts = one.terms.map((t, k) => t.map((v) => (v - means[k]) / by));
    }
  }

  // What the advantages of a group's rows select, added to the sums of each reward: Σ A d, Σ d² with d the distance from
  // the mean, rows with d above 0, and those of them with A of 0 or less; without the rows that have no advantage.
  function select(group, a, same, sums) {
    const { n, r } = group;
    group.away ??= r.map((row) => deviations(row, n, { skips: true, ddof: 1 }).away.map((v) => v || 0));
    const [told, low] = [n.map((m, i) => (Number.isFinite(a[i]) ? m : 0)), same * most(a.map((v) => v || 0))];
    group.away.forEach((d, k) => {
      const above = told.map((m, i) => (d[i] > same * most(d) ? m : 0));
      sums[k].pushed += total(told, (i) => a[i] * d[i]);
      sums[k].squares += total(told, (i) => d[i] ** 2);
      sums[k].above += total(above, () => 1);
      sums[k].punished += total(above, (i) => Number(a[i] <= low));
    });
  }

  function ranks(x, same, before = x.map(() => 0)) {
    const order = [...x.keys()].sort((i, j) => before[i] - before[j] || x[i] - x[j]);
    const next = (rank, j, i) => rank + (before[i] !== before[j] || x[i] - x[j] > same);
    return order.reduce((rank, i, at) => ((rank[i] = at && next(rank[order[at - 1]], order[at - 1], i)), rank), []);
  }

  // Levels of advantages, of which those that only an eps parts are one; bare: the same computed without any.
  function levels(x, bare, same) {
    const number = ranks(x, APART * most(x), ranks(bare, same * most(bare)));
    return ranks(number.map((own) => Math.min(...x.filter((_, i) => number[i] === own))), same * most(x));
  }

  function compute(data, { method, weights }) {
    const { convention: c, names, alike, groups: whole } = data;
    const [w, parts] = [weights.map((v) => v / data.unit), weights.map(() => 0)];
    const sums = weights.map(() => ({ pushed: 0, squares: 0, above: 0, punished: 0 }));
    let [squares, silent, mixed, ties, apart, tied, ordered, wrong] = Array(8).fill(0);
    for (const { groups, same } of (data.read ??= groupsOf(data))) {
      const made = advantages(groups, method, w, c);
      const bare = method === "gdpo" ? advantages(groups, method, w, { ...c, group_eps: 0, batch_eps: 0 }) : made;
      groups.forEach(({ n, r }, g) => {
        const a = made[g].a;
        silent += a.every((v) => v === 0);
        select(groups[g], a, same, sums);
        squares += total(n, (i) => (a[i] || 0) ** 2);
        made[g].parts.forEach((part, k) => (parts[k] += total(n, (i) => (a[i] ? part[i] * a[i] : 0))));
        const kept = [...n.keys()].filter((i) => !r.every((row) => Number.isNaN(row[i])));
        if (kept.some((i) => Number.isNaN(a[i]))) return;
        const level = levels(kept.map((i) => a[i]), kept.map((i) => bare[g].a[i]), same);
        const [before, primary] = [tied, r[data.primary] ?? a.map(() => NaN)];
        kept.forEach((i, x) => kept.slice(0, x).forEach((j, y) => {
          const [pairs, more] = [n[i] * n[j], Math.sign(primary[i] - primary[j])];
          apart += pairs;
          tied += level[x] === level[y] ? pairs : 0;
          ordered += more ? pairs : 0;
          wrong += more * (level[x] - level[y]) < 0 ? pairs : 0;
        }));
        [mixed, ties] = [mixed + (kept.length > 1), ties + (tied > before)];
      });
    }
    const shares = names.map((name, k) => [name, alike[k] ? null : ratio(parts[k], squares)]);
    const tying = { groups_with_ties: ratio(ties, mixed), tied_pairs: ratio(tied, apart), inversions: ratio(wrong, ordered) };
    const raised = sums.map(({ pushed, squares: of }) => ratio(pushed, Math.sqrt(of) * Math.sqrt(squares)) ?? 0);
    const by = (figure) => Object.fromEntries(names.map((name, k) => [name, figure(sums[k], k)]));
    const push = by((_, k) => Math.min(Math.max(raised[k], -1), 1));
    const punished = by(({ punished: low, above }) => ratio(low, above));
    return { update_share: Object.fromEntries(shares), push, punished, ...tying, silent_groups: ratio(silent, whole), groups: whole };
  }

  // The controls of a report and what follows from them; linked: the address of the file holds what they are set to.
  function mount(root, linked) {
    const data = JSON.parse(root.dataset.answers);
    const [method, note, config] = ["select", "[role=status]", "code"].map((what) => root.querySelector(what));
    const [sliders, cells] = ["input", ".now"].map((what) => [...root.querySelectorAll(what)]);
    const text = (w, dot) => `${+w.toPrecision(6)}${dot && Number.isInteger(w) ? dot : ""}`;
    let [{ weights }, ignored] = [data, ""]; // what a link asked for that could not be taken
    // Of the first report; weights by name, or in order.
    const weight = (of, name, k) => (Object.hasOwn(of, name) ? of[name] : data.weights[k]);
    const inOrder = (of) => (Array.isArray(of) ? of : data.names.map((name, k) => weight(of, name, k)));
    globalThis.gdpoReport.compute ??= (set) => compute(data, { ...data, ...set, weights: inOrder(set.weights ?? {}) });

    function draw() {
      const found = compute(data, { method: method.value, weights });
      const nothing = weights.every((w) => w === 0);
      for (const [k, slider] of sliders.entries()) {
        [slider.min, slider.max] = [Math.min(slider.min, weights[k]), Math.max(slider.max, weights[k])];
        [slider.value, slider.nextSibling.textContent] = [weights[k], text(weights[k])];
      }
      for (const cell of root.querySelectorAll("[data-of]")) {
        const { of, k } = cell.dataset;
        cell.textContent = written[of](nothing ? null : found[of][data.names[k]]);
      }
      for (const cell of cells) {
        const { figure, reward } = cell.dataset;
        const told = figure === "silent_groups" || !nothing;
        cell.textContent = percent(told ? (figure ? found[figure] : found.update_share[data.names[reward]]) : null);
        cell.style.setProperty("--now", parseFloat(cell.textContent) || 0);
      }
      note.textContent = nothing ? "Every weight is 0, so every advantage is 0: nothing is learnt." : ignored;
      config.textContent = nothing ? "" : (data.lines[method.value] ?? "").replace(/\b9(\d{4})(\.0)?\b/g, (_, k, dot) => text(weights[+k], dot));
    }
    function restore() {
      const link = new URLSearchParams(linked ? location.hash.slice(1) : "");
      const given = link.get("w")?.split(",").map((w) => (w.trim() ? Number(w) : NaN)) ?? data.weights;
      const fits = given.length === sliders.length && given.every(Number.isFinite);
      weights = fits ? given : data.weights;
      method.value = Object.hasOwn(data.lines, link.get("m")) ? link.get("m") : data.method;
      ignored = fits ? "" : `The weights of this link were ignored: expected ${sliders.length} numbers.`;
      draw();
    }
    root.addEventListener("input", ({ target }) => {
      weights = weights.map((w, k) => (sliders[k] === target ? +target.value : w));
      ignored = "";
      if (linked) history.replaceState(null, "", `#w=${weights}&m=${method.value}`);
      draw();
    });
    if (linked) addEventListener("hashchange", restore);
    root.querySelector("fieldset").disabled = false;
    if (linked && location.hash) root.querySelector("details").open = true; // a phone folds it
    restore();
  }

  return { all: (page, link) => page.querySelectorAll("[data-answers]").forEach((root, n) => mount(root, link && !n)) };
})();
