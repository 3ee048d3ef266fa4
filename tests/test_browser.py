"""The page as a reader has it: in Chromium, with hands on the toggles."""

import itertools

import pytest
from helpers import accessibility_faults, settled

import gdpo_core as gc
from gdpo_core import bfcl
from gdpo_core._words import signed
from views.board import sheet

SHEETS = [sheet(task) for task in bfcl.load_tasks("data/tasks")]
GRADED = SHEETS[0]["graded"]


def toggle(page, answer, reward):
    return page.get_by_label(f"Answer {answer + 1}: {bfcl.REWARDS[reward]}", exact=True)


def shown(page, method):
    """What the panel draws: {answer: advantage as printed}, and the answers from top to bottom."""
    bars = page.eval_on_selector_all(
        f".panel.{method} .bar",
        "bars => bars.map(b => [b.querySelector('.name b').textContent, b.querySelector('.value').textContent,"
        " b.getBoundingClientRect().top])",
    )
    values = {int(answer) - 1: text.split(" ")[0] for answer, text, _ in bars}
    return values, [int(answer) - 1 for answer, _, _ in sorted(bars, key=lambda bar: bar[2])]


def expect_drawn(page, passed):
    """Both panels show what gdpo_core computes, from GDPO's highest to its lowest."""
    want = {m: dict(enumerate(map(signed, gc.advantages(passed, m).tolist()))) for m in ("grpo", "gdpo")}
    page.wait_for_function(
        "want => [...document.querySelector('marimo-anywidget').shadowRoot.querySelectorAll('.panel.gdpo .bar')]"
        ".every(b => b.querySelector('.value').textContent.startsWith(want[b.querySelector('.name b').textContent]))",
        arg={str(answer + 1): text for answer, text in want["gdpo"].items()},
    )
    for method, values in want.items():
        assert shown(page, method)[0] == values
    gdpo = gc.gdpo(passed).tolist()
    order = shown(page, "gdpo")[1]
    assert shown(page, "grpo")[1] == order
    assert all(gdpo[a] >= gdpo[b] - 1e-9 for a, b in itertools.pairwise(order))
    tied = gc.collapse(passed, "grpo").tied_pair_count
    text = page.locator(".verdict").inner_text()
    assert (f"{tied} pair" in text) == (tied > 0)


def test_the_default_view_shows_the_collapse(visit):
    page = visit()
    assert page.locator(".board input[type=checkbox]").count() == 36
    assert page.locator(".board .panel").count() == 2
    expect_drawn(page, GRADED)
    marks = {tuple(row): i for i, row in enumerate(GRADED)}
    grpo, gdpo = shown(page, "grpo")[0], shown(page, "gdpo")[0]
    assert grpo[marks[1, 0, 1]] == grpo[marks[0, 1, 1]]
    assert gdpo[marks[1, 0, 1]] != gdpo[marks[0, 1, 1]]
    tied = page.locator(".panel.grpo .bar.tied").count()
    assert tied == sum(len(row) == 3 and sum(row) == 2 for row in GRADED)
    assert "◆" in page.locator(".lane-text").inner_text()


def test_a_flip_redraws_both_panels_and_the_sentence(visit):
    page = visit()
    passed = [list(row) for row in GRADED]
    for answer, reward in [(0, 0), (11, 2), (4, 1), (0, 0), (7, 0)]:
        toggle(page, answer, reward).click()
        passed[answer][reward] = 1 - passed[answer][reward]
        expect_drawn(page, passed)


def test_the_flipped_answer_stays_under_the_pointer(visit):
    page = visit()
    box = toggle(page, 0, 0).bounding_box()
    place = shown(page, "gdpo")[1].index(0)
    toggle(page, 0, 0).click()
    passed = [list(row) for row in GRADED]
    passed[0][0] = 0
    expect_drawn(page, passed)
    assert shown(page, "gdpo")[1].index(0) != place, "the bar must have moved for this to mean anything"
    assert toggle(page, 0, 0).bounding_box() == box
    page.get_by_role("button", name="Sort the answers like the bars").click()
    listed = page.eval_on_selector_all(".answer .number", "all => all.map(n => Number(n.textContent) - 1)")
    assert listed == shown(page, "gdpo")[1]


def test_reset_restores_the_graded_rewards(visit):
    page = visit()
    reset = page.get_by_role("button", name="Reset")
    assert reset.is_disabled()
    verdict = page.locator(".verdict").inner_text()
    for answer in range(6):
        toggle(page, answer, 0).click()
    page.wait_for_function(
        "before => document.querySelector('marimo-anywidget').shadowRoot"
        ".querySelector('.verdict').innerText !== before",
        arg=verdict,
    )
    reset.click()
    expect_drawn(page, GRADED)
    assert page.locator(".verdict").inner_text() == verdict
    assert page.locator(".board input.changed").count() == 0


