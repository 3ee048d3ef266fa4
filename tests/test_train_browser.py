"""The chapter Train in a browser: one journey by hand and keyboard."""

import pytest

pytestmark = pytest.mark.slow
CURVES = "[data-cell-name=train_curves] svg.marks"
TITLE = "[data-cell-name=train_scenario] h2"
VERDICT = "[data-cell-name=train_curves] .verdict"


def test_a_journey_through_the_chapter(visit):
    page = visit(width=1440, height=1000)
    page.locator("nav").get_by_role("link", name="Train").click()
    page.locator(CURVES).first.wait_for()
    assert page.locator(".card[aria-checked=true]").inner_text().startswith("Rewards of unequal scale")
    for selector in (".card >> nth=-1", VERDICT, CURVES, ".setting .reward >> nth=-1"):
        box = page.locator(selector).first.bounding_box()
        assert box["y"] + box["height"] <= 1000, selector
    # A slider moves the curves and writes the address; its label names its row, and it says its value.
    slider = page.get_by_role("slider", name="pays of first coin")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.locator(".why", has_text="Changed. As it was").wait_for()
    page.wait_for_url("**train-pays=3_3_10**")
    assert (slider.get_attribute("aria-valuenow"), slider.get_attribute("aria-valuetext")) == ("3", "3")
    assert page.get_by_role("slider", name="pays of third coin").get_attribute("aria-valuetext") == "10"
    page.get_by_role("button", name="Reset").click()
    page.locator(".why", has_text="Why:").wait_for()
    # Cards by keyboard and by hand; another comparison moves them.
    page.locator(".card[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.locator(TITLE, has_text=page.locator(".card b").nth(1).inner_text()).wait_for()
    page.locator(".card", has_text="Hardly any success").click()
    page.locator(TITLE, has_text="Hardly any success").wait_for()
    column = page.locator(".column", has=page.locator(".card", has_text="Hardly any success"))
    assert "no difference" in column.locator("h2").inner_text()
    page.locator("label", has_text="Each as published").click()
    page.locator(VERDICT, has_text="Each as published: GDPO gets there, GRPO does not").wait_for()
    assert "GDPO faster" in column.locator("h2").inner_text()
    # Folds compute when they are opened.
    page.get_by_role("button", name="Every median, in all three comparisons").click()
    page.locator(".figures", has_text="Each as published").wait_for()
