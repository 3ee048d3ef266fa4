"""The glossary: one sentence per term, and every term in use."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ENTRY = re.compile(r"- \*\*(?P<term>[^*]+)\*\*(?: \((?P<others>[^)]+)\))? — (?P<sentence>.+)")
LINES = [line for line in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines() if "**" in line]
ENTRIES = [match for line in LINES if (match := ENTRY.fullmatch(line))]
NAMES = [name for entry in ENTRIES for name in (entry["term"], *(entry["others"] or "").split(", ")) if name]
DOCS = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("page", "library", "audit"))]
PROSE = [*DOCS, ROOT / "data" / "README.md", ROOT / "app.py"]
USED = [*DOCS, ROOT / "app.py", *(f for d in ("views", "gdpo_core", "gdpo_audit") for f in (ROOT / d).rglob("*.py"))]
TEXT = " ".join(" ".join(path.read_text(encoding="utf-8") for path in USED).lower().split())
# "A row a batch" is no English usage: a row per batch.
IDIOM = re.compile(
    r"\b(?:one|ids?|rows?|columns?|lines?|files?|values?|numbers?|keys?|bars?|charts?|weights?|scores?|tokens|responses|"
    r"answers|groups|rollouts|prompts?|objects?|events?|lists?|visits?|toggles?|seconds?|memory|CPU) an? "
    r"(?:reward|response|rollout|answer|prompt|group|batch|step|method|run|file|row|line|column|coin|seed|second|event|"
    r"message|visit|session|toggle|chart|mark|scenario|framework|arm|model|thing)\b",
    re.IGNORECASE,
)


def test_every_line_with_a_term_is_an_entry():
    assert len(ENTRIES) == len(LINES) >= 12


def test_a_name_stands_for_one_term():
    names = [name.lower() for name in NAMES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["term"])
def test_a_term_has_one_short_sentence(entry):
    sentence = entry["sentence"]
    assert sentence[0].isupper() and sentence.endswith(".")
    assert ". " not in sentence
    assert len(sentence.split()) <= 35


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_in_use(name):
    assert re.search(rf"\b{re.escape(name.lower())}s?\b", TEXT)


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_prose_says_per(path):
    assert not IDIOM.findall(path.read_text(encoding="utf-8"))


def test_the_idiom_is_found_where_it_stands():
    assert IDIOM.search("a row a batch") and IDIOM.search("one a reward")
    assert not IDIOM.search("a row per batch, and how strongly to reinforce an answer")
