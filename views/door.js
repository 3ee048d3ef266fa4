// A door opens when the bar says that its chapter is shown, and stays open. One that counts says how often the reader
// came back to it.
function render({ model, el }) {
  // In print and in `marimo edit`, where all chapters stand below each other, it is the chapter's heading.
  const heading = document.createElement("h2");
  heading.textContent = model.get("title");
  heading.style.cssText = "margin: 24px 0 0; font: 650 14px var(--sans); letter-spacing: .08em; text-transform: uppercase; opacity: .7";
  if (!model.get("counts")) el.append(heading);
  const head = () => (heading.hidden = !model.get("opened"));
  head();
  model.on("change:opened", head);
  let here = false;
  const look = () => {
    const { at } = document.documentElement.dataset;
    const came = at === model.get("chapter") && !here;
    here = at === model.get("chapter");
    if (came && model.get("opened") && model.get("counts")) {
      model.set("visits", model.get("visits") + 1);
      model.save_changes();
    }
    if (model.get("opened") || (at !== model.get("chapter") && at !== "all")) return;
    model.set("opened", true);
    model.save_changes();
  };
  window.addEventListener("rpi:at", look);
  look();
  return () => window.removeEventListener("rpi:at", look);
}
export default { render };
