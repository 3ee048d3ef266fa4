// What Play shows, in the columns of the table: GRPO slides the marks of an answer together and normalises their sums; GDPO
// first stretches each column over all answers, so that a rare mark grows long, and then adds. The dots of the drop
// follow. The pieces that move lie above the table while it plays, and nothing of the table moves.

const [TOGETHER, DROPPED, STRETCH, HOLD, ADD] = [1100, 1500, 900, 1700, 1100]; // ms of the steps
const PIECE = 11; // px, how high a piece is

function makePlay({ choices, now, rows, drop, list, title }) {
  let running = [];
  let pieces = [];
  let timers = [];

  function stop() {
    running.forEach((animation) => animation.cancel());
    pieces.forEach((piece) => piece.remove());
    timers.forEach(clearTimeout);
    [running, pieces, timers] = [[], [], []];
    say(drop.stage, "");
  }

  const move = (element, frames, delay, duration, fill = "both") => running.push(element.animate(frames, { delay, duration, fill, easing: "ease-in-out" }));
  const show = (element, from, to) => (move(element, [{ opacity: 0 }, { opacity: 1 }], from, 100), to && move(element, [{ opacity: 1 }, { opacity: 0 }], to, 100, "forwards"));
  const hide = (element, until) => move(element, [{ opacity: 0 }, { opacity: 0, offset: 0.999 }, { opacity: 1 }], 0, until, "none");
  const tell = (text, at) => timers.push(setTimeout(say, at, drop.stage, text));

  // Lay a piece of a reward, or a text, above a row.
  function lay(row, kind, text = "") {
    const piece = make("span", { class: kind, "aria-hidden": "true" }, text);
    row.node.append(piece);
    pieces.push(piece);
    return piece;
  }

  // Return where the marks and the sum of a row stand in it.
  function places({ node, marks, stack }) {
    const from = node.getBoundingClientRect();
    const inside = (element) => {
      const { left, top, width, height } = element.getBoundingClientRect();
      return { left: left - from.left, top: top - from.top, width, height };
    };
    return { cells: marks.map((mark) => inside(mark.parentElement)), sum: inside(stack.parentElement), stack: [...stack.children].map(inside) };
  }

  const box = (left, top, width, height) => ({ left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });

  // GRPO: the marks of each answer slide together, and become a sum.
  function together(row, place, answer) {
    now("marks")[answer].forEach((mark, k) => {
      if (!mark) return;
      const { left, top, width, height } = place.cells[k];
      const end = place.stack[k];
      const piece = lay(row, `piece r${k}`);
      const start = box(left + width / 2 - 11, top + height / 2 - 11, 22, 22);
      move(piece, [start, box(end.left, top + height / 2 - PIECE / 2, end.width, PIECE)], 60 * answer, TOGETHER - 60 * 11);
      show(piece, 60 * answer, TOGETHER);
    });
    hide(row.stack, TOGETHER);
    hide(row.total, TOGETHER);
  }

  // GDPO: each mark is stretched around the middle of its column, then all of an answer slide together.
  function stretch(row, place, z, answer, [longest, widest]) {
    const [begin, add] = [DROPPED + TOGETHER, DROPPED + TOGETHER + STRETCH + HOLD];
    const middle = place.sum.left + place.sum.width / 2;
    const scale = (place.sum.width / 2 - 6) / widest;
    const ends = [0, 0];
    z.forEach((x, k) => {
      const { left, top, width, height } = place.cells[k];
      const [centre, unit] = [left + width / 2, (width / 2 - 4) / longest];
      const long = Math.max(Math.abs(x) * unit, 1);
      const piece = lay(row, `piece r${k}`);
      const stretched = box(x < 0 ? centre - long : centre, top + 3, long, 9);
      move(piece, [box(centre - 11, top + height / 2 - 11, 22, 22), stretched], begin, STRETCH);
      const value = x * now("weights")[k];
      const from = ends[Number(value > 0)];
      ends[Number(value > 0)] += value;
      move(piece, [stretched, box(middle + Math.min(from, from + value) * scale, top + 3, Math.abs(value) * scale, 9)], add, ADD, "forwards");
      show(piece, begin);
      const number = lay(row, `figure r${k}`, signed(x));
      Object.assign(number.style, { left: `${left}px`, width: `${width}px`, top: `${top + height / 2}px` });
      show(number, begin + STRETCH - 200, add);
      move(row.marks[k], [{ opacity: 1 }, { opacity: 0, offset: 0.02 }, { opacity: 0, offset: 0.98 }, { opacity: 1 }], begin, STRETCH + HOLD + ADD + SLIDE, "none");
    });
    const whole = lay(row, "figure whole", signed(ends[0] + ends[1]));
    Object.assign(whole.style, { left: `${place.sum.left}px`, width: `${place.sum.width}px`, top: `${place.cells[0].top + place.cells[0].height / 2}px` });
    show(whole, add + ADD - 200);
    for (const old of [row.stack, row.total]) move(old, [{ opacity: 0 }, { opacity: 0 }], add, ADD + SLIDE, "none");
  }

  // Let the bars of a method grow from 0.
  function grow(side, at) {
    const zero = list.style.getPropertyValue("--zero");
    rows.forEach(({ bars }) => {
      hide(bars[side].node, at);
      move(bars[side].fill, [{ transform: `translateX(${zero}) scaleX(0)` }, {}], at, 600, "backwards");
    });
  }

  function run(drawing) {
    stop();
    drop.stop();
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const { z } = drawing;
    const many = rows.length;
    const all = rows.map(places);
    const sums = (sign) => z.map((row) => row.reduce((sum, x, k) => sum + Math.max(0, sign * x * now("weights")[k]), 0));
    const most = z && [Math.max(0.1, ...z.flat().map(Math.abs)), Math.max(0.1, ...sums(1), ...sums(-1))];
    rows.forEach((row, answer) => together(row, all[answer], answer));
    if (z) rows.forEach((row, answer) => stretch(row, all[answer], z[answer], answer, most));
    const last = DROPPED + TOGETHER + (z ? STRETCH + HOLD + ADD : 0);
    grow(0, TOGETHER);
    grow(1, last);
    drop.run(TOGETHER, last);
    tell(`${choices.base} adds the marks of each answer …`, 0);
    tell(`… and normalises the ${many} sums.`, TOGETHER);
    tell(z ? `${title(now("method"))} first stretches each column over all ${many} answers …` : `${title(now("method"))} adds them, too.`, DROPPED + TOGETHER);
    if (z) tell("… and then adds.", DROPPED + TOGETHER + STRETCH + HOLD);
    tell("", last);
    timers.push(setTimeout(stop, last + SLIDE + 400));
  }

  return { run, stop };
}
