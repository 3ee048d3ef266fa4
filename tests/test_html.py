"""The two layers that build HTML: text stays text in every builder, whatever it holds; and CSS and charts share one
theme.
"""

import json
import re
from html import unescape
from pathlib import Path

import marimo as mo
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_report import Page

from gdpo_audit.report.pages import sliders
from gdpo_core.board.board import STYLE, Board
from gdpo_core.shared import markup, theme
from gdpo_core.shared.markup import Cell, Html, Row
from views.widgets import html

NASTY = "<script>alert(\"1\" + '2')</script> & </td></table>"


class Parsed(Page):
    """A piece of HTML with its tags and the names of its attributes."""

    @property
    def tags(self):
        return [tag for tag, _ in self.elements]

    @property
    def attributes(self):
        return [name for _, attributes in self.elements for name in attributes]


# Each of these takes a text at every place that it has for one.
BUILDERS = {
    "text": lambda x: html.text(x),
    "join": lambda x: html.join(x, x),
    "prose": lambda x: html.prose(x),
    "paragraphs": lambda x: html.paragraphs(x, x),
    "callout": lambda x: html.callout(x, f"**{x}**"),
    "tag": lambda x: html.tag("p", x, kind=x, title=x),
    "table": lambda x: html.table([x, Cell(x, x)], [[x, x], Row([x, Cell(x, x)], x)], x, x, over={x: 1}),
    "fold": lambda x: html.fold(x, x),
    "core fold": lambda x: markup.fold(x, x, kind=x),
    "charts": lambda x: html.charts([x], x),
    "div": lambda x: html.div(x, x, title=x),
    "element": lambda x: html.element(x),
    "show": lambda x: html.show(x, x).text,
    "report table": lambda x: sliders.scrolling_table([x, x], [[x, x]]),
}


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_a_hostile_text_is_text_wherever_it_stands(build):
    made, harmless = str(build(NASTY)), Parsed(str(build("text")))
    parsed = Parsed(made)
    assert parsed.tags == harmless.tags and "script" not in parsed.tags
    assert parsed.attributes == harmless.attributes
    assert "alert(" in unescape(made)


@given(st.text(min_size=1, max_size=20), st.sampled_from(sorted(BUILDERS)))
def test_any_text_leaves_the_same_elements(said, name):
    made, harmless = (Parsed(str(BUILDERS[name](one))) for one in (said, "text"))
    assert (made.tags, made.attributes) == (harmless.tags, harmless.attributes)


def test_html_passes_once_and_a_plain_string_never():
    inner = html.tag("i", "a < b")
    assert str(html.tag("p", inner)) == "<p><i>a &lt; b</i></p>"
    assert str(html.tag("p", str(inner))) == "<p>&lt;i&gt;a &amp;lt; b&lt;/i&gt;</p>"
    assert str(html.tag("p", f"{inner}")) == "<p>&lt;i&gt;a &amp;lt; b&lt;/i&gt;</p>"


def test_a_control_of_marimo_is_html_only_where_controls_stand():
    slider = mo.ui.slider(1, 3, label="n")
    assert "<marimo-" in html.div("", slider)
    assert "<marimo-" not in html.tag("p", slider)


def test_a_number_stays_with_its_percent_sign_and_has_a_real_minus():
    assert html.text("5 % of 6 %") == Html("5\xa0% of 6\xa0%") and html.text(-0.5) == Html("−0.5")


def test_a_table_has_a_head_for_every_column_and_every_row():
    made = html.table(["a", "b", "c"], [["r", 1, 2], ["s", 3, 4]], over={"pair": 2}, caption="said")
    assert made.count('scope="row"') == 2 and made.count('scope="col"') == 3
    assert '<th scope="col" rowspan="2">a</th><th scope="colgroup" colspan="2">pair</th>' in made
    assert made.index("<caption>") < made.index("<thead>") < made.index("<tbody>")


def test_what_waits_to_be_seen_is_drawn_later():
    drawn = []
    made = html.lazily(lambda: drawn.append(1) or html.callout("x"))
    assert made.startswith("<marimo-ui-element") and "marimo-lazy" in made and not drawn


# --- the theme -------------------------------------------------------------------------------------------------------


def test_css_and_charts_have_one_theme():
    for method, look in theme.LOOKS.items():
        assert f"--{method.replace('_', '-')}: {look.colour};" in theme.css(":root")
    assert STYLE.startswith("/*") and theme.css(".board") in STYLE and json.dumps(STYLE) in Board._esm


@pytest.mark.parametrize("file", ["views/theme.css", "gdpo_core/board/board.css", "gdpo_audit/report/pages/report.css"])
def test_every_property_of_the_theme_that_a_sheet_uses_is_there(file):
    sheet = Path(file).read_text(encoding="utf-8")
    used = set(re.findall(r"var\(--((?:type|space|light|dark|r\d|grpo|gdpo|alarm|sans|mono)[\w-]*)", sheet))
    own = set(re.findall(r"--([\w-]+):", sheet))
    assert used and used - own <= theme.THEME_VALUES.keys()
