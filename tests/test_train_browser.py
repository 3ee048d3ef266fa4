"""The chapter Train in a browser: one journey by mouse and keyboard."""

import pytest

pytestmark = pytest.mark.slow
CURVES = "[data-cell-name=train_curves] svg.marks"
TITLE = "[data-cell-name=train_caption] h2"
VERDICT = "[data-cell-name=train_curves] .verdict"
PANELS = """() => [...document.querySelectorAll('.panels > div')].map(panel => panel.getBoundingClientRect())
  .map(box => [box.x, box.y, box.width].map(Math.round))"""
# From a click on the button to the end, it records the share of the curves that is shown, the counter, and how a curve
# is cut.
PLAYED = """() => new Promise(done => {
  const cell = document.querySelector('[data-cell-name=train_curves]');
  const root = [...document.querySelectorAll('[data-cell-name=train_play] *')].find(e => e.shadowRoot).shadowRoot;
  const line = cell.querySelector('.panels marimo-mime-renderer').shadowRoot.querySelector('.mark-line.role-mark');
  const seen = [];
  root.querySelector('button').click();
  const look = () => {
    const share = cell.style.getPropertyValue('--played');
    seen.push([share, root.querySelector('output').textContent, getComputedStyle(line).clipPath.slice(0, 5)]);
    share ? requestAnimationFrame(look) : done(seen);
  };
  look();
})"""


def test_a_journey_through_the_chapter(visit):
    page = visit(width=1440, height=900)
    page.locator("nav").get_by_role("link", name="Train").click()
    page.locator(CURVES).nth(2).wait_for()
    assert page.locator(".card[aria-checked=true]").get_attribute("aria-label").startswith("Rewards of unequal scale: ")
    for selector in ("h1", VERDICT, CURVES, ".sliders .reward >> nth=-1"):  # These are on the first screen.
        box = page.locator(selector).locator("visible=true").first.bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= 900, selector
    assert page.locator("h1").locator("visible=true").bounding_box()["height"] < 50  # The title takes one line.
    assert (
        "Bernoulli policy · 3 coins · 32 seeds · 150 epochs"
        in page.locator("[data-cell-name=train_caption]").inner_text()
    )
    boxes = page.evaluate(PANELS)
    assert len({y for _, y, _ in boxes}) == 1 and min(width for *_, width in boxes) >= 410
    # Where motion is wanted, the curves play from the left to the whole, which stays.
    assert not page.get_by_role("button", name="Play again").is_visible()
    page.emulate_media(reduced_motion="no-preference")
    seen = page.evaluate(PLAYED)
    shares = [float(share) for share, *_ in seen[:-1]]
    assert shares == sorted(shares) and shares[0] < 0.5 and seen[-1] == ["", "epoch 150", "none"]
    assert all(abs(int(said.split()[1]) - 150 * float(share)) <= 1 for share, said, _ in seen[:-1])
    assert {cut for *_, cut in seen[:-1]} == {"inset"}
    page.emulate_media(reduced_motion="reduce")
    assert len(page.evaluate(PLAYED)) == 1
    # A slider moves the curves and writes the address; its label names its row, and it says its value.
    slider = page.get_by_role("slider", name="pay of first coin")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.locator(".why", has_text="You changed this set-up. Unchanged it shows").wait_for()
    page.wait_for_url("**train-pays=3_3_10**")
    assert (slider.get_attribute("aria-valuenow"), slider.get_attribute("aria-valuetext")) == ("3", "3")
    assert page.get_by_role("slider", name="pay of third coin").get_attribute("aria-valuetext") == "10"
    page.get_by_role("button", name="Reset").click()
    page.locator(".why", has_text="Why:").wait_for()
    # Cards can be chosen by keyboard and by hand, and another comparison moves them.
    page.locator(".card[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.locator(TITLE, has_text=page.locator(".card b").nth(1).inner_text()).wait_for()
    page.locator(".card", has_text="Hardly any success").click()
    page.locator(TITLE, has_text="Hardly any success").wait_for()
    row = page.locator(".set", has=page.locator(".card", has_text="Hardly any success")).locator(
        "xpath=preceding-sibling::h3[1]"
    )
    assert "no difference" in row.inner_text()
    page.locator("label", has_text="Each as published").click()
    page.locator(VERDICT, has_text="As published: GDPO brings every coin to p = 0.9 in").wait_for()
    assert "GDPO faster" in row.inner_text()
    # A fold is computed when it is opened.
    page.locator("summary", has_text="Every median, in all three comparisons").click()
    page.locator(".figures", has_text="Each as published, GRPO").wait_for()
    # Whoever predicts reads the question where the curves were, and what is below moves by no more than a line of the
    # reason.
    below = page.locator("[data-cell-name=train_controls]").bounding_box()["y"]
    page.get_by_role("switch", name="Predict first").click()
    page.locator(".predicting", has_text="Which method brings all coins to 0.9 first?").wait_for()
    assert abs(page.locator("[data-cell-name=train_controls]").bounding_box()["y"] - below) < 24
    assert not page.get_by_role("slider", name="pay of first coin").is_visible()  # nothing moves until the guess
    page.locator(".predicting label", has_text="GDPO").click()
    page.get_by_text("You were right in 1 of 1 prediction.").wait_for()
    page.locator("h1:visible", has_text="Right: only GDPO gets there.").wait_for()
    assert page.get_by_role("slider", name="pay of first coin").is_visible()
    # The coins stay beside each other on a tablet, and stand below each other on a phone.
    page.set_viewport_size({"width": 1024, "height": 900})
    assert len({y for _, y, _ in page.evaluate(PANELS)}) == 1
    page.set_viewport_size({"width": 390, "height": 844})
    assert len({x for x, _, _ in page.evaluate(PANELS)}) == 1


def test_a_still_picture_has_the_place_of_the_curves_until_they_are_drawn(visit):
    """The sliders stand where they will stay before anything is trained."""
    page = visit()
    page.evaluate("""() => { window.stood = [];
      const look = () => {
        const box = (name) => document.querySelector(`[data-cell-name=${name}]`)?.getBoundingClientRect();
        const [still, sliders] = [box("train_still"), box("train_controls")];
        const drawn = document.documentElement.hasAttribute("data-trained");
        const curves = document.querySelectorAll('.still path').length;
        if (sliders?.height) window.stood.push([Math.round(sliders.y), still?.height > 0 && curves === 6, drawn]);
        if (!drawn) requestAnimationFrame(look);
      };
      look(); }""")
    page.locator("nav").get_by_role("link", name="Train").click()
    page.locator(CURVES).nth(2).wait_for()
    page.wait_for_function("() => window.stood.at(-1)?.[2]")
    stood = page.evaluate("window.stood")
    assert all(still != drawn for _, still, drawn in stood), "there is always one picture"
    assert max(y for y, *_ in stood) - min(y for y, *_ in stood) <= 8
