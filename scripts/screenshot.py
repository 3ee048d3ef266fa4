"""Take the pictures of the running page for the README, for links to the page and for views/head.html: python -m
scripts.screenshot [URL].

The pictures for views/head.html are what a slow phone shows until marimo has started. They show the Lab as an SVG that
is drawn from what the page shows, for a narrow and a wide screen. Each has the colours of both schemes.
"""

import re
import sys
from html import escape
from pathlib import Path
from string import ascii_letters
from urllib.parse import quote

from playwright.sync_api import Browser, Page

from benchmarks.browser import browser

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs"
PREVIEW = ROOT / "__marimo__" / "assets" / "app" / "opengraph.png"  # where marimo looks for the picture of a link
HEAD = ROOT / "views" / "head.html"
LARGEST = 32_000  # bytes that the still pictures may add to the page
SCREENS = {"narrow": (390, 844), "wide": (1440, 900)}
NAMES = [*ascii_letters, *(f"{one}{two}" for one in "abcd" for two in ascii_letters)]  # of classes, short ones first
# Everything that is drawn, from the back to the front, each with the place of its colours at its end.
DRAWN = """() => {
  const drawn = [], round = (x) => Math.round(x * 10) / 10;
  const pen = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
  const colour = (text) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = text === "none" ? "transparent" : text;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return a ? "#" + [r, g, b, ...(a < 255 ? [a] : [])].map((x) => x.toString(16).padStart(2, "0")).join("") : "none";
  };
  const onScreen = (box) => box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  const fontOf = (style) => `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  const text = (says, box, style, clip) => {
    pen.font = fontOf(style);
    const { fontBoundingBoxAscent: ascent, fontBoundingBoxDescent: descent } = pen.measureText("x");
    const part = Math.min(1, (clip.right - box.left) / box.width), all = says.trim();
    const shown = part < 0.99 ? all.slice(0, Math.floor(all.length * part) - 1) + "…" : all;
    if (part <= 0.05 || !shown || !onScreen(box)) return;
    const y = (box.top + box.bottom + ascent - descent) / 2, mono = style.fontFamily.includes("mono");
    drawn.push(["text", shown, round(box.left), round(y), Math.round(box.width * Math.min(1, part)),
      `${style.fontWeight} ${style.fontSize} ${mono ? "monospace" : "system-ui"}`, colour(style.color)]);
  };
  const visit = (node, clip) => {
    if (node.nodeType === Node.TEXT_NODE) {
      const style = getComputedStyle(node.parentElement ?? node.getRootNode().host), lines = [];
      if (style.visibility !== "visible") return;
      for (const found of node.data.matchAll(/[^\\s-]+-*\\s*|-+\\s*/g)) { // a line may end with a hyphen
        const range = document.createRange();
        range.setStart(node, found.index);
        range.setEnd(node, found.index + found[0].trimEnd().length);
        const box = range.getBoundingClientRect(), last = lines.at(-1);
        if (!box.width) continue;
        if (last && Math.abs(last.top - box.top) < 3) {
          last.says += found[0];
          last.right = box.right;
        } else lines.push({ says: found[0], left: box.left, right: box.right, top: box.top, bottom: box.bottom });
      }
      for (const line of lines) text(line.says, { ...line, width: line.right - line.left }, style, clip);
      return;
    }
    if (node.nodeType === Node.ELEMENT_NODE) {
      const style = getComputedStyle(node), box = node.getBoundingClientRect();
      const boxed = style.display !== "contents"; // what a closed fold holds has boxes, which are not seen
      if (style.display === "none" || style.opacity === "0" || (boxed && !node.checkVisibility())) return;
      if (node.matches("svg path, svg line")) {
        const at = node.getScreenCTM(), d = node.getAttribute("d");
        const placed = (x, y) => `${round(at.a * x + at.c * y + at.e)} ${round(at.b * x + at.d * y + at.f)}`;
        // The arcs of the Lab are all of absolute points.
        const line = d?.replace(/(-?[\\d.]+)[ ,]+(-?[\\d.]+)/g, (_, x, y) => placed(+x, +y));
        const looks = [parseFloat(style.strokeWidth), style.strokeDasharray, colour(style.fill), colour(style.stroke)];
        if (d && !/[a-zHVA]/.test(d)) drawn.push(["line", line, ...looks]);
        return;
      }
      if (style.overflow !== "visible") clip = { right: Math.min(clip.right, box.right) };
      const seen = style.visibility === "visible" && box.width > 1 && box.height > 1 && onScreen(box);
      const side = (name) => parseFloat(style[`border${name}Width`]) ? colour(style[`border${name}Color`]) : "none";
      const sides = ["Top", "Right", "Bottom", "Left"].map(side), [top, , bottom, left] = sides;
      const hatched = style.backgroundImage.match(/repeating-linear-gradient.*?((?:rgb|color|oklch)[^)]*\\))/);
      if (seen && !node.matches("html, body")) {
        const whole = sides.every((one) => one === top && one !== "none"), inner = whole ? 0.5 : 0;
        const fill = hatched ? colour(hatched[1]) : colour(style.backgroundColor);
        const place = [box.left + inner, box.top + inner, box.width - 2 * inner, box.height - 2 * inner].map(round);
        const corner = Math.round(Math.min(parseFloat(style.borderTopLeftRadius) || 0, box.height / 2));
        if (fill !== "none" || whole) drawn.push(["rect", ...place, corner, fill, whole ? top : "none"]);
        const width = (name) => parseFloat(style[`border${name}Width`]);
        for (const [name, found, x, y, w, h] of whole ? [] : [
          ["Top", top, box.left, box.top, box.width, width("Top")],
          ["Bottom", bottom, box.left, box.bottom - width("Bottom"), box.width, width("Bottom")],
          ["Left", left, box.left, box.top, width("Left"), box.height],
        ]) if (found !== "none") drawn.push(["rect", ...[x, y, w, h].map(round), 0, found, "none"]);
        if (node.matches("input:checked[type=checkbox]"))
          drawn.push(["line", `M${round(box.left + 6)} ${round(box.top + 11)}l4 4 7-8`, 2.5, "none", "none", "#fff"]);
        const written = node.matches("input:not([type=checkbox])") ? node.value : "";
        const says = node.matches("select") ? node.selectedOptions[0]?.text : written;
        if (says) {
          pen.font = fontOf(style);
          const left = box.left + parseFloat(style.paddingLeft) + width("Left"), long = pen.measureText(says).width;
          const { top, bottom } = box;
          text(says, { left, right: left + long, width: long, top, bottom }, style, { right: box.right });
        }
      }
      if (node.matches("select, input, style, script")) return;
    }
    for (const child of (node.shadowRoot ?? node).childNodes) visit(child, clip);
  };
  visit(document.body, { right: innerWidth });
  return { drawn, paper: colour(getComputedStyle(document.body).backgroundColor) };
}"""


