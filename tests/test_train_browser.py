"""The chapter Train in a browser: pictures in their columns, a choice drawn large, a guess, a run that is stopped."""

import pytest
from helpers import accessibility_faults, arrived, settled

pytestmark = pytest.mark.slow


@pytest.fixture
def train(visit):
    def open_chapter(**options):
        page = visit(**options)
        page.locator("nav").get_by_role("link", name="Train").click()
        arrived(page, ".panels svg")
        return page

    return open_chapter


def choose(page, title):
    page.locator(".card", has_text=title).click()
    page.locator(".large h2", has_text=title).wait_for()


def test_the_first_screen_holds_all_and_what_is_chosen_large(train):
    page = train(width=1440, height=900)
    assert "GDPO is faster in" in page.locator(".train h1").inner_text()
    for selector in (".card >> nth=-1", ".train .verdict", ".panels", ".controls .rows"):
        box = page.locator(selector).bounding_box()
        assert box["y"] + box["height"] <= 900, selector
    assert page.evaluate("document.getElementById('App').scrollHeight") <= 4 * 900
    # A choice is drawn large, and its epochs stand on the marks.
    choose(page, "Weights that undo the scales")
    page.locator(".train .verdict", has_text="GDPO is slower").wait_for()
    numbers = page.locator(".panels .number").all_text_contents()
    epochs = page.locator(".train .verdict b.gdpo, .train .verdict b.grpo").all_inner_texts()
    assert epochs and all(any(number.endswith(one) for number in numbers) for one in epochs)
    assert page.locator(".card[aria-pressed=true]").count() == 1


def test_another_comparison_moves_the_pictures_and_the_verdict_says_which_it_is(train):
    page = train()
    choose(page, "Few live groups")
    column = page.locator(".column", has=page.locator(".card", has_text="Few live groups"))
    assert "no difference" in column.locator("h2").inner_text()
    page.get_by_text("Each as published", exact=True).click()
    page.locator(".train .verdict", has_text="Each as published: GDPO gets there, GRPO does not").wait_for()
    assert "GDPO faster" in column.locator("h2").inner_text()
    assert page.locator(".train h1").inner_text().startswith("As published")


def test_a_prediction_hides_pictures_and_verdict_until_the_guess(train):
    page = train()
    choose(page, "A reward of almost constant noise")
    page.get_by_role("button", name="Predict first").click()
    assert not page.locator(".train .verdict").is_visible() and not page.locator(".panels").is_visible()
    assert page.locator(".card svg").count() == 0 and page.locator(".card .label", has_text="slower").count() == 0
    page.get_by_role("button", name="GRPO", exact=True).click()
    page.locator(".train .verdict", has_text="GDPO is slower").wait_for()
    assert page.locator(".card", has_text="almost constant noise").locator(".label").inner_text().startswith("✓")
    assert page.locator(".score").inner_text() == "1 of 1 right"
    assert page.locator(".card svg").count() == 1


def test_a_slider_says_its_value_and_moves_the_curves(train):
    page = train()
    slider = page.get_by_role("slider", name="Pays of first coin")
    assert slider.get_attribute("aria-valuetext") == "1"
    before = page.locator(".panels path.curve").first.get_attribute("d")
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "3"
    page.locator(".why", has_text="Changed").wait_for()
    assert page.locator(".panels path.curve").first.get_attribute("d") != before
    assert slider.evaluate("node => node === node.getRootNode().activeElement")


def test_a_long_run_shows_its_progress_over_the_old_picture_and_can_be_stopped(train):
    page = train()
    page.get_by_text("Optimizer, noise, groups").click()
    before = page.locator(".train .verdict").inner_text()
    for name, value in (("Groups per batch", "128"), ("Answers per group", "32"), ("Seeds", "64")):
        page.get_by_label(name).select_option(value)
    page.get_by_role("spinbutton", name="Epochs").fill("1000")
    page.locator(".progress", has_text="training").wait_for()
    assert page.locator(".train .verdict").inner_text() == before and page.locator(".panels svg").first.is_visible()
    page.get_by_role("button", name="Stop").click()
    page.locator(".progress").wait_for(state="hidden")
    choose(page, "Equal everything")  # at once, though the long run was under way
    settled(page, 1500)  # longer than a part of that run takes
    assert page.locator(".large h2").inner_text() == "Equal everything"


def test_the_weights_of_the_conflict_are_chosen_in_their_picture(train):
    page = train()
    choose(page, "Equal pay")
    page.get_by_role("button", name="GDPO, weight 0.5", exact=False).click()
    page.locator(".train .verdict", has_text="both methods end right but long").wait_for()
    assert page.get_by_role("slider", name="Weight of being short").get_attribute("aria-valuetext") == "0.5"
    page.get_by_label("gate: being short counts only if right").check()
    page.locator(".weighed th.now", has_text="gate").wait_for()


def test_the_picture_of_all_weights_is_whole_on_the_first_screen(train):
    page = train(width=1440, height=900)
    choose(page, "Equal pay")
    for selector in (".weighed table", ".train .controls"):
        box = page.locator(selector).bounding_box()
        assert box["y"] + box["height"] <= 900, selector


def test_a_choice_on_a_phone_brings_the_large_picture_into_sight(train):
    page = train(width=390, height=844)
    assert page.locator(".large").bounding_box()["y"] < page.locator(".gallery").bounding_box()["y"]
    choose(page, "Brevity pays triple")
    assert 0 <= page.locator(".large h2").bounding_box()["y"] <= 300


def test_folds_are_computed_when_opened_and_the_labs_marks_are_trained(train):
    page = train()
    assert page.locator(".train .fold table").count() == 0
    page.get_by_text("Every median, in all three comparisons").click()
    page.locator(".train .fold table", has_text="Each as published").wait_for()
    page.get_by_role("button", name="Use the Lab's twelve answers").click()
    page.locator(".panels", has_text="conciseness").wait_for()


def test_a_phone_shows_everything_within_its_width(train):
    page = train(width=390, height=844)
    assert page.evaluate("document.getElementById('App').scrollHeight") <= 6 * 844
    for title in ("", "Brevity pays triple"):
        if title:
            choose(page, title)
            page.locator(".weighed table").wait_for()
        for width in (390, 320):
            page.set_viewport_size({"width": width, "height": 844})
            settled(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_axe_finds_nothing_serious_in_the_conflict(train):
    page = train(scheme="dark")
    choose(page, "Brevity pays triple")
    page.locator(".weighed table").wait_for()
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        settled(page)
        inside = page.locator(".train").inner_html()
        serious = [
            (fault["id"], node["html"])
            for fault, node in accessibility_faults(page)
            if fault["impact"] in ("serious", "critical") and node["html"][:60] in inside
        ]
        assert not serious, scheme
