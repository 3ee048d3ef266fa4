"""Use it in a browser: lines that are copied and follow the Lab, links that lead to what they name."""

import pytest
from helpers import accessibility_faults, arrived, settled

pytestmark = pytest.mark.slow


@pytest.fixture
def use(visit):
    def open_chapter(query="", **options):
        page = visit(f"?at=use{query}", **options)
        arrived(page, ".verdict-use")
        settled(page)
        return page

    return open_chapter


def go(page, chapter):
    page.locator("nav").get_by_role("link", name=chapter).click()


def lines(page):
    return page.locator(".use .copied pre").first


def test_the_first_screen_holds_lines_and_answers_and_links_lead_to_what_they_name(use):
    page = use(width=1440, height=900, permissions=["clipboard-read", "clipboard-write"])
    for selector in ("h1:visible", ".use", ".should"):
        box = page.locator(selector).bounding_box()
        assert box["y"] + box["height"] <= 900, selector
    assert page.evaluate("document.getElementById('App').scrollHeight") <= 4 * 900
    page.locator("table.claims:visible").wait_for()
    assert page.evaluate("document.getElementById('App').scrollHeight") <= 4 * 900
    page.get_by_label("Trainer", exact=True).select_option("verl")
    lines(page).get_by_text("adv_estimator=gdpo").wait_for()
    page.get_by_label("Gate", exact=True).select_option(label="conciseness only where correctness is passed")
    lines(page).get_by_text("conciseness if correctness >= 1").wait_for()
    page.locator(".use .copied button").first.click()
    page.get_by_text("Copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == lines(page).inner_text()
    page.wait_for_function("() => location.search.includes('use-framework=verl&use-gate=conciseness')")
    page.get_by_role("button", name="Copy as Python").click()
    page.get_by_text("Program copied.").wait_for()
    assert 'gc.CONVENTIONS["verl"]' in page.evaluate("navigator.clipboard.readText()")
    page.locator(".should").get_by_role("link", name="A reward of almost constant noise").click()
    page.wait_for_url(lambda url: "at=train" in url and "use-framework=verl" in url)
    go(page, "Use it")
    assert page.get_by_label("Trainer", exact=True).evaluate("e => e.selectedOptions[0].text") == "verl"


def test_the_lines_follow_the_lab(use):
    page = use("&lab-weights=3_1_1&use-framework=ms_swift")
    lines(page).get_by_text("--reward_weights 3 1 1").wait_for()


def test_the_run_that_was_audited_is_judged(use):
    page = use()
    page.get_by_label("Judge by").select_option("the run of chapter 4")
    page.locator(".should").get_by_text("No run is audited yet").wait_for()
    page.locator(".should").get_by_role("link", name="Your run").click()
    arrived(page, ".audit.front")
    go(page, "Use it")
    page.locator(".should").get_by_text("conciseness takes").wait_for()


def test_no_accessibility_fault_and_nothing_wider_than_the_screen(use):
    page = use(width=1440, scheme="dark")
    page.locator(".use details").evaluate_all("all => all.forEach(e => e.open = true)")
    for title in ("What came before and after", "Limits of this page", "References"):
        page.get_by_role("button", name=title).click()
    page.locator(".successors").first.wait_for()
    section = [[selector] for selector in (".use", ".should", "marimo-accordion")]
    for scheme, width in (("dark", 1440), ("light", 1440), ("light", 1024), ("light", 390), ("light", 320)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 960})
        settled(page)
        faults = accessibility_faults(page, {"include": section})
        assert [(fault["id"], node["target"]) for fault, node in faults] == [], (scheme, width)
        assert page.evaluate("document.querySelector('#App').scrollWidth") <= width