def main(url: str) -> None:
    """Take all pictures of the page at an address, and write them to their files. Ends the programme if the still
    pictures are larger than `LARGEST`, and leaves the old ones in head.html.
    """
    OUT.mkdir(exist_ok=True)
    PREVIEW.parent.mkdir(parents=True, exist_ok=True)
    with browser() as running:
        for scheme in ("light", "dark"):
            page = open_page(running, url, *SCREENS["wide"], color_scheme=scheme)
            page.screenshot(path=OUT / f"first-screen-{scheme}.png")
        open_page(running, url, 1500, 788, device_scale_factor=0.8).screenshot(path=PREVIEW)  # 1200 × 630
        stills = {name: still(running, url, *screen) for name, screen in SCREENS.items()}
    rules = "\n".join(f'  --still-{name}: url("data:image/svg+xml,{svg}");' for name, svg in stills.items())
    size = len(rules.encode())
    if size > LARGEST:
        sys.exit(f"screenshot: expected still pictures of at most {LARGEST} bytes, got {size}")
    before, after = re.split(r"(?<=/\* by scripts/screenshot.py: \*/\n)(?:  --still.*\n)+", HEAD.read_text("utf-8"))
    HEAD.write_text(f"{before}{rules}\n{after}", "utf-8")
    print(f"the still pictures are {size} bytes")


