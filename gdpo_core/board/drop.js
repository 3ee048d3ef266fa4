// The drop: a picture in which each answer is a dot with its number on the line of each method. Dots fall on the first
// line and pile up where answers share an advantage; then each dot slides down its thread to its place under the second
// method. On a narrow screen the lines stand upright, and dots fall to the right. This file stands before head.js and
// board.js in one module.

const SIDES = ["base", "other"];
const R = 9; // px, the radius of a dot
const STEP = 14; // px from one dot of a pile to the next; less where a pile would otherwise be too high
const [FALL, REST, SLIDE] = [800, 400, 1200]; // ms
// In px: where the axis begins, how far before the end of the picture it ends, and where both lines lie. Upright lines lie
// at shares of the width.
const WIDE = { from: 168, to: 36, lines: [112, 212] };
const UPRIGHT = { from: 34, to: 32, lines: [0.31, 0.63], high: 160 };
const MEANING = ["← less of this answer", "more of this answer →"]; // the words at the ends of the axis
const LONG = 162; // px that such words need, with the number beside them

function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "path", "g"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function makeDrop(many, point) {
  const dots = SIDES.map((side) => Array.from({ length: many }, (_, i) => make("span", { class: `dot ${side}` }, `${i + 1}`)));
  const threads = dots[0].map(() => make("path", {}));
  const lines = SIDES.map((side) => make("path", { class: side }));
  const grid = make("path", { class: "grid-line" });
  const falling = make("g", { class: "threads" }, ...threads);
  const heads = SIDES.map((side) => make("p", { class: `head-of ${side}` }));
  const numbers = Array.from({ length: 9 }, () => make("span", { class: "tick soft" }));
  const ends = MEANING.map(() => make("span", { class: "end" }));
  const notes = Array.from({ length: 8 }, () => make("p", { class: "note" }));
  const tie = make("i", { class: "tie" });
  const play = make("button", { type: "button", class: "play" }, "▶ Play");
  const picture = make("div", { class: "picture", role: "img" }, make("svg", {}, grid, falling, ...lines), tie, ...dots[1], ...dots[0], ...numbers, ...ends, ...notes);
  const node = make("div", { class: "drop" }, picture, ...heads, play);
  dots.flat().forEach((dot, n) => dot.addEventListener("pointerenter", () => point(n % many)));
  let spots = null; // per side and answer: [x, y, height in its pile]
  let at = WIDE.lines;
  let upright = false;
  let framed = "";
  let noted = []; // the notes that the core sent last
  let running = [];
  play.addEventListener("click", run);

  // Return, per answer, where its dot stands along the axis and how high in its pile, as low as the dots beside it allow.
  function pile(a, at) {
    const placed = a.map(() => null);
    const order = a.map((_, i) => i).sort((i, j) => a[i] - a[j] || j - i);
    for (const i of order) {
      const x = at(a[i]);
      let height = 0;
      while (placed.some((spot) => spot && spot[1] === height && Math.abs(spot[0] - x) < 2 * R)) height += 1;
      placed[i] = [x, height];
    }
    return placed;
  }

  function draw({ a, right, ties, notes: worded }, width, narrow, domain, titles) {
    // While the core's notes are on their way, the outline of the last notes stays as long as its answers are tied.
    if (worded) noted = worded;
    const still = noted[0] && ties[noted[0].side].some((tie) => same(tie.answers, noted[0].answers));
    const shown = worded ?? (still ? noted : []);
    upright = narrow;
    node.classList.toggle("upright", upright);
    const { from, to, lines: places, high } = upright ? UPRIGHT : WIDE;
    at = upright ? places.map((share) => share * Math.min(width, 460)) : places;
    const end = (upright ? high : width) - to;
    const along = (x) => from + ((x + domain[0]) / (domain[0] + domain[1])) * (end - from);
    const turned = (x, y) => (upright ? [y, high - x] : [x, y]);
    const piles = a.map((side) => pile(side, along));
    const room = [at[0] - 12, at[1] - at[0] - 18];
    const steps = piles.map((placed, side) => Math.min(STEP, (room[side] - 2 * R) / Math.max(1, ...placed.map(([, height]) => height))));
    const before = JSON.stringify(spots);
    spots = piles.map((placed, side) => placed.map(([x, height]) => [...turned(x, at[side] - R - 2 - height * steps[side]), height]));
    if (before !== JSON.stringify(spots)) running.forEach((animation) => animation.cancel());
    dots.forEach((side, s) => side.forEach((dot, i) => {
      dot.style.translate = `${spots[s][i][0]}px ${spots[s][i][1]}px`;
      dot.style.zIndex = 50 - spots[s][i][2];
      dot.classList.toggle("wrong", right !== null && !right[i]);
    }));
    // Where the answers of a tie stand apart under the second method, the smallest cluster of them is emphasised.
    const clusters = shown.filter((note) => note.side).map((note) => note.answers);
    const smallest = (a, b) => (b.length < a.length ? b : a);
    const lone = clusters.length > 1 ? clusters.reduce(smallest) : shown[0]?.answers.length === 1 ? shown[0].answers : [];
    threads.forEach((thread, i) => {
      thread.classList.toggle("lone", lone.includes(i));
      put(thread, "d", `M${bend(i, 0)}C${bend(i, 1)} ${bend(i, 2)} ${bend(i, 3)}`);
      thread.classList.toggle("wrong", right !== null && !right[i]);
    });
    const frame = JSON.stringify([width, upright, domain, titles]);
    if (frame !== framed) scale(along, turned, end, from, domain, titles, high, width);
    framed = frame;
    node.style.setProperty("--printed", Math.min(1, 640 / width)); // the scale at which the picture fits on paper
    // Draw the outline of the pile that the first note is about.
    const tied = shown[0]?.answers.length > 1 ? shown[0].answers.map((i) => spots[shown[0].side][i]) : [];
    tie.style.visibility = tied.length ? "" : "hidden"; // a hidden outline keeps its box, so that nothing is laid out anew
    if (tied.length) {
      const [xs, ys] = [0, 1].map((k) => tied.map((spot) => spot[k]));
      tie.className = `tie ${SIDES[shown[0].side]}`;
      tie.style.translate = `${Math.min(...xs) - R - 3}px ${Math.min(...ys) - R - 3}px`;
      tie.style.width = `${Math.max(...xs) - Math.min(...xs) + 2 * R + 6}px`;
      tie.style.height = `${Math.max(...ys) - Math.min(...ys) + 2 * R + 6}px`;
    }
    notes.forEach((note, n) => {
      note.style.visibility = worded ? "" : "hidden"; // the core's words are on their way
      if (!worded) return;
      note.hidden = n >= shown.length || (upright && !shown[n].side && shown[n].answers.length === 1); // or without room
      if (!note.hidden) write(note, shown[n], piles[shown[n].side], upright ? width : end, same(shown[n].answers, lone));
    });
    picture.setAttribute("aria-label", `${titles[0][0]} above ${titles[1][0]}. ${(worded ?? []).map((note) => note.lines.join(": ")).join(". ")}`);
  }

  // Draw the lines with their numbers and names, which a flip of a mark leaves as they are.
  function scale(along, turned, end, from, domain, titles, high, width) {
    const values = numbers.map((_, n) => n - 4).filter((x) => x > -domain[0] && x < domain[1]);
    const clear = (x) => upright || (x > from + LONG && x < end - LONG); // whether a number at x is clear of the words at both ends
    lines.forEach((line, side) => line.setAttribute("d", `M${turned(from - 8, at[side])}L${turned(end + 8, at[side])}`));
    grid.setAttribute("d", values.map((x) => `M${turned(along(x), at[0])}L${turned(along(x), at[1] + (upright ? 0 : 4))}`).join(""));
    numbers.forEach((tick, n) => {
      tick.textContent = n < values.length && clear(along(values[n])) ? `${values[n] > 0 ? "+" : ""}${values[n]}`.replace("-", "−") : "";
      const [x, y] = turned(along(values[n] ?? 0), upright ? at[0] + 12 : at[1] + 13);
      tick.style.translate = `${x}px ${y}px`;
    });
    ends.forEach((word, n) => {
      word.textContent = upright ? ["↑ more of this answer, ↓ less", ""][n] : MEANING[n];
      word.style.translate = upright ? `calc(${width}px - 100%) ${high - 17}px` : n ? `calc(${end + 8}px - 100%) ${at[1] + 5}px` : `${from - 8}px ${at[1] + 5}px`;
    });
    heads.forEach((head, side) => {
      head.classList.toggle("lengthy", titles[side][0].length > 12);
      head.replaceChildren(make("b", { class: "tip", tabindex: 0, "data-tip": titles[side][1] }, titles[side][0]), make("span", { class: "soft" }, titles[side][2]));
      head.style.translate = upright ? `${side ? at[1] - 60 : 0}px 0` : `0 ${at[side] - 26}px`;
    });
  }

  // Write a note beside its answers, on the side with more room; placed: where all dots of its line stand.
  function write(note, { side, answers, lines: [first, second] }, placed, end, alone) {
    note.replaceChildren(make("b", {}, first), make("span", {}, second));
    const here = answers.map((i) => spots[side][i]);
    const [xs, ys] = [0, 1].map((k) => here.map((spot) => spot[k]));
    const middle = (all) => (Math.min(...all) + Math.max(...all)) / 2;
    note.className = `note ${SIDES[side]}`;
    note.classList.toggle("wrong", answers.every((i) => dots[side][i].matches(".wrong")));
    note.classList.toggle("lone", alone); // the cluster that the picture is about
    if (upright) {
      // The note of the pile stands at the foot, where no dot is.
      note.style.maxWidth = `${side ? end - at[1] - 10 : at[0] + 16}px`;
      note.style.translate = side ? `${at[1] + 10}px calc(${middle(ys)}px - 50%)` : `0 calc(${UPRIGHT.high}px - 100%)`;
      return;
    }
    const neighbours = placed.map(([x]) => x).filter((_, i) => !answers.includes(i));
    const [low, high] = [Math.min(...xs), Math.max(...xs)];
    const left = low - Math.max(WIDE.from, ...neighbours.filter((x) => x < low));
    const right = Math.min(end, ...neighbours.filter((x) => x > high)) - high;
    note.classList.toggle("before", left > right);
    note.style.maxWidth = `${Math.max(left, right, 150) - 2 * R - 16}px`;
    const x = left > right ? `calc(${low - R - 10}px - 100%)` : `${high + R + 10}px`;
    note.style.translate = `${x} ${answers.length > 1 ? `calc(${middle(ys)}px - 50%)` : `calc(${ys[0] + R}px - 100%)`}`; // so that it does not cover the line
  }

  // Return point n of the four points of an answer's thread, from the first line to its dot on the second.
  function bend(i, n) {
    const [[x0, y0], [x1, y1]] = [spots[0][i], spots[1][i]];
    const start = at[0] + 2;
    const half = ((upright ? x1 : y1) + start) / 2;
    return (upright ? [[start, y0], [half, y0], [half, y1], [x1, y1]] : [[x0, start], [x0, half], [x1, half], [x1, y1]])[n];
  }

  function run() {
    running.forEach((animation) => animation.cancel());
    running = [];
    if (!spots || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const move = (element, frames, duration, delay, easing = "linear") => running.push(element.animate(frames, { duration, delay, easing, fill: "backwards" }));
    const appear = (element, delay) => move(element, [{ opacity: 0 }, {}], 250, delay);
    const highest = Math.max(1, ...spots[0].map(([, , height]) => height));
    dots[0].forEach((dot, i) => {
      const [x, y, height] = spots[0][i];
      const above = upright ? `${-4 * R}px ${y}px` : `${x}px ${-4 * R}px`;
      move(dot, [{ translate: above, opacity: 0 }, { opacity: 1, offset: 0.3 }, {}], FALL / 2, (height / highest) * (FALL / 2), "cubic-bezier(.5, 0, .9, .7)");
    });
    const later = FALL + REST;
    dots[1].forEach((dot, i) => {
      const [x, y, height] = spots[0][i];
      const translate = `${x}px ${y}px`;
      const wait = 0.2 * (height / highest); // the lowest of a pile leaves first
      const path = Array.from({ length: 13 }, (_, n) => [curve(i, n / 12), 0.1 + wait + (0.7 * n) / 12]);
      const down = path.map(([[u, v], offset]) => ({ translate: `${u}px ${v}px`, offset }));
      const waits = [{ translate, opacity: 0 }, { translate, opacity: 1, offset: 0.01 }, { translate, offset: 0.01 + wait }];
      move(dot, [...waits, ...down, {}], SLIDE, later, "ease-in-out");
    });
    const hidden = upright ? "inset(0 100% 0 0)" : "inset(0 0 100% 0)";
    move(falling, [{ clipPath: hidden }, { clipPath: "inset(0)" }], SLIDE, later, "ease-in-out");
    appear(tie, FALL);
    notes.forEach((note) => appear(note, note.classList.contains("base") ? FALL : later + SLIDE - 250));
  }

  // Return the point of an answer's thread at the share t of its length.
  function curve(i, t) {
    const points = [0, 1, 2, 3].map((n) => bend(i, n));
    const weights = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t ** 2 * (1 - t), t ** 3];
    return [0, 1].map((k) => points.reduce((sum, point, n) => sum + weights[n] * point[k], 0));
  }

  const mark = (answer) => dots.forEach((side) => side.forEach((dot, i) => dot.classList.toggle("active", i === answer)));

  return { node, draw, run, mark };
}

