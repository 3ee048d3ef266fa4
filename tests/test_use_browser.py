"""Use it in a browser: lines that are copied and follow the Lab, links that lead to what they name."""

import pytest
from helpers import accessibility_faults, arrived, settled

pytestmark = pytest.mark.slow


@pytest.fixture
def use(visit):
    def open_chapter(**options):
        page = visit(**options)
        go(page, "Use it")
        arrived(page, ".claims")
        settled(page)
        return page

    return open_chapter


def go(page, chapter):
    page.locator("nav").get_by_role("link", name=chapter).click()


def lines(page):
    return page.locator(".use .copied pre").first


def test_the_first_screen_holds_all_and_a_link_leads_to_the_scenario_that_shows_it(use):
    page = use(width=1440, height=900)
    for selector in ("h1:visible", ".asked-use", ".use", ".should"):
        box = page.locator(selector).bounding_box()
        assert box["y"] + box["height"] <= 900, selector
    assert page.evaluate("document.getElementById('App').scrollHeight") <= 4 * 900
    page.locator(".should").get_by_role("link", name="A reward of almost constant noise").click()
    page.locator(".train .large h2", has_text="A reward of almost constant noise").wait_for(timeout=30_000)
    assert page.evaluate("new URLSearchParams(location.search).get('at')") == "train"


def test_a_phone_has_it_within_its_width_and_six_screens(use):
    page = use(width=390, height=844, has_touch=True, is_mobile=True)
    assert page.evaluate("document.querySelector('#App').scrollWidth") <= 390
    assert page.evaluate("document.getElementById('App').scrollHeight") <= 6 * 844


def test_the_lines_of_a_trainer_are_copied(use):
    page = use(permissions=["clipboard-read", "clipboard-write"])
    page.get_by_label("Trainer").select_option("verl")
    lines(page).get_by_text("adv_estimator=gdpo").wait_for()
    page.get_by_label("Gate").select_option(label="conciseness only where correctness is passed")
    lines(page).get_by_text("conciseness if correctness >= 1").wait_for()
    page.locator(".use .copied button").first.click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == lines(page).inner_text()


def test_the_lines_follow_the_lab_and_the_choices_stay(use):
    page = use()
    page.get_by_label("Trainer").select_option("ms-swift")
    lines(page).get_by_text("--reward_weights 1 1 1").wait_for()
    go(page, "Lab")
    weight = page.locator(".lab input[type=number]").first
    weight.fill("3")
    weight.press("Enter")
    settled(page)
    go(page, "Use it")
    lines(page).get_by_text("--reward_weights 3 1 1").wait_for()
    assert page.get_by_label("Trainer").evaluate("e => e.selectedOptions[0].text") == "ms-swift"


def test_the_run_that_was_audited_is_judged(use):
    page = use()
    page.get_by_label("Judge by").select_option("the run of chapter 4")
    page.locator(".should").get_by_text("No run is audited yet").wait_for()
    page.locator(".should").get_by_role("link", name="Your run").click()
    page.locator(".audit.front").wait_for(timeout=30_000)
    go(page, "Use it")
    page.locator(".should").get_by_text("style takes").wait_for()


def test_no_accessibility_fault(use):
    page = use(width=1440, scheme="dark")
    folds = page.locator(".use details, [data-cell-name=use_more] .folds details")
    folds.evaluate_all("all => all.forEach(e => e.open = true)")
    page.locator("[data-cell-name=use_more] marimo-lazy").scroll_into_view_if_needed()
    page.locator(".successors").wait_for()
    section = [[selector] for selector in (".asked-use", ".use", ".should", ".claims", ".folds")]
    for scheme, width in (("dark", 1440), ("light", 1440), ("light", 390)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 960})
        settled(page)
        faults = accessibility_faults(page, {"include": section})
        assert [(fault["id"], node["target"]) for fault, node in faults] == [], (scheme, width)
