// A door opens when the bar says that its chapter is shown, and stays open.
function render({ model }) {
  const look = () => {
    const { at } = document.documentElement.dataset;
    if (model.get("opened") || (at !== model.get("chapter") && at !== "all")) return;
    model.set("opened", true);
    model.save_changes();
  };
  window.addEventListener("rpi:at", look);
  look();
  return () => window.removeEventListener("rpi:at", look);
}
export default { render };
