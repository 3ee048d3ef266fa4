"""The chapter Use it in a browser: lines that can be copied and follow the Lab, and links that lead to what they
name.
"""

import pytest
from helpers import arrived, settled

pytestmark = pytest.mark.slow


def test_the_first_screen_holds_lines_and_answers_and_links_lead_to_what_they_name(visit):
    page = visit("?at=use&lab-weights=3_1_1", width=1440, height=900, permissions=["clipboard-read", "clipboard-write"])
    arrived(page, ".verdict-use")
    settled(page)
    # The questions with their verdict and its trained picture, the lines, and the advice are on the first screen.
    shown = ("h1:visible", ".asking-rewards", ".asked .forest", ".use .copied >> nth=0", ".should .verdict-use")
    for selector in shown:
        box = page.locator(selector).bounding_box()
        assert box["y"] + box["height"] <= 900, selector
    assert page.evaluate("document.getElementById('App').scrollHeight") <= 4 * 900
    page.locator("table.claims:visible").wait_for()
    assert page.evaluate("document.getElementById('App').scrollHeight") <= 4 * 900
    # The answers are preset from the Lab, and a click changes the verdict, its picture and the address.
    verdict = page.locator(".asked .verdict-use")
    verdict.filter(has_text="GRPO, with a larger weight on what matters.").wait_for()
    page.get_by_label("yes").first.click()
    # The Lab's weights are such that GDPO stops pushing two rewards, so that it is not advised without that word.
    verdict.filter(has_text="Only if style and conciseness may stop improving:").wait_for()
    verdict.filter(has_text="What speaks for GDPO is what training gave where scales differ.").wait_for()
    assert page.locator(".asked .forest-setup").count() == 2
    page.wait_for_function("() => location.search.includes('use-asked=yyn')")
    page.get_by_label("Trainer", exact=True).select_option("verl")
    page.locator(".use .copied pre").first.get_by_text("adv_estimator=gdpo").wait_for()
    page.get_by_label("Gate", exact=True).select_option(label="conciseness only where correctness is passed")
    page.locator(".use .copied pre").first.get_by_text("conciseness if correctness >= 1").wait_for()
    page.locator(".use .copied button").first.click()
    page.get_by_text("Copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.locator(".use .copied pre").first.inner_text()
    page.wait_for_function("() => location.search.includes('use-framework=verl&use-gate=conciseness')")
    page.get_by_role("button", name="Copy as Python").click()
    page.get_by_text("Program copied.").wait_for()
    assert 'gc.CONVENTIONS["verl"]' in page.evaluate("navigator.clipboard.readText()")
    page.locator(".should summary").get_by_text("Each check, with its numbers").click()
    page.locator(".should").get_by_role("link", name="See it trained").first.click()
    page.wait_for_url(lambda url: "at=train" in url and "use-framework=verl" in url)
    page.locator("nav").get_by_role("link", name="Use it").click()
    assert page.get_by_label("Trainer", exact=True).evaluate("e => e.selectedOptions[0].text") == "verl"
