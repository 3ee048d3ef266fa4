// The exchange between the browser and the core: a change is drawn at once by instant.js, and the core, which computes the
// same with torch, sends its numbers and the words. One message is in the air at a time; all changes that are made
// meanwhile follow in one message.

const SET_BY_READERS = ["marks", "pays", "weights", "convention", "method"];
const PATIENCE = [2000, 30000]; // ms without an answer after which the state is sent again: at first, and at most
const AGREED = 1e-9; // how far an advantage of the browser may be from that of the core

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// The message about a change is sent after the frame that shows the change, which it would hold up.
const afterPaint = (send) => (document.hidden ? send() : requestAnimationFrame(() => setTimeout(send)));

function makeExchange({ model, choices, changed }) {
  const now = () => Object.fromEntries(SET_BY_READERS.map((name) => [name, model.get(name)]));
  let instant = null; // the last drawing that the browser made, without words
  let [waiting, inTheAir, newer, late, timer, patience] = [false, false, false, false, 0, PATIENCE[0]];

  const confirmed = () => same(model.get("drawing").state, now());

  function drawn() {
    if (!same(instant?.state, now())) instant = gdpoInstant.draw(now(), choices);
    return instant;
  }

  // Return the drawing to show: the core's drawing of this state, or else that of the browser, which has no words; null
  // where only the core can compute this state.
  function current() {
    const core = model.get("drawing");
    if (!confirmed()) return drawn();
    return model.get("why") && !core.parts ? { ...core, parts: drawn()?.parts ?? null } : core;
  }

  // Send the whole state, since an earlier message may have been lost; marimo also sends values that did not change.
  function send() {
    for (const [name, value] of Object.entries(now())) model.set(name, value);
    model.save_changes();
    [inTheAir, newer] = [true, false];
    clearTimeout(timer);
    timer = setTimeout(overdue, patience);
  }

  // End the exchange for now, because the core's drawing is of this state.
  function settle() {
    clearTimeout(timer);
    [inTheAir, newer, late, patience] = [false, false, false, PATIENCE[0]];
    changed();
  }

  function overdue() {
    if (confirmed()) return settle();
    [inTheAir, newer, late] = [false, false, true];
    patience = Math.min(2 * patience, PATIENCE[1]);
    changed();
    send();
  }

  function push() {
    if (choices.alone || waiting) return;
    if (inTheAir) newer = true;
    else if (!confirmed()) {
      waiting = true;
      afterPaint(() => ((waiting = false), inTheAir || confirmed() || send()));
    }
  }

  // Begin anew with another core, which knows nothing of a message that is in the air.
  function begin() {
    clearTimeout(timer);
    [inTheAir, newer, late, patience] = [false, false, false, PATIENCE[0]];
    push();
  }

  // Go on after an answer of the core.
  function answered() {
    inTheAir = false;
    if (newer) send();
    else if (confirmed()) {
      compare();
      return settle();
    }
    changed();
  }

  function compare() {
    const core = model.get("drawing");
    if (!same(instant?.state, core.state)) return;
    const apart = core.a.flatMap((side, n) => side.map((a, i) => Math.abs(a - instant.a[n][i]) / Math.max(1, Math.abs(a))));
    const most = Math.max(...apart);
    if (!(most <= AGREED)) console.warn(`The board drew an advantage ${most} off the core's, which stands now.`, core.state);
  }

  return { current, push, begin, answered, settle, isLate: () => late, stop: () => clearTimeout(timer) };
}
