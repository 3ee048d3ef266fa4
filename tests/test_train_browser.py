"""The chapter Train in a browser: one journey by hand and keyboard, and what a phone and axe see."""

import pytest
from helpers import becomes

pytestmark = pytest.mark.slow
CURVES = "[data-cell-name=train_curves] svg.marks"
TITLE = "[data-cell-name=train_scenario] h2"
VERDICT = "[data-cell-name=train_curves] .verdict"


@pytest.fixture
def train(visit):
    def open_chapter(**options):
        page = visit(**options)
        page.locator("nav").get_by_role("link", name="Train").click()
        page.locator(CURVES).first.wait_for()
        return page

    return open_chapter


def choose(page, title):
    page.locator(".card", has_text=title).click()
    page.locator(TITLE, has_text=title).wait_for()


def test_a_journey_through_the_chapter(train):
    page = train(width=1440, height=1000)
    assert page.locator(".card[aria-checked=true]").inner_text().startswith("Rewards of unequal scale")
    for selector in (".card >> nth=-1", VERDICT, CURVES, ".setting .reward >> nth=-1"):
        box = page.locator(selector).first.bounding_box()
        assert box["y"] + box["height"] <= 1000, selector
    # A slider moves the curves and writes the address; its label names its row.
    slider = page.get_by_role("slider", name="pays of first coin")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.locator(".why", has_text="Changed. As it was").wait_for()
    page.wait_for_url("**train-pays=3_3_10**")
    page.get_by_role("button", name="Reset").click()
    page.locator(".why", has_text="Why:").wait_for()
    # Cards by keyboard; another comparison moves them.
    page.locator(".card[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.locator(TITLE, has_text="Equal everything").wait_for()
    choose(page, "Hardly any success")
    column = page.locator(".column", has=page.locator(".card", has_text="Hardly any success"))
    assert "no difference" in column.locator("h2").inner_text()
    page.locator("label", has_text="Each as published").click()
    page.locator(VERDICT, has_text="Each as published: GDPO gets there, GRPO does not").wait_for()
    assert "GDPO faster" in column.locator("h2").inner_text()
    # The conflict shows who wins at which weight.
    choose(page, "Equal pay")
    page.locator(".ends .here").first.wait_for()
    page.get_by_text("gate: being concise counts only if right").click()
    page.locator(VERDICT, has_text="both methods end right, not concise").wait_for()
    # Folds compute when they are opened.
    page.get_by_role("button", name="Every median, in all three comparisons").click()
    page.locator(".figures", has_text="Each as published").wait_for()
    page.get_by_role("link", name="What coins predict, held against a language model").click()
    page.locator("#trained .measured svg.marks").last.wait_for()
    becomes(page, "() => Math.round(document.getElementById('trained').getBoundingClientRect().top)", 88)


def test_a_prediction_hides_pictures_and_verdict_until_the_guess(train):
    page = train()
    choose(page, "A reward of almost constant noise")
    page.get_by_role("switch", name="Predict first").click()
    page.get_by_text("Who has every coin at 0.9 first?").wait_for()
    assert page.locator(VERDICT).count() == page.locator(CURVES).count() == page.locator(".card svg").count() == 0
    assert "helps" not in page.locator("[data-cell-name=train_headline] h1").inner_text()
    page.get_by_role("radio", name="GRPO", exact=True).click()
    page.locator(VERDICT, has_text="GDPO is slower").wait_for()
    assert page.locator(".card svg").count() == 1
    assert "Score: 1 of 1" in page.locator("[data-cell-name=train_headline]").inner_text()