def test_toggles_work_from_the_keyboard(visit):
    page = visit()
    toggle(page, 2, 1).focus()
    page.keyboard.press("Space")
    passed = [list(row) for row in GRADED]
    passed[2][1] = 1 - passed[2][1]
    expect_drawn(page, passed)
    page.keyboard.press("Tab")
    assert (
        page.evaluate("document.querySelector('marimo-anywidget').shadowRoot.activeElement.getAttribute('aria-label')")
        == "Answer 3: conciseness"
    )


def test_equal_rewards_say_that_nothing_can_be_learnt(visit):
    page = visit()
    for answer, row in enumerate(GRADED):
        for reward, bit in enumerate(row):
            if not bit:
                toggle(page, answer, reward).click()
    expect_drawn(page, [[1, 1, 1]] * 12)
    assert "nothing can be learnt" in page.locator(".verdict").inner_text()
    assert set(shown(page, "grpo")[0].values()) == {"0.00"}
    assert page.locator(".panel .bar .fill").evaluate_all(
        "all => all.every(f => f.getBoundingClientRect().width < 0.5)"
    )


def test_every_task_can_be_chosen(visit):
    page = visit()
    for task in SHEETS[1:] + SHEETS[:1]:
        page.get_by_text(task["title"], exact=True).click()
        expect_drawn(page, task["graded"])
        assert task["request"] in page.locator(".request").inner_text()
        assert page.locator(".answer code").all_text_contents() == task["answers"]


def test_a_task_chosen_in_the_middle_of_flips_starts_as_graded(visit):
    page = visit()
    for answer in range(8):
        toggle(page, answer, answer % 3).click()
    page.get_by_text(SHEETS[1]["title"], exact=True).click()
    settled(page)
    expect_drawn(page, SHEETS[1]["graded"])
    page.get_by_text(SHEETS[0]["title"], exact=True).click()
    expect_drawn(page, GRADED)
    assert page.locator(".board input.changed").count() == 0


def test_each_answer_shows_the_graders_reasons(visit):
    page = visit()
    for answer in (0, 8, 11):
        page.locator(".answer").nth(answer).hover()
        text = page.locator(".detail").inner_text()
        assert SHEETS[0]["answers"][answer] in text
        assert all(reason in text for reason in SHEETS[0]["reasons"][answer])


def test_one_answer_is_followed_through_the_toggles(visit):
    page = visit()
    page.locator(".follow").wait_for()
    answer = 9
    for flip in (None, (answer, 0)):
        passed = [list(row) for row in GRADED]
        if flip:
            toggle(page, *flip).click()
            passed[flip[0]][flip[1]] = 1 - passed[flip[0]][flip[1]]
        e = gc.explain(passed, "gdpo")
        wanted = f"{e.advantages[answer].item():.3f}".replace("-", "−")
        page.locator(".follow .gdpo li").last.get_by_text(wanted).wait_for()


def test_scale_and_weight_follow_the_toggles_and_the_books_rank(visit):
    page = visit()
    table = page.locator("table.shares")
    before = table.inner_text()
    toggle(page, 0, 2).click()
    page.wait_for_function("before => document.querySelector('table.shares').innerText !== before", arg=before)
    first = page.locator(".ranking .grpo li").all_inner_texts()
    slider = page.locator(".sliders").first.get_by_role("slider").first
    slider.focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    page.wait_for_function(
        "before => document.querySelector('.ranking .grpo').innerText.trim() !== before.trim()",
        arg="\n".join(first),
    )


def test_the_question_after_the_weights_leads_to_their_answer(visit):
    page = visit()
    page.locator("table.shares").wait_for()
    page.get_by_role("link", name="Which weights would change that?").click()
    heading = page.get_by_role("heading", name="The same with rewards")
    page.wait_for_function(
        "e => { const y = e.getBoundingClientRect().y; return -5 <= y && y <= 400 }", arg=heading.element_handle()
    )
    settled(page)
    heading = heading.bounding_box()
    assert -5 <= heading["y"] <= 400
    answer = page.get_by_text("The right one comes first in all when correctness weighs more than").bounding_box()
    assert heading["y"] < answer["y"] < heading["y"] + 900


CHARTS = ".trained :is(svg, canvas).marks"


def sizes(page):
    """Width and height of each chart of section 6."""
    return page.locator(CHARTS).evaluate_all(
        "all => all.map(e => [e.getBoundingClientRect().width, e.getBoundingClientRect().height])"
    )


