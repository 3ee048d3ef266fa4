// The figures of a run under another setting, computed by the formulas of gdpo_core/board/formulas.js from how often each
// reward vector came in each of its groups. `compute` returns the figures, and `mount` connects the controls of a report.
globalThis.gdpoReport = (() => {
  const { total, most, ratio, advantages, selection, push, levels, withoutEps } = gdpoFormulas;
  const even = (x) => Math.round(x - (Math.floor(x) % 2 ? 0 : 1e-9)); // halves are rounded to even, as in Python
  const percent = (x) => (x === null ? "–" : `${even(1000 * x) / 10 + 0}\u00a0%`.replace("-", "−"));

  const signed = (x) => `${x > 0 ? "+" : "−"}${(even(100 * Math.abs(x)) / 100).toFixed(2)}`.replace(/^.(?=0\.00$)/, "");
  const written = { push: (x) => (x === null ? "–" : signed(x)), punished: percent };

  // Return the batches of a report's data, each with its groups as formulas.js takes them, and its round-off.
  function groupsOf({ vectors, names, float32, batches }) {
    const group = ([at, n, over = n]) => ({ n, over, r: names.map((_, k) => at.map((row) => vectors[row][k] ?? NaN)) });
    return batches.map((groups, b) => ({ groups: groups.map(group), same: float32[b] ? 1e-6 : 1e-9 }));
  }

  // Return the figures of the run under a method and weights, by name, as the JSON report has them.
  function compute(data, { method, weights }) {
    const { convention: c, names, alike, groups: whole } = data;
    const [w, parts] = [weights.map((v) => v / data.unit), weights.map(() => 0)];
    const sums = weights.map(() => ({ pushed: 0, squares: 0, above: 0, punished: 0 }));
    let [squares, silent, mixed, ties, apart, tied, ordered, wrong] = Array(8).fill(0);
    for (const { groups, same } of (data.read ??= groupsOf(data))) {
      const made = advantages(groups, method, w, c);
      const exact = withoutEps(method, c);
      const bare = exact ? advantages(groups, method, w, exact) : made;
      groups.forEach(({ n, r }, g) => {
        const a = made[g].a;
        silent += a.every((v) => v === 0);
        selection(groups[g], a, same, data.wanted).forEach((sum, k) => Object.keys(sum).forEach((figure) => (sums[k][figure] += sum[figure])));
        squares += total(n, (i) => (a[i] || 0) ** 2);
        made[g].parts.forEach((part, k) => (parts[k] += total(n, (i) => (a[i] ? part[i] * a[i] : 0))));
        const kept = [...n.keys()].filter((i) => !r.every((row) => Number.isNaN(row[i])));
        if (kept.some((i) => Number.isNaN(a[i]))) return;
        const level = levels(kept.map((i) => a[i]), kept.map((i) => bare[g].a[i]), same);
        const [before, primary] = [tied, r[data.primary] ?? a.map(() => NaN)];
        kept.forEach((i, x) => kept.slice(0, x).forEach((j, y) => {
          const [pairs, more] = [n[i] * n[j], (data.wanted[data.primary] ?? 0) * Math.sign(primary[i] - primary[j])];
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
    const by = (figure) => Object.fromEntries(names.map((name, k) => [name, figure(sums[k], k)]));
    const pushes = by((sum) => push(sum.pushed, sum.squares, squares));
    const punished = by(({ punished: low, above }) => ratio(low, above));
    return { update_share: Object.fromEntries(shares), push: pushes, punished, ...tying, silent_groups: ratio(silent, whole), groups: whole };
  }

  // Connect the controls of a report with the figures beside them; linked: whether the address of the file keeps their
  // values.
  function mount(root, linked) {
    const data = JSON.parse(root.dataset.answers);
    const [method, note, config] = ["select", "[role=status]", "code"].map((what) => root.querySelector(what));
    const [sliders, cells] = ["input", ".now"].map((what) => [...root.querySelectorAll(what)]);
    const text = (w, dot) => `${+w.toPrecision(6)}${dot && Number.isInteger(w) ? dot : ""}`;
    let [{ weights }, ignored] = [data, ""]; // ignored: a sentence on what in a link was ignored
    // The first report of a page defines the global function, which takes weights by name, or in order.
    const weight = (given, name, k) => (Object.hasOwn(given, name) ? given[name] : data.weights[k]);
    const inOrder = (given) => (Array.isArray(given) ? given : data.names.map((name, k) => weight(given, name, k)));
    globalThis.gdpoReport.compute ??= (set) => compute(data, { ...data, ...set, weights: inOrder(set.weights ?? {}) });

    function draw() {
      const figures = compute(data, { method: method.value, weights });
      const nothing = weights.every((w) => w === 0);
      for (const [k, slider] of sliders.entries()) {
        [slider.min, slider.max] = [Math.min(slider.min, weights[k]), Math.max(slider.max, weights[k])];
        [slider.value, slider.nextSibling.textContent] = [weights[k], text(weights[k])];
      }
      for (const cell of root.querySelectorAll("[data-of]")) {
        const { of: figure, k } = cell.dataset;
        cell.textContent = written[figure](nothing ? null : figures[figure][data.names[k]]);
      }
      for (const cell of cells) {
        const { figure, reward } = cell.dataset;
        const told = figure === "silent_groups" || !nothing;
        cell.textContent = percent(told ? (figure ? figures[figure] : figures.update_share[data.names[reward]]) : null);
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
    if (linked && location.hash) root.querySelector("details").open = true; // on a phone the controls are folded
    restore();
  }

  return { all: (page, link) => page.querySelectorAll("[data-answers]").forEach((root, n) => mount(root, link && !n)) };
})();
