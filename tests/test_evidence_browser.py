"""Evidence in a browser: one visit, from the claim to the paper's tables."""

import pytest
from helpers import settled

pytestmark = pytest.mark.slow


def opened(page, name):
    page.locator("h2.part", has_text=f"{name} ").wait_for()


def test_a_visit_to_the_real_prompts(visit):
    page = visit("?at=evidence&evidence-draw=1")
    page.locator(".field i").first.wait_for()
    assert page.locator(".field i").count() == 963
    page.get_by_role("heading", level=1, name="real prompts GRPO ties different answers in").wait_for()

    # A prompt by hand, by keyboard, by a step and by its name.
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
    find = page.get_by_placeholder("find a prompt")
    find.fill("multiple_99")
    find.press("Enter")
    opened(page, "multiple_99")

    # Controls move claim, squares and address; a link restores all of it.
    page.locator("[data-id='wrong']").click()
    page.locator(".squares[data-kind='wrong']").wait_for()
    before = page.locator("h1:visible").inner_text()
    page.get_by_text("Other answers, other graders").click()
    page.get_by_role("slider", name="Answers per prompt").press("ArrowRight")
    page.wait_for_url(lambda url: "evidence-group=13" in url and "evidence-prompt=multiple_99" in url)
    settled(page)
    assert page.locator("h1:visible").inner_text() != before
    again = visit(f"?{page.url.partition('?')[2]}")
    opened(again, "multiple_99")
    again.locator(".squares[data-kind='wrong']").wait_for()
    assert again.locator("h1:visible").inner_text() == page.locator("h1:visible").inner_text()

    page.locator("[data-cell-name='evidence_paper']").scroll_into_view_if_needed()
    page.get_by_role("heading", name="What the paper measured").wait_for()
    page.get_by_role("button", name="The paper's tables").click()
    page.locator("td.ahead").first.wait_for()
