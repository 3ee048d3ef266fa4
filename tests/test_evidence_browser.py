"""Evidence in a browser: squares by pointer and keyboard, controls that move everything, parts that come when near."""

import pytest
from helpers import arrived, settled

pytestmark = pytest.mark.slow


@pytest.fixture
def evidence(visit):
    """Opens the chapter from the bar."""

    def open_chapter(**options):
        page = visit(**options)
        page.get_by_role("navigation", name="Chapters").get_by_role("link", name="Evidence").click()
        arrived(page, ".square.both")
        return page

    return open_chapter


def claim(page):
    return page.locator(".evidence h1").inner_text().replace("\xa0", " ")


def test_the_first_screen_holds_claim_squares_verdict_and_controls(evidence):
    page = evidence(height=900)
    assert claim(page) == "On 963 real prompts GRPO ties different answers in 41 %, GDPO in 15 %"
    assert page.locator(".field .square").count() == 963
    for selector in ("h1", ".worth", ".heavy", ".plots", ".controls", ".field >> nth=3"):
        box = page.locator(f".evidence {selector}").first.bounding_box()
        assert box["y"] + box["height"] <= 900
    assert page.evaluate("document.getElementById('App').scrollHeight") <= 4 * 900


def test_a_square_tells_and_opens_under_the_pointer_and_by_keyboard(evidence):
    page = evidence()
    square = page.locator(".field .square.wrong").first
    box = square.bounding_box()
    at = box["x"] + box["width"] / 2 + 1, box["y"] + box["height"] / 2 - 1
    page.mouse.move(*at)
    assert "puts a wrong answer above a right one" in page.locator(".tip").inner_text()
    page.mouse.click(*at)
    page.locator(".opened h3", has_text=square.get_attribute("aria-label").split(":")[0]).wait_for()
    first = page.locator(".field .square[tabindex='0']")
    assert first.count() == 1
    first.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    label = page.evaluate(
        "() => { let e = document.activeElement; while (e.shadowRoot) e = e.shadowRoot.activeElement;"
        " return e.getAttribute('aria-label'); }"
    )
    prompt = label.split(":")[0]
    assert prompt in page.locator(".tip").inner_text()
    page.keyboard.press("Enter")
    page.wait_for_function(
        "name => { const f = (r) => { for (const e of r.querySelectorAll('*')) { if (e.matches('.opened h3')) return e;"
        " const x = e.shadowRoot && f(e.shadowRoot); if (x) return x; } }; return f(document).textContent === name; }",
        arg=prompt,
    )
    settled(page)
    assert "It is the prompt with the most ties" not in page.locator(".opened").inner_text()


def test_the_whole_field_is_the_target_and_the_nearest_square_answers(evidence):
    page = evidence()
    for field in page.locator(".field").all():
        box, squares = field.bounding_box(), field.locator(".square")
        assert min(box["width"], box["height"]) >= 24
        for n in (0, 1, squares.count() - 1):
            one = squares.nth(n).bounding_box()
            page.mouse.move(one["x"] + one["width"] + 0.5, one["y"] + one["height"] / 2)  # in the gap beside it
            assert squares.nth(n).evaluate("node => node.classList.contains('near')")
        assert field.locator(".near").count() == 1
    for name in ("Previous prompt", "Next prompt"):  # the same with targets of their own
        box = page.get_by_role("button", name=name).bounding_box()
        assert min(box["width"], box["height"]) >= 24


def test_the_controls_move_claim_squares_and_bars(evidence):
    page = evidence()
    before = page.locator(".bars").inner_text()
    page.get_by_role("slider", name="Answers per prompt").fill("71")
    page.locator(".evidence h1", has_text="82").wait_for()
    assert page.locator(".bars").inner_text() != before
    page.get_by_label("Weight of correctness, real prompts").fill("2")
    page.locator(".lead", has_text="Correctness weighs 2 here").wait_for()
    page.get_by_label("What style asks for").select_option("envelope")
    page.get_by_role("button", name="Draw again").click()
    button = page.locator(".legend button").first
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert page.locator(".squares").get_attribute("data-kind") == "both"


def test_parts_and_folds_are_there_when_the_reader_comes(evidence):
    page = evidence()
    assert page.locator(".part.paper h2").count() == 0
    page.locator(".part.paper").scroll_into_view_if_needed()
    page.locator(".part.paper h2").wait_for()
    page.locator("summary", has_text="The paper's tables").click()
    page.locator(".part.paper table").wait_for()
    assert page.locator(".part.paper td.ahead").count() == 8


def test_nothing_sticks_out(evidence):
    page = evidence(width=390, height=844)
    for width in (390, 320, 1440):
        page.set_viewport_size({"width": width, "height": 844})
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if width == 390:
            assert page.evaluate("document.getElementById('App').scrollHeight") <= 6 * 844
