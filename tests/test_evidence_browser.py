"""The chapter Evidence in a browser: one visit, from the claim to the paper's tables."""

import pytest
from helpers import settled

pytestmark = pytest.mark.slow


def opened(page, name):
    page.locator(".opened-prompt h3", has_text=f"{name} ").wait_for()


def test_a_visit_to_the_real_prompts(visit):
    page = visit("?at=evidence&evidence-draw=1")
    page.locator(".field i").first.wait_for()
    assert page.locator(".field i").count() == 963
    page.get_by_role("heading", level=1, name="Trained: GDPO leads in 21 of 72").wait_for()

    # What was trained comes first. A set-up is chosen by hand and by keyboard, also in a group that was folded.
    trained = page.locator("[data-cell-name='evidence_lines'] h3")
    trained.filter(has_text="Conciseness pays 5").wait_for()
    page.locator("[data-id='noise']").click()
    trained.filter(has_text="nearly constant noise").wait_for()
    page.wait_for_url("**evidence-setup=noise**")
    page.keyboard.press("ArrowDown")  # the next groups are folded
    page.keyboard.press("Enter")
    trained.filter(has_text="Equal pay").wait_for()
    page.get_by_text("Two models that start from random weights").click()
    page.locator("[data-id='wide-equal']").click()
    trained.filter(has_text="wide").wait_for()

    # A prompt can be opened by hand, by keyboard, by a step and by its name.
    page.locator("[data-id='parallel_65']").click()
    opened(page, "parallel_65")
    page.wait_for_url("**evidence-prompt=parallel_65**")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "evidence-prompt=parallel_65" not in url)
    name = page.evaluate("new URLSearchParams(location.search).get('evidence-prompt')")
    opened(page, name)
    page.get_by_role("button", name="←").click()
    opened(page, "parallel_65")
    find = page.get_by_placeholder("name, or words of the request")
    find.fill("multiple_99")
    find.press("Enter")
    opened(page, "multiple_99")

    # The controls change the claim, the squares and the address, and a link restores all of it.
    page.locator("[data-id='wrong']").click()
    page.locator(".squares[data-kind='wrong']").wait_for()
    answer = page.locator("[data-cell-name='evidence_ties'] .answer")
    before = answer.inner_text()
    page.get_by_text("Other answers, other graders").click()
    page.get_by_role("slider", name="Answers per prompt").press("ArrowRight")
    page.wait_for_url(lambda url: "evidence-group=13" in url and "evidence-prompt=multiple_99" in url)
    settled(page)
    assert answer.inner_text() != before
    again = visit(f"?{page.url.partition('?')[2]}")
    opened(again, "multiple_99")
    again.locator(".squares[data-kind='wrong']").wait_for()
    assert again.locator("[data-cell-name='evidence_ties'] .answer").inner_text() == answer.inner_text()
    again.locator("[data-cell-name='evidence_lines'] h3", has_text="wide").wait_for()

    # A forecast can be opened by hand and by keyboard; the curves of its setting then stand below the picture.
    curves = page.locator("[data-cell-name='evidence_courses'] h3")
    page.locator("[data-id='scale~GDPO~style']").click()
    curves.filter(has_text="GDPO").filter(has_text="Correctness pays 2").wait_for()
    page.wait_for_url("**evidence-forecast=scale**")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "evidence-forecast=scale%7EGDPO%7Econciseness" in url)
    page.get_by_text("The paper's own results?").click()
    page.locator("td.ahead").first.wait_for()