def open_page(running: Browser, url: str, width: int, height: int, **options: object) -> Page:
    """Return a new page of the browser, which shows `url`, once the Lab is drawn.

    width, height: the size of its window in pixels.
    options: more arguments of Playwright's `new_page`.
    """
    still = {"reduced_motion": "reduce"}  # so that what drops into place is shown where it ends
    page = running.new_page(viewport={"width": width, "height": height}, **still, **options)
    page.goto(url)
    page.locator(".board .bar").first.wait_for()
    page.wait_for_timeout(1500)  # until the fonts are there and the first drawing is done
    return page


def still(running: Browser, url: str, width: int, height: int) -> str:
    """Return the Lab on a screen of this size as the text of an SVG, quoted for use in a URL. Its colours follow the
    scheme of whoever looks at it, which is light or dark.
    """
    found = [
        open_page(running, url, width, height, color_scheme=scheme).evaluate(DRAWN) for scheme in ("light", "dark")
    ]
    paper, classes, groups = found[0]["paper"], dict[tuple, str](), dict[tuple, list[str]]()
    for (kind, *how), other in zip(*(one["drawn"] for one in found), strict=True):
        if kind == "text":
            says, x, y, long, font, _ = how
            looks = (("font", font, font), ("fill", how[-1], other[-1]))
            fit = f" textLength='{long}'" if len(says) > 24 else ""
            layer, more, piece = 3, "", f"<text x='{x:.0f}' y='{y:.0f}'{fit}>{escape(says)}</text>"
        else:
            looks = tuple((name, how[i], other[i]) for name, i in (("fill", -2), ("stroke", -1)) if how[i] != "none")
            if kind == "line":
                piece, thick, dash = how[:3]
                dashed = f" stroke-dasharray='{dash.replace('px', '')}'" if dash != "none" else ""
                layer, more = 2, f" stroke-width='{thick:g}'{dashed}"
            elif how[4] or how[-1] != "none":
                named = zip(("x", "y", "width", "height", "rx"), how[:5], strict=True)
                box = " ".join([f"{name}='{value:g}'" for name, value in named if value])
                layer, more, piece = 1, "", f"<rect {box}/>"
            else:
                layer, more, piece = 0, "", "M{:.0f} {:.0f}h{:.0f}v{:.0f}h-{:.0f}z".format(*how[:4], how[2])
            if looks[0][:2] == ("fill", paper) and len(looks) == 1:
                continue
        groups.setdefault((layer, classes.setdefault(looks, NAMES[len(classes)]), more), []).append(piece)
    shapes = ""
    for (layer, name, more), pieces in sorted(groups.items(), key=lambda group: group[0][0]):
        whole = "".join(pieces)
        shapes += f"<path d='{whole}'{more} class='{name}'/>" if layer in (0, 2) else f"<g class='{name}'>{whole}</g>"
    style = "svg{fill:none}" + _rules(classes, 1) + f"@media(prefers-color-scheme:dark){{{_rules(classes, 2)}}}"
    box = f"xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}'"
    svg = quote(f"<svg {box}><style>{style}</style>{shapes}</svg>", safe=" =:/;,.()'!*?@-_~{}+[]|^`&<>")
    return svg.replace("</style", "%3C/style")  # as it is, it would end the style element of head.html


def _rules(classes: dict[tuple, str], scheme: int) -> str:
    """Return the CSS rules of all classes for one scheme, 1 for light and 2 for dark.

    A rule for dark holds only the properties with another value than in light.

    classes: from what a class sets to its name. What it sets is a tuple with, for each CSS property, the triple
        (property, value in light, value in dark).
    scheme: 1 or 2.
    """
    rules = ""
    for looks, name in classes.items():
        held = ";".join(f"{one[0]}:{one[scheme]}" for one in looks if scheme == 1 or one[1] != one[2])
        rules += f".{name}{{{held}}}" if held else ""
    return rules


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7860")
