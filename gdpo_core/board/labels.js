// The labels of the drop: two lines each, in a free strip above the first line or below the second, side by side in the
// order of their dots, with a leader to the dots. On a narrow screen they stand below the picture, one after another.

const MOST = 8; // labels
const APART = 16; // px between two labels of a strip
const LINE = 15; // px, how high a label below an upright picture is
const LEAST = 84; // px at the left of the upper strip, where the button that plays the drop stands

function makeLabels() {
  const notes = Array.from({ length: MOST }, () => make("p", { class: "note" }));
  const paths = notes.map(() => make("path", {}));
  const leaders = make("g", { class: "leaders" }, ...paths);
  const pen = document.createElement("canvas").getContext("2d");
  const fonts = new Map(); // by the kind of a line
  let sides = []; // of the labels that are shown

  // Set a property of a node's style, if it has another value.
  const style = (node, name, value) => node.style[name] === value || (node.style[name] = value);

  // Show labels, or none while the core's words are on their way.
  function show(told, view) {
    style(leaders, "visibility", told ? "" : "hidden");
    if (!told) return notes.forEach((note) => style(note, "visibility", "hidden"));
    const all = told.slice(0, MOST).map((label, n) => write(label, n, view.upright));
    const placed = view.upright ? below(all, view.width, view.form) : [0, 1].flatMap((side) => beside(all.filter((label) => label.side === side), side, view));
    notes.filter((note) => !placed.some((label) => label.note === note)).forEach((note) => style(note, "visibility", "hidden"));
    placed.forEach(({ note, x, y, width }) => {
      style(note, "visibility", "");
      style(note, "translate", `${x}px ${y}px`);
      style(note, "width", `${width}px`);
    });
    paths.forEach((path, n) => put(path, "d", placed[n]?.leader ?? ""));
    placed.forEach(({ side, lone, wrong }, n) => put(paths[n], "class", `${SIDES[side]}${lone ? " lone" : ""}${wrong ? " wrong" : ""}`));
    sides = placed.map(({ side }) => side);
  }

  function write({ side, lines, lone, wrong, answers }, n, upright) {
    const note = notes[n];
    const pile = n === 0 && answers.length > 1;
    const kind = `note ${SIDES[side]}${pile ? " pile" : ""}${lone ? " lone" : ""}${wrong ? " wrong" : ""}`;
    if (note.className !== kind) note.className = kind;
    const parts = note.children.length ? [...note.children] : [make("b"), make("span")];
    parts.forEach((part, k) => say(part, lines[k]));
    if (!note.children.length) note.append(...parts);
    const [first, second] = parts.map((_, k) => long(lines[k] + (upright && !k ? ": " : ""), note, `${upright} ${lone} ${k}`, !k));
    return { note, side, lone, wrong, answers, width: upright ? first + (pile ? 0 : second) : Math.max(first, second) };
  }

  // Return how wide a line of a label is, in px, without laying it out. All digits are as wide as a 0.
  function long(text, note, kind, bold) {
    if (!fonts.has(kind)) {
      const { fontSize, fontFamily, fontWeight } = getComputedStyle(note);
      fonts.set(kind, `${bold ? 600 : fontWeight} ${fontSize} ${fontFamily}`);
    }
    pen.font = fonts.get(kind);
    return Math.ceil(pen.measureText(text.replace(/\d/g, "0")).width) + 2;
  }

  // Return the labels of a strip with their places: each as near to its dots as its neighbours allow. Where there is no
  // room for all, the last ones that are not emphasised are left out.
  function beside(labels, side, { form, width, spots, at, taken }) {
    const low = side ? 0 : LEAST;
    const fits = (some) => some.reduce((sum, label) => sum + label.width + APART, -APART) <= width - low;
    let kept = labels;
    while (kept.length > 1 && !fits(kept)) kept = kept.filter((label) => label !== (kept.findLast(({ lone }) => !lone) ?? kept.at(-1)));
    const strip = side ? { near: at[1] + form.foot, far: at[1] + form.foot } : { near: form.strip, far: 0 };
    const aimed = kept.map((label) => ({ ...label, width: Math.min(label.width, width - low), ...anchor(label.answers.map((i) => spots[side][i]), spots[side], form.r) }));
    aimed.sort((a, b) => a.aim - b.aim);
    let left = low;
    for (const label of aimed) {
      label.x = Math.max(label.aim - label.width / 2, left);
      left = label.x + label.width + APART;
    }
    let right = width;
    for (const label of [...aimed].reverse()) {
      label.x = Math.min(label.x, right - label.width);
      right = label.x - APART;
    }
    return aimed.map((label) => {
      const end = Math.min(Math.max(label.aim, label.x + 6), label.x + label.width - 6);
      const blocked = taken.some(([from, to]) => label.aim > from && label.aim < to);
      const turn = side ? at[1] + form.foot - 6 : form.strip + 6;
      const start = side ? (blocked ? turn : at[1] + 3) : Math.max(label.top - 4, turn);
      return { ...label, y: strip.far, leader: `M${label.aim} ${start}L${label.aim} ${turn}L${end} ${strip.near + (side ? -1 : 1)}` };
    });
  }

  // Return the middle of the dots of a label along the axis, and where the highest dot there ends.
  function anchor(own, all, r) {
    const xs = own.map(([x]) => x);
    const aim = (Math.min(...xs) + Math.max(...xs)) / 2;
    const tops = all.filter(([x]) => Math.abs(x - aim) < r + 4).map(([, y]) => y - r);
    return { aim, top: Math.min(...own.map(([, y]) => y - r), ...tops) };
  }

  // Return the labels of an upright picture with their places, in three lines below it; what has no room is left out.
  function below(labels, width, form) {
    let [x, line] = [0, 0];
    return labels.flatMap((label) => {
      const wide = Math.min(label.width, width);
      if (x && x + wide > width) [x, line] = [0, line + 1];
      if (line > 2) return [];
      const placed = { ...label, width: wide, x, y: form.axis + 2 + LINE * line };
      x += wide + 12;
      return [placed];
    });
  }

  // Call a function for each label that is shown, and for each leader, with its side.
  function each(call) {
    notes.filter((note) => note.style.visibility !== "hidden").forEach((note) => call(note, Number(note.classList.contains("other"))));
    sides.forEach((side, n) => call(paths[n], side));
  }

  return { notes, leaders, show, each };
}
