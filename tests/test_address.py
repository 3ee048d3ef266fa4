"""The address holds the state of the page: what a link sets comes back unchanged, and what it cannot set is ignored
with a note.
"""

import socket
from functools import cache
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest
import traitlets
from hypothesis import given
from hypothesis import strategies as st
from links import HOSTILE, LINKS, RAW, opened

from gdpo_core.shared.markup import tag
from views.widgets.address import CHAPTERS, CONTROLS, read_address, write_address
from views.widgets.nav import Nav
from views.widgets.pick import Pick


@cache
def untouched():
    """Return the state of the Lab's board as the page opens without a link."""
    return opened({}, "lab")[1]["board"].state


def said(page: Nav) -> dict[str, str]:
    """Return what the page writes into its address, by key, without what is empty."""
    return {key: text for key, text in page.controls.items() if text}


@pytest.mark.slow
@pytest.mark.parametrize(("chapter", "query"), LINKS, ids=[query[:30] for _, query in LINKS])
def test_an_address_restores_every_control_and_number_exactly(chapter, query):
    link = dict(parse_qsl(query))
    page, held = opened(urlencode(link), chapter)
    again, restored = opened(said(page), chapter)
    assert not page.unread and not again.unread
    assert said(again) == said(page) and again.programs == page.programs
    assert restored["board"].drawing == held["board"].drawing
    typed, _ = read_address(link)
    wrote, _ = read_address(said(page))
    assert all(wrote[key] == typed[key] for key in wrote if key in typed)


def test_of_a_control_that_an_address_sets_twice_the_last_text_counts():
    assert read_address({"evidence-draw": ["7", "9"]}) == ({"evidence-draw": 9}, False)


def test_the_links_speak_of_every_control():
    assert {key for _, query in LINKS for key, _ in parse_qsl(query)} == set(CONTROLS)


@pytest.mark.slow
@pytest.mark.parametrize("query", HOSTILE, ids=[query[:40] for query in HOSTILE])
def test_what_an_address_cannot_say_is_left_out_and_the_page_says_so(query):
    named = {key.split("-")[0] for key in parse_qs(query, keep_blank_values=True)} & set(CHAPTERS)
    for chapter in named or {"lab"}:
        page, held = opened(query, chapter)
        assert page.unread
        assert held["board"].state == untouched()  # None of these links can say anything of the Lab.
        assert not read_address(said(page))[1]  # The page can read the address that it writes.


def test_one_part_that_was_not_understood_is_not_forgotten_for_others_that_were():
    nav = Nav({}, False)
    for unread in (False, True):
        nav.unread = unread
        nav.restore("lab-task")
        assert nav.unread == unread


@pytest.mark.parametrize("query", ["theme=dark", "__theme=light", "at=nowhere", "session_id=x", "embed=lab", "v=1"])
def test_keys_of_others_are_no_fault(query):
    assert read_address(parse_qs(query)) == ({}, False)


@pytest.mark.parametrize(
    "state", [{"at": "moon"}, {"at": None}, {"asked": {"train-scenario": []}}, {"asked": "x"}], ids=str
)
def test_a_chapter_that_is_none_leaves_the_page_where_it_was(state):
    page = Nav({"at": "use"}, False)
    with pytest.raises(traitlets.TraitError, match="expected"):
        page.set_state(state)
    assert page.at == "use" and page.asked == {}


def test_a_part_that_a_picture_lacks_cannot_be_chosen():
    picture = Pick(tag("i", data_id="a"), "a")
    picture.set_state({"chosen": ""})
    for part in ("b", 5, "<"):
        with pytest.raises(traitlets.TraitError, match="expected"):
            picture.set_state({"chosen": part})
    assert picture.chosen == ""


def test_what_is_untouched_is_not_written():
    wrote = write_address({"evidence-group": 12, "run-sample": "a"}, {"run-sample": "a"})
    assert wrote == {"evidence-group": "", "run-sample": ""}


@given(st.dictionaries(st.sampled_from([*CONTROLS, "x"]), st.text(max_size=30), max_size=5))
def test_no_query_breaks_the_page(params):
    values, _ = read_address(params)
    again, unread = read_address({key: text for key, text in write_address(values, {}).items() if text})
    assert not unread and all(again[key] == values[key] for key in again)


@pytest.mark.parametrize("query", RAW, ids=[repr(query[:12]) for query in RAW])
def test_no_raw_query_harms_the_server(page_url, query):
    """The answer is the page, a redirect to it, or a refusal; nothing in it can run."""
    with socket.create_connection((urlsplit(page_url).hostname, urlsplit(page_url).port), timeout=30) as connection:
        connection.sendall(b"GET /?%b HTTP/1.0\r\nHost: page\r\n\r\n" % query)
        head, _, body = b"".join(iter(lambda: connection.recv(65536), b"")).partition(b"\r\n\r\n")
    assert int(head.split()[1]) in (200, 303, 400, 404), head
    assert b"set-cookie" not in head.lower() and b"import marimo" not in body and b"Traceback" not in body
