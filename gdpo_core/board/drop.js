// The drop: a picture in which each answer is a dot with its number on the line of each method. Dots fall on the first
// line and pile up where answers share an advantage; then each dot slides down its thread to its place under the second
// method. The labels stand in a strip above the first line and in one below the second, each with a leader to its dots. On
// a narrow screen the lines stand upright, dots fall to the right, and the labels stand below. This file stands before
// labels.js, play.js, head.js and board.js in one module.

const SIDES = ["base", "other"];
const [FALL, REST, SLIDE] = [800, 400, 1200]; // ms
// In px: the radius of a dot; from one dot of a pile to the next, at most, and at least so that no dot covers another's
// number; where the axis begins, how far before the end of the picture it ends, where both lines lie, how high a strip of
// labels is, and how far below the second line its strip begins. Upright lines lie at shares of the width and are so long.
const WIDE = { r: 9, step: 13, least: 13, from: 150, to: 36, lines: [157, 267], strip: 36, foot: 25 };
const UPRIGHT = { r: 7, step: 16, least: 12, from: 22, to: 26, lines: [0.463, 0.97], axis: 120 };
const LANES = [0, 1, -1, 2, -2]; // where a dot stands beside a pile that is as high as there is room
const MEANING = ["← less likely", "more likely →"]; // the words at the ends of the axis
const LONG = 112; // px that such words need, with the number beside them

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
  const labels = makeLabels();
  const tie = make("i", { class: "tie" });
  const play = make("button", { type: "button", class: "play" }, "▶ Play");
  const picture = make("div", { class: "picture", role: "img" }, make("svg", {}, grid, falling, ...lines, labels.leaders), tie, ...dots[1], ...dots[0], ...numbers, ...ends, ...labels.notes);
  const stage = make("p", { class: "stage", role: "status" }); // what is played now, where labels stand afterwards
  const node = make("div", { class: "drop" }, picture, ...heads, play, stage);
  dots.flat().forEach((dot, n) => dot.addEventListener("pointerenter", () => point(n % many)));
  let spots = null; // per side and answer: [x, y, height in its pile]
  let form = WIDE;
  let at = WIDE.lines;
  let upright = false;
  let framed = "";
  let noted = []; // the notes that the core sent last
  let running = [];

  // Return, per answer, where its dot stands along the axis and how high in its pile, as low as the dots beside it allow.
  // most: how many dots may stand above each other; others stand beside the pile.
  function pile(a, along, most) {
    const placed = a.map(() => null);
    const order = a.map((_, i) => i).sort((i, j) => a[i] - a[j] || j - i);
    for (const i of order) {
      const free = (x) => {
        let height = 0;
        while (placed.some((spot) => spot && spot[1] === height && Math.abs(spot[0] - x) < 2 * form.r)) height += 1;
        return height;
      };
      const beside = (lane) => along(a[i]) + lane * 2 * form.r;
      const lane = LANES.find((lane) => free(beside(lane)) < most) ?? 0;
      placed[i] = [beside(lane), free(beside(lane))];
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
    form = upright ? UPRIGHT : WIDE;
    at = upright ? form.lines.map((share) => share * Math.min(width, 620)) : form.lines;
    const end = (upright ? form.axis : width) - form.to;
    const along = (x) => form.from + ((x + domain[0]) / (domain[0] + domain[1])) * (end - form.from);
    const turned = (x, y) => (upright ? [y, form.axis - x] : [x, y]);
    place(a, along, turned);
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
    if (frame !== framed) scale(along, turned, end, domain, titles, width);
    framed = frame;
    node.style.setProperty("--printed", Math.min(1, 640 / width)); // the scale at which the picture fits on paper
    outline(shown[0]);
    const wrong = (note) => note.answers.every((i) => right !== null && !right[i]);
    const told = shown.map((note) => ({ ...note, wrong: wrong(note), lone: same(note.answers, lone) }));
    labels.show(worded ? told : null, { form, upright, width, spots, at, taken: taken(along, end, domain) });
    picture.setAttribute("aria-label", `${titles[0][0]} above ${titles[1][0]}. ${(worded ?? []).map((note) => note.lines.join(": ")).join(". ")}`);
  }

  // Put all dots in their places. A pile without room for its numbers has none.
  function place(a, along, turned) {
    const room = [at[0] - (upright ? 12 : form.strip + 12), at[1] - at[0] - (upright ? 28 : 14)];
    const most = room.map((room) => (upright ? Infinity : Math.floor((room - 2 * form.r) / form.step) + 1));
    const piles = a.map((side, s) => pile(side, along, most[s]));
    const steps = piles.map((placed, side) => Math.min(form.step, (room[side] - 2 * form.r) / Math.max(1, ...placed.map(([, height]) => height))));
    SIDES.forEach((side, s) => picture.classList.toggle(`bare-${side}`, steps[s] < form.least - 1e-9));
    const before = JSON.stringify(spots);
    spots = piles.map((placed, side) => placed.map(([x, height]) => [...turned(x, at[side] - form.r - 2 - height * steps[side]), height]));
    if (before !== JSON.stringify(spots)) stop();
  }

  // Draw the outline of the pile that the first note is about.
  function outline(note) {
    const tied = note?.answers.length > 1 ? note.answers.map((i) => spots[note.side][i]) : [];
    tie.style.visibility = tied.length ? "" : "hidden"; // a hidden outline keeps its box, so that nothing is laid out anew
    if (!tied.length) return;
    const [xs, ys] = [0, 1].map((k) => tied.map((spot) => spot[k]));
    const around = form.r + 3;
    tie.className = `tie ${SIDES[note.side]}`;
    tie.style.translate = `${Math.min(...xs) - around}px ${Math.min(...ys) - around}px`;
    tie.style.width = `${Math.max(...xs) - Math.min(...xs) + 2 * around}px`;
    tie.style.height = `${Math.max(...ys) - Math.min(...ys) + 2 * around}px`;
  }

  // The numbers of the axis that are shown: none stands on the words at both ends.
  const valuesOf = (domain) => numbers.map((_, n) => n - 4).filter((x) => x > -domain[0] && x < domain[1]);
  const clear = (x, end) => upright || (x > form.from + LONG && x < end - LONG);

  // Return from where to where something is written below the second line.
  const taken = (along, end, domain) => [
    [0, form.from + LONG], [end - LONG, Infinity],
    ...valuesOf(domain).map(along).map((x) => [x - 16, x + 16]),
  ];

  // Draw the lines with their numbers and names, which a flip of a mark leaves as they are.
  function scale(along, turned, end, domain, titles, width) {
    const values = valuesOf(domain);
    lines.forEach((line, side) => line.setAttribute("d", `M${turned(form.from - 8, at[side])}L${turned(end + 8, at[side])}`));
    grid.setAttribute("d", values.map((x) => `M${turned(along(x), at[0])}L${turned(along(x), at[1] + (upright ? 0 : 4))}`).join(""));
    numbers.forEach((tick, n) => {
      tick.textContent = n < values.length && clear(along(values[n]), end) ? `${values[n] > 0 ? "+" : ""}${values[n]}`.replace("-", "−") : "";
      const [x, y] = turned(along(values[n] ?? 0), upright ? at[0] + 12 : at[1] + 11);
      tick.style.translate = `${x}px ${y}px`;
    });
    ends.forEach((word, n) => {
      word.textContent = upright ? ["↑ more likely, ↓ less", ""][n] : MEANING[n];
      word.style.translate = upright ? `calc(${at[1]}px - 100%) ${form.axis - 15}px` : n ? `calc(${end + 8}px - 100%) ${at[1] + 3}px` : `${form.from - 8}px ${at[1] + 3}px`;
    });
    heads.forEach((head, side) => {
      head.classList.toggle("lengthy", titles[side][0].length > 12);
      head.replaceChildren(make("b", { class: "tip", tabindex: 0, "data-tip": titles[side][1] }, titles[side][0]));
      head.style.translate = upright ? `${side ? at[0] + 8 : 0}px 0` : `0 ${at[side] - 19}px`;
    });
  }

  // Return point n of the four points of an answer's thread, from the first line to its dot on the second.
  function bend(i, n) {
    const [[x0, y0], [x1, y1]] = [spots[0][i], spots[1][i]];
    const start = at[0] + 2;
    const half = ((upright ? x1 : y1) + start) / 2;
    return (upright ? [[start, y0], [half, y0], [half, y1], [x1, y1]] : [[x0, start], [x0, half], [x1, half], [x1, y1]])[n];
  }

  function stop() {
    running.forEach((animation) => animation.cancel());
    running = [];
  }

  // Let the dots fall after so many ms, and slide on after so many.
  function run(fall = 0, slide = FALL + REST) {
    stop();
    if (!spots || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const move = (element, frames, duration, delay, easing = "linear") => running.push(element.animate(frames, { duration, delay, easing, fill: "backwards" }));
    const appear = (element, delay) => move(element, [{ opacity: 0 }, {}], 250, delay);
    const highest = Math.max(1, ...spots[0].map(([, , height]) => height));
    dots[0].forEach((dot, i) => {
      const [x, y, height] = spots[0][i];
      const above = upright ? `${-4 * form.r}px ${y}px` : `${x}px ${-4 * form.r}px`;
      move(dot, [{ translate: above, opacity: 0 }, { opacity: 1, offset: 0.3 }, {}], FALL / 2, fall + (height / highest) * (FALL / 2), "cubic-bezier(.5, 0, .9, .7)");
    });
    dots[1].forEach((dot, i) => {
      const [x, y, height] = spots[0][i];
      const translate = `${x}px ${y}px`;
      const wait = 0.2 * (height / highest); // the lowest of a pile leaves first
      const path = Array.from({ length: 13 }, (_, n) => [curve(i, n / 12), 0.1 + wait + (0.7 * n) / 12]);
      const down = path.map(([[u, v], offset]) => ({ translate: `${u}px ${v}px`, offset }));
      const waits = [{ translate, opacity: 0 }, { translate, opacity: 1, offset: 0.01 }, { translate, offset: 0.01 + wait }];
      move(dot, [...waits, ...down, {}], SLIDE, slide, "ease-in-out");
    });
    const hidden = upright ? "inset(0 100% 0 0)" : "inset(0 0 100% 0)";
    move(falling, [{ clipPath: hidden }, { clipPath: "inset(0)" }], SLIDE, slide, "ease-in-out");
    appear(tie, fall + FALL);
    labels.each((label, side) => appear(label, side ? slide + SLIDE - 250 : fall + FALL));
  }

  // Return the point of an answer's thread at the share t of its length.
  function curve(i, t) {
    const points = [0, 1, 2, 3].map((n) => bend(i, n));
    const weights = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t ** 2 * (1 - t), t ** 3];
    return [0, 1].map((k) => points.reduce((sum, point, n) => sum + weights[n] * point[k], 0));
  }

  const mark = (answer) => dots.forEach((side) => side.forEach((dot, i) => dot.classList.toggle("active", i === answer)));

  return { node, play, stage, draw, run, stop, mark };
}