def test_a_phone_shows_everything_within_its_width(visit):
    page = visit(width=390, height=844, has_touch=True, is_mobile=True)
    page.locator("table.steps").wait_for()
    for width in (390, 360):
        page.set_viewport_size({"width": width, "height": 844})
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("document.querySelector('#App').scrollWidth") <= width  # it scrolls, not the document
        too_wide = page.eval_on_selector_all(
            ".board *, .follow, .sliders, .shares, .shares td, .ranking, .charts, .steps, .firsts, .controls, .says, "
            ".scenarios, .trained, .key",
            f"all => all.filter(e => e.getBoundingClientRect().right > {width} + 1 && e.checkVisibility())"
            ".map(e => e.className)",
        )
        assert too_wide == []
        sizes = page.eval_on_selector_all(".toggle", "all => all.map(t => t.getBoundingClientRect().height)")
        assert min(sizes) >= 44
    toggle(page, 5, 0).tap()
    passed = [list(row) for row in GRADED]
    passed[5][0] = 1 - passed[5][0]
    expect_drawn(page, passed)


MARIMOS_OWN = ("radix", ".py-4", "marimo-file")  # its menu button, its outline and the input inside its upload


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 1440), ("light", 390)])
def test_no_serious_accessibility_fault(visit, scheme, width):
    page = visit(width=width, scheme=scheme)
    page.locator("table.steps").wait_for()
    settled(page)
    ours = {
        (fault["id"], str(node["target"]))
        for fault, node in accessibility_faults(page)
        if fault["impact"] in ("serious", "critical") and not any(own in str(node["target"]) for own in MARIMOS_OWN)
    }
    assert not ours


@pytest.fixture
def real_prompts(visit):
    page = visit()
    page.locator("table.steps").wait_for()
    settled(page)
    return page


def turn(page, label, *keys):
    """Turn the slider of section 4 with this label, and wait for what follows."""
    before = page.locator(".prompts").inner_text()
    at = ["Answers in a group", "Random draw (seed)", "Weight of correctness"].index(label)
    assert page.get_by_text(label, exact=True).count() == 1
    page.locator(".controls").first.get_by_role("slider").nth(at).focus()
    for key in keys:
        page.keyboard.press(key)
    page.wait_for_function("before => document.querySelector('.prompts').innerText !== before", arg=before)


def height(page, selector):
    return page.locator(selector).first.bounding_box()["height"]


def test_a_weight_with_decimals_moves_no_control(real_prompts):
    before = height(real_prompts, ".controls")
    turn(real_prompts, "Weight of correctness", "ArrowRight")
    assert height(real_prompts, ".controls") == before


def test_two_answers_leave_no_empty_room_for_a_curve(real_prompts):
    page = real_prompts
    assert page.locator(".figure.one").count() == 1
    turn(page, "Answers in a group", "Home")
    page.get_by_text("With 2 answers GDPO ties exactly what GRPO ties").wait_for()
    assert page.locator(".figure.one").count() == 0
    page.get_by_text("Shown instead: the prompt with the most ties").wait_for()


def test_counting_rounded_numbers_does_not_move_the_charts(real_prompts):
    page = real_prompts

    def top():
        growth, heading = page.locator(".growth").bounding_box(), page.get_by_role("heading", name="More answers, more")
        return growth["y"] - heading.bounding_box()["y"]

    before = top()
    page.get_by_text("Count rounded numbers instead").click()
    page.get_by_text("The collapse seems to be gone").wait_for()
    assert abs(top() - before) <= 1


def test_a_fold_with_the_focus_has_an_outline(real_prompts):
    fold = real_prompts.locator(".fold summary").first
    fold.focus()
    real_prompts.keyboard.press("Shift+Tab")
    real_prompts.keyboard.press("Tab")
    assert fold.evaluate("e => getComputedStyle(e).outlineWidth + getComputedStyle(e).outlineStyle") == "2pxsolid"


def test_dark_follows_the_readers_system(visit):
    page = visit()
    for scheme, low, high in (("light", 240, 256), ("dark", -1, 40), ("light", 240, 256)):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(
            "([low, high]) => { const c = document.createElement('canvas').getContext('2d');"
            " c.fillStyle = getComputedStyle(document.body).backgroundColor; c.fillRect(0, 0, 1, 1);"
            " const red = c.getImageData(0, 0, 1, 1).data[0]; return low < red && red < high }",
            arg=[low, high],
        )


def test_two_visitors_do_not_share_their_toggles(visit):
    one, other = visit(), visit()
    toggle(one, 0, 0).click()
    passed = [list(row) for row in GRADED]
    passed[0][0] = 0
    expect_drawn(one, passed)
    expect_drawn(other, GRADED)
