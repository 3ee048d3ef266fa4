"""The HTML report is whole and valid: it loads nothing from elsewhere, escapes all that a log holds, and has the
audit's numbers.
"""

import re
from dataclasses import replace
from html.parser import HTMLParser
from inspect import getmodule, getsource
from io import StringIO
from pathlib import Path

import audited
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdpo_audit import report as drawn
from gdpo_audit.findings.finding import Finding
from gdpo_audit.findings.findings import KINDS, PAPER_LINK, links
from gdpo_audit.report.meanings import COMPARED_WITH, SHIFT_EXPLAINED
from gdpo_audit.report.printing import terminal
from gdpo_audit.report.sections import HOW_COMPUTED, sections
from gdpo_core.frameworks import FRAMEWORKS
from gdpo_core.pushing import PUSH_EXPLAINED
from gdpo_core.shared.errors import InputError

VOID = {"meta", "br", "path", "rect", "circle", "line", "input"}


class Page(HTMLParser):
    """The elements and texts of an HTML page; a tag that is closed out of turn raises AssertionError."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self):
        return " ".join(self.texts)


def test_it_is_a_whole_page_that_needs_nothing_else():
    text = drawn.document([audited.report(), audited.report(path="runs/b", method=None)])
    page = Page(text)
    assert text.startswith("<!doctype html>")
    assert page.all("html") == [{"lang": "en"}] and len(page.all("title")) == len(page.all("h1")) == 1
    assert not {tag for tag, _ in page.elements} & {"script", "link", "img", "iframe", "object", "form"}
    loading = {"src", "srcset", "onload", "onclick", "style"}
    assert not any(loading & attributes.keys() for _, attributes in page.elements)
    # Nothing is loaded from elsewhere; the places to read more are links that a reader may follow.
    elsewhere = {a["href"] for a in page.all("a")}
    assert elsewhere == {PAPER_LINK, FRAMEWORKS["trl"].documentation}
    for url in elsewhere:
        text = text.replace(f'href="{url}" target="_blank" rel="noreferrer"', "")
    assert len(page.all("h2")) == 2
    assert "http" not in text and "url(" not in text and "@import" not in text


def test_no_paragraph_says_a_thing_twice():
    page = Page(drawn.document([audited.report()]))
    for text in (text for text in page.texts if "{" not in text):  # A text with { is a style sheet.
        starts = [sentence[:40] for sentence in re.split(r"(?<=[.?!]) ", text.strip()) if len(sentence) >= 40]
        assert len(set(starts)) == len(starts), text


def test_what_push_means_is_said_once_and_other_words_above_a_table_keep_nothing_out_of_it():
    report = audited.report()
    assert [draw(report).count(PUSH_EXPLAINED) for draw in (drawn.body, drawn.front)] == [1, 1]
    assert drawn.body(replace(report, first_step=SHIFT_EXPLAINED)).count(SHIFT_EXPLAINED) == 2


def test_the_fragment_is_what_the_page_holds_and_is_styled_by_its_class_alone():
    report = audited.report()
    fragment = drawn.body(report)
    assert fragment in drawn.document(report) and drawn.CSS in drawn.document(report)
    assert Page(fragment).elements[0] == ("div", {"class": "audit"})
    # Several such fragments may stand in one page, where an id has to be unique.
    assert not any("id" in attributes for _, attributes in Page(fragment).elements)
    rules = re.sub(r"/\*.*?\*/|@(media|supports)[^{]*\{", "", drawn.CSS, flags=re.S)
    selectors = [s.strip() for head in re.findall(r"([^{}]+)\{", rules) for s in head.split(",")]
    assert len(selectors) > 40 and all(s.startswith(".audit") for s in selectors)


def test_the_numbers_are_those_of_the_audit():
    report = audited.report()
    text = Page(drawn.body(report)).text
    for said in (
        report.what_ran,
        "Give correctness a smaller weight.",
        "reward-dominates",
        "55\u00a0%",
        "1,280 responses",
    ):
        assert said in text
    assert [f.severity for f in report.findings] == re.findall(r'<details class="card (\w+)" open', drawn.body(report))
    assert "z = (r − mean) / (std + 0.0001), each reward in its group" in text


def test_sections_are_those_that_both_renderings_draw():
    report = audited.report()
    page, out = Page(drawn.body(report)).text, StringIO()
    terminal.print_reports([report], out, explain=True)
    for section in sections(report):
        said = [section.title, *section.facts, *section.items]
        tables = [table for table in section.tables if table]
        said += [text for table in tables for text in (table.title, table.note, *table.meanings)]
        assert all(text in page.replace("\u00a0", " ") for text in said)
        left_out = {
            text
            for table in tables
            if table.on_screen == 0
            for text in (table.title, table.note, *table.meanings)
            if text
        }
        assert section.fold == HOW_COMPUTED or {text for text in said if text not in out.getvalue()} == left_out


def test_where_to_read_more_is_a_chapter_of_the_page_or_a_section_about_the_audit():
    from views.widgets.address import CHAPTERS

    about = (Path(__file__).parent.parent / "docs" / "audit.md").read_text(encoding="utf-8")
    places = {f"page, chapter {title}" for title in CHAPTERS.values()}
    places |= {f"docs/audit.md, {title}" for title in re.findall(r"^## (.+)$", about, re.M)}
    assert {more.place for more in KINDS.values()} <= places


def test_every_threshold_says_what_is_compared_with_it():
    with_threshold = {id_ for id_, kind in KINDS.items() if re.search("""["']threshold["']""", source(kind.look))}
    assert with_threshold == {*COMPARED_WITH}
    assert "threshold for the update share" in Page(drawn.body(audited.report())).text


def source(function):
    """Return the source of a function, together with that of each function of its module that it calls."""
    module, called = getmodule(function), [function.__name__]
    for name in called:
        names = re.findall(r"\b(\w+)\(", getsource(getattr(module, name)))
        called += [x for x in names if x not in called and getmodule(getattr(module, x, None)) is module]
    return "".join(getsource(getattr(module, name)) for name in called)


def test_the_terms_to_read_more_about_are_in_the_glossary_and_the_pages_are_https():
    from views.widgets.glossary import glossary

    assert {term for more in KINDS.values() for term in more.terms} <= glossary().keys()
    found = [link for finding in KINDS for name in FRAMEWORKS for link in links(finding, name, True)]
    assert {link.url for link in found} == {
        PAPER_LINK,
        *(f.documentation for f in FRAMEWORKS.values() if f.documentation),
    }
    assert all(re.fullmatch(r"https://[\w./-]+", link.url) and link.title.startswith("the ") for link in found)
    assert [name for name, framework in FRAMEWORKS.items() if not framework.documentation] == ["generic"]


NASTY = '<script>alert("1")</script>&\x1b[2J\x00'


def test_what_comes_from_a_log_is_escaped():
    finding = Finding(
        id=NASTY, title=NASTY, message=NASTY, to_do=NASTY, evidence={NASTY: [NASTY, {NASTY: NASTY}]}, fix=NASTY
    )
    report = audited.report((NASTY, "b", "naïve 🙂"), path=NASTY, findings=[finding])
    text = drawn.document([report, report])
    page = Page(text)
    assert not page.all("script") and "<script" not in text
    assert "\x1b" not in text and "\x00" not in text
    assert "naïve 🙂" in page.text and 'alert("1")' in page.text


@pytest.mark.slow
@given(st.text(min_size=1, max_size=30))
def test_any_name_leaves_a_page_that_parses(name):
    report = audited.report((name, f"{name}2"), steps=2, path=name)
    page = Page(drawn.body(report))
    assert len(page.all("table")) > 1
    drawn.body(report).encode("utf-8")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"severity": "bad"}, "severity: expected error, warning or info, got 'bad'"),
        ({"evidence": None}, "evidence: expected a mapping from names to figures, got NoneType"),
        ({"row": -1}, "row: expected a row of the plan, from 0, or None, got -1"),
        ({"row": 4}, "findings, row: expected a row of the plan, which has 0 rows, got 4"),
    ],
)
def test_a_finding_that_no_report_can_show_is_refused(change, sentence):
    report = audited.report()
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
        replace(report, findings=(msgspec.structs.replace(report.findings[0], **change),))


def test_nothing_to_report_on_is_an_error():
    with pytest.raises(InputError, match="reports: expected at least one, got none"):
        drawn.document([])
