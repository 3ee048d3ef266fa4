"""The first drawing: the same as the Lab's, seen before marimo's front end is there, gone once the Lab has drawn."""

import json
import re
import time
import urllib.request
from urllib.parse import parse_qsl

import pytest
from helpers import arrived
from test_house import ROOT

from gdpo_core.bfcl import load_tasks
from views import first
from views.lab import Lab
from views.link import Session

TASKS = ROOT / "data" / "tasks"
DATA = re.compile(r'<script type="application/json" id="first-data">(.*?)</script>', re.S)


def values(query: str) -> dict:
    return json.loads(DATA.search(first.html(TASKS, dict(parse_qsl(query))))[1])


@pytest.mark.parametrize(
    "query",
    [
        "",
        "at=lab&lab-task=hotel&lab-pays=1_1_100&lab-weights=2_1_0",
        "lab-convention=trl&lab-method=grpo_no_std&embed=lab",
        "lab-task=</script><script>alert(1)</script>&</script>=1&lab-pays=nan_inf_-1",
        "lab-marks=111.000&lab-weights=\u2028_\u2029_1&at=</body>\u2028",
    ],
)
def test_it_holds_what_the_lab_of_this_link_sends(query):
    session = Session.of(dict(parse_qsl(query)))
    lab = Lab(load_tasks(TASKS), session)
    sent = json.loads(json.dumps({"sheets": lab.sheets, "choices": lab.choices, "drawing": lab.drawing}))
    found = values(query)
    assert found["lab"] == sent | {"css": Lab._css}
    assert found["bar"]["notes"] == session.notes


def test_no_text_of_a_link_ends_its_script():
    html = first.html(TASKS, {"</script><b>": "1", "lab-task": "</script><!--\u2028"})
    assert html.count("</script>") == 2 and "<!--" not in html and "\u2028" not in html
    assert "\\u003c/script>" in html


@pytest.mark.parametrize("query", ["at=train", "at=all", "embed=use", "embed=train&at=lab"])
def test_other_chapters_have_none(query):
    assert not first.html(TASKS, dict(parse_qsl(query)))


def test_a_closed_lab_has_none(tmp_path):
    (tmp_path / "broken.json").write_text("{")
    assert not first.html(tmp_path, {})


TEXT = """name => {
  const hosts = [...document.querySelectorAll(name)].map(e => e.shadowRoot?.querySelector(".lab")).filter(Boolean)
  const rows = [...hosts[0].querySelectorAll("*")].map(e => {
    const box = e.getBoundingClientRect()
    return [e.tagName, Math.round(box.x), Math.round(box.y), e.childElementCount ? "" : e.textContent]
  })
  return [hosts.length, rows]
}"""


def checkboxes(page) -> int:
    """How many a screen reader finds."""
    nodes = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    return sum(node.get("role", {}).get("value") == "checkbox" and not node["ignored"] for node in nodes)


@pytest.fixture(scope="module")
def drawn_url(page_url):
    """The address of the page once its server has imported what draws; before, it has no first drawing."""
    for _ in range(300):
        if b"first-data" in urllib.request.urlopen(page_url, timeout=10).read():
            return page_url
        time.sleep(0.1)
    raise AssertionError("no first drawing in 30 s")


def test_it_is_seen_before_the_front_end_and_gives_way_to_the_lab(browser, drawn_url):
    page = browser.new_context(viewport={"width": 1440, "height": 960}, reduced_motion="reduce").new_page()
    errors, held = [], []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    hold = True
    page.route("**/assets/*.js", lambda route: held.append(route) if hold else route.continue_())
    page.goto(f"{drawn_url}/?lab-pays=1_1_100", wait_until="commit")
    page.wait_for_function("() => document.querySelector('#first.drawn')")
    count, drawn = page.evaluate(TEXT, "#first-lab")
    assert count == 1 and any(text.startswith("+") for *_, text in drawn)
    # Nothing in it can be reached, and who tries is told why.
    assert not checkboxes(page)
    page.mouse.click(300, 100)
    assert "still loading" in page.locator("#first > p").text_content()
    hold = False
    for route in held:
        route.continue_()
    arrived(page, ".board .bar")
    page.wait_for_function("() => !document.querySelector('#first, #first-data')")
    assert page.evaluate(TEXT, "marimo-anywidget") == [1, drawn]
    assert checkboxes(page) == 36
    assert not errors
    page.context.close()


def test_without_the_front_end_it_stays_and_says_so(browser, drawn_url):
    page = browser.new_page()
    page.route("**/assets/*.js", lambda route: route.abort())
    page.goto(drawn_url, wait_until="commit")
    page.wait_for_function("() => document.querySelector('#first > p')?.textContent.includes('Load it again')")
    assert page.evaluate(TEXT, "#first-lab")[0] == 1
    page.emulate_media(media="print")
    assert not page.locator("#first").is_visible()
    page.context.close()
