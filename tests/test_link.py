"""Links: what a page can say in its address comes back as it was, and what it cannot is ignored with a note."""

import json
import re
import socket
from functools import cache
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from links import HOSTILE, QUERIES, RAW, TASKS, opened, random_link

from views.lab import Lab
from views.link import CHAPTERS, CONTROLS, VERSION, Session, parse
from views.state import State, checked, frozen


def lab(query: str = "") -> tuple[Lab, Session]:
    session = Session.of(parse_qs(query, keep_blank_values=True))
    return Lab(TASKS, session), session


@pytest.mark.parametrize("chapter", CHAPTERS)
@settings(max_examples=2 * settings.default.max_examples // 3)  # two hundred links in `make test`
@given(st.integers(0, 2**32))
def test_a_link_restores_every_control_and_number_exactly(chapter, seed):
    session, holds = opened(urlencode(random_link(chapter, seed)), chapter)
    link = session.query(chapter)
    again, restored = opened(link, chapter)
    assert not session.notes and not again.notes
    assert restored == holds and again.query(chapter) == link


def test_random_links_speak_of_every_control():
    assert {key for chapter in CHAPTERS for seed in range(20) for key in random_link(chapter, seed)} == set(CONTROLS)


def test_an_untouched_page_has_an_empty_link():
    _, session = lab()
    assert session.query("lab") == f"v={VERSION}&at=lab"


def test_a_link_keeps_what_its_chapter_never_read():
    _, session = lab("evidence-draw=7&train-compare=published")
    assert "evidence-draw=7" in session.query("evidence")
    assert "train-compare" not in session.query("evidence")


@pytest.mark.parametrize(("query", "note"), HOSTILE, ids=[query[:40] for query, _ in HOSTILE])
def test_what_a_link_cannot_say_is_ignored_with_a_note(query, note):
    named = {key.split("-")[0] for key in parse_qs(query, keep_blank_values=True)} & set(CHAPTERS)
    notes = []
    for chapter in named | {"lab"}:
        session, holds = opened(query, chapter)
        notes += session.notes
        assert holds[0] == lab()[0].state  # none of them can say anything of the Lab
        assert json.dumps(holds[1], allow_nan=False)
        again, _ = opened(session.query(chapter), chapter)
        assert not [line for line in again.notes if line.startswith(chapter)]  # what it shares is what it could read
    assert any(note in line for line in notes), notes
    assert all(len(line) < 400 for line in notes)


@pytest.mark.parametrize("query", ["theme=dark", "__theme=light", "at=nowhere", "session_id=x", "embed=lab"])
def test_keys_of_others_are_no_fault(query):
    assert not lab(query)[1].notes


def test_numbers_beyond_their_range_are_brought_into_it():
    values, notes = parse({"evidence-draw": "1e9", "lab-weights": "-3_99_1"})
    assert values == {"evidence-draw": 99, "lab-weights": (0, 5, 1.0)}
    assert not notes


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=30), max_size=5))
def test_no_query_breaks_the_page(params):
    session = Session.of(params)
    assert isinstance(Lab(TASKS, session).state, State)


@given(st.sampled_from(sorted(CONTROLS)), st.text(max_size=40))
def test_no_value_breaks_the_page(key, text):
    Lab(TASKS, Session.of({key: text}))


def answered(url: str, query: bytes) -> tuple[int, bytes, bytes]:
    """Status, head and body for a query that is sent as it is."""
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=30) as connection:
        connection.sendall(b"GET /?%b HTTP/1.0\r\nHost: page\r\n\r\n" % query)
        head, _, body = b"".join(iter(lambda: connection.recv(65536), b"")).partition(b"\r\n\r\n")
    return int(head.split()[1]), head, body


@cache
def plain_page(url: str) -> bytes:
    return answered(url, b"")[2]


def check_answer(url: str, query: bytes) -> None:
    """It is the page as everyone gets it, the way there, or a refusal in which nothing can run."""
    status, head, body = answered(url, query)
    assert status in (200, 303, 400, 404), head
    if status == 200:
        assert body == plain_page(url)
    elif status == 303:
        to = re.search(rb"(?im)^location: (.*)$", head)[1].decode().strip()
        assert not urlsplit(to).scheme and not urlsplit(to).netloc and not to.startswith(("//", "/\\")), to
    else:
        assert re.search(rb"(?im)^content-type: (application/json|text/plain)", head), head
    assert b"set-cookie" not in head.lower() and b"import marimo" not in body and b"Traceback" not in body


@settings(max_examples=settings.default.max_examples // 4)  # the server makes the page anew for each
@given(QUERIES)
def test_no_query_string_is_told_more_than_the_page(page_url, query):
    for unsendable in (b" ", b"\r", b"\n"):  # with them the line would be another
        query = query.replace(unsendable, b"+")
    check_answer(page_url, query)


@pytest.mark.parametrize("query", RAW, ids=[repr(query[:12]) for query in RAW])
def test_no_raw_query_harms_the_server(page_url, query):
    check_answer(page_url, query)


def test_what_the_browser_may_not_ask():
    good = {
        "task": 0,
        "marks": [[1, 1, 1]] * 12,
        "pays": [1, 1, 1],
        "weights": [1, 1, 1],
        "convention": "paper",
        "method": "gdpo",
    }
    answers = [len(task.answers) for task in TASKS]
    assert checked(good, answers).marks == frozen(good["marks"])
    for bad in (
        {"task": 9},
        {"task": -1},
        {"marks": [[1, 1, 1]] * 11},
        {"marks": [[1, 1]] * 12},
        {"marks": [[2, 1, 1]] * 12},
        {"pays": [0, 1, 1]},
        {"pays": [float("nan"), 1, 1]},
        {"weights": [1, 1]},
        {"weights": [-1, 1, 1]},
        {"convention": "mine"},
        {"method": "ppo"},
    ):
        with pytest.raises(ValueError):
            checked(good | bad, answers)
