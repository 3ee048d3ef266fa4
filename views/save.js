// A picture of the page to take away: what has `data-picture` is drawn anew as SVG, its styles written out, or as PNG at
// twice its size. Its numbers come from Python. What stands beside a picture and does not belong to it has `data-aside`.

const PICTURE = "http://www.w3.org/2000/svg";
const MARGIN = 20; // px around a picture
const TITLE = 36; // px for the title over it
const TWICE = 2;
// What an SVG inside the page owes to its style sheet.
const STYLED = ["fill-rule", "stroke-width", "stroke-dasharray", "stroke-linejoin", "stroke-linecap", "font-size", "font-family", "font-weight", "text-anchor", "paint-order", "visibility", "display", "opacity"];
const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

const shape = (name, attributes = {}, ...children) => {
  const node = document.createElementNS(PICTURE, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};
const px = (x) => String(Number(x.toFixed(2)));

// A colour of any notation as one that every programme reads, and its opacity.
const inks = new Map();
function ink(colour) {
  if (!inks.has(colour)) {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = "black";
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    inks.set(colour, { colour: `#${[r, g, b].map((x) => x.toString(16).padStart(2, "0")).join("")}`, opacity: a / 255 });
  }
  return inks.get(colour);
}
const paint = (property, { colour, opacity }) => ({ [property]: colour, ...(opacity < 1 ? { [`${property}-opacity`]: px(opacity) } : {}) });

class Picture {
  constructor(left, top) {
    [this.left, this.top] = [left, top];
    this.defs = shape("defs");
    this.fills = new Map();
  }

  // A hatch, a cross or a dot, as a style sheet paints it.
  image(text) {
    if (!this.fills.has(text)) this.fills.set(text, this.painted(text));
    return this.fills.get(text);
  }

  painted(text) {
    const id = `fill${this.fills.size}`;
    const [, kind, inside] = text.match(/^([a-z-]+)\((.*)\)$/s) ?? [];
    const [first, ...rest] = parts(inside ?? "");
    const stops = (/deg$|^circle/.test(first) ? rest : [first, ...rest]).map((stop) => {
      const [, colour, at, unit] = stop.match(/^(.*\)|\S+)\s+([\d.]+)(px|%)/) ?? [null, stop, "0", "%"];
      return { ...ink(colour), at: Number(at), unit };
    });
    if (kind === "repeating-linear-gradient") {
      const period = stops.at(-1).at;
      const turn = Number.parseFloat(first) - 90;
      const stripes = stops.slice(1).flatMap((stop, i) => (stop.at > stops[i].at ? [shape("rect", { x: stops[i].at, y: 0, width: stop.at - stops[i].at, height: period, ...paint("fill", stop) })] : []));
      this.defs.append(shape("pattern", { id, width: period, height: period, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${turn})` }, ...stripes));
      return `url(#${id})`;
    }
    if (kind === "linear-gradient") {
      const angle = (Number.parseFloat(first) * Math.PI) / 180;
      const [x, y] = [Math.sin(angle), -Math.cos(angle)];
      const half = (Math.abs(x) + Math.abs(y)) / 2;
      this.defs.append(shape("linearGradient", { id, x1: px(0.5 - x * half), y1: px(0.5 - y * half), x2: px(0.5 + x * half), y2: px(0.5 + y * half) }, ...stops.map((stop) => shape("stop", { offset: `${stop.at}%`, ...paint("stop", { colour: stop.colour, opacity: stop.opacity }), "stop-color": stop.colour }))));
      return `url(#${id})`;
    }
    if (kind === "radial-gradient") return { dot: stops[0], radius: stops.at(-1).at };
    return null;
  }

  // An element with its background, its frame and what is in it.
  element(node) {
    if (node.nodeType === Node.TEXT_NODE) return this.words(node);
    if (node.nodeType !== Node.ELEMENT_NODE || !(getComputedStyle(node).display === "contents" || node.checkVisibility({ visibilityProperty: true }))) return [];
    if (node.matches("details, style, script, [data-aside], .save, .unseen, [type=range]")) return [];
    if (node instanceof SVGElement) return [this.inline(node)];
    const style = getComputedStyle(node);
    const box = node.getBoundingClientRect();
    const drawn = [...this.box(style, box), ...this.before(node, box)];
    if (node.matches("select, input")) drawn.push(...this.field(node, style, box));
    else for (const child of (node.shadowRoot ?? node).childNodes) drawn.push(...this.element(child));
    const cut = style.overflowX === "hidden" && node.scrollWidth > node.clientWidth + 1;
    if (!drawn.length || (style.opacity === "1" && !cut)) return drawn;
    const group = shape("g", style.opacity === "1" ? {} : { opacity: style.opacity }, ...drawn);
    if (cut) {
      const id = `cut${this.defs.childElementCount}`;
      this.defs.append(shape("clipPath", { id }, shape("rect", this.place(box))));
      group.setAttribute("clip-path", `url(#${id})`);
    }
    return [group];
  }

  place({ left, top, width, height }) {
    return { x: px(left - this.left), y: px(top - this.top), width: px(width), height: px(height) };
  }

  box(style, box) {
    if (!box.width || !box.height) return [];
    const round = Math.min(Number.parseFloat(style.borderTopLeftRadius) || 0, box.height / 2);
    const place = { ...this.place(box), ...(round ? { rx: px(round) } : {}) };
    const fill = ink(style.backgroundColor);
    const drawn = fill.opacity ? [shape("rect", { ...place, ...paint("fill", fill) })] : [];
    const images = style.backgroundImage === "none" ? [] : parts(style.backgroundImage).reverse();
    for (const image of images.map((text) => this.image(text)).filter(Boolean))
      drawn.push(image.dot ? shape("circle", { cx: px(box.left + box.width / 2 - this.left), cy: px(box.top + box.height / 2 - this.top), r: image.radius, ...paint("fill", image.dot) }) : shape("rect", { ...place, fill: image }));
    const widths = ["Top", "Right", "Bottom", "Left"].map((side) => (style[`border${side}Style`] === "none" ? 0 : Number.parseFloat(style[`border${side}Width`])));
    const inset = style.boxShadow.match(/^(.*?) 0px 0px 0px (\S+)px inset$/);
    const outline = style.outlineStyle !== "none" && Number.parseFloat(style.outlineOffset) < 0 ? [style.outlineColor, style.outlineWidth] : null;
    const frame = inset?.slice(1) ?? outline ?? (new Set(widths).size === 1 && widths[0] ? [style.borderTopColor, widths[0]] : null);
    if (frame) {
      const [colour, width] = [ink(frame[0]), Number.parseFloat(frame[1])];
      const dashed = style.borderTopStyle === "dashed" ? { "stroke-dasharray": "3 2" } : {};
      const inner = { left: box.left + width / 2, top: box.top + width / 2, width: box.width - width, height: box.height - width };
      drawn.push(shape("rect", { ...place, ...this.place(inner), fill: "none", "stroke-width": width, ...paint("stroke", colour), ...dashed }));
    } else {
      const { left, top, right, bottom } = box;
      const sides = [[left, top, right - left, widths[0]], [right - widths[1], top, widths[1], bottom - top], [left, bottom - widths[2], right - left, widths[2]], [left, top, widths[3], bottom - top]];
      sides.forEach(([x, y, width, height], i) => {
        const colour = ink(style[`border${["Top", "Right", "Bottom", "Left"][i]}Color`]);
        if (widths[i] && colour.opacity) drawn.push(shape("rect", { ...this.place({ left: x, top: y, width, height }), ...paint("fill", colour) }));
      });
    }
    return drawn;
  }

  // A line that a style sheet draws before an element, such as the zero of an axis.
  before(node, box) {
    const style = getComputedStyle(node, "::before");
    const [left, top, width, height] = [style.left, style.top, style.width, style.height].map(Number.parseFloat);
    if (style.content === "none" || style.position !== "absolute" || [left, top, width, height].some(Number.isNaN)) return [];
    return this.box(style, new DOMRect(box.left + left, box.top + top, width, height));
  }

  field(node, style, box) {
    if (node.type === "checkbox") {
      if (!node.checked) return [];
      const [x, y] = [box.left - this.left + box.width / 2, box.top - this.top + box.height / 2];
      return [shape("path", { d: `M${px(x - 5)} ${px(y)}l3.5 3.5 6.5 -7`, fill: "none", "stroke-width": 2, stroke: "white" })];
    }
    const text = node.matches("select") ? node.selectedOptions[0]?.textContent : node.value;
    return text ? [this.line(text, style, box.left + Number.parseFloat(style.paddingLeft) + 2, box)] : [];
  }

  line(text, style, x, box, width) {
    pen.font = style.font;
    const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = pen.measureText(text);
    const fit = width && text.length > 1 ? { textLength: px(width), lengthAdjust: "spacingAndGlyphs" } : {};
    return shape("text", { x: px(x - this.left), y: px(box.top - this.top + (box.height + up - down) / 2), "font-size": style.fontSize, "font-family": style.fontFamily, ...(style.fontWeight === "400" ? {} : { "font-weight": style.fontWeight }), ...paint("fill", ink(style.color)), ...fit }, text);
  }

  // A text as the lines into which the page has broken it.
  words(node) {
    if (!node.data.trim()) return [];
    const style = getComputedStyle(node.parentElement ?? node.getRootNode().host);
    const range = document.createRange();
    const lines = [];
    for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      const box = range.getClientRects()[0];
      const last = lines.at(-1);
      if (!box?.width) continue;
      if (last && Math.abs(last.box.top - box.top) < 3) [last.said, last.right] = [`${last.said} ${word}`, box.right];
      else lines.push({ box, said: word, right: box.right });
    }
    return lines.map(({ box, said, right }) => this.line(said, style, box.left, box, right - box.left));
  }

  inline(node) {
    const copy = node.cloneNode(true);
    const [from, to] = [[node, ...node.querySelectorAll("*")], [copy, ...copy.querySelectorAll("*")]];
    from.forEach((original, i) => {
      const style = getComputedStyle(original);
      for (const name of STYLED) if (style.getPropertyValue(name)) to[i].setAttribute(name, style.getPropertyValue(name));
      for (const name of ["fill", "stroke"]) {
        const value = style.getPropertyValue(name);
        const { colour, opacity } = value === "none" || value.startsWith("url") ? { colour: value, opacity: 1 } : ink(value);
        to[i].setAttribute(name, colour);
        to[i].setAttribute(`${name}-opacity`, px(opacity * Number(style.getPropertyValue(`${name}-opacity`))));
      }
      for (const name of ["class", "style", "aria-label", "aria-hidden", "role", "tabindex"]) to[i].removeAttribute(name);
    });
    const place = this.place(node.getBoundingClientRect());
    for (const [name, value] of Object.entries({ ...place, overflow: "visible" })) copy.setAttribute(name, value);
    return copy;
  }
}

// The parts of a list between its outer commas.
function parts(text) {
  const found = [""];
  let depth = 0;
  for (const letter of text) {
    depth += { "(": 1, ")": -1 }[letter] ?? 0;
    if (letter === "," && !depth) found.push("");
    else found[found.length - 1] += letter;
  }
  return found.map((part) => part.trim());
}

// The picture of what the page shows in these elements, under its title.
function pictured(nodes, title) {
  const boxes = nodes.map((node) => node.getBoundingClientRect());
  const least = (name) => Math.min(...boxes.map((box) => box[name]));
  const most = (name) => Math.max(...boxes.map((box) => box[name]));
  const titled = nodes[0].textContent.trim().startsWith(title) ? 0 : TITLE;
  const picture = new Picture(least("left") - MARGIN, least("top") - MARGIN - titled);
  const [width, height] = [Math.ceil(most("right") - picture.left + MARGIN), Math.ceil(most("bottom") - picture.top + MARGIN)];
  const style = getComputedStyle(document.body);
  const paper = ink(style.backgroundColor);
  const head = shape("text", { x: MARGIN, y: MARGIN + 8, "font-size": 15, "font-weight": 700, "font-family": getComputedStyle(nodes[0]).fontFamily, ...paint("fill", ink(getComputedStyle(nodes[0]).color)) }, title);
  const drawn = nodes.flatMap((node) => picture.element(node));
  const svg = shape("svg", { xmlns: PICTURE, width, height, viewBox: `0 0 ${width} ${height}` }, shape("title", {}, title), picture.defs, shape("rect", { width, height, fill: paper.opacity ? paper.colour : "white" }), ...(titled ? [head] : []), ...drawn);
  return { text: new XMLSerializer().serializeToString(svg), width, height };
}

async function rastered({ text, width, height }) {
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [TWICE * width, TWICE * height];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done));
}

function handOver(content, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: { svg: "image/svg+xml", png: "image/png", csv: "text/csv" }[name.split(".").at(-1)] }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // a busy machine takes its time
}

// A click on a button with `data-save`: `numbers` asks Python for the table of that chart.
async function saved(event, numbers) {
  const button = event.composedPath().find((node) => node.dataset?.save);
  if (!button) return;
  const { chart, title } = button.closest("[data-chart]").dataset;
  const kind = button.dataset.save;
  if (kind === "csv") return numbers(chart);
  const own = button.closest("[data-picture]");
  const nodes = own?.dataset.picture === chart ? [own] : [...button.getRootNode().querySelectorAll(`[data-picture="${chart}"]`)].filter((node) => node.checkVisibility());
  const picture = pictured(nodes, title);
  handOver(kind === "svg" ? picture.text : await rastered(picture), `${chart}.${kind}`);
}
