// What stands on what in a board's drop, and what a reader meets on the first screen; for test_drop_browser.py.

const seen = (node) => node.checkVisibility({ visibilityProperty: true }) && node.getBoundingClientRect().width > 0;
const box = (node) => node.getBoundingClientRect();
const ink = (node) => {
  const range = document.createRange();
  range.selectNodeContents(node);
  return range.getBoundingClientRect();
};
const meet = (a, b, by = 0.5) =>
  a.left < b.right - by && b.left < a.right - by && a.top < b.bottom - by && b.top < a.bottom - by;
const disc = (dot) => {
  const { left, right, top, bottom } = box(dot);
  return { x: (left + right) / 2, y: (top + bottom) / 2, r: (right - left) / 2 };
};
// How far a disc reaches into a box.
const reaches = ({ x, y, r }, { left, right, top, bottom }) =>
  r - Math.hypot(Math.max(left - x, 0, x - right), Math.max(top - y, 0, y - bottom));
function pointsOf(path, step) {
  const at = path.getScreenCTM(), long = path.getTotalLength();
  return Array.from({ length: Math.floor(long / step) + 1 }, (_, n) => path.getPointAtLength(n * step))
    .map((p) => ({ x: p.x + at.e, y: p.y + at.f }));
}

// Return the collisions of a drop by their kind, each as the texts that collide, and how many labels it has.
function collisions(drop) {
  const found = {}, all = (selector) => [...drop.querySelectorAll(selector)].filter(seen);
  const add = (kind, what) => (found[kind] ??= []).push(what);
  const written = (selector) => all(selector).filter((node) => node.textContent.trim());
  const notes = written(".note"), dots = all(".dot"), words = written(":is(.tick, .end, .head-of, .play, .stage)");
  const kindOf = (path) =>
    path.closest(".leaders") ? "a leader" : path.matches(".base, .other") ? "an axis" : path.matches(".grid-line") ? "the grid" : "a thread";
  const paths = all("svg path").map((path) => [kindOf(path), pointsOf(path, 2)]);
  notes.forEach((note, n) => {
    const own = box(note), says = note.innerText.replaceAll("\n", " / ");
    if (own.left < 0 || own.right > innerWidth + 0.5 || note.scrollWidth > note.clientWidth + 1) add("a label is cut", says);
    const lines = [...note.querySelectorAll("b, span")].filter(seen).flatMap((part) => [...part.getClientRects()]);
    if (new Set(lines.map(({ bottom }) => Math.round(bottom / 6))).size > 2) add("a label of more than two lines", says);
    notes.slice(n + 1).forEach((other) => meet(own, box(other)) && add("a label on a label", [says, other.innerText]));
    dots.forEach((dot) => reaches(disc(dot), own) > 0.5 && add("a label on a dot", [says, dot.textContent]));
    words.forEach((other) => meet(own, ink(other)) && add("a label on words", [says, other.textContent]));
    const inside = ({ x, y }) => x > own.left + 1 && x < own.right - 1 && y > own.top + 1 && y < own.bottom - 1;
    paths.forEach(([kind, points]) => points.some(inside) && add(`a label on ${kind}`, says));
  });
  // A dot covers a number if its disc reaches into the number, as high as a digit is, and it lies in front.
  const order = (dot) => 1000 * getComputedStyle(dot).zIndex + dots.indexOf(dot);
  dots.forEach((dot) => {
    const size = parseFloat(getComputedStyle(dot).fontSize), number = ink(dot), middle = (number.top + number.bottom) / 2;
    const digits = { left: number.left, right: number.right, top: middle - 0.36 * size, bottom: middle + 0.36 * size };
    if (size) dots.filter((other) => order(other) > order(dot) && reaches(disc(other), digits) > 0.5)
      .forEach((other) => add("a dot on a number", [other.className, other.textContent, dot.textContent]));
  });
  all("svg .leaders path").flatMap((path) => pointsOf(path, 1)).forEach(({ x, y }) => {
    const point = { left: x, right: x, top: y, bottom: y };
    if (dots.some((dot) => reaches(disc(dot), point) > 0.5)) add("a leader on a dot", [x, y]);
    if (written(":is(.tick, .end)").some((word) => reaches({ x, y, r: 1 }, ink(word)) > 0.5)) add("a leader on a number", [x, y]);
  });
  const picture = box(drop.querySelector(".picture"));
  const outside = ({ x, y, r }) =>
    x - r < picture.left - 1 || x + r > picture.right + 1 || y - r < picture.top - 1 || y + r > picture.bottom + 1;
  dots.forEach((dot) => outside(disc(dot)) && add("a dot outside", dot.textContent));
  return { found, labels: notes.length };
}

// Return what a reader meets on the first screen: the words, which have two letters or more, and the controls, that is,
// all that the pointer or the keyboard can work.
function firstScreen() {
  const CONTROL = "a[href], button, input, select, textarea, summary, [role=radio], [role=switch], [tabindex='0']";
  const words = [], controls = [];
  const shown = ({ width, height, top, right, bottom, left }) =>
    width > 2 && height > 2 && bottom > 0 && top < innerHeight && right > 0 && left < innerWidth;
  const count = (text) => text.split(/\s+/).filter((word) => (word.match(/\p{L}/gu) ?? []).length > 1);
  function read(node, clip) {
    const style = getComputedStyle(node.parentElement ?? node.getRootNode().host);
    if (style.visibility !== "visible" || style.opacity === "0") return;
    for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      const place = range.getBoundingClientRect();
      if (shown(place) && place.left < clip.right - 2 && place.right > clip.left) words.push(...count(word));
    }
  }
  function visit(node, clip) {
    if (node.nodeType === Node.TEXT_NODE) return read(node, clip);
    if (node.nodeType === Node.ELEMENT_NODE) {
      const style = getComputedStyle(node), place = box(node), control = node.matches(CONTROL);
      if (style.display === "none" || node.matches("script, style, option") || (style.opacity === "0" && !control)) return;
      const cuts = style.overflowX !== "visible" && style.display !== "contents" && place.width;
      if (cuts) clip = { left: Math.max(clip.left, place.left), right: Math.min(clip.right, place.right) };
      if (control && style.visibility === "visible" && shown(place) && !node.disabled) controls.push(node);
      if (node.matches("select") && shown(place)) words.push(...count(node.selectedOptions[0]?.text ?? ""));
    }
    for (const child of (node.shadowRoot ?? node).childNodes) visit(child, clip);
  }
  visit(document.body, { left: 0, right: innerWidth });
  return { words, controls: controls.length, marks: controls.filter((one) => one.closest(".toggle, .field")).length };
}
